//! `engine.speculative_config` — speculative decoding of a simulated engine.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::triton::ModelShape;
use base::spec::AcceptanceRate;

/// Speculative decoding of a simulated engine, by the names of TensorRT-LLM (`decoding_type`, `max_draft_len`) or of vLLM (`method`, `num_speculative_tokens`). No draft (0) is none.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SpeculativeConfig {
    /// What drafts, by TensorRT-LLM's names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decoding_type: Option<DecodingType>,
    /// Tokens drafted for each request in each step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 64))]
    pub max_draft_len: Option<u32>,
    /// What drafts, by vLLM's names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<SpeculativeMethod>,
    /// Tokens drafted for each request in each step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 64))]
    pub num_speculative_tokens: Option<u32>,
    /// The share of drafts that the model accepts, which depends on model, drafter and texts: measure it. One number is the probability that a draft is accepted where those before it are; a list has the share of all steps in which each position is accepted, as servers count it.
    pub acceptance_rate: AcceptanceRate,
    /// The shape of the drafting model, for `Draft_Target` and `draft_model`. It has the precision and the GPUs of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft_model: Option<ModelShape>,
}

/// TensorRT-LLM's `decoding_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum DecodingType {
    /// A layer on the states of the model.
    Eagle,
    /// A layer on the states of the model.
    Eagle3,
    /// The layers for further tokens that a model was trained with.
    #[serde(rename = "MTP")]
    Mtp,
    /// What followed the same words before. It takes no time of the GPU.
    NGram,
    /// A smaller model.
    #[serde(rename = "Draft_Target")]
    DraftTarget,
}

/// `method` of vLLM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpeculativeMethod {
    /// A layer on the states of the model.
    Eagle,
    /// A layer on the states of the model.
    Eagle3,
    /// The layers for further tokens that a model was trained with.
    Mtp,
    /// What followed the same words before. It takes no time of the GPU.
    Ngram,
    /// A smaller model.
    DraftModel,
}

/// What drafts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DraftSource<'a> {
    NGram,
    Layer,
    Model(&'a ModelShape),
}

/// What is wrong with a `speculative_config`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpeculativeConfigError {
    #[error("it needs `decoding_type` and `max_draft_len`, or `method` and `num_speculative_tokens`")]
    Names,
    #[error("a drafting model has a shape: `draft_model`")]
    NoModel,
    #[error("`draft_model` is for `Draft_Target` and `draft_model` only")]
    UnusedModel,
}

impl SpeculativeConfig {
    /// What drafts, and how many tokens.
    pub fn source(&self) -> Result<(DraftSource<'_>, u32), SpeculativeConfigError> {
        use SpeculativeConfigError::{Names, NoModel, UnusedModel};
        let (has_model, is_ngram, drafts) =
            match (self.decoding_type, self.max_draft_len, self.method, self.num_speculative_tokens) {
                (Some(kind), Some(drafts), None, None) => {
                    (kind == DecodingType::DraftTarget, kind == DecodingType::NGram, drafts)
                }
                (None, None, Some(method), Some(drafts)) => {
                    (method == SpeculativeMethod::DraftModel, method == SpeculativeMethod::Ngram, drafts)
                }
                _ => return Err(Names),
            };
        let source = match (&self.draft_model, has_model) {
            (Some(model), true) => DraftSource::Model(model),
            (None, true) => return Err(NoModel),
            (Some(_), false) => return Err(UnusedModel),
            (None, false) if is_ngram => DraftSource::NGram,
            (None, false) => DraftSource::Layer,
        };
        Ok((source, drafts))
    }
}
