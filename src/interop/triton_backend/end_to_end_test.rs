//! `end_to_end_test.py` of the TensorRT-LLM backend: the prompts of a data set, all at once.

use super::core_model::leave_longer_prompts;
use crate::command_line::load::TranslatedLoad;
use crate::command_line::options::{GivenOption, Opt, flag, one, read};
use crate::command_line::translation::{Translation, TranslationBuilder};
use crate::command_line::translation_error::TranslationError;

const TOOL: &str = "end_to_end_test.py";

#[rustfmt::skip]
static TABLE: &[Opt] = &[
    flag(&["--verbose", "-v"]), one(&["--url", "-u"]), one(&["--protocol", "-i"]), one(&["--concurrency", "-c"]), one(&["--max-input-len"]), one(&["--dataset"]), one(&["--model-name"]),
    flag(&["--return-log-probs"]), flag(&["--return-context-logits"]), flag(&["--return-generation-logits"]), flag(&["--test-bls"]), flag(&["--test-llmapi"]), flag(&["--streaming"]),
    one(&["--output-config"]), one(&["--sampling-params"]),
];

pub(crate) fn translate(words: &[String]) -> Result<Translation, TranslationError> {
    let mut builder = TranslationBuilder::default();
    let line = read(TOOL, TABLE, words, &mut builder);
    for word in line.plain.iter().chain(&line.behind) {
        builder.push_error(format!("`{word}`: {TOOL} takes options only"));
    }
    let is_grpc = line.value("--protocol") == Some("grpc");
    let mut load = TranslatedLoad::default();
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
        None => builder.push_error(format!("{TOOL} needs --dataset FILE")),
    }
    if !is_grpc {
        builder
            .note("its default is KServe v2 over HTTP; here the same server is used over `generate`, on the same port");
    }
    builder.note("before it measures, it compares the answers of `ensemble` with those of its parts; here `regatta triton infer` sends one request to each");
    for given in &line.given {
        if given.name == "--max-input-len" {
            leave_longer_prompts(given, &mut load, &mut builder);
            builder.note(
                "there the limit is for words by 1.3; here it is for tokens, or for words where there is no tokenizer",
            );
        } else {
            option(given, &mut builder);
        }
    }
    builder.finish(TOOL, load.means())
}

fn option(given: &GivenOption, builder: &mut TranslationBuilder) {
    let reason = match given.name {
        "--url" | "--protocol" | "--dataset" | "--model-name" | "--streaming" => return,
        "--test-llmapi" => "the model's own inputs are read from the server",
        "--concurrency" => "they are its HTTP connections; here every request is sent at its time",
        "--return-log-probs" | "--return-context-logits" | "--return-generation-logits" => {
            "further outputs are requested with `bench.request`; `regatta triton infer --input` requests them once"
        }
        "--test-bls" => "a measurement drives one model: --model tensorrt_llm_bls is another",
        "--verbose" => "`regatta -v` prints more",
        _ => "there is nothing like it here",
    };
    builder.push_untranslated(given.as_written(), reason);
}
