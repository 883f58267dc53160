//! The hidden commands that work for a run elsewhere: a job on a node of a cluster, and the servers on one host.

use std::collections::BTreeMap;
use std::io::{BufRead as _, Write as _, stdin, stdout};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::cli::CliExit;
use crate::console::print_error;
use crate::error::CommandError;
use crate::expression_guard::watch_templates;
use crate::run::TASK_STACK;
use exec::process;
use runner::store::JobFolder;
use stages::{AgentInput, AgentMessage, AgentOrders, AttemptClaim, NodeWorkerError, run_agent, work};

pub(super) fn run(folder: PathBuf) -> Result<CliExit, CommandError> {
    let folder = JobFolder::at(folder);
    let claim = match AttemptClaim::take(&folder) {
        Ok(claim) => claim,
        // Another job does it, or no run waits for it: that is not an error.
        Err(not_done @ (NodeWorkerError::AlreadyClaimed(_) | NodeWorkerError::NoRunWaiting(_))) => {
            print_error(&format!("regatta: {not_done}\n"));
            return Ok(CliExit::Done);
        }
        Err(broken) => return Err(anyhow::Error::from(broken).into()),
    };
    claim.keep_alive(&folder);
    if claim.run_args().is_some() {
        return super::run::run_in_allocation(&folder, &claim);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().thread_stack_size(TASK_STACK).enable_all().build()?;
    process::adopt_orphans()?;
    watch_templates();
    let done = runtime.block_on(work(&folder, &claim));
    runtime.shutdown_background();
    done.map_err(anyhow::Error::from)?;
    Ok(CliExit::Done)
}

/// An `mpirun` that finds these would take all nodes of the allocation, and not only this one.
const STEP: [&str; 4] = ["SLURM_", "PMI_", "PMIX_", "PMI2_"];

/// The first line is its environment, which no other process may see; with that it re-executes itself. Then orders and
/// messages.
pub(super) fn on_host(awake: bool) -> Result<CliExit, CommandError> {
    if !awake {
        let line = process::first_line()?;
        let env: BTreeMap<String, String> =
            serde_json::from_str(&line).map_err(|_| CommandError::Usage("only a run starts this".to_owned()))?;
        return Err(process::reexec(&["__host", "--awake"], &env, &STEP).into());
    }
    let mut line = String::new();
    stdin().read_line(&mut line)?;
    let orders: AgentOrders = serde_json::from_str(&line).map_err(|error| {
        anyhow::anyhow!("it cannot read its instructions ({error}): is this program another version than the run's?")
    })?;
    let (sender, receiver) = unbounded_channel();
    std::thread::spawn(move || forward_stdin_lines(&sender));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_stack_size(TASK_STACK)
        .enable_all()
        .build()?;
    process::adopt_orphans()?;
    watch_templates();
    runtime.block_on(async {
        run_agent(AgentInput { orders, lines: receiver, send: Arc::new(send_message) }).await;
        for leftover in process::sweep(Duration::from_secs(1)).await {
            print_error(&format!(
                "ended {} ({}), which the stage had left running\n",
                leftover.program(),
                leftover.pid
            ));
        }
    });
    runtime.shutdown_background();
    Ok(CliExit::Done)
}

/// Passes lines on, until the connection ends.
fn forward_stdin_lines(sender: &UnboundedSender<String>) {
    for line in stdin().lock().lines() {
        let Ok(line) = line else { return };
        if sender.send(line).is_err() {
            return;
        }
    }
}

fn send_message(agent_message: &AgentMessage) {
    let Ok(mut text) = serde_json::to_vec(agent_message) else { return };
    text.push(b'\n');
    let mut out = stdout().lock();
    // A run that is gone does not read this; the reading side notices that.
    let _ = out.write_all(&text).and_then(|()| out.flush());
}
