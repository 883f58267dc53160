//! `trtllm-bench … throughput`: the same measurement as a stage, its numbers reported as its own.

use serde_json::{Map, Value, json};

use crate::command_line::options::ParsedLine;
use crate::command_line::program::Env;
use crate::command_line::translation::{Translation, TranslationBuilder, manifest};
use crate::command_line::translation_error::TranslationError;
use crate::command_line::visible_gpus::visible;
use base::spec::{Formula, NumberKind};

const BENCH: &str = "trtllm-bench";

/// What stands in front of it becomes its `launcher`.
pub(super) fn throughput(
    env: &Env,
    line: &ParsedLine,
    model: &str,
    content: &dyn Fn(&str) -> Option<String>,
    mut builder: TranslationBuilder,
) -> Result<Translation, TranslationError> {
    if let (Some(_), Some(backend @ ("pytorch" | "_autodeploy"))) =
        (line.value("--engine_dir"), line.value("--backend"))
    {
        let why = format!(
            "the line has no meaning here: --engine_dir is an engine of TensorRT's, and --backend {backend} reads none: leave one of the two out"
        );
        return TranslationBuilder::nothing(BENCH, why);
    }
    let mut keys = Map::from_iter([("model".to_owned(), json!(model))]);
    if line.has("--engine_dir") && !line.has("--backend") {
        keys.insert("backend".to_owned(), json!("tensorrt"));
        builder.note(
            "an engine is given: --backend tensorrt reads it, and was the default of the releases that build engines",
        );
    }
    let mut flags = Map::new();
    if !line.has("--dataset") {
        builder.push_error("trtllm-bench without --dataset reads its requests from stdin: give the file");
    }
    for given in &line.given {
        let name = &given.name[2..];
        let text = given.value();
        match given.name {
            "--model" => {}
            "--model_path" | "--engine_dir" | "--dataset" => {
                keys.insert(name.to_owned(), json!(text));
            }
            "--backend" if ["pytorch", "tensorrt", "_autodeploy"].contains(&text) => {
                keys.insert(name.to_owned(), json!(text));
            }
            "--tp"
            | "--pp"
            | "--ep"
            | "--max_batch_size"
            | "--max_num_tokens"
            | "--max_seq_len"
            | "--num_requests"
            | "--warmup"
            | "--concurrency"
            | "--kv_cache_free_gpu_mem_fraction" => match serde_json::from_str(text) {
                // 0 and -1 are its values for "all".
                Ok(Value::Number(number)) if name == "num_requests" && number.as_i64().is_some_and(|n| n < 1) => {}
                Ok(number @ Value::Number(_)) => {
                    keys.insert(name.to_owned(), number);
                }
                _ => {
                    let kind = if name.ends_with("fraction") { NumberKind::Any } else { NumberKind::Whole };
                    match Formula::read(text, kind) {
                        Some(formula) => drop(keys.insert(name.to_owned(), json!(formula.to_string()))),
                        None => builder.push_error(format!("`{} {text}` is no number", given.written)),
                    }
                }
            },
            "--streaming" => {
                keys.insert(name.to_owned(), json!(true));
            }
            "--extra_llm_api_options" => match content(text).and_then(|content| options(&content)) {
                Some(options) => {
                    keys.insert("options".to_owned(), Value::Object(options));
                    builder.reads(text);
                }
                None => builder.push_untranslated(
                    given.as_written(),
                    "the content of that file belongs under `options`, key by key",
                ),
            },
            "--report_json" => {
                builder.push_untranslated(
                    given.as_written(),
                    "the report is always requested; its numbers are in result.json",
                );
            }
            "--workspace" => {
                builder.push_untranslated(given.as_written(), "every stage has an output folder of its own");
            }
            "--log_level" | "--revision" => {
                builder.push_untranslated(given.as_written(), "`trtllm_bench:` has no such key yet");
            }
            _ if given.values.is_empty() => {
                flags.insert(name.to_owned(), json!(true));
            }
            _ => {
                flags.insert(name.to_owned(), json!(text));
            }
        }
    }
    keys.insert("launcher".to_owned(), json!([]));
    if !flags.is_empty() {
        keys.insert("flags".to_owned(), Value::Object(flags));
    }
    let mut stage = Map::from_iter([("gpus".to_owned(), json!(line.product(&["--tp", "--pp"])))]);
    visible(env, &mut builder);
    env.put_into(&mut stage);
    stage.insert("trtllm_bench".to_owned(), Value::Object(keys));
    builder.note("the numbers are trtllm-bench's own; behind a server it is `serve: trtllm_serve` and a `bench`");
    let stages = Map::from_iter([("throughput".to_owned(), Value::Object(stage))]);
    builder.finish(BENCH, manifest(BENCH, BENCH, stages))
}

/// The settings in a file of YAML; none where a shell would still change them.
fn options(content: &str) -> Option<Map<String, Value>> {
    let is_changed = content.contains(['$', '`']) || content.contains("{{");
    serde_yaml::from_str(content).ok().filter(|_| !is_changed)
}
