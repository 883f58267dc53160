//! What was requested of a run, with its limits and retries, as its result repeats it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{BenchSpec, LoadPattern, Pause, Slo, Transport};
use base::spec::{
    Arrivals, GoodputLimit, LatencyLimit, Length, Limits, Request, Retries, RetryOn, StreamMode, TimeSpan,
};

/// What was requested.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Requested {
    /// `host:port` of each server.
    pub endpoints: Vec<String>,
    pub model: String,
    pub scenario: LoadPattern,
    pub arrivals: Arrivals,
    pub stop_requests: Option<u64>,
    pub stop_duration_ms: Option<f64>,
    pub input_len: Length,
    pub output_len: Length,
    pub seed: u64,
    pub warmup: u32,
    pub warmup_ms: Option<f64>,
    /// Of users between an answer and the next request.
    pub think: Pause,
    pub frontends: u32,
    pub clients: u32,
    pub stall_timeout_ms: f64,
    pub ttft_p99_limit_ms: Option<f64>,
    pub tpot_p99_limit_ms: Option<f64>,
    /// Absent if only those two limits are set.
    #[serde(default, skip_serializing_if = "FurtherLimits::is_empty")]
    pub further_limits: FurtherLimits,
    pub slo: Slo,
    pub vocab_size: u32,
    pub end_id: i32,
    /// The protocol of requests.
    pub protocol: Transport,
    /// Of KServe's streams; left out when each request has its own.
    #[serde(default, skip_serializing_if = "crate::record::is_usual")]
    pub stream: StreamMode,
    /// Absent if failed requests were not retried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<RequestedRetries>,
    /// What else each request has.
    pub request: Request,
}

impl Requested {
    /// Whether a run of this spec would request the same, wherever its servers are now and whatever name they give the
    /// model.
    pub fn is_load_of(&self, spec: &BenchSpec) -> bool {
        let load = |requested: &Self| Self { endpoints: Vec::new(), model: String::new(), ..requested.clone() };
        load(self) == load(&Self::from_spec(spec))
    }

    pub(crate) fn from_spec(spec: &BenchSpec) -> Self {
        let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3;
        Self {
            endpoints: spec.endpoints.iter().map(ToString::to_string).collect(),
            model: spec.model.clone(),
            scenario: spec.scenario.clone(),
            arrivals: spec.arrivals,
            stop_requests: spec.stop.requests,
            stop_duration_ms: spec.stop.duration.as_ref().map(TimeSpan::ms),
            input_len: spec.input_len.clone(),
            output_len: spec.output_len.clone(),
            seed: spec.seed,
            warmup: spec.warmup,
            warmup_ms: spec.pace.warmup_for.map(ms),
            think: spec.pace.think,
            frontends: spec.frontends,
            clients: spec.clients,
            stall_timeout_ms: ms(spec.stall_timeout),
            ttft_p99_limit_ms: spec.limits.ttft_p99.as_ref().map(TimeSpan::ms),
            tpot_p99_limit_ms: spec.limits.tpot_p99.as_ref().map(TimeSpan::ms),
            further_limits: FurtherLimits::from_limits(&spec.limits),
            slo: spec.slo(),
            vocab_size: spec.vocab_size,
            end_id: spec.end_id,
            protocol: spec.protocol.without_files(),
            stream: spec.pace.stream,
            retries: spec.pace.retries.as_ref().map(RequestedRetries::from),
            request: spec.request.clone(),
        }
    }
}

/// Those beside the 99th percentiles of TTFT and TPOT.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FurtherLimits {
    pub latency: Vec<LatencyLimit>,
    /// Failed requests as a share of issued ones. Null: none may fail.
    pub failures: Option<f64>,
    pub goodput: Option<MinGoodput>,
}

/// At least this much goodput, by `slo`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MinGoodput {
    /// Of the scheduled requests, a share.
    Share(f64),
    /// Requests per second.
    PerSecond(f64),
}

impl FurtherLimits {
    pub(super) fn from_limits(limits: &Limits) -> Self {
        Self {
            latency: limits.latencies().filter(|limit| !limit.is_usual()).collect(),
            failures: limits.failure_budget(),
            goodput: limits.goodput.map(|least| match least {
                GoodputLimit::Share(percent) => MinGoodput::Share(percent.share()),
                GoodputLimit::PerSecond(rate) => MinGoodput::PerSecond(rate),
            }),
        }
    }

    pub const fn is_empty(&self) -> bool {
        self.latency.is_empty() && self.failures.is_none() && self.goodput.is_none()
    }
}

/// When a failed request was sent again, over the same connection. Its latency counts from the first intended time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequestedRetries {
    /// At most this many times for one request.
    pub times: u32,
    /// No connection, or it broke before any answer.
    pub connect: bool,
    /// The server would not take it.
    pub refused: bool,
    /// From the failure to the next attempt.
    pub pause_ms: f64,
}

impl From<&Retries> for RequestedRetries {
    fn from(retries: &Retries) -> Self {
        Self {
            times: retries.times,
            connect: retries.on.contains(&RetryOn::Connect),
            refused: retries.on.contains(&RetryOn::Refused),
            pause_ms: retries.pause.ms(),
        }
    }
}
