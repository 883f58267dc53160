//! One server's life: started, watched, ended, and what it leaves behind removed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch::Receiver;

use super::planned_server::{PlannedServer, StopTarget};
use super::stop::{self, SHORT};
use super::watch::{self, ServerFault, WatchReport};
use crate::container::emit_removal;
use base::event::{Endpoint, Event, ExternalResource, Stop, TaskId};
use exec::process::{ProcessCommand, ProcessExit, Running, Splitter, remove_shared_memory};

/// How often the log of an MPI world is taken apart.
const SPLIT: Duration = Duration::from_millis(500);
/// A server that has not answered for this long is not waited for as long as one that drains.
const NOT_HEARD: Duration = Duration::from_secs(3);

/// How one server left.
pub struct ServerExit {
    pub server: usize,
    pub exit: ProcessExit,
    pub why: ExitCause,
    /// After its start.
    pub after: Duration,
    /// The rank that was seen to be gone first.
    pub first_gone: Option<u32>,
}

pub enum ExitCause {
    /// It ended by itself.
    Unexpected,
    /// We requested it.
    Requested,
    /// Its process was there and it was of no use any more, so it was ended.
    Unhealthy(ServerFault),
}

/// A server that has been started.
pub struct RunningServer {
    pub index: usize,
    pub server: Arc<PlannedServer>,
    pub running: Running,
    /// A command with the server's surroundings, for commands to its container program.
    pub order: ProcessCommand,
    pub external_resources: Vec<ExternalResource>,
    pub quit: Stop,
    /// Filled when all servers are up.
    pub ready_endpoint: Receiver<Option<Endpoint>>,
    pub task: TaskId,
    pub emit: Arc<dyn Fn(Event) + Send + Sync>,
}

impl RunningServer {
    pub async fn run(self) -> ServerExit {
        let Self { index, server, mut running, order, external_resources, quit, ready_endpoint: up, task, emit } = self;
        let begun = Instant::now();
        let pgid = running.pgid();
        let seen = parking_lot::Mutex::new(WatchReport::default());
        let mut splitter = matches!(server.stop_target, StopTarget::Mpi { .. }).then(|| Splitter::new(&server.log));
        let why = tokio::select! {
            biased;
            _ = running.ended() => ExitCause::Unexpected,
            () = quit.requested() => ExitCause::Requested,
            ill = watch::wait_for_fault(&server, pgid, up, &seen) => ExitCause::Unhealthy(ill),
            () = split(&mut splitter) => unreachable!("it has no end"),
        };
        let after = begun.elapsed();
        if let ExitCause::Unhealthy(ill) = &why {
            let text = format!("{} is of no use any more and is ended: {ill}", server.name);
            emit(Event::Notice { task: Some(task.clone()), text });
        }
        let WatchReport { last_answer_at, first_gone } = std::mem::take(&mut *watch::lock_report(&seen));
        let (exit, is_gone) = match &why {
            ExitCause::Unexpected => stop::after_death(running, &server, &order).await,
            ExitCause::Requested => {
                let is_unresponsive = last_answer_at.is_some_and(|last_answer_at| last_answer_at.elapsed() > NOT_HEARD);
                let grace = if is_unresponsive { SHORT } else { stop::grace(&server.argv) };
                stop::stop(running, &server, &order, grace, &quit).await
            }
            ExitCause::Unhealthy(_) => stop::stop(running, &server, &order, SHORT, &quit).await,
        };
        if let Some(splitter) = &mut splitter {
            let _ = splitter.step();
        }
        for thing in external_resources {
            if let ExternalResource::SharedMemory { mark } = &thing {
                remove_shared_memory(mark);
            }
            emit_removal(&*emit, &task, thing, is_gone);
        }
        emit(Event::ProcessEnded { task, pgid });
        ServerExit { server: index, exit, why, after, first_gone }
    }
}

/// Takes the log apart for as long as it grows.
async fn split(splitter: &mut Option<Splitter>) {
    let Some(splitter) = splitter else { return std::future::pending().await };
    loop {
        tokio::time::sleep(SPLIT).await;
        // The whole log is there in any case.
        let _ = splitter.step();
    }
}
