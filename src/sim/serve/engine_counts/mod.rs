//! What vLLM's server counts of one engine, by its definitions: `vllm/v1/metrics/stats.py` and `vllm/v1/spec_decode/metrics.py` of
//! vLLM 0.24. Times are simulated seconds.

mod histogram;

pub(super) use histogram::Histogram;

use super::extra_outputs::RequestTimes;
use crate::core::CoreTokens;

/// Seconds, of the histograms with the name's times.
const FIRST_TOKEN: [f64; 22] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
];
const BETWEEN_TOKENS: [f64; 19] =
    [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0];
const REQUEST: [f64; 21] = [
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
];
/// Tokens of a step.
const STEP: [f64; 13] = [1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0];
/// Of the parameter `n`.
const SEQUENCES: [f64; 5] = [1.0, 2.0, 5.0, 10.0, 20.0];

/// The counts of one copy of an engine since its start.
#[derive(Clone, Debug)]
pub(super) struct EngineCounts {
    /// Steps in which drafts of a request were verified, and those drafts.
    pub drafts: u64,
    pub draft_tokens: u64,
    /// For each position of a draft: how many were accepted.
    pub accepted: Vec<u64>,
    /// Of requests that have their first token.
    pub prompt_tokens: u64,
    pub generation_tokens: u64,
    /// Requests that ended with `max_tokens`, and before.
    pub ended_by_length: u64,
    pub ended_by_stop: u64,
    pub request_prompt_tokens: Histogram,
    pub request_generation_tokens: Histogram,
    pub iteration_tokens: Histogram,
    pub request_max_num_generation_tokens: Histogram,
    pub request_params_n: Histogram,
    pub request_params_max_tokens: Histogram,
    pub time_to_first_token: Histogram,
    pub inter_token_latency: Histogram,
    pub request_time_per_output_token: Histogram,
    pub e2e_request_latency: Histogram,
    pub request_queue_time: Histogram,
    pub request_inference_time: Histogram,
    pub request_prefill_time: Histogram,
    pub request_decode_time: Histogram,
    pub request_prefill_kv_computed_tokens: Histogram,
    /// Tokens of the step that is being counted, and of the prompts whose first token it made.
    step_tokens: u64,
}

/// One request, when the tokens of a step are counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct CountedRequest {
    pub prompt_tokens: u64,
    pub max_tokens: u64,
    /// When its tokens before those came, simulated ns.
    pub previous_token: u64,
    pub times: RequestTimes,
    /// From its arrival to the scheduler, simulated ns.
    pub frontend: u64,
}

impl EngineCounts {
    pub(super) fn new(draft_len: u64, max_seq_len: u64) -> Self {
        let tokens = || Histogram::of_tokens(max_seq_len);
        let seconds = |limits: &[f64]| Histogram::new(limits.to_vec());
        Self {
            drafts: 0,
            draft_tokens: 0,
            accepted: vec![0; draft_len as usize],
            prompt_tokens: 0,
            generation_tokens: 0,
            ended_by_length: 0,
            ended_by_stop: 0,
            request_prompt_tokens: tokens(),
            request_generation_tokens: tokens(),
            iteration_tokens: Histogram::new(STEP.to_vec()),
            request_max_num_generation_tokens: tokens(),
            request_params_n: Histogram::new(SEQUENCES.to_vec()),
            request_params_max_tokens: tokens(),
            time_to_first_token: seconds(&FIRST_TOKEN),
            inter_token_latency: seconds(&BETWEEN_TOKENS),
            request_time_per_output_token: seconds(&BETWEEN_TOKENS),
            e2e_request_latency: seconds(&REQUEST),
            request_queue_time: seconds(&REQUEST),
            request_inference_time: seconds(&REQUEST),
            request_prefill_time: seconds(&REQUEST),
            request_decode_time: seconds(&REQUEST),
            request_prefill_kv_computed_tokens: tokens(),
            step_tokens: 0,
        }
    }

    /// A request has tokens of the step that ended at `times.last_token`.
    pub(super) fn tokens(&mut self, tokens: &CoreTokens, request: &CountedRequest) {
        if let Some(accepted) = tokens.accepted {
            self.drafts += 1;
            self.draft_tokens += self.accepted.len() as u64;
            self.accepted.iter_mut().take(accepted as usize).for_each(|count| *count += 1);
        }
        self.generation_tokens += tokens.count;
        self.step_tokens += tokens.count;
        let now = request.times.last_token;
        if tokens.index == 0 {
            self.prompt_tokens += request.prompt_tokens;
            self.step_tokens += request.prompt_tokens;
            self.time_to_first_token.observe(seconds(request.times.arrival, now));
        } else {
            self.inter_token_latency.observe(seconds(request.previous_token, now));
        }
        if tokens.is_last {
            self.ended(tokens.index + tokens.count, request);
        }
    }

    fn ended(&mut self, made: u64, request: &CountedRequest) {
        let CountedRequest { prompt_tokens, max_tokens, times, frontend, .. } = *request;
        let RequestTimes { arrival, scheduled, first_token, last_token } = times;
        if made < max_tokens {
            self.ended_by_stop += 1;
        } else {
            self.ended_by_length += 1;
        }
        let decode = seconds(first_token, last_token);
        self.e2e_request_latency.observe(seconds(arrival, last_token));
        self.request_queue_time.observe(seconds(arrival + frontend, scheduled));
        self.request_prefill_time.observe(seconds(scheduled, first_token));
        self.request_inference_time.observe(seconds(scheduled, last_token));
        self.request_decode_time.observe(decode);
        // Without a prefix cache all of a prompt is computed.
        self.request_prefill_kv_computed_tokens.observe(prompt_tokens as f64);
        self.request_prompt_tokens.observe(prompt_tokens as f64);
        self.request_generation_tokens.observe(made as f64);
        self.request_time_per_output_token.observe(if made > 1 { decode / (made - 1) as f64 } else { 0.0 });
        self.request_params_max_tokens.observe(max_tokens as f64);
        // Each sequence is a request of its own.
        self.request_max_num_generation_tokens.observe(made as f64);
        self.request_params_n.observe(1.0);
    }

    /// The step has no more tokens. vLLM does not count one that made none.
    pub(super) fn step_ended(&mut self) {
        if self.step_tokens > 0 {
            self.iteration_tokens.observe(self.step_tokens as f64);
        }
        self.step_tokens = 0;
    }
}

fn seconds(from: u64, to: u64) -> f64 {
    to.saturating_sub(from) as f64 / 1e9
}
