//! Requirements of a host: looked at by the agent, before anything starts anywhere.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::agent_protocol::{AgentOrders, HostProblem};
use exec::process::ProcessCommand;
use plan::manifest::model::{Action, Serve};
use plan::{ActionError, read_action};
use runner::Lease;

/// A folder that was made a moment ago may be hidden from here for this long, by what a network filesystem remembers.
const LATENCY: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(200);

/// The programs that a stage's servers need where they run; what is in a container is the container's.
pub fn programs(lease: &Lease) -> Result<Vec<String>, ActionError> {
    if lease.assignment.container.is_some() {
        return Ok(Vec::new());
    }
    Ok(match read_action(&lease.task.id, &lease.assignment.action)? {
        Action::Serve(Serve::Triton(server)) if server.container.is_none() => vec![server.program.clone()],
        Action::Serve(Serve::TrtllmServe(server)) => vec![server.program.clone()],
        Action::Serve(Serve::Vllm(server)) => server.program.first().cloned().into_iter().collect(),
        Action::Serve(Serve::Command(server)) => server.words.first().cloned().into_iter().collect(),
        _ => Vec::new(),
    })
}

/// Everything that is wrong with this machine. May wait for a slow network filesystem.
pub fn problems(orders: &AgentOrders) -> Vec<HostProblem> {
    let mut problems = Vec::new();
    if !appears(&orders.out) {
        let what = format!("{} is not the project folder of this run", orders.project.display());
        return vec![HostProblem::new(
            what,
            "the project folder must be the same there, on a filesystem that all hosts share",
        )];
    }
    let test = orders.out.join(".writable");
    if let Err(error) = fs::write(&test, "").and_then(|()| fs::remove_file(&test)) {
        let what = format!("{} cannot be written: {error}", orders.out.display());
        problems.push(HostProblem::new(what, "the user of the ssh login needs write permission in the project folder"));
    }
    for program in &orders.programs {
        let mut look = ProcessCommand::new([program.clone()], &orders.out, &orders.log);
        if let Some(path) = orders.assignment.env.get("PATH") {
            look = look.set("PATH", path);
        }
        let is_path = program.contains('/');
        if !look.is_found() || (is_path && !orders.out.join(program).exists()) {
            let within = if is_path { String::new() } else { " in its PATH".to_owned() };
            let hint = "install it there, or name it by its whole path; a shell that is not a login shell has a shorter PATH, and `env: { PATH: … }` of the stage sets it";
            problems.push(HostProblem::new(format!("there is no `{program}`{within}"), hint));
        }
    }
    problems
}

fn appears(folder: &Path) -> bool {
    let since = Instant::now();
    loop {
        // Reading the parent makes a network filesystem look again.
        let _ = folder.parent().map(fs::read_dir);
        if folder.is_dir() {
            return true;
        }
        if since.elapsed() > LATENCY {
            return false;
        }
        std::thread::sleep(LOOK);
    }
}
