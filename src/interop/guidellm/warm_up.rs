//! The warm-up of a GuideLLM run: a share of the run, or a number, which is of requests or of seconds by its mode.

use serde_json::{Value, json};

use super::data::numeric;
use crate::command_line::load::TranslatedLoad;
use crate::command_line::translation::TranslationBuilder;

/// What a profile sets.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WarmUp {
    /// Below 1 it is a share of the run.
    amount: f64,
    mode: Mode,
}

/// `mode` of `TransientPhaseConfig` in guidellm/benchmark/schemas/base.py of 0.8.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    Duration,
    Requests,
    #[default]
    PreferDuration,
    PreferRequests,
    Both,
}

impl WarmUp {
    /// A plain number.
    pub const fn of(amount: f64) -> Self {
        Self { amount, mode: Mode::PreferDuration }
    }

    /// A number, or an object with `percent` or `value`, and `mode`.
    pub fn read(value: &Value, builder: &mut TranslationBuilder) -> Option<Self> {
        let Some(fields) = value.as_object() else { return known_number(value, builder).map(Self::of) };
        let mode = match fields.get("mode").and_then(Value::as_str) {
            None | Some("prefer_duration") => Mode::default(),
            Some("prefer_requests") => Mode::PreferRequests,
            Some("duration") => Mode::Duration,
            Some("requests") => Mode::Requests,
            Some("both") => Mode::Both,
            Some(other) => {
                builder.push_error(format!(
                    "`mode={other}` of a warm-up: duration, requests, prefer_duration, prefer_requests or both"
                ));
                Mode::default()
            }
        };
        let amount = fields.get("percent").or(fields.get("value"))?;
        let amount = known_number(amount, builder)?;
        Some(Self { amount, mode })
    }

    /// Its seconds and its requests, of a run with these limits. A limit that the run does not have has no warm-up.
    fn limits(&self, requests: Option<f64>, seconds: Option<f64>) -> (Option<f64>, Option<f64>) {
        let of = |whole: f64| if self.amount < 1.0 { self.amount * whole } else { self.amount };
        let duration = seconds.filter(|_| self.mode != Mode::Requests).map(of);
        let count = requests.filter(|_| self.mode != Mode::Duration).map(|whole| of(whole).floor());
        match (self.mode, duration, count) {
            (Mode::PreferDuration, Some(_), _) => (duration, None),
            (Mode::PreferRequests, _, Some(_)) => (None, count),
            _ => (duration, count),
        }
    }

    /// Requests and seconds together are the later of the two, there and here.
    pub fn put(
        &self,
        requests: Option<f64>,
        seconds: Option<f64>,
        load: &mut TranslatedLoad,
        builder: &mut TranslationBuilder,
    ) {
        if self.amount <= 0.0 {
            return;
        }
        let (duration, count) = self.limits(requests, seconds);
        if let (None, None) = (duration, count) {
            return builder.push_untranslated(
                format!("warmup={}", self.amount),
                "the run does not have the limit that its mode is a part of, so there is none there either",
            );
        }
        load.put("--warmup", count.unwrap_or(1.0).to_string());
        if let Some(time) = duration {
            load.keys.insert("warmup_time".to_owned(), json!(format!("{time}s")));
        }
        builder.note("there the warm-up is a part of the run; here it is in front of it");
    }
}

/// Only a warm-up of a known length can be compared with the run.
fn known_number(value: &Value, builder: &mut TranslationBuilder) -> Option<f64> {
    let number = numeric(value)?;
    if number.known().is_none() {
        builder.push_error(format!("`warmup={number}` is no number"));
    }
    number.known().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_selects_time_or_requests() {
        let limits = |text: &str, requests, seconds| {
            let mut builder = TranslationBuilder::default();
            let value: Value = serde_json::from_str(text).unwrap();
            WarmUp::read(&value, &mut builder).unwrap().limits(requests, seconds)
        };
        assert_eq!(limits("5", Some(1000.0), Some(60.0)), (Some(5.0), None));
        assert_eq!(limits("0.1", Some(1000.0), None), (None, Some(100.0)));
        assert_eq!(limits(r#"{"mode": "duration", "value": 10}"#, Some(100.0), None), (None, None));
        assert_eq!(limits(r#"{"mode": "requests", "value": 10}"#, None, Some(100.0)), (None, None));
        assert_eq!(limits(r#"{"mode": "prefer_requests", "percent": 0.5}"#, Some(9.0), Some(60.0)), (None, Some(4.0)));
        assert_eq!(limits(r#"{"mode": "both", "value": "3"}"#, Some(9.0), Some(60.0)), (Some(3.0), Some(3.0)));
    }
}
