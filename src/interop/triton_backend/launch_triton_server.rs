//! `launch_triton_server.py` of the TensorRT-LLM backend → a `serve: { triton: … }` stage.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::command_line::{Env, ParsedLine, ToolTable, Translation, TranslationBuilder, TranslationError, manifest};
use base::spec::Quantity;

const TOOL: &str = "launch_triton_server.py";

pub(crate) static TABLE: LazyLock<ToolTable> =
    LazyLock::new(|| ToolTable::new(&[include_str!("../tools/launch-triton-server.toml")], &[]));

/// How an option becomes the value of a key.
enum ServerSetting {
    /// A number, with the script's default where that differs from Regatta's.
    Number(Option<u64>),
    On,
    /// The key is off where the line does not have the option.
    OffWithout,
    Names,
}

/// Options and the keys of `serve.triton` that they set.
const SETTINGS: [(&str, &str, ServerSetting); 9] = [
    ("--grpc_port", "grpc_port", ServerSetting::Number(Some(8001))),
    ("--http_port", "http_port", ServerSetting::Number(Some(8000))),
    ("--metrics_port", "metrics_port", ServerSetting::Number(Some(8002))),
    ("--exit_timeout", "exit_timeout_secs", ServerSetting::Number(None)),
    ("--multimodal_gpu0_cuda_mem_pool_bytes", "multimodal_gpu0_cuda_mem_pool_bytes", ServerSetting::Number(None)),
    ("--oversubscribe", "oversubscribe", ServerSetting::On),
    ("--trtllm_llmapi_launch", "trtllm_llmapi_launch", ServerSetting::On),
    ("--force", "force", ServerSetting::OffWithout),
    ("--tensorrt_llm_model_name", "tensorrt_llm_model_name", ServerSetting::Names),
];

pub(crate) fn translate(env: &Env, words: &[String]) -> Result<Translation, TranslationError> {
    let mut builder = TranslationBuilder::default();
    let stage = stage(env, words, &mut builder);
    let stages = Map::from_iter([("triton".to_owned(), stage)]);
    builder.finish(TOOL, manifest("triton", TOOL, stages))
}

/// The stage, with the folder of its models as it was written.
pub(crate) fn stage(env: &Env, words: &[String], builder: &mut TranslationBuilder) -> Value {
    let line = TABLE.read(words, builder);
    let mut server = Map::new();
    if let Some(folder) = line.value("--model_repo") {
        server.insert("repository".to_owned(), json!(folder));
    } else {
        // The script's own default is a folder that is not there any more.
        let required = builder.require("model_repo");
        server.insert("repository".to_owned(), json!(required));
    }
    if let Some(program) = line.value("--tritonserver") {
        server.insert("program".to_owned(), json!(program));
    }
    let world = number(&line, "--world_size", builder).unwrap_or(Quantity::Known(1));
    let is_multi = line.has("--multi-model");
    match (is_multi, &world) {
        (true, _) => {
            server.insert("mode".to_owned(), json!("orchestrator"));
            if line.has("--disable-spawn-processes") {
                server.insert("spawn_processes".to_owned(), json!(false));
                server.insert("world_size".to_owned(), json!(world));
            }
        }
        (false, Quantity::Known(0 | 1)) => {}
        (false, _) => {
            server.insert("mode".to_owned(), json!("leader"));
            server.insert("world_size".to_owned(), json!(world));
        }
    }
    if line.has("--no-mpi") {
        server.insert("launcher".to_owned(), json!("none"));
    }
    for (option, key, setting) in SETTINGS {
        let value = match setting {
            ServerSetting::Number(default) => {
                number(&line, option, builder).or(default.map(Quantity::Known)).map(|number| json!(number))
            }
            ServerSetting::On => line.has(option).then(|| json!(true)),
            ServerSetting::OffWithout => (!line.has(option)).then(|| json!(false)),
            ServerSetting::Names => {
                line.value(option).map(|names| names.split(',').map(|name| json!(name.trim())).collect())
            }
        };
        server.extend(value.map(|value| (key.to_owned(), value)));
    }
    let file = line.value("--log-file");
    if line.has("--log") {
        server.insert("log_verbose".to_owned(), json!(3));
        server.insert("log_file".to_owned(), json!(file.unwrap_or("triton_log.txt")));
    } else if let Some(file) = file {
        builder.push_untranslated(
            format!("--log-file {file}"),
            "without --log the script does not use it; the log is that of the task",
        );
    }
    let gpus = if is_multi && line.has("--disable-spawn-processes") {
        world.combine("-", 1_u64, u64::saturating_sub)
    } else {
        world
    };
    let mut stage = Map::new();
    let gpus = env.gpus(builder).map_or(gpus, Quantity::Known);
    // An orchestrator's models set how many it takes.
    if !is_multi || line.has("--disable-spawn-processes") || env.has("CUDA_VISIBLE_DEVICES") {
        stage.insert("gpus".to_owned(), json!(gpus));
    }
    env.put_into(&mut stage);
    stage.insert("serve".to_owned(), json!({"triton": server}));
    Value::Object(stage)
}

fn number(line: &ParsedLine, option: &str, builder: &mut TranslationBuilder) -> Option<Quantity<u64>> {
    let text = line.value(option)?;
    let number = line.number::<u64>(option);
    if number.is_none() {
        builder.push_error(format!("`{option} {text}` is no whole number"));
    }
    number
}
