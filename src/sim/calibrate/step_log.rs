//! The step log of a server: one JSON line for each step of its engine.

use serde::Deserialize;
use serde_json::Value;

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

/// Why a log cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StepLogError {
    #[error("line {line}: {message}")]
    Line { line: usize, message: String },
    #[error(
        "no line has `period_ms`, the time from the end of a step to the end of the next; the time that an engine waited for \
         its result (`wait_ms`, `milliseconds`) is a part of that only"
    )]
    NoPeriods,
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
    #[serde(default)]
    period_ms: Option<f64>,
}

/// `[step, end, [requests, tokens, kv] of prefill, the same of decode, wait_ms, period_ms]`.
type ArrayLine = (u64, f64, [u64; 3], [u64; 3], f64, f64);

/// Reads a log: objects with names, or the arrays of the hook for vLLM.
pub fn read_step_log(text: &str) -> Result<Vec<LoggedStep>, StepLogError> {
    let mut steps = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |error: serde_json::Error| StepLogError::Line { line: at + 1, message: error.to_string() };
        let value: Value = serde_json::from_str(line).map_err(wrong)?;
        steps.push(if value.is_array() {
            let (step, _, prefill, decode, _, period) = serde_json::from_value::<ArrayLine>(value).map_err(wrong)?;
            LoggedStep {
                step,
                prefill_requests: prefill[0],
                prefill_tokens: prefill[1],
                prefill_kv: prefill[2],
                decode_requests: decode[0],
                decode_tokens: decode[1],
                decode_kv: decode[2],
                // The hook has no step before the first, and takes the clock's whole time.
                period: (step > 0).then_some(period / 1e3),
            }
        } else {
            let line: NamedLine = serde_json::from_value(value).map_err(wrong)?;
            let only_prefill = line.decode_requests == 0;
            LoggedStep {
                step: line.step,
                prefill_requests: line.prefill_requests,
                prefill_tokens: line.prefill_tokens,
                prefill_kv: if only_prefill { line.kv_tokens } else { 0 },
                decode_requests: line.decode_requests,
                decode_tokens: line.decode_tokens,
                decode_kv: if only_prefill { 0 } else { line.kv_tokens },
                period: line.period_ms.map(|ms| ms / 1e3),
            }
        });
    }
    if steps.iter().all(|step| step.period.is_none()) {
        return Err(StepLogError::NoPeriods);
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn both_forms_of_a_line_say_the_same() {
        let array = read_step_log("[7, 1.5, [0, 0, 0], [4, 4, 513], 1.3, 4.75]\n").unwrap();
        let named = r#"{"step":7,"prefill_requests":0,"prefill_tokens":0,"decode_requests":4,"decode_tokens":4,"kv_tokens":513,"period_ms":4.75,"wait_ms":1.3}"#;
        assert_eq!(read_step_log(named).unwrap(), array);
    }

    #[test]
    fn a_log_without_periods_is_refused() {
        let line = r#"{"step":1,"engine":"EngineCore","at":"11-23 22:23:41","prefill_requests":0,"prefill_tokens":0,"decode_requests":1,"decode_tokens":1,"milliseconds":0.05}"#;
        assert!(matches!(read_step_log(line), Err(StepLogError::NoPeriods)));
        assert!(read_step_log("[1, 2]").unwrap_err().to_string().starts_with("line 1: "));
    }
}
