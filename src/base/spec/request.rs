//! `bench.request:` — the fields of each request besides its prompt and its length.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::connection::ResponseSizeLimits;
use super::load::RandomSeed;
use super::prompts::LONGEST_LENGTH;
use super::quantity::TimeSpan;
use super::request_field::add_bounds;
use super::request_headers::RequestHeaders;

/// The content of each request. Every key is a tensor of the TensorRT-LLM backend unless stated otherwise; a model that
/// lacks the tensor is refused before the first request, and a key that the protocol cannot send is an error. A key
/// without a value is not sent: the server's default applies.
#[crate::omit_empty]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields, transform = add_bounds)]
pub struct Request {
    /// Token ids or text. [default: token ids when the model has `input_ids`, text when it has `text_input`]
    pub interface: Option<Interface>,
    /// One response for each token. [default: true when the model is decoupled]
    pub streaming: Option<bool>,
    pub temperature: Option<f64>,
    /// 1 is greedy, 0 takes the whole vocabulary.
    pub top_k: Option<i32>,
    pub top_p: Option<f64>,
    pub repetition_penalty: Option<f64>,
    pub presence_penalty: Option<f64>,
    pub frequency_penalty: Option<f64>,
    pub random_seed: Option<RandomSeed>,
    /// Tokens before which the end token does not count.
    pub min_length: Option<i32>,
    /// Above 1 only without streaming.
    pub beam_width: Option<u32>,
    /// Answers to each prompt; tokens of all count. Above 1 needs a decoupled model.
    pub num_return_sequences: Option<u32>,
    /// Beam search: exponential penalty on the length.
    pub length_penalty: Option<f64>,
    /// Beam search: stop when the beams are finished.
    pub early_stopping: Option<bool>,
    /// The answer ends with the first of these.
    pub stop_words: Option<WordList>,
    /// The answer has none of these.
    pub bad_words: Option<WordList>,
    /// In place of `bench.end_id`; -1 lets every answer run to its full length.
    pub end_id: Option<i32>,
    /// The padding token; by default the end token.
    pub pad_id: Option<i32>,
    /// LoRA adapters with weights: `{ sql: 3, chat: 1 }`. Each request names one as its model, drawn with the seed; a
    /// record's `model` overrides it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub adapters: BTreeMap<String, f64>,
    /// Adapters, taken in turn.
    pub lora_task_id: Vec<u64>,
    /// Requests `cum_log_probs` and `output_log_probs`.
    pub return_log_probs: bool,
    /// Requests `context_logits`: prompt tokens × vocabulary numbers for each request.
    pub return_context_logits: bool,
    /// Requests `generation_logits`.
    pub return_generation_logits: bool,
    /// Requests the server's time stamps and KV cache blocks.
    pub return_perf_metrics: bool,
    /// Without streaming: leave the prompt out of the answer. [default: true where the model can]
    pub exclude_input_in_output: Option<bool>,
    /// Over openai-chat: the field with the length of the answer.
    pub length_field: Option<LengthField>,
    /// Headers of every request, over gRPC metadata: `{ api-key: "${AZURE_KEY}" }`. `${VARIABLE}` is read when requests
    /// are sent, and never shown or stored. `authorization` replaces `api_key_env`.
    #[serde(skip_serializing_if = "RequestHeaders::is_empty")]
    pub headers: RequestHeaders,
    /// Prompts in one message; each is measured as a request. Above 1 needs a decoupled model.
    pub batch: Option<u32>,
    pub cancel: Option<CancelPolicy>,
    /// A request that takes longer than this fails with the class `deadline`: `5s`. [default: see `stall_timeout`]
    pub deadline: Option<TimeSpan>,
    /// Largest answers, bytes. Beyond a limit the request fails with the class `too_large`.
    pub response_limits: Option<ResponseSizeLimits>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Interface {
    /// `input_ids` in, `output_ids` out: `tensorrt_llm`.
    TokenIds,
    /// `text_input` in, `text_output` out: `ensemble`, `tensorrt_llm_bls` and other text models.
    Text,
}

crate::named! {
    /// The names that chat servers know the length of an answer by.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
    pub enum LengthField {
        MaxTokens = "max_tokens",
        MaxCompletionTokens = "max_completion_tokens",
    }
}

/// Words as token ids or as texts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(deny_unknown_fields)]
pub enum WordList {
    /// Each entry a list of token ids.
    Ids(Vec<Vec<i32>>),
    /// For text models.
    Texts(Vec<String>),
}

/// Cancel some requests before they finish. They count as cancelled, neither ok nor failed. Needs streaming.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct CancelPolicy {
    /// After this many tokens.
    #[schemars(range(min = 1, max = LONGEST_LENGTH))]
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
    /// A second request with the same id and `stop` = true; the first one is read to its end.
    Stop,
}

impl Request {
    /// Requests in one message.
    pub fn batch(&self) -> usize {
        self.batch.unwrap_or(1).max(1) as usize
    }

    /// Answers to each prompt.
    pub fn sequences(&self) -> u32 {
        self.num_return_sequences.unwrap_or(1).max(1)
    }

    /// Whether each request has a seed of its own.
    pub fn has_drawn_seeds(&self) -> bool {
        self.random_seed == Some(RandomSeed::PerRequest(true))
    }

    /// What is wrong without asking a server: each in a sentence that names its key.
    pub fn faults(&self, vocab_size: u32) -> Vec<String> {
        let mut faults: Vec<String> = self.range_faults().map(|fault| format!("request.{fault}")).collect();
        let mut demand = |holds: bool, text: &str| {
            if !holds {
                faults.push(format!("request.{text}"));
            }
        };
        demand(self.deadline.as_ref().is_none_or(|deadline| !deadline.time().is_zero()), "deadline must be above 0");
        if let Some(key) = self.response_limits.and_then(|limits| limits.zero()) {
            demand(false, &format!("response_limits.{key} must be at least 1 byte"));
        }
        for (key, fault) in self.headers.faults() {
            demand(false, &format!("{key} {fault}"));
        }
        let are_weights =
            self.adapters.iter().all(|(name, weight)| !name.is_empty() && *weight > 0.0 && weight.is_finite());
        demand(are_weights, "adapters must have names with weights above 0");
        let beams = self.beam_width.unwrap_or(1);
        demand(
            beams <= 1 || self.streaming != Some(true),
            "beam_width above 1 cannot stream: every response would hold all tokens so far, so they cannot be counted \
             as they come; set `streaming: false`",
        );
        demand(
            self.sequences() == 1 || beams <= 1,
            "num_return_sequences above 1 and beam_width above 1 exclude each other: the beams are the sequences",
        );
        demand(
            self.sequences() == 1 || self.exclude_input_in_output != Some(false),
            "num_return_sequences above 1 with the prompt in every answer cannot be counted: leave \
             `exclude_input_in_output: false` out",
        );
        for (key, words) in [("stop_words", &self.stop_words), ("bad_words", &self.bad_words)] {
            let Some(words) = words else { continue };
            let (are_full, are_known) = match words {
                WordList::Ids(words) => (
                    !words.is_empty() && words.iter().all(|word| !word.is_empty()),
                    words.iter().flatten().all(|id| u32::try_from(*id).is_ok_and(|id| id < vocab_size)),
                ),
                WordList::Texts(words) => (!words.is_empty() && words.iter().all(|word| !word.is_empty()), true),
            };
            demand(are_full, &format!("{key} has an empty entry or none"));
            demand(are_known, &format!("{key} has a token id outside of 0..{vocab_size} (`vocab_size`)"));
            let is_text = matches!(words, WordList::Texts(_));
            if let Some(interface) = self.interface {
                let fits = is_text == (interface == Interface::Text);
                demand(fits, &format!("{key} must be `ids` for token ids and `texts` for text models"));
            }
        }
        if let Some(cancel) = self.cancel {
            demand(cancel.after_tokens > 0, "cancel.after_tokens must be at least 1");
            demand((0.0..=1.0).contains(&cancel.share), "cancel.share must be from 0 to 1");
            demand(
                self.streaming != Some(false),
                "cancel counts tokens as they come, so it needs streaming: remove `streaming: false`",
            );
            demand(
                cancel.by == CancelBy::Rpc || self.interface != Some(Interface::Text),
                "cancel.by `stop` is a tensor of the token-id interface; text models can be cancelled by `rpc`",
            );
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_errors_are_reported_at_once() {
        let request = Request {
            temperature: Some(-1.0),
            top_p: Some(1.5),
            beam_width: Some(2),
            streaming: Some(true),
            stop_words: Some(WordList::Ids(vec![vec![5, 500], vec![]])),
            batch: Some(0),
            cancel: Some(CancelPolicy { after_tokens: 0, share: 2.0, by: CancelBy::Rpc }),
            ..Request::default()
        };
        let keys: Vec<String> =
            request.faults(100).iter().map(|fault| fault.split(' ').next().unwrap().to_owned()).collect();
        assert_eq!(
            keys,
            [
                "temperature",
                "top_p",
                "batch",
                "beam_width",
                "stop_words",
                "stop_words",
                "cancel.after_tokens",
                "cancel.share"
            ]
            .map(|key| format!("request.{key}"))
        );
        assert!(Request::default().faults(100).is_empty());
    }
}
