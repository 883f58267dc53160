//! `serve: { trtllm_serve: … }` — TensorRT-LLM's own server, which speaks OpenAI's interfaces.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::serve::ReadyWhen;

/// `trtllm-serve`, once for each copy of the model: its GPUs are shared evenly, tp × pp for each. Asked over HTTP: `protocol: openai-completions` or `openai-chat`.
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
    /// The Python that has TensorRT-LLM, in place of `program`: `PYTHON -m tensorrt_llm.commands.serve`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
    /// Folder of the tokenizer, where it is not the model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<String>,
    /// `pytorch`, or `tensorrt` for an engine. [default: pytorch]
    #[serde(default = "pytorch")]
    pub backend: String,
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub tensor_parallelism: u32,
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub pipeline_parallelism: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub moe_expert_parallelism: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_batch_size: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_num_tokens: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_seq_len: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_beam_width: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_postprocess_workers: Option<u32>,
    /// Everything else that TensorRT-LLM's LLM takes, by its names: written to a file, named with `--extra_llm_api_options`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub options: IndexMap<String, Value>,
    /// Further arguments, as they stand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Servers. Not given: as many as the leased GPUs allow, one without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
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

    /// GPUs of one server.
    pub const fn ranks(&self) -> u32 {
        self.tensor_parallelism * self.pipeline_parallelism
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
