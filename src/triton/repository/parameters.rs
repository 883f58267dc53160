//! The parameters of the config.pbtxt templates: their names, permitted values and defaults.
//!
//! Names, kinds and defaults are those of TensorRT-LLM's Triton backend from v0.19 on. A parameter is either bare in the
//! text, where an unfilled `${…}` makes the file unreadable, or as the text of a `parameters` entry, where it reaches the
//! backend. `None` as default means that the line is not written, so that the backend takes its own. Four defaults are
//! this program's, for benchmarks: the batch size is the engine's, decoupling follows `streaming`,
//! `exclude_input_in_output` is true and `enable_kv_cache_reuse` false, as NVIDIA's MLPerf harness writes them.

use serde_json::Value;

use super::flags::{FlagMeaning, meaning};

/// One parameter by its template name.
pub struct Parameter {
    pub name: &'static str,
    pub kind: ParameterKind,
    /// What this program writes when no value is given.
    pub default: Option<&'static str>,
    /// The models with this parameter in their templates.
    pub models: &'static [&'static str],
    /// Its key among the `parameters` of a config; empty if it is elsewhere.
    pub key: &'static str,
    /// Whether its value is bare in the text.
    pub is_bare: bool,
    /// What the backend does without it; empty if it cannot be without.
    pub unset: &'static str,
    /// A short description.
    pub about: &'static str,
}

/// What a parameter may be.
#[derive(Clone, Copy, Debug)]
pub enum ParameterKind {
    /// A whole number from this on.
    Count(u64),
    /// Whole numbers from 1, separated by commas.
    Counts,
    /// Device ids separated by commas, one group for each copy, groups separated by semicolons.
    Devices,
    /// 0 to 1.
    Fraction,
    Switch,
    /// One of these values.
    Word(&'static [&'static str]),
    /// Any text that is not empty.
    Text,
}

/// A value that its parameter may not have.
#[derive(Debug, thiserror::Error)]
pub(super) enum ParameterError {
    /// `found` is the kind of JSON value.
    #[error("{found} is not {kind}")]
    Kind { found: &'static str, kind: ParameterKind },
    #[error("`{value}` is not {kind}")]
    Value { value: String, kind: ParameterKind },
}

const FLOATS: ParameterKind = ParameterKind::Word(&["TYPE_FP32", "TYPE_FP16", "TYPE_BF16"]);
const STRATEGIES: &[&str] = &["inflight_fused_batching", "inflight_batching", "V1"];
const POLICIES: &[&str] = &["guaranteed_no_evict", "max_utilization"];
const CHUNKING: &[&str] = &["first_come_first_served", "equal_progress"];
const DECODING: &[&str] =
    &["top_k", "top_p", "top_k_top_p", "beam_search", "medusa", "redrafter", "lookahead", "eagle"];

const ALL: &[&str] = &["ensemble", "preprocessing", "tensorrt_llm", "postprocessing", "tensorrt_llm_bls"];
const BATCHED: &[&str] = &["preprocessing", "tensorrt_llm"];
const LOGITS: &[&str] = &["ensemble", "tensorrt_llm", "tensorrt_llm_bls"];
const STREAMED: &[&str] = &["tensorrt_llm", "tensorrt_llm_bls"];
const TOKENIZED: &[&str] = &["preprocessing", "tensorrt_llm", "postprocessing"];
const ENGINE: &[&str] = &["preprocessing", "tensorrt_llm"];
const PRE: &[&str] = &["preprocessing"];
const POST: &[&str] = &["postprocessing"];
const BLS: &[&str] = &["tensorrt_llm_bls"];
const LLM: &[&str] = &["tensorrt_llm"];

type Models = &'static [&'static str];

/// A parameter with a value that is bare in the text.
const fn bare(
    name: &'static str,
    kind: ParameterKind,
    default: Option<&'static str>,
    models: Models,
    about: &'static str,
) -> Parameter {
    Parameter { name, kind, default, models, key: "", is_bare: true, unset: "", about }
}

/// One that is a text of `parameters`.
const fn text(
    name: &'static str,
    kind: ParameterKind,
    default: Option<&'static str>,
    models: Models,
    key: &'static str,
    unset: &'static str,
    about: &'static str,
) -> Parameter {
    Parameter { name, kind, default, models, key, is_bare: false, unset, about }
}

/// Every parameter, in the order of the templates.
#[rustfmt::skip]
pub const PARAMETERS: &[Parameter] = &[
    // Several models.
    bare("triton_max_batch_size", ParameterKind::Count(0), None, ALL, "requests that the server may put into one batch"),
    bare("max_queue_delay_microseconds", ParameterKind::Count(0), Some("0"), BATCHED, "how long the dynamic batcher waits for more requests"),
    bare("max_queue_size", ParameterKind::Count(0), Some("0"), BATCHED, "requests that may wait; 0 is no limit"),
    bare("logits_datatype", FLOATS, Some("TYPE_FP32"), LOGITS, "type of context and generation logits"),
    bare("prompt_embedding_table_data_type", FLOATS, Some("TYPE_FP16"), LOGITS, "type of the prompt embedding table; the same in all models that pass it on"),
    bare("decoupled_mode", ParameterKind::Switch, None, STREAMED, "any number of answers for a request: token streaming"),
    text("tokenizer_dir", ParameterKind::Text, None, TOKENIZED, "tokenizer_dir", "", "folder of the tokenizer"),
    // preprocessing and postprocessing.
    bare("preprocessing_instance_count", ParameterKind::Count(1), Some("1"), PRE, "processes of the tokenizer"),
    text("add_special_tokens", ParameterKind::Switch, Some("true"), PRE, "add_special_tokens", "true", "whether the tokenizer adds its own tokens"),
    text("multimodal_model_path", ParameterKind::Text, None, PRE, "multimodal_model_path", "none", "engine of the vision model"),
    text("hf_model_path", ParameterKind::Text, None, PRE, "hf_model_path", "none", "folder of the model as Hugging Face has it, for models with images"),
    text("max_num_images", ParameterKind::Count(1), None, PRE, "max_num_images", "none", "images in one request"),
    bare("postprocessing_instance_count", ParameterKind::Count(1), Some("1"), POST, "processes of the detokenizer"),
    text("skip_special_tokens", ParameterKind::Switch, Some("true"), POST, "skip_special_tokens", "true", "whether special tokens are left out of the text"),
    // tensorrt_llm_bls.
    bare("bls_instance_count", ParameterKind::Count(1), Some("1"), BLS, "processes of the model"),
    text("accumulate_tokens", ParameterKind::Switch, Some("false"), BLS, "accumulate_tokens", "false", "whether each streamed answer carries all the text so far"),
    text("tensorrt_llm_model_name", ParameterKind::Text, Some("tensorrt_llm"), BLS, "tensorrt_llm_model_name", "tensorrt_llm", "the model that is called"),
    text("tensorrt_llm_draft_model_name", ParameterKind::Text, None, BLS, "tensorrt_llm_draft_model_name", "none", "the draft model of speculative decoding"),
    text("multimodal_encoders_name", ParameterKind::Text, None, BLS, "multimodal_encoders_name", "none", "the model that encodes images"),
    // tensorrt_llm.
    text("triton_backend", ParameterKind::Word(&["tensorrtllm", "python"]), Some("tensorrtllm"), LLM, "", "", "the C++ backend or the Python one"),
    text("batching_strategy", ParameterKind::Word(STRATEGIES), Some("inflight_fused_batching"), LLM, "gpt_model_type", "", "V1 is static batching; the backend fails at any other value"),
    text("engine_dir", ParameterKind::Text, None, ENGINE, "gpt_model_path", "", "folder of the engine"),
    text("encoder_engine_dir", ParameterKind::Text, None, LLM, "encoder_model_path", "none", "engine of the encoder"),
    bare("encoder_input_features_data_type", FLOATS, Some("TYPE_FP16"), LLM, "type of the encoder's input features"),
    text("max_beam_width", ParameterKind::Count(1), Some("1"), LLM, "max_beam_width", "1", "beams of one request"),
    text("max_tokens_in_paged_kv_cache", ParameterKind::Count(1), None, LLM, "max_tokens_in_paged_kv_cache", "from the fraction", "size of the KV cache in tokens; the smaller of both limits wins"),
    text("kv_cache_free_gpu_mem_fraction", ParameterKind::Fraction, Some("0.9"), LLM, "kv_cache_free_gpu_mem_fraction", "0.9", "part of the memory free after loading that the KV cache takes"),
    text("cross_kv_cache_fraction", ParameterKind::Fraction, None, LLM, "cross_kv_cache_fraction", "0.5", "part of it for cross attention; encoder-decoder models only"),
    text("kv_cache_host_memory_bytes", ParameterKind::Count(0), Some("0"), LLM, "kv_cache_host_memory_bytes", "0", "host memory that KV blocks may move to"),
    text("kv_cache_onboard_blocks", ParameterKind::Switch, Some("true"), LLM, "kv_cache_onboard_blocks", "true", "whether blocks are brought back before they are used"),
    text("enable_kv_cache_reuse", ParameterKind::Switch, Some("false"), LLM, "enable_kv_cache_reuse", "true", "whether requests share blocks of equal prompts"),
    text("max_attention_window_size", ParameterKind::Counts, None, LLM, "max_attention_window_size", "max_seq_len", "sliding window in tokens, for each layer if several"),
    text("sink_token_length", ParameterKind::Count(0), None, LLM, "sink_token_length", "none", "tokens that are always attended to"),
    text("batch_scheduler_policy", ParameterKind::Word(POLICIES), Some("guaranteed_no_evict"), LLM, "batch_scheduler_policy", "guaranteed_no_evict", "the backend takes its default for any other value"),
    text("context_chunking_policy", ParameterKind::Word(CHUNKING), None, LLM, "context_chunking_policy", "first_come_first_served", "which context is cut first"),
    text("enable_chunked_context", ParameterKind::Switch, Some("false"), LLM, "enable_chunked_context", "false", "long prompts in parts; needs paged context FMHA"),
    text("max_num_tokens", ParameterKind::Count(1), None, LLM, "max_num_tokens", "the engine's", "tokens of one step"),
    text("max_batch_size", ParameterKind::Count(1), None, LLM, "max_batch_size", "the engine's", "requests of one step"),
    text("exclude_input_in_output", ParameterKind::Switch, Some("true"), LLM, "exclude_input_in_output", "false", "whether the prompt is left out of an answer that is not streamed"),
    text("normalize_log_probs", ParameterKind::Switch, Some("true"), LLM, "normalize_log_probs", "true", "by the length of the answer"),
    text("cancellation_check_period_ms", ParameterKind::Count(0), Some("100"), LLM, "cancellation_check_period_ms", "100", "how often cancelled requests are looked for"),
    text("stats_check_period_ms", ParameterKind::Count(0), Some("100"), LLM, "stats_check_period_ms", "100", "how often the metrics are renewed"),
    text("recv_poll_period_ms", ParameterKind::Count(0), Some("0"), LLM, "recv_poll_period_ms", "0", "how often new requests are looked for"),
    text("iter_stats_max_iterations", ParameterKind::Count(0), Some("1000"), LLM, "iter_stats_max_iterations", "1000", "steps whose statistics are kept"),
    text("request_stats_max_iterations", ParameterKind::Count(0), Some("0"), LLM, "request_stats_max_iterations", "0", "steps whose statistics of requests are kept"),
    text("gpu_device_ids", ParameterKind::Devices, None, LLM, "gpu_device_ids", "all visible", "GPUs of one copy; copies are separated by semicolons"),
    text("participant_ids", ParameterKind::Counts, None, LLM, "participant_ids", "derived", "MPI ranks of the copy"),
    text("num_nodes", ParameterKind::Count(1), Some("1"), LLM, "num_nodes", "1", "hosts that one copy runs on"),
    text("gpu_weights_percent", ParameterKind::Fraction, Some("1.0"), LLM, "gpu_weights_percent", "1.0", "part of the weights that stays on the GPU"),
    text("multi_block_mode", ParameterKind::Switch, Some("true"), LLM, "multi_block_mode", "true", "attention over several blocks"),
    text("enable_context_fmha_fp32_acc", ParameterKind::Switch, Some("false"), LLM, "enable_context_fmha_fp32_acc", "false", "32-bit sums in attention"),
    text("cuda_graph_mode", ParameterKind::Switch, Some("false"), LLM, "cuda_graph_mode", "false", "CUDA graphs"),
    text("cuda_graph_cache_size", ParameterKind::Count(0), Some("0"), LLM, "cuda_graph_cache_size", "0", "how many are kept"),
    text("decoding_mode", ParameterKind::Word(DECODING), None, LLM, "decoding_mode", "derived", "how the next token is found"),
    text("medusa_choices", ParameterKind::Text, None, LLM, "medusa_choices", "none", "tree of Medusa's heads"),
    text("eagle_choices", ParameterKind::Text, None, LLM, "eagle_choices", "none", "tree of EAGLE's heads"),
    text("lookahead_window_size", ParameterKind::Count(1), None, LLM, "lookahead_window_size", "none", "lookahead decoding; all three or none"),
    text("lookahead_ngram_size", ParameterKind::Count(1), None, LLM, "lookahead_ngram_size", "none", "lookahead decoding; all three or none"),
    text("lookahead_verification_set_size", ParameterKind::Count(1), None, LLM, "lookahead_verification_set_size", "none", "lookahead decoding; all three or none"),
    text("speculative_decoding_fast_logits", ParameterKind::Switch, Some("false"), LLM, "speculative_decoding_fast_logits", "false", "logits of the draft model go from GPU to GPU"),
    text("lora_cache_optimal_adapter_size", ParameterKind::Count(1), Some("8"), LLM, "lora_cache_optimal_adapter_size", "8", "rank that the LoRA cache is laid out for"),
    text("lora_cache_max_adapter_size", ParameterKind::Count(1), Some("64"), LLM, "lora_cache_max_adapter_size", "64", "largest rank"),
    text("lora_cache_gpu_memory_fraction", ParameterKind::Fraction, Some("0.05"), LLM, "lora_cache_gpu_memory_fraction", "0.05", "part of the GPU's memory for adapters"),
    text("lora_cache_host_memory_bytes", ParameterKind::Count(0), Some("1073741824"), LLM, "lora_cache_host_memory_bytes", "1073741824", "host memory for adapters"),
    text("lora_prefetch_dir", ParameterKind::Text, None, LLM, "lora_prefetch_dir", "none", "adapters that are loaded at the start"),
    text("guided_decoding_backend", ParameterKind::Word(&["xgrammar"]), None, LLM, "guided_decoding_backend", "none", "needs a tokenizer"),
    text("xgrammar_tokenizer_info_path", ParameterKind::Text, None, LLM, "xgrammar_tokenizer_info_path", "none", "the tokenizer as xgrammar wrote it"),
];

pub(super) fn find(name: &str) -> Option<&'static Parameter> {
    PARAMETERS.iter().find(|parameter| parameter.name == name)
}

/// The numeric parameter of an engine's model with this name: its template name, its key, or the name in NVIDIA's
/// harness (`kvcache_free_gpu_mem_frac`).
pub fn number_parameter(name: &str) -> Option<&'static Parameter> {
    let name = match meaning(name, &Value::from(0)) {
        FlagMeaning::Parameters(all) => all.last().map_or(name, |(name, _)| name),
        _ => name,
    };
    let is_number = |kind: ParameterKind| matches!(kind, ParameterKind::Count(_) | ParameterKind::Fraction);
    of_model("tensorrt_llm").find(|one| (one.name == name || one.key == name) && is_number(one.kind))
}

/// The one that a model's `parameters` entry of this key comes from.
pub(super) fn by_key(model: &str, key: &str) -> Option<&'static Parameter> {
    of_model(model).find(|parameter| parameter.key == key)
}

/// Those of one model's `parameters`.
pub(super) fn of_model(model: &str) -> impl Iterator<Item = &'static Parameter> + Clone {
    PARAMETERS.iter().filter(move |parameter| !parameter.key.is_empty() && parameter.models.contains(&model))
}

impl ParameterKind {
    /// A choice in the letters that the backend takes: `MAX_UTILIZATION` is `max_utilization`. Other values stay as they are.
    pub(super) fn canonical(self, value: &Value) -> Value {
        let Some(text) = value.as_str() else { return value.clone() };
        let word = self.words().iter().find(|word| word.eq_ignore_ascii_case(text));
        word.map_or_else(|| value.clone(), |word| Value::from(*word))
    }

    /// The values of a choice, for the hint about an invalid one.
    pub(super) const fn words(self) -> &'static [&'static str] {
        if let Self::Word(words) = self { words } else { &[] }
    }

    /// The value as the file spells it, or what it should have been.
    pub(super) fn spell(self, value: &Value) -> Result<String, ParameterError> {
        let text = match value {
            Value::Bool(b) => b.to_string(),
            Value::Number(n) => n.to_string(),
            Value::String(s) => s.clone(),
            other => return Err(ParameterError::Kind { found: kind_of(other), kind: self }),
        };
        let fits = match self {
            Self::Count(least) => text.parse::<u64>().is_ok_and(|n| n >= least),
            Self::Counts => text.split(',').all(|part| part.trim().parse::<u64>().is_ok_and(|n| n > 0)),
            Self::Devices => text.split([',', ';']).all(|id| id.trim().parse::<u32>().is_ok()),
            Self::Fraction => text.parse::<f64>().is_ok_and(|x| (0.0..=1.0).contains(&x)),
            Self::Switch => matches!(text.as_str(), "true" | "false"),
            Self::Word(words) => words.contains(&text.as_str()),
            Self::Text => !text.is_empty(),
        };
        if fits { Ok(text) } else { Err(ParameterError::Value { value: text, kind: self }) }
    }
}

impl std::fmt::Display for ParameterKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Count(least) => write!(f, "a whole number from {least} on"),
            Self::Counts => f.write_str("whole numbers separated by commas"),
            Self::Devices => f.write_str("GPU ids separated by commas, copies by semicolons"),
            Self::Fraction => f.write_str("a number from 0 to 1"),
            Self::Switch => f.write_str("true or false"),
            Self::Word(words) => write!(f, "one of {}", words.join(", ")),
            Self::Text => f.write_str("a text"),
        }
    }
}

const fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
        _ => "the value",
    }
}
