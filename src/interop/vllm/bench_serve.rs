//! `vllm bench serve`, and the `benchmark_serving.py` that it was, which TensorRT-LLM has still.

use serde_json::json;

use super::dataset::{self, RangeRatio};
use super::ramp::ramp;
use crate::command_line::headers::header;
use crate::command_line::load::{
    CHAT, COMPLETIONS, TranslatedLoad, address, burstiness, extra, goodput, host_and_port, rate_and_limit,
    ready_timeout, tokenizer,
};
use crate::command_line::options::{GivenOption, Opt, ParsedLine, flag, many, one, read};
use crate::command_line::program::Env;
use crate::command_line::translation::{NoMeaning, Translation, TranslationBuilder};
use crate::command_line::translation_error::TranslationError;

/// A program of this family.
pub(super) struct ServingBenchmark {
    tool: &'static str,
    /// Made-up prompts have answers of exactly the requested length by themselves.
    random_ignores_eos: bool,
    /// The temperature that it sends where none is given.
    temperature: Option<&'static str>,
    /// Requests that it sends first to see whether the server answers.
    tests: &'static str,
    /// Arrivals at a rate are moved so that as many as the rate has come in their time: `normalize_factor` of vLLM 0.33.0
    /// (vllm/benchmarks/serve.py).
    moves_arrivals: bool,
    range_ratio: RangeRatio,
}

pub(super) static VLLM: ServingBenchmark = ServingBenchmark {
    tool: "vllm bench serve",
    random_ignores_eos: true,
    temperature: None,
    tests: "0",
    moves_arrivals: true,
    range_ratio: RangeRatio::Around,
};
static BENCHMARK_SERVING: ServingBenchmark = benchmark_serving(RangeRatio::Around);
/// InferenceMAX's, and what was made of it.
static BENCH_SERVING: ServingBenchmark = benchmark_serving(RangeRatio::UpTo);
/// Known by its name only, which several programs have.
static SOME_BENCHMARK_SERVING: ServingBenchmark = benchmark_serving(RangeRatio::Unknown);

const fn benchmark_serving(range_ratio: RangeRatio) -> ServingBenchmark {
    ServingBenchmark {
        tool: "benchmark_serving.py",
        random_ignores_eos: false,
        temperature: Some("0"),
        tests: "1",
        moves_arrivals: false,
        range_ratio,
    }
}

/// Which program of the name `benchmark_serving` a line starts: by its path, or by an option that only one of them has.
pub(super) fn named(path: &str, words: &[String]) -> &'static ServingBenchmark {
    let is_bench_serving = path.contains("bench_serving/benchmark_serving.py") || path.starts_with("atom.");
    if is_bench_serving || words.iter().any(|word| word == USE_CHAT_TEMPLATE) {
        &BENCH_SERVING
    } else if path.starts_with("tensorrt_llm.") {
        &BENCHMARK_SERVING
    } else {
        &SOME_BENCHMARK_SERVING
    }
}

/// An option of InferenceMAX's program alone.
const USE_CHAT_TEMPLATE: &str = "--use-chat-template";

#[rustfmt::skip]
static TABLE: &[Opt] = &[
    one(&["--model"]), one(&["--served-model-name"]), one(&["--backend", "--endpoint-type"]), one(&["--base-url"]), one(&["--host"]), one(&["--port"]), one(&["--endpoint"]),
    many(&["--header"]), flag(&["--insecure"]), one(&["--max-concurrency"]), one(&["--request-rate"]), one(&["--burstiness"]), one(&["--probe-request-rate"]),
    one(&["--ramp-up-strategy"]), one(&["--ramp-up-start-rps"]), one(&["--ramp-up-end-rps"]), one(&["--num-warmups"]), one(&["--ready-check-timeout-sec"]), flag(&["--no-test-input"]),
    one(&["--seed"]), flag(&["--ignore-eos"]), many(&["--goodput"]), one(&["--percentile-metrics"]), one(&["--metric-percentiles"]), one(&["--request-id-prefix"]),
    one(&["--top-p"]), one(&["--top-k"]), one(&["--min-p"]), one(&["--temperature"]), one(&["--frequency-penalty"]), one(&["--presence-penalty"]), one(&["--repetition-penalty"]),
    one(&["--extra-body"]), one(&["--logprobs"]), flag(&["--use-beam-search"]), one(&["--best-of"]), many(&["--lora-modules"]), one(&["--lora-assignment"]), one(&["--chat-template-kwargs"]),
    flag(&["--non-streaming"]), flag(&["--self-timed"]), flag(&["--no-self-timed"]),
    one(&["--tokenizer"]), one(&["--tokenizer-mode"]), flag(&["--trust-remote-code"]), flag(&["--skip-tokenizer-init"]), flag(&["--skip-chat-template"]), flag(&[USE_CHAT_TEMPLATE]), flag(&["--enable-multimodal-chat"]),
    flag(&["--tokenize-on-client"]), flag(&["--random-ids"]), one(&["--download-path"]), one(&["--download-timeout"]), flag(&["--save-request-time-breakdown"]),
    one(&["--label"]), flag(&["--disable-tqdm"]), flag(&["--profile"]), many(&["--profile-num-steps"]), flag(&["--save-result"]), flag(&["--save-detailed"]), flag(&["--append-result"]), many(&["--metadata"]), one(&["--result-dir"]), one(&["--result-filename"]),
    flag(&["--plot-timeline"]), one(&["--timeline-itl-thresholds"]), flag(&["--plot-dataset-stats"]),
    one(&["--dataset-name"]), one(&["--dataset-path", "--dataset"]), one(&["--num-prompts"]), one(&["--input-len"]), one(&["--output-len"]), flag(&["--no-oversample"]), flag(&["--disable-shuffle"]), flag(&["--no-stream"]),
    one(&["--random-input-len"]), one(&["--random-output-len"]), one(&["--random-range-ratio"]), one(&["--random-prefix-len"]), one(&["--random-batch-size"]), flag(&["--no-reranker"]), one(&["--prefix-len"]),
    one(&["--random-mm-base-items-per-request"]), one(&["--random-mm-num-mm-items-range-ratio"]), one(&["--random-mm-limit-mm-per-prompt"]), one(&["--random-mm-bucket-config"]),
    one(&["--random-image-width"]), one(&["--random-image-height"]), one(&["--random-image-size"]), one(&["--random-num-images"]),
    one(&["--sharegpt-output-len"]), one(&["--custom-output-len"]), one(&["--custom-input-len"]), flag(&["--custom-ensure-client-side-data"]),
    one(&["--sonnet-input-len"]), one(&["--sonnet-output-len"]), one(&["--sonnet-prefix-len"]),
    one(&["--prefix-repetition-prefix-len"]), one(&["--prefix-repetition-suffix-len"]), one(&["--prefix-repetition-num-prefixes"]), one(&["--prefix-repetition-output-len"]),
    one(&["--hf-subset"]), one(&["--hf-split"]), one(&["--hf-name"]), one(&["--hf-output-len"]), one(&["--blazedit-min-distance"]), one(&["--blazedit-max-distance"]), one(&["--bfcl-categories"]),
    one(&["--spec-bench-category"]), one(&["--spec-bench-output-len"]), one(&["--speed-bench-category"]), one(&["--speed-bench-dataset-subset"]), one(&["--speed-bench-output-len"]),
    one(&["--timed-trace-chunk-hash-size"]), one(&["--timed-trace-sec-multiplier"]), one(&["--asr-max-audio-len-sec"]), one(&["--asr-min-audio-len-sec"]),
];

/// Options without a meaning here, and why.
#[rustfmt::skip]
const UNTRANSLATED: &[(&[&str], &str)] = &[
    (&["--save-result", "--save-detailed", "--append-result", "--result-dir", "--result-filename", "--metadata", "--label", "--save-request-time-breakdown"], "results are kept with the run; `regatta export TASK --as vllm --out DIR` writes its file"),
    (&["--plot-timeline", "--timeline-itl-thresholds", "--plot-dataset-stats"], "the report of a run has its plots"),
    (&["--percentile-metrics", "--metric-percentiles"], "all percentiles are in the result"),
    (&["--disable-tqdm"], "`regatta -q` prints less"),
    (&["--profile", "--profile-num-steps"], "a profile is taken on the server, with its own tools"),
    (&["--probe-request-rate"], "one load is measured at a time"),
    (&["--lora-modules", "--lora-assignment"], "one measurement drives one model; an adapter is a model of its own over OpenAI's interfaces"),
    (&["--random-ids"], "made-up prompts are not cut from a text, with or without it"),
    (&["--tokenize-on-client"], "it sends token ids; here `request: { interface: token_ids }` does, over OpenAI's completions"),
    (&[USE_CHAT_TEMPLATE], "there the chat template is a part of each prompt, within its length; here a made-up prompt has that length without one"),
    (&["--tokenizer-mode", "--trust-remote-code", "--skip-tokenizer-init"], "a tokenizer is a file here, nothing is downloaded or run for it"),
    (&["--skip-chat-template", "--chat-template-kwargs", "--enable-multimodal-chat"], "prompts are sent as they are; over `openai-chat` the server applies its template"),
    (&["--request-id-prefix"], "requests are numbered in requests.jsonl"),
    (&["--use-beam-search", "--best-of"], "beams over OpenAI's interfaces are fields of the server's own: --extra NAME:VALUE"),
    (&["--download-path", "--download-timeout"], "nothing is downloaded: give the file, with --dataset-path"),
];

/// Its fields of the request, which have the same name there.
const FIELDS: [&str; 8] = [
    "--top-p",
    "--top-k",
    "--min-p",
    "--temperature",
    "--frequency-penalty",
    "--presence-penalty",
    "--repetition-penalty",
    "--logprobs",
];

pub(super) fn translate(
    program: &ServingBenchmark,
    env: &Env,
    words: &[String],
) -> Result<Translation, TranslationError> {
    let tool = program.tool;
    let mut builder = TranslationBuilder::default();
    let line = read(tool, TABLE, words, &mut builder);
    for word in line.plain.iter().chain(&line.behind) {
        builder.push_error(format!("`{word}`: {tool} takes options only"));
    }
    if line.has(USE_CHAT_TEMPLATE) && program.range_ratio != RangeRatio::UpTo {
        builder.push_error(format!(
            "`{USE_CHAT_TEMPLATE}` is no option of {tool}, but of InferenceMAX's benchmark_serving.py"
        ));
    }
    let mut load = TranslatedLoad::default();
    if let Err(why) = interface(&line, &mut load, &mut builder) {
        return TranslationBuilder::nothing(tool, why);
    }
    let limit = line.given.iter().rev().find(|given| given.name == "--max-concurrency");
    rate_and_limit(line.value("--request-rate"), limit, &mut load, &mut builder);
    if let Err(why) = dataset::put(&line, program.range_ratio, &mut load, &mut builder) {
        return TranslationBuilder::nothing(tool, why);
    }
    let has_rate = load.get("--rate").is_some_and(|rate| rate != "-1");
    if program.moves_arrivals && has_rate && !line.has("--ramp-up-strategy") {
        builder.note("there all gaps are scaled by one factor, so that the last of N requests is due after N/RATE seconds exactly; here they are as the law draws them, so the rate of one run is near RATE, the nearer the more requests there are");
    }
    // Its own.
    load.put(
        "--warmup",
        line.value("--num-warmups").unwrap_or(if line.has("--no-test-input") { "0" } else { program.tests }),
    );
    load.flag(if line.has("--non-streaming") { "--no-streaming" } else { "--streaming" });
    let is_random = line.value("--dataset-name").is_none_or(|name| name == "random") && !line.has("--dataset-path");
    if is_random && program.random_ignores_eos {
        load.flag("--ignore-eos");
    }
    if let Some(name) = line.value("--served-model-name").or(line.value("--model")) {
        load.put("--model", name);
    }
    if env.has("OPENAI_API_KEY") {
        load.put("--api-key-env", "OPENAI_API_KEY");
    }
    if let Some(temperature) = program.temperature {
        load.put("--temperature", temperature);
    }
    for given in &line.given {
        option(given, &line, &mut load, &mut builder);
    }
    dataset::count_answers(&line, &mut load, &mut builder);
    builder.finish(tool, load.means())
}

/// The server and its protocol; the sentence on one that is not measured.
fn interface(line: &ParsedLine, load: &mut TranslatedLoad, builder: &mut TranslationBuilder) -> Result<(), NoMeaning> {
    let backend = line.value("--backend").unwrap_or("openai");
    let (protocol, usual) = match backend {
        "vllm" | "openai" | "lmdeploy" | "scalellm" | "sglang" => COMPLETIONS,
        "openai-chat" => CHAT,
        "tensorrt-llm" => ("generate", "/v2/models/ensemble/generate_stream"),
        other => {
            return Err(format!(
                "the line has no meaning here: requests of --backend {other} are not measured; the text interfaces are `openai` and `openai-chat`, which most servers have beside their own"
            ).into());
        }
    };
    load.put("--protocol", protocol);
    load.limits_completion_tokens();
    let path = line.value("--endpoint").unwrap_or(usual);
    if backend == "openai-chat" && !path.trim_end_matches('/').ends_with("chat/completions") {
        builder.push_error(format!(
            "`--endpoint {path}` is not the path of --backend openai-chat, which ends with chat/completions"
        ));
    }
    let base = line.value("--base-url").map_or_else(
        || host_and_port(line.value("--host").unwrap_or("localhost"), line.value("--port").unwrap_or("8000")),
        str::to_owned,
    );
    address(&base, path, usual, load);
    Ok(())
}

fn option(given: &GivenOption, line: &ParsedLine, load: &mut TranslatedLoad, builder: &mut TranslationBuilder) {
    let value = given.value();
    match given.name {
        // Read together, above.
        "--model"
        | "--served-model-name"
        | "--backend"
        | "--base-url"
        | "--host"
        | "--port"
        | "--endpoint"
        | "--max-concurrency"
        | "--request-rate"
        | "--num-warmups"
        | "--no-test-input"
        | "--non-streaming" => {}
        name if dataset::is_option(name) => dataset::left(given, line, builder),
        name if FIELDS.contains(&name) => {
            let field = name.trim_start_matches('-').replace('-', "_");
            extra(load, builder, &format!("{field}:{value}"), true);
        }
        "--header" => header(given, load, builder),
        "--ready-check-timeout-sec" => ready_timeout(given, load, builder),
        "--insecure" => load.flag("--insecure"),
        "--seed" => load.put("--seed", value),
        "--ignore-eos" => load.flag("--ignore-eos"),
        "--goodput" => goodput(load, builder, given),
        "--extra-body" => extra(load, builder, value, true),
        "--tokenizer" => tokenizer(given, load, builder),
        "--tokenize-on-client" if load.get("--protocol") == Some(COMPLETIONS.0) => {
            load.put_request_key("interface", json!("token_ids"));
        }
        "--burstiness" if load.get("--rate").is_none_or(|rate| rate == "-1") => {
            builder.push_untranslated(given.as_written(), "there is no rate whose gaps it would shape");
        }
        "--burstiness" => burstiness(given, load, builder),
        "--ramp-up-strategy" => ramp(given, line, load, builder),
        "--ramp-up-start-rps" | "--ramp-up-end-rps" if line.has("--ramp-up-strategy") => {}
        name => {
            let why = UNTRANSLATED
                .iter()
                .find(|(names, _)| names.contains(&name))
                .map_or("there is nothing like it here", |it| it.1);
            builder.push_untranslated(given.as_written(), why);
        }
    }
}
