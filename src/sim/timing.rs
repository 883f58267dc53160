//! How long a step takes and how much KV cache there is, from the shapes of a model and of a GPU.
//!
//! **Derived from data sheets, never measured**: a plausible model of the hardware, not a statement about it. Every
//! report that rests on it must state so. Assumed: 80 % of the memory bandwidth; 60 % of the dense peak for linear layers
//! and 40 % for attention; all-reduce over links of an eighth of the memory bandwidth, 5 µs each. Pipeline stages work
//! one after the other, so they add memory and no speed.

use serde::{Deserialize, Serialize};

/// The numbers of a decoder model that decide its memory and its speed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DecoderModel {
    pub name: String,
    /// As in `config.json`: `LlamaForCausalLM`.
    pub architecture: String,
    pub parameters: u64,
    /// Parameters that one token touches.
    pub active_parameters: u64,
    pub num_hidden_layers: u32,
    pub hidden_size: u32,
    pub intermediate_size: u32,
    pub num_attention_heads: u32,
    pub num_key_value_heads: u32,
    pub vocab_size: u32,
    pub max_position_embeddings: u32,
}

/// The numbers of one GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GpuTiming {
    pub name: String,
    /// GB (10^9 bytes).
    pub memory_gb: f64,
    /// GB/s.
    pub bandwidth_gbs: f64,
    /// Dense peak at 16 bits, Tflop/s; fp8 counts twice, fp4 four times.
    pub tflops_16bit: f64,
}

/// How a weight is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    Fp16,
    Bf16,
    Fp8,
    Fp4,
}

impl Precision {
    /// Reads `fp16, bf16, fp8, fp4` (`nvfp4` too).
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "fp16" | "float16" => Some(Self::Fp16),
            "bf16" | "bfloat16" => Some(Self::Bf16),
            "fp8" => Some(Self::Fp8),
            "fp4" | "nvfp4" => Some(Self::Fp4),
            _ => None,
        }
    }

    const fn bytes(self) -> f64 {
        match self {
            Self::Fp16 | Self::Bf16 => 2.0,
            Self::Fp8 => 1.0,
            Self::Fp4 => 0.5,
        }
    }

    /// Peak as a multiple of the 16-bit peak.
    const fn rate(self) -> f64 {
        2.0 / self.bytes()
    }
}

/// `step = overhead + max(weights, token·(P+B)) + pair·Σ(chunk·(past + chunk/2)) + request·B + kv_token·ΣKV
/// [+ context if P > 0] + all_reduce·(B+P)`, with P context tokens and B generating requests. Seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Coefficients {
    pub overhead: f64,
    /// Reading all weights once.
    pub weights: f64,
    /// Linear layers, for each token.
    pub token: f64,
    /// Attention, for each pair of a new and an older token.
    pub pair: f64,
    pub request: f64,
    /// Reading the KV cache of one token.
    pub kv_token: f64,
    /// Once for a step that has context.
    pub context: f64,
    /// For each token.
    pub all_reduce: f64,
}

impl Coefficients {
    /// One step, nanoseconds. The order of the additions is part of the golden values.
    pub fn step_ns(&self, context_tokens: u64, pairs: u64, generating: u64, kv_tokens: u64) -> u64 {
        let tokens = (context_tokens + generating) as f64;
        let mut seconds = self.overhead
            + self.weights.max(self.token * tokens)
            + self.pair * pairs as f64
            + self.request * generating as f64
            + self.kv_token * kv_tokens as f64;
        if context_tokens > 0 {
            seconds += self.context;
        }
        seconds += self.all_reduce * tokens;
        (1e9 * seconds) as u64
    }
}

/// The memory of one GPU. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GpuMemory {
    pub gpu_bytes: f64,
    pub weight_bytes: f64,
    /// Activations and the runtime.
    pub workspace_bytes: f64,
    pub kv_bytes_per_token: f64,
}

/// Room that activations and the runtime take on each GPU, bytes.
const WORKSPACE: f64 = 5e9;

impl GpuMemory {
    /// KV blocks when the share `fraction` of the GPU may be used.
    pub fn blocks(&self, fraction: f64, tokens_per_block: u32) -> u64 {
        let free = fraction * self.gpu_bytes - self.weight_bytes - self.workspace_bytes;
        (free / (self.kv_bytes_per_token * f64::from(tokens_per_block))).max(0.0) as u64
    }
}

/// The cost of a model on tp × pp GPUs.
pub fn derive(
    model: &DecoderModel,
    gpu: &GpuTiming,
    precision: Precision,
    kv: Precision,
    tp: u32,
    pp: u32,
) -> (Coefficients, GpuMemory) {
    let (tp, pp) = (f64::from(tp.max(1)), f64::from(pp.max(1)));
    let bandwidth = 0.8 * gpu.bandwidth_gbs * 1e9;
    let linear = 0.6 * gpu.tflops_16bit * 1e12 * precision.rate();
    // Attention runs at 8 bits at most.
    let attention = 0.4 * gpu.tflops_16bit * 1e12 * precision.rate().min(2.0);
    let layers = f64::from(model.num_hidden_layers);
    let hidden = f64::from(model.hidden_size);
    let head = hidden / f64::from(model.num_attention_heads.max(1));
    // More GPUs than KV heads: heads are copied.
    let heads = (f64::from(model.num_key_value_heads) / tp).ceil();
    let kv_layer = 2.0 * heads * head * kv.bytes();
    let weight_bytes = model.parameters as f64 * precision.bytes();
    let is_split = tp > 1.0;
    let link = gpu.bandwidth_gbs * 1e9 / 8.0;
    let coefficients = Coefficients {
        overhead: 1e-3 + if is_split { 2.0 * layers * 5e-6 } else { 0.0 },
        weights: weight_bytes / tp / bandwidth,
        token: 2.0 * model.active_parameters as f64 / tp / linear,
        pair: 4.0 * hidden * layers / tp / attention,
        request: 4e-6,
        kv_token: kv_layer * layers / bandwidth,
        context: 0.0,
        // Two ring all-reduces of 16-bit activations in each layer.
        all_reduce: if is_split { 2.0 * layers * hidden * 2.0 * 2.0 * (tp - 1.0) / tp / link } else { 0.0 },
    };
    let memory = GpuMemory {
        gpu_bytes: gpu.memory_gb * 1e9,
        weight_bytes: weight_bytes / tp / pp,
        workspace_bytes: WORKSPACE,
        kv_bytes_per_token: kv_layer * layers / pp,
    };
    (coefficients, memory)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::sim) fn llama_8b() -> DecoderModel {
        DecoderModel {
            name: "llama3.1-8b".into(),
            architecture: "LlamaForCausalLM".into(),
            parameters: 8_030_261_248,
            active_parameters: 8_030_261_248,
            num_hidden_layers: 32,
            hidden_size: 4096,
            intermediate_size: 14336,
            num_attention_heads: 32,
            num_key_value_heads: 8,
            vocab_size: 128_256,
            max_position_embeddings: 131_072,
        }
    }

    pub(in crate::sim) fn h200() -> GpuTiming {
        GpuTiming { name: "H200".into(), memory_gb: 141.0, bandwidth_gbs: 4800.0, tflops_16bit: 989.0 }
    }

    fn close(value: f64, expected: f64) {
        assert!((value / expected - 1.0).abs() < 0.01, "{value} is not about {expected}");
    }

    #[test]
    fn the_8b_model_on_one_h200_costs_what_the_table_says() {
        let (c, memory) = derive(&llama_8b(), &h200(), Precision::Bf16, Precision::Bf16, 1, 1);
        close(c.weights, 4.18e-3);
        close(c.token, 27.1e-6);
        close(c.pair, 1.33e-9);
        close(c.kv_token, 34.1e-9);
        close(memory.blocks(0.9, 32) as f64, 25_234.0);
    }

    #[test]
    fn the_70b_model_in_fp8_costs_what_the_table_says() {
        let model = DecoderModel {
            parameters: 70_600_000_000,
            active_parameters: 70_600_000_000,
            num_hidden_layers: 80,
            hidden_size: 8192,
            num_attention_heads: 64,
            ..llama_8b()
        };
        let (c, memory) = derive(&model, &h200(), Precision::Fp8, Precision::Fp8, 1, 1);
        close(c.weights, 18.4e-3);
        close(c.token, 119e-6);
        close(c.pair, 3.31e-9);
        close(c.kv_token, 42.7e-9);
        close(memory.blocks(0.9, 32) as f64, 9784.0);
    }

    #[test]
    fn more_gpus_are_faster_and_hold_more() {
        let one = derive(&llama_8b(), &h200(), Precision::Bf16, Precision::Bf16, 1, 1);
        let two = derive(&llama_8b(), &h200(), Precision::Bf16, Precision::Bf16, 2, 1);
        assert!(two.0.weights < one.0.weights && two.0.all_reduce > 0.0);
        assert!(two.1.blocks(0.9, 32) > one.1.blocks(0.9, 32));
    }
}
