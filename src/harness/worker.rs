//! One load worker: its own thread, reactor, connections and share of the arrivals. Shares nothing on the hot path.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::Notify;
use tokio::task::{JoinSet, LocalSet};
use tokio_util::sync::CancellationToken;

use super::clock::Clock;
use super::collect::Collector;
use super::exchange::{Call, Exchange, Part};
use super::flight::{Flight, Gauge, Live};
use super::form::Count;
use super::link::Link;
use super::manner::Manner;
use super::pacer::Pacer;
use super::record::Ended;
use super::{HarnessError, Planned, Schedule, Spec};

/// Request bodies serialised before the start, in all; the rest is serialised one ahead of need.
const PREBUILT_BYTES: usize = 256 << 20;

pub(super) struct Job {
    pub number: usize,
    pub workers: usize,
    pub spec: Arc<Spec>,
    pub schedule: Arc<Schedule>,
    pub clock: Clock,
    pub live: Arc<Live>,
    pub stop: CancellationToken,
}

/// What a worker brings back.
pub(super) struct Share {
    pub collector: Collector,
    pub issued: u64,
    pub lost: u64,
    pub in_flight_at_end: u64,
    /// In-flight integral, request·ns, from a running gauge (not from records).
    pub in_flight_area: f64,
    /// CPU of this thread between start and end, ns.
    pub cpu_ns: u64,
    /// Time this thread waited for a core, ns; absent where the kernel does not tell.
    pub wait_ns: Option<u64>,
    pub wall_ns: u64,
    /// How often the next request in line waited because all connections were full.
    pub waited_for_stream: u64,
    pub max_streams: Option<u64>,
    pub reconnects: u32,
    /// HTTP/1.1 connections made, before the start and after.
    pub opened: Option<u64>,
    pub call: Call,
    pub count: Count,
}

/// Connected and warmed up, waiting for the start.
pub(super) struct Prepared {
    job: Job,
    links: Vec<Rc<Link>>,
    manner: Arc<Manner>,
    pacer: Pacer,
    bodies: VecDeque<Bytes>,
}

impl Job {
    fn spec_connections(&self) -> impl Iterator<Item = usize> + use<> {
        let endpoints = self.spec.endpoints.len();
        (self.number..self.spec.connections()).step_by(self.workers).map(move |connection| connection % endpoints)
    }

    /// This worker's messages: the index of the first request, and the requests.
    fn mine(&self) -> impl Iterator<Item = (u64, &[Planned])> + use<'_> {
        let batch = self.spec.request.batch();
        let all = self.schedule.requests.chunks(batch).enumerate().skip(self.number).step_by(self.workers);
        all.map(move |(message, planned)| ((message * batch) as u64, planned))
    }

    /// Connects, asks what the model is, serialises bodies, warms up.
    pub async fn prepare(self) -> Result<Prepared, HarnessError> {
        let heard: Vec<_> = self.spec.endpoints.iter().map(|_| Rc::new(Cell::new(0))).collect();
        let links: Vec<_> = self
            .spec_connections()
            .map(|at| {
                let endpoint = &self.spec.endpoints[at];
                Rc::new(Link::new(at as u32, endpoint, &self.spec.protocol, self.clock, Rc::clone(&heard[at])))
            })
            .collect();
        let mut manner = None;
        for link in &links {
            let found = Manner::agree(link, &self.spec).await?;
            if manner.get_or_insert_with(|| found.clone()) != &found {
                let model = self.spec.model.clone();
                let why = "it is another model (streaming, tensors or batching) than on the first server".to_owned();
                return Err(HarnessError::Model { endpoint: link.authority(), model, why });
            }
        }
        let manner = Arc::new(manner.ok_or_else(|| HarnessError::Worker("it has no connection".to_owned()))?);
        let mut bodies = VecDeque::new();
        let mut bytes = 0;
        for (index, planned) in self.mine() {
            if bytes >= PREBUILT_BYTES / self.workers {
                break;
            }
            let body = manner.message(&self.schedule, index, planned);
            bytes += body.len();
            bodies.push_back(body);
        }
        if self.number == 0 {
            self.warm_up(&links, &manner).await?;
        }
        let pacer = Pacer::new().map_err(|source| HarnessError::System { what: "no timerfd".to_owned(), source })?;
        Ok(Prepared { job: self, links, manner, pacer, bodies })
    }

    async fn warm_up(&self, links: &[Rc<Link>], manner: &Manner) -> Result<(), HarnessError> {
        let all = &self.schedule.requests;
        for number in 0..self.spec.warmup {
            let planned = &all[number as usize % all.len()..][..1];
            let index = all.len() as u64 + u64::from(number);
            let link = &links[number as usize % links.len()];
            let answer = Exchange {
                link,
                manner,
                frame: manner.message(&self.schedule, index, planned),
                id: index,
                planned,
                collector: None,
                clock: self.clock,
                stall: self.spec.stall_timeout,
                deadline: None,
                t_issue: self.clock.now(),
            }
            .perform(&self.stop, &mut [Part::default()])
            .await;
            match answer.ended.into_iter().next() {
                Some(Ended::Ok | Ended::Withdrawn) | None => {}
                Some(Ended::Cancelled) => return Err(HarnessError::Stopped),
                Some(Ended::Failed { class, why }) => {
                    let why = format!("{}: {why}", class.as_str());
                    return Err(HarnessError::Warmup { number: number + 1, why });
                }
            }
        }
        Ok(())
    }
}

impl Prepared {
    /// Sends this worker's arrivals from `t0` (ns on the clock) and waits for every answer.
    pub async fn race(self, t0: u64) -> Result<Share, HarnessError> {
        let Self { job, links, manner, pacer, mut bodies } = self;
        let keeps_timelines = job.spec.timelines;
        let collector = Rc::new(RefCell::new(Collector { keeps_timelines, ..Collector::new() }));
        let gauge = Rc::new(Gauge::default());
        let freed = Rc::new(Notify::new());
        let connected_before: u32 = links.iter().map(|link| link.reconnects()).sum();
        let (cpu, wait) = (thread_cpu(), run_queue_wait());
        let (mut issued, mut lost, mut waited_for_stream) = (0u64, 0u64, 0u64);
        let mut turn = 0;
        let local = LocalSet::new();
        let mut running: JoinSet<()> = JoinSet::new();
        let outcome: std::io::Result<()> = local
            .run_until(async {
                for (index, planned) in job.mine() {
                    let frame = bodies.pop_front().unwrap_or_else(|| manner.message(&job.schedule, index, planned));
                    let has_come = tokio::select! {
                        biased;
                        () = job.stop.cancelled() => false,
                        waited = pacer.until(job.clock.instant(t0 + planned[0].at_ns)) => { waited?; true }
                    };
                    let requests = planned.len() as u64;
                    if !has_come {
                        lost += requests;
                        continue;
                    }
                    let mut has_waited = false;
                    let link = loop {
                        turn += 1;
                        if let Some(link) = least_busy(&links, turn) {
                            break Some(link);
                        }
                        has_waited = true;
                        tokio::select! {
                            biased;
                            () = job.stop.cancelled() => break None,
                            () = freed.notified() => {}
                        }
                    };
                    let Some(link) = link else {
                        lost += requests;
                        continue;
                    };
                    waited_for_stream += u64::from(has_waited);
                    issued += requests;
                    job.live.issued.fetch_add(requests, Ordering::Relaxed);
                    link.in_flight.set(link.in_flight.get() + 1);
                    let t_issue = job.clock.now();
                    gauge.change(t_issue, requests as i64);
                    let flight = Flight {
                        link,
                        index,
                        planned: planned.to_vec(),
                        frame,
                        manner: Arc::clone(&manner),
                        t0,
                        collector: Rc::clone(&collector),
                        gauge: Rc::clone(&gauge),
                        freed: Rc::clone(&freed),
                        spec: Arc::clone(&job.spec),
                        live: Arc::clone(&job.live),
                        clock: job.clock,
                        stop: job.stop.clone(),
                        t_issue,
                    };
                    running.spawn_local(flight.go());
                    while running.try_join_next().is_some() {}
                    // At a standing backlog the loop never waits; let answers be read.
                    tokio::task::yield_now().await;
                }
                while running.join_next().await.is_some() {}
                Ok(())
            })
            .await;
        outcome.map_err(|source| HarnessError::System { what: "timerfd".to_owned(), source })?;
        gauge.change(job.clock.now(), 0);
        let max_streams = links.iter().map(|link| link.max_streams()).min().filter(|max| *max < u32::MAX as usize);
        let collector = collector.replace(Collector::new());
        Ok(Share {
            issued,
            lost,
            in_flight_at_end: gauge.now(),
            in_flight_area: gauge.area(),
            cpu_ns: thread_cpu().saturating_sub(cpu),
            wait_ns: run_queue_wait().zip(wait).map(|(after, before)| after.saturating_sub(before)),
            wall_ns: job.clock.now().saturating_sub(t0),
            waited_for_stream,
            max_streams: max_streams.map(|max| max as u64),
            reconnects: links.iter().map(|link| link.reconnects()).sum::<u32>() - connected_before,
            opened: links.iter().map(|link| Some(u64::from(link.pool.as_ref()?.opened.get()))).sum(),
            call: manner.call(),
            count: manner.count(),
            collector,
        })
    }
}

/// The link with the fewest requests in flight that has room; ties go round.
fn least_busy(links: &[Rc<Link>], turn: usize) -> Option<Rc<Link>> {
    let rotated = (0..links.len()).map(|step| &links[(turn + step) % links.len()]);
    rotated.filter(|link| link.in_flight.get() < link.max_streams()).min_by_key(|link| link.in_flight.get()).cloned()
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
