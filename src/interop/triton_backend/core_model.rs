//! `benchmark_core_model.py` of the TensorRT-LLM backend.

use std::path::Path;
use std::sync::LazyLock;

use serde_json::json;

use crate::command_line::load::TranslatedLoad;
use crate::command_line::options::GivenOption;
use crate::command_line::translation::{ScriptBench, TranslatedScript, Translation, TranslationKind};
use crate::command_line::translation_error::TranslationError;
use crate::command_line::{Compute, ParsedLine, ToolTable};
use base::spec::Quantity;

const TOOL: &str = "benchmark_core_model.py";

pub(crate) static TABLE: LazyLock<ToolTable> = LazyLock::new(|| {
    let functions: &[(&str, Compute)] = &[
        ("longest_prompt", longest_prompt),
        ("arrivals", |load, _, given| {
            load.put("arrivals", if given.value() == "constant" { "constant" } else { "poisson" });
            true
        }),
        ("data", |load, _, given| {
            load.put("data", given.value());
            // Its own format is read as that kind.
            load.put("data.kind", "jsonl");
            true
        }),
        ("tokenizer", tokenizer),
    ];
    ToolTable::new(&[include_str!("../tools/benchmark-core-model.toml")], functions)
});

/// `--max-input-len` of a data set: records with longer prompts are left out.
pub(super) fn leave_longer_prompts(given: &GivenOption, load: &mut TranslatedLoad) {
    match given.number::<u32>() {
        Some(most) if most != Quantity::Known(0) => {
            load.set("data", json!({ "max_input_tokens": most }));
        }
        _ => load.builder.push_error(format!("`{}`: a whole number from 1 on", given.as_written())),
    }
}

fn longest_prompt(load: &mut TranslatedLoad, line: &ParsedLine, given: &GivenOption) -> bool {
    if line.has("--dataset") {
        leave_longer_prompts(given, load);
    } else {
        load.put("data.max_input_tokens", given.value());
    }
    true
}

fn tokenizer(load: &mut TranslatedLoad, _: &ParsedLine, given: &GivenOption) -> bool {
    let value = given.value();
    load.put("tokenizer", value);
    // A folder that is not looked into: it is on another machine, or the user names it.
    if value.starts_with(['/', '{']) {
        let is_file = Path::new(value).extension().is_some_and(|suffix| suffix == "json");
        let file = if is_file { "" } else { "/tokenizer.json" };
        load.set("tokenizer", json!(format!("{}{file}", value.trim_end_matches('/'))));
    }
    true
}

pub(crate) fn translate(words: &[String]) -> Result<Translation, TranslationError> {
    let mut load = TranslatedLoad::default();
    let line = TABLE.read_words(words, &mut load.builder);
    // Its page writes them with `_`.
    let kinds: Vec<String> = line.plain.iter().map(|kind| kind.replace('_', "-")).collect();
    match kinds.as_slice() {
        [kind] if ["dataset", "token-norm-dist"].contains(&kind.as_str()) => {}
        [kind] if kind == "token-from-histogram" => load.builder.push_error(
            "`token-from-histogram` has its lengths in the script; write them as `input_tokens: { empirical: … }`",
        ),
        [] => load.builder.push_error(format!("{TOOL} needs `dataset`, `token-norm-dist` or `token-from-histogram`")),
        words => load.builder.push_error(format!(
            "`{}`: {TOOL} takes one of dataset, token-norm-dist, token-from-histogram",
            words.join(" ")
        )),
    }
    load.target(line.value("--url").unwrap_or("localhost:8001"));
    load.put("model", line.value("--tensorrt-llm-model-name").unwrap_or("tensorrt_llm"));
    load.put("protocol", "kserve");
    if line.value("--protocol").unwrap_or("http") == "http" {
        load.builder.note("its default is KServe v2 over HTTP; here KServe is used over gRPC: check the port");
    }
    TABLE.apply(&line, &mut load);
    if !load.has("rate") {
        load.put("rate", "-1");
    }
    if !load.has("stop.requests") && !load.has("data") {
        load.put("stop.requests", "30000");
    }
    // Its own.
    load.put("warmup", "10");
    load.streaming(line.has("--decoupled"));
    let models: Vec<&str> =
        line.given.iter().filter(|given| given.name == "--tensorrt-llm-model-name").map(GivenOption::value).collect();
    if models.len() < 2 {
        return load.finish(TOOL);
    }
    let mut builder = std::mem::take(&mut load.builder);
    builder.note("there each request goes to all models at the same time; here they are measured one after the other");
    let benches = models.iter().map(|model| {
        let mut load = load.clone();
        load.put("model", *model);
        ScriptBench { server: None, bench: load.bench() }
    });
    let benches = benches.collect();
    builder.finish(TOOL, TranslationKind::Script(TranslatedScript { benches, ..TranslatedScript::default() }))
}
