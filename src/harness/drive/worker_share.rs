//! The part of a run that one worker carries out.

use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::external_driver::CallInbox;
use crate::clock::BenchClock;
use crate::schedule::plan::PlanQueue;
use crate::tokens::LiveCounts;
use crate::transport::http::Connector;
use crate::{BenchSpec, LoadPattern, PlannedRequest, RequestSchedule};

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

    /// The endpoints that this worker warms up.
    pub fn warmed_endpoints(&self) -> Vec<usize> {
        (0..self.spec.endpoints.len()).filter(|endpoint| self.warming_worker(*endpoint) == Some(self.number)).collect()
    }

    /// The workers that warm up any endpoint.
    pub fn warming_workers(&self) -> usize {
        let all: BTreeSet<_> =
            (0..self.spec.endpoints.len()).filter_map(|endpoint| self.warming_worker(endpoint)).collect();
        all.len().max(1)
    }

    /// An endpoint is warmed up by the first worker that has a connection to it.
    fn warming_worker(&self, endpoint: usize) -> Option<usize> {
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

/// Messages made before the start, by the index of their first request.
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

    /// False: there is no place for it, nor for any with a higher index.
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
