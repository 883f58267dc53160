//! `bench.limits:` — what must hold for a run to be VALID beyond the harness's own checks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A field for each metric and statistic, so that a misspelt key is found with a suggestion.
macro_rules! limits {
    ($($key:ident)*) => {
        /// Limits: `METRIC_STATISTIC: TIME` for the metrics `ttft`, `tpot`, `itl`, `icl`, `e2e`, `max_stall` and the statistics `mean`, `p50`, `p75`, `p90`, `p95`, `p99`, `max`, each from where the metric counts; a budget of failures; goodput. A missed limit makes the result INVALID(load).
        #[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct Limits {
            $(
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $key: Option<String>,
            )*
            /// Requests that may fail, as a share of those that were sent: `0.5%`. Beyond it the result is INVALID(server); within it, VALID WITH WARNINGS. Left out: none may.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub failures: Option<String>,
            /// The least goodput by `slo`: `95%` of the scheduled requests, or `9/s`.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub goodput: Option<String>,
        }

        impl Limits {
            /// Those of latencies that are given: key and time.
            pub fn latencies(&self) -> impl Iterator<Item = (&'static str, &str)> {
                let all = [$((stringify!($key), &self.$key)),*];
                all.into_iter().filter_map(|(key, limit)| Some((key, limit.as_deref()?)))
            }
        }
    };
}

limits! {
    ttft_mean ttft_p50 ttft_p75 ttft_p90 ttft_p95 ttft_p99 ttft_max
    tpot_mean tpot_p50 tpot_p75 tpot_p90 tpot_p95 tpot_p99 tpot_max
    itl_mean itl_p50 itl_p75 itl_p90 itl_p95 itl_p99 itl_max
    icl_mean icl_p50 icl_p75 icl_p90 icl_p95 icl_p99 icl_max
    e2e_mean e2e_p50 e2e_p75 e2e_p90 e2e_p95 e2e_p99 e2e_max
    max_stall_mean max_stall_p50 max_stall_p75 max_stall_p90 max_stall_p95 max_stall_p99 max_stall_max
}

/// The least goodput.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LeastGoodput {
    Share(f64),
    PerSecond(f64),
}

impl Limits {
    /// As a share. The error says what it must be.
    pub fn failure_budget(&self) -> Result<Option<f64>, String> {
        self.failures.as_deref().map(percent).transpose()
    }

    pub fn least_goodput(&self) -> Result<Option<LeastGoodput>, String> {
        let Some(text) = self.goodput.as_deref() else { return Ok(None) };
        let Some(rate) = text.trim().strip_suffix("/s") else {
            return percent(text).map(LeastGoodput::Share).map(Some);
        };
        match rate.trim().parse::<f64>() {
            Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(Some(LeastGoodput::PerSecond(rate))),
            _ => Err(format!("`{text}` is not a number of requests per second above 0, such as `9/s`")),
        }
    }
}

/// `0.5%`
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    match number {
        Some(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err(format!("`{text}` is not a share from 0% to 100%, such as `0.5%`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_and_goodput_have_units() {
        let limits = |failures: &str, goodput: &str| Limits {
            failures: Some(failures.to_owned()),
            goodput: Some(goodput.to_owned()),
            ..Limits::default()
        };
        assert_eq!(limits("0.5%", "9/s").failure_budget(), Ok(Some(0.005)));
        assert_eq!(limits("0.5%", "9/s").least_goodput(), Ok(Some(LeastGoodput::PerSecond(9.0))));
        assert_eq!(limits("0%", "95 %").least_goodput(), Ok(Some(LeastGoodput::Share(0.95))));
        for wrong in ["0.5", "-1%", "101%", "NaN%", "%", ""] {
            assert!(limits(wrong, "0/s").failure_budget().is_err(), "{wrong}");
        }
        assert!(limits("1%", "0/s").least_goodput().is_err());
    }

    #[test]
    fn keys_are_those_of_the_harness() {
        let given = Limits { e2e_p95: Some("9s".to_owned()), ttft_p99: Some("1s".to_owned()), ..Limits::default() };
        assert_eq!(given.latencies().collect::<Vec<_>>(), [("ttft_p99", "1s"), ("e2e_p95", "9s")]);
    }
}
