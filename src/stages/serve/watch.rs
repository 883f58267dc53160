//! Watching a server while it is needed. Its own process shows when it ends; this module finds what it does not show:
//! it no longer answers, one of its ranks is gone, or a Python model's process is gone while the server still reports
//! "ready".
//!
//! Stopping a server completely, each kind of world by its own means, and removing what outlives it.
//!
//! | world | graceful | for certain |
//! |---|---|---|
//! | a process | TERM to its group | KILL to its group, then to each process that carries its mark |
//! | MPI | TERM to rank 0, which drains; the others leave with it; TERM to mpirun | the same: ranks carry the mark |
//! | container | `PROGRAM stop -t SECONDS NAME` | `PROGRAM kill NAME`, `PROGRAM rm -f NAME` |
//!
//! The report of a failed server: how it ended, which last lines count, and what they usually mean.
//!
//! A server that memory ran out for: which of its numbers to lower, and to what.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use http::HeaderMap;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch::Receiver;
use tokio::time::{MissedTickBehavior, interval};

use super::argv::option_value;
use super::planned_server::{PlannedServer, ReadinessProbe};
use super::ready::{EVERY, HealthProbe, SilenceLimits, UnresponsiveServer};
use super::{ready, repository_copies};
use crate::container::{remove, run_engine_ignoring_output};
use crate::task_context::out_of_memory::LINES_SEARCHED;
use crate::task_context::{TaskContext, out_of_memory, signal_name};
use base::event::{Endpoint, ExternalResource, Failure, FailureKind, MemoryKind, OutOfMemory, Stop};
use base::spec::MOST_SECONDS;
use exec::process;
use exec::process::{ExitKind, ProcessCommand, ProcessExit, ProcessRef, Running, Shortage, Splitter};
use triton::launch::LaunchWorld;
use triton::memory::{Fit, KvFractionBase, advise};
use triton::{EngineConfig, TritonClient};

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

// What a failure of a server shows.

/// How many of the last lines a failure shows.
const TAIL: usize = 20;

/// A failure of one server, with the last lines of its own log and what they usually mean.
pub fn exit_failure(context: &TaskContext, server: &PlannedServer, what: String, how: ExitKind) -> Failure {
    rank_failure(context, server, what, how, None)
}

/// Like `exit_failure`, when the first rank to end is known: mpirun reports it, but not always.
pub fn rank_failure(
    context: &TaskContext,
    server: &PlannedServer,
    what: String,
    how: ExitKind,
    gone: Option<u32>,
) -> Failure {
    let mut failure = context.failure(FailureKind::Service, what, &server.argv);
    let mut log = server.log.path().to_owned();
    let mut far = server.log.tail(LINES_SEARCHED);
    if matches!(server.stop_target, LaunchWorld::Mpi { .. })
        && let Some(rank) = process::first_to_fail(&far).or(gone)
    {
        failure.what = format!("{}; rank {rank} failed first", failure.what);
        let rank_log = Splitter::path(server.log.path(), rank);
        if rank_log.exists() {
            let lines = process::tail(&rank_log, LINES_SEARCHED);
            failure.tail = last(context, &lines);
            log = rank_log;
            far.extend(lines);
        }
    } else {
        if matches!(server.stop_target, LaunchWorld::Mpi { .. }) {
            failure.what = format!("{}; each rank has its own log next to the complete one", failure.what);
        }
        failure.tail = last(context, &far);
    }
    failure.log = Some(log);
    // A server that leaves with code 0 while it is needed has failed all the same.
    let how = if how == ExitKind::Code(0) { ExitKind::Code(1) } else { how };
    let far: Vec<String> = far.iter().map(|line| process::untagged(&context.redacted(line)).1.to_owned()).collect();
    let diagnosis = process::diagnose_server(&far).or_else(|| process::diagnose(&failure.tail, how));
    if let Some(diagnosis) = diagnosis {
        failure = failure.cause(diagnosis.cause).hint(diagnosis.hint);
    }
    explain(failure, context, server, &far, how)
}

/// The last lines for the user: without the tables of options that Triton prints at its start, except the rows about
/// a model.
fn last(context: &TaskContext, lines: &[String]) -> Vec<String> {
    let is_option = |line: &str| line.starts_with("+-") || line.starts_with('|') && !line.contains("UNAVAILABLE");
    let telling = lines.iter().rev().filter(|line| !is_option(line)).take(TAIL);
    let mut last: Vec<String> = telling.map(|line| context.redacted(line)).collect();
    last.reverse();
    last
}

/// `with exit code 3`
pub fn ended(how: ExitKind) -> String {
    match how {
        ExitKind::Code(code) => format!("with exit code {code}"),
        ExitKind::Signal(signal) => format!("by {}", signal_name(signal)),
        ExitKind::Stopped => "stopped".to_owned(),
    }
}

/// Adds to a failure that memory ran out, if it did, and what to do about it. `far` are the last lines of the log.
pub fn explain(
    mut failure: Failure,
    context: &TaskContext,
    server: &PlannedServer,
    far: &[String],
    how: ExitKind,
) -> Failure {
    let Some(found) = process::shortage(far, out_of_memory::is_killed(how)) else { return failure };
    let rule = context.lease.task.retry.as_ref().and_then(|rule| rule.lower.as_ref());
    let value = rule.and_then(|rule| match &server.repository {
        Some(repository) => repository_copies::value(repository, &rule.setting),
        None => out_of_memory::value(&server.argv, &rule.setting).or_else(|| option_value(context, &rule.setting)),
    });
    failure.out_of_memory = Some(OutOfMemory { of: found.of, value });
    if found.of == MemoryKind::Gpu
        && let Some(fit) = server.repository.as_deref().and_then(|repository| fit(repository, &found))
    {
        let advice = advise(&fit, found.missing().map(out_of_memory::bytes));
        failure.hint = Some(advice.text());
    }
    failure
}

/// The engine that takes the most, as it is served.
fn fit(repository: &Path, found: &Shortage) -> Option<Fit> {
    let fits = repository_copies::models(repository).into_iter().filter_map(|model| {
        let folder = model.engine?;
        let engine = EngineConfig::load(Path::new(&folder)).ok()?;
        Some(of_engine(Path::new(&folder), &engine))
    });
    let weights = |fit: &Fit| fit.weights.map_or(0.0, |(bytes, _)| bytes);
    let mut fit = fits.max_by(|a, b| weights(a).total_cmp(&weights(b)))?;
    let number = |name: &str| repository_copies::value(repository, name);
    fit.max_batch_size = number("max_batch_size").or(fit.max_batch_size);
    fit.max_num_tokens = number("max_num_tokens").or(fit.max_num_tokens);
    fit.fraction = number("kv_cache_free_gpu_mem_fraction");
    fit.memory = fit.memory.or(found.total.map(out_of_memory::bytes));
    if fit.share == KvFractionBase::FreeMemory {
        fit.free = found.available.map(out_of_memory::bytes);
    }
    Some(fit)
}

fn of_engine(folder: &Path, engine: &EngineConfig) -> Fit {
    let fit = Fit::new(engine);
    if let Ok((_, rank)) = sim::load_engine(folder) {
        return Fit {
            memory: Some(rank.memory.gpu_bytes),
            weights: Some((rank.memory.weight_bytes, "as simulated")),
            workspace: rank.memory.workspace_bytes,
            share: KvFractionBase::TotalMemory,
            ..fit
        };
    }
    let size = std::fs::metadata(folder.join("rank0.engine")).map(|file| file.len() as f64);
    Fit { weights: size.ok().map(|bytes| (bytes, "rank0.engine")), ..fit }
}

#[cfg(test)]
mod watch_tests {
    use super::*;

    #[test]
    fn a_stub_names_its_model() {
        let command = "/opt/backends/python/triton_python_backend_stub \
         /r/triton_model_repo_0/tensorrt_llm/1/model.py prefix0_a 1048576 1048576 51 /opt/backends/python 336 \
         tensorrt_llm_0_0 DEFAULT";
        assert_eq!(model_of(command), "tensorrt_llm");
    }
}

#[cfg(test)]
mod stop_tests {
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
