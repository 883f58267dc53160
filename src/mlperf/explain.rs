//! Why a run is INVALID, by how much, and what to do about it. From LoadGen's detail log alone.

use std::fmt;

use base::units::grouped;
use rules::log::Detail;
use rules::time;

/// What a run was worth, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// `VALID`, `INVALID`; None: LoadGen gave none.
    pub result: Option<String>,
    /// Empty: nothing is wrong.
    pub reasons: Vec<RuleViolation>,
    /// The rate to try next, where the rate is what is wrong. A first guess: `bench.search` finds it.
    pub next_qps: Option<f64>,
}

/// One rule that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleViolation {
    /// `errors`, `ttft`, `tpot`, `latency`, `min_duration`, `min_queries`, `early_stopping`, `unfinished`.
    pub rule: &'static str,
    /// What was missed, and by how much.
    pub what: String,
    pub advice: String,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.result.as_deref().unwrap_or("no result"))?;
        for reason in &self.reasons {
            write!(f, "\n  {}\n    → {}", reason.what, reason.advice)?;
        }
        if let Some(qps) = self.next_qps {
            write!(f, "\n  next: `target_qps: {qps}`")?;
        }
        Ok(())
    }
}

struct Run<'a> {
    detail: &'a Detail,
    reasons: Vec<RuleViolation>,
    next_qps: Option<f64>,
}

/// Explains a run in performance mode.
pub fn explain(detail: &Detail) -> Explanation {
    let mut run = Run { detail, reasons: Vec::new(), next_qps: None };
    run.errors();
    let result = detail.result().map(str::to_owned);
    if result.is_some() {
        let late = run.limits();
        run.duration();
        run.queries();
        run.early_stopping(late);
    } else if detail.text("effective_test_mode") != Some("AccuracyOnly") {
        run.push_reason("unfinished", "LoadGen wrote no result: the run did not end", "run it again");
    }
    Explanation { result, reasons: run.reasons, next_qps: run.next_qps }
}

impl Run<'_> {
    fn push_reason(&mut self, rule: &'static str, what: impl Into<String>, advice: impl Into<String>) {
        self.reasons.push(RuleViolation { rule, what: what.into(), advice: advice.into() });
    }

    /// LoadGen may call a run VALID in which it logged errors. The rules do not.
    fn errors(&mut self) {
        let errors = self.detail.all_errors();
        if errors > 0 {
            let first = self.detail.first_errors.first().map(|first| format!("; the first: {first}"));
            let count = grouped(errors as f64, 0);
            let message = format!("LoadGen logged {count} errors{}", first.unwrap_or_default());
            let advice = "a run with errors cannot be submitted, even if LoadGen's result is VALID";
            self.push_reason("errors", message, advice);
        }
    }

    fn is_server(&self) -> bool {
        self.detail.text("effective_scenario") == Some("Server")
    }

    /// The 99th percentiles. Returns how many times over its limit the worst of them is, if one is.
    fn limits(&mut self) -> Option<f64> {
        if !self.is_server() {
            return None;
        }
        let uses_tokens = self.detail.flag("requested_use_token_latencies") == Some(true);
        let token = [
            ("ttft", "TTFT", "result_first_token_99.00_percentile_latency_ns", "requested_server_ttft_latency"),
            ("tpot", "TPOT", "result_time_per_output_token_99.00_percentile_ns", "requested_server_tpot_latency"),
        ];
        let whole = [("latency", "latency", "result_99.00_percentile_latency_ns", "effective_target_latency_ns")];
        let limits: &[_] = if uses_tokens { &token } else { &whole };
        let queries = self.detail.count("result_query_count").unwrap_or(0);
        let mut worst: Option<f64> = None;
        for &(rule, name, measured, limit) in limits {
            let (Some(measured), Some(limit)) = (self.detail.number(measured), self.detail.number(limit)) else {
                continue;
            };
            if measured <= limit || limit <= 0.0 {
                continue;
            }
            let over = measured / limit;
            worst = Some(worst.map_or(over, |worst| worst.max(over)));
            let message = format!(
                "p99 {name} of {} queries is {:.1} ms; the limit is {:.0} ms: {:.0} % over",
                grouped(queries as f64, 0),
                measured / 1e6,
                limit / 1e6,
                (over - 1.0) * 100.0
            );
            self.push_reason(rule, message, "the system cannot serve this rate in time: lower `target_qps`");
        }
        if let Some(over) = worst {
            self.next_qps = self.suggested_lower_rate(over);
        }
        worst
    }

    /// A rate below one that missed its limits so far: no more than was really completed, and lower the more was
    /// missed.
    fn suggested_lower_rate(&self, over: f64) -> Option<f64> {
        let target = self.detail.number("effective_target_qps")?;
        let scheduled = self.detail.number("result_scheduled_samples_per_sec").unwrap_or(target);
        let completed = self.detail.number("result_completed_samples_per_sec").unwrap_or(target);
        let by_limit = target * (1.0 / over).clamp(0.6, 0.97);
        let is_behind = completed < 0.97 * scheduled;
        let next = if is_behind { by_limit.min(target * completed / scheduled * 0.97) } else { by_limit };
        Some(rounded_down(next))
    }

    fn duration(&mut self) {
        if self.detail.flag("result_min_duration_met") != Some(false) {
            return;
        }
        let least = self.detail.number("effective_min_duration_ms").unwrap_or(0.0) / 1e3;
        let lasted = self.detail.number("result_max_latency_ns").filter(|_| !self.is_server()).map(|ns| ns / 1e9);
        let scenario = self.detail.text("effective_scenario").unwrap_or_default();
        if scenario == "Offline"
            && let (Some(rate), Some(lasted)) = (self.detail.number("result_samples_per_second"), lasted)
        {
            // LoadGen issues 1.1 times what the rate requires, so the real rate is enough.
            let next = (rate * 10.0).ceil() / 10.0;
            self.next_qps = Some(next);
            let (lasted, least) = (time(lasted), time(least));
            let message = format!("it lasted {lasted} of at least {least}: {rate:.1} samples/s is more than expected");
            let advice = "raise `target_qps` to what the system does, so that there are more samples";
            return self.push_reason("min_duration", message, advice);
        }
        let message = format!("the run ended before {}", time(least));
        let advice = if scenario == "Server" {
            "remove `max_query_count` and `max_duration`, or raise `target_qps`: there were not enough queries"
        } else {
            "lower `user_conf.target_latency` to what a query really takes, so that there are more of them"
        };
        self.push_reason("min_duration", message, advice);
    }

    fn queries(&mut self) {
        if self.detail.flag("result_min_queries_met") != Some(false) {
            return;
        }
        let count = |key| grouped(self.detail.count(key).unwrap_or(0) as f64, 0);
        let (issued, least) = (count("result_query_count"), count("effective_min_query_count"));
        let message = format!("{issued} queries were issued; at least {least} are needed");
        self.push_reason("min_queries", message, "remove `max_query_count` and `max_duration`");
    }

    /// LoadGen's test whether there were enough queries to be sure of the percentile.
    fn early_stopping(&mut self, late: Option<f64>) {
        if self.detail.flag("early_stopping_met") != Some(false) {
            return;
        }
        let lines: Vec<&str> = ["early_stopping_ttft_result", "early_stopping_tpot_result", "early_stopping_result"]
            .into_iter()
            .filter_map(|key| self.detail.text(key))
            .collect();
        let more = lines.iter().filter_map(|text| number_after(text, "at least ")).max();
        let count = ["result_query_count", "generated_query_count"].into_iter().find_map(|key| self.detail.count(key));
        let count = count.unwrap_or(0);
        let needed = more.map_or_else(String::new, |more| {
            format!(": {} more would be needed, all of them in time", grouped(more as f64, 0))
        });
        let message =
            format!("{} queries are not enough to be 99 % sure of the percentile{needed}", grouped(count as f64, 0));
        let advice = match (late, more) {
            (Some(_), _) => "it follows from the missed limit".to_owned(),
            (None, Some(more)) => format!(
                "the rate is not at fault: set `user_conf.min_query_count: {}` or more, or a longer `min_duration`",
                count + more
            ),
            (None, None) => "the rate is not the cause: request more queries".to_owned(),
        };
        self.push_reason("early_stopping", message, advice);
    }
}

fn number_after(text: &str, mark: &str) -> Option<u64> {
    let digits: String = text.split_once(mark)?.1.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// Rounded down: a rate is not known better than that.
fn rounded_down(value: f64) -> f64 {
    if !(value > 0.0 && value.is_finite()) {
        return value;
    }
    let scale = 10f64.powf(2.0 - value.log10().floor());
    (value * scale).floor() / scale
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{explain, rounded_down};
    use rules::log::Detail;

    fn explain_golden_log(name: &str) -> String {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/mlperf/logs").join(name);
        explain(&Detail::read_folder(&folder).unwrap()).to_string()
    }

    #[test]
    fn nothing_is_wrong_with_a_valid_run() {
        for name in ["server-valid", "offline-valid", "single-stream"] {
            assert_eq!(explain_golden_log(name), "VALID");
        }
        assert_eq!(explain_golden_log("server-accuracy"), "no result");
    }

    #[test]
    fn a_missed_limit_is_shown_with_how_far_it_was_missed() {
        insta::assert_snapshot!(explain_golden_log("server-slow"), @r"
        INVALID
          p99 TTFT of 640 queries is 560.0 ms; the limit is 450 ms: 24 % over
            → the system cannot serve this rate in time: lower `target_qps`
          p99 TPOT of 640 queries is 51.5 ms; the limit is 40 ms: 29 % over
            → the system cannot serve this rate in time: lower `target_qps`
          640 queries are not enough to be 99 % sure of the percentile: 69,466 more would be needed, all of them in time
            → it follows from the missed limit
          next: `target_qps: 262`
        ");
    }

    #[test]
    fn too_few_queries_are_not_the_rates_fault() {
        insta::assert_snapshot!(explain_golden_log("server-few"), @r"
        INVALID
          128 queries are not enough to be 99 % sure of the percentile: 331 more would be needed, all of them in time
            → the rate is not at fault: set `user_conf.min_query_count: 459` or more, or a longer `min_duration`
        ");
    }

    #[test]
    fn a_fast_system_needs_a_higher_rate_to_last_long_enough() {
        insta::assert_snapshot!(explain_golden_log("offline-short"), @r"
        INVALID
          it lasted 0.3 s of at least 1.5 s: 611.4 samples/s is more than expected
            → raise `target_qps` to what the system does, so that there are more samples
          next: `target_qps: 611.5`
        ");
    }

    #[test]
    fn a_run_that_was_cut_off_has_no_result() {
        let line = ":::MLLOG {\"key\": \"effective_test_mode\", \"value\": \"PerformanceOnly\", \"metadata\": {}}\n";
        let text = explain(&Detail::read(line.as_bytes()).unwrap()).to_string();
        assert_eq!(text, "no result\n  LoadGen wrote no result: the run did not end\n    → run it again");
    }

    #[test]
    fn rates_are_rounded_down() {
        let shown = [123.99, 0.098_765, 7.0].map(|rate| rounded_down(rate).to_string());
        assert_eq!(shown, ["123", "0.0987", "7"]);
    }
}
