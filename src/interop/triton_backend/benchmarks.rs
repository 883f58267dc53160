//! The TensorRT-LLM backend's benchmarks, `benchmark_core_model.py` and `end_to_end_test.py`.

use std::path::Path;
use std::sync::LazyLock;

use serde_json::json;

use crate::command_line::{
    Compute, GivenOption, ParsedLine, ScriptBench, ToolTable, TranslatedLoad, TranslatedScript, Translation,
    TranslationError, TranslationKind,
};
use base::spec::Quantity;

pub(crate) static BENCHMARK_CORE_MODEL: LazyLock<ToolTable> = LazyLock::new(|| {
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
fn leave_longer_prompts(given: &GivenOption, load: &mut TranslatedLoad) {
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

/// `benchmark_core_model.py`: a load with a rate, over a data set or lengths.
pub(crate) fn benchmark_core_model(words: &[String]) -> Result<Translation, TranslationError> {
    const TOOL: &str = "benchmark_core_model.py";
    let mut load = TranslatedLoad::default();
    let line = BENCHMARK_CORE_MODEL.read_words(words, &mut load.builder);
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
        load.builder
            .note("`benchmark_core_model.py` uses KServe v2 over HTTP by default; Regatta uses gRPC: check the port");
    }
    BENCHMARK_CORE_MODEL.apply(&line, &mut load);
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
    builder.note(
        "`benchmark_core_model.py` sends each request to all models at the same time; Regatta measures \
    one model after the other",
    );
    let benches = models.iter().map(|model| {
        let mut load = load.clone();
        load.put("model", *model);
        ScriptBench { server: None, run: None, bench: load.bench(), place: String::new() }
    });
    let benches = benches.collect();
    builder.finish(TOOL, TranslationKind::Script(TranslatedScript { benches, ..TranslatedScript::default() }))
}

pub(crate) static END_TO_END_TEST: LazyLock<ToolTable> = LazyLock::new(|| {
    ToolTable::new(&[include_str!("../tools/end-to-end-test.toml")], &[("longest_prompt", longest_prompt_of_test)])
});

fn longest_prompt_of_test(load: &mut TranslatedLoad, _: &ParsedLine, given: &GivenOption) -> bool {
    leave_longer_prompts(given, load);
    load.builder
        .note("`end_to_end_test.py` limits words times 1.3; Regatta limits tokens, or words without a tokenizer");
    true
}

/// `end_to_end_test.py`: the prompts of a data set, all at once.
pub(crate) fn end_to_end_test(words: &[String]) -> Result<Translation, TranslationError> {
    const TOOL: &str = "end_to_end_test.py";
    let mut load = TranslatedLoad::default();
    let line = END_TO_END_TEST.read(words, &mut load.builder);
    let is_grpc = line.value("--protocol") == Some("grpc");
    load.target(line.value("--url").unwrap_or(if is_grpc { "localhost:8001" } else { "localhost:8000" }));
    load.put("protocol", if is_grpc { "kserve" } else { "generate" });
    load.put("model", line.value("--model-name").unwrap_or("ensemble"));
    load.put("rate", "-1");
    // Its own.
    load.put("warmup", "10");
    load.streaming(line.has("--streaming"));
    match line.value("--dataset") {
        Some(file) => {
            load.put("data", file);
            load.put("data.kind", "jsonl");
        }
        None => load.builder.push_error(format!("{TOOL} needs --dataset FILE")),
    }
    if !is_grpc {
        load.builder
            .note("`end_to_end_test.py` uses KServe v2 over HTTP by default; Regatta uses `generate` on the same port");
    }
    load.builder.note(
        "`end_to_end_test.py` first compares the answers of `ensemble` with those of its parts; `regatta triton \
        infer` sends one request to each",
    );
    END_TO_END_TEST.apply(&line, &mut load);
    load.finish(TOOL)
}
