//! What was measured, in one line: which model where, under which load, for how long and with which lengths.

use std::fmt;

use crate::{LoadLevel, LoadPattern, Requested, RunResult, Transport};
use base::spec::{Arrivals, Length};
use base::units::counted;

/// The server and the load of a result as its reader recognizes them, wherever the result is shown.
///
/// `toy @ 127.0.0.1:18200 (OpenAI chat) · 5 req/s Poisson · 100 requests · 550 → 128 tokens`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// `toy @ 127.0.0.1:18200 (OpenAI chat)`
    pub target: String,
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
        Workload::from(&self.requested)
    }
}

impl From<&Requested> for Workload {
    fn from(requested: &Requested) -> Self {
        let (addresses, api) = (requested.endpoints.join(", "), api_name(&requested.protocol));
        let requests = requested.stop_requests.map(|requests| counted(requests as usize, "request"));
        let duration = requested.stop_duration_ms.map(|ms| format!("{} s", ms / 1e3));
        let extent: Vec<String> = requests.into_iter().chain(duration).collect();
        Self {
            target: format!("{} @ {addresses} ({api})", requested.model),
            load: load_text(requested),
            // With both it ends with the later one.
            extent: (!extent.is_empty()).then(|| extent.join(" and ")),
            lengths: lengths_text(&requested.input_len, &requested.output_len),
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} · {}", self.target, self.load)?;
        if let Some(extent) = &self.extent {
            write!(f, " · {extent}")?;
        }
        write!(f, " · {}", self.lengths)
    }
}

const fn api_name(protocol: &Transport) -> &'static str {
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
mod tests {
    use super::*;
    use crate::{Api, Http};

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
