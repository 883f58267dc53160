//! `trtllm-serve`'s command line → a `serve: { trtllm_serve: … }` stage.

use serde_json::{Map, Value, json};

use crate::command_line::json_number::quantity;
use crate::command_line::options::{Opt, flag, one, read};
use crate::command_line::program::Env;
use crate::command_line::translation::{Translation, TranslationBuilder, manifest};
use crate::command_line::translation_error::TranslationError;
use crate::command_line::visible_gpus::visible;
use crate::command_server::ServerProgram;
use base::spec::Quantity;

const SERVE: &str = "trtllm-serve";
#[rustfmt::skip]
static SERVES: &[Opt] = &[
    one(&["--tokenizer"]), one(&["--custom_tokenizer"]), one(&["--host"]), one(&["--port"]), one(&["--backend"]), one(&["--max_beam_width"]), one(&["--max_batch_size"]),
    one(&["--max_num_tokens"]), one(&["--max_seq_len"]), one(&["--tp_size", "--tensor_parallel_size"]), one(&["--pp_size", "--pipeline_parallel_size"]), one(&["--cp_size", "--context_parallel_size"]),
    one(&["--ep_size", "--moe_expert_parallel_size"]), one(&["--cluster_size", "--moe_cluster_parallel_size"]), one(&["--gpus_per_node"]),
    one(&["--kv_cache_free_gpu_memory_fraction", "--free_gpu_memory_fraction"]), one(&["--kv_cache_dtype"]), one(&["--num_postprocess_workers"]),
    flag(&["--trust_remote_code"]), one(&["--extra_llm_api_options", "--config"]), one(&["--set"]), one(&["--reasoning_parser"]), one(&["--tool_parser"]), one(&["--served_model_name"]),
    one(&["--chat_template"]), one(&["--server_role"]), one(&["--metadata_server_config_file"]), one(&["--otlp_traces_endpoint"]), one(&["--disagg_cluster_uri"]),
    flag(&["--enable_chunked_prefill"]), flag(&["--enable_attention_dp"]), flag(&["--fail_fast_on_attention_window_too_large"]), one(&["--log_level"]), one(&["--revision"]), one(&["--media_io_kwargs"]),
    one(&["--video_pruning_rate"]), one(&["--custom_module_dirs"]), flag(&["--grpc"]), flag(&["--telemetry"]), flag(&["--no-telemetry"]),
];

/// `trtllm-serve MODEL …`: its own line, with its readiness and its end looked after.
pub(crate) fn translate(env: &Env, words: &[String]) -> Result<Translation, TranslationError> {
    let mut builder = TranslationBuilder::default();
    let words = if words.first().is_some_and(|word| word == "serve") { &words[1..] } else { words };
    let line = read(SERVE, SERVES, words, &mut builder);
    let model = match line.plain.as_slice() {
        [model]
            if !["disaggregated", "grpc", "mm_embedding_serve", "embeddings", "disaggregated_mpi_worker"]
                .contains(&model.as_str()) =>
        {
            model.clone()
        }
        [] => {
            builder.push_error("trtllm-serve needs a model: a name, a checkpoint or an engine folder");
            String::new()
        }
        words => {
            builder.push_error(format!(
                "`trtllm-serve {}`: one model, served over OpenAI's interface, can be imported",
                words.join(" ")
            ));
            String::new()
        }
    };
    if line.has("--grpc") {
        builder.push_error("`trtllm-serve --grpc`: one model, served over OpenAI's interface, can be imported");
    }
    visible(env, &mut builder);
    let mut server = ServeStage::of(&model);
    server.put("--port", &[line.value("--port").unwrap_or("8000").to_owned()], &mut builder);
    for given in line.given.iter().filter(|given| given.name != "--port") {
        server.put(given.name, &given.values, &mut builder);
    }
    let stages = Map::from_iter([("server".to_owned(), server.stage(env))]);
    builder.finish(SERVE, manifest("trtllm-serve", SERVE, stages))
}

/// Its line as it was written, for one that something else starts: ranks on several nodes, a profiler.
static AS_WRITTEN: ServerProgram = ServerProgram {
    tool: SERVE,
    own: &[
        one(&["--port"]),
        one(&["--extra_llm_api_options", "--config"]),
        one(&["--chat_template"]),
        one(&["--metadata_server_config_file"]),
    ],
    ranks: &[one(&["--tp_size", "--tensor_parallel_size"]), one(&["--pp_size", "--pipeline_parallel_size"])],
    port: "--port",
    usual_port: 8000,
    key_variable: None,
    typed: None,
};

/// The line unchanged: a `serve: { command: … }` stage.
pub(crate) fn as_written(env: &Env, words: &[String]) -> Result<Translation, TranslationError> {
    AS_WRITTEN.translate(&[SERVE], env, words)
}

/// A `serve: { trtllm_serve: … }` stage in the making.
pub(crate) struct ServeStage {
    keys: Map<String, Value>,
    args: Vec<String>,
    inputs: Map<String, Value>,
}

impl ServeStage {
    pub fn of(model: &str) -> Self {
        Self { keys: Map::from_iter([("model".to_owned(), json!(model))]), args: Vec::new(), inputs: Map::new() }
    }

    /// An option of trtllm-serve: a key where there is one, else unchanged.
    pub fn put(&mut self, option: &'static str, values: &[String], builder: &mut TranslationBuilder) {
        let key = match option {
            // The key has the other two.
            "--backend" if values.first().is_some_and(|name| name.starts_with('_')) => {
                self.args.push(option.to_owned());
                return self.args.extend(values.iter().cloned());
            }
            "--tp_size" => "tensor_parallelism",
            "--pp_size" => "pipeline_parallelism",
            "--ep_size" => "moe_expert_parallelism",
            "--port"
            | "--max_batch_size"
            | "--max_num_tokens"
            | "--max_seq_len"
            | "--max_beam_width"
            | "--num_postprocess_workers"
            | "--tokenizer"
            | "--host"
            | "--backend" => &option[2..],
            // A relative path has no meaning where the server is started.
            "--extra_llm_api_options" | "--chat_template" | "--metadata_server_config_file" => {
                let name = option[2..].to_owned();
                self.args.extend([option.to_owned(), format!("{{{{ inputs.{name} }}}}")]);
                self.inputs.insert(name, json!(values.first()));
                return;
            }
            _ => {
                self.args.push(option.to_owned());
                return self.args.extend(values.iter().cloned());
            }
        };
        let text = values.first().map_or("", String::as_str);
        let value = match (key, text.parse::<Quantity<u32>>()) {
            ("tokenizer" | "host" | "backend", _) => json!(text),
            (_, Ok(number)) => json!(number),
            _ => return builder.push_error(format!("`{option} {text}` is no whole number")),
        };
        self.keys.insert(key.to_owned(), value);
    }

    pub fn stage(mut self, env: &Env) -> Value {
        let ranks =
            |key: &str| self.keys.get(key).and_then(quantity).map_or(Quantity::Known(1), |n| n.map(|n| n.max(1)));
        let gpus = ranks("tensor_parallelism").times(ranks("pipeline_parallelism"));
        if !self.args.is_empty() {
            self.keys.insert("args".to_owned(), json!(self.args));
        }
        let mut stage = Map::from_iter([("gpus".to_owned(), json!(gpus))]);
        if !self.inputs.is_empty() {
            stage.insert("inputs".to_owned(), Value::Object(self.inputs));
        }
        env.put_into(&mut stage);
        stage.insert("serve".to_owned(), json!({"trtllm_serve": self.keys}));
        Value::Object(stage)
    }
}
