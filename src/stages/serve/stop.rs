//! Stopping a server completely, each kind of world by its own means, and removing what outlives it.
//!
//! | world | graceful | for certain |
//! |---|---|---|
//! | a process | TERM to its group | KILL to its group, then to each process that carries its mark |
//! | MPI | TERM to rank 0, which drains; the others leave with it; TERM to mpirun | the same: ranks carry the mark |
//! | container | `PROGRAM stop -t SECONDS NAME` | `PROGRAM kill NAME`, `PROGRAM rm -f NAME` |

use std::ffi::OsString;
use std::time::Duration;

use super::planned_server::PlannedServer;
use super::watch::ranks;
use crate::container::{remove, run_engine_ignoring_output};
use base::event::{ExternalResource, Stop};
use base::spec::MOST_SECONDS;
use exec::process::{ProcessCommand, ProcessExit, Running};
use triton::launch::LaunchWorld;

/// Triton lets what is in flight finish for this long before it leaves by itself (`--exit-timeout-secs`).
const EXIT_TIMEOUT: Duration = Duration::from_secs(30);
/// What we give it beyond its own limit.
const MARGIN: Duration = Duration::from_secs(5);
/// A server that does not answer will not drain either.
pub const SHORT: Duration = Duration::from_secs(1);
/// How long the other ranks and mpirun may take once rank 0 has left.
const WORLD_LEAVES: Duration = Duration::from_secs(3);
/// How long a container program may take for one command beyond the wait that it was given.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(50);

/// How long this server may take to end: its own exit timeout and a little more.
pub fn grace(argv: &[OsString]) -> Duration {
    let words: Vec<_> = argv.iter().map(|word| word.to_string_lossy()).collect();
    let joined = words.iter().find_map(|word| word.strip_prefix("--exit-timeout-secs=")?.parse().ok());
    let apart = || {
        let at = words.iter().position(|word| word == "--exit-timeout-secs")?;
        words.get(at + 1)?.parse().ok()
    };
    let most = u64::from(MOST_SECONDS);
    joined.or_else(apart).map_or(EXIT_TIMEOUT, |seconds: u64| Duration::from_secs(seconds.min(most))) + MARGIN
}

/// Gives the regions of Python models unique names, so that what a killed server leaves in `/dev/shm` can be
/// removed. `…,shm-region-prefix-name=prefix0_` → `…=prefix0_MARK_`, wherever in a command line that stands.
pub fn mark_shared_memory(argv: &mut [OsString], mark: &str) -> Vec<ExternalResource> {
    const OPTION: &str = "shm-region-prefix-name=";
    let mut marked = Vec::new();
    for word in argv {
        let Some(text) = word.to_str().filter(|text| text.contains(OPTION)) else { continue };
        let mut pieces = text.split(OPTION);
        let mut whole = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            // In a script of Slurm's the prefix may be quoted, with an expression in it.
            let end = match piece.strip_prefix('"') {
                Some(quoted) => quoted.find('"').map_or(piece.len(), |at| at + 1),
                None => piece.find([' ', ',', ';', '\n', '\'']).unwrap_or(piece.len()),
            };
            let (prefix, rest) = piece.split_at(end);
            whole = format!("{whole}{OPTION}{prefix}{mark}_{rest}");
        }
        *word = whole.into();
        marked = vec![ExternalResource::SharedMemory { mark: mark.to_owned() }];
    }
    marked
}

/// What else outlives the server's process.
pub fn external_resource(world: &LaunchWorld) -> Option<ExternalResource> {
    match world {
        LaunchWorld::Container { program, name } => {
            Some(ExternalResource::Container { program: program.clone(), name: name.clone() })
        }
        LaunchWorld::Process | LaunchWorld::Mpi { .. } | LaunchWorld::Slurm { .. } => None,
    }
}

/// Ends a server: requests it, waits for `grace`, and kills what is left. `order` is a command with the server's
/// surroundings. The second value: whether its container, if it has one, is gone for certain.
pub async fn stop(
    mut running: Running,
    server: &PlannedServer,
    order: &ProcessCommand,
    grace: Duration,
    quit: &Stop,
) -> (ProcessExit, bool) {
    match &server.stop_target {
        LaunchWorld::Process | LaunchWorld::Slurm { .. } => (running.stop(grace, quit).await, true),
        LaunchWorld::Mpi { .. } => {
            let ranks = ranks(running.pgid());
            if let (Some(leader), false) = (ranks.get(&0), quit.is_hard_requested()) {
                leader.terminate();
                let left = async {
                    while leader.is_alive() {
                        tokio::time::sleep(LOOK).await;
                    }
                    tokio::time::sleep(WORLD_LEAVES).await;
                };
                tokio::select! {
                    biased;
                    _ = running.ended() => {}
                    () = quit.hard_requested() => {}
                    () = left => {}
                    () = tokio::time::sleep(grace) => {}
                }
            }
            (running.stop(WORLD_LEAVES, quit).await, true)
        }
        LaunchWorld::Container { program, name } => {
            if !quit.is_hard_requested() {
                let seconds = grace.as_secs().to_string();
                let words = [program.as_str(), "stop", "-t", &seconds, name].map(str::to_owned);
                tokio::select! {
                    _ = run_engine_ignoring_output(order, &words, grace + COMMAND_TIMEOUT) => {}
                    () = quit.hard_requested() => {}
                }
            }
            let is_gone = remove_container(server, order).await;
            (running.stop(SHORT, quit).await, is_gone)
        }
    }
}

/// After the server's own process ended unexpectedly: only the client process may be gone, and the server may still
/// run.
pub async fn after_death(mut running: Running, server: &PlannedServer, order: &ProcessCommand) -> (ProcessExit, bool) {
    running.ended().await;
    let is_gone = remove_container(server, order).await;
    (running.wait().await, is_gone)
}

async fn remove_container(server: &PlannedServer, order: &ProcessCommand) -> bool {
    remove(order, external_resource(&server.stop_target).as_ref()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn the_grace_is_the_servers_own_exit_timeout_and_a_little_more() {
        assert_eq!(grace(&words("tritonserver")), Duration::from_secs(35));
        assert_eq!(grace(&words("tritonserver --exit-timeout-secs=2")), Duration::from_secs(7));
        assert_eq!(grace(&words("tritonserver --exit-timeout-secs 120 -x")), Duration::from_secs(125));
        let most = Duration::from_secs(u64::from(MOST_SECONDS) + 5);
        assert_eq!(grace(&words("tritonserver --exit-timeout-secs=18446744073709551615")), most);
    }

    #[test]
    fn shared_memory_regions_get_a_unique_name() {
        let mut argv = words(
            "mpirun -n 1 t --backend-config=python,shm-region-prefix-name=prefix0_ : -n 1 t \
             --backend-config=python,shm-region-prefix-name=prefix1_ -x",
        );
        let regions = mark_shared_memory(&mut argv, "r.t.1");
        assert_eq!(regions, [ExternalResource::SharedMemory { mark: "r.t.1".to_owned() }]);
        assert_eq!(argv[4], "--backend-config=python,shm-region-prefix-name=prefix0_r.t.1_");
        assert_eq!(argv[9], "--backend-config=python,shm-region-prefix-name=prefix1_r.t.1_");
        let mut script = vec![OsString::from(
            "*) t --backend-config=python,shm-region-prefix-name=\"prefix$((2 + SLURM_PROCID))_\" -x ;;",
        )];
        mark_shared_memory(&mut script, "m");
        assert_eq!(
            script[0],
            "*) t --backend-config=python,shm-region-prefix-name=\"prefix$((2 + SLURM_PROCID))_m_\" -x ;;"
        );
        assert_eq!(mark_shared_memory(&mut words("tritonserver"), "m"), []);
    }
}
