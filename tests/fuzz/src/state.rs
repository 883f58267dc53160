//! Files of the state folder. Their seals show accidents, and a fuzzer cannot guess them: each is read as it is, and sealed.

use std::cell::LazyCell;
use std::fs;
use std::path::PathBuf;

use regatta::event::{RunId, TaskId};
use regatta::files::Digest;
use regatta::plan::{Plan, Task};
use regatta::report::{RunState, junit_xml, open_metrics};
use regatta::runner::store::{
    CompilerId, JobFolder, JobOwner, NoOpConditions, OutputCache, PlanSources, StateFolder, WatchedTask, abandoned,
    garbage, left_running, read_journal, read_progress, superseded, tags_of,
};
use regatta::stages::{AgentMessage, AgentOrders};

use super::{choose, file, folder, parts};

fn home() -> StateFolder {
    StateFolder::new(folder(), folder().join(".regatta"))
}

/// The lines with their seals.
fn sealed(data: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    for line in data.split(|byte| *byte == b'\n') {
        text.extend_from_slice(&blake3::hash(line).to_hex().as_bytes()[..16]);
        text.push(b' ');
        text.extend_from_slice(line);
        text.push(b'\n');
    }
    text
}

/// The whole as one line with its seal.
fn one_sealed(data: &[u8]) -> Vec<u8> {
    let data = data.trim_ascii_end();
    [&blake3::hash(data).to_hex().as_bytes()[..16], b" ", data, b"\n"].concat()
}

pub fn journal(data: &[u8]) {
    for bytes in [data.to_vec(), sealed(data)] {
        let read = read_journal(&file("journal.jsonl", &bytes)).expect("a file");
        let mut state = RunState::default();
        for event in &read.events {
            state.fold(event);
        }
        let _ = (open_metrics(&state), junit_xml(&state));
    }
}

pub fn records(data: &[u8]) {
    for bytes in [data.to_vec(), sealed(data)] {
        file(".regatta/records", &bytes);
        look_at_records(data);
    }
}

fn look_at_records(data: &[u8]) {
    let home = home();
    let Ok(cache) = OutputCache::open(&home) else { return };
    for record in cache.records() {
        let _ = record.parsed_key();
        let _ = cache.look_up(&record.key);
        let _ = cache.last(&record.manifest, &record.task);
        let _ = cache.compare(&record);
        let _ = cache.stamps(&record);
    }
    let _ = cache.look_up(&Digest::hash(data));
    let _ = cache.last("m", &TaskId::new("a"));
    let _ = garbage(&cache, 1, false);
}

/// A cache with its seal.
fn sealed_cache(data: &[u8]) -> Vec<u8> {
    [blake3::hash(data).as_bytes(), data].concat()
}

/// The first byte decides which of the caches it is.
pub fn state_caches(data: &[u8]) {
    let (choice, data) = choose(data);
    for bytes in [data.to_vec(), sealed_cache(data)] {
        match choice % 3 {
            0 => compiled_plan(&bytes),
            1 => plan_sources(&bytes),
            _ => no_op_conditions(&bytes),
        }
    }
}

thread_local! {
    /// A compiler, and what its files are called without their ends, which only it knows.
    static COMPILER: LazyCell<(CompilerId, PathBuf)> = LazyCell::new(|| {
        let compiler = CompilerId::new(&home(), &["m"]);
        compiler.keep_plan(PlanSources::default(), &Plan::default()).expect("a plan");
        let files = fs::read_dir(home().plans()).expect("a folder").map(|entry| entry.expect("an entry").path());
        let plan = files.into_iter().find(|path| path.extension().is_some_and(|end| end == "plan"));
        (compiler, plan.expect("the plan").with_extension(""))
    });
}

/// The compiler, with these bytes in its file.
fn compiler(end: &str, bytes: &[u8]) -> CompilerId {
    COMPILER.with(|of_thread| {
        let (compiler, path) = &**of_thread;
        fs::write(path.with_extension(end), bytes).expect("a file");
        compiler.clone()
    })
}

/// A digest in the first bytes, as the caches begin.
fn first_digest(bytes: &[u8]) -> Digest {
    bytes.first_chunk().map_or(Digest::hash(b""), |digest| Digest::from_bytes(*digest))
}

fn compiled_plan(bytes: &[u8]) {
    let kept = compiler("plan", bytes).plan(&first_digest(bytes));
    for plan in kept.into_iter().chain(Plan::from_bytes(bytes)) {
        let again = plan.to_bytes().expect("a plan");
        assert_eq!(Plan::from_bytes(&again).expect("its own bytes").to_bytes().expect("a plan"), again);
        plan.tasks.iter().for_each(look_at_task);
    }
}

/// The typed parts of a task.
fn look_at_task(task: &Task) {
    let _ = (task.action(), task.action_text(), task.external_servers(), task.resubmit());
}

fn plan_sources(bytes: &[u8]) {
    let _ = compiler("from", bytes).fresh_plan(|name| (name == "HOME").then(|| "/".to_owned()));
}

fn no_op_conditions(bytes: &[u8]) {
    // They begin with the digest of their plan, behind the seal.
    let plan = first_digest(bytes.get(32..).unwrap_or_default());
    if let Some(conditions) = compiler("rest", bytes).no_op_conditions(plan) {
        let _ = conditions.is_unchanged();
        let NoOpConditions { tasks, .. } = conditions;
        let _ = WatchedTask::unchanged(&tasks);
    }
}

/// The files of a job, in the order of these names; and the lines of a guard on another host.
pub fn job_messages(data: &[u8]) {
    const FILES: [&str; 6] = ["job.json", "events", "ended.json", "number", "claim", "alive"];
    let (home, run) = (home(), RunId::new("r"));
    let job = JobFolder::at(home.jobs().join("0000000000000000-0"));
    fs::create_dir_all(job.path()).expect("a folder");
    for (name, part) in FILES.iter().zip(parts(data)) {
        let bytes = if ["events", "alive"].contains(name) { part.to_vec() } else { one_sealed(part) };
        for bytes in [part, &bytes[..]] {
            fs::write(job.path().join(name), bytes).expect("a file");
            let _ = (job.read::<AgentOrders>().is_ok(), job.ended::<AgentMessage>().is_ok());
            let _ = (job.number(), job.claimant());
        }
    }
    let _ = job.read::<AgentOrders>().map(|orders| orders.iter().for_each(|orders| look_at_task(&orders.work.task)));
    let _ = job.ended::<AgentMessage>();
    let (lines, end) = job.read_event_lines(0).expect("the lines");
    assert_eq!(job.read_event_lines(end).expect("the lines").0, [""; 0], "each line comes once");
    let mut state = RunState::default();
    for line in lines {
        match serde_json::from_str(&line) {
            Ok(AgentMessage::Event(event)) => state.fold(&event),
            Ok(message) => drop(serde_json::to_string(&message).expect("JSON")),
            Err(_) => {}
        }
        if let Ok(event) = serde_json::from_str(&line) {
            state.fold(&event);
        }
    }
    let _ = (open_metrics(&state), junit_xml(&state));
    let _ = (job.number(), job.claimant(), job.heartbeat(), job.beats());
    let _ = (
        abandoned(&home),
        superseded(&job, JobOwner { project: &folder(), manifest: "m", task: &TaskId::new("a") }),
        left_running(&home, &TaskId::new("a"), &first_digest(&[0; 32])),
    );
    for name in ["progress.jsonl", "tags"] {
        file(&format!(".regatta/runs/r/{name}"), data);
    }
    let _ = (read_progress(&home, &run), tags_of(&home, &run));
}
