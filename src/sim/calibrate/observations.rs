//! What of a step log can be used for a fit.
//!
//! vLLM schedules the next step before it has the result of the one in flight, so the time between two ends may belong to a
//! neighbor. The time of a step is used where its neighbors are the same; a run of steps with prompts is used as a whole,
//! which is exact, because a step's time is a sum. What begins after an idle time is left out until the engine has settled.

use super::step_log::LoggedStep;

/// Above this the engine was idle between two steps.
const IDLE: f64 = 0.5;

/// A time, and what was computed in it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TimedSteps {
    pub(super) first_step: u64,
    pub(super) steps: Vec<LoggedStep>,
    /// Seconds.
    pub(super) seconds: f64,
    pub(super) kind: ObservationKind,
    /// Which load it belongs to: loads are separated by idle times.
    pub(super) load: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObservationKind {
    /// One step of a batch that only generates.
    Decode,
    /// Steps that compute prompts, and generate beside.
    Mixed,
    /// One prompt alone, after another one: the time has the way of the answer and of the next request in it.
    Prefill,
}

/// Finds what can be used.
pub(super) fn observe(steps: &[LoggedStep]) -> Vec<TimedSteps> {
    let mut found = Vec::new();
    let mut load = 0;
    let mut at = 0;
    while at < steps.len() {
        let step = steps[at];
        let Some(seconds) = step.period.filter(|period| *period < IDLE) else {
            // One prompt after another with pauses is one load.
            let goes_on = at > 0 && is_alone(&step) && is_alone(&steps[at - 1]);
            load += usize::from(at > 0 && !goes_on);
            at += 1;
            continue;
        };
        if is_alone(&step) && at > 0 && is_alone(&steps[at - 1]) && is_next(steps, at) {
            found.push(TimedSteps {
                first_step: step.step,
                steps: vec![step],
                seconds,
                kind: ObservationKind::Prefill,
                load,
            });
        } else if is_settled(steps, at) {
            found.push(TimedSteps {
                first_step: step.step,
                steps: vec![step],
                seconds,
                kind: ObservationKind::Decode,
                load,
            });
        } else if let Some(end) = mixed(steps, at) {
            let steps = steps[at..end].to_vec();
            let seconds = steps.iter().filter_map(|step| step.period).sum();
            found.push(TimedSteps { first_step: step.step, steps, seconds, kind: ObservationKind::Mixed, load });
            at = end;
            continue;
        }
        at += 1;
    }
    found
}

/// One prompt and nothing else.
const fn is_alone(step: &LoggedStep) -> bool {
    step.prefill_requests == 1 && step.decode_requests == 0
}

const fn is_decode(step: &LoggedStep) -> bool {
    step.prefill_requests == 0 && step.decode_requests > 0
}

/// No step is missing in the log before this one.
fn is_next(steps: &[LoggedStep], at: usize) -> bool {
    at > 0 && steps[at].step == steps[at - 1].step + 1
}

/// Two steps before and one after it have the same batch. A log may leave out steps between equal ones.
fn is_settled(steps: &[LoggedStep], at: usize) -> bool {
    let step = &steps[at];
    let same = |other: usize| {
        steps.get(other).is_some_and(|other| is_decode(other) && other.decode_requests == step.decode_requests)
    };
    let is_busy = |other: usize| steps[other].period.is_some_and(|period| period < IDLE);
    is_decode(step) && at >= 2 && same(at - 1) && same(at - 2) && is_busy(at - 1) && same(at + 1)
}

/// The end of the steps with prompts that begin after this generating one, and of the three generating ones behind them.
fn mixed(steps: &[LoggedStep], at: usize) -> Option<usize> {
    let begins = at > 1
        && is_decode(&steps[at])
        && is_decode(&steps[at - 1])
        && is_next(steps, at)
        && steps.get(at + 1).is_some_and(|next| next.prefill_requests > 0);
    if !begins {
        return None;
    }
    let mut generating = 0;
    let mut end = at + 1;
    while generating < 3 {
        let step = steps.get(end).filter(|step| step.period.is_some_and(|period| period < IDLE))?;
        if !is_next(steps, end) {
            return None;
        }
        generating = if is_decode(step) { generating + 1 } else { 0 };
        end += 1;
    }
    Some(end)
}
