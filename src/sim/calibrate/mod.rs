//! Fits the coefficients of the step time to the step log of a real server.
//!
//! Door: [`read_step_log`], [`calibrate`]. The fit is a non-negative least squares of relative errors over a handful of
//! coefficients ([`base::spec::SimCalibration`]); it has no factor for a row. Half of the log's loads are held out to
//! see what the fit is worth on loads that it has not seen.

mod fit;

use serde::Deserialize;
use serde_json::Value;

use base::diag::ErrorText;

pub use fit::{CalibrationTarget, FittedStep, RegionError, StepTimeFit, calibrate};

// Non-negative least squares for a handful of columns.

/// The coefficients ≥ 0 that make Σ weight·(row·x − value)² least, by coordinate descent on the normal equations. The
/// same input gives the same bits.
fn non_negative<const N: usize>(rows: &[([f64; N], f64, f64)]) -> [f64; N] {
    let mut scale = [0.0_f64; N];
    for (row, ..) in rows {
        for (most, value) in scale.iter_mut().zip(row) {
            *most = most.max(value.abs());
        }
    }
    for most in scale.iter_mut().filter(|most| **most == 0.0) {
        *most = 1.0;
    }
    let (mut products, mut targets) = ([[0.0; N]; N], [0.0; N]);
    for (row, value, weight) in rows {
        for i in 0..N {
            let left = row[i] / scale[i] * weight;
            targets[i] += left * value;
            for j in 0..N {
                products[i][j] += left * row[j] / scale[j];
            }
        }
    }
    let mut solution = [0.0_f64; N];
    for _ in 0..MOST_ROUNDS {
        let mut change = 0.0_f64;
        for i in 0..N {
            if products[i][i] == 0.0 {
                continue;
            }
            let sum: f64 = (0..N).map(|j| products[i][j] * solution[j]).sum();
            let next = (solution[i] - (sum - targets[i]) / products[i][i]).max(0.0);
            change = change.max((next - solution[i]).abs());
            solution[i] = next;
        }
        if change < 1e-13 {
            break;
        }
    }
    for (value, scale) in solution.iter_mut().zip(scale) {
        *value /= scale;
    }
    solution
}

const MOST_ROUNDS: usize = 20_000;

// The step log of a server: one JSON line for each step of its engine.

/// One step of an engine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoggedStep {
    pub step: u64,
    pub prefill_requests: u64,
    pub prefill_tokens: u64,
    /// Tokens of these requests that were in the KV cache before the step.
    pub prefill_kv: u64,
    pub decode_requests: u64,
    pub decode_tokens: u64,
    pub decode_kv: u64,
    /// From the end of the step before to the end of this one, seconds. `None`: there was no step before.
    pub period: Option<f64>,
}

/// A line with names.
#[derive(Deserialize)]
struct NamedLine {
    step: u64,
    prefill_requests: u64,
    prefill_tokens: u64,
    decode_requests: u64,
    decode_tokens: u64,
    /// Of all requests of the step.
    #[serde(default)]
    kv_tokens: u64,
    period_ms: Option<f64>,
}

/// `[step, end, [requests, tokens, kv] of prefill, the same of decode, wait_ms, period_ms]`.
type ArrayLine = (u64, f64, [u64; 3], [u64; 3], f64, f64);

/// Reads a log: objects with names, or the arrays of the hook for vLLM.
pub fn read_step_log(text: &str) -> Result<Vec<LoggedStep>, ErrorText> {
    let mut steps = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |error: serde_json::Error| ErrorText::new(format_args!("line {}: {error}", at + 1));
        let value: Value = serde_json::from_str(line).map_err(wrong)?;
        let (step, prefill, decode, period_ms) = if value.is_array() {
            let (step, _, prefill, decode, _, period) = serde_json::from_value::<ArrayLine>(value).map_err(wrong)?;
            // The hook has no step before the first, and takes the clock's whole time.
            (step, prefill, decode, (step > 0).then_some(period))
        } else {
            let line: NamedLine = serde_json::from_value(value).map_err(wrong)?;
            let [of_prefill, of_decode] =
                if line.decode_requests == 0 { [line.kv_tokens, 0] } else { [0, line.kv_tokens] };
            let prefill = [line.prefill_requests, line.prefill_tokens, of_prefill];
            (line.step, prefill, [line.decode_requests, line.decode_tokens, of_decode], line.period_ms)
        };
        let [prefill_requests, prefill_tokens, prefill_kv] = prefill;
        let [decode_requests, decode_tokens, decode_kv] = decode;
        steps.push(LoggedStep {
            step,
            prefill_requests,
            prefill_tokens,
            prefill_kv,
            decode_requests,
            decode_tokens,
            decode_kv,
            period: period_ms.map(|ms| ms / 1e3),
        });
    }
    if steps.iter().all(|step| step.period.is_none()) {
        return Err(ErrorText::new(
            "no line has `period_ms`, the time from the end of a step to the end of the next; the time that an engine \
             waited for its result (`wait_ms`, `milliseconds`) is a part of that only",
        ));
    }
    Ok(steps)
}

// What of a step log can be used for a fit.
//
// vLLM schedules the next step before it has the result of the one in flight, so the time between two ends may belong
// to a neighbor. The time of a step is used where its neighbors are the same; a run of steps with prompts is used as a
// whole, which is exact, because a step's time is a sum. What begins after an idle time is left out until the engine
// has settled.

/// Above this the engine was idle between two steps.
const IDLE: f64 = 0.5;

/// A time, and what was computed in it.
#[derive(Clone, Debug, PartialEq)]
struct TimedSteps {
    first_step: u64,
    steps: Vec<LoggedStep>,
    /// Seconds.
    seconds: f64,
    kind: ObservationKind,
    /// Which load it belongs to: loads are separated by idle times.
    load: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ObservationKind {
    /// One step of a batch that only generates.
    Decode,
    /// Steps that compute prompts, and generate beside.
    Mixed,
    /// One prompt alone, after another one: the time has the way of the answer and of the next request in it.
    Prefill,
}

/// Finds what can be used.
fn observe(steps: &[LoggedStep]) -> Vec<TimedSteps> {
    let mut observed = Vec::new();
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
        let follows_alone = is_alone(&step) && is_next(steps, at) && is_alone(&steps[at - 1]);
        let kind = if follows_alone { ObservationKind::Prefill } else { ObservationKind::Decode };
        if follows_alone || is_settled(steps, at) {
            observed.push(TimedSteps { first_step: step.step, steps: vec![step], seconds, kind, load });
        } else if let Some(end) = mixed(steps, at) {
            let steps = steps[at..end].to_vec();
            let seconds = steps.iter().filter_map(|step| step.period).sum();
            observed.push(TimedSteps { first_step: step.step, steps, seconds, kind: ObservationKind::Mixed, load });
            at = end;
            continue;
        }
        at += 1;
    }
    observed
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

/// The end of the steps with prompts that begin after this generating one, and of the three generating ones behind
/// them.
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

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn it_finds_what_made_the_values_and_never_goes_below_zero() {
        let rows: Vec<([f64; 3], f64, f64)> = (0..40)
            .map(|i| {
                let x = [1.0, f64::from(i % 7), f64::from(i * i % 11)];
                (x, 3.0 * x[0] + 0.5 * x[1] - 0.01 * x[2], 1.0)
            })
            .collect();
        let solution = non_negative(&rows);
        assert!((solution[0] - 3.0).abs() < 0.1 && (solution[1] - 0.5).abs() < 0.02, "{solution:?}");
        assert_eq!(solution[2].to_bits(), 0, "{solution:?}");
    }

    #[test]
    fn both_forms_of_a_line_say_the_same() {
        let array = read_step_log("[7, 1.5, [0, 0, 0], [4, 4, 513], 1.3, 4.75]\n").unwrap();
        let named = concat!(
            r#"{"step":7,"prefill_requests":0,"prefill_tokens":0,"decode_requests":4,"decode_tokens":4,"#,
            r#""kv_tokens":513,"period_ms":4.75,"wait_ms":1.3}"#,
        );
        assert_eq!(read_step_log(named).unwrap(), array);
    }

    #[test]
    fn a_log_without_periods_is_refused() {
        let line = concat!(
            r#"{"step":1,"engine":"EngineCore","at":"11-23 22:23:41","prefill_requests":0,"prefill_tokens":0,"#,
            r#""decode_requests":1,"decode_tokens":1,"milliseconds":0.05}"#,
        );
        assert!(read_step_log(line).unwrap_err().message.starts_with("no line has `period_ms`"));
        assert!(read_step_log("[1, 2]").unwrap_err().to_string().starts_with("line 1: "));
    }
}
