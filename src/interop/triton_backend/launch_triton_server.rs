//! `launch_triton_server.py` of the TensorRT-LLM backend → a `serve: { triton: … }` stage.

use serde_json::{Map, Value, json};

use crate::command_line::options::{Opt, ParsedLine, flag, one, read};
use crate::command_line::program::Env;
use crate::command_line::translation::{Translation, TranslationBuilder, manifest};
use crate::command_line::translation_error::TranslationError;
use base::spec::Quantity;

const TOOL: &str = "launch_triton_server.py";

#[rustfmt::skip]
static TABLE: &[Opt] = &[
    one(&["--world_size"]), one(&["--tritonserver"]), one(&["--grpc_port"]), one(&["--http_port"]), one(&["--metrics_port"]),
    flag(&["--force", "-f"]), flag(&["--log"]), one(&["--log-file"]), one(&["--model_repo"]), one(&["--tensorrt_llm_model_name"]),
    flag(&["--multi-model"]), flag(&["--disable-spawn-processes"]), one(&["--multimodal_gpu0_cuda_mem_pool_bytes"]),
    flag(&["--oversubscribe"]), flag(&["--no-mpi"]), flag(&["--trtllm_llmapi_launch"]), one(&["--exit_timeout"]),
];

/// Keys that take a number as it is, with the script's default where that differs from Regatta's.
const NUMBERS: [(&str, &str, Option<u64>); 5] = [
    ("--grpc_port", "grpc_port", Some(8001)),
    ("--http_port", "http_port", Some(8000)),
    ("--metrics_port", "metrics_port", Some(8002)),
    ("--exit_timeout", "exit_timeout_secs", None),
    ("--multimodal_gpu0_cuda_mem_pool_bytes", "multimodal_gpu0_cuda_mem_pool_bytes", None),
];

pub(crate) fn translate(env: &Env, words: &[String]) -> Result<Translation, TranslationError> {
    let mut builder = TranslationBuilder::default();
    let stage = stage(env, words, &mut builder);
    let stages = Map::from_iter([("triton".to_owned(), stage)]);
    builder.finish(TOOL, manifest("triton", TOOL, stages))
}

/// The stage, with the folder of its models as it was written.
pub(crate) fn stage(env: &Env, words: &[String], builder: &mut TranslationBuilder) -> Value {
    let line = read(TOOL, TABLE, words, builder);
    for word in line.plain.iter().chain(&line.behind) {
        builder.push_error(format!("`{word}`: {TOOL} takes options only"));
    }
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
    for (option, key, usual) in NUMBERS {
        if let Some(value) = number(&line, option, builder).or(usual.map(Quantity::Known)) {
            server.insert(key.to_owned(), json!(value));
        }
    }
    for (option, key) in [("--oversubscribe", "oversubscribe"), ("--trtllm_llmapi_launch", "trtllm_llmapi_launch")] {
        if line.has(option) {
            server.insert(key.to_owned(), json!(true));
        }
    }
    if !line.has("--force") {
        server.insert("force".to_owned(), json!(false));
    }
    if let Some(names) = line.value("--tensorrt_llm_model_name") {
        let names: Vec<&str> = names.split(',').map(str::trim).collect();
        server.insert("tensorrt_llm_model_name".to_owned(), json!(names));
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
