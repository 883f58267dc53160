//! How far real software reaches the data sheet's numbers of a GPU: the few coefficients of the simulator's step time;
//! and the models that it simulates.

use schemars::{JsonSchema, schema_for};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::prompts::LONGEST_LENGTH;
use super::schema_format::{LARGEST_SHAPE, MOST_PARAMETERS};
use crate::diag::ErrorText;

/// Whose scheduler and KV cache rules a simulated engine follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SimScheduler {
    /// Policy from the model repository; the KV cache takes a share of the memory that weights leave.
    #[default]
    TensorrtLlm,
    /// Running requests first, chunked prompts, preemption by recomputing; weights and KV cache share a part of the
    /// memory.
    Vllm,
}

/// The coefficients of the simulator's step time: one set for each kind of GPU and software, the same for every model.
/// Fitted with `regatta sim calibrate`, or the defaults, which are assumed.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SimCalibration {
    /// What it was fitted to; empty: assumed values.
    pub source: String,
    /// The GPU of the same generation that it was fitted to, if not this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carried_from: Option<String>,
    /// Parameters of the model whose step log it was fitted to: of others the band is wider.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MOST_PARAMETERS))]
    pub parameters: Option<u64>,
    /// The scheduler and KV cache rules to simulate.
    pub scheduler: SimScheduler,
    /// Share of the memory bandwidth for reading weights.
    #[schemars(range(min = 0.01, max = 1.5))]
    pub weights_bandwidth: f64,
    /// Share of the memory bandwidth for reading the KV cache.
    #[schemars(range(min = 0.01, max = 1.5))]
    pub kv_bandwidth: f64,
    /// Share of the peak for linear layers at 16 and 8 bits.
    #[schemars(range(min = 0.01, max = 1.5))]
    pub compute: f64,
    /// Share of the peak for linear layers at 4 bits. [default: 0.6, assumed]
    #[schemars(range(min = 0.01, max = 1.5))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute_fp4: Option<f64>,
    /// Share of the peak for attention over prompts.
    #[schemars(range(min = 0.01, max = 1.5))]
    pub attention: f64,
    /// Share of `compute` that the experts of a mixture reach. [default: 1, assumed]
    #[schemars(range(min = 0.01, max = 1.5))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub experts: Option<f64>,
    /// Share of the links' bandwidth for all-reduces.
    #[schemars(range(min = 0.01, max = 1.5))]
    pub link: f64,
    /// Share of the time in which pipeline stages work.
    #[schemars(range(min = 0.01, max = 1))]
    pub pipeline: f64,
    /// How much of the linear layers' work overlaps with reading weights: 0 none, 1 all.
    #[schemars(range(min = 0, max = 1))]
    pub overlap: f64,
    /// Each step, ms.
    #[schemars(range(min = 0))]
    pub step_ms: f64,
    /// Each layer in a step without a CUDA graph, µs: kernel launches.
    #[schemars(range(min = 0))]
    pub layer_us: f64,
    /// Largest step with a CUDA graph, tokens.
    #[schemars(range(max = LONGEST_LENGTH))]
    pub cuda_graph_tokens: u64,
    /// Each step with a prompt, ms.
    #[schemars(range(min = 0))]
    pub context_ms: f64,
    /// Each generating request in a step, µs.
    #[schemars(range(min = 0))]
    pub request_us: f64,
    /// Each prompt in a step, µs: work of the host.
    #[schemars(range(min = 0))]
    pub prompt_us: f64,
    /// Each all-reduce of tensor parallelism, µs; two in a layer.
    #[schemars(range(min = 0))]
    pub all_reduce_us: f64,
    /// From a request's arrival to the scheduler, ms.
    #[schemars(range(min = 0))]
    pub frontend_ms: f64,
    /// Time of the HTTP server for each request, µs: requests reach the scheduler at least this far apart. Virtual time
    /// only. [default: 0]
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admission_us: Option<f64>,
    /// Each chunk of a streamed answer, µs, in the HTTP server. Virtual time only. [default: nothing]
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk_us: Option<f64>,
    /// The host's time for kernel launches, prompts and the HTTP server (`layer_us`, `prompt_us`, `frontend_ms`,
    /// `admission_us`, `chunk_us`), as a multiple of that of the host of the fit: 0.5 is twice as fast. [default: 1]
    #[schemars(range(min = 0.01, max = 100))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<f64>,
}

impl SimCalibration {
    /// Each setting that has a value, with what it means; not where the values are from.
    pub fn settings(&self) -> Vec<(String, Value, String)> {
        let (values, schema) = (json!(self), schema_for!(Self));
        let values = values.as_object().into_iter().flatten();
        let settings = values.filter(|(name, _)| !["source", "carried_from"].contains(&name.as_str()));
        let meaning = |name: &str| Some(schema.get("properties")?.get(name)?.get("description")?.as_str()?.to_owned());
        settings.map(|(name, value)| (name.clone(), value.clone(), meaning(name).unwrap_or_default())).collect()
    }
}

impl Default for SimCalibration {
    fn default() -> Self {
        Self {
            source: String::new(),
            carried_from: None,
            parameters: None,
            scheduler: SimScheduler::TensorrtLlm,
            weights_bandwidth: 0.8,
            kv_bandwidth: 0.8,
            compute: 0.6,
            compute_fp4: None,
            attention: 0.4,
            experts: None,
            link: 1.0,
            pipeline: 1.0,
            overlap: 1.0,
            step_ms: 1.0,
            layer_us: 0.0,
            cuda_graph_tokens: 0,
            context_ms: 0.0,
            request_us: 4.0,
            prompt_us: 0.0,
            all_reduce_us: 5.0,
            frontend_ms: 0.0,
            admission_us: None,
            chunk_us: None,
            host: None,
        }
    }
}

/// The numbers that decide memory and speed of a decoder model.
#[crate::omit_empty]
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelShape {
    /// `llama2-70b`
    pub name: String,
    /// As in `config.json`: `LlamaForCausalLM`.
    pub architecture: String,
    /// The number of parameters, e.g. 68976648192.
    #[schemars(range(max = MOST_PARAMETERS))]
    pub parameters: u64,
    /// Mixture of experts: parameters that one token uses.
    #[schemars(range(max = MOST_PARAMETERS))]
    pub active_parameters: Option<u64>,
    /// Mixture of experts: experts of each layer. The simulator reads only the weights that a batch uses.
    #[schemars(range(max = LARGEST_SHAPE))]
    pub num_experts: Option<u32>,
    /// Mixture of experts: experts that one token uses.
    #[schemars(range(max = LARGEST_SHAPE))]
    pub experts_per_token: Option<u32>,
    #[schemars(range(max = LARGEST_SHAPE))]
    pub num_hidden_layers: u32,
    #[schemars(range(max = LARGEST_SHAPE))]
    pub hidden_size: u32,
    #[schemars(range(max = LARGEST_SHAPE))]
    pub intermediate_size: u32,
    #[schemars(range(max = LARGEST_SHAPE))]
    pub num_attention_heads: u32,
    #[schemars(range(max = LARGEST_SHAPE))]
    pub num_key_value_heads: u32,
    /// [default: `hidden_size` / `num_attention_heads`]
    #[schemars(range(max = LARGEST_SHAPE))]
    pub head_dim: Option<u32>,
    #[schemars(range(max = LARGEST_SHAPE))]
    pub vocab_size: u32,
    #[schemars(range(max = LONGEST_LENGTH))]
    pub max_position_embeddings: u32,
}

impl ModelShape {
    /// Parameters that one token touches.
    pub fn active(&self) -> u64 {
        self.active_parameters.unwrap_or(self.parameters)
    }

    /// Experts of each layer, and those of one token: of a mixture of experts.
    pub fn experts(&self) -> Option<(u32, u32)> {
        self.num_experts.zip(self.experts_per_token)
    }

    /// Numbers of an attention head.
    pub fn head(&self) -> f64 {
        let shared_out = f64::from(self.hidden_size) / f64::from(self.num_attention_heads.max(1));
        self.head_dim.map_or(shared_out, f64::from)
    }
}

// LoRA adapters of a simulated engine.

/// LoRA adapters of a simulated engine, by the names that TensorRT-LLM and vLLM share. All adapters have the rank, on
/// all linear layers (of a mixture of experts: those of attention).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoraConfig {
    /// The rank of the adapters.
    #[schemars(range(min = 1, max = 1024))]
    pub max_lora_rank: u32,
    /// Adapters in a step and in GPU memory; requests for others wait.
    #[schemars(range(min = 1, max = 1024))]
    pub max_loras: u32,
    /// From host memory to each GPU, GB/s. [PCIe 5 of 16 lanes]
    #[serde(default = "host_link")]
    #[schemars(range(min = 0.1, max = 1000))]
    pub host_link_gbs: f64,
}

const fn host_link() -> f64 {
    50.0
}

// How many drafted tokens a model accepts in speculative decoding.

/// The share of drafted tokens that the model accepts.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum AcceptanceRate {
    /// The probability that a draft is accepted where all before it are, the same at every position.
    Same(#[schemars(range(min = 0, max = 1))] f64),
    /// The share of all steps in which the draft at each position is accepted, as servers count it
    /// (`vllm:spec_decode_num_accepted_tokens_per_pos` ÷ `vllm:spec_decode_num_drafts`).
    PerPosition(Vec<f64>),
}

impl AcceptanceRate {
    /// The probability at each of this many positions that the draft is accepted where all before it are.
    pub fn given_those_before(&self, drafts: u32) -> Result<Vec<f64>, ErrorText> {
        let outside = |rate| ErrorText::new(format_args!("{rate} is not between 0 and 1"));
        let within = |rate: f64| (0.0..=1.0).contains(&rate).then_some(rate).ok_or_else(|| outside(rate));
        match self {
            Self::Same(rate) => Ok(vec![within(*rate)?; drafts as usize]),
            Self::PerPosition(rates) => {
                if rates.len() != drafts as usize {
                    let positions = rates.len();
                    let text = format!("it has {positions} positions, and {drafts} tokens are drafted");
                    return Err(ErrorText::new(text));
                }
                let mut before = 1.0;
                let mut conditional = Vec::with_capacity(rates.len());
                for (at, &rate) in rates.iter().enumerate() {
                    let rate = within(rate)?;
                    if rate > before {
                        return Err(ErrorText::new(format_args!(
                            "position {} has {rate}, more than the position before it: a draft is only accepted \
                             where all before it are",
                            at + 1
                        )));
                    }
                    conditional.push(if before > 0.0 { rate / before } else { 0.0 });
                    before = rate;
                }
                Ok(conditional)
            }
        }
    }
}

/// What drafts the tokens.
#[derive(Clone, Debug, PartialEq)]
pub enum Drafter {
    /// A look-up in the text so far, on the host: no GPU time.
    NGram,
    /// One layer more of the model itself, with its output layer (Eagle, MTP). It is a part of the model's step:
    /// nothing is launched for it.
    Layer,
    /// A model of its own, whose passes are launched one by one.
    Model(Box<ModelShape>),
}

/// Speculative decoding as it is set.
#[derive(Clone, Debug, PartialEq)]
pub struct Drafting {
    pub drafter: Drafter,
    /// Tokens drafted for each request in each step.
    pub draft_len: u32,
    pub acceptance: AcceptanceRate,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_by_position_become_those_after_an_accepted_draft() {
        let read: AcceptanceRate = serde_json::from_str("[0.8, 0.4, 0.4]").unwrap();
        assert_eq!(read.given_those_before(3), Ok(vec![0.8, 0.5, 1.0]));
        let same: AcceptanceRate = serde_json::from_str("0.7").unwrap();
        assert_eq!(same.given_those_before(2), Ok(vec![0.7, 0.7]));
        let error = |rate: &AcceptanceRate, drafts| rate.given_those_before(drafts).unwrap_err().message;
        assert_eq!(error(&read, 2), "it has 3 positions, and 2 tokens are drafted");
        let rising = AcceptanceRate::PerPosition(vec![0.5, 0.6]);
        assert!(error(&rising, 2).starts_with("position 2 has 0.6, more than"));
        assert_eq!(error(&AcceptanceRate::Same(1.2), 1), "1.2 is not between 0 and 1");
        assert_eq!(AcceptanceRate::PerPosition(vec![0.0, 0.0]).given_those_before(2), Ok(vec![0.0, 0.0]));
    }
}
