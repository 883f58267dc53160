//! What was requested of a run, with its limits and retries, as its result repeats it.
//!
//! What was measured, in one line: which model where, under which load, for how long and with which lengths.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::identity::entry_differences;
use crate::{BenchSpec, IdentityDifference, LoadLevel, LoadPattern, Pause, RunIdentity, RunResult, Slo, Transport};
use base::spec::{
    Arrivals, GoodputLimit, LatencyLimit, Length, Limits, Request, Retries, RetryOn, StreamMode, TimeSpan,
};
use base::units::counted;

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

/// The server and the load of a result as its reader recognizes them, wherever the result is shown.
///
/// `toy @ 127.0.0.1:18200 (OpenAI chat) · 5 req/s Poisson · 100 requests · 550 → 128 tokens`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    pub model: String,
    /// `127.0.0.1:18200`; `stage server` where the run started it.
    pub server: String,
    /// `OpenAI chat`
    pub protocol: &'static str,
    /// `5 req/s Poisson`
    pub load: String,
    /// `100 requests`, `60 s`. `None`: the data or an external driver ended it.
    pub extent: Option<String>,
    /// `550 → 128 tokens`
    pub lengths: String,
}

impl RunResult {
    /// The server and the load that it is of.
    pub fn workload(&self) -> Workload {
        let mut workload = Workload::from(&self.requested);
        workload.server = self.identity.as_ref().and_then(RunIdentity::server_names).unwrap_or(workload.server);
        if workload.model.is_empty() {
            // The only one of its server.
            workload
                .model
                .extend(self.identity.as_ref().and_then(|identity| identity.servers.first()?.model.as_deref()));
        }
        workload
    }
}

impl Workload {
    /// In what the two differ, by name; without the servers, which are in the identities.
    pub fn differences(&self, other: &Self) -> Vec<IdentityDifference> {
        entry_differences(&self.entries(), &other.entries())
    }

    fn entries(&self) -> Vec<(String, String)> {
        let parts = [("model", &*self.model), ("protocol", self.protocol), ("load", &self.load)];
        let extent = self.extent.as_deref().map(|extent| ("ends after", extent));
        let parts = parts.into_iter().chain(extent).chain([("lengths", &*self.lengths)]);
        parts.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}

impl From<&Requested> for Workload {
    fn from(requested: &Requested) -> Self {
        let requests = requested.stop_requests.map(|requests| counted(requests as usize, "request"));
        let duration = requested.stop_duration_ms.map(|ms| format!("{} s", ms / 1e3));
        let extent: Vec<String> = requests.into_iter().chain(duration).collect();
        Self {
            model: requested.model.clone(),
            server: requested.endpoints.join(", "),
            protocol: protocol_name(&requested.protocol),
            load: load_text(requested),
            // With both it ends with the later one.
            extent: (!extent.is_empty()).then(|| extent.join(" and ")),
            lengths: lengths_text(&requested.input_len, &requested.output_len),
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} @ {} ({}) · {}", self.model, self.server, self.protocol, self.load)?;
        if let Some(extent) = &self.extent {
            write!(f, " · {extent}")?;
        }
        write!(f, " · {}", self.lengths)
    }
}

const fn protocol_name(protocol: &Transport) -> &'static str {
    match protocol {
        Transport::Kserve => "KServe gRPC",
        Transport::Http(http) => match http.api {
            crate::Api::Generate => "Triton generate",
            crate::Api::OpenaiChat => "OpenAI chat",
            crate::Api::OpenaiCompletions => "OpenAI completions",
        },
    }
}

fn load_text(requested: &Requested) -> String {
    let level = |level: &LoadLevel| match level {
        LoadLevel::Fixed(level) => level.to_string(),
        LoadLevel::Ramp(_) => format!("up to {}", level.highest()),
    };
    match &requested.scenario {
        LoadPattern::Offline => "all at once".to_owned(),
        LoadPattern::Server { rate } => {
            let law = match requested.arrivals {
                Arrivals::Poisson => "Poisson".to_owned(),
                Arrivals::PoissonScaled => "Poisson, scaled".to_owned(),
                Arrivals::Constant => "constant".to_owned(),
                Arrivals::Gamma { cv } => format!("gamma (cv {cv})"),
            };
            format!("{} req/s {law}", level(rate))
        }
        LoadPattern::Trace { speed } => format!("trace at speed {speed}"),
        LoadPattern::Concurrency { users } => format!("concurrency {}", level(users)),
        LoadPattern::External(_) => "external driver".to_owned(),
    }
}

fn lengths_text(input: &Length, output: &Length) -> String {
    if input.is_given() && output.is_given() {
        return "lengths as in the data".to_owned();
    }
    format!("{input} → {output} tokens")
}

#[cfg(test)]
mod workload_tests {
    use super::*;
    use crate::{Api, Http, ServerIdentity};

    #[test]
    fn two_workloads_differ_by_name() {
        let [one, other] = [5.0, 8.0].map(|rate| Requested {
            model: "toy".to_owned(),
            scenario: LoadPattern::Server { rate: LoadLevel::Fixed(rate) },
            stop_requests: (rate > 5.0).then_some(100),
            ..Requested::default()
        });
        let texts = |a: &Requested, b: &Requested| -> Vec<String> {
            Workload::from(a).differences(&Workload::from(b)).iter().map(IdentityDifference::describe).collect()
        };
        let expected = ["load: 5 req/s Poisson / 8 req/s Poisson", "ends after: not known / 100 requests"];
        assert_eq!(texts(&one, &other), expected);
        // Where a server is says its identity: a server that a run starts has another port each time.
        assert_eq!(texts(&one, &Requested { endpoints: vec!["h:1".to_owned()], ..one.clone() }), Vec::<String>::new());
    }

    #[test]
    fn servers_are_named_by_their_stage_or_by_the_given_address() {
        let server = |address: &str, name: Option<&str>| ServerIdentity {
            address: address.to_owned(),
            name: name.map(str::to_owned),
            model: Some("toy".to_owned()),
            ..ServerIdentity::default()
        };
        let names = |servers: &[ServerIdentity]| RunIdentity::of_servers(servers.to_vec()).server_names();
        let (stage, given) = (server("h:40001", Some("stage triton")), server("h:8000", Some("h:8000")));
        let all = [stage.clone(), server("h:40002", Some("stage triton")), given.clone()];
        assert_eq!(names(&all).as_deref(), Some("2 × stage triton, h:8000"));
        assert_eq!((names(&[given.clone(), server("h:1", None)]), names(&[])), (None, None));
        let texts = [&stage, &given, &server("h:1", None), &given.without_place()].map(ServerIdentity::describe);
        let expected = ["server of stage triton (toy)", "server at h:8000 (toy)", "server at h:1 (toy)"];
        assert_eq!((&texts[..3], texts[3].as_str()), (&expected.map(str::to_owned)[..], "unknown server (toy)"));
        assert_eq!(stage.digest(), given.digest(), "a cached result holds wherever its server is");
    }

    #[test]
    fn a_workload_is_one_line() {
        let mut requested = Requested {
            endpoints: vec!["127.0.0.1:18200".to_owned()],
            model: "toy".to_owned(),
            scenario: LoadPattern::Server { rate: LoadLevel::Fixed(5.0) },
            stop_requests: Some(100),
            input_len: Length::Fixed(550),
            output_len: Length::Fixed(128),
            protocol: Transport::Http(Http::new(Api::OpenaiChat)),
            ..Requested::default()
        };
        let line = |requested: &Requested| Workload::from(requested).to_string();
        assert_eq!(
            line(&requested),
            "toy @ 127.0.0.1:18200 (OpenAI chat) · 5 req/s Poisson · 100 requests · 550 → 128 tokens"
        );
        requested.endpoints.push("127.0.0.1:18201".to_owned());
        (requested.stop_requests, requested.stop_duration_ms) = (None, Some(60_000.0));
        requested.scenario = LoadPattern::Concurrency { users: LoadLevel::Fixed(8.0) };
        (requested.input_len, requested.output_len) = (Length::Given, Length::Given);
        requested.protocol = Transport::Kserve;
        assert_eq!(
            line(&requested),
            "toy @ 127.0.0.1:18200, 127.0.0.1:18201 (KServe gRPC) · concurrency 8 · 60 s · lengths as in the data"
        );
    }
}
