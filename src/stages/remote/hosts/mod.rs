//! `host: { ssh: [a, b] }`, and `host: { slurm: { each_node: true } }` — the servers of one stage on several machines
//! at once.
//!
//! Each machine starts what one machine would start: a connection (`ssh`, or `srun` inside an allocation) starts this
//! same program there, the agent ([`run_agent`]), which does the stage with the code that does it here. Ports,
//! readiness, ranks, containers, what is removed afterwards, and what a failure means are thereby known where the
//! servers are.
//!
//! ```text
//!  here:  coordinator ─ connection ─ ssh node-a ═ env, orders, go, beat, …, stop ═> agent ─ StageExecutor ─ server
//!                     └ connection ─ ssh node-b <═ hello, event, beat, …, ended ═══ agent ─ StageExecutor ─ server
//! ```
//!
//! # What holds, whatever happens
//!
//! - Nothing starts anywhere before the handshake with every host; all problems of all hosts are reported at once.
//! - An agent that receives nothing for [`agent::DESERTED`], or whose connection ends, ends its servers by itself, for
//!   certain. An agent that is killed has a watchdog, as a run has.
//! - A host that is silent for [`agent::SILENT`] is lost: the stage has failed with its name, and the other hosts'
//!   servers are stopped.
//! - Secrets go over the connection, never onto a command line.

mod agent;
mod connection;
mod coordinator;
mod host_place;

use std::path::Path;

pub use agent::{AgentInput, AgentMessage, AgentOrders, run_agent};
use base::event::{Done, Failure, RunId};
pub use host_place::{agent_command_lines, query_host};
use plan::manifest::model::{Slurm, SshHost};
use runner::{Lease, within};

/// On machines that are reached over ssh.
pub async fn over_ssh(lease: Lease, hosts: &[SshHost], home: &Path, run: &RunId) -> Result<Done, Failure> {
    let places = host_place::over_ssh(hosts, &lease.project)?;
    let (limit, stop) = (lease.task.timeout, lease.stop.clone());
    within(limit, &stop, Box::pin(coordinator::perform(lease, places, home, run))).await
}

/// On every node of the allocation that this runs in.
pub async fn on_each_node(lease: Lease, slurm: &Slurm, home: &Path, run: &RunId) -> Result<Done, Failure> {
    let places = host_place::of_allocation(slurm, &lease.project).await?;
    coordinator::perform(lease, places, home, run).await
}
