//! From the data sheet of a GPU and the shape of a model to the cost of a step.

use super::{Coefficients, DecoderModel, Drafter, Drafting, GpuMemory, GpuTiming, Precision};
use base::spec::SimCalibration;

/// The GPUs that share one engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parallelism {
    pub tensor: u32,
    pub pipeline: u32,
}

/// Room that activations and the runtime take on each GPU, bytes.
const WORKSPACE: f64 = 5e9;

/// A model, how it is stored, the GPUs that compute it, and what the software reaches of their numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelOnGpus<'a> {
    pub model: &'a DecoderModel,
    pub gpu: &'a GpuTiming,
    /// Of the weights.
    pub precision: Precision,
    /// Of the KV cache.
    pub kv: Precision,
    pub parallelism: Parallelism,
    pub calibration: &'a SimCalibration,
}

/// The cost of a model on tp × pp GPUs.
///
/// A linear layer's time is that of its arithmetic and of the activations around it, which go through memory. Pipeline stages work on different parts of the batch at the
/// same time: each token passes all of them, so the weights of all stages are read for it one after the other, while compute
/// and KV cache are shared out.
pub fn derive(of: &ModelOnGpus<'_>) -> (Coefficients, GpuMemory) {
    let ModelOnGpus { model, gpu, precision, kv, parallelism, calibration } = *of;
    let (tp, stages) = (f64::from(parallelism.tensor.max(1)), f64::from(parallelism.pipeline.max(1)));
    // What stages share out takes longer by the time in which they wait for each other.
    let pp = if stages > 1.0 { stages * calibration.pipeline } else { stages };
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
    // Without a number, links of an eighth of the memory bandwidth.
    let link = calibration.link * gpu.link_gbs.map_or(bandwidth / 8.0, |link| link * 1e9);
    let read = |bytes: f64| bytes / tp / (calibration.weights_bandwidth * bandwidth);
    let coefficients = Coefficients {
        overhead: calibration.step_ms * 1e-3
            + if is_split { 2.0 * layers * calibration.all_reduce_us * 1e-6 } else { 0.0 },
        launch: layers * calibration.layer_us * 1e-6,
        graph_tokens: calibration.cuda_graph_tokens,
        weights: read(weight_bytes - expert_bytes),
        expert_weights: read(expert_bytes),
        expert_share,
        overlap: calibration.overlap,
        token: linear_flops(model, calibration) / tp / pp / linear
            + activation_bytes(model, tp) / pp / (calibration.weights_bandwidth * bandwidth),
        pair: 4.0 * hidden * layers / tp / pp / attention,
        request: calibration.request_us * 1e-6,
        kv_token: kv_layer * layers / pp / (calibration.kv_bandwidth * bandwidth),
        context: calibration.context_ms * 1e-3,
        prompt: calibration.prompt_us * 1e-6,
        // Two ring all-reduces of 16-bit activations in each layer.
        all_reduce: if is_split { 2.0 * layers * hidden * 2.0 * 2.0 * (tp - 1.0) / tp / link / pp } else { 0.0 },
        frontend: calibration.frontend_ms * 1e-3,
    };
    let memory = GpuMemory {
        gpu_bytes: gpu.memory_gb * 1e9,
        weight_bytes: weight_bytes / tp / stages,
        workspace_bytes: WORKSPACE,
        kv_bytes_per_token: kv_layer * layers / stages,
    };
    (coefficients, memory)
}

/// A pass of the drafter of speculative decoding, and the memory of its weights and its KV cache; it is split over the GPUs as the
/// model is. What the host does for each request and prompt is the model's part. `None`: it has no weights.
pub(crate) fn derive_drafter(drafting: &Drafting, of: &ModelOnGpus<'_>) -> Option<(Coefficients, GpuMemory)> {
    let (pass, memory) = derive(&ModelOnGpus { model: &drafting.model(of.model)?, ..*of });
    let launched = matches!(drafting.drafter, Drafter::Model(_));
    let overhead = if launched { pass.overhead } else { pass.overhead - of.calibration.step_ms * 1e-3 };
    let pass = Coefficients { overhead, request: 0.0, context: 0.0, prompt: 0.0, frontend: 0.0, ..pass };
    Some((pass, memory))
}

/// Arithmetic of a token's linear layers. Layers of experts reach less than the others: each has a part of the tokens.
fn linear_flops(model: &DecoderModel, calibration: &SimCalibration) -> f64 {
    let all = model.active_parameters as f64;
    let (each, experts) = expert_parameters(model);
    let in_experts = each * f64::from(experts.map_or(0, |experts| experts.of_a_token));
    2.0 * (all - in_experts + in_experts / calibration.experts)
}

/// What a token's activations of 16 bits read and write between the linear layers, bytes: norms and residuals of the whole width, and
/// the inputs and outputs of attention and of the feed-forward network, which tensor parallelism splits.
fn activation_bytes(model: &DecoderModel, tp: f64) -> f64 {
    let (hidden, intermediate) = (f64::from(model.hidden_size), f64::from(model.intermediate_size));
    let of_a_token = f64::from(model.experts.map_or(1, |experts| experts.of_a_token));
    let layer = 6.0 * hidden + (4.0 * hidden + 4.0 * intermediate * of_a_token) / tp;
    2.0 * f64::from(model.num_hidden_layers) * layer
}

/// Parameters of one expert of all layers, and the experts where a token does not touch all.
fn expert_parameters(model: &DecoderModel) -> (f64, Option<super::Experts>) {
    let Some(experts) = model.experts.filter(|experts| experts.total > experts.of_a_token) else { return (0.0, None) };
    // All parameters are the shared ones and `total` experts; a token touches the shared ones and some experts.
    let rest = model.parameters.saturating_sub(model.active_parameters) as f64;
    (rest / f64::from(experts.total - experts.of_a_token), Some(experts))
}

/// Bytes of all experts, and the share of them that one token touches.
fn experts(model: &DecoderModel, precision: Precision) -> (f64, f64) {
    let (each, Some(experts)) = expert_parameters(model) else { return (0.0, 0.0) };
    let share = f64::from(experts.of_a_token) / f64::from(experts.total);
    (each * f64::from(experts.total) * precision.bytes(), share)
}
