//! The run loop with executors of the tests' own, for moments that no command can bring about.

use std::fs;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use parking_lot::Mutex;
use regatta::event::{Done, Endpoint, Failure, FailureKind, Stop, TaskId, Verdict};
use regatta::plan::{ActionKind, Lifetime, Need, Plan, Task};
use regatta::runner::store::{Digests, LockAttempt, OutputCache, ProjectLock, name_run};
use regatta::runner::{Lease, OutputCheck, RunOptions, RunSummary, TaskExecutor, TaskRole, run};
use tokio::runtime::Builder;
use tokio::time::timeout;

use crate::campaign::home;
use crate::world::World;

fn task(id: &str) -> Task {
    Task { action: "{}".to_owned(), ..Task::minimal(TaskId::new(id), id.to_owned(), ActionKind::Shell) }
}

async fn run_tasks(world: &World, tasks: Vec<Task>, jobs: u32, executor: impl TaskExecutor) -> RunSummary {
    let home = home(world);
    let LockAttempt::Acquired(lock) = ProjectLock::try_take(&home, || name_run(&home)).unwrap() else {
        panic!("nobody else is here")
    };
    let output_cache = OutputCache::open(&home).unwrap();
    output_cache.begin().unwrap();
    let options = RunOptions {
        jobs,
        gpus: Vec::new(),
        keep_going: false,
        roles: vec![TaskRole::Run; tasks.len()],
        forced: vec![false; tasks.len()],
        resumes_forced: false,
        output_source: None,
        kept_services: None,
        gate: OutputCheck::default(),
        unchanged: Arc::default(),
    };
    let plan = Plan { name: "m".to_owned(), tasks, ..Plan::default() };
    run(
        Arc::new(plan),
        Arc::new(executor),
        Arc::new(output_cache),
        Arc::new(Digests::load(&home)),
        options,
        lock.run.clone(),
        Stop::new(),
        Arc::new(|_| {}),
    )
    .await
}

/// A service that is found dead when it is asked to stop, and a step that failed meanwhile.
struct FoundDead;

impl TaskExecutor for FoundDead {
    async fn perform(&self, mut lease: Lease) -> Result<Done, Failure> {
        let Some(ready) = lease.ready.take() else {
            return Err(Failure::new(FailureKind::Invalid(Verdict::InvalidServer), "no answers"));
        };
        let endpoint = Endpoint { host: "127.0.0.1".to_owned(), grpc: 1, http: None, metrics: None, name: None };
        ready.send(vec![endpoint]).expect("somebody waits for it");
        lease.stop.requested().await;
        Err(Failure::new(FailureKind::Service, "the server had ended"))
    }
}

#[tokio::test]
async fn a_server_found_dead_when_it_is_stopped_is_reported_beside_those_that_failed_with_it() {
    let tasks = vec![
        Task { lifetime: Lifetime::Service, ..task("server") },
        Task { needs: vec![Need { task: 0, data: true }], ..task("measure") },
    ];
    let summary = run_tasks(&World::new(), tasks, 1, FoundDead).await;
    let failed: Vec<&str> = summary.failures.iter().map(|(task, _)| task.as_str()).collect();
    assert_eq!(failed, ["measure", "server"]);
}

/// `large` leaves an output that is hashed on another thread; `next` lets that thread go on.
struct LargeOutput {
    go_on: Mutex<Option<mpsc::Sender<()>>>,
    /// Names of tasks, as they begin.
    begun: Arc<Mutex<Vec<String>>>,
}

impl TaskExecutor for LargeOutput {
    async fn perform(&self, lease: Lease) -> Result<Done, Failure> {
        self.begun.lock().push(lease.task.id.to_string());
        match lease.task.id.as_str() {
            "large" => fs::write(lease.out.join("large"), vec![0; 5 << 20]).expect("there is room"),
            "next" => drop(self.go_on.lock().take()),
            _ => {}
        }
        Ok(Done::default())
    }
}

/// Runs them in a runtime with one thread for what blocks, which is held until the task `next` begins: the output of `large` cannot be
/// hashed before.
fn run_beside_hashing(tasks: Vec<Task>) -> (RunSummary, Vec<String>) {
    let runtime = Builder::new_multi_thread().worker_threads(2).max_blocking_threads(1).enable_all().build().unwrap();
    let (go_on, wait) = mpsc::channel::<()>();
    runtime.spawn_blocking(move || {
        let _ = wait.recv();
    });
    let begun = Arc::<Mutex<Vec<String>>>::default();
    let executor = LargeOutput { go_on: Mutex::new(Some(go_on)), begun: Arc::clone(&begun) };
    let world = World::new();
    let run = runtime.block_on(async { timeout(Duration::from_mins(1), run_tasks(&world, tasks, 2, executor)).await });
    let summary = run.expect("`next` begins while the output of `large` waits to be hashed");
    let begun = begun.lock().clone();
    (summary, begun)
}

#[test]
fn another_step_has_the_slots_of_one_whose_large_output_is_hashed() {
    let with_slots = |id: &str| Task { cpus: Some(2), ..task(id) };
    // The last one takes all slots, as a benchmark does.
    let (summary, begun) = run_beside_hashing(vec![with_slots("large"), with_slots("next"), task("alone")]);
    assert_eq!((summary.tally.ran, begun.join(", ").as_str()), (3, "large, next, alone"));
}
