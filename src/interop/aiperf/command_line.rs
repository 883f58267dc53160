//! `aiperf profile`, GenAI-Perf's successor.

use serde_json::json;

use crate::interop::command_line::load::{TranslatedLoad, extra, goodput, header, length};
use crate::interop::command_line::options::{GivenOption, Opt, ParsedLine, flag, many, one, read};
use crate::interop::command_line::translation::{Translation, TranslationBuilder};

const TOOL: &str = "aiperf profile";

#[rustfmt::skip]
static TABLE: &[Opt] = &[
    many(&["--model", "-m", "--model-names"]), one(&["--model-selection-strategy"]), one(&["--endpoint-type"]), one(&["--endpoint", "--custom-endpoint"]),
    flag(&["--streaming"]), one(&["--url", "-u"]), one(&["--request-timeout-seconds"]), one(&["--api-key"]), one(&["--transport"]),
    one(&["--input-file"]), flag(&["--fixed-schedule"]), flag(&["--fixed-schedule-auto-offset"]), one(&["--fixed-schedule-start-offset"]), one(&["--fixed-schedule-end-offset"]),
    one(&["--public-dataset"]), one(&["--custom-dataset-type"]), one(&["--random-seed"]), one(&["--num-dataset-entries", "--num-prompts"]),
    one(&["--synthetic-input-tokens-mean", "--isl", "--prompt-input-tokens-mean"]), one(&["--synthetic-input-tokens-stddev", "--isl-stddev", "--prompt-input-tokens-stddev"]),
    one(&["--isl-block-size", "--prompt-input-tokens-block-size"]),
    one(&["--output-tokens-mean", "--osl", "--prompt-output-tokens-mean"]), one(&["--output-tokens-stddev", "--osl-stddev", "--prompt-output-tokens-stddev"]),
    one(&["--seq-dist", "--sequence-distribution"]), one(&["--prefix-prompt-pool-size", "--num-prefix-prompts", "--prompt-prefix-pool-size"]), one(&["--prefix-prompt-length", "--prompt-prefix-length"]),
    many(&["--extra-inputs"]), many(&["--header", "-H"]), many(&["--goodput"]), one(&["--batch-size-text", "--prompt-batch-size", "--batch-size", "-b"]),
    one(&["--concurrency"]), one(&["--request-rate"]), one(&["--request-rate-mode"]), one(&["--request-count", "--num-requests"]), one(&["--warmup-request-count", "--num-warmup-requests"]),
    one(&["--benchmark-duration"]), one(&["--benchmark-grace-period"]), one(&["--request-cancellation-rate"]), one(&["--request-cancellation-delay"]),
    one(&["--conversation-num", "--num-conversations", "--num-sessions"]), one(&["--conversation-turn-mean", "--session-turns-mean"]), one(&["--conversation-turn-stddev", "--session-turns-stddev"]),
    one(&["--conversation-turn-delay-mean", "--session-turn-delay-mean"]), one(&["--conversation-turn-delay-stddev"]), one(&["--conversation-turn-delay-ratio", "--session-delay-ratio"]),
    one(&["--artifact-directory", "--artifact-dir", "--output-artifact-dir"]), one(&["--profile-export-file"]), one(&["--export-level", "--profile-export-level"]),
    one(&["--workers-max", "--max-workers"]), one(&["--record-processors", "--record-processor-service-count"]), one(&["--ui-type", "--ui"]), one(&["--zmq-host"]), one(&["--zmq-ipc-path"]),
    one(&["--log-level"]), flag(&["--verbose", "-v"]), flag(&["--extra-verbose", "-vv"]), many(&["--gpu-telemetry"]), many(&["--server-metrics"]),
    one(&["--tokenizer"]), one(&["--tokenizer-revision"]), flag(&["--tokenizer-trust-remote-code"]), flag(&["--use-server-token-count"]),
];

/// Options without a meaning here, and why.
#[rustfmt::skip]
const LEFT: &[(&[&str], &str)] = &[
    (&["--artifact-directory", "--profile-export-file", "--export-level"], "results are kept with the run: requests.jsonl has every request"),
    (&["--workers-max", "--record-processors", "--zmq-host", "--zmq-ipc-path"], "one process sends and measures; it reports when it cannot keep up"),
    (&["--ui-type", "--log-level", "--verbose", "--extra-verbose"], "`regatta -v` prints more, `-q` less"),
    (&["--gpu-telemetry", "--server-metrics"], "GPU readings come from nvidia-smi or from the servers' own metrics"),
    (&["--tokenizer-revision", "--tokenizer-trust-remote-code"], "a tokenizer is a file here, nothing is downloaded or run for it"),
    (&["--model-selection-strategy"], "with one model there is nothing to select"),
    (&["--use-server-token-count"], "server counts are used wherever the server reports them"),
    (&["--isl-block-size"], "it is for traces with hash ids: `data.block_tokens`"),
    (&["--seq-dist"], "lengths with weights are `input_tokens: { empirical: … }`"),
    (&["--public-dataset"], "nothing is downloaded: give the file, with `--data FILE --data-kind sharegpt`"),
    (&["--fixed-schedule", "--fixed-schedule-auto-offset", "--fixed-schedule-start-offset", "--fixed-schedule-end-offset"], "arrivals at the time stamps of data are `scenario: trace`"),
    (&["--benchmark-grace-period"], "requests under way are waited for; `stall_timeout` gives one up"),
    (&["--conversation-num", "--conversation-turn-mean", "--conversation-turn-stddev", "--conversation-turn-delay-mean", "--conversation-turn-delay-stddev", "--conversation-turn-delay-ratio"], "conversations are `bench.sessions` and `think_time`: write them by hand"),
    (&["--transport"], "the endpoint type selects the protocol"),
];

pub(in crate::interop) fn translate(words: &[String]) -> Result<Translation, Vec<String>> {
    let mut sheet = TranslationBuilder::default();
    let line = read(TOOL, TABLE, words, &mut sheet);
    for word in line.plain.iter().chain(&line.behind) {
        sheet.push_error(format!("`{word}`: {TOOL} takes options only"));
    }
    let mut load = TranslatedLoad::default();
    load.put(
        "--protocol",
        match line.value("--endpoint-type").unwrap_or("chat") {
            "chat" => "openai-chat",
            "completions" => "openai-completions",
            other => {
                sheet.push_error(format!("`--endpoint-type {other}` is not supported: there are chat and completions"));
                "openai-chat"
            }
        },
    );
    load.target(line.value("--url").unwrap_or("localhost:8000"));
    for given in &line.given {
        if !length(&mut load, given) {
            option(given, &line, &mut load, &mut sheet);
        }
    }
    defaults(&line, &mut load, &mut sheet);
    sheet.finish(TOOL, load.means())
}

fn option(given: &GivenOption, line: &ParsedLine, load: &mut TranslatedLoad, sheet: &mut TranslationBuilder) {
    let value = given.value();
    match given.name {
        "--model" => {
            load.put("--model", value);
            if given.values.len() > 1 {
                sheet.push_untranslated(
                    given.as_written(),
                    "one measurement drives one model, the first; add a `bench` for each",
                );
            }
        }
        "--endpoint-type" | "--url" => {}
        "--endpoint" => load.put("--endpoint", value),
        "--streaming" => load.flag("--streaming"),
        "--api-key" => {
            load.put("--api-key-env", "API_KEY");
            sheet.note("the key of --api-key is read from the environment variable API_KEY; it is not written down");
        }
        "--header" => header(given, load, sheet),
        "--extra-inputs" => given.values.iter().for_each(|word| extra(load, sheet, word, true)),
        "--goodput" => goodput(load, sheet, given),
        "--random-seed" => load.put("--seed", value),
        "--concurrency" if line.has("--request-rate") => cap(given, load, sheet),
        "--concurrency" => load.put("--concurrency", value),
        "--request-rate" => load.put("--rate", value),
        "--request-rate-mode" => match value {
            "constant" | "poisson" => load.put("--arrivals", value),
            _ => sheet.push_untranslated(
                given.as_written(),
                "at once up to a number in flight is a closed loop: --concurrency",
            ),
        },
        "--request-count" => load.put("--requests", value),
        "--warmup-request-count" => load.put("--warmup", value),
        "--benchmark-duration" => load.put("--duration", format!("{value}s")),
        "--request-timeout-seconds" => {
            load.keys.insert("request".to_owned(), json!({"deadline": format!("{value}s")}));
        }
        "--request-cancellation-rate" if value.parse::<f64>().is_ok_and(|rate| rate == 0.0) => {}
        "--request-cancellation-rate" | "--request-cancellation-delay" => {
            sheet.push_untranslated(
                given.as_written(),
                "requests are ended after tokens, not after a time: `bench.request.cancel`",
            );
        }
        "--num-dataset-entries" if line.has("--input-file") => {
            sheet.push_untranslated(given.as_written(), "each record of the data is sent once");
        }
        "--num-dataset-entries" | "--prefix-prompt-pool-size" | "--prefix-prompt-length" => pool(given, line, load),
        "--tokenizer" => {
            load.put("--tokenizer", value);
            sheet.note(format!(
                "--tokenizer {value} is used where it is a folder or a tokenizer.json here; nothing is downloaded"
            ));
        }
        "--batch-size-text" if value == "1" => {}
        "--input-file" => {
            load.put("--data", value);
            match line.value("--custom-dataset-type") {
                None | Some("single_turn") => load.put("--data-kind", "jsonl"),
                Some("mooncake_trace") => load.put("--data-kind", "mooncake"),
                Some(other) => {
                    sheet.push_untranslated(
                        format!("--custom-dataset-type {other}"),
                        "read are single_turn and mooncake_trace",
                    );
                }
            }
        }
        "--custom-dataset-type" if line.has("--input-file") => {}
        name => {
            let why =
                LEFT.iter().find(|(names, _)| names.contains(&name)).map_or("there is nothing like it here", |it| it.1);
            sheet.push_untranslated(given.as_written(), why);
        }
    }
}

/// Beside a rate, its concurrency is the limit of requests in flight.
fn cap(given: &GivenOption, load: &mut TranslatedLoad, sheet: &mut TranslationBuilder) {
    match given.value().parse::<u32>() {
        Ok(most) if most > 0 => {
            load.keys.insert("max_in_flight".to_owned(), json!(most));
        }
        _ => sheet.push_error(format!("`{}`: a whole number from 1 on", given.as_written())),
    }
}

fn pool(given: &GivenOption, line: &ParsedLine, load: &mut TranslatedLoad) {
    let number = |name: &str| line.value(name).and_then(|n| n.parse::<u32>().ok()).filter(|n| *n > 0);
    if given.name == "--num-dataset-entries" {
        if let Some(entries) = number("--num-dataset-entries") {
            load.keys.insert("distinct_prompts".to_owned(), json!(entries));
        }
    } else if let (Some(count), Some(tokens)) = (number("--prefix-prompt-pool-size"), number("--prefix-prompt-length"))
    {
        load.keys.insert("prefixes".to_owned(), json!({"count": count, "tokens": tokens}));
    }
}

fn defaults(line: &ParsedLine, load: &mut TranslatedLoad, sheet: &mut TranslationBuilder) {
    if !load.has("--concurrency") && !load.has("--rate") {
        load.put("--concurrency", "1");
    }
    if !line.has("--warmup-request-count") {
        load.put("--warmup", "0");
    }
    if !load.has("--requests") && !load.has("--duration") && !load.has("--data") {
        load.put("--requests", "10");
        sheet.note("neither a number of requests nor a duration is given: 10 requests, as AIPerf has it");
    }
    if !load.has("--output-tokens") && !load.has("--data") {
        sheet.note("no --osl: there the model decides the length of its answers; here 128 tokens are requested");
    }
    if !line.has("--streaming") {
        load.flag("--no-streaming");
    }
}
