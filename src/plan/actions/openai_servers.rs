//! `serve: { trtllm_serve: … }` — TensorRT-LLM's own server, which has OpenAI's interfaces.
//!
//! `serve: { vllm: … }` — vLLM's own server, which has OpenAI's interfaces.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use base::spec::{LONGEST_LENGTH, MOST_PARTS, MOST_USERS, ReadyWhen};

/// `trtllm-serve`, once for each copy of the model: its GPUs are shared evenly, tp × pp for each. Served over HTTP:
/// `protocol: openai-completions` or `openai-chat`.
#[base::omit_empty]
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrtllmServe {
    /// Folder of a checkpoint or an engine, or a name at Hugging Face.
    pub model: String,
    #[serde(default)]
    pub ready: ReadyWhen,
    /// The server program.
    #[serde(default = "super::trtllm_serve")]
    pub program: String,
    /// A Python with TensorRT-LLM, in place of `program`: `PYTHON -m tensorrt_llm.commands.serve`.
    pub python: Option<String>,
    /// Folder of the tokenizer, where it is not the model's.
    pub tokenizer: Option<String>,
    /// `pytorch`, or `tensorrt` for an engine.
    #[serde(default = "super::pytorch")]
    pub backend: String,
    #[serde(default = "super::one")]
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub tensor_parallelism: u32,
    #[serde(default = "super::one")]
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub pipeline_parallelism: u32,
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub moe_expert_parallelism: Option<u32>,
    #[schemars(range(min = 1, max = MOST_USERS))]
    pub max_batch_size: Option<u32>,
    #[schemars(range(min = 1, max = LONGEST_LENGTH))]
    pub max_num_tokens: Option<u32>,
    #[schemars(range(min = 1, max = LONGEST_LENGTH))]
    pub max_seq_len: Option<u32>,
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub max_beam_width: Option<u32>,
    #[schemars(range(max = MOST_PARTS))]
    pub num_postprocess_workers: Option<u32>,
    /// Options of TensorRT-LLM's LLM by name, written to the file of `--extra_llm_api_options`.
    pub options: IndexMap<String, Value>,
    /// Further arguments, unchanged.
    pub args: Vec<String>,
    /// [default: as many as the leased GPUs allow; one without GPUs]
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub servers: Option<u32>,
    /// Port of the first server; further ones count up. [default: free ports]
    #[schemars(range(min = 1))]
    pub port: Option<u16>,
    /// Bind address.
    #[serde(default = "super::everywhere")]
    pub host: String,
}

impl TrtllmServe {
    /// What `backend` may be.
    pub const BACKENDS: [&'static str; 2] = ["pytorch", "tensorrt"];

    /// Where a number of `options` stands, as a JSON pointer: by its path (`kv_cache_config.free_gpu_memory_fraction`)
    /// or by its last name, where only one is called so. The fraction goes by Triton's name, too.
    pub fn option(&self, name: &str) -> Option<String> {
        let name = if name == "kv_cache_free_gpu_mem_fraction" { "free_gpu_memory_fraction" } else { name };
        let mut matches = Vec::new();
        for (key, value) in &self.options {
            numbers(&format!("/{key}"), value, &mut matches);
        }
        let path = format!("/{}", name.replace('.', "/"));
        matches.retain(|pointer| *pointer == path || pointer.ends_with(&path));
        if let Some(exact) = matches.iter().find(|pointer| **pointer == path) {
            return Some(exact.clone());
        }
        matches.pop().filter(|_| matches.is_empty())
    }

    /// GPUs of one server.
    pub const fn ranks(&self) -> u32 {
        self.tensor_parallelism * self.pipeline_parallelism
    }
}

/// Pointers of all numbers.
fn numbers(at: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Number(_) => found.push(at.to_owned()),
        Value::Object(fields) => {
            for (name, value) in fields {
                numbers(&format!("{at}/{name}"), value, found);
            }
        }
        _ => {}
    }
}

/// `vllm serve`, once for each copy of the model: the leased GPUs are shared evenly. Keys have the names of vLLM's
/// options. Served over HTTP: `protocol: openai-completions` or `openai-chat`.
#[base::omit_empty]
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Vllm {
    /// A folder with a checkpoint, or a name at Hugging Face.
    pub model: String,
    #[serde(default)]
    pub ready: ReadyWhen,
    /// The server program with what precedes its options: `[python3, -m, vllm.entrypoints.openai.api_server]`.
    #[serde(default = "super::vllm_serve")]
    #[schemars(length(min = 1))]
    pub program: Vec<String>,
    /// Folder or name of the tokenizer, where it is not the model's.
    pub tokenizer: Option<String>,
    /// The name that requests have. [vLLM's default: `model` as it is written]
    pub served_model_name: Option<String>,
    /// `bfloat16`, `float16`, … [vLLM's default: auto]
    pub dtype: Option<String>,
    /// `fp8`, `awq`, … [vLLM's default: as the checkpoint has it]
    pub quantization: Option<String>,
    /// `dummy` makes random weights: only config.json is needed. [vLLM's default: auto]
    pub load_format: Option<String>,
    /// GPUs that share every layer.
    #[serde(default = "super::one")]
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub tensor_parallel_size: u32,
    /// Groups of GPUs that share the layers.
    #[serde(default = "super::one")]
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub pipeline_parallel_size: u32,
    /// Engines behind one port of a server; `servers` starts copies with a port each.
    #[serde(default = "super::one")]
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub data_parallel_size: u32,
    /// The longest sequence, prompt and answer, tokens.
    #[schemars(range(min = 1, max = LONGEST_LENGTH))]
    pub max_model_len: Option<u32>,
    /// Sequences in one step.
    #[schemars(range(min = 1, max = MOST_USERS))]
    pub max_num_seqs: Option<u32>,
    /// Tokens in one step.
    #[schemars(range(min = 1, max = LONGEST_LENGTH))]
    pub max_num_batched_tokens: Option<u32>,
    /// Share of each GPU's memory for weights and KV cache together.
    #[schemars(range(min = 0.01, max = 1.0))]
    pub gpu_memory_utilization: Option<f64>,
    /// `fp8`, … [vLLM's default: that of the model]
    pub kv_cache_dtype: Option<String>,
    /// No CUDA graphs and no compilation: starts sooner and runs slower.
    pub enforce_eager: Option<bool>,
    /// Reuse the KV cache of equal prefixes. [vLLM's default: true]
    pub enable_prefix_caching: Option<bool>,
    /// Share a step between pieces of long prompts and running answers. [vLLM's default: true]
    pub enable_chunked_prefill: Option<bool>,
    /// Log each step as a line of JSON next to the server's log (`….steps.jsonl`): requests, prefill and decode tokens,
    /// and `wait_ms` for the result (with asynchronous scheduling, vLLM's default, a step takes longer). vLLM 0.24 or
    /// newer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub step_log: bool,
    /// Other options of vLLM by name, without dashes: text, number, list, true (`--name`), false (`--no-name`), or a
    /// map (as JSON).
    pub options: IndexMap<String, Value>,
    /// Further arguments, unchanged.
    pub args: Vec<String>,
    /// [default: as many as the leased GPUs allow; one without GPUs]
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub servers: Option<u32>,
    /// Port of the first server; further ones count up. [default: free ports]
    #[schemars(range(min = 1))]
    pub port: Option<u16>,
    /// Bind address.
    #[serde(default = "super::everywhere")]
    pub host: String,
}

impl Vllm {
    /// Keys that are called like the options of vLLM which they set, in the order of a command line.
    pub const OWN: &'static str = "tokenizer served_model_name dtype quantization load_format tensor_parallel_size \
        pipeline_parallel_size data_parallel_size max_model_len max_num_seqs max_num_batched_tokens \
        gpu_memory_utilization kv_cache_dtype enforce_eager enable_prefix_caching enable_chunked_prefill";

    /// A number that is given, by its key or among the options.
    pub fn number(&self, name: &str) -> Option<f64> {
        let name = name.replace('-', "_");
        let by_key = serde_json::to_value(self).ok()?.get(&name).and_then(Value::as_f64);
        by_key.or_else(|| {
            let option = self.options.iter().find(|(option, _)| option.replace('-', "_") == name);
            option.and_then(|(_, value)| value.as_f64())
        })
    }

    /// GPUs of one server.
    pub const fn ranks(&self) -> u32 {
        self.tensor_parallel_size * self.pipeline_parallel_size * self.data_parallel_size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_among_the_options_is_found_by_path_or_by_a_name_that_is_its_own() {
        let server: TrtllmServe = serde_json::from_value(serde_json::json!({
            "model": "m",
            "options": {
                "max_batch_size": 64,
                "kv_cache_config": { "free_gpu_memory_fraction": 0.9, "max_tokens": 8, "enable_block_reuse": false },
                "speculative": { "max_tokens": 4 },
            },
        }))
        .unwrap();
        let fraction = Some("/kv_cache_config/free_gpu_memory_fraction".to_owned());
        for name in
            ["kv_cache_config.free_gpu_memory_fraction", "free_gpu_memory_fraction", "kv_cache_free_gpu_mem_fraction"]
        {
            assert_eq!(server.option(name), fraction, "{name}");
        }
        assert_eq!(server.option("max_batch_size").as_deref(), Some("/max_batch_size"));
        assert_eq!(server.option("max_tokens"), None, "two are called so");
        assert_eq!(server.option("speculative.max_tokens").as_deref(), Some("/speculative/max_tokens"));
        assert_eq!(server.option("enable_block_reuse"), None, "no number");
    }
}
