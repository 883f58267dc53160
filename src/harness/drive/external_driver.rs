//! Requests that an external driver issues during the run, and the events that it receives for them.
//!
//! ```text
//!  CallInlet::issue ─channel─→ a worker's dispatcher ─→ connection ─→ server
//!  ExternalObserver::first, ExternalObserver::done ←─ the worker's thread
//! ```
//!
//! Issuing only stamps the time and puts a ticket into a channel: it returns at once, however many requests are in
//! flight.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use crate::record::BenchClock;
use crate::transport::request_encoder::RequestEncoder;
use crate::{HarnessError, PlannedRequest, RequestEnd, RequestSchedule};

/// Receives the events of requests. Called on the threads of the load workers, on the same one for one request: it must
/// not wait.
pub trait ExternalObserver: Send + Sync {
    /// The first token has come; `read` is when its bytes were read from the socket.
    fn first(&self, ticket: u64, token: i32, read: Instant);
    /// It has ended, well or not, with these tokens; `read` is when the last of them was read, else when it ended.
    fn done(&self, ticket: u64, tokens: Vec<i32>, ended: &RequestEnd, read: Instant);
}

/// Issues requests. Dropping it ends the run, once all of them are answered.
pub struct CallInlet {
    sample_cache: Arc<SampleCache>,
    workers: Vec<mpsc::UnboundedSender<ExternalCall>>,
    turn: AtomicUsize,
    /// All calls so far: which sample, and when.
    log: Arc<Mutex<Vec<(u32, Instant)>>>,
    begun: Mutex<Option<oneshot::Sender<Instant>>>,
}

/// One call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExternalCall {
    pub index: u64,
    pub ticket: u64,
    pub sample: u32,
    pub at: Instant,
}

/// The state that the inlet and the dispatchers share: samples, and the messages that are ready.
pub(crate) struct SampleCache {
    pub observer: Arc<dyn ExternalObserver>,
    /// One request for each sample.
    samples: Arc<RequestSchedule>,
    pub encoder: OnceLock<Arc<RequestEncoder>>,
    bodies: Vec<Mutex<Option<Bytes>>>,
}

impl SampleCache {
    pub fn new(samples: Arc<RequestSchedule>, external_observer: Arc<dyn ExternalObserver>) -> Self {
        let bodies = (0..samples.requests.len()).map(|_| Mutex::new(None)).collect();
        Self { observer: external_observer, samples, encoder: OnceLock::new(), bodies }
    }

    pub fn sample(&self, index: u32) -> Option<PlannedRequest> {
        self.samples.requests.get(index as usize)
    }

    /// The message for a sample, under the id of a request: built now, unless it is ready.
    pub fn message(&self, sample: u32, id: u64) -> Result<Bytes, HarnessError> {
        let ready = self.bodies.get(sample as usize).and_then(|body| body.lock().clone());
        let body = match ready {
            Some(body) => body,
            None => self.make(sample)?,
        };
        let encoder = self.encoder.get().ok_or_else(|| self.unknown(sample))?;
        Ok(encoder.addressed(&body, id))
    }

    fn unknown(&self, sample: u32) -> HarnessError {
        let samples = self.bodies.len();
        HarnessError::spec(format_args!("sample {sample} was requested, but there are {samples}"))
    }

    fn make(&self, sample: u32) -> Result<Bytes, HarnessError> {
        let (Some(encoder), Some(planned)) = (self.encoder.get(), self.sample(sample)) else {
            return Err(self.unknown(sample));
        };
        encoder.unaddressed(&self.samples, u64::from(sample), &planned)
    }
}

impl CallInlet {
    /// `begun` receives the time of the first call: everything counts from it.
    pub(crate) fn new(
        sample_cache: Arc<SampleCache>,
        workers: Vec<mpsc::UnboundedSender<ExternalCall>>,
        log: Arc<Mutex<Vec<(u32, Instant)>>>,
        begun: oneshot::Sender<Instant>,
    ) -> Self {
        Self { sample_cache, workers, turn: AtomicUsize::new(0), log, begun: Mutex::new(Some(begun)) }
    }

    /// Makes the messages of these samples, so that issuing them costs no more than an id.
    pub fn load(&self, samples: &[usize]) -> Result<(), HarnessError> {
        for sample in samples {
            let body = self.sample_cache.make(u32::try_from(*sample).unwrap_or(u32::MAX))?;
            if let Some(place) = self.sample_cache.bodies.get(*sample) {
                *place.lock() = Some(body);
            }
        }
        Ok(())
    }

    pub fn unload(&self, samples: &[usize]) {
        for place in samples.iter().filter_map(|sample| self.sample_cache.bodies.get(*sample)) {
            *place.lock() = None;
        }
    }

    /// Issues samples, by ticket and index, all at the instant of this call.
    pub fn issue(&self, calls: impl IntoIterator<Item = (u64, usize)>) {
        let at = Instant::now();
        if let Some(begun) = self.begun.lock().take() {
            let _ = begun.send(at);
        }
        let mut log = self.log.lock();
        for (ticket, sample) in calls {
            let sample = u32::try_from(sample).unwrap_or(u32::MAX);
            let arrival = ExternalCall { index: log.len() as u64, ticket, sample, at };
            log.push((sample, at));
            let turn = self.turn.fetch_add(1, Ordering::Relaxed);
            // A dispatcher that has ended accepts nothing more: its error ends the run, or the run was stopped. Later
            // calls are not part of the run.
            let is_taken =
                self.workers.get(turn % self.workers.len().max(1)).is_some_and(|worker| worker.send(arrival).is_ok());
            if !is_taken {
                log.pop();
            }
        }
    }
}

/// The plan as it was carried out: one request for each call, at its time.
pub(crate) fn called(
    samples: &RequestSchedule,
    log: &[(u32, Instant)],
    clock: BenchClock,
    t0: u64,
) -> Vec<PlannedRequest> {
    let request = |(index, (sample, at)): (usize, &(u32, Instant))| {
        let planned = samples.requests.get(*sample as usize)?;
        let at_ns = clock.at(*at).saturating_sub(t0);
        Some(PlannedRequest { at_ns, session: index as u64, ..planned })
    };
    log.iter().enumerate().filter_map(request).collect()
}

/// Passes the events of one request in flight to the observer.
#[derive(Clone)]
pub(crate) struct CallListener {
    pub sample_cache: Arc<SampleCache>,
    pub ticket: u64,
    pub sample: u32,
    pub clock: BenchClock,
}

impl CallListener {
    pub fn first(&self, token: i32, t_read: u64) {
        self.sample_cache.observer.first(self.ticket, token, self.clock.instant(t_read));
    }

    pub fn done(&self, tokens: Vec<i32>, ended: &RequestEnd, t_read: u64) {
        self.sample_cache.observer.done(self.ticket, tokens, ended, self.clock.instant(t_read));
    }
}

impl std::fmt::Debug for CallListener {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("CallListener").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}

/// The source of one worker's requests.
pub(crate) struct CallInbox {
    pub sample_cache: Arc<SampleCache>,
    pub arrivals: mpsc::UnboundedReceiver<ExternalCall>,
}
