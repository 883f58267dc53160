//! The driver: sets workers up, starts them at one instant, watches, gathers, summarizes. Written once for every mix.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::{LocalSet, spawn_local};
use tokio_util::sync::CancellationToken;

use super::external_driver::{CallInbox, SampleCache, called};
use super::worker::{PreparedMessages, WorkerShare};
use crate::measure::collector::WorkerOutput;
use crate::measure::result::Measured;
use crate::measure::summary;
use crate::measure::summary::RunStart;
use crate::record::BenchClock;
use crate::schedule::plan::{self, PlanQueue};
use crate::tokens::LiveCounts;
use crate::transport::http::Connector;
use crate::{
    BenchSpec, CallInlet, ExternalObserver, ExternalSample, HarnessError, LoadPattern, RequestSchedule, Transport,
    UnjudgedRun,
};
use base::event::{LiveMeasurement, Stop};
use base::files::cores;

/// Between "all ready" and the first arrival: time for every worker to reach its timer.
const RUN_UP: Duration = Duration::from_millis(20);
const WATCH_EVERY: Duration = Duration::from_millis(200);

/// The progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BenchProgress {
    pub scheduled: u64,
    /// Without what needs a clock: the rate of the last seconds, and the time that is left.
    pub so_far: LiveMeasurement,
}

/// Runs the whole measurement. Load comes from threads of its own; this future only watches, and dropping it cancels.
///
/// A failed request is part of the result, and so is a stop in the middle. Errors are for what prevents measuring.
/// Further facts about the run are added to the result before its verdict.
pub async fn measure(
    spec: &BenchSpec,
    stop: &Stop,
    progress: impl Fn(BenchProgress),
) -> Result<UnjudgedRun, HarnessError> {
    let spec = Arc::new(spec.clone());
    let planned = {
        // Files may be large.
        let spec = Arc::clone(&spec);
        tokio::task::spawn_blocking(move || {
            let schedule = Arc::new(plan::plan(&spec)?);
            let queue = PlanQueue::new(&schedule, &spec)?;
            Ok::<_, HarnessError>((schedule, queue))
        })
    };
    let (schedule, queue) = planned.await.map_err(|_| HarnessError::Worker { when: "while the run was planned" })??;
    drive(spec, schedule, queue, None, stop, progress).await
}

/// Measures, and judges by the run's own numbers alone.
pub async fn run(spec: &BenchSpec, stop: &Stop, progress: impl Fn(BenchProgress)) -> Result<Measured, HarnessError> {
    measure(spec, stop, progress).await.map(UnjudgedRun::judge)
}

/// As [`measure`], but an external driver issues the requests: `open` gets the inlet when everything is ready, and must
/// not wait. The run ends when the inlet is dropped and every request has ended. Times count from the first call.
pub async fn measure_external(
    spec: &BenchSpec,
    samples: &[ExternalSample],
    observer: Arc<dyn ExternalObserver>,
    open: impl FnOnce(CallInlet) + Send,
    stop: &Stop,
    progress: impl Fn(BenchProgress),
) -> Result<UnjudgedRun, HarnessError> {
    let schedule = Arc::new(plan::for_external_driver(spec, samples)?);
    let queue = PlanQueue::new(&schedule, spec)?;
    let sample_cache = Arc::new(SampleCache::new(Arc::clone(&schedule), observer));
    let external = ExternalDriverSetup { sample_cache, send_inlet: Box::new(open) };
    drive(Arc::new(spec.clone()), schedule, queue, Some(external), stop, progress).await
}

struct ExternalDriverSetup<'a> {
    sample_cache: Arc<SampleCache>,
    send_inlet: Box<dyn FnOnce(CallInlet) + Send + 'a>,
}

async fn drive(
    spec: Arc<BenchSpec>,
    schedule: Arc<RequestSchedule>,
    queue: PlanQueue,
    external: Option<ExternalDriverSetup<'_>>,
    stop: &Stop,
    progress: impl Fn(BenchProgress),
) -> Result<UnjudgedRun, HarnessError> {
    let queue = Arc::new(queue);
    // Users who send for a time send as many requests as they can.
    let is_counted = external.is_none() && (spec.scenario.is_open_loop() || queue.has_all());
    let scheduled = is_counted.then_some(schedule.requests.len() as u64);
    let bodies = Arc::new(PreparedMessages::for_plan(&spec, &schedule));
    let room = spec.pace.max_in_flight.map(|most| Arc::new(Semaphore::new(most as usize)));
    let keeps_answers = schedule.requests.iter().any(|planned| planned.needs_answers());
    let tls = connector(&spec.protocol)?;
    let clock = BenchClock::start();
    let started = jiff::Timestamp::now().to_string();
    let cancel = CancellationToken::new();
    let _cancel_when_dropped = cancel.clone().drop_guard();
    let lives: Vec<Arc<LiveCounts>> =
        (0..workers(spec.connections(), spec.scenario.users())).map(|_| Arc::default()).collect();
    provide_descriptors(at_once(&spec, schedule.requests.len()), lives.len())?;
    let (inlets, mut outlets): (Vec<_>, Vec<_>) = lives.iter().map(|_| unbounded_channel()).unzip();
    let mut workers = Vec::new();
    for (number, live) in lives.iter().enumerate() {
        workers.push(WorkerThread::start(WorkerShare {
            number,
            workers: lives.len(),
            spec: Arc::clone(&spec),
            schedule: Arc::clone(&schedule),
            clock,
            live: Arc::clone(live),
            // One child token each: registering with it takes a lock, which workers must not share.
            stop: cancel.child_token(),
            queue: Arc::clone(&queue),
            bodies: Arc::clone(&bodies),
            in_flight_permits: room.clone(),
            keeps_answers,
            tls: tls.clone(),
            inbox: Cell::new(external.as_ref().map(|external| CallInbox {
                sample_cache: Arc::clone(&external.sample_cache),
                arrivals: outlets.remove(0),
            })),
        })?);
    }
    for member in &mut workers {
        tokio::select! {
            ready = &mut member.ready => ready.map_err(|_| HarnessError::Worker { when: "while it was set up" })??,
            () = stop.requested() => return Err(HarnessError::Stopped),
        }
    }
    let log = Arc::default();
    let t0 = match external {
        None => clock.now() + RUN_UP.as_nanos() as u64,
        Some(ExternalDriverSetup { sample_cache, send_inlet: open }) => {
            let (tell_begun, begun) = oneshot::channel();
            open(CallInlet::new(sample_cache, inlets, Arc::clone(&log), tell_begun));
            tokio::select! {
                // No request was issued: nothing has a start time, nothing is counted.
                at = begun => at.map_or_else(|_| clock.now(), |at| clock.at(at)),
                () = stop.requested() => return Err(HarnessError::Stopped),
            }
        }
    };
    let outputs = gather_outputs(workers, t0, stop, &cancel, || progress(sum_progress(&lives, scheduled))).await?;
    let was_stopped = outputs.iter().any(|output| output.was_stopped);
    progress(sum_progress(&lives, scheduled));
    let untaken = if spec.scenario.users() > 0 { queue.unreached_requests() } else { 0 };
    let schedule = match &spec.scenario {
        LoadPattern::External(_) => {
            let log = log.lock();
            Arc::new(schedule.with_issued(called(&schedule, &log, clock, t0)))
        }
        _ if spec.scenario.users() > 0 => queue.close()?,
        _ => schedule,
    };
    let start = RunStart { wall: started, zero: clock.instant(t0) };
    let mut run = sum_up(spec, schedule, outputs, untaken, start).await?;
    if was_stopped {
        run.stopped();
    }
    Ok(run)
}

/// Starts the workers at one instant, and waits for what each has measured. `watch` is called all the while.
async fn gather_outputs(
    workers: Vec<WorkerThread>,
    t0: u64,
    stop: &Stop,
    cancel: &CancellationToken,
    watch: impl Fn(),
) -> Result<Vec<WorkerOutput>, HarnessError> {
    let mut results = Vec::new();
    for member in workers {
        // A worker that has ended is detected when its output is awaited.
        let _ = member.start_at.send(t0);
        results.push(member.output);
    }
    let watching = async {
        let mut tick = tokio::time::interval(WATCH_EVERY);
        loop {
            tick.tick().await;
            watch();
        }
    };
    let gather = async {
        let mut outputs = Vec::new();
        for output in results {
            outputs.push(output.await.map_err(|_| HarnessError::Worker { when: "while it ran" })??);
        }
        Ok::<_, HarnessError>(outputs)
    };
    let obey = async {
        stop.requested().await;
        cancel.cancel();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        outputs = gather => outputs,
        () = watching => unreachable!("the watch has no end"),
        () = obey => unreachable!("obedience has no end"),
    }
}

/// What the outputs of all workers amount to. On its own thread, because tokenizing the answers may take long.
async fn sum_up(
    spec: Arc<BenchSpec>,
    schedule: Arc<RequestSchedule>,
    outputs: Vec<WorkerOutput>,
    untaken: u64,
    start: RunStart,
) -> Result<UnjudgedRun, HarnessError> {
    let summed = tokio::task::spawn_blocking(move || {
        let measured = summary::summarize(&spec, &schedule, outputs, untaken, &start);
        // A result must rest on all records.
        let records = "records of requests in a temporary file (TMPDIR sets the folder)";
        measured.requests.check().map_err(HarnessError::system(records))?;
        Ok(UnjudgedRun::new(spec, measured))
    });
    summed.await.map_err(|_| HarnessError::Worker { when: "while the run was summed up" })?
}

/// The settings of TLS connections; their files are read once.
fn connector(protocol: &Transport) -> Result<Option<Connector>, HarnessError> {
    let Transport::Http(http) = protocol else { return Ok(None) };
    http.tls.as_deref().map(Connector::new).transpose()
}

/// The connections that are open at once, as far as that is known before the first request: over HTTP each request in
/// flight has its own.
fn at_once(spec: &BenchSpec, requests: usize) -> usize {
    let sent = if matches!(spec.scenario, LoadPattern::Offline) { requests } else { spec.scenario.users() };
    let most = spec.pace.max_in_flight.map_or(usize::MAX, |most| most as usize);
    if matches!(spec.protocol, Transport::Http(_)) { sent.min(most) } else { spec.connections() }
}

/// Raises this process's limit of descriptors, as far as its user may, where the run needs more.
fn provide_descriptors(connections: usize, workers: usize) -> Result<(), HarnessError> {
    /// A worker's own: its reactor, its timers, its wake-up.
    const OF_WORKER: usize = 8;
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let needed = (open + connections + workers * OF_WORKER) as u64;
    let limit = getrlimit(Resource::Nofile);
    let allows = |limit: Option<u64>| limit.is_none_or(|limit| limit >= needed);
    let raised = Rlimit { current: limit.maximum, ..limit };
    if allows(limit.current) || allows(limit.maximum) && setrlimit(Resource::Nofile, raised).is_ok() {
        return Ok(());
    }
    let most = limit.maximum.or(limit.current).unwrap_or_default();
    let needs = format!("{needed} file descriptors are needed, {connections} of them for connections");
    Err(HarnessError::system(format!("{needs}; `ulimit -n` is {most}"))(Errno::MFILE.into()))
}

/// As many as there are cores, but every worker with equally many connections, so that servers get equal load, and none
/// without a user.
fn workers(connections: usize, users: usize) -> usize {
    let cores = cores();
    let most = if users == 0 { connections } else { connections.min(users) };
    (1..=cores.min(most)).rev().find(|workers| connections.is_multiple_of(*workers)).unwrap_or(1)
}

/// Without `scheduled` the number of requests to come is unknown: those that were issued stand for it.
fn sum_progress(lives: &[Arc<LiveCounts>], scheduled: Option<u64>) -> BenchProgress {
    let sum = |count: fn(&LiveCounts) -> &AtomicU64| LiveCounts::sum(lives, count);
    let mean_ms = |ns: u64, n: u64| (n > 0).then(|| ns as f64 / n as f64 / 1e6);
    let issued = sum(|live| &live.issued);
    BenchProgress {
        scheduled: scheduled.unwrap_or(issued),
        so_far: LiveMeasurement {
            issued,
            ended: sum(|live| &live.ended),
            failed: sum(|live| &live.failed),
            tokens: sum(|live| &live.tokens),
            ttft_ms: mean_ms(sum(|live| &live.ttft_ns), sum(|live| &live.begun)),
            tpot_ms: mean_ms(sum(|live| &live.tpot_ns), sum(|live| &live.decoded)),
            ..LiveMeasurement::default()
        },
    }
}

/// A worker's thread as the driver sees it. The thread ends when `start_at` is dropped or the run is cancelled.
struct WorkerThread {
    ready: oneshot::Receiver<Result<(), HarnessError>>,
    start_at: oneshot::Sender<u64>,
    output: oneshot::Receiver<Result<WorkerOutput, HarnessError>>,
}

impl WorkerThread {
    fn start(share: WorkerShare) -> Result<Self, HarnessError> {
        let (tell_ready, ready) = oneshot::channel();
        let (go, when) = oneshot::channel();
        let (tell_output, output) = oneshot::channel();
        std::thread::Builder::new()
            .name(format!("load-{}", share.number))
            .spawn(move || {
                let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                    Ok(runtime) => runtime,
                    Err(source) => {
                        let _ = tell_ready.send(Err(HarnessError::system("no runtime for a worker")(source)));
                        return;
                    }
                };
                let work = async move {
                    let stop = share.stop.clone();
                    let prepared = tokio::select! {
                        prepared = share.prepare() => prepared,
                        () = stop.cancelled() => Err(HarnessError::Stopped),
                    };
                    match prepared {
                        Ok(prepared) => {
                            let _ = tell_ready.send(Ok(()));
                            if let Ok(t0) = when.await {
                                let _ = tell_output.send(prepared.run(t0).await);
                            }
                        }
                        Err(error) => drop(tell_ready.send(Err(error))),
                    }
                };
                // All tasks of a worker are in one set, this one too: a wake-up costs no lock and no way through
                // the runtime, and each task runs only when it is woken. A panic shows as a missing worker output.
                let _ = LocalSet::new().block_on(&runtime, async { spawn_local(work).await });
            })
            .map_err(HarnessError::system("no thread for a worker"))?;
        Ok(Self { ready, start_at: go, output })
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn descriptors_that_no_limit_allows_are_an_error_with_their_number() {
        super::provide_descriptors(8, 1).unwrap();
        let error = super::provide_descriptors(1 << 40, 2).unwrap_err().to_string();
        assert!(error.contains("file descriptors are needed, 1099511627776 of them for connections; `ulimit -n` is"));
    }

    #[test]
    fn workers_divide_the_connections() {
        for connections in 1..50 {
            assert_eq!(connections % super::workers(connections, 0), 0);
            assert_eq!(super::workers(connections, 1), 1);
        }
    }
}
