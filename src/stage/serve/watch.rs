//! Watching a server while it is needed. Its own process tells when it ends; here is what it does not tell: it answers
//! no more, one of its ranks is gone, or a Python model's process is gone while the server goes on saying "ready".

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tokio::sync::watch::Receiver;
use tokio::time::{MissedTickBehavior, interval};

use super::plan::{By, Planned, World};
use crate::event::Endpoint;
use crate::process::{self, Kin};
use crate::stage::health::{self, EVERY, Question, SILENCE, Silent};
use crate::triton::TritonClient;

/// The program that runs a Python model, and what a rank knows itself by.
const STUB: &str = "triton_python_backend_stub";
const RANK: &str = "OMPI_COMM_WORLD_RANK";
/// No single question waits longer.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is wrong with a server whose process is there.
#[derive(Clone, Debug, PartialEq)]
pub enum Ill {
    Silent(Silent),
    /// The process of a Python model is gone: its streams hang, and the server says that it is ready.
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

impl std::fmt::Display for Ill {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Silent(silent) => write!(f, "{silent}"),
            Self::Stub { model, pid } => {
                write!(f, "the process of its Python model {model} ({pid}) is gone, and it says that it is ready")
            }
            Self::Rank { rank, pid } => write!(f, "rank {rank} ({pid}) is gone, and mpirun goes on without it"),
        }
    }
}

/// Resolves when a server that was up is ill. `heard` is called at each answer.
pub async fn ill(server: &Planned, pid: i32, mut up: Receiver<Option<Endpoint>>, heard: impl Fn(Instant)) -> Ill {
    let up = match up.wait_for(Option::is_some).await {
        Ok(up) => up.clone(),
        Err(_) => None,
    };
    // Nobody waits for it any more.
    let Some(up) = up else { return std::future::pending().await };
    let question = match server.by {
        By::Kserve => Question::Kserve(Vec::new()),
        By::Port => Question::Port,
    };
    tokio::select! {
        silent = health::silent(&up, question, SILENCE, heard) => Ill::Silent(silent),
        ill = missing(server, pid, &up) => ill,
    }
}

/// Resolves when somebody below the server's process is gone who should be there.
async fn missing(server: &Planned, pid: i32, endpoint: &Endpoint) -> Ill {
    let mut tick = interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut known = Family::of(server, pid);
    loop {
        tick.tick().await;
        for (rank, kin) in &known.ranks {
            if !kin.is_alive() {
                return Ill::Rank { rank: *rank, pid: kin.pid };
            }
        }
        for stub in known.stubs.iter().filter(|stub| !stub.is_alive()) {
            let model = model_of(&stub.command);
            // A model that somebody unloads ends its process too, and is not ready then.
            if is_ready(endpoint, &model).await {
                return Ill::Stub { model, pid: stub.pid };
            }
        }
        // Models come and go; a rank that is gone stays known, so that it is missed.
        known.stubs = Family::of(server, pid).stubs;
    }
}

async fn is_ready(endpoint: &Endpoint, model: &str) -> bool {
    let ask = async { TritonClient::connect(endpoint).await?.is_model_ready(model).await };
    matches!(tokio::time::timeout(PATIENCE, ask).await, Ok(Ok(true)))
}

/// Who should be there.
struct Family {
    stubs: Vec<Kin>,
    ranks: BTreeMap<u32, Kin>,
}

impl Family {
    fn of(server: &Planned, pid: i32) -> Self {
        let below = process::below(pid);
        let mut ranks = BTreeMap::new();
        if matches!(server.world, World::Mpi { .. }) {
            ranks = self::ranks(&below);
        }
        Self { stubs: below.into_iter().filter(|kin| kin.program() == STUB).collect(), ranks }
    }
}

/// The first process of each rank: parents come before children.
pub fn ranks(below: &[Kin]) -> BTreeMap<u32, Kin> {
    let mut ranks = BTreeMap::new();
    for kin in below {
        if let Some(rank) = kin.variable(RANK).and_then(|rank| rank.parse().ok()) {
            ranks.entry(rank).or_insert_with(|| kin.clone());
        }
    }
    ranks
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
        let command = "/opt/backends/python/triton_python_backend_stub /r/triton_model_repo_0/tensorrt_llm/1/model.py prefix0_a 1048576 1048576 51 /opt/backends/python 336 tensorrt_llm_0_0 DEFAULT";
        assert_eq!(model_of(command), "tensorrt_llm");
    }
}
