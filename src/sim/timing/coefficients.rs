//! What one step of a decoder costs.

use serde::{Deserialize, Serialize};

/// `step = overhead [+ launch if P+B > graph_tokens] + max(overlap·W, token·(P+B)) + (1−overlap)·W + pair·Σ(chunk·(past + chunk/2)) + request·B +
/// kv_token·ΣKV [+ context if P > 0] + prompt·R + all_reduce·(P+B)`, with P context tokens of R requests and B generating requests, and W = weights +
/// `expert_weights` · (the share of experts that P+B tokens touch). Seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Coefficients {
    pub overhead: f64,
    /// Launching the kernels of all layers, in a step without a CUDA graph.
    #[serde(default)]
    pub launch: f64,
    /// Steps of up to this many tokens have a CUDA graph.
    #[serde(default)]
    pub graph_tokens: u64,
    /// Reading the weights that every token needs.
    pub weights: f64,
    /// Reading all experts.
    #[serde(default)]
    pub expert_weights: f64,
    /// The share of a layer's experts that one token touches.
    #[serde(default)]
    pub expert_share: f64,
    /// The share of reading the weights that hides the linear layers' work.
    #[serde(default = "all")]
    pub overlap: f64,
    /// Linear layers, for each token.
    pub token: f64,
    /// Attention, for each pair of a new and an older token.
    pub pair: f64,
    pub request: f64,
    /// Reading the KV cache of one token.
    pub kv_token: f64,
    /// Once for a step that has context.
    pub context: f64,
    /// For each request that computes context.
    #[serde(default)]
    pub prompt: f64,
    /// For each token.
    pub all_reduce: f64,
    /// Between a request's arrival and the scheduler.
    #[serde(default)]
    pub frontend: f64,
}

/// What a step computes: this many tokens of the context of this many requests, with pairs of a new and an older token; and requests
/// that generate, with the tokens in their KV caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepWork {
    pub contexts: u64,
    pub context_tokens: u64,
    pub pairs: u64,
    pub generating: u64,
    pub kv_tokens: u64,
}

const fn all() -> f64 {
    1.0
}

/// From this many tokens on every expert is taken as touched.
const ALL_EXPERTS: u64 = 4096;

impl Coefficients {
    /// One step, nanoseconds: of `contexts` requests that compute this many tokens of their context, and of those that generate. The order of the additions is part of the golden values.
    pub fn step_ns(&self, contexts: u64, context_tokens: u64, pairs: u64, generating: u64, kv_tokens: u64) -> u64 {
        self.verify_ns(&StepWork { contexts, context_tokens, pairs, generating, kv_tokens }, 1)
    }

    /// Like `step_ns`, where each request that generates computes this many tokens. Attention reads its KV cache once for all of them, and
    /// takes the time of its arithmetic where that is longer.
    pub(crate) fn verify_ns(&self, work: &StepWork, tokens_of_a_request: u64) -> u64 {
        let count = work.context_tokens + work.generating * tokens_of_a_request;
        let tokens = count as f64;
        let weights = self.weights(count);
        let kv_token = match tokens_of_a_request {
            1 => self.kv_token,
            several => self.kv_token.max(self.pair * several as f64),
        };
        let mut seconds = self.overhead
            + (self.overlap * weights).max(self.token * tokens)
            + self.pair * work.pairs as f64
            + self.request * work.generating as f64
            + kv_token * work.kv_tokens as f64;
        if work.context_tokens > 0 {
            seconds += self.context + self.prompt * work.contexts as f64;
        }
        seconds += self.all_reduce * tokens;
        seconds += (1.0 - self.overlap) * weights;
        if count > self.graph_tokens {
            seconds += self.launch;
        }
        (1e9 * seconds) as u64
    }

    /// Reading the weights that this many tokens touch. Each token picks its experts independently of the others.
    fn weights(&self, tokens: u64) -> f64 {
        if self.expert_weights == 0.0 {
            return self.weights;
        }
        // Whole powers are multiplications, which give the same bits on every machine.
        let untouched = (1.0 - self.expert_share).powi(tokens.min(ALL_EXPERTS) as i32);
        self.weights + self.expert_weights * (1.0 - untouched)
    }

    /// Between a request's arrival and the scheduler, nanoseconds.
    pub fn frontend_ns(&self) -> u64 {
        (1e9 * self.frontend) as u64
    }
}
