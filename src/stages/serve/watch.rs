//! Watching a server while it is needed. Its own process shows when it ends; this module finds what it does not show:
//! it no longer answers, one of its ranks is gone, or a Python model's process is gone while the server still reports
//! "ready". A vLLM that runs with `--enable-logging-iteration-details` logs each step of its engine; here these lines
//! become JSON beside the log.
//!
//! The report of a failed server: how it ended, which last lines count, and what they usually mean; where memory ran
//! out, the number that a retry would lower.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use http::HeaderMap;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch::Receiver;
use tokio::time::{MissedTickBehavior, interval};

use super::argv::option_value;
use super::planned_server::{PlannedServer, ReadinessProbe};
use super::ready::{self, EVERY, HealthProbe, SilenceLimits, UnresponsiveServer};
use super::repository_models;
use crate::task_context::out_of_memory::LINES_SEARCHED;
use crate::task_context::{TaskContext, out_of_memory};
use base::event::{Endpoint, Failure, FailureKind, OutOfMemory};
use exec::process::{self, AttemptLog, ExitKind, FollowedLog, ProcessRef, Splitter};
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
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ServerFault {
    #[error(transparent)]
    Silent(UnresponsiveServer),
    /// The process of a Python model is gone: its streams hang, and the server reports that it is ready.
    #[error("its Python model {model} ({pid}) has exited, but the server still reports ready")]
    Stub { model: String, pid: i32 },
    /// A rank is gone, and `mpirun` has not noticed.
    #[error("rank {rank} ({pid}) is gone, and mpirun continues without it")]
    Rank { rank: u32, pid: i32 },
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
        // Without a server that is up, nothing is left to watch.
        let Some(up) = up else { return std::future::pending().await };
        let question = match server.probe {
            // Not every server over HTTP has `/health`.
            ReadinessProbe::Detect if up.http.is_some() => HealthProbe::Port,
            ReadinessProbe::Kserve | ReadinessProbe::Detect => HealthProbe::Kserve(Vec::new(), HeaderMap::new()),
            ReadinessProbe::Port => HealthProbe::Port,
            ReadinessProbe::Health | ReadinessProbe::OpenAi => HealthProbe::Health,
        };
        let record_answer = |at| seen.lock().last_answer_at = Some(at);
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
        seen.lock().first_gone.get_or_insert(*rank);
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

/// One step of one engine.
#[derive(Debug, PartialEq, Serialize)]
struct EngineStep<'a> {
    /// Counts from 0 in each engine.
    step: u64,
    /// `EngineCore`, with its number where a server has several.
    engine: &'a str,
    /// As the log has it: month, day and time of day of the step's end, in seconds.
    at: &'a str,
    /// Requests whose prompts were worked on, and tokens of these prompts.
    prefill_requests: u64,
    prefill_tokens: u64,
    /// Requests that got a token, and these tokens.
    decode_requests: u64,
    decode_tokens: u64,
    /// vLLM's "iteration elapsed time": how long the engine waited for the step's result. With asynchronous scheduling,
    /// vLLM's default, the step began before that, so this is a part of its time.
    wait_ms: f64,
}

/// Writes the steps in an attempt's log to `….steps.jsonl` in the same folder, and returns the file and their number.
/// `None` if the log has no steps.
pub fn write(log: &AttemptLog) -> io::Result<Option<(PathBuf, usize)>> {
    let path = log.path().with_extension("steps.jsonl");
    // An earlier attempt's.
    let _ = fs::remove_file(&path);
    let mut out = None;
    let mut count = 0;
    let mut take = |line: &str| {
        let Some(step) = read(line) else { return Ok(()) };
        let out = match &mut out {
            Some(out) => out,
            None => out.insert(BufWriter::new(File::create(&path)?)),
        };
        serde_json::to_writer(&mut *out, &step)?;
        out.write_all(b"\n")?;
        count += 1;
        io::Result::Ok(())
    };
    let mut lines = FollowedLog::new(log.path(), log.begin());
    lines.read_lines(b"\n", &mut take)?;
    // A server that was killed has not ended its last line.
    take(&lines.open_line())?;
    let Some(mut out) = out else { return Ok(None) };
    out.flush()?;
    Ok(Some((path, count)))
}

/// `(EngineCore pid=51) INFO 11-23 09:12:09 [core.py:453] Iteration(7): 1 context requests, 512 context tokens, 3
/// generation requests, 3 generation tokens, iteration elapsed time: 12.34 ms`. A step without tokens, which one of
/// several engines makes for the others, does not count.
fn read(line: &str) -> Option<EngineStep<'_>> {
    let (head, details) = line.split_once("Iteration(")?;
    let (step, details) = details.split_once("): ")?;
    let (counts, time) = details.split_once(", iteration elapsed time: ")?;
    let number = |name: &str| {
        let part = counts.split(", ").find_map(|part| part.strip_suffix(name))?;
        part.trim().parse::<u64>().ok()
    };
    let wait_ms = time.trim_end().strip_suffix(" ms")?.parse().ok()?;
    let engine = head.split_once('(').and_then(|(_, rest)| rest.split_once(" pid=")).map_or("", |(name, _)| name);
    let at = head.split_once("INFO ").and_then(|(_, rest)| rest.split_once(" [")).map_or("", |(at, _)| at);
    Some(EngineStep {
        step: step.parse().ok()?,
        engine,
        at,
        prefill_requests: number(" context requests")?,
        prefill_tokens: number(" context tokens")?,
        decode_requests: number(" generation requests")?,
        decode_tokens: number(" generation tokens")?,
        wait_ms,
    })
}

/// How many of the last lines a failure shows.
const TAIL: usize = 20;

/// A failure of one server, with the last lines of its own log and what they usually mean. `gone`: the first rank to
/// end, if it is known; mpirun reports it, but not always.
pub fn exit_failure(
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

/// Adds to a failure that memory ran out, if it did, and the number that its rule lowers. `far` are the last lines of
/// the log.
pub fn explain(
    mut failure: Failure,
    context: &TaskContext,
    server: &PlannedServer,
    far: &[String],
    how: ExitKind,
) -> Failure {
    let Some(kind) = process::exhausted_memory(far, out_of_memory::is_killed(how)) else { return failure };
    let rule = context.lease.task.retry.as_ref().and_then(|rule| rule.lower.as_ref());
    let value = rule.and_then(|rule| match &server.repository {
        Some(repository) => repository_models::value(repository, &rule.setting),
        None => out_of_memory::value(&server.argv, &rule.setting).or_else(|| option_value(context, &rule.setting)),
    });
    failure.out_of_memory = Some(OutOfMemory { of: kind, value });
    failure
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

    #[test]
    fn a_line_of_the_log_is_a_step() {
        let line = "(EngineCore_DP0 pid=51) INFO 11-23 09:12:09 [core.py:453] Iteration(7): 1 context requests, 512 \
         context tokens, 3 generation requests, 3 generation tokens, iteration elapsed time: 12.34 ms";
        let expected = EngineStep {
            step: 7,
            engine: "EngineCore_DP0",
            at: "11-23 09:12:09",
            prefill_requests: 1,
            prefill_tokens: 512,
            decode_requests: 3,
            decode_tokens: 3,
            wait_ms: 12.34,
        };
        assert_eq!(read(line), Some(expected));
        assert_eq!(read(&format!("{line} (dummy)")), None);
        assert_eq!(read("INFO 11-23 09:12:09 [loggers.py:271] Engine 000: Running: 3 reqs"), None);
    }

    #[test]
    fn the_last_line_of_a_log_need_not_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = AttemptLog::from_now(folder.path().join("server.log"));
        let lines = include_str!("../../../tests/golden/vllm-h200/iterations.log");
        let count = |text: &str| {
            fs::write(log.path(), text).expect("a log");
            write(&log).expect("steps").map(|(_, count)| count)
        };
        let total = lines.lines().count();
        assert_eq!(count(lines.trim_end()), Some(total));
        // A line that is cut off does not count as a step.
        assert_eq!(count(&lines[..lines.trim_end().len() - 8]), Some(total - 1));
    }

    /// Of vLLM 0.24.0 on an H200.
    #[test]
    fn real_lines_are_steps() {
        let log = include_str!("../../../tests/golden/vllm-h200/iterations.log");
        let steps: Vec<EngineStep> = log.lines().filter_map(read).collect();
        assert_eq!(steps.len(), log.lines().count());
        assert_eq!((steps[0].prefill_tokens, steps[0].decode_tokens), (512, 0));
        let mixed = &steps[6];
        assert_eq!((mixed.step, mixed.prefill_requests, mixed.prefill_tokens), (1040, 16, 7966));
        assert_eq!((mixed.decode_requests, mixed.decode_tokens), (226, 226));
        // A step of 8,192 tokens takes about 190 ms: what this line has is the wait alone.
        assert!(mixed.wait_ms < 1.0, "{mixed:?}");
    }
}
