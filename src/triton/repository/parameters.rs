//! The parameters of the config.pbtxt templates: their names, what each may be, and what it is when nobody says.
//!
//! Names, kinds and defaults are those of TensorRT-LLM's Triton backend v0.19. `None` as default means that the line is
//! not written, so that the backend takes its own. Four defaults are this program's, for benchmarks: the batch size is
//! the engine's, decoupling follows `streaming`, `exclude_input_in_output` is true and `enable_kv_cache_reuse` false, as
//! NVIDIA's MLPerf harness writes them.

use serde_json::Value;

/// One parameter by its template name.
pub(super) struct Parameter {
    pub name: &'static str,
    pub kind: Kind,
    pub default: Option<&'static str>,
}

/// What a parameter may be.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// A whole number from this on.
    Count(u64),
    /// Whole numbers from 1, separated by commas.
    Counts,
    /// 0 to 1.
    Fraction,
    Switch,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Any text that is not empty.
    Text,
}

const FLOATS: Kind = Kind::Word(&["TYPE_FP32", "TYPE_FP16", "TYPE_BF16"]);
pub(super) const STRATEGIES: &[&str] = &["inflight_fused_batching", "inflight_batching", "V1"];
pub(super) const POLICIES: &[&str] = &["guaranteed_no_evict", "max_utilization"];
const CHUNKING: &[&str] = &["first_come_first_served", "equal_progress"];
const DECODING: &[&str] =
    &["top_k", "top_p", "top_k_top_p", "beam_search", "medusa", "redrafter", "lookahead", "eagle"];

const fn parameter(name: &'static str, kind: Kind, default: Option<&'static str>) -> Parameter {
    Parameter { name, kind, default }
}

/// Every parameter that a manifest may set, in the order of the templates.
pub(super) const PARAMETERS: &[Parameter] = &[
    // Several models.
    parameter("triton_max_batch_size", Kind::Count(0), None),
    parameter("max_queue_delay_microseconds", Kind::Count(0), Some("0")),
    parameter("max_queue_size", Kind::Count(0), Some("0")),
    parameter("logits_datatype", FLOATS, Some("TYPE_FP32")),
    parameter("decoupled_mode", Kind::Switch, None),
    parameter("tokenizer_dir", Kind::Text, None),
    // preprocessing and postprocessing.
    parameter("preprocessing_instance_count", Kind::Count(1), Some("1")),
    parameter("add_special_tokens", Kind::Switch, Some("true")),
    parameter("multimodal_model_path", Kind::Text, None),
    parameter("max_num_images", Kind::Count(1), None),
    parameter("postprocessing_instance_count", Kind::Count(1), Some("1")),
    parameter("skip_special_tokens", Kind::Switch, Some("true")),
    // tensorrt_llm_bls.
    parameter("bls_instance_count", Kind::Count(1), Some("1")),
    parameter("accumulate_tokens", Kind::Switch, Some("false")),
    parameter("tensorrt_llm_model_name", Kind::Text, Some("tensorrt_llm")),
    parameter("tensorrt_llm_draft_model_name", Kind::Text, None),
    parameter("multimodal_encoders_name", Kind::Text, None),
    // tensorrt_llm.
    parameter("triton_backend", Kind::Word(&["tensorrtllm", "python"]), Some("tensorrtllm")),
    parameter("batching_strategy", Kind::Word(STRATEGIES), Some("inflight_fused_batching")),
    parameter("encoder_engine_dir", Kind::Text, None),
    parameter("encoder_input_features_data_type", FLOATS, Some("TYPE_FP16")),
    parameter("max_beam_width", Kind::Count(1), Some("1")),
    parameter("max_tokens_in_paged_kv_cache", Kind::Count(1), None),
    parameter("kv_cache_free_gpu_mem_fraction", Kind::Fraction, Some("0.9")),
    parameter("cross_kv_cache_fraction", Kind::Fraction, None),
    parameter("kv_cache_host_memory_bytes", Kind::Count(0), Some("0")),
    parameter("kv_cache_onboard_blocks", Kind::Switch, Some("true")),
    parameter("enable_kv_cache_reuse", Kind::Switch, Some("false")),
    parameter("max_attention_window_size", Kind::Counts, None),
    parameter("sink_token_length", Kind::Count(0), None),
    parameter("batch_scheduler_policy", Kind::Word(POLICIES), Some("guaranteed_no_evict")),
    parameter("context_chunking_policy", Kind::Word(CHUNKING), None),
    parameter("enable_chunked_context", Kind::Switch, Some("false")),
    parameter("max_num_tokens", Kind::Count(1), None),
    parameter("max_batch_size", Kind::Count(1), None),
    parameter("exclude_input_in_output", Kind::Switch, Some("true")),
    parameter("normalize_log_probs", Kind::Switch, Some("true")),
    parameter("cancellation_check_period_ms", Kind::Count(0), Some("100")),
    parameter("stats_check_period_ms", Kind::Count(0), Some("100")),
    parameter("recv_poll_period_ms", Kind::Count(0), Some("0")),
    parameter("iter_stats_max_iterations", Kind::Count(0), Some("1000")),
    parameter("request_stats_max_iterations", Kind::Count(0), Some("0")),
    parameter("gpu_device_ids", Kind::Text, None),
    parameter("participant_ids", Kind::Text, None),
    parameter("num_nodes", Kind::Count(1), Some("1")),
    parameter("gpu_weights_percent", Kind::Fraction, Some("1.0")),
    parameter("multi_block_mode", Kind::Switch, Some("true")),
    parameter("enable_context_fmha_fp32_acc", Kind::Switch, Some("false")),
    parameter("cuda_graph_mode", Kind::Switch, Some("false")),
    parameter("cuda_graph_cache_size", Kind::Count(0), Some("0")),
    parameter("decoding_mode", Kind::Word(DECODING), None),
    parameter("medusa_choices", Kind::Text, None),
    parameter("eagle_choices", Kind::Text, None),
    parameter("lookahead_window_size", Kind::Count(1), None),
    parameter("lookahead_ngram_size", Kind::Count(1), None),
    parameter("lookahead_verification_set_size", Kind::Count(1), None),
    parameter("speculative_decoding_fast_logits", Kind::Switch, Some("false")),
    parameter("lora_cache_optimal_adapter_size", Kind::Count(1), Some("8")),
    parameter("lora_cache_max_adapter_size", Kind::Count(1), Some("64")),
    parameter("lora_cache_gpu_memory_fraction", Kind::Fraction, Some("0.05")),
    parameter("lora_cache_host_memory_bytes", Kind::Count(0), Some("1073741824")),
    parameter("lora_prefetch_dir", Kind::Text, None),
    parameter("guided_decoding_backend", Kind::Word(&["xgrammar"]), None),
    parameter("xgrammar_tokenizer_info_path", Kind::Text, None),
];

pub(super) fn find(name: &str) -> Option<&'static Parameter> {
    PARAMETERS.iter().find(|parameter| parameter.name == name)
}

impl Kind {
    /// The value as the file spells it, or what it should have been.
    pub(super) fn spell(self, value: &Value) -> Result<String, String> {
        let text = match value {
            Value::Bool(b) => b.to_string(),
            Value::Number(n) => n.to_string(),
            Value::String(s) => s.clone(),
            other => return Err(format!("{} is not {self}", kind_of(other))),
        };
        let fits = match self {
            Self::Count(least) => text.parse::<u64>().is_ok_and(|n| n >= least),
            Self::Counts => text.split(',').all(|part| part.trim().parse::<u64>().is_ok_and(|n| n > 0)),
            Self::Fraction => text.parse::<f64>().is_ok_and(|x| (0.0..=1.0).contains(&x)),
            Self::Switch => matches!(text.as_str(), "true" | "false"),
            Self::Word(words) => words.contains(&text.as_str()),
            Self::Text => !text.is_empty(),
        };
        if fits { Ok(text) } else { Err(format!("`{text}` is not {self}")) }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Count(least) => write!(f, "a whole number from {least} on"),
            Self::Counts => f.write_str("whole numbers separated by commas"),
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
