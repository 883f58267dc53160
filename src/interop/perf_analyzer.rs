//! `perf_analyzer`, and what GenAI-Perf passes to it behind `--`.

use std::path::Path;

use crate::command_line::{
    GivenOption, ParsedLine, TranslatedLoad, TranslationBuilder, TranslationResult, range, tool_table,
};
use base::diag::ErrorText;
use serde_json::json;

const TOOL: &str = "perf_analyzer";

tool_table!(
    TABLE,
    ["perf-analyzer"],
    [
        ("endpoint", endpoint),
        ("request_count_of_windows", request_count_of_windows),
        ("window", window),
        ("users", |load, _, given| level(given, "concurrency", load)),
        ("rates", |load, _, given| level(given, "rate", load)),
        ("batch", batch),
        ("parameter", parameter),
        ("data", data),
        ("sessions", sessions),
    ]
);

pub(crate) fn translate(words: &[String]) -> TranslationResult {
    let mut load = TranslatedLoad::default();
    let line = TABLE.read(words, &mut load.builder);
    if let Err(why) = is_measured(&line).and_then(|()| shapes(&line, &mut load)).and_then(|()| prompts(&line)) {
        return TranslationBuilder::nothing(TOOL, why);
    }
    let is_openai = line.value("--service-kind") == Some("openai");
    let is_chat = line.value("--endpoint").is_none_or(|endpoint| endpoint.contains("chat"));
    let protocol = match (is_openai, is_chat) {
        (false, _) => "kserve",
        (true, true) => "openai-chat",
        (true, false) => "openai-completions",
    };
    load.put("protocol", protocol);
    let is_grpc = line.value("-i").is_some_and(|word| word.eq_ignore_ascii_case("grpc"));
    if !is_openai && !is_grpc {
        load.builder.note("`perf_analyzer` uses KServe v2 over HTTP by default; Regatta uses gRPC: check the port");
    }
    load.target(line.value("-u").unwrap_or(if is_openai { "localhost:8000" } else { "localhost:8001" }));
    TABLE.apply(&line, &mut load);
    defaults(&line, is_openai, &mut load);
    load.finish(TOOL)
}

/// Sets what a line without an option means there.
fn defaults(line: &ParsedLine, is_openai: bool, load: &mut TranslatedLoad) {
    if !load.has("concurrency") && !load.has("rate") {
        load.put("concurrency", "1");
    }
    if !load.has("stop.requests") && !load.has("stop.duration") && !line.has("--session-concurrency") {
        load.put("stop.duration", format!("{}ms", line.setting("-p")));
        load.builder.note("neither a number of requests nor a duration is given: one window of its 5000 ms");
    }
    if !line.has("--warmup-request-count") {
        load.put("warmup", "0");
    }
    if !is_openai && !load.has("data") && !load.has("input_tokens") {
        load.builder.note(
            "`perf_analyzer` sends random inputs in the model's own shape; Regatta sends a prompt of 550 tokens \
            and requests 128, which only a language model accepts",
        );
    }
    load.streaming(line.has("--streaming"));
    if load.has("rate") && !load.has("arrivals") {
        load.put("arrivals", "constant");
    }
}

/// The sentence on a line that is not measured.
fn is_measured(line: &ParsedLine) -> Result<(), ErrorText> {
    if let Some(other) = line.value("--service-kind").filter(|kind| !["triton", "openai"].contains(kind)) {
        return Err(ErrorText::new(format_args!(
            "cannot translate `perf_analyzer --service-kind {other}`: requests go to servers over KServe v2 or \
                OpenAI's interfaces; there are triton and openai"
        )));
    }
    if let Some(given) = line.given.iter().find(|given| given.name == "--periodic-concurrency-range") {
        return Err(ErrorText::new(format_args!(
            "cannot translate the line: the load of `{given}` is another one after each number of requests; \
                `bench.ramp` changes it with time, and `bench -c 10,40,70` measures levels one by one"
        )));
    }
    if line.has("--binary-search") {
        return Err(ErrorText::new(format_args!(
            "cannot translate `{TOOL} --binary-search`: it searches for the highest load within \
                `--latency-threshold`; that is `bench.search`, which finds the highest rate within `limits`"
        )));
    }
    Ok(())
}

/// Whether a window of its ends after a number of requests, not after a time.
fn counts_windows(line: &ParsedLine) -> bool {
    line.value("--measurement-mode").is_some_and(|mode| mode.starts_with("count"))
}

fn is_json(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|suffix| suffix == "json")
}

/// Prompts are read from files, not from folders of tensors.
fn prompts(line: &ParsedLine) -> Result<(), ErrorText> {
    match line.value("--input-data") {
        Some(path) if !["random", "zero"].contains(&path) && !is_json(path) && !path.contains("{{") => {
            Err(ErrorText::new(format_args!(
                "cannot translate the line: `{path}` is a folder with a file for each tensor, which is not read; a \
                    JSON file, `{{\"data\": [{{\"text_input\": [\"…\"], \"max_tokens\": [20]}}]}}`, is"
            )))
        }
        _ => Ok(()),
    }
}

/// `NAME:1,128`. The shape of a prompt's tokens is its length; other inputs of a language model are one value each.
fn shapes(line: &ParsedLine, load: &mut TranslatedLoad) -> Result<(), ErrorText> {
    for given in line.given.iter().filter(|given| given.name == "--shape") {
        let (name, dims) = given.value().split_once(':').unwrap_or((given.value(), ""));
        let dims: Option<Vec<u32>> = dims.split(',').map(|dim| dim.trim().parse().ok()).collect();
        let count = dims.and_then(|dims| dims.into_iter().try_fold(1_u32, u32::checked_mul));
        match (name, count) {
            ("input_ids" | "INPUT_ID", Some(tokens)) if tokens > 0 => load.put("input_tokens", tokens.to_string()),
            (_, Some(1)) => {}
            _ => {
                return Err(ErrorText::new(format_args!(
                    "cannot translate the line: `{given}` is an input of a model that is not a language model; \
                        requests have a prompt, `--shape input_ids:128` gives its length"
                )));
            }
        }
    }
    Ok(())
}

fn is_http(load: &TranslatedLoad) -> bool {
    load.get("protocol") != Some("kserve")
}

fn endpoint(load: &mut TranslatedLoad, _: &ParsedLine, given: &GivenOption) -> bool {
    if is_http(load) {
        load.put("endpoint", given.value());
    }
    is_http(load)
}

fn request_count_of_windows(load: &mut TranslatedLoad, line: &ParsedLine, given: &GivenOption) -> bool {
    // Without --measurement-mode its windows are of time.
    if line.has("-p") && !counts_windows(line) {
        load.builder.push_untranslated(
            given,
            "windows have the length of -p; only --measurement-mode count_windows uses this count",
        );
        return true;
    }
    let is_used = !line.has("--request-count");
    if is_used {
        load.put("stop.requests", given.value());
        load.builder.note(
            "Regatta sends --measurement-request-count requests in all; `perf_analyzer` measures three windows \
            of that many",
        );
    }
    is_used
}

fn window(load: &mut TranslatedLoad, line: &ParsedLine, given: &GivenOption) -> bool {
    if line.has("--measurement-request-count") && counts_windows(line) {
        let reason = "with --measurement-mode count_windows a window ends after its number of requests";
        load.builder.push_untranslated(given, reason);
    } else if line.has("--request-count") {
        load.builder.push_untranslated(given, "the run ends after its number of requests");
    } else {
        load.put("stop.duration", format!("{}ms", given.value()));
        load.builder.note("Regatta sends requests for -p; `perf_analyzer` measures three windows of that length");
    }
    true
}

fn level(given: &GivenOption, key: &'static str, load: &mut TranslatedLoad) -> bool {
    if given.value().starts_with("{{") {
        load.put(key, given.value());
    } else if let Some(values) = range(given.value()) {
        load.sweep(key, values);
    } else {
        load.builder.push_error(format!("`{given}` is not START, START:END or START:END:STEP"));
    }
    true
}

/// Several prompts in one message, over KServe.
fn batch(load: &mut TranslatedLoad, _: &ParsedLine, given: &GivenOption) -> bool {
    if let Some(rows) = given.number::<u32>().filter(|_| !is_http(load)) {
        load.set("request", json!({"batch": rows}));
    }
    !is_http(load)
}

/// `NAME:VALUE:TYPE`
fn parameter(load: &mut TranslatedLoad, _: &ParsedLine, given: &GivenOption) -> bool {
    let mut parts = given.value().splitn(3, ':');
    let (name, value) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    load.extra(&format!("{name}:{value}"), is_http(load));
    true
}

fn data(load: &mut TranslatedLoad, line: &ParsedLine, given: &GivenOption) -> bool {
    if given.value() == "zero" {
        return false;
    }
    load.data("jsonl", given.value());
    // It begins again at their end, and sends conversations once.
    if !line.has("--session-concurrency") {
        load.flag("data.repeat");
    }
    true
}

fn sessions(load: &mut TranslatedLoad, _: &ParsedLine, given: &GivenOption) -> bool {
    load.put("concurrency", given.value());
    load.sessions_of_data();
    true
}

/// The arguments behind `--` on another tool's line.
pub(crate) fn translate_passthrough(words: &[String], load: &mut TranslatedLoad) {
    let line = TABLE.read_as("perf_analyzer (behind `--`)", words, &mut load.builder);
    for word in &line.plain {
        load.builder.push_error(format!("`{word}` after `--`: perf_analyzer takes options only"));
    }
    for given in &line.given {
        if given.name == "--request-count" && load.has("stop.requests") {
            load.builder.push_untranslated(given, "it is already given before `--`");
        } else {
            TABLE.apply_option(&line, given, load);
        }
    }
}
