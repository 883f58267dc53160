//! Launch plans for people and programs: the output of `regatta plan --launch`.

use base::units::{counted, shell_word};
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::document::{Cell, Table};
use crate::styler::{Styler, TextRole, clean};
use base::spec::{Launcher, ServerMode};
use triton::SpecProblem;
use triton::launch::{LaunchPreview, LaunchWorld, LaunchedServer, Port, Rank, ServePreview};

/// A longer line of a command is broken between arguments.
const WIDEST: usize = 118;

/// A heading for each server, its ranks, its environment, and the command as it can be pasted.
pub fn launch_text(launches: &[ServePreview], paint: Styler) -> String {
    if launches.is_empty() {
        return "no stage of this plan serves anything\n".to_owned();
    }
    let mut out = String::new();
    for launch in launches {
        let name = paint.tone(TextRole::Name, clean(&launch.task));
        match &launch.launch {
            LaunchPreview::Start(plan) => {
                let _ = writeln!(out, "{name}: {}", counted(plan.servers.len(), "server"));
                for server in &plan.servers {
                    server_text(server, paint, &mut out);
                }
                for note in &plan.notes {
                    let _ = writeln!(out, "  {} {}", paint.tone(TextRole::Warning, "note:"), clean(note));
                }
            }
            LaunchPreview::Attach { endpoints, models } => {
                let servers = counted(endpoints.len(), "server");
                let _ = writeln!(out, "{name}: nothing is started; attaches to {servers}");
                for one in endpoints {
                    let port = |port: Option<u16>| port.map_or_else(|| "not given".to_owned(), |port| port.to_string());
                    let _ = writeln!(out, "  {one}  gRPC; HTTP {}, metrics {}", port(one.http), port(one.metrics));
                }
                if !models.is_empty() {
                    let _ = writeln!(out, "  must have the models {}", clean(&models.join(", ")));
                }
            }
            LaunchPreview::Impossible { problems, .. } => {
                let _ = writeln!(out, "{name}: cannot be started, {}", counted(problems.len(), "reason"));
            }
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

fn server_text(server: &LaunchedServer, styler: Styler, out: &mut String) {
    let mut heading = vec![server.mode.as_str().to_owned()];
    heading.extend(server.parallelism.clone());
    heading.push(counted(server.ranks.len(), "rank"));
    heading.push(match server.launcher {
        Launcher::Mpi => "by mpirun".to_owned(),
        Launcher::Srun => "by srun".to_owned(),
        Launcher::None => "no launcher".to_owned(),
    });
    let _ = writeln!(out, "\n  {}  {}", styler.tone(TextRole::Strong, &server.name), clean(&heading.join(", ")));
    let mut rows: Vec<(&str, String)> = Vec::new();
    let ports = [("gRPC", server.ports.grpc), ("HTTP", server.ports.http), ("metrics", server.ports.metrics)];
    let ports = ports.iter().filter(|(_, port)| *port != Port::Absent).map(|(name, port)| format!("{name} {port}"));
    rows.push(("clients", format!("{}: {}", server.host, ports.collect::<Vec<_>>().join(", "))));
    let gpus = server.gpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    rows.push(("GPUs", if gpus.is_empty() { "none leased (`gpus` of the stage)".to_owned() } else { gpus }));
    rows.extend(ranks(server).into_iter().map(|line| ("", line)));
    rows.push(("ends by", ending(&server.world)));
    rows.extend(server.logs.iter().map(|log| ("log too in", log.clone())));
    if !server.unset.is_empty() {
        rows.push(("without", format!("{} of our environment", server.unset.join(", "))));
    }
    let rows = rows.into_iter().map(|(name, text)| [Cell::quiet(name), text.into()]);
    out.push_str(&Table::list([], rows).terminal(styler, "    "));
    out.push('\n');
    for line in command(server) {
        // A script is one argument of several lines.
        for line in line.trim_end().lines() {
            let _ = writeln!(out, "    {}", clean(line));
        }
    }
}

/// A line for each rank; equal ones of a large world stay lines of their own, since each has its GPU.
fn ranks(server: &LaunchedServer) -> Vec<String> {
    let line = |rank: &Rank| {
        let mut line = format!("rank {}: {}", rank.rank, rank.role);
        if let Some(gpu) = rank.gpu {
            let _ = write!(line, ", GPU {gpu}");
        }
        if !rank.loads.is_empty() {
            let _ = write!(line, ", loads {}", rank.loads.join(", "));
        }
        if !rank.shm_prefix.is_empty() {
            let _ = write!(line, ", shm {}", rank.shm_prefix);
        }
        line
    };
    if server.mode == ServerMode::Plain && server.ranks.iter().all(|rank| rank.shm_prefix.is_empty()) {
        return Vec::new();
    }
    server.ranks.iter().map(line).collect()
}

fn ending(world: &LaunchWorld) -> String {
    match world {
        LaunchWorld::Process => "ending its process group".to_owned(),
        LaunchWorld::Mpi { ranks } => format!("ending mpirun and its {}", counted(*ranks as usize, "rank")),
        LaunchWorld::Container { program, name } => format!("{program} stop {name}"),
        LaunchWorld::Slurm { ranks } => format!("ending srun, which ends its {}", counted(*ranks as usize, "task")),
    }
}

/// The command, to be pasted: variables, then a line for each piece, broken where it is too long.
fn command(server: &LaunchedServer) -> Vec<String> {
    let env = server.env.iter().map(|(name, value)| format!("{name}={}", shell_word(value))).collect::<Vec<_>>();
    let pieces = server.command.iter().map(|piece| piece.iter().map(|word| word_shown(word)).collect::<Vec<_>>());
    let pieces: Vec<Vec<String>> = (!env.is_empty()).then_some(env).into_iter().chain(pieces).collect();
    let mut lines: Vec<String> = Vec::new();
    for (index, piece) in pieces.iter().enumerate() {
        let indent = if index == 0 { "" } else { "  " };
        let mut line = indent.to_owned();
        for word in piece {
            // The colon between ranks stays with its rank.
            if line.len() + word.len() > WIDEST && !line.trim().is_empty() && word != ":" {
                lines.push(line);
                line = format!("{indent}    ");
            }
            line.push_str(word);
            line.push(' ');
        }
        lines.push(line);
    }
    let last = lines.len().saturating_sub(1);
    for line in lines.iter_mut().take(last) {
        line.truncate(line.trim_end().len());
        line.push_str(" \\");
    }
    lines
}

/// Quoted, except unknown values: `<free>` cannot be pasted, and is easier to read without quotes.
fn word_shown(word: &str) -> String {
    let quote = shell_word(word);
    if quote == word || word.contains('\n') {
        return quote;
    }
    let mut rest = word;
    let mut plain = String::new();
    while let Some((before, after)) = rest.split_once('<') {
        let Some((_, tail)) = after.split_once('>') else { return quote };
        plain.push_str(before);
        rest = tail;
    }
    plain.push_str(rest);
    if shell_word(&plain) == plain { word.to_owned() } else { quote }
}

/// What cannot be started and why, for stderr; empty when all can.
pub fn launch_problems(launches: &[ServePreview]) -> String {
    let mut out = String::new();
    for launch in launches {
        let LaunchPreview::Impossible { problems, .. } = &launch.launch else { continue };
        for SpecProblem { message, hint } in problems {
            let _ = writeln!(out, "error: {}: {}", clean(&launch.task), clean(message));
            if let Some(hint) = hint {
                let _ = writeln!(out, "  help: {}", clean(hint));
            }
        }
    }
    out
}

/// `{"launches":[{"task", "servers":[…], "notes":[…]} | {"task","attach":[…],"models":[…]} |
/// {"task","problems":[…]}]}`, indented.
pub fn launch_json(launches: &[ServePreview]) -> Value {
    let row = |launch: &ServePreview| -> Value {
        match &launch.launch {
            LaunchPreview::Start(plan) => json!({ "task": launch.task, "servers": plan.servers, "notes": plan.notes }),
            LaunchPreview::Attach { endpoints, models } => {
                json!({ "task": launch.task, "attach": endpoints, "models": models })
            }
            LaunchPreview::Impossible { problems, .. } => {
                let problem = |problem: &SpecProblem| json!({ "message": problem.message, "hint": problem.hint });
                json!({ "task": launch.task, "problems": problems.iter().map(problem).collect::<Vec<_>>() })
            }
        }
    };
    json!({ "launches": launches.iter().map(row).collect::<Vec<_>>() })
}
