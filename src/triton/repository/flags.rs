//! NVIDIA's harness has its own names for its runtime flags; this is what each means in config.pbtxt.

use serde_json::Value;

/// The flags that reach config.pbtxt.
pub const FLAGS: &[&str] = &[
    "batch_scheduler_policy",
    "context_chunking_policy",
    "use_inflight_batching",
    "enable_chunked_context",
    "kvcache_free_gpu_mem_frac",
    "exclude_input_from_output",
    "max_batch_size",
    "max_num_tokens",
];

/// Flags of NVIDIA's harness that only its in-process and PyTorch executors take; no config.pbtxt has a place for them.
const ELSEWHERE: &[&str] = &[
    "enable_batch_size_tuning",
    "enable_max_num_tokens_tuning",
    "dynamic_batch_moving_average_window",
    "cuda_graph_padding_enabled",
    "cuda_graph_batch_sizes",
    "trtllm_backend",
    "moe_backend",
    "num_postprocess_workers",
    "workers_per_core",
    "http_backend",
    "max_concurrency",
    "stream_interval",
    "sampler_type",
    "disable_overlap_scheduler",
    "speculative_decoding",
    "cache_transceiver_backend",
    "cache_transceiver_max_tokens",
];

/// A flag as parameters of the templates.
pub enum FlagMeaning {
    Parameters(Vec<(&'static str, Value)>),
    /// A name of NVIDIA's that a Triton repository has no place for.
    NotInRepository,
    Unknown,
    /// The name is right, the value is not.
    InvalidValue(String),
}

/// What a flag of NVIDIA's harness means in config.pbtxt.
pub fn meaning(flag: &str, value: &Value) -> FlagMeaning {
    let same = |name| FlagMeaning::Parameters(vec![(name, value.clone())]);
    match flag {
        "batch_scheduler_policy" => policy(value),
        "context_chunking_policy" => same("context_chunking_policy"),
        "use_inflight_batching" => match value {
            Value::Bool(true) => word("batching_strategy", "inflight_fused_batching"),
            Value::Bool(false) => word("batching_strategy", "V1"),
            other => FlagMeaning::InvalidValue(format!("`{other}` is not true or false")),
        },
        "enable_chunked_context" => same("enable_chunked_context"),
        "kvcache_free_gpu_mem_frac" => same("kv_cache_free_gpu_mem_fraction"),
        "exclude_input_from_output" => same("exclude_input_in_output"),
        "max_batch_size" => {
            FlagMeaning::Parameters(vec![("triton_max_batch_size", value.clone()), ("max_batch_size", value.clone())])
        }
        "max_num_tokens" => same("max_num_tokens"),
        other if ELSEWHERE.contains(&other) => FlagMeaning::NotInRepository,
        _ => FlagMeaning::Unknown,
    }
}

/// The harness's short names and the backend's long ones. The backend itself silently ignores a name it does not know.
fn policy(value: &Value) -> FlagMeaning {
    // TensorRT-LLM's pages write `MAX_UTILIZATION`; the backend takes lower case only.
    match value.as_str().map(str::to_ascii_lowercase).as_deref() {
        Some("max_util" | "max_utilization") => word("batch_scheduler_policy", "max_utilization"),
        Some("no_evict" | "guaranteed_no_evict") => word("batch_scheduler_policy", "guaranteed_no_evict"),
        // Static batching is a batching strategy of the backend, not a scheduler policy.
        Some("static" | "static_batch") => word("batching_strategy", "V1"),
        _ => FlagMeaning::InvalidValue(format!(
            "{value} is not one of max_util, no_evict, static (or max_utilization, guaranteed_no_evict)"
        )),
    }
}

fn word(name: &'static str, value: &str) -> FlagMeaning {
    FlagMeaning::Parameters(vec![(name, Value::from(value))])
}
