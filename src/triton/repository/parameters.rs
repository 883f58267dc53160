//! The parameters of the config.pbtxt templates: their names, permitted values and defaults.
//!
//! Names, kinds and defaults are those of TensorRT-LLM's Triton backend from v0.19 on. A parameter is either bare in
//! the text, where an unfilled `${…}` makes the file unreadable, or as the text of a `parameters` entry, where it
//! reaches the backend. `None` as default means that the line is not written, so that the backend takes its own. Four
//! defaults are this program's, for benchmarks: the batch size is the engine's, decoupling follows `streaming`,
//! `exclude_input_in_output` is true and `enable_kv_cache_reuse` false, as NVIDIA's MLPerf harness writes them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use base::diag::ErrorText;

/// One parameter by its template name.
#[derive(Deserialize)]
pub struct Parameter {
    pub name: &'static str,
    #[serde(flatten)]
    pub kind: ParameterKind,
    /// What this program writes when no value is given.
    pub default: Option<&'static str>,
    /// The models with this parameter in their templates.
    pub models: Vec<&'static str>,
    /// Its key among the `parameters` of a config; empty if it is elsewhere.
    #[serde(default)]
    pub key: &'static str,
    /// Whether its value is bare in the text.
    #[serde(default, rename = "bare")]
    pub is_bare: bool,
    /// What the backend does without it; empty if it cannot be without.
    #[serde(default)]
    pub unset: &'static str,
    /// A short description.
    pub about: &'static str,
}

impl Parameter {
    /// Whether this program writes another value than the backend takes without it.
    pub fn differs_from_backend(&self) -> bool {
        !self.unset.is_empty() && self.default.is_some_and(|default| default != self.unset)
    }
}

/// What a parameter may be.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ParameterKind {
    /// A whole number from this on.
    Count {
        min: u64,
    },
    /// Whole numbers from 1, separated by commas.
    Counts,
    /// Device ids separated by commas, one group for each copy, groups separated by semicolons.
    Devices,
    /// 0 to 1.
    Fraction,
    Switch,
    /// One of these values.
    Word {
        #[serde(borrow)]
        words: Vec<&'static str>,
    },
    /// Any text that is not empty.
    Text,
}

/// Every parameter, in the order of the templates: the rows of `parameters.toml`.
pub static PARAMETERS: LazyLock<Vec<Parameter>> = LazyLock::new(|| {
    let file = toml::from_str::<BTreeMap<&str, _>>(include_str!("parameters.toml"));
    file.expect("a test reads it").remove("parameter").unwrap_or_default()
});

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
    let is_number = |kind: &ParameterKind| matches!(kind, ParameterKind::Count { .. } | ParameterKind::Fraction);
    of_model("tensorrt_llm").find(|one| (one.name == name || one.key == name) && is_number(&one.kind))
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
    /// A choice in the letters that the backend takes: `MAX_UTILIZATION` is `max_utilization`. Other values stay as
    /// they are.
    pub(super) fn canonical(&self, value: &Value) -> Value {
        let Some(text) = value.as_str() else { return value.clone() };
        let word = self.words().iter().find(|word| word.eq_ignore_ascii_case(text));
        word.map_or_else(|| value.clone(), |word| Value::from(*word))
    }

    /// The values of a choice, for the hint about an invalid one.
    pub(super) fn words(&self) -> &[&'static str] {
        if let Self::Word { words } = self { words } else { &[] }
    }

    /// The value as the file spells it, or what it should have been.
    pub(super) fn spell(&self, value: &Value) -> Result<String, ErrorText> {
        let text = match value {
            Value::Bool(b) => b.to_string(),
            Value::Number(n) => n.to_string(),
            Value::String(s) => s.clone(),
            other => return Err(ErrorText::new(format_args!("{} is not {self}", kind_of(other)))),
        };
        let fits = match self {
            Self::Count { min } => text.parse::<u64>().is_ok_and(|n| n >= *min),
            Self::Counts => text.split(',').all(|part| part.trim().parse::<u64>().is_ok_and(|n| n > 0)),
            Self::Devices => text.split([',', ';']).all(|id| id.trim().parse::<u32>().is_ok()),
            Self::Fraction => text.parse::<f64>().is_ok_and(|x| (0.0..=1.0).contains(&x)),
            Self::Switch => matches!(text.as_str(), "true" | "false"),
            Self::Word { words } => words.contains(&text.as_str()),
            Self::Text => !text.is_empty(),
        };
        if fits { Ok(text) } else { Err(ErrorText::new(format_args!("`{text}` is not {self}"))) }
    }
}

impl std::fmt::Display for ParameterKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Count { min } => write!(f, "a whole number of at least {min}"),
            Self::Counts => f.write_str("whole numbers separated by commas"),
            Self::Devices => f.write_str("GPU ids separated by commas, copies by semicolons"),
            Self::Fraction => f.write_str("a number from 0 to 1"),
            Self::Switch => f.write_str("true or false"),
            Self::Word { words } => write!(f, "one of {}", words.join(", ")),
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

// NVIDIA's harness has its own names for its runtime flags; this is what each means in config.pbtxt.

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
const ELSEWHERE: &str = "\
    enable_batch_size_tuning enable_max_num_tokens_tuning dynamic_batch_moving_average_window \
    cuda_graph_padding_enabled cuda_graph_batch_sizes trtllm_backend moe_backend num_postprocess_workers \
    workers_per_core http_backend max_concurrency stream_interval sampler_type disable_overlap_scheduler \
    speculative_decoding cache_transceiver_backend cache_transceiver_max_tokens";

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
        other if ELSEWHERE.split(' ').any(|name| name == other) => FlagMeaning::NotInRepository,
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
