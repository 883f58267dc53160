//! The GPU memory that serving an engine takes, and which setting to lower to which value when it does not fit.
//!
//! Arithmetic that can be checked by hand, shown with its numbers. For one GPU, with tp × pp ranks:
//!
//! ```text
//! weights      the size of rank0.engine, or from the log, or parameters × bytes / (tp × pp)
//! KV of token  2 (key and value) × layers / pp × ⌈kv_heads / tp⌉ × head size × bytes
//! activations  max_num_tokens × 2 bytes × (4 × hidden + 3 × intermediate / tp)            an estimate
//! buffers      max_batch_size × max_beam_width × vocabulary × 8 bytes (logits in 32 bits, and a copy)   an estimate
//! free         memory − weights − activations, or from the log
//! KV pool      fraction × free; what is left, (1 − fraction) × free, must hold the buffers and what the runtime takes
//! ```
//!
//! Unknown numbers are not made up: they are named, and the advice does without them.

use std::fmt::Write as _;

use crate::EngineConfig;

// The numbers that the memory of one GPU is computed from. Bytes and tokens.

/// A model, cut over GPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSplit {
    pub layers: f64,
    pub hidden: f64,
    pub intermediate: Option<f64>,
    pub heads: f64,
    pub kv_heads: f64,
    pub vocabulary: Option<f64>,
    pub kv_bytes: f64,
    pub tp: f64,
    pub pp: f64,
}

/// Bytes of one number of a type, by its names in manifests and in `config.json`.
pub fn bytes_of(name: &str) -> Option<f64> {
    match name.to_lowercase().as_str() {
        "fp32" | "float32" => Some(4.0),
        "fp16" | "float16" | "bf16" | "bfloat16" => Some(2.0),
        "fp8" | "int8" => Some(1.0),
        "fp4" | "nvfp4" => Some(0.5),
        _ => None,
    }
}

impl ModelSplit {
    pub fn new(engine: &EngineConfig) -> Self {
        let model = &engine.pretrained_config;
        let kv = model.quantization.kv_cache_quant_algo.as_deref().and_then(bytes_of);
        Self {
            layers: f64::from(model.num_hidden_layers),
            hidden: f64::from(model.hidden_size),
            intermediate: model.intermediate_size.map(f64::from),
            heads: f64::from(model.num_attention_heads.max(1)),
            kv_heads: f64::from(model.num_key_value_heads.unwrap_or(model.num_attention_heads).max(1)),
            vocabulary: model.vocab_size.map(f64::from),
            kv_bytes: kv.or_else(|| bytes_of(&model.dtype)).unwrap_or(2.0),
            tp: f64::from(model.mapping.tp_size.max(1)),
            pp: f64::from(model.mapping.pp_size.max(1)),
        }
    }

    /// KV cache of one token on one GPU. Ranks beyond the number of KV heads have copies of them.
    pub fn kv_of_token(&self) -> f64 {
        2.0 * self.layers / self.pp * (self.kv_heads / self.tp).ceil() * (self.hidden / self.heads) * self.kv_bytes
    }

    /// Activations of one token of a step.
    pub fn activations_of_token(&self) -> Option<f64> {
        Some(2.0 * (4.0 * self.hidden + 3.0 * self.intermediate? / self.tp))
    }

    /// Buffers of one request of a batch.
    pub fn buffers_of_request(&self, beams: f64) -> Option<f64> {
        Some(8.0 * beams * self.vocabulary?)
    }
}

/// The base of the KV cache fraction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KvFractionBase {
    /// The free memory after the engine was loaded: TensorRT-LLM.
    #[default]
    FreeMemory,
    /// The whole memory, weights included: the simulator.
    TotalMemory,
}

/// An engine and how it is served, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fit {
    pub shape: Option<ModelSplit>,
    /// The memory of one GPU.
    pub memory: Option<f64>,
    /// The weights on one GPU, and the source of the number.
    pub weights: Option<(f64, &'static str)>,
    /// Other known memory of the runtime.
    pub workspace: f64,
    /// Free after loading, from the log.
    pub free: Option<f64>,
    pub max_batch_size: Option<f64>,
    pub max_num_tokens: Option<f64>,
    pub max_seq_len: Option<f64>,
    pub max_beam_width: f64,
    /// The fraction for the KV cache.
    pub fraction: Option<f64>,
    pub share: KvFractionBase,
}

impl Fit {
    /// From an engine, with its build limits.
    pub fn new(engine: &EngineConfig) -> Self {
        let build = &engine.build_config;
        Self {
            shape: Some(ModelSplit::new(engine)),
            max_batch_size: Some(f64::from(build.max_batch_size)),
            max_num_tokens: Some(f64::from(build.max_num_tokens)),
            max_seq_len: Some(f64::from(engine.max_seq_len())),
            max_beam_width: f64::from(build.max_beam_width.max(1)),
            ..Self::default()
        }
    }

    pub fn activations(&self) -> Option<f64> {
        Some(self.max_num_tokens? * self.shape.as_ref()?.activations_of_token()?)
    }

    /// Activations that have no room in the workspace.
    pub fn beside_workspace(&self) -> Option<f64> {
        Some((self.activations()? - self.workspace).max(0.0))
    }

    pub fn buffers(&self) -> Option<f64> {
        Some(self.max_batch_size? * self.shape.as_ref()?.buffers_of_request(self.max_beam_width)?)
    }

    /// Free after loading: from the log, else the rest of the memory.
    pub fn free_after_loading(&self) -> Option<f64> {
        self.free.or_else(|| {
            Some(self.memory? - self.weights?.0 - self.workspace - self.beside_workspace().unwrap_or_default())
        })
    }

    /// The memory that a fraction of 1 would be.
    pub fn base(&self) -> Option<f64> {
        match self.share {
            KvFractionBase::FreeMemory => self.free_after_loading(),
            KvFractionBase::TotalMemory => self.memory,
        }
    }

    /// KV cache of one sequence of the full length.
    pub fn one_sequence(&self) -> Option<f64> {
        Some(self.max_seq_len? * self.shape.as_ref()?.kv_of_token())
    }

    /// The smallest fraction with which one sequence of the full length has room.
    pub fn least_fraction(&self) -> Option<f64> {
        let taken = match self.share {
            KvFractionBase::FreeMemory => 0.0,
            KvFractionBase::TotalMemory => self.weights.map_or(0.0, |(bytes, _)| bytes) + self.workspace,
        };
        Some((self.one_sequence()? + taken) / self.base()?)
    }
}

// Which number to lower, and to what.

/// A number to lower, each enough by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct MemorySetting {
    pub name: &'static str,
    pub now: f64,
    pub to: f64,
}

/// Advice for memory that ran out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Advice {
    pub settings: Vec<MemorySetting>,
    /// The computation, a line for each step.
    pub arithmetic: Vec<String>,
    /// The values that a better answer would need.
    pub unknown: Vec<String>,
    /// The tensor_parallelism with which it would fit, where no smaller change helps.
    pub tensor_parallelism: Option<u32>,
}

const FRACTION: &str = "kv_cache_free_gpu_mem_fraction";
/// A step of the fraction where the log does not show how much was missing.
const STEP: f64 = 0.05;

/// Works out what to lower. `missing` is by how many bytes an allocation failed, where the log shows it.
pub fn advise(fit: &Fit, missing: Option<f64>) -> Advice {
    let mut advice = Advice::default();
    arithmetic(fit, &mut advice);
    unknown(fit, missing, &mut advice);
    let is_loaded = fit.free_after_loading().is_none_or(|free| free > 0.0);
    if is_loaded {
        fraction(fit, missing, &mut advice);
    }
    sizes(fit, missing, &mut advice);
    if advice.settings.is_empty() || !is_loaded {
        more_gpus(fit, &mut advice);
    }
    advice
}

fn fraction(fit: &Fit, missing: Option<f64>, advice: &mut Advice) {
    let Some(now) = fit.fraction else { return };
    let Some(base) = fit.base().filter(|base| *base > 0.0) else {
        // A fixed step, because the required amount is unknown.
        let to = floor2(now - STEP);
        return advice.settings.extend((to > 0.0).then_some(MemorySetting { name: FRACTION, now, to }));
    };
    // The memory that must stay free beside the pool: the buffers, and the missing amount.
    let room = |bytes: f64| ((1.0 - bytes / base) * 100.0).floor() / 100.0;
    let by_missing = missing.map(|bytes| floor2(now - bytes / base));
    let by_buffers = fit.buffers().map(room).filter(|to| *to < now);
    let to = by_missing.or(by_buffers).unwrap_or_else(|| floor2(now - STEP));
    let to = by_buffers.map_or(to, |other| to.min(other));
    let least = fit.least_fraction().unwrap_or(0.0);
    if let (Some(bytes), Some(_)) = (missing, by_missing) {
        let (bytes, base) = (bytes / 1e9, base / 1e9);
        advice.arithmetic.push(format!(
            "{bytes:.2} GB were missing: {now} − {bytes:.2} / {base:.2} = {:.2}",
            floor2(now - bytes / base)
        ));
    }
    if to > 0.0 && to >= least {
        advice.settings.push(MemorySetting { name: FRACTION, now, to });
    } else if let Some(one) = fit.one_sequence() {
        advice.arithmetic.push(format!(
            "a lower fraction does not help: one sequence of {} tokens needs {} of KV cache, that is {:.2} of {}",
            fit.max_seq_len.unwrap_or_default(),
            gb(one),
            least,
            gb(base)
        ));
    }
}

/// max_batch_size and max_num_tokens, as far as what they take is more than what is missing.
fn sizes(fit: &Fit, missing: Option<f64>, advice: &mut Advice) {
    let shape = fit.shape.as_ref();
    let tokens = shape.and_then(ModelSplit::activations_of_token).zip(fit.max_num_tokens);
    let requests = shape.and_then(|shape| shape.buffers_of_request(fit.max_beam_width)).zip(fit.max_batch_size);
    // Without a number from the log: what there is too little of by the arithmetic, else half of it.
    let over = missing.or_else(|| {
        let free = fit.free_after_loading()?;
        let left = match fit.share {
            KvFractionBase::FreeMemory => free * (1.0 - fit.fraction?),
            KvFractionBase::TotalMemory => fit.memory? * (1.0 - fit.fraction?),
        };
        Some(fit.buffers()? - left).filter(|over| *over > 0.0)
    });
    for (name, each, step) in [("max_num_tokens", tokens, 64.0), ("max_batch_size", requests, 8.0)] {
        let Some((bytes, now)) = each else { continue };
        let to = match over {
            Some(over) => ((now - over / bytes) / step).floor() * step,
            None => (now / 2.0 / step).floor() * step,
        };
        // A step must hold a token for each request that generates.
        let least = if name == "max_num_tokens" { fit.max_batch_size.unwrap_or(1.0).min(now) } else { 1.0 };
        if to >= least.max(step) && to < now {
            advice.settings.push(MemorySetting { name, now, to });
        } else if over.is_some() {
            let size = gb(bytes * now);
            advice.arithmetic.push(format!("{name} {now} takes {size} in all: lowering it is not enough"));
        }
    }
}

/// The smallest power of two of ranks with which weights, activations, buffers and one sequence have room.
fn more_gpus(fit: &Fit, advice: &mut Advice) {
    let (Some(memory), Some((weights, _)), Some(shape)) = (fit.memory, fit.weights, &fit.shape) else { return };
    for tp in [2_u32, 4, 8, 16] {
        let tp_now = shape.tp;
        if f64::from(tp) <= tp_now {
            continue;
        }
        let cut = ModelSplit { tp: f64::from(tp), ..shape.clone() };
        let there = Fit { shape: Some(cut), ..fit.clone() };
        let mut needed = weights * tp_now / f64::from(tp) + fit.workspace;
        for part in [there.activations(), there.buffers(), there.one_sequence()] {
            needed += part.unwrap_or_default();
        }
        // A tenth for the runtime and for more than one sequence.
        if needed < 0.9 * memory {
            advice.tensor_parallelism = Some(tp);
            advice.arithmetic.push(format!(
                "with tensor_parallelism {tp}: {} of weights, activations, buffers and one sequence on each GPU of {}",
                gb(needed),
                gb(memory)
            ));
            return;
        }
    }
}

fn arithmetic(fit: &Fit, advice: &mut Advice) {
    let lines = &mut advice.arithmetic;
    if let (Some(memory), Some((weights, from))) = (fit.memory, fit.weights) {
        let mut line = format!("{} of memory − {} of weights ({from})", gb(memory), gb(weights));
        if fit.workspace > 0.0 {
            let _ = write!(line, " − {} of workspace", gb(fit.workspace));
        }
        if let (Some(all), Some(tokens)) = (fit.beside_workspace().filter(|all| *all > 0.0), fit.max_num_tokens)
            && fit.free.is_none()
        {
            let _ = write!(
                line,
                " − {} of activations (max_num_tokens {tokens} × {}, estimated)",
                gb(all),
                bytes(all / tokens)
            );
        }
        match (fit.free, fit.free_after_loading()) {
            (Some(free), _) => {
                let _ = write!(line, "; the log reports that {} were free after loading", gb(free));
            }
            (None, Some(free)) => {
                let _ = write!(line, " = {} free after loading", gb(free));
            }
            (None, None) => {}
        }
        lines.push(line);
    } else if let Some(free) = fit.free {
        lines.push(format!("the log reports that {} were free after loading", gb(free)));
    }
    if let (Some(fraction), Some(base)) = (fit.fraction, fit.base().filter(|base| *base > 0.0)) {
        let pool = match fit.share {
            KvFractionBase::FreeMemory => fraction * base,
            KvFractionBase::TotalMemory => {
                (fraction * base - fit.weights.map_or(0.0, |(bytes, _)| bytes) - fit.workspace).max(0.0)
            }
        };
        let tokens = fit.shape.as_ref().map(|shape| (pool / shape.kv_of_token(), shape.kv_of_token()));
        let tokens = tokens.map_or_else(String::new, |(n, each)| format!(", {n:.0} tokens of {}", bytes(each)));
        let left = (1.0 - fraction) * base;
        lines.push(format!(
            "KV cache with fraction {fraction}: {}{tokens}; in addition {} are left",
            gb(pool),
            gb(left)
        ));
    }
    if let (Some(all), Some(requests)) = (fit.buffers(), fit.max_batch_size) {
        let each = bytes(all / requests);
        lines.push(format!("buffers: max_batch_size {requests} × {each} = {} (estimated)", gb(all)));
    }
}

fn unknown(fit: &Fit, missing: Option<f64>, advice: &mut Advice) {
    let mut add = |is_known: bool, what: &str| {
        if !is_known {
            advice.unknown.push(what.to_owned());
        }
    };
    add(missing.is_some(), "how much was missing");
    add(fit.memory.is_some() || fit.free.is_some(), "the GPU's memory");
    add(fit.weights.is_some() || fit.free.is_some(), "the size of the weights");
    add(fit.shape.is_some(), "the model's shape");
    add(fit.fraction.is_some(), "the fraction of the KV cache");
}

fn floor2(share: f64) -> f64 {
    // 0.95 − 0.05 must not become 0.89.
    (share * 100.0 + 1e-6).floor() / 100.0
}

/// GB of 10⁹ bytes, as data sheets have them.
fn gb(bytes: f64) -> String {
    format!("{:.2} GB", bytes / 1e9)
}

fn bytes(count: f64) -> String {
    if count >= 1e6 { format!("{:.2} MB", count / 1e6) } else { format!("{:.0} KB", count / 1e3) }
}

impl Advice {
    /// What to try, as text: the numbers to lower, then the computation, then the unknown numbers.
    pub fn text(&self) -> String {
        let mut lines = Vec::new();
        let settings: Vec<String> =
            self.settings.iter().map(|setting| format!("{} {} → {}", setting.name, setting.now, setting.to)).collect();
        if let Some(tp) = self.tensor_parallelism {
            lines.push(format!("build with tensor_parallelism {tp}"));
        }
        if !settings.is_empty() {
            lines.push(format!("lower {}", settings.join(", or ")));
        }
        lines.extend(self.arithmetic.iter().cloned());
        if !self.unknown.is_empty() {
            lines.push(format!("not known: {}", self.unknown.join(", ")));
        }
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Llama-2-70B in fp8 on one H200, as it is served in MLPerf.
    fn llama() -> Fit {
        Fit {
            shape: Some(ModelSplit {
                layers: 80.0,
                hidden: 8192.0,
                intermediate: Some(28672.0),
                heads: 64.0,
                kv_heads: 8.0,
                vocabulary: Some(32000.0),
                kv_bytes: 1.0,
                tp: 1.0,
                pp: 1.0,
            }),
            memory: Some(141e9),
            weights: Some((69e9, "rank0.engine")),
            max_batch_size: Some(2048.0),
            max_num_tokens: Some(1536.0),
            max_seq_len: Some(2048.0),
            max_beam_width: 1.0,
            fraction: Some(0.95),
            ..Fit::default()
        }
    }

    #[test]
    fn what_is_missing_is_taken_from_the_kv_cache_and_the_sum_is_shown() {
        insta::assert_snapshot!(advise(&llama(), Some(1.5e9)).text(), @"
        lower kv_cache_free_gpu_mem_fraction 0.95 → 0.92
        141.00 GB of memory − 69.00 GB of weights (rank0.engine) − 0.36 GB of activations (max_num_tokens 1536 × 238 \
            KB, estimated) = 71.64 GB free after loading
        KV cache with fraction 0.95: 68.05 GB, 415365 tokens of 164 KB; in addition 3.58 GB are left
        buffers: max_batch_size 2048 × 256 KB = 0.52 GB (estimated)
        1.50 GB were missing: 0.95 − 1.50 / 71.64 = 0.92
        max_num_tokens 1536 takes 0.36 GB in all: lowering it is not enough
        max_batch_size 2048 takes 0.52 GB in all: lowering it is not enough
        ");
    }

    #[test]
    fn without_a_number_in_the_log_the_buffers_decide() {
        let fit = Fit { fraction: Some(1.0), ..llama() };
        let advice = advise(&fit, None);
        assert_eq!(advice.settings[0], MemorySetting { name: "kv_cache_free_gpu_mem_fraction", now: 1.0, to: 0.99 });
        assert_eq!(advice.unknown, ["how much was missing"]);
    }

    #[test]
    fn weights_that_leave_no_room_ask_for_more_gpus() {
        let fit = Fit { memory: Some(80e9), weights: Some((145e9, "rank0.engine")), ..llama() };
        let advice = advise(&fit, None);
        assert_eq!(advice.tensor_parallelism, Some(4));
        assert!(advice.settings.iter().all(|setting| setting.name != "kv_cache_free_gpu_mem_fraction"), "{advice:?}");
    }

    #[test]
    fn a_fraction_that_holds_no_sequence_is_not_advised() {
        // 160 KB for each token: 22,000 tokens need 3.6 GB, and 3 GB are free.
        let fit = Fit { free: Some(3e9), max_seq_len: Some(22_000.0), fraction: Some(0.9), ..llama() };
        let advice = advise(&fit, Some(1e9));
        assert!(advice.settings.iter().all(|setting| setting.name != "kv_cache_free_gpu_mem_fraction"), "{advice:?}");
        assert!(advice.text().contains("a lower fraction does not help: one sequence of 22000 tokens needs 3.60 GB"));
    }

    #[test]
    fn what_is_not_known_is_named_and_not_made_up() {
        let advice = advise(&Fit { fraction: Some(0.9), ..Fit::default() }, None);
        assert_eq!(advice.settings, [MemorySetting { name: FRACTION, now: 0.9, to: 0.85 }]);
        assert_eq!(
            advice.unknown,
            ["how much was missing", "the GPU's memory", "the size of the weights", "the model's shape"]
        );
    }

    #[test]
    fn the_kv_cache_of_a_token_is_what_the_table_says() {
        let shape = llama().shape.unwrap();
        let whole = |shape: &ModelSplit| shape.kv_of_token() as u64;
        assert_eq!(whole(&shape), 163_840);
        assert_eq!(whole(&ModelSplit { tp: 16.0, ..shape.clone() }), 163_840 / 8, "heads are copied");
        assert_eq!(whole(&ModelSplit { pp: 2.0, kv_bytes: 2.0, ..shape }), 163_840);
    }
}
