//! How a plan is shown: what runs, why and at what cost; and what `serve` stages will start (`--launch`).

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::io;

use rules::time;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use triton::SpecProblem;
use triton::launch::{LaunchPreview, LaunchWorld, LaunchedServer, Port, Rank, ServePreview};

use crate::document::{Cell, Table};
use crate::styler::{Styler, TextRole, clean};
use base::event::{Decision, Prediction};
use base::spec::{Launcher, ServerMode};
use base::units::{counted, grouped, shell_word, three_digits};
use sim::StepTimeBasis;

/// One task, decided but not done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DecisionRow {
    #[serde(flatten)]
    pub decision: Decision,
    /// What a benchmark measures, where that is more than one measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<String>,
    /// What a benchmark is expected to take, by the twin of its servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<BenchEstimate>,
}

/// One line per task, further reasons below it, and a count at the end. Tasks of one stage that are skipped for the
/// same reason are one line: `triton (2)`.
pub fn decisions_text(decisions: &[DecisionRow], styler: Styler) -> String {
    let are_alike = |row: &DecisionRow, next: &DecisionRow| {
        let (row, next) = (&row.decision, &next.decision);
        row.verdict == Prediction::Skipped
            && (row.verdict, &row.stage, &row.reasons) == (next.verdict, &next.stage, &next.reasons)
    };
    let mut rows = Vec::new();
    for alike in decisions.chunk_by(are_alike) {
        let DecisionRow { decision, cost, estimate } = &alike[0];
        let Decision { id, stage, verdict, reasons, .. } = decision;
        let estimate = estimate.as_ref().map(BenchEstimate::to_string);
        let cost = cost.iter().chain(&estimate).filter(|_| *verdict == Prediction::Run);
        let name = if alike.len() == 1 { id.to_string() } else { format!("{stage} ({})", alike.len()) };
        let role = if *verdict == Prediction::Run { TextRole::Good } else { TextRole::Quiet };
        let mut reasons = reasons.iter().chain(cost).map(Cell::from);
        rows.push([Cell::new(role, verdict.as_str()), Cell::name(name), reasons.next().unwrap_or_default()]);
        rows.extend(reasons.map(|reason| [Cell::default(), Cell::default(), reason]));
    }
    let count = |choice| decisions.iter().filter(|row| row.decision.verdict == choice).count();
    let [run, cached, skipped] = [Prediction::Run, Prediction::Cached, Prediction::Skipped].map(count);
    let tasks = counted(decisions.len(), "task");
    let table = Table::list([], rows).terminal(styler, "");
    format!("{table}{tasks}: {run} to run, {cached} cached, {skipped} skipped\n")
}

/// `{"tasks":[{"id","stage","decision","reasons":[…]}]}`, indented, with a newline at the end.
///
/// # Errors
/// What `to` refuses.
pub fn write_decisions_json(decisions: &[DecisionRow], to: &mut impl io::Write) -> io::Result<()> {
    #[derive(Serialize)]
    struct Answer<'a> {
        tasks: &'a [DecisionRow],
    }
    // Through no `Value` and no text: a plan may have many tasks.
    serde_json::to_writer_pretty(&mut *to, &Answer { tasks: decisions })?;
    to.write_all(b"\n")
}

/// One benchmark, in virtual time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BenchEstimate {
    /// Of all of its measurements, seconds.
    pub seconds: f64,
    /// It may end earlier: a search.
    pub is_at_most: bool,
    /// GPUs of its servers; 0 where they are simulated ones.
    pub gpus: u32,
    /// Of all measurements. `None` for a search.
    pub load: Option<EstimatedLoad>,
}

/// What goes through the servers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EstimatedLoad {
    pub requests: f64,
    /// While requests are sent and answered.
    pub requests_per_second: f64,
    pub tokens_per_second: f64,
    /// Requests come faster than the servers answer them.
    pub falls_behind: bool,
    /// Requests per second that full servers answer.
    pub sustained: f64,
    /// `target_qps`, where it differs from that by more than the band.
    pub doubtful_target: Option<f64>,
}

impl BenchEstimate {
    pub fn gpu_hours(&self) -> f64 {
        f64::from(self.gpus) * self.seconds / 3600.0
    }
}

impl Serialize for BenchEstimate {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut value = json!({"simulated": true, "seconds": self.seconds, "at_most": self.is_at_most,
            "gpus": self.gpus, "gpu_hours": self.gpu_hours()});
        if let Some(load) = &self.load {
            value["requests"] = json!(load.requests);
            value["requests_per_second"] = json!(load.requests_per_second);
            value["output_tokens_per_second"] = json!(load.tokens_per_second);
            value["falls_behind"] = json!(load.falls_behind);
            value["doubtful_target_qps"] = json!(load.doubtful_target);
        }
        value.serialize(to)
    }
}

/// `model: about 3 min 36 s, 0.48 GPU-hours: 24,576 requests, 114 req/s, 33,680 tok/s`
impl fmt::Display for BenchEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = if self.is_at_most { "at most" } else { "about" };
        write!(f, "model: {about} {}", time(self.seconds))?;
        if self.gpus > 0 {
            write!(f, ", {} GPU-hours", three_digits(self.gpu_hours()))?;
        }
        let Some(load) = &self.load else { return Ok(()) };
        let [requests, tokens] = [load.requests, load.tokens_per_second].map(|number| grouped(number, 0));
        write!(f, ": {requests} requests, {} req/s, {tokens} tok/s", three_digits(load.requests_per_second))?;
        if load.falls_behind {
            write!(f, "; requests come faster than the servers answer them")?;
        }
        if let Some(target) = load.doubtful_target {
            let (target, full) = (three_digits(target), three_digits(load.sustained));
            write!(f, "; target_qps is {target}, full servers answer {full} req/s: one of them is doubtful")?;
        }
        Ok(())
    }
}

/// What all estimates of a plan rest on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EstimateBasis {
    /// Names of models and of GPUs, and what their step times rest on.
    pub servers: BTreeSet<(String, String, StepTimeBasis)>,
    /// The simulated system that stands for a real one.
    pub twin: Option<String>,
    /// Lengths are those of the stand-in for a benchmark's data set.
    pub has_assumed_lengths: bool,
    /// Of a load were simulated this many requests at most; 0: all.
    pub sample: usize,
}

/// The sum of all estimates, and lines with what they rest on. Empty: nothing was estimated.
pub fn estimates_note(estimates: &[BenchEstimate], basis: &EstimateBasis) -> String {
    if estimates.is_empty() {
        return String::new();
    }
    let seconds: f64 = estimates.iter().map(|one| one.seconds).sum();
    let hours: f64 = estimates.iter().map(BenchEstimate::gpu_hours).sum();
    let gpus = estimates.iter().map(|one| one.gpus).max().unwrap_or_default();
    let at_most = if estimates.iter().any(|one| one.is_at_most) { "at most " } else { "" };
    let mut out = format!("model, not a measurement: the benchmarks take {at_most}{}", time(seconds));
    let _ = match gpus {
        0 => write!(out, " on simulated servers, which use no GPU"),
        1 => write!(out, ", {} GPU-hours", three_digits(hours)),
        _ => write!(out, ", {} GPU-hours on {gpus} GPUs", three_digits(hours)),
    };
    if let Some(twin) = &basis.twin {
        let _ = write!(out, ", by the twin {twin}");
    }
    for (model, gpu, rests_on) in &basis.servers {
        let band = rests_on.with_band();
        let _ = write!(out, "\n  step times of {model} on {gpu}: {rests_on} ({band} of the tokens per second)");
    }
    if basis.has_assumed_lengths {
        out.push_str("\n  lengths: those of the benchmark's stand-in data set");
    }
    if basis.sample > 0 {
        let sample = grouped(basis.sample as f64, 0);
        let _ = write!(out, "\n  {sample} requests of each load were simulated; longer loads are scaled in proportion");
    }
    out.push_str("\n  builds and starts of servers are not counted");
    out
}

// `plan --launch`: what each `serve` stage will start.

/// A longer line of a command is broken between arguments.
const WIDEST: usize = 118;

/// A heading for each server, its ranks, its environment, and the command as it can be pasted.
pub fn launch_text(launches: &[ServePreview], paint: Styler) -> String {
    if launches.is_empty() {
        return "no stage of this plan starts a server\n".to_owned();
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

#[cfg(test)]
mod tests {
    use super::*;
    use base::event::TaskId;

    fn row(id: &str, verdict: Prediction, reasons: &[&str]) -> DecisionRow {
        let decision = Decision {
            id: TaskId::new(id),
            stage: id.split('/').next().unwrap_or_default().to_owned(),
            verdict,
            reasons: reasons.iter().map(ToString::to_string).collect(),
            fails: false,
            may_be_cached: false,
        };
        DecisionRow { decision, cost: None, estimate: None }
    }

    fn decisions() -> Vec<DecisionRow> {
        vec![
            row("engine", Prediction::Cached, &[]),
            row("repository/server", Prediction::Run, &["action.servers: 1 → 2", "input `weights` changed"]),
            row("smoke", Prediction::Skipped, &["`when` is false"]),
        ]
    }

    #[test]
    fn instances_that_are_skipped_alike_are_one_line() {
        let skipped = |id: &str, why: &str| row(id, Prediction::Skipped, &[why]);
        let tasks = [skipped("a/x", "no"), skipped("a/y", "no"), skipped("a/z", "other"), skipped("b", "other")];
        insta::assert_snapshot!(decisions_text(&tasks, Styler::OFF), @r"
        skipped  a (2)  no
        skipped  a/z    other
        skipped  b      other
        4 tasks: 0 to run, 0 cached, 4 skipped
        ");
    }

    #[test]
    fn a_person_reads_every_reason() {
        insta::assert_snapshot!(decisions_text(&decisions(), Styler::OFF), @r"
        cached   engine
        run      repository/server  action.servers: 1 → 2
                                    input `weights` changed
        skipped  smoke              `when` is false
        3 tasks: 1 to run, 1 cached, 1 skipped
        ");
    }

    #[test]
    fn a_program_reads_the_same() {
        let mut json = Vec::new();
        write_decisions_json(&decisions(), &mut json).unwrap();
        insta::assert_snapshot!(String::from_utf8(json).unwrap(), @r#"
        {
          "tasks": [
            {
              "id": "engine",
              "stage": "engine",
              "decision": "cached",
              "reasons": []
            },
            {
              "id": "repository/server",
              "stage": "repository",
              "decision": "run",
              "reasons": [
                "action.servers: 1 → 2",
                "input `weights` changed"
              ]
            },
            {
              "id": "smoke",
              "stage": "smoke",
              "decision": "skipped",
              "reasons": [
                "`when` is false"
              ]
            }
          ]
        }
        "#);
    }

    fn offline() -> BenchEstimate {
        let load = EstimatedLoad {
            requests: 24_576.0,
            requests_per_second: 114.2,
            tokens_per_second: 33_680.4,
            falls_behind: false,
            sustained: 118.2,
            doubtful_target: None,
        };
        BenchEstimate { seconds: 216.0, is_at_most: false, gpus: 8, load: Some(load) }
    }

    #[test]
    fn an_estimate_has_time_and_cost_and_what_it_is_of() {
        let text = "model: about 3 min 36 s, 0.48 GPU-hours: 24,576 requests, 114 req/s, 33,680 tok/s";
        assert_eq!(offline().to_string(), text);
        let search = BenchEstimate { is_at_most: true, gpus: 0, load: None, ..offline() };
        assert_eq!(search.to_string(), "model: at most 3 min 36 s");
        let mut late = offline();
        late.load.as_mut().unwrap().falls_behind = true;
        assert!(late.to_string().ends_with("; requests come faster than the servers answer them"));
        late.load.as_mut().unwrap().doubtful_target = Some(300.0);
        let doubt = "; target_qps is 300, full servers answer 118 req/s: one of them is doubtful";
        assert!(late.to_string().ends_with(doubt), "{late}");
    }

    #[test]
    fn the_note_says_what_the_numbers_rest_on() {
        let mut basis = EstimateBasis { twin: Some("sim-h200-x8".into()), sample: 4000, ..EstimateBasis::default() };
        let fitted = StepTimeBasis::Fitted { source: "rows of v5.1".to_owned() };
        basis.servers.insert(("llama2-70b".into(), "H200".into(), fitted));
        assert_eq!(
            estimates_note(&[offline(), offline()], &basis),
            "model, not a measurement: the benchmarks take 7 min 12 s, 0.96 GPU-hours on 8 GPUs, by the twin \
                sim-h200-x8\n  \
             step times of llama2-70b on H200: fitted to rows of v5.1 (fitted ±15 % of the tokens \
                per second)\n  \
             4,000 requests of each load were simulated; longer loads are scaled in proportion\n  \
             builds and starts of servers are not counted"
        );
        assert_eq!(estimates_note(&[], &basis), "");
    }
}
