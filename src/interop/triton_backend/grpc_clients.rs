//! The backend's example clients, `inflight_batcher_llm_client.py` and `end_to_end_grpc_client.py`: one request each.

use serde_json::Value;

use crate::command_line::options::{Opt, ParsedLine, flag, many, one, read};
use crate::command_line::translation::{Translation, TranslationBuilder, TranslationKind};
use crate::command_line::translation_error::TranslationError;

#[rustfmt::skip]
static INFLIGHT: &[Opt] = &[
    flag(&["--verbose", "-v"]), one(&["--url", "-u"]), one(&["--text", "-p"]), one(&["--input-tokens-csv"]), one(&["--output-tokens-csv"]),
    one(&["--end-id"]), one(&["--pad-id"]), one(&["--bad-words"]), one(&["--stop-words"]), one(&["--draft-tokens-csv"]), one(&["--logits-type"]),
    flag(&["--ssl", "-s"]), one(&["--stream-timeout", "-t"]), one(&["--root-certificates", "-r"]), one(&["--private-key"]), one(&["--certificate-chain", "-x"]), one(&["--grpc-compression-algorithm", "-C"]),
    flag(&["--streaming", "-S"]), flag(&["--early-stop", "-c"]), one(&["--request-output-len", "--request_output_len"]), one(&["--stop-after-ms"]), flag(&["--stop-via-request-cancel"]),
    one(&["--beam-width"]), one(&["--num-return-sequences"]), one(&["--temperature"]), one(&["--repetition-penalty"]), one(&["--presence-penalty"]), one(&["--frequency-penalty"]),
    one(&["--random-seed"]), one(&["--top-k"]), one(&["--top-p"]), flag(&["--check-output"]), flag(&["--return-log-probs"]), flag(&["--return-context-logits"]), flag(&["--return-generation-logits"]),
    one(&["--tokenizer-dir"]), one(&["--tokenizer-type"]), one(&["--request-id"]), one(&["--prompt-embedding-table-path"]), one(&["--lora-path"]), one(&["--lora-task-id"]),
    one(&["--model-name"]), one(&["--tensorrt-llm-model-name"]), flag(&["--exclude-input-in-output"]), flag(&["--return-perf-metrics"]), many(&["--requests"]),
];

/// Sampling options and the tensor of each.
const TENSORS: [(&str, &str); 12] = [
    ("--end-id", "end_id"),
    ("--pad-id", "pad_id"),
    ("--beam-width", "beam_width"),
    ("--temperature", "temperature"),
    ("--repetition-penalty", "repetition_penalty"),
    ("--presence-penalty", "presence_penalty"),
    ("--frequency-penalty", "frequency_penalty"),
    ("--random-seed", "random_seed"),
    ("--top-k", "runtime_top_k"),
    ("--top-p", "runtime_top_p"),
    ("--lora-task-id", "lora_task_id"),
    ("--num-return-sequences", "num_return_sequences"),
];

/// Further outputs, and the tensor that requests each.
const OUTPUTS: [(&str, &str); 4] = [
    ("--return-log-probs", "return_log_probs"),
    ("--return-context-logits", "return_context_logits"),
    ("--return-generation-logits", "return_generation_logits"),
    ("--return-perf-metrics", "return_perf_metrics"),
];

/// Its prompt, where none is given.
const PROMPT: &str = "Born in north-east France, Soyer trained as a";

pub(crate) fn inflight_batcher_llm_client(words: &[String]) -> Result<Translation, TranslationError> {
    const TOOL: &str = "inflight_batcher_llm_client.py";
    let mut builder = TranslationBuilder::default();
    let line = read(TOOL, INFLIGHT, words, &mut builder);
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
            Ok(ms) => command.extend(["--deadline".to_owned(), format!("{}", ms / 1000.0)]),
            Err(_) => builder.push_error(format!("`--stop-after-ms {ms}` is no number")),
        }
        builder.note("at the deadline the request is cancelled, as with --stop-via-request-cancel; no second request with `stop` is sent");
    }
    for given in &line.given {
        let reason = match given.name {
            "--tokenizer-dir" | "--tokenizer-type" => "the server's preprocessing has its own tokenizer",
            "--request-id" => "each request has an id of its own",
            "--verbose" => "`--json` prints the whole answer",
            "--check-output" | "--output-tokens-csv" => {
                "answers of a benchmark are kept: `regatta bench … -o DIR`, then `regatta compare`"
            }
            "--exclude-input-in-output" => "an answer's tokens are counted without the prompt in any case",
            "--ssl"
            | "--root-certificates"
            | "--private-key"
            | "--certificate-chain"
            | "--grpc-compression-algorithm" => {
                "a benchmark has `--cacert`, `--cert` and `--key`; a single request is sent in the clear"
            }
            "--stop-via-request-cancel" | "--stream-timeout" | "--early-stop" => "`--deadline` ends the request",
            "--bad-words"
            | "--stop-words"
            | "--draft-tokens-csv"
            | "--logits-type"
            | "--prompt-embedding-table-path"
            | "--lora-path"
            | "--requests" => "a tensor is given by `--input NAME=JSON`",
            _ => continue,
        };
        builder.push_untranslated(given.as_written(), reason);
    }
    builder.finish(TOOL, TranslationKind::Commands(vec![command]))
}

#[rustfmt::skip]
static END_TO_END: &[Opt] = &[
    flag(&["--verbose", "-v"]), one(&["--url", "-u"]), one(&["--prompt", "-p"]), one(&["--model-name"]), flag(&["--streaming", "-S"]), one(&["--output-len", "-o"]), one(&["--beam-width", "-b"]),
    one(&["--temperature"]), one(&["--repetition-penalty"]), one(&["--presence-penalty"]), one(&["--frequency-penalty"]), one(&["--random-seed"]), one(&["--top-k"]), one(&["--top-p"]),
    one(&["--stop-words"]), one(&["--bad-words"]), flag(&["--batch-inputs"]), flag(&["--overwrite-output-text"]), flag(&["--return-context-logits"]), flag(&["--return-generation-logits"]),
    one(&["--end-id"]), one(&["--pad-id"]), one(&["--request-id"]), one(&["--lora-task-id"]), one(&["--num-return-sequences"]), one(&["--stream-timeout", "-t"]), flag(&["--return-log-probs"]),
    one(&["--embedding-bias-words"]), one(&["--embedding-bias-weights"]), one(&["--num-draft-tokens"]), flag(&["--use-draft-logits"]), one(&["--request-output-len"]),
    flag(&["--exclude-input-in-output"]), flag(&["--return-perf-metrics"]), one(&["--guided-decoding-guide-type"]), one(&["--guided-decoding-guide"]), one(&["--lora-path"]), flag(&["--check-outputs"]), one(&["--expected-outputs"]),
];

/// Options whose text is a tensor of the ensemble.
const TEXTS: [(&str, &str); 2] = [
    ("--guided-decoding-guide-type", "guided_decoding_guide_type"),
    ("--guided-decoding-guide", "guided_decoding_guide"),
];

pub(crate) fn end_to_end_grpc_client(words: &[String]) -> Result<Translation, TranslationError> {
    const TOOL: &str = "end_to_end_grpc_client.py";
    let mut builder = TranslationBuilder::default();
    let line = read(TOOL, END_TO_END, words, &mut builder);
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
        builder.note(format!("--batch-inputs sends {} prompts in one request; here each is a request of its own, and the server batches them", prompts.len()));
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
        for (option, tensor) in TEXTS {
            if let Some(text) = line.value(option) {
                command.extend(["--input".to_owned(), format!("{tensor}={}", Value::from(text))]);
            }
        }
        if line.has("--exclude-input-in-output") {
            command.extend(["--input".to_owned(), "exclude_input_in_output=true".to_owned()]);
        }
        commands.push(command);
    }
    for given in &line.given {
        let reason = match given.name {
            "--request-id" => "each request has an id of its own",
            "--verbose" => "`--json` prints the whole answer",
            "--overwrite-output-text" => "an answer is printed as it arrives",
            "--stream-timeout" => "`--deadline` ends the request",
            "--check-outputs" | "--expected-outputs" => {
                "answers of a benchmark are kept: `regatta bench … -o DIR`, then `regatta compare`"
            }
            "--stop-words"
            | "--bad-words"
            | "--lora-path"
            | "--embedding-bias-words"
            | "--embedding-bias-weights"
            | "--num-draft-tokens"
            | "--use-draft-logits" => "a tensor is given by `--input NAME=JSON`",
            _ => continue,
        };
        builder.push_untranslated(given.as_written(), reason);
    }
    builder.finish(TOOL, TranslationKind::Commands(commands))
}

fn request(url: Option<&str>, model: &str) -> Vec<String> {
    ["regatta", "triton", "infer", url.unwrap_or("localhost:8001"), model].map(str::to_owned).to_vec()
}

/// The options of a line that are tensors of the request. Models of text have them without `runtime_`.
fn tensors(line: &ParsedLine, command: &mut Vec<String>) {
    let takes_ids = command.iter().any(|word| word == "--input-ids");
    for (option, tensor) in TENSORS {
        if let Some(value) = line.value(option) {
            let name = if takes_ids { tensor } else { tensor.trim_start_matches("runtime_") };
            command.extend(["--input".to_owned(), format!("{name}={value}")]);
        }
    }
    for (_, tensor) in OUTPUTS.iter().filter(|(option, _)| line.has(option)) {
        command.extend(["--input".to_owned(), format!("{tensor}=true")]);
    }
}
