//! Requests before the measured ones. They come as those do, so that servers meet batches of the measured size warm.

use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};

use super::in_flight::covers;
use super::request_attempt::{RequestAttempt, RequestProgress};
use super::worker::WorkerShare;
use crate::record::RequestEnd;
use crate::schedule::data::PreviousAnswers;
use crate::transport::connection::Connection;
use crate::transport::request_encoder::RequestEncoder;
use crate::{FailureClass, HarnessError, LoadPattern};

impl WorkerShare {
    /// As many at once as the measured load has, or at its rate. The servers in turn; each worker has its own of them.
    ///
    /// The first one at each server comes alone, and if it fails, so does the run, unless the server only refuses it
    /// and the manifest expects that. Later ones may fail because the load is too high: that is for the measured
    /// requests to show.
    pub(super) async fn warm_up(
        &self,
        connections: &[Rc<Connection>],
        encoder: &RequestEncoder,
    ) -> Result<(), HarnessError> {
        let start = Instant::now();
        let until = self.spec.pace.warmup_for.map(|time| start + time);
        let is_wanted = |number: u32, at: Instant| number < self.spec.warmup || until.is_some_and(|until| at < until);
        let is_own = |endpoint: &usize| self.warming_worker(*endpoint) == Some(self.number);
        let warmed: Vec<usize> = (0..self.spec.endpoints.len()).filter(is_own).collect();
        if warmed.is_empty() {
            return Ok(());
        }
        let (endpoints, most, gap) = (self.spec.endpoints.len(), self.warmed_up_at_once(), self.gap_between_warm_ups());
        let mut in_flight = FuturesUnordered::new();
        let mut due = start;
        for number in 0.. {
            let (round, endpoint) = (number as usize / endpoints, number as usize % endpoints);
            if round > 0 {
                due += gap;
            }
            if warmed.contains(&endpoint) {
                while in_flight.len() >= most {
                    in_flight.next().await.map_or(Ok(()), if_stopped)?;
                }
            }
            if !is_wanted(number, due.max(Instant::now())) {
                break;
            }
            let candidates: Vec<_> =
                connections.iter().filter(|connection| connection.endpoint as usize == endpoint).collect();
            let Some(connection) =
                candidates.get(round % candidates.len().max(1)).filter(|_| warmed.contains(&endpoint))
            else {
                continue;
            };
            if round == 0 {
                self.first_warm_up_request(number, connection, encoder).await?;
                due = Instant::now();
                continue;
            }
            if due > Instant::now() {
                let mut is_due = std::pin::pin!(tokio::time::sleep_until(due.into()));
                while tokio::select! {
                    () = &mut is_due => false,
                    Some(ended) = in_flight.next() => if_stopped(ended).map(|()| true)?,
                } {}
            } else {
                // A sleep until a time that has passed lasts a millisecond. Those that were just begun are sent, and
                // their answers read.
                in_flight.next().now_or_never().flatten().map_or(Ok(()), if_stopped)?;
                tokio::task::yield_now().await;
            }
            in_flight.push(self.warm_up_request(number, connection, encoder));
        }
        while let Some(ended) = in_flight.next().await {
            if_stopped(ended)?;
        }
        Ok(())
    }

    /// The first one at a server: sent again as `retries` has it. With `retries`, or with a budget of failures, one
    /// that is refused all the same does not end the run: the measured requests show how many are.
    async fn first_warm_up_request(
        &self,
        number: u32,
        connection: &Connection,
        encoder: &RequestEncoder,
    ) -> Result<(), HarnessError> {
        let retries = self.spec.pace.retries.as_ref();
        let is_expected = retries.is_some() || self.spec.limits.failure_budget().is_some_and(|budget| budget > 0.0);
        let mut left = retries.map_or(0, |retries| retries.times);
        loop {
            let ended = self.warm_up_request(number, connection, encoder).await;
            let Err(HarnessError::Warmup { class, .. }) = &ended else { return ended };
            match retries.filter(|retries| left > 0 && covers(retries, *class)) {
                Some(retries) => {
                    left -= 1;
                    tokio::select! {
                        biased;
                        () = self.stop.cancelled() => return Err(HarnessError::Stopped),
                        () = tokio::time::sleep(retries.pause.time()) => {}
                    }
                }
                None if is_expected && *class == FailureClass::Refused => return Ok(()),
                None => return ended,
            }
        }
    }

    async fn warm_up_request(
        &self,
        number: u32,
        connection: &Connection,
        encoder: &RequestEncoder,
    ) -> Result<(), HarnessError> {
        let planned = &[self.schedule.warmup(u64::from(number))];
        let index = self.schedule.requests.len() as u64 + u64::from(number);
        let answer = RequestAttempt {
            connection,
            encoder,
            frame: encoder.message(&self.schedule, index, planned, &PreviousAnswers::default())?.frame,
            id: index,
            planned,
            collector: None,
            clock: self.clock,
            stall: self.spec.stall_timeout,
            limits: self.spec.response_bounds(),
            deadline: None,
            t_issue: self.clock.now(),
            t_attempt: self.clock.now(),
            is_refused: false,
        }
        .perform(&self.stop, &mut [RequestProgress::default()])
        .await;
        match answer.ended.into_iter().next() {
            Some(RequestEnd::Ok | RequestEnd::CancelledEarly) | None => Ok(()),
            Some(RequestEnd::Cancelled) => Err(HarnessError::Stopped),
            Some(RequestEnd::Failed { class, why }) => Err(HarnessError::Warmup { number: number + 1, class, why }),
        }
    }

    /// How many of this worker's warm-ups are in flight at most: its part of what the measured load has.
    fn warmed_up_at_once(&self) -> usize {
        let limit = self.spec.pace.max_in_flight.map_or(usize::MAX, |most| most as usize);
        let at_once = match &self.spec.scenario {
            LoadPattern::Offline => self.schedule.requests.len(),
            LoadPattern::Concurrency { users } => users.highest().floor() as usize,
            LoadPattern::Server { .. } => usize::MAX,
            // Their arrivals have no level.
            LoadPattern::Trace { .. } | LoadPattern::External(_) => 1,
        };
        at_once.min(limit).div_ceil(self.warming_workers()).max(1)
    }

    /// From one warm-up to the next, of all workers.
    fn gap_between_warm_ups(&self) -> Duration {
        match &self.spec.scenario {
            LoadPattern::Server { rate } => Duration::try_from_secs_f64(1.0 / rate.highest()).unwrap_or(Duration::ZERO),
            _ => Duration::ZERO,
        }
    }
}

/// The error of a warm-up that the run ends with, where it is not the first one at its server.
fn if_stopped(ended: Result<(), HarnessError>) -> Result<(), HarnessError> {
    ended.or_else(|error| if matches!(error, HarnessError::Warmup { .. }) { Ok(()) } else { Err(error) })
}
