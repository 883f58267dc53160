//! The TensorRT-LLM backend's benchmarks, `benchmark_core_model.py` and `end_to_end_test.py`.
//!
//! The backend's example clients, `inflight_batcher_llm_client.py` and `end_to_end_grpc_client.py`: one request each.

use std::path::Path;

use serde_json::{Value, json};

use crate::command_line::{
    GivenOption, ParsedLine, ScriptBench, TranslatedLoad, TranslatedScript, TranslationBuilder, TranslationKind,
    TranslationResult, tool_table,
};
use base::units::unquoted;

tool_table!(
    BENCHMARK_CORE_MODEL,
    ["benchmark-core-model"],
    [
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
    ]
);

/// `--max-input-len` of a data set: records with longer prompts are left out.
fn longest_prompt(load: &mut TranslatedLoad, line: &ParsedLine, given: &GivenOption) -> bool {
    if line.has("--dataset") {
        load.whole("data.max_input_tokens", given);
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
pub(crate) fn benchmark_core_model(words: &[String]) -> TranslationResult {
    const TOOL: &str = "benchmark_core_model.py";
    let mut load = TranslatedLoad::default();
    let line = BENCHMARK_CORE_MODEL.read_as(BENCHMARK_CORE_MODEL.program, words, &mut load.builder);
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
        ScriptBench { bench: load.bench(), ..<_>::default() }
    });
    let benches = benches.collect();
    builder.finish(TOOL, TranslationKind::Script(TranslatedScript { benches, ..TranslatedScript::default() }))
}

tool_table!(END_TO_END_TEST, ["end-to-end-test"], [("longest_prompt", longest_prompt_of_test)]);

fn longest_prompt_of_test(load: &mut TranslatedLoad, _: &ParsedLine, given: &GivenOption) -> bool {
    load.whole("data.max_input_tokens", given);
    load.builder
        .note("`end_to_end_test.py` limits words times 1.3; Regatta limits tokens, or words without a tokenizer");
    true
}

/// `end_to_end_test.py`: the prompts of a data set, all at once.
pub(crate) fn end_to_end_test(words: &[String]) -> TranslationResult {
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

tool_table!(INFLIGHT, ["inflight-batcher-llm-client", "grpc-client-tensors"], []);

/// Its prompt, where none is given.
const PROMPT: &str = "Born in north-east France, Soyer trained as a";

pub(crate) fn inflight_batcher_llm_client(words: &[String]) -> TranslationResult {
    const TOOL: &str = "inflight_batcher_llm_client.py";
    let mut builder = TranslationBuilder::default();
    let line = INFLIGHT.read_as(INFLIGHT.program, words, &mut builder);
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

tool_table!(END_TO_END, ["end-to-end-grpc-client", "grpc-client-tensors"], []);

pub(crate) fn end_to_end_grpc_client(words: &[String]) -> TranslationResult {
    const TOOL: &str = "end_to_end_grpc_client.py";
    let mut builder = TranslationBuilder::default();
    let line = END_TO_END.read_as(END_TO_END.program, words, &mut builder);
    let prompt = line.value("--prompt").unwrap_or_default();
    let prompts = match serde_json::from_str::<Value>(prompt) {
        Ok(Value::Array(prompts)) => prompts.iter().map(unquoted).collect(),
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
