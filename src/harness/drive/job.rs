//! The part of a run that one worker carries out.

use parking_lot::Mutex;
use std::cell::Cell;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::external_driver::CallInbox;
use crate::harness::clock::BenchClock;
use crate::harness::schedule::plan::PlanQueue;
use crate::harness::tokens::LiveCounts;
use crate::harness::transport::http::Connector;
use crate::harness::{BenchSpec, PlannedRequest, RequestSchedule};

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
    pub in_flight_permits: Option<Arc<Semaphore>>,
    pub keeps_answers: bool,
    pub tls: Option<Connector>,
    /// The source of requests from an external driver.
    pub inbox: Cell<Option<CallInbox>>,
}

impl WorkerJob {
    /// The endpoints of this worker's connections.
    pub fn spec_connections(&self) -> impl Iterator<Item = usize> + use<> {
        let endpoints = self.spec.endpoints.len();
        (self.number..self.spec.connections()).step_by(self.workers).map(move |connection| connection % endpoints)
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

/// Messages made before the start, by the index of their first request.
pub(in crate::harness) struct PreparedMessages(Vec<Mutex<Option<Bytes>>>);

impl PreparedMessages {
    /// Bytes of them, in all; the rest is made one ahead of need.
    pub const BYTES: usize = 64 << 20;
    /// Places, at most: a place costs memory too.
    const MOST: usize = 1 << 18;

    pub fn for_plan(schedule: &RequestSchedule) -> Self {
        Self((0..schedule.requests.len().min(Self::MOST)).map(|_| Mutex::new(None)).collect())
    }

    /// False: there is no place for it, nor for any with a higher index.
    pub fn put(&self, index: u64, body: Bytes) -> bool {
        let place = self.0.get(index as usize);
        if let Some(place) = place {
            *place.lock() = Some(body);
        }
        place.is_some()
    }

    /// Each once.
    pub fn take(&self, index: u64) -> Option<Bytes> {
        self.0.get(index as usize)?.lock().take()
    }
}
