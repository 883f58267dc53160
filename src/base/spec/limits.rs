//! `bench.limits:` — what must hold for a run to be VALID beyond the harness's own checks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::goodput_limit::GoodputLimit;
use super::latency_limit::LatencyLimit;
use super::percent::Percent;
use super::time_span::TimeSpan;

/// A field for each metric and statistic, so that a misspelt key is found with a suggestion.
macro_rules! limits {
    ($($key:ident)*) => {
        /// Limits: `METRIC_STATISTIC: TIME` for the metrics `ttft`, `tpot`, `itl`, `icl`, `e2e`, `max_stall` and the statistics `mean`, `p50`, `p75`, `p90`, `p95`, `p99`, `max`, each from where the metric counts; a budget of failures; goodput. A missed limit makes the result INVALID(load).
        #[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
        #[schemars(deny_unknown_fields)]
        pub struct Limits {
            $(
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $key: Option<TimeSpan>,
            )*
            /// Requests that may fail, as a share of those that were sent: `0.5%`. Beyond it the result is INVALID(server); within it, VALID WITH WARNINGS. [default: none]
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub failures: Option<Percent>,
            /// The least goodput by `slo`: `95%` of the scheduled requests, or `9/s`.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub goodput: Option<GoodputLimit>,
        }

        impl Limits {
            /// Those of latencies that are given: key and time.
            fn times(&self) -> impl Iterator<Item = (&'static str, &TimeSpan)> {
                let all = [$((stringify!($key), &self.$key)),*];
                all.into_iter().filter_map(|(key, limit)| Some((key, limit.as_ref()?)))
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

impl Limits {
    /// All that limit a latency: the 99th percentiles of TTFT and TPOT first.
    pub fn latencies(&self) -> impl Iterator<Item = LatencyLimit> {
        let all = self.times().filter_map(|(key, limit)| LatencyLimit::of(key, limit.time()));
        let (usual, further): (Vec<_>, Vec<_>) = all.partition(LatencyLimit::is_usual);
        usual.into_iter().chain(further)
    }

    /// The requests that may fail, as a share of those that were sent.
    pub fn failure_budget(&self) -> Option<f64> {
        self.failures.map(Percent::share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_a_metric_and_a_statistic() {
        let mut keys: Vec<String> = ["ttft", "tpot", "itl", "icl", "e2e", "max_stall"]
            .iter()
            .flat_map(|metric| {
                ["mean", "p50", "p75", "p90", "p95", "p99", "max"].map(|what| format!("{metric}_{what}"))
            })
            .collect();
        let text = keys.join(": 2s\n") + ": 2s\nfailures: 0.5%\ngoodput: 9/s\n";
        let limits: Limits = serde_yaml::from_str(&text).unwrap();
        let found: Vec<String> = limits.latencies().map(|limit| limit.key()).collect();
        assert_eq!(found[..2], ["ttft_p99", "tpot_p99"]);
        let mut found = found;
        found.sort();
        keys.sort();
        assert_eq!(found, keys);
        assert!(limits.latencies().all(|limit| (limit.ms - 2e3).abs() < 1e-9));
        assert_eq!(limits.failure_budget(), Some(0.005));
        assert_eq!(limits.goodput, Some(GoodputLimit::PerSecond(9.0)));
    }
}
