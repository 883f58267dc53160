//! From the data sheet of a GPU and the shape of a model to the cost of a step.

use super::{Coefficients, DecoderModel, GpuMemory, GpuTiming, Precision};
use crate::spec::SimCalibration;

/// The GPUs that share one engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parallelism {
    pub tensor: u32,
    pub pipeline: u32,
}

/// Room that activations and the runtime take on each GPU, bytes.
const WORKSPACE: f64 = 5e9;

/// The cost of a model on tp × pp GPUs.
///
/// All-reduces go over links of an eighth of the memory bandwidth. Pipeline stages work on different parts of the batch at the
/// same time: each token passes all of them, so the weights of all stages are read for it one after the other, while compute
/// and KV cache are shared out.
pub fn derive(
    model: &DecoderModel,
    gpu: &GpuTiming,
    precision: Precision,
    kv: Precision,
    parallelism: Parallelism,
    calibration: &SimCalibration,
) -> (Coefficients, GpuMemory) {
    let (tp, pp) = (f64::from(parallelism.tensor.max(1)), f64::from(parallelism.pipeline.max(1)));
    let bandwidth = gpu.bandwidth_gbs * 1e9;
    let peak = gpu.tflops_16bit * 1e12;
    let compute = if precision == Precision::Fp4 { calibration.compute_fp4 } else { calibration.compute };
    let linear = compute * peak * precision.rate();
    // Attention runs at 8 bits at most.
    let attention = calibration.attention * peak * precision.rate().min(2.0);
    let layers = f64::from(model.num_hidden_layers);
    let hidden = f64::from(model.hidden_size);
    let head = hidden / f64::from(model.num_attention_heads.max(1));
    // More GPUs than KV heads: heads are copied.
    let heads = (f64::from(model.num_key_value_heads) / tp).ceil();
    let kv_layer = 2.0 * heads * head * kv.bytes();
    let weight_bytes = model.parameters as f64 * precision.bytes();
    let (expert_bytes, expert_share) = experts(model, precision);
    let is_split = tp > 1.0;
    let link = bandwidth / 8.0;
    let read = |bytes: f64| bytes / tp / (calibration.weights_bandwidth * bandwidth);
    let coefficients = Coefficients {
        overhead: calibration.step_ms * 1e-3
            + if is_split { 2.0 * layers * calibration.all_reduce_us * 1e-6 } else { 0.0 },
        weights: read(weight_bytes - expert_bytes),
        expert_weights: read(expert_bytes),
        expert_share,
        overlap: calibration.overlap,
        token: 2.0 * model.active_parameters as f64 / tp / pp / linear,
        pair: 4.0 * hidden * layers / tp / pp / attention,
        request: calibration.request_us * 1e-6,
        kv_token: kv_layer * layers / pp / (calibration.kv_bandwidth * bandwidth),
        context: calibration.context_ms * 1e-3,
        // Two ring all-reduces of 16-bit activations in each layer.
        all_reduce: if is_split { 2.0 * layers * hidden * 2.0 * 2.0 * (tp - 1.0) / tp / link / pp } else { 0.0 },
        frontend: calibration.frontend_ms * 1e-3,
    };
    let memory = GpuMemory {
        gpu_bytes: gpu.memory_gb * 1e9,
        weight_bytes: weight_bytes / tp / pp,
        workspace_bytes: WORKSPACE,
        kv_bytes_per_token: kv_layer * layers / pp,
    };
    (coefficients, memory)
}

/// Bytes of all experts, and the share of them that one token touches.
fn experts(model: &DecoderModel, precision: Precision) -> (f64, f64) {
    let Some(experts) = model.experts.filter(|experts| experts.total > experts.of_a_token) else { return (0.0, 0.0) };
    // All parameters are the shared ones and `total` experts; a token touches the shared ones and some experts.
    let one =
        model.parameters.saturating_sub(model.active_parameters) as f64 / f64::from(experts.total - experts.of_a_token);
    let share = f64::from(experts.of_a_token) / f64::from(experts.total);
    (one * f64::from(experts.total) * precision.bytes(), share)
}
