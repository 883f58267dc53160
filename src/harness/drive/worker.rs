//! One load worker: its own thread, reactor, connections and share of the arrivals. Shares nothing on the hot path.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::dispatcher::{DispatchCounts, Dispatcher};
use super::external_driver::CallInbox;
use super::in_flight::LiveCounts;
use super::pacer::{Alarms, Pacer};
use super::request_attempt::{CallKind, RequestAttempt, RequestProgress};
use crate::harness::clock::BenchClock;
use crate::harness::measure::collector::Collector;
use crate::harness::record::RequestEnd;
use crate::harness::schedule::data::PreviousAnswers;
use crate::harness::schedule::plan::PlanQueue;
use crate::harness::transport::connection::Connection;
use crate::harness::transport::http::{ConnectionPool, Connector};
use crate::harness::transport::kserve::infer_request::TokenCounting;
use crate::harness::transport::request_encoder::RequestEncoder;
use crate::harness::{BenchSpec, HarnessError, PlannedRequest, RequestSchedule, Scenario};

/// Request bodies serialised before the start, in all; the rest is serialised one ahead of need.
const PREBUILT_BYTES: usize = 256 << 20;

pub(in crate::harness) struct WorkerJob {
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
    pub room: Option<Arc<Semaphore>>,
    pub keeps_answers: bool,
    pub tls: Option<Connector>,
    /// The source of requests from an external driver.
    pub inbox: Cell<Option<CallInbox>>,
}

/// The output of a worker.
pub(in crate::harness) struct WorkerOutput {
    pub collector: Collector,
    pub issued: u64,
    pub lost: u64,
    pub in_flight_at_end: u64,
    /// In-flight integral, request·ns, from a running gauge (not from records).
    pub in_flight_area: f64,
    /// CPU of this thread between start and end, ns.
    pub cpu_ns: u64,
    /// Time this thread waited for a core, ns; absent where the kernel does not report it.
    pub wait_ns: Option<u64>,
    pub wall_ns: u64,
    /// How often the next request in line waited because all connections were full.
    pub waited_for_stream: u64,
    /// How often an arrival waited because the limit on requests in flight was reached.
    pub held_back: u64,
    pub max_streams: Option<u64>,
    pub reconnects: u32,
    /// Kept HTTP connections that the server closed while they were idle.
    pub idle_closed: u64,
    /// Requests sent again because such a close crossed them on the way.
    pub resent: u64,
    /// Shared streams that were opened.
    pub streams: u64,
    /// HTTP/1.1 connections opened, before the start and after.
    pub opened: Option<u64>,
    pub call: CallKind,
    pub count: TokenCounting,
}

/// Connected and warmed up, waiting for the start.
pub(in crate::harness) struct PreparedWorker {
    job: WorkerJob,
    links: Vec<Rc<Connection>>,
    manner: Arc<RequestEncoder>,
    pacer: Pacer,
}

/// Messages made before the start, by the index of their first request.
pub(in crate::harness) struct PreparedMessages(Vec<Mutex<Option<Bytes>>>);

impl PreparedMessages {
    pub fn for_plan(schedule: &RequestSchedule) -> Self {
        Self(schedule.requests.iter().map(|_| Mutex::new(None)).collect())
    }

    fn put(&self, index: u64, body: Bytes) {
        if let Some(place) = self.0.get(index as usize) {
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(body);
        }
    }

    /// Each once.
    pub fn take(&self, index: u64) -> Option<Bytes> {
        self.0.get(index as usize)?.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl WorkerJob {
    fn spec_connections(&self) -> impl Iterator<Item = usize> + use<> {
        let endpoints = self.spec.endpoints.len();
        (self.number..self.spec.connections()).step_by(self.workers).map(move |connection| connection % endpoints)
    }

    /// This worker's sessions in the order of their times: the index of the first request, and the requests.
    pub fn mine<'s>(
        &self,
        schedule: &'s RequestSchedule,
    ) -> impl Iterator<Item = (u64, &'s [PlannedRequest])> + use<'s> {
        schedule.sessions(self.spec.request.batch()).skip(self.number).step_by(self.workers)
    }

    /// Requests that are sent together: a batch, or one turn after the other.
    pub fn messages<'s>(&self, session: &'s [PlannedRequest]) -> std::slice::Chunks<'s, PlannedRequest> {
        session.chunks(self.spec.request.batch())
    }

    /// Connects, queries the model, serialises bodies, warms up.
    pub async fn prepare(self) -> Result<PreparedWorker, HarnessError> {
        let heard: Vec<_> = self.spec.endpoints.iter().map(|_| Rc::new(Cell::new(0))).collect();
        let links: Vec<_> = self
            .spec_connections()
            .map(|at| {
                let endpoint = &self.spec.endpoints[at];
                let mode = self.spec.pace.stream;
                let heard = Rc::clone(&heard[at]);
                let limits = self.spec.response_limits();
                let mut link =
                    Connection::new(at as u32, endpoint, &self.spec.protocol, mode, limits, self.clock, heard);
                if let (Some(pool), Some(tls)) = (&mut link.pool, &self.tls) {
                    pool.secure(tls.clone());
                }
                Rc::new(link)
            })
            .collect();
        let mut manner = None;
        for link in &links {
            let found = RequestEncoder::agree(link, &self.spec).await?;
            if manner.get_or_insert_with(|| found.clone()) != &found {
                let model = self.spec.model.clone();
                let why = "it is another model (streaming, tensors or batching) than on the first server".to_owned();
                return Err(HarnessError::Model { endpoint: link.authority(), model, why });
            }
        }
        let manner = Arc::new(manner.ok_or_else(|| HarnessError::Worker("it has no connection".to_owned()))?);
        if let Some(inbox) = self.inbox.take() {
            inbox.desk.agree(&manner);
            self.inbox.set(Some(inbox));
        }
        let mut bytes = 0;
        let is_outside = matches!(self.spec.scenario, Scenario::Outside(_));
        for (index, session) in self.mine(&self.schedule) {
            let Some(message) = self.messages(session).next() else { continue };
            if is_outside || bytes >= PREBUILT_BYTES / self.workers {
                break;
            }
            let body = manner.message(&self.schedule, index, message, &PreviousAnswers::default())?;
            bytes += body.len();
            self.bodies.put(index, body);
        }
        if self.number == 0 {
            self.warm_up(&links, &manner).await?;
        }
        let pacer = Pacer::new().map_err(|source| HarnessError::System { what: "no timerfd".to_owned(), source })?;
        Ok(PreparedWorker { job: self, links, manner, pacer })
    }

    async fn warm_up(&self, links: &[Rc<Connection>], manner: &RequestEncoder) -> Result<(), HarnessError> {
        let until = self.spec.pace.warmup_for.map(|time| std::time::Instant::now() + time);
        let is_wanted =
            |number| number < self.spec.warmup || until.is_some_and(|until| std::time::Instant::now() < until);
        for number in (0..).take_while(|number| is_wanted(*number)) {
            let planned = &[self.schedule.warmup(u64::from(number))];
            let index = self.schedule.requests.len() as u64 + u64::from(number);
            let link = &links[number as usize % links.len()];
            let answer = RequestAttempt {
                link,
                manner,
                frame: manner.message(&self.schedule, index, planned, &PreviousAnswers::default())?,
                id: index,
                planned,
                collector: None,
                clock: self.clock,
                stall: self.spec.stall_timeout,
                limits: self.spec.response_limits(),
                deadline: None,
                t_issue: self.clock.now(),
                t_attempt: self.clock.now(),
            }
            .perform(&self.stop, &mut [RequestProgress::default()])
            .await;
            match answer.ended.into_iter().next() {
                Some(RequestEnd::Ok | RequestEnd::Withdrawn) | None => {}
                Some(RequestEnd::Cancelled) => return Err(HarnessError::Stopped),
                Some(RequestEnd::Failed { class, why }) => {
                    let why = format!("{}: {why}", class.as_str());
                    return Err(HarnessError::Warmup { number: number + 1, why });
                }
            }
        }
        Ok(())
    }
}

impl PreparedWorker {
    /// Sends this worker's arrivals from `t0` (ns on the clock) and waits for every answer.
    pub async fn race(self, t0: u64) -> Result<WorkerOutput, HarnessError> {
        let Self { job, links, manner, pacer } = self;
        let keeps_timelines = job.spec.timelines;
        let connected_before: u32 = links.iter().map(|link| link.reconnects()).sum();
        let (idle_closed_before, resent_before) = idle_closes(&links);
        // Those of warm-ups are in no count.
        for link in &links {
            drop(link.strays.take());
        }
        let (cpu, wait) = (thread_cpu(), run_queue_wait());
        let lane = Rc::new(Dispatcher {
            job,
            links,
            manner,
            t0,
            collector: Rc::new(RefCell::new(Collector { keeps_timelines, ..Collector::new() })),
            gauge: Rc::default(),
            freed: Rc::default(),
            alarms: Alarms::default(),
            counts: DispatchCounts::default(),
            failed: RefCell::default(),
        });
        let no_timer = |source| HarnessError::System { what: "timerfd".to_owned(), source };
        let alarm_pacer = Pacer::new().map_err(no_timer)?;
        let outcome = tokio::select! {
            ended = lane.run(&pacer) => ended,
            error = lane.alarms.run(&alarm_pacer) => match error { Err(error) => Err(error), Ok(never) => match never {} },
        };
        outcome.map_err(no_timer)?;
        if let Some(error) = lane.failed.take() {
            return Err(error);
        }
        let Dispatcher { job, links, manner, gauge, collector, counts, .. } = &*lane;
        gauge.change(job.clock.now(), 0);
        let (idle_closed, resent) = idle_closes(links);
        let mut collected = collector.replace(Collector::new());
        for link in links {
            collected.violations.merge(link.strays.take());
        }
        let max_streams = links.iter().map(|link| link.max_streams()).min().filter(|max| *max < u32::MAX as usize);
        Ok(WorkerOutput {
            issued: counts.issued.get(),
            lost: counts.lost.get(),
            in_flight_at_end: gauge.now(),
            in_flight_area: gauge.area(),
            cpu_ns: thread_cpu().saturating_sub(cpu),
            wait_ns: run_queue_wait().zip(wait).map(|(after, before)| after.saturating_sub(before)),
            wall_ns: job.clock.now().saturating_sub(t0),
            waited_for_stream: counts.waited_for_stream.get(),
            held_back: counts.held_back.get(),
            max_streams: max_streams.map(|max| max as u64),
            reconnects: links.iter().map(|link| link.reconnects()).sum::<u32>() - connected_before,
            streams: links.iter().map(|link| u64::from(link.streams.get())).sum(),
            opened: links.iter().map(|link| Some(u64::from(link.pool.as_ref()?.opened.get()))).sum(),
            call: manner.call(),
            count: manner.count(),
            idle_closed: idle_closed - idle_closed_before,
            resent: resent - resent_before,
            collector: collected,
        })
    }
}

/// Kept HTTP connections that servers closed while idle, and requests sent again because they collided with such a close.
fn idle_closes(links: &[Rc<Connection>]) -> (u64, u64) {
    let sum = |of: fn(&ConnectionPool) -> u32| {
        links.iter().filter_map(|link| link.pool.as_ref()).map(|pool| u64::from(of(pool))).sum()
    };
    (sum(|pool| pool.idle_closed.get()), sum(|pool| pool.resent.get()))
}

fn thread_cpu() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32).as_nanos() as u64
}

/// Second number of schedstat: ns spent runnable but not running.
fn run_queue_wait() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}
