//! `end_to_end_test.py` of the TensorRT-LLM backend: the prompts of a data set, all at once.

use std::sync::LazyLock;

use super::core_model::leave_longer_prompts;
use crate::command_line::load::TranslatedLoad;
use crate::command_line::translation::Translation;
use crate::command_line::translation_error::TranslationError;
use crate::command_line::{GivenOption, ParsedLine, ToolTable};

const TOOL: &str = "end_to_end_test.py";

pub(crate) static TABLE: LazyLock<ToolTable> = LazyLock::new(|| {
    ToolTable::new(&[include_str!("../tools/end-to-end-test.toml")], &[("longest_prompt", longest_prompt)])
});

fn longest_prompt(load: &mut TranslatedLoad, _: &ParsedLine, given: &GivenOption) -> bool {
    leave_longer_prompts(given, load);
    load.builder
        .note("there the limit is for words by 1.3; here it is for tokens, or for words where there is no tokenizer");
    true
}

pub(crate) fn translate(words: &[String]) -> Result<Translation, TranslationError> {
    let mut load = TranslatedLoad::default();
    let line = TABLE.read(words, &mut load.builder);
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
            .note("its default is KServe v2 over HTTP; here the same server is used over `generate`, on the same port");
    }
    load.builder.note(
        "before it measures, it compares the answers of `ensemble` with those of its parts; here `regatta triton \
        infer` sends one request to each",
    );
    TABLE.apply(&line, &mut load);
    load.finish(TOOL)
}
