//! One load worker: its own thread, reactor, connections and share of the arrivals. Shares nothing on the hot path.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

use super::dispatcher::{DispatchCounts, Dispatcher};
use super::external_driver::CallInbox;
use super::pacer::{Alarms, Pacer};
use crate::measure::collector::{Collector, WorkerOutput};
use crate::record::BenchClock;
use crate::schedule::data::PreviousAnswers;
use crate::schedule::plan::PlanQueue;
use crate::tokens::LiveCounts;
use crate::transport::connection::Connection;
use crate::transport::http::{ConnectionPool, Connector};
use crate::transport::request_encoder::RequestEncoder;
use crate::transport::sent_headers::SentHeaders;
use crate::{BenchSpec, HarnessError, LoadPattern, PlannedRequest, RequestSchedule};
use base::files::read_text;

/// Connections of a worker that are opened before the start, at most.
const MOST_CONNECTED_AHEAD: usize = 1000;
/// The rest is opened when it is needed.
const CONNECT_AHEAD_FOR: Duration = Duration::from_secs(2);

/// Connected and warmed up, waiting for the start.
pub(crate) struct PreparedWorker {
    share: WorkerShare,
    connections: Vec<Rc<Connection>>,
    encoder: Arc<RequestEncoder>,
    pacer: Pacer,
    freed: Rc<Notify>,
}

impl WorkerShare {
    /// Connects, queries the model, serializes bodies, warms up.
    pub async fn prepare(self) -> Result<PreparedWorker, HarnessError> {
        let cells: Vec<_> = self.spec.endpoints.iter().map(|_| Rc::new(Cell::new(0))).collect();
        let freed = Rc::<Notify>::default();
        let headers = SentHeaders::of_run(&self.spec)?;
        let connections: Vec<_> = self
            .spec_connections()
            .map(|at| {
                let endpoint = &self.spec.endpoints[at];
                let mode = self.spec.pace.stream;
                let cell = Rc::clone(&cells[at]);
                let limits = self.spec.response_bounds();
                let mut connection =
                    Connection::new(at as u32, endpoint, &self.spec.protocol, mode, limits, self.clock, cell);
                connection.freed = Rc::clone(&freed);
                connection.headers.clone_from(&headers);
                if let (Some(pool), Some(tls)) = (&mut connection.pool, &self.tls) {
                    pool.tls = Some(tls.clone());
                }
                Rc::new(connection)
            })
            .collect();
        let mut request_encoder = None;
        for connection in &connections {
            let actual = RequestEncoder::negotiate(connection, &self.spec).await?;
            if request_encoder.get_or_insert_with(|| actual.clone()) != &actual {
                let model = self.spec.model.clone();
                return Err(HarnessError::OtherModel { endpoint: connection.authority(), model });
            }
        }
        let encoder = Arc::new(request_encoder.ok_or(HarnessError::Worker { when: "it has no connection" })?);
        if let Some(inbox) = self.inbox.take() {
            // All workers have found the same.
            let _ = inbox.sample_cache.encoder.set(Arc::clone(&encoder));
            self.inbox.set(Some(inbox));
        }
        let mut bytes = 0;
        let is_external = matches!(self.spec.scenario, LoadPattern::External(_));
        for (index, session) in self.worker_sessions() {
            let Some(message) = self.messages(&session).next() else { continue };
            if is_external || bytes >= self.bodies.bytes / self.workers {
                break;
            }
            let body = encoder.message(&self.schedule, index, message, &PreviousAnswers::default())?.frame;
            bytes += body.len();
            if !self.bodies.put(index, body) {
                break;
            }
        }
        self.warm_up(&connections, &encoder).await?;
        self.open_connections(&connections).await;
        let pacer = Pacer::for_arrivals(self.workers).map_err(HarnessError::system("no timerfd"))?;
        Ok(PreparedWorker { share: self, connections, encoder, pacer, freed })
    }

    /// Opens connections before the load starts. Over HTTP each request in flight needs its own connection, and
    /// requests that are due at the start must leave together. If a connection fails here, its request tries again and
    /// reports the failure.
    async fn open_connections(&self, connections: &[Rc<Connection>]) {
        let until = std::time::Instant::now() + CONNECT_AHEAD_FOR;
        let count = self.due_at_start().min(MOST_CONNECTED_AHEAD).div_ceil(connections.len().max(1));
        for pool in connections.iter().filter_map(|connection| connection.pool.as_ref()) {
            for ready in 1..=count {
                if std::time::Instant::now() > until || pool.warm(ready).await.is_err() {
                    return;
                }
            }
        }
    }

    /// How many requests this worker sends at once.
    fn due_at_start(&self) -> usize {
        let due = match &self.spec.scenario {
            LoadPattern::Offline => self.worker_sessions().count(),
            LoadPattern::Concurrency { users } => (users.highest().floor() as usize).div_ceil(self.workers),
            _ => 0,
        };
        due.min(self.spec.pace.max_in_flight.map_or(usize::MAX, |most| (most as usize).div_ceil(self.workers)))
    }
}

impl PreparedWorker {
    /// Sends this worker's arrivals from `t0` (ns on the clock) and waits for every answer.
    pub async fn run(self, t0: u64) -> Result<WorkerOutput, HarnessError> {
        let Self { share, connections, encoder, pacer, freed } = self;
        let (keeps_timelines, workers) = (share.spec.timelines, share.workers);
        let connected_before: u32 = connections.iter().map(|connection| connection.reconnects()).sum();
        let (idle_closed_before, resent_before) = idle_closes(&connections);
        // Those of warm-ups are in no count.
        for connection in &connections {
            drop(connection.unmatched_messages.take());
        }
        let before = Cell::new(ThreadUsage::now(&pacer));
        let dispatcher = Rc::new(Dispatcher {
            share,
            connections,
            encoder,
            t0,
            collector: Rc::new(RefCell::new(Collector { keeps_timelines, ..Collector::one_of(workers) })),
            gauge: Rc::default(),
            freed,
            alarms: Alarms::default(),
            counts: DispatchCounts::default(),
            no_room_since: Cell::default(),
            failed: RefCell::default(),
        });
        let alarm_pacer = Pacer::new().map_err(HarnessError::system("timerfd"))?;
        // The CPU time spent before the start is not counted as the load's.
        let begin = async {
            dispatcher.alarms.until(dispatcher.share.clock.instant(t0)).await;
            before.set(ThreadUsage::now(&pacer));
        };
        let outcome = tokio::select! {
            (ended, ()) = async { tokio::join!(dispatcher.run(&pacer), begin) } => ended,
            error = dispatcher.alarms.run(&alarm_pacer) => match error {
                Err(error) => Err(error),
                Ok(never) => match never {},
            },
        };
        outcome.map_err(HarnessError::system("timerfd"))?;
        if let Some(error) = dispatcher.failed.take() {
            return Err(error);
        }
        let Dispatcher { share, connections, encoder, gauge, collector, counts, .. } = &*dispatcher;
        let was_stopped = share.stop.is_cancelled();
        let (used, before) = (ThreadUsage::now(&pacer), before.get());
        let t_end = share.clock.now();
        gauge.change(t_end, 0);
        let cpu_ns = used.cpu_ns.saturating_sub(before.cpu_ns);
        let wait_ns = used.wait_ns.zip(before.wait_ns).map(|(after, before)| after.saturating_sub(before));
        let (idle_closed, resent) = idle_closes(connections);
        if !was_stopped {
            join_all(connections.iter().filter_map(|connection| connection.pool.as_ref()).map(ConnectionPool::end))
                .await;
        }
        let mut collected = collector.replace(Collector::new());
        for connection in connections {
            collected.violations.merge(connection.unmatched_messages.take());
        }
        let max_streams =
            connections.iter().map(|connection| connection.max_streams()).min().filter(|max| *max < u32::MAX as usize);
        Ok(WorkerOutput {
            issued: counts.issued.get(),
            not_sent: counts.not_sent.get(),
            was_stopped,
            in_flight_at_end: gauge.now(),
            in_flight_area: gauge.area(),
            cpu_ns,
            wait_ns,
            wall_ns: t_end.saturating_sub(t0),
            waited_for_stream: counts.waited_for_stream.get(),
            deferred: counts.deferred.get(),
            max_streams: max_streams.map(|max| max as u64),
            reconnects: connections.iter().map(|connection| connection.reconnects()).sum::<u32>() - connected_before,
            streams: connections.iter().map(|connection| u64::from(connection.streams.get())).sum(),
            opened: connections.iter().map(|connection| Some(u64::from(connection.pool.as_ref()?.opened.get()))).sum(),
            call: encoder.call(),
            count: encoder.count(),
            pacing: pacer.kind(),
            idle_closed: idle_closed - idle_closed_before,
            resent: resent - resent_before,
            collector: collected,
        })
    }
}

/// Kept HTTP connections that servers closed while idle, and requests sent again because they collided with such a
/// close.
fn idle_closes(connections: &[Rc<Connection>]) -> (u64, u64) {
    let sum = |of: fn(&ConnectionPool) -> u32| {
        connections.iter().filter_map(|connection| connection.pool.as_ref()).map(|pool| u64::from(of(pool))).sum()
    };
    (sum(|pool| pool.idle_closed.get()), sum(|pool| pool.resent.get()))
}

/// What this thread has used so far.
#[derive(Clone, Copy)]
struct ThreadUsage {
    /// Without what was spun away while it waited for arrivals.
    cpu_ns: u64,
    wait_ns: Option<u64>,
}

impl ThreadUsage {
    fn now(pacer: &Pacer) -> Self {
        let cpu_ns = thread_cpu().saturating_sub(pacer.spun().as_nanos() as u64);
        Self { cpu_ns, wait_ns: run_queue_wait() }
    }
}

fn thread_cpu() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32).as_nanos() as u64
}

/// Second number of schedstat: ns spent runnable but not running.
fn run_queue_wait() -> Option<u64> {
    let text = read_text("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}

// The part of a run that one worker carries out.

pub(crate) struct WorkerShare {
    pub number: usize,
    pub workers: usize,
    pub spec: Arc<BenchSpec>,
    pub schedule: Arc<RequestSchedule>,
    pub clock: BenchClock,
    pub live: Arc<LiveCounts>,
    pub stop: CancellationToken,
    /// The source of the users' sessions.
    pub queue: Arc<PlanQueue>,
    pub bodies: Arc<PreparedMessages>,
    /// One permit for each request that may be in flight.
    pub in_flight_permits: Option<Arc<Semaphore>>,
    pub keeps_answers: bool,
    pub tls: Option<Connector>,
    /// The source of requests from an external driver.
    pub inbox: Cell<Option<CallInbox>>,
}

impl WorkerShare {
    /// The endpoints of this worker's connections.
    pub fn spec_connections(&self) -> impl Iterator<Item = usize> + use<> {
        let endpoints = self.spec.endpoints.len();
        (self.number..self.spec.connections()).step_by(self.workers).map(move |connection| connection % endpoints)
    }

    /// The workers that warm up any endpoint.
    pub fn warming_workers(&self) -> usize {
        let numbers: BTreeSet<_> =
            (0..self.spec.endpoints.len()).filter_map(|endpoint| self.warming_worker(endpoint)).collect();
        numbers.len().max(1)
    }

    /// An endpoint is warmed up by the first worker that has a connection to it.
    pub fn warming_worker(&self, endpoint: usize) -> Option<usize> {
        let connections = (endpoint..self.spec.connections()).step_by(self.spec.endpoints.len());
        connections.map(|connection| connection % self.workers).min()
    }

    /// This worker's sessions in the order of their times: the index of the first request, and the requests.
    pub fn worker_sessions(&self) -> impl Iterator<Item = (u64, Vec<PlannedRequest>)> + use<> {
        self.schedule.sessions(self.spec.request.batch()).skip(self.number).step_by(self.workers)
    }

    /// Requests that are sent together: a batch, or one turn after the other.
    pub fn messages<'s>(&self, session: &'s [PlannedRequest]) -> std::slice::Chunks<'s, PlannedRequest> {
        session.chunks(self.spec.request.batch())
    }
}

/// Messages encoded before the start, keyed by the index of their first request.
pub(crate) struct PreparedMessages {
    places: Vec<Mutex<Option<Bytes>>>,
    /// Bytes of them, in all; the rest is made one ahead of need.
    pub bytes: usize,
}

impl PreparedMessages {
    /// Only where all requests leave at once is making them a part of the load.
    pub fn for_plan(spec: &BenchSpec, schedule: &RequestSchedule) -> Self {
        // A place costs memory too.
        let (bytes, most) =
            if matches!(spec.scenario, LoadPattern::Offline) { (64 << 20, 1 << 18) } else { (8 << 20, 1 << 15) };
        let places = (0..schedule.requests.len().min(most)).map(|_| Mutex::new(None)).collect();
        Self { places, bytes }
    }

    /// False: the store is full, for this index and every higher one.
    pub fn put(&self, index: u64, body: Bytes) -> bool {
        let place = self.places.get(index as usize);
        if let Some(place) = place {
            *place.lock() = Some(body);
        }
        place.is_some()
    }

    /// Each once.
    pub fn take(&self, index: u64) -> Option<Bytes> {
        self.places.get(index as usize)?.lock().take()
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::LocalSet;
    use tokio_util::sync::CancellationToken;

    use super::PreparedMessages;
    use super::*;
    use crate::record::BenchClock;
    use crate::schedule::plan::{PlanQueue, plan};
    use crate::transport::kserve::infer_request::InferRequestTemplate;
    use crate::transport::kserve::model_metadata::ModelMetadata;
    use crate::{BenchSpec, LoadLevel, LoadSegment, SendingSpec, Slo, Transport};
    use base::spec::{Arrivals, Length, Limits, Request, StopAfter};

    const BURNT: u64 = 30_000_000;

    /// Its one user comes 10 ms after the start, and finds no request left.
    fn idle_worker(clock: BenchClock) -> PreparedWorker {
        let users = LoadLevel::Ramp(vec![LoadSegment { from: 0.0, to: 1.0, seconds: 0.01 }]);
        let spec = BenchSpec {
            endpoints: vec!["127.0.0.1:1".parse().unwrap()],
            protocol: Transport::Kserve,
            model: "m".to_owned(),
            scenario: LoadPattern::Concurrency { users },
            arrivals: Arrivals::Constant,
            stop: StopAfter { requests: Some(1), duration: None },
            input_len: Length::Fixed(1),
            output_len: Length::Fixed(1),
            seed: 1,
            warmup: 0,
            pace: SendingSpec::default(),
            content: crate::PromptSource::default(),
            frontends: 1,
            clients: 1,
            stall_timeout: Duration::from_secs(1),
            limits: Limits::default(),
            slo: Slo::default(),
            timelines: false,
            vocab_size: 10,
            end_id: 2,
            request: Request::default(),
        };
        let encoder = InferRequestTemplate::new(&spec, &ModelMetadata::default()).unwrap();
        let schedule = Arc::new(plan(&spec).unwrap());
        let queue = PlanQueue::new(&schedule, &spec).unwrap();
        while queue.take(0, true).is_some() {}
        let share = WorkerShare {
            number: 0,
            workers: 1,
            clock,
            live: Arc::default(),
            stop: CancellationToken::new(),
            queue: Arc::new(queue),
            bodies: Arc::new(PreparedMessages::for_plan(&spec, &schedule)),
            schedule,
            spec: Arc::new(spec),
            in_flight_permits: None,
            keeps_answers: false,
            tls: None,
            inbox: Cell::default(),
        };
        let (encoder, pacer) = (Arc::new(RequestEncoder::Kserve(encoder)), Pacer::new().unwrap());
        PreparedWorker { share, connections: Vec::new(), encoder, pacer, freed: Rc::default() }
    }

    #[tokio::test]
    async fn what_a_worker_used_before_the_start_does_not_count() {
        let clock = BenchClock::start();
        let worker = idle_worker(clock);
        let t0 = clock.now() + 300_000_000;
        let run_up = async {
            tokio::task::yield_now().await;
            let before = thread_cpu();
            while thread_cpu() - before < BURNT {}
        };
        let (output, ()) = LocalSet::new().run_until(async { tokio::join!(worker.run(t0), run_up) }).await;
        assert!(output.unwrap().cpu_ns < BURNT);
    }
}
