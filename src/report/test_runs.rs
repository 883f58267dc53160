//! Synthetic runs for the tests of this module.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base::event::{Done, Event, Failure, FailureKind, RunId, TaskId, TaskTally};
use base::files::Digest;
use harness::RunResult;
use interop::{ChunkKind, MeasuredResult, RequestTrace, TracedChunk, TracedChunks};
use plan::{ActionKind, Lifetime, Need, Plan, Task};

/// A result as an earlier version wrote it.
pub(super) fn result() -> RunResult {
    serde_json::from_str(include_str!("../../tests/golden/results/benchmark/result.json")).expect("a result")
}

/// A result of these fields alone, with the least that makes it one.
pub(super) fn result_of(fields: serde_json::Value) -> MeasuredResult {
    let mut object = serde_json::json!({ "schema": 1, "verdict": "valid", "reasons": [], "requested": {} });
    if let (Some(object), serde_json::Value::Object(fields)) = (object.as_object_mut(), fields) {
        object.extend(fields);
    }
    MeasuredResult::read(&object.to_string()).expect("a result")
}

/// A request of three tokens, 10 ms apart: scheduled at `sched` ms, its first token `ttft` ms later.
pub(super) fn trace(index: u64, sched: f64, ttft: f64) -> RequestTrace {
    let at = sched + ttft;
    let chunk = |at| TracedChunk { at, tokens: 1, kind: ChunkKind::Token };
    RequestTrace {
        index,
        ok: true,
        sched: Some(sched),
        issue: sched,
        end: at + 20.0,
        input: Some(8),
        input_server: None,
        tokens: Some(3),
        retokenized: None,
        chunks: TracedChunks::Every(vec![chunk(at), chunk(at + 10.0), chunk(at + 20.0)]),
        error: None,
    }
}

pub(super) fn task(id: &str, kind: ActionKind, needs: &[(u32, bool)]) -> Task {
    let stage = id.split('/').next().unwrap_or_default().to_owned();
    Task {
        lifetime: if kind == ActionKind::Serve { Lifetime::Service } else { Lifetime::Step },
        needs: needs.iter().map(|&(task, data)| Need { task, data }).collect(),
        cpus: Some(1),
        ..Task::minimal(TaskId::new(id), stage, kind)
    }
}

pub(super) fn plan() -> Plan {
    let mut smoke = task("smoke", ActionKind::Shell, &[(2, false)]);
    smoke.skipped = Some("`when` is false".to_owned());
    Plan {
        name: "quickstart".to_owned(),
        params: BTreeMap::from([("system".to_owned(), "sim".to_owned())]),
        tasks: vec![
            task("engine", ActionKind::Engine, &[]),
            task("repository/server", ActionKind::Repository, &[(0, true)]),
            task("triton/server", ActionKind::Serve, &[(1, true)]),
            smoke,
            task("load/server", ActionKind::Bench, &[(2, true)]),
            task("package", ActionKind::Shell, &[(4, true)]),
        ],
        ..Plan::default()
    }
}

fn started(id: &str, service: bool, why: &str) -> Event {
    Event::TaskStarted {
        task: TaskId::new(id),
        attempt: 1,
        service,
        reasons: vec![why.to_owned()],
        log: Some(PathBuf::from(format!("logs/{}.log", id.replace('/', ".")))),
    }
}

fn finished(id: &str, seconds: f64, headline: Option<&str>) -> Event {
    Event::TaskFinished {
        task: TaskId::new(id),
        done: Done { headline: headline.map(ToOwned::to_owned), ..Done::default() },
        out: Some(PathBuf::from(format!("latest/{id}"))),
        digest: Some(Digest::hash(id.as_bytes())),
        unchanged: false,
        seconds,
    }
}

fn began() -> Event {
    Event::RunStarted {
        run: RunId::new("20261120-224301-4711"),
        manifest: "quickstart".to_owned(),
        params: BTreeMap::from([("system".to_owned(), "sim".to_owned())]),
        settings: vec!["system=sim".to_owned()],
        tasks: 6,
        jobs: 2,
        at: "2026-11-20T22:43:01Z".to_owned(),
        pid: 4711,
    }
}

fn served() -> Vec<Event> {
    vec![
        began(),
        Event::TaskCached { task: TaskId::new("engine"), done: Done::default(), out: None, from: None },
        Event::TaskSkipped { task: TaskId::new("smoke"), why: "`when` is false".to_owned() },
        started("repository/server", false, "action.servers: 1 → 2"),
        finished("repository/server", 0.0123, None),
        started("triton/server", true, "a dependent runs"),
        Event::ServiceReady {
            task: TaskId::new("triton/server"),
            endpoints: vec!["127.0.0.1:40001".parse().expect("an endpoint")],
            seconds: 1.25,
        },
        started("load/server", false, "upstream `repository/server` changed"),
        Event::Progress {
            task: TaskId::new("load/server"),
            text: "120 ok".to_owned(),
            done: 120,
            total: Some(1000),
            live: None,
        },
    ]
}

/// A run without failures.
pub(super) fn valid() -> Vec<Event> {
    let mut events = served();
    events.extend([
        finished("load/server", 62.4, Some("VALID  1,204 tok/s  TTFT p99 212 ms (from schedule)")),
        Event::ServiceStopped { task: TaskId::new("triton/server"), seconds: 66.0 },
        started("package", false, "never ran"),
        finished("package", 0.4, None),
        Event::RunFinished {
            tally: TaskTally { ran: 4, cached: 1, skipped: 1, ..TaskTally::default() },
            exit: 0,
            seconds: 66.9,
        },
    ]);
    events
}

/// The server dies during the load test.
pub(super) fn failing() -> Vec<Event> {
    let mut failure = Failure::new(FailureKind::Signal(9), "killed by SIGKILL")
        .command("tritonserver --model-repository=⟦repository⟧")
        .cause("out of GPU memory")
        .hint("lower `kv_cache_free_gpu_mem_fraction` (now 0.95)")
        .tail(vec!["loading \u{1b}[31mmodel\u{1b}[0m".to_owned(), "CUDA error: out of memory\r".to_owned()]);
    failure.log = Some(PathBuf::from("logs/triton.server.log"));
    failure.kept = Some(PathBuf::from(".regatta/kept/triton.server"));
    let mut events = served();
    events.extend([
        Event::TaskFailed {
            task: TaskId::new("triton/server"),
            attempt: 1,
            failure: Box::new(failure),
            will_retry: false,
            seconds: 12.0,
        },
        Event::TaskFailed {
            task: TaskId::new("load/server"),
            attempt: 1,
            failure: Box::new(Failure::new(FailureKind::Service, "`triton/server` died")),
            will_retry: false,
            seconds: 10.5,
        },
        Event::TaskCancelled { task: TaskId::new("package"), why: "`load/server` failed".to_owned() },
        Event::RunFinished {
            tally: TaskTally { ran: 1, cached: 1, skipped: 1, failed: 2, cancelled: 1 },
            exit: 1,
            seconds: 13.6,
        },
    ]);
    events
}
