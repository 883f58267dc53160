//! Speculative decoding: how many tokens a step makes that verifies drafts, and what it costs.

use serde::{Deserialize, Serialize};

use super::{Coefficients, GpuMemory, GpuTiming, Precision, StepWork};
use crate::random::mix;
use base::diag::ErrorText;
use base::spec::{Drafter, Drafting, ModelShape, SimCalibration};

/// Speculative decoding as the core runs it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speculation {
    /// Tokens drafted for each request in each step, one after the other.
    pub draft_len: u64,
    /// For each of them: the probability that it is accepted where all before it are.
    pub acceptance: Vec<f64>,
    /// A pass of the drafter. `None`: it costs no GPU time.
    pub drafter: Option<Coefficients>,
}

/// So that the draws are not those of the lengths.
const SEED: u64 = 0x6472_6166_7473;

/// With the cost of a drafter's pass.
pub(crate) fn resolve(drafting: &Drafting, drafter: Option<Coefficients>) -> Result<Speculation, ErrorText> {
    let acceptance = drafting.acceptance.given_those_before(drafting.draft_len)?;
    Ok(Speculation { draft_len: u64::from(drafting.draft_len), acceptance, drafter })
}

/// A layer of a model, and its output layer. Its input layer is the model's own.
fn one_layer(model: &ModelShape) -> ModelShape {
    let vocabulary = u64::from(model.vocab_size) * u64::from(model.hidden_size);
    let layer = |parameters: u64| {
        parameters.saturating_sub(2 * vocabulary) / u64::from(model.num_hidden_layers.max(1)) + vocabulary
    };
    ModelShape {
        name: format!("a layer of {}", model.name),
        parameters: layer(model.parameters),
        active_parameters: Some(layer(model.active())),
        num_hidden_layers: 1,
        ..model.clone()
    }
}

impl Speculation {
    /// Tokens that a request makes in a step, from 1 to `draft_len` + 1: the accepted drafts, and the one that the
    /// model itself adds. A function of the request and of how many tokens it has: the same on both clocks, and after a
    /// preemption.
    pub(crate) fn tokens(&self, request: u64, made: u64) -> u64 {
        let stream = mix(mix(SEED ^ request).wrapping_add(made));
        let drawn = |position: u64| (mix(stream.wrapping_add(position)) >> 11) as f64 / (1_u64 << 53) as f64;
        let accepted = self.acceptance.iter().zip(0..).take_while(|&(rate, position)| drawn(position) < *rate).count();
        accepted as u64 + 1
    }

    /// One step, nanoseconds: prompts pass the model and the drafter; each request that generates has its last token
    /// and its drafts verified at once, and new ones drafted in as many passes.
    pub(crate) fn step_ns(&self, model: &Coefficients, work: &StepWork) -> u64 {
        let verified = model.verify_ns(work, self.draft_len + 1);
        let Some(drafter) = &self.drafter else { return verified };
        let prompts = StepWork { generating: 0, kv_tokens: 0, ..*work };
        let drafts = StepWork { generating: work.generating, kv_tokens: work.kv_tokens, ..StepWork::default() };
        let prompt = if work.context_tokens > 0 { drafter.verify_ns(&prompts, 1) } else { 0 };
        let draft = if work.generating > 0 { drafter.verify_ns(&drafts, 1) } else { 0 };
        verified + prompt + self.draft_len * draft
    }
}

// From the data sheet of a GPU and the shape of a model to the cost of a step.

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
    pub model: &'a ModelShape,
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
/// A linear layer's time is that of its arithmetic and of the activations around it, which go through memory. Pipeline
/// stages work on different parts of the batch at the same time: each token passes all of them, so the weights of all
/// stages are read for it one after the other, while compute and KV cache are shared out.
pub fn derive(of: &ModelOnGpus<'_>) -> (Coefficients, GpuMemory) {
    let ModelOnGpus { model, gpu, precision, kv, parallelism, calibration } = *of;
    let (tp, stages) = (f64::from(parallelism.tensor.max(1)), f64::from(parallelism.pipeline.max(1)));
    // What stages share out takes longer by the time in which they wait for each other.
    let pp = if stages > 1.0 { stages * calibration.pipeline } else { stages };
    let bandwidth = gpu.bandwidth_gbs * 1e9;
    let peak = gpu.tflops_16bit * 1e12;
    let compute_fp4 = calibration.compute_fp4.unwrap_or_else(|| SimCalibration::default().compute);
    let compute = if precision == Precision::Fp4 { compute_fp4 } else { calibration.compute };
    let linear = compute * peak * precision.rate();
    // Attention runs at 8 bits at most.
    let attention = calibration.attention * peak * precision.rate().min(2.0);
    let layers = f64::from(model.num_hidden_layers);
    let hidden = f64::from(model.hidden_size);
    let head = model.head();
    // More GPUs than KV heads: heads are copied.
    let heads = (f64::from(model.num_key_value_heads) / tp).ceil();
    let kv_layer = 2.0 * heads * head * kv.bytes();
    let weight_bytes = model.parameters as f64 * precision.bytes();
    let (expert_bytes, expert_share) = experts(model, precision);
    let is_split = tp > 1.0;
    let host = calibration.host.unwrap_or(1.0);
    // Without a number, links of an eighth of the memory bandwidth.
    let link = calibration.link * gpu.link_gbs.map_or(bandwidth / 8.0, |link| link * 1e9);
    let read = |bytes: f64| bytes / tp / (calibration.weights_bandwidth * bandwidth);
    let coefficients = Coefficients {
        overhead: calibration.step_ms * 1e-3
            + if is_split { 2.0 * layers * calibration.all_reduce_us * 1e-6 } else { 0.0 },
        launch: host * layers * calibration.layer_us * 1e-6,
        graph_tokens: calibration.cuda_graph_tokens,
        weights: read(weight_bytes - expert_bytes),
        expert_weights: read(expert_bytes),
        expert_share,
        overlap: calibration.overlap,
        token: linear_flops(model, calibration) / tp / pp / linear
            + activation_bytes(model, tp) / pp / (calibration.weights_bandwidth * bandwidth),
        pair: 4.0 * f64::from(model.num_attention_heads) * head * layers / tp / pp / attention,
        request: calibration.request_us * 1e-6,
        kv_token: kv_layer * layers / pp / (calibration.kv_bandwidth * bandwidth),
        context: calibration.context_ms * 1e-3,
        prompt: host * calibration.prompt_us * 1e-6,
        // Two ring all-reduces of 16-bit activations in each layer.
        all_reduce: if is_split { 2.0 * layers * hidden * 2.0 * 2.0 * (tp - 1.0) / tp / link / pp } else { 0.0 },
        frontend: host * calibration.frontend_ms * 1e-3,
        admission: host * calibration.admission_us.unwrap_or_default() * 1e-6,
        chunk: host * calibration.chunk_us.unwrap_or_default() * 1e-6,
    };
    let memory = GpuMemory {
        gpu_bytes: gpu.memory_gb * 1e9,
        weight_bytes: weight_bytes / tp / stages,
        workspace_bytes: WORKSPACE,
        kv_bytes_per_token: kv_layer * layers / stages,
    };
    (coefficients, memory)
}

/// A pass of the drafter of speculative decoding, and the memory of its weights and its KV cache; it is split over the
/// GPUs as the model is. What the host does for each request and prompt is the model's part. `None`: it has no weights.
pub(crate) fn derive_drafter(drafting: &Drafting, of: &ModelOnGpus<'_>) -> Option<(Coefficients, GpuMemory)> {
    let model = match &drafting.drafter {
        // It has no weights.
        Drafter::NGram => return None,
        Drafter::Layer => &one_layer(of.model),
        Drafter::Model(model) => model,
    };
    let (pass, memory) = derive(&ModelOnGpus { model, ..*of });
    let launched = matches!(drafting.drafter, Drafter::Model(_));
    let overhead = if launched { pass.overhead } else { pass.overhead - of.calibration.step_ms * 1e-3 };
    let pass = Coefficients { overhead, request: 0.0, context: 0.0, prompt: 0.0, frontend: 0.0, ..pass };
    Some((pass, memory))
}

/// Arithmetic of a token's linear layers. Layers of experts reach less than the others: each has a part of the tokens.
fn linear_flops(model: &ModelShape, calibration: &SimCalibration) -> f64 {
    let active = model.active() as f64;
    let (each, experts) = expert_parameters(model);
    let in_experts = each * f64::from(experts.map_or(0, |(_, of_a_token)| of_a_token));
    2.0 * (active - in_experts + in_experts / calibration.experts.unwrap_or(1.0))
}

/// What a token's activations of 16 bits read and write between the linear layers, bytes: norms and residuals of the
/// whole width, and the inputs and outputs of attention and of the feed-forward network, which tensor parallelism
/// splits.
fn activation_bytes(model: &ModelShape, tp: f64) -> f64 {
    let (hidden, intermediate) = (f64::from(model.hidden_size), f64::from(model.intermediate_size));
    let of_a_token = f64::from(model.experts().map_or(1, |(_, of_a_token)| of_a_token));
    let layer = 6.0 * hidden + (4.0 * hidden + 4.0 * intermediate * of_a_token) / tp;
    2.0 * f64::from(model.num_hidden_layers) * layer
}

/// Parameters of one expert of all layers, and the experts where a token does not touch all.
fn expert_parameters(model: &ModelShape) -> (f64, Option<(u32, u32)>) {
    let Some((total, of_a_token)) = model.experts().filter(|(total, of_a_token)| total > of_a_token) else {
        return (0.0, None);
    };
    // All parameters are the shared ones and `total` experts; a token touches the shared ones and some experts.
    let rest = model.parameters.saturating_sub(model.active()) as f64;
    (rest / f64::from(total - of_a_token), Some((total, of_a_token)))
}

/// Bytes of all experts, and the share of them that one token touches.
fn experts(model: &ModelShape, precision: Precision) -> (f64, f64) {
    let (each, Some((total, of_a_token))) = expert_parameters(model) else { return (0.0, 0.0) };
    (each * f64::from(total) * precision.bytes(), f64::from(of_a_token) / f64::from(total))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timing::tests::llama_8b;
    use base::spec::AcceptanceRate;
    use proptest::prelude::*;

    fn drafts(acceptance: AcceptanceRate, draft_len: u32) -> Speculation {
        resolve(&Drafting { drafter: Drafter::NGram, draft_len, acceptance }, None).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// The formula of Leviathan, Kalman and Matias (2023), equation 1.
        #[test]
        fn a_step_makes_as_many_tokens_as_the_formula_says(
            rate in 0.0_f64..0.98,
            draft_len in 1_u32..12,
            request in 0_u64..1000,
        ) {
            let speculation = drafts(AcceptanceRate::Same(rate), draft_len);
            let formula = (1.0 - rate.powi(draft_len as i32 + 1)) / (1.0 - rate);
            let steps = 20_000_u64;
            let drawn: Vec<u64> = (0..steps).map(|made| speculation.tokens(request, made)).collect();
            prop_assert!(drawn.iter().all(|tokens| (1..=u64::from(draft_len) + 1).contains(tokens)));
            let mean = drawn.iter().sum::<u64>() as f64 / steps as f64;
            // No draw is further from the mean than draft_len + 1; five standard errors of it.
            let error = 5.0 * f64::from(draft_len + 1) / 2.0 / (steps as f64).sqrt();
            prop_assert!((mean - formula).abs() < error, "{} instead of {}", mean, formula);
        }
    }

    #[test]
    fn positions_are_accepted_as_often_as_is_said() {
        let rates = [0.9, 0.6, 0.1];
        let speculation = drafts(AcceptanceRate::PerPosition(rates.to_vec()), 3);
        let drawn: Vec<u64> = (0..50_000).map(|made| speculation.tokens(7, made)).collect();
        for (position, rate) in (1..).zip(rates) {
            let share = drawn.iter().filter(|tokens| **tokens > position).count() as f64 / 50_000.0;
            assert!((share - rate).abs() < 0.01, "{share} at {position}");
        }
    }

    #[test]
    fn a_layer_is_a_small_part_of_its_model() {
        let (model, layer) = (llama_8b(), one_layer(&llama_8b()));
        assert_eq!(layer.num_hidden_layers, 1);
        // 218 million of the layer and 525 million of the output.
        assert_eq!(layer.parameters / 1_000_000, 743);
        assert!(layer.parameters * 10 < model.parameters);
    }
}
