//! How long a step takes and how much KV cache there is, from the shapes of a model and of a GPU and from the share of
//! the data sheet's numbers that the software reaches ([`base::spec::SimCalibration`]).
//!
//! A model, never a measurement: every report that rests on it must state so. Without a fitted calibration the shares
//! are assumed.
//!
//! What step times rest on, and how far published results were from what they give.

mod speculation;

use std::fmt;

use serde::{Deserialize, Serialize};

use base::spec::{LoraConfig, ModelShape, SimCalibration, SimScheduler};
pub use speculation::{ModelOnGpus, Parallelism, Speculation, derive};
pub(crate) use speculation::{derive_drafter, resolve};

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
    #[serde(alias = "float16")]
    Fp16,
    #[serde(alias = "bfloat16")]
    Bf16,
    Fp8,
    #[serde(alias = "nvfp4")]
    Fp4,
}

impl Precision {
    /// Reads `fp16, bf16, fp8, fp4` (`nvfp4` too).
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_value(text.into()).ok()
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

    fn on(model: &ModelShape, precision: Precision, tensor: u32) -> (Coefficients, GpuMemory) {
        let parallelism = Parallelism { tensor, pipeline: 1 };
        let (gpu, calibration) = (&h200(), &SimCalibration::default());
        derive(&ModelOnGpus { model, gpu, precision, kv: precision, parallelism, calibration })
    }

    pub(crate) fn llama_8b() -> ModelShape {
        ModelShape {
            name: "llama3.1-8b".into(),
            architecture: "LlamaForCausalLM".into(),
            parameters: 8_030_261_248,
            active_parameters: None,
            num_experts: None,
            experts_per_token: None,
            num_hidden_layers: 32,
            hidden_size: 4096,
            intermediate_size: 14336,
            num_attention_heads: 32,
            num_key_value_heads: 8,
            head_dim: None,
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
        let model = ModelShape {
            parameters: 70_600_000_000,
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
    fn a_host_that_is_twice_as_fast_halves_its_own_times_only() {
        let calibration = SimCalibration {
            layer_us: 143.0,
            prompt_us: 57.0,
            frontend_ms: 8.0,
            admission_us: Some(1400.0),
            chunk_us: Some(97.0),
            ..SimCalibration::default()
        };
        let faster = SimCalibration { host: Some(0.5), ..calibration.clone() };
        let [of_fit, half] = [&calibration, &faster].map(|calibration| {
            let (model, gpu, precision) = (&llama_8b(), &h200(), Precision::Bf16);
            let parallelism = Parallelism { tensor: 1, pipeline: 1 };
            derive(&ModelOnGpus { model, gpu, precision, kv: precision, parallelism, calibration }).0
        });
        let hosts = |c: Coefficients| [c.launch, c.prompt, c.frontend, c.admission, c.chunk];
        let halves = hosts(half).into_iter().zip(hosts(of_fit));
        assert!(
            halves.clone().all(|(half, whole)| (half - whole / 2.0).abs() < 1e-12),
            "{:?}",
            halves.collect::<Vec<_>>()
        );
        let rest = Coefficients { launch: 0.0, prompt: 0.0, frontend: 0.0, admission: 0.0, chunk: 0.0, ..half };
        assert_eq!(
            rest,
            Coefficients { launch: 0.0, prompt: 0.0, frontend: 0.0, admission: 0.0, chunk: 0.0, ..of_fit }
        );
    }

    #[test]
    fn more_gpus_are_faster_and_hold_more() {
        let on_one = on(&llama_8b(), Precision::Bf16, 1);
        let on_two = on(&llama_8b(), Precision::Bf16, 2);
        assert!(on_two.0.weights < on_one.0.weights && on_two.0.all_reduce > 0.0);
        assert!(on_two.1.blocks(SimScheduler::Vllm, 0.9, 32) > on_one.1.blocks(SimScheduler::Vllm, 0.9, 32));
    }
}

// The memory of a GPU, and the KV cache that it has room for.

/// The memory of one GPU. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GpuMemory {
    pub gpu_bytes: f64,
    pub weight_bytes: f64,
    /// Activations and the runtime.
    pub workspace_bytes: f64,
    pub kv_bytes_per_token: f64,
}

impl GpuMemory {
    /// KV blocks for the setting `fraction`: TensorRT-LLM's `kv_cache_free_gpu_mem_fraction` is a share of what is free
    /// when the engine is loaded, vLLM's `gpu_memory_utilization` one of the whole GPU.
    pub fn blocks(&self, rule: SimScheduler, fraction: f64, tokens_per_block: u32) -> u64 {
        let room = match rule {
            SimScheduler::TensorrtLlm => fraction * (self.gpu_bytes - self.weight_bytes - self.workspace_bytes),
            SimScheduler::Vllm => fraction * self.gpu_bytes - self.weight_bytes - self.workspace_bytes,
        };
        (room / (self.kv_bytes_per_token * f64::from(tokens_per_block))).max(0.0) as u64
    }
}

// LoRA: what adapters cost beside the model.

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

impl LoraCost {
    /// The cost of adapters, and the memory that `max_loras` of them take on each GPU, bytes.
    pub(crate) fn new(lora: &LoraConfig, of: &ModelOnGpus<'_>) -> (Self, f64) {
        let ModelOnGpus { model, gpu, parallelism, calibration, .. } = *of;
        let (tp, pp) = (f64::from(parallelism.tensor.max(1)), f64::from(parallelism.pipeline.max(1)));
        let parameters = adapter_parameters(lora, model);
        let peak = calibration.compute * gpu.tflops_16bit * 1e12;
        let cost = Self {
            slots: lora.max_loras,
            read: BYTES * parameters / tp / (calibration.weights_bandwidth * gpu.bandwidth_gbs * 1e9),
            token: 2.0 * parameters / tp / (pp * calibration.pipeline) / peak,
            load: BYTES * parameters / tp / pp / (lora.host_link_gbs * 1e9),
        };
        (cost, f64::from(lora.max_loras) * BYTES * parameters / tp / pp)
    }

    /// What adapters add to a step, nanoseconds: different ones, and tokens that have one.
    pub(crate) fn step_ns(&self, adapters: usize, tokens: u64) -> u64 {
        (1e9 * (self.read * adapters as f64 + self.token * tokens as f64)) as u64
    }

    /// Copying this many adapters, nanoseconds.
    pub(crate) fn load_ns(&self, adapters: usize) -> u64 {
        (1e9 * self.load * adapters as f64) as u64
    }
}

/// Of one adapter: two matrices of the rank for each linear layer of attention and, without experts, of the
/// feed-forward network.
fn adapter_parameters(lora: &LoraConfig, model: &ModelShape) -> f64 {
    let hidden = f64::from(model.hidden_size);
    let (queries, kv) = (f64::from(model.num_attention_heads), f64::from(model.num_key_value_heads));
    let attention = 2.0 * (hidden + model.head() * queries) + 2.0 * (hidden + model.head() * kv);
    let network = if model.experts().is_some() { 0.0 } else { 3.0 * (hidden + f64::from(model.intermediate_size)) };
    f64::from(lora.max_lora_rank) * f64::from(model.num_hidden_layers) * (attention + network)
}

// What one step of a decoder costs.

/// The coefficients of a step's time, in seconds:
///
/// ```text
/// step = overhead [+ launch if P+B > graph_tokens] + max(overlap·W, token·(P+B)) + (1−overlap)·W
///      + pair·Σ(chunk·(past + chunk/2)) + request·B + kv_token·ΣKV [+ context if P > 0] + prompt·R + all_reduce·(P+B)
/// ```
///
/// with P context tokens of R requests and B generating requests, and W = weights + `expert_weights` · (the share of
/// experts that P+B tokens touch).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Coefficients {
    pub overhead: f64,
    /// Launching the kernels of all layers, in a step without a CUDA graph.
    pub launch: f64,
    /// Largest step with a CUDA graph, tokens.
    pub graph_tokens: u64,
    /// Reading the weights that every token needs.
    pub weights: f64,
    /// Reading all experts.
    pub expert_weights: f64,
    /// The share of a layer's experts that one token touches.
    pub expert_share: f64,
    /// The share of reading the weights that hides the linear layers' work.
    pub overlap: f64,
    /// Linear layers, for each token.
    pub token: f64,
    /// Attention, for each pair of a new and an older token.
    pub pair: f64,
    pub request: f64,
    /// Reading the KV cache of one token.
    pub kv_token: f64,
    /// Once for a step that has context.
    pub context: f64,
    /// For each request that computes context.
    pub prompt: f64,
    /// For each token.
    pub all_reduce: f64,
    /// Between a request's arrival and the scheduler.
    pub frontend: f64,
    /// Between two requests that reach the scheduler.
    pub admission: f64,
    /// Sending one chunk, after the step and beside the next ones.
    pub chunk: f64,
}

/// What a step computes: this many tokens of the context of this many requests, with pairs of a new and an older token;
/// and requests that generate, with the tokens in their KV caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StepWork {
    pub contexts: u64,
    pub context_tokens: u64,
    pub pairs: u64,
    pub generating: u64,
    pub kv_tokens: u64,
}

/// From this many tokens on every expert is taken as touched.
const ALL_EXPERTS: u64 = 4096;

impl Coefficients {
    /// One step, nanoseconds: of `contexts` requests that compute this many tokens of their context, and of those that
    /// generate. The order of the additions is part of the golden values.
    pub fn step_ns(&self, contexts: u64, context_tokens: u64, pairs: u64, generating: u64, kv_tokens: u64) -> u64 {
        self.verify_ns(&StepWork { contexts, context_tokens, pairs, generating, kv_tokens }, 1)
    }

    /// Like `step_ns`, where each request that generates computes this many tokens. Attention reads its KV cache once
    /// for all of them, and takes the time of its arithmetic where that is longer.
    pub(crate) fn verify_ns(&self, work: &StepWork, tokens_of_a_request: u64) -> u64 {
        let count = work.context_tokens + work.generating * tokens_of_a_request;
        let tokens = count as f64;
        let weights = self.weights(count);
        let kv_token = match tokens_of_a_request {
            1 => self.kv_token,
            several => self.kv_token.max(self.pair * several as f64),
        };
        let mut seconds = self.overhead
            + (self.overlap * weights).max(self.token * tokens)
            + self.pair * work.pairs as f64
            + self.request * work.generating as f64
            + kv_token * work.kv_tokens as f64;
        if work.context_tokens > 0 {
            seconds += self.context + self.prompt * work.contexts as f64;
        }
        seconds += self.all_reduce * tokens;
        seconds += (1.0 - self.overlap) * weights;
        if count > self.graph_tokens {
            seconds += self.launch;
        }
        (1e9 * seconds) as u64
    }

    /// Reading the weights that this many tokens touch. Each token picks its experts independently of the others.
    fn weights(&self, tokens: u64) -> f64 {
        if self.expert_weights == 0.0 {
            return self.weights;
        }
        // Whole powers are multiplications, which give the same bits on every machine.
        let untouched = (1.0 - self.expert_share).powi(tokens.min(ALL_EXPERTS) as i32);
        self.weights + self.expert_weights * (1.0 - untouched)
    }

    /// Between a request's arrival and the scheduler, nanoseconds.
    pub fn frontend_ns(&self) -> u64 {
        (1e9 * self.frontend) as u64
    }

    /// When a request that arrives at `at` reaches the scheduler, if the HTTP server is busy until `free`; and until
    /// when the server is busy then.
    pub(crate) fn admitted(&self, at: u64, free: u64) -> (u64, u64) {
        let admitted = free.max(at + self.frontend_ns());
        (admitted, admitted + (1e9 * self.admission) as u64)
    }

    /// Sending this many chunks one after another, nanoseconds.
    pub(crate) fn chunks_ns(&self, chunks: u64) -> u64 {
        (1e9 * self.chunk * chunks as f64) as u64
    }
}

/// Experts of Mixtral's layers: no published result of a model with more and smaller ones was fitted.
const MOST_FITTED_EXPERTS: u32 = 8;

/// What the step times of an engine rest on. Later ones are further from what was measured.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepTimeBasis {
    /// Fitted to these results of this GPU.
    Fitted { source: String },
    /// Fitted to results of this GPU, which is of the same generation.
    CarriedOver { gpu: String },
    /// Fitted to the step log of this server, vLLM's, by `regatta sim calibrate`.
    StepLog { source: String },
    /// Fitted to a step log of a model of another size.
    OtherModel { source: String },
    /// The data sheet's numbers, and assumed shares of them.
    Assumed,
    /// The same, where the shares of a mixture of experts, or of 4 bits, were fitted to nothing.
    AssumedKernels,
}

impl StepTimeBasis {
    /// Of a model whose weights have this precision; `None`: one that is not known.
    pub fn new(model: &ModelShape, precision: Option<Precision>, calibration: &SimCalibration) -> Self {
        let has_fit = |total| calibration.experts.is_some() && total <= MOST_FITTED_EXPERTS;
        let lacks_experts = model.experts().is_some_and(|(total, _)| !has_fit(total));
        let lacks_fp4 = precision == Some(Precision::Fp4) && calibration.compute_fp4.is_none();
        match &calibration.carried_from {
            _ if lacks_experts || lacks_fp4 => Self::AssumedKernels,
            _ if calibration.source.is_empty() => Self::Assumed,
            None if calibration.scheduler == SimScheduler::Vllm => {
                let scaled = calibration.host.map(|host| format!(", its host's times × {host}"));
                let source = [calibration.source.as_str(), scaled.as_deref().unwrap_or_default()].concat();
                // Models of one shape may count their embeddings once or twice.
                let differs = |of_log: u64| model.parameters.abs_diff(of_log) > of_log / 10;
                let is_other = calibration.parameters.is_some_and(differs);
                if is_other { Self::OtherModel { source } } else { Self::StepLog { source } }
            }
            None => Self::Fitted { source: calibration.source.clone() },
            Some(gpu) => Self::CarriedOver { gpu: gpu.clone() },
        }
    }

    /// In one word or two.
    pub const fn name(&self) -> &'static str {
        self.class().0
    }

    /// Its name, and how far from the simulated tokens per second results were that no number here was fitted to: nine
    /// of ten published MLPerf results (`it simulator::truth`), and all loads that were measured with vLLM 0.24 (`it
    /// simulator::calibration`; both tables are on the manual's page on simulation). Where no kernel was fitted, the
    /// answer is an order of magnitude.
    const fn class(&self) -> (&'static str, f64) {
        match self {
            Self::StepLog { .. } => ("step log", 0.1),
            Self::Fitted { .. } => ("fitted", 0.15),
            Self::CarriedOver { .. } => ("carried over", 0.2),
            Self::OtherModel { .. } => ("another model's step log", 0.35),
            Self::Assumed => ("assumed", 0.35),
            Self::AssumedKernels => ("kernels assumed", 1.0),
        }
    }

    /// Between which shares of the simulated tokens per second results are.
    pub const fn band(&self) -> (f64, f64) {
        let (_, share) = self.class();
        (1.0 - share, 1.0 + share)
    }

    /// As a column has it: `fitted ±15 %`.
    pub fn with_band(&self) -> String {
        let (name, share) = self.class();
        format!("{name} ±{:.0} %", share * 100.0)
    }
}

impl fmt::Display for StepTimeBasis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fitted { source } => write!(f, "fitted to {source}"),
            Self::StepLog { source } | Self::OtherModel { source } => {
                write!(f, "fitted to the step log of {source}; another host's CPU has another TTFT (calibration.host)")
            }
            Self::CarriedOver { gpu } => write!(f, "carried over from {gpu}, a GPU of the same generation"),
            Self::Assumed => f.write_str("assumed from the data sheet, not fitted"),
            Self::AssumedKernels => f.write_str("kernels assumed: what experts or 4 bits reach was fitted to nothing"),
        }
    }
}

#[cfg(test)]
mod coefficient_tests {
    use super::tests::{h200, llama_8b};
    use super::*;
    use crate::timing::{Parallelism, Precision};
    use base::spec::SimCalibration;

    #[test]
    fn an_adapter_of_rank_16_of_the_8b_model_has_42_million_parameters() {
        let settings = LoraConfig { max_lora_rank: 16, max_loras: 4, host_link_gbs: 50.0 };
        // As PEFT counts them, with all linear layers.
        assert_eq!(adapter_parameters(&settings, &llama_8b()) as u64, 41_943_040);
        let on_gpus = ModelOnGpus {
            model: &llama_8b(),
            gpu: &h200(),
            precision: Precision::Bf16,
            kv: Precision::Bf16,
            parallelism: Parallelism { tensor: 1, pipeline: 1 },
            calibration: &SimCalibration::default(),
        };
        let (cost, bytes) = LoraCost::new(&settings, &on_gpus);
        assert_eq!(bytes as u64, 4 * 2 * 41_943_040);
        assert!((cost.read - 21.8e-6).abs() < 1e-7 && (cost.load - 1.68e-3).abs() < 1e-5, "{cost:?}");
    }
}

#[cfg(test)]
mod basis_tests {
    use super::tests::llama_8b;
    use super::*;

    #[test]
    fn a_part_without_a_fit_decides() {
        let fitted = SimCalibration { source: "rows".to_owned(), experts: Some(0.3), ..SimCalibration::default() };
        let carried = SimCalibration { carried_from: Some("H200".to_owned()), ..fitted.clone() };
        let dense = llama_8b();
        let mixture = ModelShape { num_experts: Some(8), experts_per_token: Some(2), ..dense.clone() };
        let bare = SimCalibration::default();
        let name = |model, precision, calibration| StepTimeBasis::new(model, Some(precision), calibration).name();
        assert_eq!(name(&dense, Precision::Fp8, &fitted), "fitted");
        assert_eq!(name(&mixture, Precision::Fp8, &carried), "carried over");
        assert_eq!(name(&dense, Precision::Fp4, &fitted), "kernels assumed");
        assert_eq!(name(&mixture, Precision::Fp8, &bare), "kernels assumed");
        assert_eq!(name(&dense, Precision::Fp8, &bare), "assumed");
        let parameters = Some(8_030_261_248);
        let logged = SimCalibration { scheduler: SimScheduler::Vllm, parameters, experts: None, ..fitted.clone() };
        let large = ModelShape { parameters: 70_553_706_496, ..dense.clone() };
        assert_eq!(name(&dense, Precision::Bf16, &logged), "step log");
        assert_eq!(name(&large, Precision::Bf16, &logged), "another model's step log");
    }

    #[test]
    fn a_band_is_of_percent() {
        assert_eq!(StepTimeBasis::Assumed.with_band(), "assumed ±35 %");
        assert_eq!(StepTimeBasis::AssumedKernels.with_band(), "kernels assumed ±100 %");
    }
}
