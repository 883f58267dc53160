//! Watching a server while it is needed. Its own process shows when it ends; this module finds what it does not show:
//! it no longer answers, one of its ranks is gone, or a Python model's process is gone while the server still reports
//! "ready".

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use http::HeaderMap;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch::Receiver;
use tokio::time::{MissedTickBehavior, interval};

use super::planned_server::{PlannedServer, ReadinessProbe};
use super::ready::{self, EVERY, HealthProbe, SilenceLimits, UnresponsiveServer};
use base::event::Endpoint;
use exec::process::{self, ProcessRef};
use triton::TritonClient;
use triton::launch::LaunchWorld;

/// The program that runs a Python model, and the variable with a rank's number.
const STUB: &str = "triton_python_backend_stub";
const RANK: &str = "OMPI_COMM_WORLD_RANK";
/// How long mpirun has to notice that a rank is gone, to end the others and to report the cause: its report is more
/// precise than ours.
const MPIRUN_NOTICES: Duration = Duration::from_secs(3);
/// Time limit of a single probe.
const QUERY_TIMEOUT: Duration = Duration::from_secs(2);

/// What is wrong with a server while its process is still there.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerFault {
    Silent(UnresponsiveServer),
    /// The process of a Python model is gone: its streams hang, and the server reports that it is ready.
    Stub {
        model: String,
        pid: i32,
    },
    /// A rank is gone, and `mpirun` has not noticed.
    Rank {
        rank: u32,
        pid: i32,
    },
}

impl std::fmt::Display for ServerFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Silent(silent) => write!(f, "{silent}"),
            Self::Stub { model, pid } => {
                write!(f, "the process of its Python model {model} ({pid}) is gone, and it still reports ready")
            }
            Self::Rank { rank, pid } => write!(f, "rank {rank} ({pid}) is gone, and mpirun continues without it"),
        }
    }
}

/// What a watch has seen, for the report of the end.
#[derive(Debug, Default)]
pub struct WatchReport {
    /// When the server last answered.
    pub last_answer_at: Option<Instant>,
    /// The rank that was gone first.
    pub first_gone: Option<u32>,
}

/// Resolves when a server has failed: ranks are checked from the start, the rest once it was up.
pub async fn wait_for_fault(
    server: &PlannedServer,
    pid: i32,
    mut up: Receiver<Option<Endpoint>>,
    seen: &Mutex<WatchReport>,
) -> ServerFault {
    let came_up = up.clone();
    let after_up = async {
        let up = match up.wait_for(Option::is_some).await {
            Ok(up) => up.clone(),
            Err(_) => None,
        };
        // The watch is not needed any more.
        let Some(up) = up else { return std::future::pending().await };
        let question = match server.probe {
            // Not every server over HTTP has `/health`.
            ReadinessProbe::Detect if up.http.is_some() => HealthProbe::Port,
            ReadinessProbe::Kserve | ReadinessProbe::Detect => HealthProbe::Kserve(Vec::new(), HeaderMap::new()),
            ReadinessProbe::Port => HealthProbe::Port,
            ReadinessProbe::Health | ReadinessProbe::OpenAi => HealthProbe::Health,
        };
        let record_answer = |at| lock_report(seen).last_answer_at = Some(at);
        let work = || process::processor_time(pid);
        tokio::select! {
            silent = ready::silent(&up, question, SilenceLimits::USUAL, work, record_answer) => {
                ServerFault::Silent(silent)
            }
            ill = stub_missing(pid, &up) => ill,
        }
    };
    tokio::select! {
        ill = after_up => ill,
        ill = rank_missing(server, pid, came_up, seen) => ill,
    }
}

pub fn lock_report(seen: &Mutex<WatchReport>) -> MutexGuard<'_, WatchReport> {
    seen.lock()
}

/// Resolves when a rank of this machine is gone and mpirun has had its time to notice.
async fn rank_missing(
    server: &PlannedServer,
    mpirun: i32,
    mut up: Receiver<Option<Endpoint>>,
    seen: &Mutex<WatchReport>,
) -> ServerFault {
    if !matches!(server.stop_target, LaunchWorld::Mpi { .. }) {
        return std::future::pending().await;
    }
    let mut tick = interval(EVERY / 4);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut seen_ranks = BTreeMap::new();
    let mut gone_since: Option<Instant> = None;
    let mut is_up = false;
    loop {
        // A process that leaves right after the server came up must be known by then.
        tokio::select! {
            _ = tick.tick() => {}
            _ = up.wait_for(Option::is_some), if !is_up => is_up = true,
        }
        seen_ranks.extend(ranks(mpirun));
        let Some((rank, kin)) = seen_ranks.iter().find(|(_, kin): &(&u32, &ProcessRef)| !kin.is_alive()) else {
            continue;
        };
        lock_report(seen).first_gone.get_or_insert(*rank);
        if gone_since.get_or_insert_with(Instant::now).elapsed() > MPIRUN_NOTICES {
            return ServerFault::Rank { rank: *rank, pid: kin.pid };
        }
    }
}

/// The ranks that mpirun has started on this machine.
pub fn ranks(mpirun: i32) -> BTreeMap<u32, ProcessRef> {
    let rank_of = |kin: &ProcessRef| kin.variable(RANK)?.parse().ok();
    process::children(mpirun).into_iter().filter_map(|kin| Some((rank_of(&kin)?, kin))).collect()
}

/// Resolves when the process of a Python model is gone that should be there.
async fn stub_missing(pid: i32, endpoint: &Endpoint) -> ServerFault {
    /// Looking for new ones reads a file for each thread of the server, so it is done seldom.
    const LOOKS: u32 = 5;
    let stubs = || process::below(pid).into_iter().filter(|kin| kin.program() == STUB).collect::<Vec<_>>();
    let mut tick = interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut seen_stubs = stubs();
    for round in 1_u32.. {
        tick.tick().await;
        for stub in seen_stubs.iter().filter(|stub| !stub.is_alive()) {
            let model = model_of(&stub.command);
            // Unloading a model ends its process too, and then it is not ready.
            if is_ready(endpoint, &model).await {
                return ServerFault::Stub { model, pid: stub.pid };
            }
        }
        seen_stubs.retain(ProcessRef::is_alive);
        if round.is_multiple_of(LOOKS) {
            // One look may miss a process: known ones stay known.
            seen_stubs.extend(stubs().into_iter().filter(|stub| !seen_stubs.contains(stub)).collect::<Vec<_>>());
        }
    }
    std::future::pending().await
}

async fn is_ready(endpoint: &Endpoint, model: &str) -> bool {
    let ready = async { TritonClient::connect(endpoint).await?.is_model_ready(model, "").await };
    matches!(tokio::time::timeout(QUERY_TIMEOUT, ready).await, Ok(Ok(true)))
}

/// The model in a stub's command line: `…/triton_python_backend_stub REPOSITORY/MODEL/VERSION/model.py …`.
fn model_of(command: &str) -> String {
    let path = command.split(' ').nth(1).unwrap_or_default();
    path.rsplit('/').nth(2).unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stub_names_its_model() {
        let command = "/opt/backends/python/triton_python_backend_stub \
         /r/triton_model_repo_0/tensorrt_llm/1/model.py prefix0_a 1048576 1048576 51 /opt/backends/python 336 \
         tensorrt_llm_0_0 DEFAULT";
        assert_eq!(model_of(command), "tensorrt_llm");
    }
}
