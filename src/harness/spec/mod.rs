//! What to send and how to judge it: plain types, free of text and units. A leaf: every other folder of the room may
//! use it.
//!
//! How requests are sent: think times, a limit on requests in flight, streams, retries.
//!
//! The SLO of each request.

pub(super) mod load;
pub(super) mod prompts;
pub(super) mod response_bounds;
pub(super) mod transport;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::spec::response_bounds::{ResponseBounds, SHORTEST_TIME_OUT};
use crate::{HarnessError, LoadPattern, Pause, PromptSource, Transport};
use base::event::Endpoint;
use base::spec::{
    Arrivals, CancelBy, History, Interface, Length, Limits, Request, Retries, SloLimits, StopAfter, StreamMode,
    TimeSpan,
};

/// One measurement, serializable for another process. Connections to each endpoint are `frontends × clients`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BenchSpec {
    pub endpoints: Vec<Endpoint>,
    pub protocol: Transport,
    /// The Triton model; over OpenAI's interfaces empty is the only one that the server lists.
    pub model: String,
    pub scenario: LoadPattern,
    pub arrivals: Arrivals,
    pub stop: StopAfter,
    pub input_len: Length,
    pub output_len: Length,
    pub seed: u64,
    /// Requests before the measured ones, one after the other. Several servers get them in turn.
    pub warmup: u32,
    pub pace: SendingSpec,
    pub content: PromptSource,
    pub frontends: u32,
    pub clients: u32,
    /// A stream with tokens is abandoned when none came for this long; one without, when its server sent none on any
    /// stream.
    pub stall_timeout: Duration,
    pub limits: Limits,
    /// The SLO of each single request, for goodput; those of `limits` if none is set.
    pub slo: Slo,
    /// Keep the time of every chunk: 16 bytes for each.
    pub timelines: bool,
    /// Prompt tokens are drawn below this.
    pub vocab_size: u32,
    /// End-of-sequence and padding token; never part of a prompt.
    pub end_id: i32,
    pub request: Request,
}

impl BenchSpec {
    /// Connections in all.
    pub fn connections(&self) -> usize {
        self.endpoints.len() * self.frontends as usize * self.clients as usize
    }

    /// Answers to one prompt.
    pub(super) fn answers_to_a_prompt(&self) -> u32 {
        self.request.sequences().saturating_mul(self.protocol.choices())
    }

    /// The limits on an answer. Logits are large, so a message with them may be as long as gRPC allows.
    pub(super) fn response_bounds(&self) -> ResponseBounds {
        let has_logits = self.request.return_context_logits || self.request.return_generation_logits;
        let time_out = self.pace.answer_time_out.unwrap_or_else(|| self.stall_timeout.max(SHORTEST_TIME_OUT));
        ResponseBounds { time_out, ..ResponseBounds::from_limits(self.request.response_limits, has_logits) }
    }

    /// The SLO of each request: the one given, or what the limits say of the 99th of a hundred.
    pub(super) fn slo(&self) -> Slo {
        if !self.slo.is_empty() {
            return self.slo;
        }
        let ms = |limit: &Option<TimeSpan>| limit.as_ref().map(TimeSpan::ms);
        Slo { ttft_ms: ms(&self.limits.ttft_p99), tpot_ms: ms(&self.limits.tpot_p99), e2e_ms: None }
    }

    pub(super) fn check(&self) -> Result<(), HarnessError> {
        let refuse = |what: &str| Err(HarnessError::spec(what));
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
        for (what, length) in [("input length", &self.input_len), ("output length", &self.output_len)] {
            if let Some(fault) = length.fault() {
                return Err(HarnessError::Spec(format!("{what}: {fault}")));
            }
        }
        self.content.check()?;
        for pause in [Some(self.pace.think), self.content.turn_delay()].into_iter().flatten() {
            if let Some(fault) = pause.problem() {
                return refuse(fault);
            }
        }
        if self.pace.max_in_flight == Some(0) {
            return refuse("max_in_flight must be at least 1");
        }
        if let Some(fault) = self.pace.retries.as_ref().and_then(Retries::problem) {
            return refuse(fault);
        }
        let sends_answers = self.content.sessions.as_ref().is_some_and(|sessions| sessions.history == History::Answers);
        if sends_answers && self.request.sequences() > 1 {
            return refuse("with num_return_sequences above 1 it is undefined which answer a session continues");
        }
        if self.pace.stream == StreamMode::Shared {
            if self.protocol != Transport::Kserve {
                return refuse("stream `shared` is gRPC's: it needs the protocol kserve");
            }
            if self.request.cancel.is_some_and(|cancel| cancel.by == CancelBy::Rpc) {
                return refuse(
                    "cancel.by `rpc` ends the call, which all requests share with stream `shared`: use `stop`, or \
                     stream `per_request`",
                );
            }
        }
        if let LoadPattern::External(_) = self.scenario {
            return self.check_external();
        }
        let has_data = self.content.data.is_some();
        if !has_data && (self.input_len == Length::Given || self.output_len == Length::Given) {
            return refuse("without data, input and output lengths are needed");
        }
        let has_end = self.stop.requests.is_some() || has_data;
        let check_end = || {
            let is_bounded = has_end || self.stop.duration.is_some();
            if is_bounded { Ok(()) } else { refuse("stop needs a number of requests or a duration") }
        };
        match &self.scenario {
            LoadPattern::Offline if !has_end => {
                refuse("offline sends all requests at once, so stop needs a number of requests")
            }
            LoadPattern::Server { rate } => {
                rate.check("rate")?;
                if matches!(self.arrivals, Arrivals::Gamma { cv } if !cv.is_finite() || cv <= 0.0 || cv > 100.0) {
                    return refuse("the coefficient of variation must be above 0 and at most 100");
                }
                let is_open = self.stop.duration.is_some() || self.content.sessions.is_some();
                if self.arrivals == Arrivals::PoissonScaled && (self.stop.requests.is_none() || is_open) {
                    return refuse("scaled arrivals need a number of requests, and neither a duration nor sessions");
                }
                check_end()
            }
            LoadPattern::Trace { speed } if !(speed.is_finite() && *speed > 0.0) => {
                refuse("the speed of a trace must be above 0")
            }
            LoadPattern::Trace { .. } if !has_data => refuse("a trace needs data with time stamps"),
            LoadPattern::Concurrency { users } => {
                users.check("number of users")?;
                check_end()
            }
            LoadPattern::Offline | LoadPattern::Trace { .. } | LoadPattern::External(_) => Ok(()),
        }
    }

    /// One message is one sample, and its answer is recorded token by token.
    fn check_external(&self) -> Result<(), HarnessError> {
        let request = &self.request;
        let faults: Vec<&str> = [
            (
                self.protocol.answers_with_ids(),
                "they need prompts and answers as token ids: the protocol kserve, or openai-completions with `request: \
                 { interface: token_ids }` and `extra: { detokenize: false }` (trtllm-serve) or `extra: { \
                 return_token_ids: true }` (vLLM)",
            ),
            (request.interface != Some(Interface::Text), "they need the interface `token_ids`"),
            (request.batch() == 1, "`request.batch` must be 1"),
            (request.beam_width.unwrap_or(1) == 1, "`request.beam_width` must be 1"),
            (request.cancel.is_none(), "`request.cancel` would end samples before they are answered"),
            (request.lora_task_id.is_empty(), "`request.lora_task_id` would make equal samples different"),
            (request.adapters.is_empty(), "`request.adapters` would make equal samples different"),
            (!request.has_drawn_seeds(), "`request.random_seed` must be the same for all"),
            (
                request.exclude_input_in_output != Some(false),
                "`request.exclude_input_in_output: false` puts prompts into answers",
            ),
            (
                self.pace.max_in_flight.is_none() || self.protocol != Transport::Kserve,
                "`max_in_flight` would hold samples back; over HTTP it bounds the connections",
            ),
        ]
        .into_iter()
        .filter_map(|(holds, text)| (!holds).then_some(text))
        .collect();
        if faults.is_empty() {
            return Ok(());
        }
        Err(HarnessError::Spec(format!("requests of an external driver: {}", faults.join("; "))))
    }
}

/// How requests are sent: held back, tried again, over which streams.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SendingSpec {
    /// A user's pause between an answer and the next request.
    pub think: Pause,
    /// Arrivals beyond this wait in the client, and their latency counts from when they should have been sent.
    pub max_in_flight: Option<u32>,
    /// Warm up for this long, after the number of requests.
    pub warmup_for: Option<Duration>,
    pub stream: StreamMode,
    /// `None`: what failed has failed.
    pub retries: Option<Retries>,
    /// An answer may take ten times as long after its first token, and a sixth of it for each token. `None`:
    /// `stall_timeout`, and at least a minute. Tests shorten it.
    pub answer_time_out: Option<Duration>,
}

/// The SLO of one request: limits in ms, at least one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slo {
    /// First token − intended arrival.
    pub ttft_ms: Option<f64>,
    /// Time per output token after the first chunk. A request without such tokens is judged by the other limits only;
    /// if no request has such tokens, goodput is not reported.
    pub tpot_ms: Option<f64>,
    /// Last token − intended arrival.
    pub e2e_ms: Option<f64>,
}

impl From<&SloLimits> for Slo {
    fn from(given: &SloLimits) -> Self {
        let ms = |limit: &Option<TimeSpan>| limit.as_ref().map(TimeSpan::ms);
        Self { ttft_ms: ms(&given.ttft), tpot_ms: ms(&given.tpot), e2e_ms: ms(&given.e2e) }
    }
}

impl Slo {
    pub const fn is_empty(&self) -> bool {
        self.ttft_ms.is_none() && self.tpot_ms.is_none() && self.e2e_ms.is_none()
    }
}
