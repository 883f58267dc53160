//! The run loop with executors of the tests' own, for moments that no command can bring about.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use parking_lot::Mutex;
use regatta::event::{Done, Endpoint, Failure, FailureKind, MemoryKind, OutOfMemory, Stop, TaskId, Verdict};
use regatta::plan::manifest::model::Container;
use regatta::plan::{ActionKind, Lifetime, Need, OomReductionRule, Plan, RetryRule, Task, TaskPart};
use regatta::runner::store::{Digests, LockAttempt, OutputCache, ProjectLock, TaskRecord, name_run};
use regatta::runner::{Lease, OutputCheck, RunOptions, RunSummary, TaskExecutor, TaskRole, run};
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::campaign::home;
use crate::world::World;

fn task(id: &str) -> Task {
    Task::minimal(TaskId::new(id), id.to_owned(), ActionKind::Shell)
}

fn container() -> TaskPart<Container> {
    TaskPart::from_json(r#"{"image":"x"}"#).unwrap()
}

fn endpoint() -> Endpoint {
    Endpoint { host: "127.0.0.1".to_owned(), grpc: 1, http: None, metrics: None, name: None }
}

async fn run_tasks(world: &World, tasks: Vec<Task>, jobs: u32, executor: impl TaskExecutor) -> RunSummary {
    run_tasks_as(world, tasks, (jobs, false), executor).await
}

async fn run_tasks_as(
    world: &World,
    tasks: Vec<Task>,
    (jobs, keep_going): (u32, bool),
    executor: impl TaskExecutor,
) -> RunSummary {
    let home = home(world);
    let LockAttempt::Acquired(lock) = ProjectLock::try_take(&home, || name_run(&home)).unwrap() else {
        panic!("nobody else is here")
    };
    let output_cache = OutputCache::open(&home).unwrap();
    output_cache.begin().unwrap();
    let options = RunOptions {
        jobs,
        gpus: Vec::new(),
        keep_going,
        roles: vec![TaskRole::Run; tasks.len()],
        forced: vec![false; tasks.len()],
        resumes_forced: false,
        output_source: None,
        kept_services: None,
        output_check: OutputCheck::default(),
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
        ready.send(vec![endpoint()]).expect("somebody waits for it");
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

/// A server that runs out of memory at its first start. The key of `second` is being computed until the server starts again.
struct LoweredServer {
    starts: AtomicU32,
    restarted: Mutex<Option<mpsc::Sender<()>>>,
    wait: Mutex<mpsc::Receiver<()>>,
}

impl TaskExecutor for LoweredServer {
    async fn perform(&self, mut lease: Lease) -> Result<Done, Failure> {
        let Some(ready) = lease.ready.take() else { return Ok(Done::default()) };
        if self.starts.fetch_add(1, Ordering::Relaxed) == 0 {
            let out_of_memory = Some(OutOfMemory { of: MemoryKind::Host, value: Some(8.0) });
            return Err(Failure { out_of_memory, ..Failure::new(FailureKind::Service, "out of memory") });
        }
        drop(self.restarted.lock().take());
        ready.send(vec![endpoint()]).expect("the run waits for it");
        lease.stop.requested().await;
        Ok(Done::default())
    }

    fn facts(&self, task: &Task) -> BTreeMap<String, String> {
        if task.id.as_str() == "second" {
            let _ = self.wait.lock().recv();
        }
        BTreeMap::new()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_was_being_computed_when_the_server_was_lowered_is_computed_again() {
    let lower = Some(OomReductionRule { setting: "max_num_tokens".to_owned(), by: 2.0, to: None });
    let retry = Some(Box::new(RetryRule { times: 1, delay: Duration::ZERO, on_oom: true, lower }));
    let of_server = |id: &str| Task { needs: vec![Need { task: 0, data: true }], ..task(id) };
    let tasks = vec![
        Task { lifetime: Lifetime::Service, retry, ..task("server") },
        of_server("first"),
        // Its image would be looked up: that takes a while.
        Task { container: Some(container()), ..of_server("second") },
    ];
    let (restarted, wait) = mpsc::channel();
    let (restarted, wait) = (Mutex::new(Some(restarted)), Mutex::new(wait));
    let executor = LoweredServer { starts: AtomicU32::new(0), restarted, wait };
    let world = World::new();
    let summary = timeout(Duration::from_mins(1), run_tasks(&world, tasks, 2, executor)).await.expect("it ends");
    assert_eq!((summary.tally.ran, summary.failures.len()), (2, 0), "{:?}", summary.failures);
    let records = OutputCache::open(&home(&world)).unwrap().records();
    let of_server = |record: &Arc<TaskRecord>| record.parsed_key().unwrap().upstream[&TaskId::new("server")];
    let servers: BTreeSet<String> = records.iter().map(|record| of_server(record).to_string()).collect();
    assert_eq!((records.len(), servers.len()), (2, 1), "both ran on the server with the lower number");
}

/// A server whose first machines are lost before it is up.
struct LosesMachines {
    starts: AtomicU32,
    losses: u32,
}

impl TaskExecutor for LosesMachines {
    async fn perform(&self, mut lease: Lease) -> Result<Done, Failure> {
        let Some(ready) = lease.ready.take() else { return Ok(Done::default()) };
        if self.starts.fetch_add(1, Ordering::Relaxed) < self.losses {
            return Err(Failure::new(FailureKind::Lost, "its job 1 lost its node"));
        }
        ready.send(vec![endpoint()]).expect("the run waits for it");
        lease.stop.requested().await;
        Ok(Done::default())
    }
}

#[tokio::test]
async fn a_server_whose_node_is_lost_before_it_is_up_is_submitted_again() {
    let run_with = async |losses: u32| {
        let host = Some(TaskPart::from_json(r#"{"slurm": {"resubmit": 2}}"#).unwrap());
        let server = Task { lifetime: Lifetime::Service, host, ..task("server") };
        let step = Task { needs: vec![Need { task: 0, data: true }], ..task("step") };
        let executor = LosesMachines { starts: AtomicU32::new(0), losses };
        run_tasks(&World::new(), vec![server, step], 1, executor).await
    };
    let summary = run_with(2).await;
    assert_eq!((summary.tally.ran, summary.failures.len()), (1, 0), "{:?}", summary.failures);
    let summary = run_with(3).await;
    assert_eq!((summary.tally.ran, summary.failures.len()), (0, 1), "{:?}", summary.failures);
}

/// A server that ends while `step` waits for its second attempt, which would succeed.
#[derive(Default)]
struct EndsDuringPause {
    attempts: Arc<AtomicU32>,
    has_failed: Notify,
}

impl TaskExecutor for EndsDuringPause {
    async fn perform(&self, mut lease: Lease) -> Result<Done, Failure> {
        if let Some(ready) = lease.ready.take() {
            ready.send(vec![endpoint()]).expect("the run waits for it");
            self.has_failed.notified().await;
            sleep(Duration::from_millis(100)).await;
            return Err(Failure::new(FailureKind::Service, "the server ended"));
        }
        if self.attempts.fetch_add(1, Ordering::Relaxed) > 0 {
            return Ok(Done::default());
        }
        self.has_failed.notify_one();
        Err(Failure::new(FailureKind::Exit(7), "exit code 7"))
    }
}

const fn retried(delay: Duration) -> RetryRule {
    RetryRule { times: 3, delay, on_oom: false, lower: None }
}

#[tokio::test]
async fn a_step_whose_server_ends_before_its_next_attempt_has_none() {
    for keep_going in [false, true] {
        let tasks = vec![
            Task { lifetime: Lifetime::Service, ..task("server") },
            Task {
                needs: vec![Need { task: 0, data: true }],
                retry: Some(Box::new(retried(Duration::from_secs(1)))),
                ..task("step")
            },
        ];
        let executor = EndsDuringPause::default();
        let attempts = Arc::clone(&executor.attempts);
        let summary = run_tasks_as(&World::new(), tasks, (1, keep_going), executor).await;
        assert_eq!((attempts.load(Ordering::Relaxed), summary.tally.ran), (1, 0));
        let failed: Vec<&str> = summary.failures.iter().map(|(task, _)| task.as_str()).collect();
        assert_eq!(failed, ["server", "step"]);
        let failure = &summary.failures[1].1;
        let hint = "not tried again: its server server ended meanwhile";
        assert_eq!((failure.kind, failure.hint.as_deref()), (FailureKind::Exit(7), Some(hint)));
    }
}

/// `retried` and `once` fail; `late` fails after them.
struct Fails {
    attempts: Arc<Mutex<Vec<String>>>,
}

impl TaskExecutor for Fails {
    async fn perform(&self, lease: Lease) -> Result<Done, Failure> {
        self.attempts.lock().push(lease.task.id.to_string());
        let after = match lease.task.id.as_str() {
            "retried" => 0,
            "once" => 100,
            _ => 200,
        };
        sleep(Duration::from_millis(after)).await;
        Err(Failure::new(FailureKind::Exit(7), "exit code 7"))
    }
}

#[tokio::test]
async fn after_a_failure_no_stage_is_tried_again() {
    let step = |id: &str, retry| Task { cpus: Some(1), retry, ..task(id) };
    let retry = Some(Box::new(retried(Duration::from_secs(1))));
    let tasks = vec![step("retried", retry.clone()), step("once", None), step("late", retry)];
    let attempts = Arc::<Mutex<Vec<String>>>::default();
    let summary = run_tasks(&World::new(), tasks, 3, Fails { attempts: Arc::clone(&attempts) }).await;
    assert_eq!(*attempts.lock(), ["retried", "once", "late"]);
    let hint = Some("not tried again: another stage failed meanwhile".to_owned());
    let failed: Vec<_> =
        summary.failures.into_iter().map(|(task, failure)| (task.to_string(), failure.kind, failure.hint)).collect();
    let exit = FailureKind::Exit(7);
    assert_eq!(
        failed,
        [("once".to_owned(), exit, None), ("late".to_owned(), exit, None), ("retried".to_owned(), exit, hint)]
    );
}

/// A server that ends under another one, which a step uses; a second step waits for that one.
#[derive(Default)]
struct EndsUnderServer {
    is_used: Notify,
    begun: Arc<Mutex<Vec<String>>>,
}

impl TaskExecutor for EndsUnderServer {
    async fn perform(&self, mut lease: Lease) -> Result<Done, Failure> {
        let name = lease.task.id.to_string();
        self.begun.lock().push(name.clone());
        let Some(ready) = lease.ready.take() else {
            self.is_used.notify_one();
            sleep(Duration::from_millis(300)).await;
            return Ok(Done::default());
        };
        ready.send(vec![endpoint()]).expect("the run waits for it");
        if name == "below" {
            self.is_used.notified().await;
            return Err(Failure::new(FailureKind::Service, "the server ended"));
        }
        lease.stop.requested().await;
        Ok(Done::default())
    }
}

#[tokio::test]
async fn a_step_does_not_start_after_its_server_was_stopped_with_the_server_below_it() {
    let need = |task| vec![Need { task, data: true }];
    let tasks = vec![
        Task { lifetime: Lifetime::Service, ..task("below") },
        Task { lifetime: Lifetime::Service, needs: need(0), ..task("above") },
        Task { needs: need(1), ..task("first") },
        Task { needs: need(1), ..task("second") },
    ];
    let executor = EndsUnderServer::default();
    let begun = Arc::clone(&executor.begun);
    let summary = run_tasks_as(&World::new(), tasks, (1, true), executor).await;
    assert_eq!(*begun.lock(), ["below", "above", "first"]);
    assert_eq!((summary.tally.ran, summary.tally.failed, summary.tally.cancelled), (1, 1, 1));
}

/// Its facts, part of each key, cannot be found.
struct PanicsAtFacts;

impl TaskExecutor for PanicsAtFacts {
    async fn perform(&self, _: Lease) -> Result<Done, Failure> {
        Ok(Done::default())
    }

    fn facts(&self, _: &Task) -> BTreeMap<String, String> {
        panic!("no facts")
    }
}

#[tokio::test]
async fn a_panic_beside_the_loop_fails_the_task_and_the_run_ends() {
    let tasks = vec![Task { container: Some(container()), ..task("a") }];
    let run = timeout(Duration::from_mins(1), run_tasks(&World::new(), tasks, 1, PanicsAtFacts)).await;
    let failures = run.expect("it ends").failures;
    let failed: Vec<&str> = failures.iter().map(|(_, failure)| failure.what.as_str()).collect();
    assert_eq!(failed, ["computing its key panicked: no facts"]);
}

#[tokio::test]
async fn gpus_of_servers_that_are_needed_together_are_counted_together() {
    let server = |id: &str| Task { lifetime: Lifetime::Service, gpus: 2, ..task(id) };
    let need = |task| Need { task, data: true };
    let tasks = vec![server("one"), server("two"), Task { needs: vec![need(0), need(1)], gpus: 1, ..task("both") }];
    let failures = run_tasks(&World::new(), tasks, 1, FoundDead).await.failures;
    assert_eq!(failures[0].1.what, "it needs 5 GPUs, but this run can lease only 0");
}
