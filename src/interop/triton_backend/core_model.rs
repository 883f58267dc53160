//! `benchmark_core_model.py` of the TensorRT-LLM backend.

use std::path::Path;

use serde_json::json;

use crate::command_line::load::TranslatedLoad;
use crate::command_line::options::{GivenOption, Opt, flag, one, read};
use crate::command_line::translation::{
    ScriptBench, TranslatedScript, Translation, TranslationBuilder, TranslationKind,
};
use crate::command_line::translation_error::TranslationError;
use base::spec::Quantity;

const TOOL: &str = "benchmark_core_model.py";

#[rustfmt::skip]
static TABLE: &[Opt] = &[
    one(&["--protocol", "-i"]), one(&["--url", "-u"]), one(&["--concurrency", "-c"]), one(&["--max-input-len"]), one(&["--request-rate"]),
    one(&["--time-delay-dist"]), one(&["--num-requests"]), flag(&["--decoupled"]), one(&["--stream-timeout", "-t"]), flag(&["--exclude-input-in-output"]),
    one(&["--tensorrt-llm-model-name"]), one(&["--op-stats-csv"]), one(&["--dump-perfetto-trace"]), one(&["--check-perf-json"]), one(&["--check-perf-key"]),
    one(&["--check-perf-atol"]), one(&["--check-perf-rtol"]), flag(&["--test-llmapi"]), flag(&["--verbose", "-v"]), one(&["--lora-path"]),
    one(&["--dataset"]), one(&["--tokenizer-dir"]), one(&["--tokenizer-type"]), one(&["--op-tokens-per-word"]),
    one(&["--input-mean"]), one(&["--input-stdev"]), one(&["--output-mean"]), one(&["--output-stdev"]), one(&["--histogram-key"]),
];

/// `--max-input-len` of a data set: records with longer prompts are left out.
pub(super) fn leave_longer_prompts(given: &GivenOption, load: &mut TranslatedLoad, builder: &mut TranslationBuilder) {
    match given.number::<u32>() {
        Some(most) if most != Quantity::Known(0) => {
            load.set("data", json!({ "max_input_tokens": most }));
        }
        _ => builder.push_error(format!("`{}`: a whole number from 1 on", given.as_written())),
    }
}

pub(crate) fn translate(words: &[String]) -> Result<Translation, TranslationError> {
    let mut builder = TranslationBuilder::default();
    let line = read(TOOL, TABLE, words, &mut builder);
    let mut load = TranslatedLoad::default();
    // Its page writes them with `_`.
    let kinds: Vec<String> = line.plain.iter().map(|kind| kind.replace('_', "-")).collect();
    match kinds.as_slice() {
        [kind] if ["dataset", "token-norm-dist"].contains(&kind.as_str()) => {}
        [kind] if kind == "token-from-histogram" => builder.push_error(
            "`token-from-histogram` has its lengths in the script; write them as `input_tokens: { empirical: … }`",
        ),
        [] => builder.push_error(format!("{TOOL} needs `dataset`, `token-norm-dist` or `token-from-histogram`")),
        words => builder.push_error(format!(
            "`{}`: {TOOL} takes one of dataset, token-norm-dist, token-from-histogram",
            words.join(" ")
        )),
    }
    load.target(line.value("--url").unwrap_or("localhost:8001"));
    load.put("model", line.value("--tensorrt-llm-model-name").unwrap_or("tensorrt_llm"));
    load.put("protocol", "kserve");
    if line.value("--protocol").unwrap_or("http") == "http" {
        builder.note("its default is KServe v2 over HTTP; here KServe is used over gRPC: check the port");
    }
    for given in &line.given {
        if !length(given, &mut load) {
            option(given, line.has("--dataset"), &mut load, &mut builder);
        }
    }
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
        return builder.finish(TOOL, load.means());
    }
    builder.note("there each request goes to all models at the same time; here they are measured one after the other");
    let benches = models.iter().map(|model| {
        let mut load = load.clone();
        load.put("model", *model);
        ScriptBench { server: None, bench: load.bench() }
    });
    let benches = benches.collect();
    builder.finish(TOOL, TranslationKind::Script(TranslatedScript { benches, ..TranslatedScript::default() }))
}

/// Mean and deviation of a length.
fn length(given: &GivenOption, load: &mut TranslatedLoad) -> bool {
    let key = match given.name {
        "--input-mean" => "input_tokens",
        "--input-stdev" => "input_tokens.normal.stddev",
        "--output-mean" => "output_tokens",
        "--output-stdev" => "output_tokens.normal.stddev",
        _ => return false,
    };
    load.length(key, given.value());
    true
}

fn option(given: &GivenOption, has_data: bool, load: &mut TranslatedLoad, builder: &mut TranslationBuilder) {
    let value = given.value();
    match given.name {
        "--protocol" | "--url" | "--decoupled" | "--tensorrt-llm-model-name" => {}
        "--max-input-len" if has_data => {
            leave_longer_prompts(given, load, builder);
        }
        "--max-input-len" => load.put("data.max_input_tokens", value),
        "--request-rate" => load.put("rate", value),
        "--time-delay-dist" => load.put("arrivals", if value == "constant" { "constant" } else { "poisson" }),
        "--num-requests" => load.put("stop.requests", value),
        "--stream-timeout" => load.put("stall_timeout", format!("{value}s")),
        "--dataset" => {
            load.put("data", value);
            // Its own format is read as that kind.
            load.put("data.kind", "jsonl");
        }
        "--tokenizer-dir" => {
            load.put("tokenizer", value);
            // A folder that is not looked into: it is on another machine, or the user names it.
            if value.starts_with(['/', '{']) {
                let is_file = Path::new(value).extension().is_some_and(|suffix| suffix == "json");
                let file = if is_file { "" } else { "/tokenizer.json" };
                load.set("tokenizer", json!(format!("{}{file}", value.trim_end_matches('/'))));
            }
        }
        "--exclude-input-in-output" => {
            builder
                .push_untranslated(given.as_written(), "an answer's tokens are counted without the prompt in any case");
        }
        "--concurrency" => {
            builder.push_untranslated(
                given.as_written(),
                "they are its HTTP connections; here every request is sent at its time",
            );
        }
        "--check-perf-json" | "--check-perf-key" | "--check-perf-atol" | "--check-perf-rtol" => {
            builder.push_untranslated(
                given.as_written(),
                "a limit against an older result is `regatta compare OLD NEW --fail-if 'e2e_p99>5%'`",
            );
        }
        "--op-stats-csv" | "--dump-perfetto-trace" => {
            builder.push_untranslated(given.as_written(), "requests.jsonl has every request");
        }
        "--tokenizer-type" => builder.push_untranslated(given.as_written(), "tokenizer.json names its own type"),
        "--op-tokens-per-word" => {
            builder.push_untranslated(given.as_written(), "tokens are counted, not estimated from the number of words");
        }
        "--test-llmapi" => {
            builder.push_untranslated(given.as_written(), "the model's own inputs are read from the server");
        }
        "--verbose" => builder.push_untranslated(given.as_written(), "`regatta -v` prints more"),
        _ => builder.push_untranslated(given.as_written(), "there is nothing like it here"),
    }
}
