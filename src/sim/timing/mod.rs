//! How long a step takes and how much KV cache there is, from the shapes of a model and of a GPU and from the share of the
//! data sheet's numbers that the software reaches ([`base::spec::SimCalibration`]).
//!
//! A model, never a measurement: every report that rests on it must state so. Without a fitted calibration the shares are
//! assumed.

mod coefficients;
mod derive;
mod lora;
mod memory;
mod speculation;

use serde::{Deserialize, Serialize};

pub use coefficients::Coefficients;
pub(crate) use coefficients::StepWork;
pub(crate) use derive::derive_drafter;
pub use derive::{ModelOnGpus, Parallelism, derive};
pub use lora::{LoraCost, LoraSettings};
pub use memory::GpuMemory;
pub use speculation::{Drafter, Drafting, Speculation};

/// The numbers of a decoder model that decide its memory and its speed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DecoderModel {
    pub name: String,
    /// As in `config.json`: `LlamaForCausalLM`.
    pub architecture: String,
    pub parameters: u64,
    /// Parameters that one token touches.
    pub active_parameters: u64,
    /// Experts of each layer, and those of one token: a mixture of experts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experts: Option<Experts>,
    pub num_hidden_layers: u32,
    pub hidden_size: u32,
    pub intermediate_size: u32,
    pub num_attention_heads: u32,
    pub num_key_value_heads: u32,
    pub vocab_size: u32,
    pub max_position_embeddings: u32,
}

/// The experts of a mixture of experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Experts {
    pub total: u32,
    pub of_a_token: u32,
}

/// The numbers of one GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GpuTiming {
    pub name: String,
    /// GB (10^9 bytes).
    pub memory_gb: f64,
    /// GB/s.
    pub bandwidth_gbs: f64,
    /// To the other GPUs of a machine, GB/s in one direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_gbs: Option<f64>,
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

    /// Bytes of one value.
    pub const fn bytes(self) -> f64 {
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use base::spec::{SimCalibration, SimScheduler};

    fn on(model: &DecoderModel, precision: Precision, tensor: u32) -> (Coefficients, GpuMemory) {
        let parallelism = Parallelism { tensor, pipeline: 1 };
        let (gpu, calibration) = (&h200(), &SimCalibration::default());
        derive(&ModelOnGpus { model, gpu, precision, kv: precision, parallelism, calibration })
    }

    pub(crate) fn llama_8b() -> DecoderModel {
        DecoderModel {
            name: "llama3.1-8b".into(),
            architecture: "LlamaForCausalLM".into(),
            parameters: 8_030_261_248,
            active_parameters: 8_030_261_248,
            experts: None,
            num_hidden_layers: 32,
            hidden_size: 4096,
            intermediate_size: 14336,
            num_attention_heads: 32,
            num_key_value_heads: 8,
            vocab_size: 128_256,
            max_position_embeddings: 131_072,
        }
    }

    pub(crate) fn h200() -> GpuTiming {
        GpuTiming { name: "H200".into(), memory_gb: 141.0, bandwidth_gbs: 4800.0, link_gbs: None, tflops_16bit: 989.0 }
    }

    fn close(value: f64, expected: f64) {
        assert!((value / expected - 1.0).abs() < 0.01, "{value} is not about {expected}");
    }

    #[test]
    fn the_8b_model_on_one_h200_costs_what_the_table_says() {
        let (c, memory) = on(&llama_8b(), Precision::Bf16, 1);
        close(c.weights, 4.18e-3);
        // 27.1 of arithmetic and 1.6 of activations.
        close(c.token, 28.7e-6);
        close(c.pair, 1.33e-9);
        close(c.kv_token, 34.1e-9);
        close(memory.blocks(SimScheduler::Vllm, 0.9, 32) as f64, 25_234.0);
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
        let (c, memory) = on(&model, Precision::Fp8, 1);
        close(c.weights, 18.4e-3);
        // 119 of arithmetic and 5.8 of activations.
        close(c.token, 124.8e-6);
        close(c.pair, 3.31e-9);
        close(c.kv_token, 42.7e-9);
        close(memory.blocks(SimScheduler::Vllm, 0.9, 32) as f64, 9784.0);
    }

    #[test]
    fn more_gpus_are_faster_and_hold_more() {
        let one = on(&llama_8b(), Precision::Bf16, 1);
        let two = on(&llama_8b(), Precision::Bf16, 2);
        assert!(two.0.weights < one.0.weights && two.0.all_reduce > 0.0);
        assert!(two.1.blocks(SimScheduler::Vllm, 0.9, 32) > one.1.blocks(SimScheduler::Vllm, 0.9, 32));
    }
}
