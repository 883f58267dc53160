//! The plan: every arrival, length and prompt, before anything runs. The same spec and files give the same plan,
//! whatever the number of workers, connections and servers.

#[cfg(test)]
mod arrivals_tests;
mod file;
mod planned_requests;
mod queue;
mod schedule;
mod session_drawer;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use self::schedule::sampled;
use self::session_drawer::{DrawEnd, SessionDrawer};
use crate::schedule::data::PromptRenderer;
use crate::{BenchSpec, DataKind, HarnessError, LoadPattern};
use base::files::Digest;
pub(crate) use file::{PLAN, write};
pub use planned_requests::{PlannedReader, PlannedRequest, PlannedRequests, RequestTrigger};
pub(crate) use queue::PlanQueue;
pub use schedule::{ExternalSample, RequestSchedule};

/// A larger plan is most likely a typing error.
const MOST: usize = 50_000_000;

/// Draws the plan, and reads the files that it needs. Errors name what the spec lacks, or what is wrong with a file.
pub fn plan(spec: &BenchSpec) -> Result<RequestSchedule, HarnessError> {
    spec.check()?;
    let prompt_renderer = Arc::new(PromptRenderer::new(spec)?);
    if let Some(data) = spec.content.data.as_ref().filter(|data| data.kind == DataKind::Plan) {
        return file::read(data, spec, &prompt_renderer);
    }
    let mut drawer = SessionDrawer::new(spec, &prompt_renderer)?;
    let from_start = drawer.clone();
    let mut requests = 0;
    let end = End::new(spec);
    let ended = loop {
        if !end.is_timed && requests as u64 >= end.least {
            break None;
        }
        let Some(session) = drawer.next()? else { break Some(drawer.end()) };
        let starts = session.first().map_or(0, |first| first.at_ns);
        if end.is_timed && requests as u64 >= end.least && starts >= end.until_ns {
            break None;
        }
        requests += session.len();
        if requests > MOST {
            return Err(HarnessError::spec(format_args!("the plan has more than {MOST} requests")));
        }
    };
    end.hold(ended, requests as u64, spec)?;
    if requests == 0 {
        return Err(HarnessError::spec("no request arrives before the duration ends"));
    }
    let data = drawer.data_summary();
    let requests = PlannedRequests::drawn(from_start, requests);
    let mut schedule = RequestSchedule { requests, digest: Digest::hash(&[]), data, renderer: prompt_renderer };
    schedule.digest = schedule.digested();
    Ok(schedule)
}

/// The plan of a run with an external driver, before it begins: one request for each sample.
pub(crate) fn for_external_driver(
    spec: &BenchSpec,
    samples: &[ExternalSample],
) -> Result<RequestSchedule, HarnessError> {
    spec.check()?;
    if samples.is_empty() {
        return Err(HarnessError::spec("there is no sample to request"));
    }
    let prompt_renderer = Arc::new(PromptRenderer::new(spec)?);
    Ok(RequestSchedule {
        requests: PlannedRequests::kept(sampled(samples)),
        digest: Digest::hash(&[]),
        data: None,
        renderer: prompt_renderer,
    })
}

/// When a plan is long enough.
struct End {
    least: u64,
    until_ns: u64,
    /// Arrivals have times, so that a duration can end them. A closed loop's are known when it runs.
    is_timed: bool,
    /// All data, once.
    is_all_data: bool,
}

impl End {
    fn new(spec: &BenchSpec) -> Self {
        let is_all_data = spec.stop.requests.is_none() && spec.stop.duration.is_none();
        let least = match (spec.stop.requests, &spec.scenario) {
            _ if is_all_data => u64::MAX,
            (requests, LoadPattern::Concurrency { .. }) if spec.stop.duration.is_some() => {
                requests.unwrap_or(0).max(queue::AHEAD)
            }
            (requests, _) => requests.unwrap_or(0),
        };
        Self {
            least,
            until_ns: spec.stop.time().map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
            is_timed: spec.scenario.is_open_loop(),
            is_all_data,
        }
    }

    /// Data that end too early are an error, not a shorter benchmark. A trace ends where it ends.
    fn hold(&self, ended: Option<DrawEnd>, drawn: u64, spec: &BenchSpec) -> Result<(), HarnessError> {
        let Some(ended) = ended else { return Ok(()) };
        let requested = spec.stop.requests.unwrap_or(0);
        let is_short = drawn < requested || (self.is_timed && spec.stop.duration.is_some());
        match ended {
            _ if self.is_all_data || matches!(spec.scenario, LoadPattern::Trace { .. }) => Ok(()),
            DrawEnd::DataUsedUp if is_short => Err(HarnessError::DataEnd { drawn }),
            DrawEnd::RateReachedZero if drawn < requested => Err(HarnessError::spec(format_args!(
                "the rate falls to 0 after {drawn} requests, and `stop` requires {requested}"
            ))),
            DrawEnd::DataUsedUp | DrawEnd::RateReachedZero => Ok(()),
        }
    }
}
