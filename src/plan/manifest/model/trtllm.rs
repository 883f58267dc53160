//! `serve: { trtllm_serve: … }` — TensorRT-LLM's own server, which has OpenAI's interfaces.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use base::spec::{LONGEST_LENGTH, MOST_PARTS, MOST_USERS};
use serde_json::Value;

use super::ready_when::ReadyWhen;

/// `trtllm-serve`, once for each copy of the model: its GPUs are shared evenly, tp × pp for each. Served over HTTP: `protocol: openai-completions` or `openai-chat`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrtllmServe {
    /// A folder with a checkpoint or an engine, or a name at Hugging Face.
    pub model: String,
    #[serde(default)]
    pub ready: ReadyWhen,
    /// The server program. [default: trtllm-serve]
    #[serde(default = "trtllm_serve")]
    pub program: String,
    /// A Python with TensorRT-LLM, in place of `program`: `PYTHON -m tensorrt_llm.commands.serve`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
    /// Folder of the tokenizer, where it is not the model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<String>,
    /// `pytorch`, or `tensorrt` for an engine. [default: pytorch]
    #[serde(default = "pytorch")]
    pub backend: String,
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub tensor_parallelism: u32,
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub pipeline_parallelism: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub moe_expert_parallelism: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MOST_USERS))]
    pub max_batch_size: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = LONGEST_LENGTH))]
    pub max_num_tokens: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = LONGEST_LENGTH))]
    pub max_seq_len: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub max_beam_width: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MOST_PARTS))]
    pub num_postprocess_workers: Option<u32>,
    /// Everything else that TensorRT-LLM's LLM takes, by its names: written to a file, named with `--extra_llm_api_options`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub options: IndexMap<String, Value>,
    /// Further arguments, unchanged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Servers. [default: as many as the leased GPUs allow; one without GPUs]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub servers: Option<u32>,
    /// Port of the first server; further ones count up. [default: free ports]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub port: Option<u16>,
    /// The address that they are bound to. [default: 0.0.0.0]
    #[serde(default = "everywhere")]
    pub host: String,
}

impl TrtllmServe {
    /// What `backend` may be.
    pub const BACKENDS: [&'static str; 2] = ["pytorch", "tensorrt"];

    /// Where a number of `options` stands, as a JSON pointer: by its path (`kv_cache_config.free_gpu_memory_fraction`) or by its last
    /// name, where only one is called so. The fraction goes by Triton's name, too.
    pub fn option(&self, name: &str) -> Option<String> {
        let name = if name == "kv_cache_free_gpu_mem_fraction" { "free_gpu_memory_fraction" } else { name };
        let mut found = Vec::new();
        for (key, value) in &self.options {
            numbers(&format!("/{key}"), value, &mut found);
        }
        let path = format!("/{}", name.replace('.', "/"));
        found.retain(|pointer| *pointer == path || pointer.ends_with(&path));
        if let Some(exact) = found.iter().find(|pointer| **pointer == path) {
            return Some(exact.clone());
        }
        found.pop().filter(|_| found.is_empty())
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

fn trtllm_serve() -> String {
    "trtllm-serve".to_owned()
}
fn pytorch() -> String {
    "pytorch".to_owned()
}
fn everywhere() -> String {
    "0.0.0.0".to_owned()
}
const fn one() -> u32 {
    1
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
