//! The backend's example clients, `inflight_batcher_llm_client.py` and `end_to_end_grpc_client.py`: one request each.

use std::sync::LazyLock;

use serde_json::Value;

use crate::command_line::{ParsedLine, ToolTable, Translation, TranslationBuilder, TranslationError, TranslationKind};

/// Options of both clients that are tensors of the request.
const TENSORS: &str = include_str!("../tools/grpc-client-tensors.toml");

pub(crate) static INFLIGHT: LazyLock<ToolTable> =
    LazyLock::new(|| ToolTable::new(&[include_str!("../tools/inflight-batcher-llm-client.toml"), TENSORS], &[]));

/// Its prompt, where none is given.
const PROMPT: &str = "Born in north-east France, Soyer trained as a";

pub(crate) fn inflight_batcher_llm_client(words: &[String]) -> Result<Translation, TranslationError> {
    const TOOL: &str = "inflight_batcher_llm_client.py";
    let mut builder = TranslationBuilder::default();
    let line = INFLIGHT.read_words(words, &mut builder);
    let model = line.value("--tensorrt-llm-model-name").or(line.value("--model-name")).unwrap_or("tensorrt_llm");
    let mut command = request(line.value("--url"), model);
    if let Some(ids) = line.value("--input-tokens-csv") {
        command.extend(["--input-ids".to_owned(), ids.to_owned()]);
    } else {
        // Its tokenizer is Python's; the model of the five that takes text has it on the server.
        "ensemble".clone_into(&mut command[4]);
        command.extend(["--text".to_owned(), line.value("--text").unwrap_or(PROMPT).to_owned()]);
        builder.note(
            "the text goes to `ensemble`, whose preprocessing has the tokenizer; `--input-ids` goes to `tensorrt_llm`",
        );
    }
    command.extend(["--max-tokens".to_owned(), line.value("--request-output-len").unwrap_or("16").to_owned()]);
    if line.has("--streaming") {
        command.push("--stream".to_owned());
    }
    tensors(&line, &mut command);
    if let Some(ms) = line.value("--stop-after-ms") {
        match ms.parse::<f64>() {
            Ok(ms) => command.extend(["--stop-after".to_owned(), format!("{}", ms / 1000.0)]),
            Err(_) => builder.push_error(format!("`--stop-after-ms {ms}` is not a number")),
        }
        builder.note("the request is cancelled, as with --stop-via-request-cancel; no second one with `stop` is sent");
    }
    line.given.iter().for_each(|given| INFLIGHT.push_untranslated(given, &mut builder));
    builder.finish(TOOL, TranslationKind::Commands(vec![command]))
}

pub(crate) static END_TO_END: LazyLock<ToolTable> =
    LazyLock::new(|| ToolTable::new(&[include_str!("../tools/end-to-end-grpc-client.toml"), TENSORS], &[]));

pub(crate) fn end_to_end_grpc_client(words: &[String]) -> Result<Translation, TranslationError> {
    const TOOL: &str = "end_to_end_grpc_client.py";
    let mut builder = TranslationBuilder::default();
    let line = END_TO_END.read_words(words, &mut builder);
    let prompt = line.value("--prompt").unwrap_or_default();
    let prompts = match serde_json::from_str::<Value>(prompt) {
        Ok(Value::Array(prompts)) => {
            prompts.iter().map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned)).collect()
        }
        _ => vec![prompt.to_owned()],
    };
    if prompt.is_empty() {
        builder.push_error(format!("{TOOL} needs a prompt: -p TEXT"));
    }
    if line.has("--batch-inputs") {
        builder.note(format!(
            "--batch-inputs sends {} prompts in one request; Regatta sends each as a request, and the server \
            batches them",
            prompts.len()
        ));
    }
    let mut commands = Vec::new();
    for prompt in prompts {
        let mut command = request(line.value("--url"), line.value("--model-name").unwrap_or("ensemble"));
        command.extend(["--text".to_owned(), prompt, "--max-tokens".to_owned()]);
        command.push(line.value("--output-len").or(line.value("--request-output-len")).unwrap_or("16").to_owned());
        if line.has("--streaming") {
            command.push("--stream".to_owned());
        }
        tensors(&line, &mut command);
        commands.push(command);
    }
    line.given.iter().for_each(|given| END_TO_END.push_untranslated(given, &mut builder));
    builder.finish(TOOL, TranslationKind::Commands(commands))
}

fn request(url: Option<&str>, model: &str) -> Vec<String> {
    ["regatta", "triton", "infer", url.unwrap_or("localhost:8001"), model].map(str::to_owned).to_vec()
}

/// The options of a line that are tensors of the request. Models of text have them without `runtime_`.
fn tensors(line: &ParsedLine, command: &mut Vec<String>) {
    let takes_ids = command.iter().any(|word| word == "--input-ids");
    for given in &line.given {
        let Some(row) = line.table.and_then(|table| table.row(given.name)) else { continue };
        let Some(tensor) = &row.sets else { continue };
        let name = if takes_ids { tensor } else { tensor.trim_start_matches("runtime_") };
        let value = match given.values.first() {
            Some(number) if row.is_number() => number.clone(),
            text => text.map_or(Value::from(true), |text| Value::from(text.as_str())).to_string(),
        };
        command.extend(["--input".to_owned(), format!("{name}={value}")]);
    }
}
