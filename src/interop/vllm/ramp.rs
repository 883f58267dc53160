//! `--ramp-up-strategy`: a rate that rises from request to request.

use serde_json::{Value, json};

use crate::command_line::json_number::number;
use crate::command_line::load::TranslatedLoad;
use crate::command_line::options::{GivenOption, ParsedLine};
use crate::command_line::translation::TranslationBuilder;

/// In how many steps the rate rises here, at most.
const STEPS: u32 = 20;

/// How the rate rises with the number of the request: `_get_current_request_rate` of vLLM 0.33.0 (vllm/benchmarks/serve.py).
#[derive(Clone, Copy)]
struct RisingRate {
    from: f64,
    to: f64,
    requests: f64,
    is_exponential: bool,
}

impl RisingRate {
    fn at(self, request: f64) -> f64 {
        let progress = request / (self.requests - 1.0).max(1.0);
        if self.is_exponential {
            self.from * (self.to / self.from).powf(progress)
        } else {
            self.from + (self.to - self.from) * progress
        }
    }

    /// Requests and seconds of each step. All have as many requests.
    fn steps(self) -> (f64, Vec<f64>) {
        /// Of a step with more requests, so many are looked at.
        const MOST: f64 = 1000.0;
        let steps = self.requests.min(f64::from(STEPS)).max(1.0).floor();
        let each = self.requests / steps;
        let looked_at = each.ceil().min(MOST);
        let seconds = |step: u32| {
            let request = |part: u32| (f64::from(step) + (f64::from(part) + 0.5) / looked_at) * each - 0.5;
            let gaps: f64 = (0..looked_at as u32).map(|part| 1.0 / self.at(request(part).max(0.0))).sum();
            gaps / looked_at * each
        };
        (each, (0..steps as u32).map(seconds).collect())
    }
}

pub(super) fn ramp(
    given: &GivenOption,
    line: &ParsedLine,
    load: &mut TranslatedLoad,
    builder: &mut TranslationBuilder,
) {
    let read = |name: &str| line.value(name).and_then(|text| text.parse::<f64>().ok()).filter(|n| n.is_finite());
    let requests = load.get("--requests").and_then(|count| count.parse::<u32>().ok()).map(f64::from);
    let (Some(from), Some(to), Some(requests)) = (read("--ramp-up-start-rps"), read("--ramp-up-end-rps"), requests)
    else {
        return builder
            .push_error("`--ramp-up-strategy` needs --ramp-up-start-rps, --ramp-up-end-rps and a number of prompts");
    };
    if line.has("--request-rate") {
        return builder.push_error(
            "`--request-rate` and `--ramp-up-strategy` contradict each other: the rate rises from --ramp-up-start-rps",
        );
    }
    if from <= 0.0 || to <= 0.0 {
        return builder.push_error("`--ramp-up-start-rps` and `--ramp-up-end-rps` are above 0");
    }
    let is_exponential = match given.value() {
        "linear" => false,
        "exponential" => true,
        _ => return builder.push_error(format!("`{}`: linear or exponential", given.as_written())),
    };
    let (each, seconds) = RisingRate { from, to, requests, is_exponential }.steps();
    let rounded = |value: f64| number((value * 1e4).round() / 1e4);
    let whole: f64 = seconds.iter().sum();
    let steps: Vec<Value> = seconds
        .iter()
        .map(|lasts| json!({"level": rounded(each / lasts), "lasts": format!("{}ms", number((lasts * 1e3).round().max(1.0)))}))
        .collect();
    load.put("--rate", rounded(requests / whole).to_string());
    load.keys.insert("rate".to_owned(), json!(null));
    builder.note(format!(
        "there every request has a rate of its own; here the rate changes in {} steps, each with as many requests as there in the same time, {} s in all",
        steps.len(),
        number((whole * 10.0).round() / 10.0)
    ));
    load.keys.insert("ramp".to_owned(), json!({ "steps": steps }));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sums of `1 / rate` of all requests.
    #[test]
    fn steps_take_as_long_as_the_requests_of_vllm() {
        let all = |is_exponential| RisingRate { from: 1.0, to: 16.0, requests: 100.0, is_exponential }.steps();
        for (is_exponential, seconds) in [(false, 18.8), (true, 34.0)] {
            let (each, steps) = all(is_exponential);
            let whole: f64 = steps.iter().sum();
            assert!((each - 5.0).abs() < 1e-9 && (whole - seconds).abs() < 0.1, "{whole}");
            assert!(steps.is_sorted_by(|one, next| one > next), "{steps:?}");
        }
        assert_eq!(RisingRate { from: 2.0, to: 4.0, requests: 1.0, is_exponential: false }.steps(), (1.0, vec![0.5]));
    }
}
