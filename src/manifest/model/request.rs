//! `bench.request:` — the fields of each request besides its prompt and its length.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The content of each request. Every key is a tensor of the TensorRT-LLM backend unless stated otherwise; a model that
/// lacks the tensor is refused before the first request. Left out: not sent, so the server's default applies.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Request {
    /// Token ids or text. Left out: token ids when the model has `input_ids`, text when it has `text_input`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<Interface>,
    /// One response for each token. Left out: yes when the model is decoupled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streaming: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub temperature: Option<f64>,
    /// 1 is greedy, 0 takes the whole vocabulary.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub top_k: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1))]
    pub top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub repetition_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub presence_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub random_seed: Option<RandomSeed>,
    /// Tokens before which the end token does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_length: Option<i32>,
    /// Above 1 only without streaming.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub beam_width: Option<u32>,
    /// Answers to each prompt. Tokens of all of them count as the request's. Needs a decoupled model above 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub num_return_sequences: Option<u32>,
    /// Of beam search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length_penalty: Option<f64>,
    /// Of beam search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early_stopping: Option<bool>,
    /// The answer ends with the first of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_words: Option<Words>,
    /// The answer has none of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bad_words: Option<Words>,
    /// In place of `bench.end_id`; -1 lets every answer run to its full length.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -1))]
    pub end_id: Option<i32>,
    /// In place of the end token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pad_id: Option<i32>,
    /// Adapters, taken in turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lora_task_id: Vec<u64>,
    /// Requests `cum_log_probs` and `output_log_probs`.
    pub return_log_probs: bool,
    /// Requests `context_logits`: prompt tokens × vocabulary numbers for each request.
    pub return_context_logits: bool,
    /// Requests `generation_logits`.
    pub return_generation_logits: bool,
    /// Requests the server's own time stamps and KV cache blocks, which the result shows next to the client's.
    pub return_perf_metrics: bool,
    /// Without streaming: leave the prompt out of the answer. Left out: yes, where the model can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclude_input_in_output: Option<bool>,
    /// Prompts in one message; each is a request and measured separately. Needs a decoupled model above 1. Not a tensor.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub batch: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel: Option<Cancel>,
    /// A request that is not finished so long after it was sent fails: `5s`. Not a tensor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// How large an answer may be, in bytes. A request whose answer exceeds a limit fails with the class `too_large`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_limits: Option<ResponseLimits>,
}

/// Limits on one answer, in bytes. What is left out keeps its default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ResponseLimits {
    /// Over HTTP: all of an answer after its header. Left out: 67108864 (64 MiB).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub body: Option<u64>,
    /// Over HTTP: the status line and all headers. Left out: 65536.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub header: Option<u64>,
    /// One server-sent event. Left out: 16777216 (16 MiB).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub line: Option<u64>,
    /// One gRPC message. Left out: 268435456 (256 MiB), and what gRPC allows (2 GiB) where logits are requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub frame: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Interface {
    /// `input_ids` in, `output_ids` out: `tensorrt_llm`.
    TokenIds,
    /// `text_input` in, `text_output` out: `ensemble`, `tensorrt_llm_bls` and other text models.
    Text,
}

/// The seed of sampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RandomSeed {
    /// The same for every request.
    Fixed(u64),
    /// `true`: one for each request, drawn with the bench's seed and the request's number.
    PerRequest(bool),
}

/// Words as token ids or as texts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Words {
    /// Each entry a list of token ids.
    Ids(Vec<Vec<i32>>),
    /// For text models.
    Texts(Vec<String>),
}

/// Cancels some requests before they are finished. They count as withdrawn: neither ok nor failed. Needs streaming.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cancel {
    /// When so many tokens have come.
    #[schemars(range(min = 1))]
    pub after_tokens: u32,
    /// Share of the requests, drawn with the bench's seed.
    #[serde(default = "all")]
    #[schemars(range(min = 0, max = 1))]
    pub share: f64,
    #[serde(default)]
    pub by: CancelBy,
}

const fn all() -> f64 {
    1.0
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CancelBy {
    /// The gRPC call is cancelled.
    #[default]
    Rpc,
    /// A second request with the same id and `stop` = true; the first is read to its end.
    Stop,
}
