//! What to send and how to judge it: the room's own plain types, free of text and units.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{HarnessError, Protocol, Request, Slo};
use crate::event::Endpoint;

/// One measurement. Connections to each endpoint are `frontends × clients`.
#[derive(Clone, Debug)]
pub struct Spec {
    pub endpoints: Vec<Endpoint>,
    pub protocol: Protocol,
    /// The Triton model; over OpenAI's interfaces empty is the only one that the server lists.
    pub model: String,
    pub scenario: Scenario,
    pub arrivals: Arrivals,
    pub stop: Until,
    pub input_len: Length,
    pub output_len: Length,
    pub seed: u64,
    /// Requests before the measured ones, one after the other.
    pub warmup: u32,
    pub frontends: u32,
    pub clients: u32,
    /// A stream with tokens is given up when none came for this long; one without, when its server sent none to anybody.
    pub stall_timeout: Duration,
    pub limits: Limits,
    /// What each single request is promised. Nothing said: `limits`, for goodput.
    pub slo: Slo,
    /// Keep the time of every chunk: 16 bytes for each.
    pub timelines: bool,
    /// Prompt tokens are drawn below this.
    pub vocab_size: u32,
    /// End-of-sequence and padding token; never part of a prompt.
    pub end_id: i32,
    pub request: Request,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scenario {
    /// All requests at once; the metric is tokens/s.
    Offline,
    /// Arrivals at a mean rate, per second.
    Server { rate: f64 },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Exponential gaps.
    #[default]
    Poisson,
    /// Equal gaps.
    Constant,
}

/// When the schedule ends. Both given: whichever is longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Until {
    pub requests: Option<u64>,
    /// All arrivals before this time.
    pub duration: Option<Duration>,
}

/// A length in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    Fixed(u32),
    /// Both ends included.
    Uniform {
        min: u32,
        max: u32,
    },
    /// Rounded and kept within min and max.
    Normal {
        mean: f64,
        stddev: f64,
        min: u32,
        max: u32,
    },
}

/// What must hold beyond the harness's own checks; from the intended arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    pub ttft_p99: Option<Duration>,
    pub tpot_p99: Option<Duration>,
}

impl Spec {
    /// Connections in all.
    pub fn connections(&self) -> usize {
        self.endpoints.len() * self.frontends as usize * self.clients as usize
    }

    /// The promise to single requests: the one given, or what the limits say of the 99th of a hundred.
    pub(super) fn slo(&self) -> Slo {
        if !self.slo.is_empty() {
            return self.slo;
        }
        let ms = |limit: Option<Duration>| limit.map(|limit| limit.as_secs_f64() * 1e3);
        Slo { ttft_ms: ms(self.limits.ttft_p99), tpot_ms: ms(self.limits.tpot_p99), e2e_ms: None }
    }

    pub(super) fn check(&self) -> Result<(), HarnessError> {
        let refuse = |what: &str| Err(HarnessError::Spec(what.to_owned()));
        if self.connections() == 0 {
            return refuse("there is no connection: endpoints, frontends and clients must each be at least 1");
        }
        if self.vocab_size < 10 {
            return refuse("vocab_size is below 10");
        }
        if self.stall_timeout.is_zero() {
            return refuse("stall_timeout is zero");
        }
        let faults = self.request.faults(self.vocab_size);
        if !faults.is_empty() {
            return Err(HarnessError::Spec(faults.join("; ")));
        }
        self.input_len.check("input length")?;
        self.output_len.check("output length")?;
        match self.scenario {
            Scenario::Offline if self.stop.requests.is_none() => {
                refuse("offline sends all requests at once, so stop needs a number of requests")
            }
            Scenario::Server { rate } if !(rate.is_finite() && rate > 0.0) => {
                refuse("the server scenario needs a rate above 0")
            }
            Scenario::Server { .. } if self.stop.requests.is_none() && self.stop.duration.is_none() => {
                refuse("stop needs a number of requests or a duration")
            }
            _ => Ok(()),
        }
    }
}

impl Length {
    fn check(&self, what: &str) -> Result<(), HarnessError> {
        let refuse = |why: &str| Err(HarnessError::Spec(format!("{what}: {why}")));
        match *self {
            Self::Fixed(0) | Self::Uniform { min: 0, .. } | Self::Normal { min: 0, .. } => refuse("must be at least 1"),
            Self::Uniform { min, max } | Self::Normal { min, max, .. } if min > max => refuse("min is above max"),
            Self::Normal { mean, stddev, .. } if !mean.is_finite() || !stddev.is_finite() || stddev < 0.0 => {
                refuse("mean and stddev must be finite, stddev at least 0")
            }
            _ => Ok(()),
        }
    }
}
