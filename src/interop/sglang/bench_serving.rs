//! `python3 -m sglang.bench_serving`.

use serde_json::json;

use crate::command_line::headers::header;
use crate::command_line::load::{
    CHAT, COMPLETIONS, SHAREGPT_FILE, TranslatedLoad, address, extra, host_and_port, needs_tokenizer, rate_and_limit,
    ready_timeout, tokenizer,
};
use crate::command_line::options::{GivenOption, Opt, ParsedLine, flag, many, one, read};
use crate::command_line::program::Env;
use crate::command_line::translation::{NoMeaning, Translation, TranslationBuilder};
use crate::command_line::translation_error::TranslationError;
use base::spec::Quantity;

const TOOL: &str = "sglang.bench_serving";

#[rustfmt::skip]
static TABLE: &[Opt] = &[
    one(&["--backend"]), one(&["--base-url"]), one(&["--host"]), one(&["--port"]), one(&["--ready-check-timeout-sec"]), one(&["--model"]), one(&["--served-model-name"]), one(&["--tokenizer"]),
    one(&["--dataset-name"]), one(&["--dataset-path"]), one(&["--num-prompts"]), one(&["--seed"]), one(&["--sharegpt-output-len"]), one(&["--sharegpt-context-len"]),
    one(&["--random-input-len"]), one(&["--random-output-len"]), one(&["--random-range-ratio"]), flag(&["--tokenize-prompt"]), one(&["--prompt-suffix"]), flag(&["--apply-chat-template"]),
    one(&["--gsp-num-groups"]), one(&["--gsp-prompts-per-group"]), one(&["--gsp-system-prompt-len"]), one(&["--gsp-question-len"]), one(&["--gsp-output-len"]), one(&["--gsp-range-ratio"]),
    one(&["--gsp-num-turns"]), one(&["--gsp-group-distribution"]), one(&["--gsp-zipf-alpha"]), flag(&["--gsp-fast-prepare"]), flag(&["--gsp-send-routing-key"]), flag(&["--gsp-ordered"]), flag(&["--gsp-prewarm-prefixes"]), one(&["--gsp-prewarm-concurrency"]),
    many(&["--use-trace-timestamps"]), one(&["--mooncake-slowdown-factor"]), one(&["--mooncake-num-rounds"]), one(&["--mooncake-workload"]),
    one(&["--image-count"]), one(&["--image-resolution"]), one(&["--image-format"]), one(&["--image-content"]), flag(&["--random-image-count"]),
    one(&["--request-rate"]), one(&["--max-concurrency"]), one(&["--warmup-requests"]), flag(&["--disable-stream"]), flag(&["--disable-ignore-eos"]), one(&["--extra-request-body"]), many(&["--header"]),
    flag(&["--return-logprob"]), one(&["--top-logprobs-num"]), flag(&["--return-routed-experts"]), many(&["--lora-name"]), one(&["--lora-request-distribution"]), one(&["--lora-zipf-alpha"]),
    one(&["--output-file"]), flag(&["--output-details"]), one(&["--tag"]), flag(&["--disable-tqdm"]), flag(&["--print-requests"]), flag(&["--plot-throughput"]), flag(&["--cache-report"]),
    flag(&["--profile"]), many(&["--profile-activities"]), one(&["--profile-start-step"]), one(&["--profile-steps"]), one(&["--profile-num-steps"]), flag(&["--profile-by-stage"]), many(&["--profile-stages"]), one(&["--profile-output-dir"]), one(&["--profile-prefix"]),
    flag(&["--pd-separated"]), many(&["--profile-prefill-url"]), many(&["--profile-decode-url"]), flag(&["--flush-cache"]), flag(&["--rust-client"]),
];

/// Options without a meaning here, and why.
#[rustfmt::skip]
const UNTRANSLATED: &[(&[&str], &str)] = &[
    (&["--output-file", "--output-details", "--tag", "--print-requests"], "results are kept with the run; `regatta export TASK --as vllm --out DIR` writes a file of this format"),
    (&["--plot-throughput"], "the report of a run has its plots"),
    (&["--disable-tqdm"], "`regatta -q` prints less"),
    (&["--profile", "--profile-activities", "--profile-start-step", "--profile-steps", "--profile-num-steps", "--profile-by-stage", "--profile-stages", "--profile-output-dir", "--profile-prefix", "--profile-prefill-url", "--profile-decode-url"], "a profile is taken on the server, with its own tools"),
    (&["--flush-cache"], "a server that a stage starts has an empty cache"),
    (&["--lora-name", "--lora-request-distribution", "--lora-zipf-alpha"], "one measurement drives one model; an adapter is a model of its own over OpenAI's interfaces"),
    (&["--apply-chat-template"], "prompts are sent as they are; over `openai-chat` the server applies its template"),
    (&["--tokenize-prompt"], "it sends token ids; here `request: { interface: token_ids }` does, over OpenAI's completions"),
    (&["--return-logprob", "--top-logprobs-num", "--return-routed-experts"], "they are fields of the server's own interface: --extra NAME:VALUE, where OpenAI's has them"),
    (&["--pd-separated", "--rust-client", "--cache-report"], "it changes what is sent in nothing"),
    (&["--sharegpt-context-len"], "a prompt that the server refuses is a failed request; --max-input-len cuts them"),
    (&["--gsp-fast-prepare", "--gsp-ordered", "--gsp-prewarm-prefixes", "--gsp-prewarm-concurrency", "--gsp-send-routing-key"], "prefixes are drawn with the seed, and sent as part of the prompts"),
    (&["--gsp-group-distribution", "--gsp-zipf-alpha"], "beginnings that are more frequent are `prefixes.zipf`"),
    (&["--gsp-num-turns"], "conversations are `bench.sessions`: write them by hand"),
    (&["--mooncake-workload"], "nothing is downloaded: give the trace with --dataset-path"),
    (&["--mooncake-num-rounds"], "a trace is sent as it is; `data.first` takes the first N records of it"),
];

/// Options that are read together, and the data set that each is for; none is all.
#[rustfmt::skip]
const TOGETHER: &[(&str, &[&str])] = &[
    ("", &["--backend", "--base-url", "--host", "--port", "--model", "--served-model-name", "--dataset-name", "--dataset-path", "--num-prompts", "--request-rate", "--max-concurrency", "--warmup-requests", "--disable-stream", "--disable-ignore-eos", "--seed"]),
    ("random", &["--random-input-len", "--random-output-len", "--random-range-ratio"]),
    ("sharegpt", &["--sharegpt-output-len"]),
    ("generated-shared-prefix", &["--gsp-num-groups", "--gsp-prompts-per-group", "--gsp-system-prompt-len", "--gsp-question-len", "--gsp-output-len", "--gsp-range-ratio"]),
    ("mooncake", &["--use-trace-timestamps", "--mooncake-slowdown-factor", "--random-output-len"]),
];

pub(super) fn translate(env: &Env, words: &[String]) -> Result<Translation, TranslationError> {
    let mut builder = TranslationBuilder::default();
    let line = read(TOOL, TABLE, words, &mut builder);
    for word in line.plain.iter().chain(&line.behind) {
        builder.push_error(format!("`{word}`: {TOOL} takes options only"));
    }
    let mut load = TranslatedLoad::default();
    if let Err(why) = interface(&line, &mut load, &mut builder) {
        return TranslationBuilder::nothing(TOOL, why);
    }
    let limit = line.given.iter().rev().find(|given| given.name == "--max-concurrency");
    rate_and_limit(line.value("--request-rate"), limit, &mut load, &mut builder);
    let set = match dataset(&line, &mut load, &mut builder) {
        Ok(set) => set,
        Err(why) => return TranslationBuilder::nothing(TOOL, why),
    };
    // Its own.
    load.put("--warmup", line.value("--warmup-requests").unwrap_or("1"));
    load.put("--seed", line.value("--seed").unwrap_or("1"));
    load.put("--temperature", "0");
    load.flag(if line.has("--disable-stream") { "--no-streaming" } else { "--streaming" });
    if !line.has("--disable-ignore-eos") {
        load.flag("--ignore-eos");
    }
    if env.has("OPENAI_API_KEY") {
        load.put("--api-key-env", "OPENAI_API_KEY");
    }
    for given in &line.given {
        option(given, set, &mut load, &mut builder);
    }
    if set == "sharegpt" && !load.has("--output-tokens") {
        needs_tokenizer(line.value("--tokenizer").or(line.value("--model")), &mut load, &mut builder);
        builder.note("there records with fewer than 2 tokens in prompt or answer are left out");
    }
    builder.finish(TOOL, load.means())
}

/// The server and its protocol; the sentence on one that is not measured.
fn interface(line: &ParsedLine, load: &mut TranslatedLoad, builder: &mut TranslationBuilder) -> Result<(), NoMeaning> {
    let backend = line.value("--backend").unwrap_or("sglang");
    // The port, the protocol, its usual path, and the path there.
    let (port, protocol, usual, path) = match backend {
        "sglang" | "sglang-native" | "sglang-oai" => ("30000", COMPLETIONS.0, COMPLETIONS.1, COMPLETIONS.1),
        "sglang-oai-chat" => ("30000", CHAT.0, CHAT.1, CHAT.1),
        "vllm" => ("8000", COMPLETIONS.0, COMPLETIONS.1, COMPLETIONS.1),
        "vllm-chat" => ("8000", CHAT.0, CHAT.1, CHAT.1),
        "lmdeploy" => ("23333", COMPLETIONS.0, COMPLETIONS.1, COMPLETIONS.1),
        "lmdeploy-chat" => ("23333", CHAT.0, CHAT.1, CHAT.1),
        "truss" => ("8080", COMPLETIONS.0, COMPLETIONS.1, "/v1/models/model:predict"),
        "trt" => ("8000", "generate", "/v2/models/ensemble/generate_stream", "/v2/models/ensemble/generate_stream"),
        other => {
            return Err(format!(
                "the line has no meaning here: requests of --backend {other} are not measured; measured are OpenAI's completions and chat, and Triton's `trt`"
            ).into());
        }
    };
    if matches!(backend, "sglang" | "sglang-native") {
        builder.note("SGLang's own `/generate` is not used: the same server answers /v1/completions");
    }
    load.put("--protocol", protocol);
    load.limits_completion_tokens();
    if protocol == "generate" {
        // There --model is for the tokenizer.
        load.put("--model", "ensemble");
    } else if let Some(name) = line.value("--served-model-name").or(line.value("--model")) {
        load.put("--model", name);
    }
    let host = line.value("--host").filter(|host| *host != "0.0.0.0").unwrap_or("localhost");
    let of_host = || match host.rsplit_once(':') {
        // A whole URL, with its port or without.
        Some((_, behind)) if host.contains("://") && behind.parse::<u16>().is_ok() => host.to_owned(),
        _ => host_and_port(host, line.value("--port").unwrap_or(port)),
    };
    let base = line.value("--base-url").map_or_else(of_host, str::to_owned);
    address(&base, path, usual, load);
    Ok(())
}

/// Prompts and answers. Returns the kind of data set; an error is the sentence on one that is not read.
fn dataset(
    line: &ParsedLine,
    load: &mut TranslatedLoad,
    builder: &mut TranslationBuilder,
) -> Result<&'static str, NoMeaning> {
    for given in line.given.iter().filter(|given| given.name.ends_with("-len") || given.name == "--num-prompts") {
        if given.number::<u32>().is_none() {
            builder.push_error(format!("`{}` is no whole number", given.as_written()));
        }
    }
    let number = |name: &str, usual: u32| line.number::<u32>(name).unwrap_or(Quantity::Known(usual));
    let ratio = |name: &str, usual: f64| {
        let is_share = |ratio: &Quantity<f64>| ratio.known().is_none_or(|ratio| (0.0..=1.0).contains(ratio));
        line.number::<f64>(name).filter(is_share).unwrap_or(Quantity::Known(usual))
    };
    let file = line.value("--dataset-path").filter(|file| !file.is_empty());
    let positive = |tokens: Quantity<u32>| tokens.map(|tokens| tokens.max(1));
    let up_to = |longest: &Quantity<u32>, ratio: &Quantity<f64>| match ratio {
        // A share of nothing is 1 token, and the whole is the length itself.
        Quantity::Known(0.0) => Quantity::Known(1),
        Quantity::Known(1.0) => positive(longest.clone()),
        ratio => {
            longest.clone().map(f64::from).combine("*", ratio.clone(), |one, other| one * other).whole().at_least(1_u32)
        }
    };
    load.put("--requests", number("--num-prompts", 1000).to_string());
    match line.value("--dataset-name").unwrap_or("sharegpt") {
        set @ ("random" | "random-ids") => {
            // From this share of the length up to it.
            let share = ratio("--random-range-ratio", 0.0);
            let (input, output) = (number("--random-input-len", 1024), number("--random-output-len", 1024));
            load.length_between("input_tokens", &up_to(&input, &share), &positive(input));
            load.length_between("output_tokens", &up_to(&output, &share), &positive(output));
            if set == "random" {
                builder.note("its prompts are cut from ShareGPT's texts; here they are made up");
            }
            Ok("random")
        }
        "generated-shared-prefix" => {
            let (groups, each) = (number("--gsp-num-groups", 64), number("--gsp-prompts-per-group", 16));
            let share = ratio("--gsp-range-ratio", 1.0);
            let (input, output) = (number("--gsp-question-len", 128), number("--gsp-output-len", 256));
            load.put("--requests", groups.clone().map(u64::from).times(each.map(u64::from)).to_string());
            load.length_between("input_tokens", &up_to(&input, &share), &positive(input));
            load.length_between("output_tokens", &up_to(&output, &share), &positive(output));
            let tokens = number("--gsp-system-prompt-len", 2048);
            load.keys.insert("prefixes".to_owned(), json!({"count": positive(groups), "tokens": positive(tokens)}));
            Ok("generated-shared-prefix")
        }
        "sharegpt" => {
            load.put("--data", file.unwrap_or(SHAREGPT_FILE));
            load.put("--data-kind", "sharegpt");
            load.keys.insert("data".to_owned(), json!({"order": "shuffled"}));
            if file.is_none() {
                builder.note(format!("nothing is downloaded: put {SHAREGPT_FILE} there, or name it with --dataset-path"));
            }
            if let Some(tokens) = line.value("--sharegpt-output-len") {
                load.put("--output-tokens", tokens);
            }
            Ok("sharegpt")
        }
        name if name.starts_with("mooncake") => {
            load.put("--data", file.unwrap_or("conversation_trace.jsonl"));
            load.put("--data-kind", "mooncake");
            if line.has("--random-output-len") {
                builder.note("answers have the lengths of the trace; --random-output-len is for made-up prompts");
            }
            builder.note("there a prompt has a few tokens for each hash id; here it has as many tokens as the trace says");
            let stamps = line.given.iter().find(|given| given.name == "--use-trace-timestamps");
            if stamps.is_some_and(|given| given.values.first().is_none_or(|word| word.eq_ignore_ascii_case("true"))) {
                let slower = line.value("--mooncake-slowdown-factor").and_then(|text| text.parse::<f64>().ok());
                load.trace(slower.filter(|factor| *factor > 0.0).map_or(1.0, |factor| 1.0 / factor));
            }
            if file.is_none() {
                builder.note("nothing is downloaded: name the trace with --dataset-path");
            }
            Ok("mooncake")
        }
        "image" | "mmmu" => Err(
            "the line has no meaning here: images are not sent; the same lengths of text are measured with --dataset-name random".to_owned().into()),
        other => Err(format!(
            "the line has no meaning here: the data set `{other}` is not read; ShareGPT's file, a Mooncake trace, and made-up prompts are"
        ).into()),
    }
}

fn option(given: &GivenOption, set: &str, load: &mut TranslatedLoad, builder: &mut TranslationBuilder) {
    match given.name {
        "--extra-request-body" => extra(load, builder, given.value(), true),
        "--header" => header(given, load, builder),
        "--ready-check-timeout-sec" => ready_timeout(given, load, builder),
        "--tokenizer" => tokenizer(given, load, builder),
        "--tokenize-prompt" if load.get("--protocol") == Some(COMPLETIONS.0) => {
            load.put_request_key("interface", json!("token_ids"));
        }
        name if TOGETHER.iter().any(|(whose, names)| (whose.is_empty() || *whose == set) && names.contains(&name)) => {}
        name if TOGETHER.iter().any(|(_, names)| names.contains(&name)) => {
            builder.push_untranslated(given.as_written(), format!("it is for another data set than `{set}`"));
        }
        name => {
            let why = UNTRANSLATED
                .iter()
                .find(|(names, _)| names.contains(&name))
                .map_or("there is nothing like it here", |it| it.1);
            builder.push_untranslated(given.as_written(), why);
        }
    }
}
