//! `perf_analyzer`, and what GenAI-Perf passes to it behind `--`.

use std::path::Path;

use crate::command_line::headers::header;
use crate::command_line::load::{TranslatedLoad, extra, range};
use crate::command_line::options::{GivenOption, Opt, ParsedLine, flag, many, one, read};
use crate::command_line::translation::{NoMeaning, Translation, TranslationBuilder};
use crate::command_line::translation_error::TranslationError;

const TOOL: &str = "perf_analyzer";

#[rustfmt::skip]
static TABLE: &[Opt] = &[
    one(&["-m", "--model-name"]), one(&["-x", "--model-version"]), one(&["--service-kind"]), one(&["-u", "--url"]), one(&["-i", "--protocol"]),
    one(&["--endpoint"]), one(&["--model-repository"]), one(&["--server-directory", "--triton-server-directory"]), one(&["--model-signature-name"]), one(&["--grpc-method"]), one(&["--session-concurrency"]), one(&["--bls-composing-models"]),
    one(&["--measurement-mode"]), one(&["-p", "--measurement-interval"]), one(&["--measurement-request-count"]), one(&["-s", "--stability-percentage"]),
    one(&["--percentile"]), one(&["--warmup-request-count"]), one(&["--request-count"]), one(&["-r", "--max-trials"]),
    one(&["--concurrency-range"]), one(&["--periodic-concurrency-range"]), one(&["--request-period"]), one(&["--request-rate-range"]),
    one(&["--request-distribution"]), one(&["--request-intervals"]), flag(&["--fixed-schedule"]), one(&["-l", "--latency-threshold"]), flag(&["--binary-search"]),
    one(&["--max-threads"]), one(&["--num-of-sequences"]), one(&["--sequence-length"]), one(&["--sequence-id-range"]), one(&["--serial-sequences"]),
    one(&["--input-data"]), one(&["-b", "--batch-size"]), one(&["--shape"]), one(&["--shared-memory"]), one(&["--output-shared-memory-size"]),
    one(&["--string-length"]), one(&["--string-data"]), one(&["--input-tensor-format"]), one(&["--output-tensor-format"]),
    flag(&["-a", "--async"]), flag(&["--sync"]), flag(&["--streaming"]), flag(&["--collect-metrics"]), one(&["--metrics-url"]), one(&["--metrics-interval"]),
    one(&["-f", "--csv"]), one(&["--profile-export-file"]), flag(&["--verbose-csv"]), flag(&["-v", "--verbose"]), flag(&["--extra-verbose"]),
    one(&["--request-parameter"]), many(&["-H", "--header"]), one(&["--random-seed"]), one(&["--trace-level"]), one(&["--trace-rate"]), one(&["--trace-count"]), one(&["--log-frequency"]),
    flag(&["--ssl-grpc-use-ssl"]), one(&["--ssl-grpc-root-certifications-file"]), one(&["--ssl-grpc-private-key-file"]), one(&["--ssl-grpc-certificate-chain-file"]),
    one(&["--ssl-https-verify-peer"]), one(&["--ssl-https-verify-host"]), one(&["--ssl-https-ca-certificates-file"]), one(&["--ssl-https-client-certificate-file"]),
    one(&["--ssl-https-client-certificate-type"]), one(&["--ssl-https-private-key-file"]), one(&["--ssl-https-private-key-type"]),
];

/// Options without a meaning here, and why.
#[rustfmt::skip]
const UNTRANSLATED: &[(&[&str], &str)] = &[
    (&["--stability-percentage", "-s", "-r"], "the run ends with its requests or its duration; the result reports whether it was steady"),
    (&["--measurement-mode"], "--request-count or a duration ends the run"),
    (&["--percentile"], "all percentiles are in the result"),
    (&["--max-threads", "--sync", "-a"], "every request is sent at its scheduled time, independently of others"),
    (&["-l"], "the highest rate within limits is `bench.search` with `limits`"),
    (&["--request-period"], "a level that changes is `bench.ramp`"),
    (&["--request-intervals", "--fixed-schedule"], "arrivals at given times are `scenario: trace`, with `data.jsonl`"),
    (&["--shared-memory", "--output-shared-memory-size"], "prompts and answers go over the network, as clients' do"),
    (&["--string-length", "--string-data", "--input-tensor-format", "--output-tensor-format"], "prompts are made to a length in tokens, for language models"),
    (&["--num-of-sequences", "--sequence-length", "--sequence-id-range", "--serial-sequences"], "Triton's sequences are not driven; conversations are `bench.sessions`"),
    (&["--collect-metrics", "--metrics-url", "--metrics-interval"], "the servers' metrics are read by themselves before, during and after"),
    (&["-f", "--profile-export-file", "--verbose-csv"], "results are kept with the run; `regatta export TASK --as perf-analyzer --out DIR` writes that file"),
    (&["-v", "--extra-verbose", "--log-frequency"], "`regatta -v` prints more"),
    (&["--trace-level", "--trace-rate", "--trace-count"], "traces are set on the server: `serve.triton.trace`, or `regatta triton trace`"),
    (&["-x"], "the newest version is used"),
    (&["--model-repository", "--server-directory", "--bls-composing-models"], "requests go to the server's ports"),
];

pub(crate) fn translate(words: &[String]) -> Result<Translation, TranslationError> {
    let mut builder = TranslationBuilder::default();
    let line = read(TOOL, TABLE, words, &mut builder);
    for word in line.plain.iter().chain(&line.behind) {
        builder.push_error(format!("`{word}`: {TOOL} takes options only"));
    }
    let mut load = TranslatedLoad::default();
    let is_openai = match line.value("--service-kind") {
        None | Some("triton") => false,
        Some("openai") => true,
        Some(other) => {
            let why = format!(
                "`perf_analyzer --service-kind {other}` has no meaning here: requests go to servers over KServe v2 or OpenAI's interfaces; there are triton and openai"
            );
            return TranslationBuilder::nothing(TOOL, why);
        }
    };
    if let Some(given) = line.given.iter().find(|given| given.name == "--periodic-concurrency-range") {
        return TranslationBuilder::nothing(
            TOOL,
            format!(
                "the line has no meaning here: the load of `{}` is another one after each number of requests; `bench.ramp` changes it with time, and `bench -c 10,40,70` measures levels one by one",
                given.as_written()
            ),
        );
    }
    if line.has("--binary-search") {
        return TranslationBuilder::nothing(
            TOOL,
            format!(
                "`{TOOL} --binary-search` has no meaning here: it searches for the highest load within `--latency-threshold`; that is `bench.search`, which finds the highest rate within `limits`"
            ),
        );
    }
    if let Err(why) = shapes(&line, &mut load).and_then(|()| prompts(&line)) {
        return TranslationBuilder::nothing(TOOL, why);
    }
    let is_chat = line.value("--endpoint").is_none_or(|endpoint| endpoint.contains("chat"));
    load.put(
        "--protocol",
        match (is_openai, is_chat) {
            (false, _) => "kserve",
            (true, true) => "openai-chat",
            (true, false) => "openai-completions",
        },
    );
    let is_grpc = line.value("-i").is_some_and(|word| word.eq_ignore_ascii_case("grpc"));
    if !is_openai && !is_grpc {
        builder.note("its default is KServe v2 over HTTP; here KServe is used over gRPC: check the port");
    }
    load.target(line.value("-u").unwrap_or(if is_openai { "localhost:8000" } else { "localhost:8001" }));
    for given in &line.given {
        option(given, is_openai, &line, &mut load, &mut builder);
    }
    if !load.has("--concurrency") && !load.has("--rate") {
        load.put("--concurrency", "1");
    }
    if !load.has("--requests") && !load.has("--measurement-interval") && !line.has("--session-concurrency") {
        load.put("--measurement-interval", "5000");
        builder.note("neither a number of requests nor a duration is given: one window of its 5000 ms");
    }
    if !line.has("--warmup-request-count") {
        load.put("--warmup", "0");
    }
    if !is_openai && !load.has("--data") && !load.has("--input-tokens") {
        builder.note("there every input is random in the model's own shape; here a request is a prompt of 550 tokens with 128 in its answer, which only a language model takes");
    }
    load.flag(if line.has("--streaming") { "--streaming" } else { "--no-streaming" });
    if load.has("--rate") && !load.has("--arrivals") {
        load.put("--arrivals", "constant");
    }
    builder.finish(TOOL, load.means())
}

/// Whether a window of its ends after a number of requests, not after a time.
fn counts_windows(line: &ParsedLine) -> bool {
    line.value("--measurement-mode").is_some_and(|mode| mode.starts_with("count"))
}

fn is_json(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|suffix| suffix == "json")
}

/// Prompts are read from files, not from folders of tensors.
fn prompts(line: &ParsedLine) -> Result<(), NoMeaning> {
    match line.value("--input-data") {
        Some(path) if !["random", "zero"].contains(&path) && !is_json(path) && !path.contains("{{") => {
            Err(format!(
                "the line has no meaning here: `{path}` is a folder with a file for each tensor, which is not read; a JSON file, `{{\"data\": [{{\"text_input\": [\"…\"], \"max_tokens\": [20]}}]}}`, is"
            )
            .into())
        }
        _ => Ok(()),
    }
}

/// `NAME:1,128`. The shape of a prompt's tokens is its length; other inputs of a language model are one value each.
fn shapes(line: &ParsedLine, load: &mut TranslatedLoad) -> Result<(), NoMeaning> {
    for given in line.given.iter().filter(|given| given.name == "--shape") {
        let (name, dims) = given.value().split_once(':').unwrap_or((given.value(), ""));
        let dims: Option<Vec<u32>> = dims.split(',').map(|dim| dim.trim().parse().ok()).collect();
        let count = dims.and_then(|dims| dims.into_iter().try_fold(1_u32, u32::checked_mul));
        match (name, count) {
            ("input_ids" | "INPUT_ID", Some(tokens)) if tokens > 0 => load.put("--input-tokens", tokens.to_string()),
            (_, Some(1)) => {}
            _ => {
                return Err(format!(
                    "the line has no meaning here: `{}` is an input of a model that is no language model; requests have a prompt, `--shape input_ids:128` gives its length",
                    given.as_written()
                )
                .into());
            }
        }
    }
    Ok(())
}

fn option(
    given: &GivenOption,
    is_openai: bool,
    line: &ParsedLine,
    load: &mut TranslatedLoad,
    builder: &mut TranslationBuilder,
) {
    let value = given.value();
    match given.name {
        "-m" => load.put("--model", value),
        "-u" | "-i" | "--service-kind" | "--streaming" | "--shape" => {}
        "--endpoint" if is_openai => load.put("--endpoint", value),
        "--request-count" => load.put("--requests", value),
        "--warmup-request-count" => load.put("--warmup", value),
        "--random-seed" => load.put("--seed", value),
        // Without --measurement-mode its windows are of time.
        "--measurement-request-count" if line.has("-p") && !counts_windows(line) => {
            builder.push_untranslated(
                given.as_written(),
                "its windows are of -p; with --measurement-mode count_windows they would be of this count",
            );
        }
        "-p" if line.has("--measurement-request-count") && counts_windows(line) => {
            builder.push_untranslated(
                given.as_written(),
                "with --measurement-mode count_windows a window ends after its number of requests",
            );
        }
        "--measurement-request-count" if !line.has("--request-count") => {
            load.put("--requests", value);
            builder.note(
                "--measurement-request-count is the number of all requests; there it is that of one of three windows",
            );
        }
        "-p" if line.has("--request-count") => {
            builder.push_untranslated(given.as_written(), "the run ends after its number of requests");
        }
        "-p" => {
            load.put("--measurement-interval", value);
            builder.note("-p is for how long requests arrive; there it is the length of one of three windows");
        }
        "--concurrency-range" => level(given, "--concurrency", "concurrency", load, builder),
        "--request-rate-range" => level(given, "--rate", "rate", load, builder),
        "--request-distribution" => load.put("--arrivals", value),
        "-b" if value == "1" => {}
        "-b" if !is_openai => {
            if let Some(rows) = given.number::<u32>() {
                load.keys.insert("request".to_owned(), serde_json::json!({"batch": rows}));
            }
        }
        "--request-parameter" => {
            // NAME:VALUE:TYPE
            let mut parts = value.splitn(3, ':');
            let (name, value) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            extra(load, builder, &format!("{name}:{value}"), is_openai);
        }
        "-H" => header(given, load, builder),
        "--input-data" if value == "random" => {}
        "--input-data" if value == "zero" => builder.push_untranslated(
            given.as_written(),
            "prompts are of random tokens: a language model that reads zeros only is not measured at its work",
        ),
        "--input-data" => {
            load.put("--data", value);
            load.put("--data-kind", "jsonl");
            // It begins again at their end, and sends conversations once.
            if !line.has("--session-concurrency") {
                load.put_data_key("repeat", serde_json::json!(true));
            }
        }
        "--session-concurrency" => {
            load.put("--concurrency", value);
            load.sessions_of_data();
        }
        name if name.starts_with("--ssl-https-ca") => load.put("--cacert", value),
        name if name.starts_with("--ssl-https-client-certificate-file") => load.put("--cert", value),
        name if name.starts_with("--ssl-https-private-key-file") => load.put("--key", value),
        name if name.starts_with("--ssl-grpc") => {
            builder.push_untranslated(
                given.as_written(),
                "gRPC is supported without TLS only; OpenAI's interfaces support TLS",
            );
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

fn level(
    given: &GivenOption,
    option: &'static str,
    key: &'static str,
    load: &mut TranslatedLoad,
    builder: &mut TranslationBuilder,
) {
    if given.value().starts_with("{{") {
        return load.put(option, given.value());
    }
    match range(given.value()) {
        Some(values) => load.sweep(Some(option), key, values, builder),
        None => builder.push_error(format!("`{}` is not START, START:END or START:END:STEP", given.as_written())),
    }
}

/// The arguments behind `--` on another tool's line.
pub(crate) fn translate_passthrough(words: &[String], load: &mut TranslatedLoad, builder: &mut TranslationBuilder) {
    let line = read("perf_analyzer (behind `--`)", TABLE, words, builder);
    for word in &line.plain {
        builder.push_error(format!("`{word}` behind `--`: perf_analyzer takes options only"));
    }
    for given in &line.given {
        match given.name {
            "--request-count" if load.has("--requests") => {
                builder.push_untranslated(given.as_written(), "it is already given before `--`");
            }
            _ => option(given, load.get("--protocol") != Some("kserve"), &line, load, builder),
        }
    }
}
