//! `bench.limits:` — what must hold for a run to be VALID beyond the harness's own checks.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quantity::TimeSpan;
use super::schema_format::{GOODPUT, PERCENT, text_schema};

/// A field for each metric and statistic, so that a misspelt key is found with a suggestion.
macro_rules! limits {
    ($($key:ident)*) => {
        /// Limits: `METRIC_STATISTIC: TIME` for the metrics `ttft`, `tpot`, `itl`, `icl`, `e2e`, `max_stall` and the
        /// statistics `mean`, `p50`, `p75`, `p90`, `p95`, `p99`, `max`, each from where the metric counts; a budget of
        /// failures; goodput. A missed limit makes the result LIMIT MISSED.
        #[crate::omit_empty]
        #[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
        #[schemars(deny_unknown_fields)]
        pub struct Limits {
            $(pub $key: Option<TimeSpan>,)*
            /// Share of requests that may fail: `0.5%`. Beyond it INVALID(server), within it VALID WITH WARNINGS.
            /// [default: none]
            pub failures: Option<Percent>,
            /// The least goodput by `slo`: `95%` of the scheduled requests, or `9/s`.
            pub goodput: Option<GoodputLimit>,
        }

        impl Limits {
            /// Those of latencies that are given: key and time.
            fn times(&self) -> impl Iterator<Item = (&'static str, &TimeSpan)> {
                let limits = [$((stringify!($key), &self.$key)),*];
                limits.into_iter().filter_map(|(key, limit)| Some((key, limit.as_ref()?)))
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
        let limits = self.times().filter_map(|(key, limit)| LatencyLimit::parse(key, limit.time()));
        let (usual, further): (Vec<_>, Vec<_>) = limits.partition(LatencyLimit::is_usual);
        usual.into_iter().chain(further)
    }

    /// The requests that may fail, as a share of those that were sent.
    pub fn failure_budget(&self) -> Option<f64> {
        self.failures.map(Percent::share)
    }
}

// The least goodput.

/// At least this much goodput, by `slo`: `95%` or `9/s`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GoodputLimit {
    /// A share of the scheduled requests.
    Share(Percent),
    /// Requests per second.
    PerSecond(f64),
}

/// Why a text is not a goodput.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither a share, such as `95%`, nor a rate above 0, such as `9/s`")]
pub struct GoodputLimitError(String);

impl FromStr for GoodputLimit {
    type Err = GoodputLimitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let limit = match text.trim().strip_suffix("/s").map(|rate| rate.trim().parse::<f64>()) {
            Some(rate) => rate.ok().filter(|rate| rate.is_finite() && *rate > 0.0).map(Self::PerSecond),
            None => text.parse().ok().map(Self::Share),
        };
        limit.ok_or_else(|| GoodputLimitError(text.to_owned()))
    }
}

impl fmt::Display for GoodputLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share(percent) => percent.fmt(f),
            Self::PerSecond(rate) => write!(f, "{rate}/s"),
        }
    }
}

text_serde!(GoodputLimit);
text_schema!(GoodputLimit, GOODPUT);

// A limit of one number of one latency.

/// One number of one metric may be at most this many ms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyLimit {
    pub metric: LimitedMetric,
    pub statistic: Statistic,
    pub ms: f64,
}

named! {
    /// A metric of `latency` in the result.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum LimitedMetric {
        Ttft = "ttft",
        Tpot = "tpot",
        /// Inter-token latency: `itl_token`.
        Itl = "itl",
        /// Inter-chunk latency.
        Icl = "icl",
        E2e = "e2e",
        MaxStall = "max_stall",
    }
}

named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum Statistic {
        Mean = "mean",
        P50 = "p50",
        P75 = "p75",
        P90 = "p90",
        P95 = "p95",
        P99 = "p99",
        Max = "max",
    }
}

impl LatencyLimit {
    /// `e2e_p95`: a metric and a statistic.
    pub(super) fn parse(key: &str, limit: Duration) -> Option<Self> {
        let (metric, statistic) = key.rsplit_once('_')?;
        let metric = *LimitedMetric::ALL.iter().find(|row| row.as_str() == metric)?;
        let statistic = *Statistic::ALL.iter().find(|row| row.as_str() == statistic)?;
        Some(Self { metric, statistic, ms: limit.as_secs_f64() * 1e3 })
    }

    /// Of the two that most runs have: the 99th percentiles of TTFT and TPOT.
    pub fn is_usual(&self) -> bool {
        matches!(self.metric, LimitedMetric::Ttft | LimitedMetric::Tpot) && self.statistic == Statistic::P99
    }

    pub fn key(&self) -> String {
        format!("{}_{}", self.metric.as_str(), self.statistic.as_str())
    }

    /// `TTFT p99`
    pub fn name(&self) -> String {
        format!("{} {}", self.metric.as_str().to_uppercase().replace('_', " "), self.statistic.as_str())
    }
}

impl Statistic {
    /// The share of values at or below it; none of a mean.
    pub const fn quantile(self) -> Option<f64> {
        match self {
            Self::Mean => None,
            Self::P50 => Some(0.5),
            Self::P75 => Some(0.75),
            Self::P90 => Some(0.9),
            Self::P95 => Some(0.95),
            Self::P99 => Some(0.99),
            Self::Max => Some(1.0),
        }
    }
}

// A share as a manifest has it: `0.5%`.

/// From 0 % to 100 %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percent(f64);

/// The text is not a share.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a share from 0% to 100%, such as `0.5%`")]
pub struct PercentError(String);

impl Percent {
    /// Of 1: `0.5%` is 0.005.
    pub fn share(self) -> f64 {
        self.0 / 100.0
    }
}

impl FromStr for Percent {
    type Err = PercentError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
        let percent = number.filter(|percent| (0.0..=100.0).contains(percent));
        percent.map(Self).ok_or_else(|| PercentError(text.to_owned()))
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

text_serde!(Percent);
text_schema!(Percent, PERCENT);

// `bench.slo:` — what each request is to keep.

/// Limits for a single request; each from the intended arrival.
#[crate::omit_empty]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct SloLimits {
    pub ttft: Option<TimeSpan>,
    pub tpot: Option<TimeSpan>,
    pub e2e: Option<TimeSpan>,
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
        let mut limit_keys: Vec<String> = limits.latencies().map(|limit| limit.key()).collect();
        assert_eq!(limit_keys[..2], ["ttft_p99", "tpot_p99"]);
        limit_keys.sort();
        keys.sort();
        assert_eq!(limit_keys, keys);
        assert!(limits.latencies().all(|limit| (limit.ms - 2e3).abs() < 1e-9));
        assert_eq!(limits.failure_budget(), Some(0.005));
        assert_eq!(limits.goodput, Some(GoodputLimit::PerSecond(9.0)));
    }

    #[test]
    fn it_is_a_share_or_a_rate() {
        assert_eq!("9/s".parse(), Ok(GoodputLimit::PerSecond(9.0)));
        assert_eq!("95 %".parse::<GoodputLimit>().unwrap().to_string(), "95%");
        for wrong in ["0/s", "9", "-1/s", "101%"] {
            assert!(wrong.parse::<GoodputLimit>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_key_is_a_metric_and_a_statistic() {
        let limit = LatencyLimit::parse("max_stall_p90", Duration::from_millis(1500)).unwrap();
        assert_eq!((limit.metric, limit.statistic), (LimitedMetric::MaxStall, Statistic::P90));
        assert_eq!((limit.key(), limit.name()), ("max_stall_p90".to_owned(), "MAX STALL p90".to_owned()));
        assert!((limit.ms - 1500.0).abs() < 1e-9);
        for wrong in ["ttft", "ttft_p98", "latency_p99", "_p99", ""] {
            assert_eq!(LatencyLimit::parse(wrong, Duration::ZERO), None, "{wrong}");
        }
    }

    #[test]
    fn a_share_has_its_unit() {
        assert_eq!("0.5%".parse().map(Percent::share), Ok(0.005));
        assert_eq!(" 95 % ".parse::<Percent>().map(|share| share.to_string()), Ok("95%".to_owned()));
        for wrong in ["0.5", "-1%", "101%", "NaN%", "%", ""] {
            assert!(wrong.parse::<Percent>().is_err(), "{wrong}");
        }
    }
}
