//! LoRA: what adapters cost beside the model.

use serde::{Deserialize, Serialize};

use super::{DecoderModel, GpuMemory, ModelOnGpus};

/// LoRA as it is set. Every adapter has this rank, and is on all linear layers of attention and, without experts, of the feed-forward network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoraSettings {
    pub max_lora_rank: u32,
    /// Adapters in GPU memory, and in one step.
    pub max_loras: u32,
    /// From host memory to each GPU, GB/s.
    pub host_link_gbs: f64,
}

/// LoRA as the core runs it. Seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoraCost {
    /// Adapters in GPU memory, and in one step.
    pub slots: u32,
    /// Reading one adapter, for each that a step uses.
    pub read: f64,
    /// For each token that has an adapter.
    pub token: f64,
    /// Copying one adapter to the GPU, where it is not there.
    pub load: f64,
}

/// Adapters are of 16 bits.
const BYTES: f64 = 2.0;

impl LoraSettings {
    /// The cost of adapters, and the memory that `max_loras` of them take on each GPU, bytes.
    pub(crate) fn cost(&self, of: &ModelOnGpus<'_>) -> (LoraCost, f64) {
        let ModelOnGpus { model, gpu, parallelism, calibration, .. } = *of;
        let (tp, pp) = (f64::from(parallelism.tensor.max(1)), f64::from(parallelism.pipeline.max(1)));
        let parameters = self.parameters(model);
        let peak = calibration.compute * gpu.tflops_16bit * 1e12;
        let cost = LoraCost {
            slots: self.max_loras,
            read: BYTES * parameters / tp / (calibration.weights_bandwidth * gpu.bandwidth_gbs * 1e9),
            token: 2.0 * parameters / tp / (pp * calibration.pipeline) / peak,
            load: BYTES * parameters / tp / pp / (self.host_link_gbs * 1e9),
        };
        (cost, f64::from(self.max_loras) * BYTES * parameters / tp / pp)
    }

    /// Of one adapter: two matrices of the rank for each linear layer.
    fn parameters(&self, model: &DecoderModel) -> f64 {
        let hidden = f64::from(model.hidden_size);
        let kv = hidden / f64::from(model.num_attention_heads.max(1)) * f64::from(model.num_key_value_heads);
        let attention = 4.0 * hidden + 2.0 * (hidden + kv);
        let network = if model.experts.is_some() { 0.0 } else { 3.0 * (hidden + f64::from(model.intermediate_size)) };
        f64::from(self.max_lora_rank) * f64::from(model.num_hidden_layers) * (attention + network)
    }
}

impl LoraCost {
    /// What adapters add to a step, nanoseconds: different ones, and tokens that have one.
    pub(crate) fn step_ns(&self, adapters: usize, tokens: u64) -> u64 {
        (1e9 * (self.read * adapters as f64 + self.token * tokens as f64)) as u64
    }

    /// Copying this many adapters, nanoseconds.
    pub(crate) fn load_ns(&self, adapters: usize) -> u64 {
        (1e9 * self.load * adapters as f64) as u64
    }
}

impl GpuMemory {
    /// Adapters take memory that the KV cache would have.
    pub(crate) fn hold_adapters(&mut self, bytes: f64) {
        self.workspace_bytes += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timing::tests::{h200, llama_8b};
    use crate::timing::{Parallelism, Precision};
    use base::spec::SimCalibration;

    #[test]
    fn an_adapter_of_rank_16_of_the_8b_model_has_42_million_parameters() {
        let settings = LoraSettings { max_lora_rank: 16, max_loras: 4, host_link_gbs: 50.0 };
        // As PEFT counts them, with all linear layers.
        assert_eq!(settings.parameters(&llama_8b()) as u64, 41_943_040);
        let (cost, bytes) = settings.cost(&ModelOnGpus {
            model: &llama_8b(),
            gpu: &h200(),
            precision: Precision::Bf16,
            kv: Precision::Bf16,
            parallelism: Parallelism { tensor: 1, pipeline: 1 },
            calibration: &SimCalibration::default(),
        });
        assert_eq!(bytes as u64, 4 * 2 * 41_943_040);
        assert!((cost.read - 21.8e-6).abs() < 1e-7 && (cost.load - 1.68e-3).abs() < 1e-5, "{cost:?}");
    }
}
