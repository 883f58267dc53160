//! `launch_triton_server.py` of the TensorRT-LLM backend → a `serve: { triton: … }` stage.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::command_line::{Env, ToolTable, Translation, TranslationBuilder, TranslationError, manifest};
use base::spec::Quantity;

const TOOL: &str = "launch_triton_server.py";

pub(crate) static TABLE: LazyLock<ToolTable> =
    LazyLock::new(|| ToolTable::new(&[include_str!("../tools/launch-triton-server.toml")], &[]));

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
    let world = line.number::<u64>("--world_size").unwrap_or(Quantity::Known(1));
    if let (Some(text), None) = (line.value("--world_size"), line.number::<u64>("--world_size")) {
        builder.push_error(format!("`--world_size {text}` is not a whole number"));
    }
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
    TABLE.put_keys(&line, &mut server, builder);
    if !line.has("--force") {
        server.insert("force".to_owned(), json!(false));
    }
    if let Some(names) = line.value("--tensorrt_llm_model_name") {
        server.insert("tensorrt_llm_model_name".to_owned(), names.split(',').map(|name| json!(name.trim())).collect());
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
