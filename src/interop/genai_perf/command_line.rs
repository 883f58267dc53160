//! `genai-perf profile` and `genai-perf analyze`, of 2024 and of now.

use serde_json::json;

use crate::command_line::conversations::{ConversationOptions, length_pairs, rate_of_conversations};
use crate::command_line::headers::header;
use crate::command_line::load::{
    CHAT, COMPLETIONS, TranslatedLoad, extra, goodput, length, overlapping_address, range, whole,
};
use crate::command_line::options::{GivenOption, Opt, ParsedLine, flag, many, one, read};
use crate::command_line::translation::{Translation, TranslationBuilder};
use crate::command_line::translation_error::TranslationError;
use crate::perf_analyzer::command_line as perf_analyzer;
use base::spec::Quantity;

#[rustfmt::skip]
static TABLE: &[Opt] = &[
    many(&["--model", "-m", "--model-names"]), one(&["--model-selection-strategy"]), one(&["--backend", "--output-format"]),
    one(&["--endpoint"]), one(&["--endpoint-type"]), one(&["--service-kind"]), flag(&["--streaming"]), one(&["--url", "-u"]),
    many(&["--server-metrics-urls", "--server-metrics-url"]), one(&["--grpc-method"]),
    one(&["--batch-size-text", "--batch-size", "-b"]), one(&["--batch-size-image", "--image-batch-size"]), one(&["--batch-size-audio", "--audio-batch-size"]),
    one(&["--audio-length-mean"]), one(&["--audio-length-stddev"]), one(&["--audio-format"]), many(&["--audio-depths"]), many(&["--audio-sample-rates"]), one(&["--audio-num-channels"]),
    one(&["--image-width-mean"]), one(&["--image-width-stddev"]), one(&["--image-height-mean"]), one(&["--image-height-stddev"]), one(&["--image-format"]),
    many(&["--extra-inputs"]), many(&["--goodput", "-g"]), many(&["--header", "-H"]),
    one(&["--input-file", "-f"]), one(&["--prompt-source", "--input-type"]), one(&["--num-dataset-entries", "--num-prompts", "--num-of-output-prompts"]),
    one(&["--sequence-distribution", "--seq-dist"]), one(&["--num-prefix-prompts"]), one(&["--prefix-prompt-length"]),
    one(&["--synthetic-input-tokens-mean", "--isl", "--input-tokens-mean"]), one(&["--synthetic-input-tokens-stddev", "--input-tokens-stddev"]),
    one(&["--output-tokens-mean", "--osl", "--expected-output-tokens"]), one(&["--output-tokens-stddev"]), flag(&["--output-tokens-mean-deterministic"]),
    one(&["--random-seed"]), one(&["--warmup-request-count", "--num-warmup-requests"]),
    one(&["--num-sessions"]), one(&["--session-concurrency"]), one(&["--session-delay-ratio"]),
    one(&["--session-turns-mean"]), one(&["--session-turns-stddev"]), one(&["--session-turn-delay-mean"]), one(&["--session-turn-delay-stddev"]),
    one(&["--concurrency"]), one(&["--request-rate"]), flag(&["--fixed-schedule"]),
    one(&["--request-count", "--num-requests"]), one(&["--measurement-interval", "-p"]), one(&["--stability-percentage", "-s"]),
    one(&["--sweep-type"]), one(&["--sweep-range"]), one(&["--sweep-list"]),
    one(&["--artifact-dir"]), one(&["--checkpoint-dir"]), flag(&["--enable-checkpointing"]), one(&["--profile-export-file"]), flag(&["--generate-plots"]),
    one(&["--tokenizer"]), one(&["--tokenizer-revision"]), flag(&["--tokenizer-trust-remote-code"]), flag(&["--verbose", "-v"]),
];

/// Its options for conversations.
const CONVERSATIONS: ConversationOptions = ConversationOptions {
    count: "--num-sessions",
    turns_mean: "--session-turns-mean",
    turns_stddev: "--session-turns-stddev",
    delay_mean: "--session-turn-delay-mean",
    delay_stddev: "--session-turn-delay-stddev",
    delay_ratio: "--session-delay-ratio",
};

/// Options that only set where and how it reports the run.
const REPORTING: [(&str, &str); 9] = [
    (
        "--artifact-dir",
        "results are kept with the run; `regatta export TASK --as genai-perf --out DIR` writes its files",
    ),
    ("--profile-export-file", "results are kept with the run; `regatta export TASK --as genai-perf` writes that file"),
    ("--checkpoint-dir", "what is measured already is kept with the run"),
    ("--enable-checkpointing", "what is measured already is kept with the run"),
    ("--generate-plots", "the report of a run has its plots"),
    ("--verbose", "`regatta -v` prints more"),
    (
        "--server-metrics-urls",
        "GPU readings come from nvidia-smi or from the servers' own metrics, not through a DCGM exporter",
    ),
    (
        "--stability-percentage",
        "the run ends with its requests or its duration, and the result reports whether it was steady",
    ),
    ("--prompt-source", "without data, prompts are synthetic"),
];

/// Which of GenAI-Perf's commands a line is, or has the options of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subcommand {
    Profile,
    /// Measures several levels, also where no option names them.
    Analyze,
}

pub(crate) fn translate(
    tool: &'static str,
    command: Subcommand,
    words: &[String],
) -> Result<Translation, TranslationError> {
    let mut builder = TranslationBuilder::default();
    let line = read(tool, TABLE, words, &mut builder);
    let mut load = TranslatedLoad::default();
    let is_http = interface(&line, &mut load, &mut builder);
    for word in &line.plain {
        builder.push_error(format!("`{word}`: {tool} takes options only"));
    }
    for given in &line.given {
        if !length(&mut load, given) {
            option(given, is_http, &line, &mut load, &mut builder);
        }
    }
    if command == Subcommand::Analyze
        || ["--sweep-type", "--sweep-range", "--sweep-list"].iter().any(|name| line.has(name))
    {
        sweep(&line, &mut load, &mut builder);
    }
    CONVERSATIONS.put(&line, &mut load, &mut builder);
    rate_of_conversations("--request-rate", &mut load, &mut builder);
    defaults(&line, &mut load, &mut builder);
    perf_analyzer::translate_passthrough(&line.behind, &mut load, &mut builder);
    if load.has("--rate") && !load.has("--arrivals") {
        // It sends at equal distances unless perf_analyzer has another setting.
        load.put("--arrivals", "constant");
    }
    builder.finish(tool, load.means())
}

/// The server's address and protocol. Returns whether that is HTTP.
fn interface(line: &ParsedLine, load: &mut TranslatedLoad, builder: &mut TranslationBuilder) -> bool {
    let endpoint = line.value("--endpoint-type");
    let path = line.value("--endpoint");
    let protocol = match (line.value("--service-kind"), endpoint) {
        (None | Some("triton"), None | Some("kserve")) => "kserve",
        (None | Some("triton"), Some("generate")) => "generate",
        (Some("openai"), None) | (None | Some("openai"), Some("chat")) => "openai-chat",
        (None | Some("openai"), Some("completions")) => "openai-completions",
        (kind, endpoint) => {
            let word = endpoint.or(kind).unwrap_or_default();
            let why = "answered are kserve, generate, chat and completions, of the service kinds triton and openai";
            builder.push_error(format!("`{word}` is not supported: {why}"));
            "kserve"
        }
    };
    load.put("--protocol", protocol);
    let is_http = protocol != "kserve";
    let url = line.value("--url").unwrap_or(if is_http { "localhost:8000" } else { "localhost:8001" });
    let usual = match protocol {
        "openai-chat" => CHAT.1,
        "openai-completions" => COMPLETIONS.1,
        _ => {
            load.target(url);
            if let Some(path) = path {
                load.put("--endpoint", path);
            }
            return is_http;
        }
    };
    overlapping_address(&[url], path.unwrap_or(usual), usual, load, builder);
    is_http
}

fn option(
    given: &GivenOption,
    is_http: bool,
    line: &ParsedLine,
    load: &mut TranslatedLoad,
    builder: &mut TranslationBuilder,
) {
    if let Some((_, why)) = REPORTING.iter().find(|(name, _)| *name == given.name) {
        return builder.push_untranslated(given.as_written(), *why);
    }
    let value = given.value();
    match given.name {
        "--model" => {
            load.put("--model", value);
            if given.values.len() > 1 {
                let rest = given.values[1..].join(" ");
                builder.push_untranslated(
                    format!("{} … {rest}", given.written),
                    "one measurement drives one model; add a `bench` for each",
                );
            }
        }
        // Read together, above.
        "--service-kind" | "--endpoint-type" | "--endpoint" | "--url" => {}
        "--streaming" => load.flag("--streaming"),
        // The server's model metadata shows the backend.
        "--backend" if value == "vllm" || value.starts_with("tensorrtllm") || value.starts_with("trtllm") => {}
        "--backend" => builder.push_untranslated(given.as_written(), "the model's tensors are read from the server"),
        "--extra-inputs" => given.values.iter().for_each(|word| extra(load, builder, word, is_http)),
        "--goodput" => goodput(load, builder, given),
        // It may contain a key.
        "--header" => header(given, load, builder),
        "--input-file" => data(given, line, load, builder),
        "--num-dataset-entries" if line.has("--input-file") => {
            builder.push_untranslated(given.as_written(), "each record of the data is sent once");
        }
        "--num-dataset-entries" => whole(given, load, builder, "distinct_prompts"),
        "--num-prefix-prompts" | "--prefix-prompt-length" => prefixes(line, load),
        "--output-tokens-mean-deterministic" => load.flag("--ignore-eos"),
        "--random-seed" => load.put("--seed", value),
        "--warmup-request-count" => load.put("--warmup", value),
        "--concurrency" | "--session-concurrency" => load.put("--concurrency", value),
        "--request-rate" => load.put("--rate", value),
        "--request-count" => load.put("--requests", value),
        "--measurement-interval" if line.has("--request-count") => {
            builder.push_untranslated(given.as_written(), "the run ends after its number of requests");
        }
        "--measurement-interval" => {
            load.put("--measurement-interval", value);
            builder.note("--measurement-interval is for how long requests arrive; there it is the length of one of three windows");
        }
        "--tokenizer" => load.put("--tokenizer", value),
        "--batch-size-text" if value == "1" => {}
        "--batch-size-text" if !is_http => {
            if let Some(rows) = given.number::<u32>() {
                load.keys.insert("request".to_owned(), json!({"batch": rows}));
            }
            builder.note(format!("{value} prompts in one message: here each is a request and measured separately"));
        }
        "--fixed-schedule" => {
            builder.push_untranslated(
                given.as_written(),
                "arrivals at the time stamps of data are `scenario: trace`, with `data.jsonl`",
            );
        }
        // Read together, above.
        name if name.starts_with("--session") || name == "--num-sessions" => {}
        "--sequence-distribution" => length_pairs(&given.as_written(), value, load, builder),
        // Read together, below.
        "--sweep-type" | "--sweep-range" | "--sweep-list" => {}
        "--model-selection-strategy" => {
            builder.push_untranslated(given.as_written(), "with one model there is nothing to select");
        }
        "--tokenizer-revision" | "--tokenizer-trust-remote-code" => {
            builder.push_untranslated(
                given.as_written(),
                "a tokenizer is a file here, nothing is downloaded or run for it",
            );
        }
        name if ["--audio-", "--image-", "--batch-size-"].iter().any(|kind| name.starts_with(kind)) => {
            builder.push_untranslated(given.as_written(), "images and sound are not sent");
        }
        _ => builder.push_untranslated(given.as_written(), "there is nothing like it here"),
    }
}

fn prefixes(line: &ParsedLine, load: &mut TranslatedLoad) {
    let count = line.number::<u32>("--num-prefix-prompts").unwrap_or(Quantity::Known(0));
    let tokens = line.number::<u32>("--prefix-prompt-length").unwrap_or(Quantity::Known(100));
    if count != Quantity::Known(0) {
        load.keys.insert("prefixes".to_owned(), json!({"count": count, "tokens": tokens}));
    }
}

fn data(given: &GivenOption, line: &ParsedLine, load: &mut TranslatedLoad, builder: &mut TranslationBuilder) {
    let file = given.value();
    if let Some(file) = file.strip_prefix("payload:") {
        load.put("--data", file);
        load.put("--data-kind", "jsonl");
        // Theirs is the pause behind the answer of its line.
        load.put_data_key("delay", json!("after_answer"));
        if line.has("--session-concurrency") {
            load.sessions_of_data();
        } else if line.has("--request-count") || line.has("--measurement-interval") {
            load.put_data_key("repeat", json!(true));
        }
        if line.has("--session-delay-ratio") {
            builder.push_untranslated(
                format!("--session-delay-ratio {}", line.value("--session-delay-ratio").unwrap_or_default()),
                "the pauses of a file are kept as they are: change its `delay`",
            );
        }
    } else if file.starts_with("synthetic:") {
        builder.push_untranslated(
            given.as_written(),
            "it is for other endpoint types; without data, prompts are synthetic",
        );
    } else if std::path::Path::new(file).extension().is_some_and(|suffix| suffix == "jsonl") {
        load.put("--data", file);
        // It begins again at their end.
        if line.has("--request-count") || line.has("--measurement-interval") {
            load.put_data_key("repeat", json!(true));
        }
        if line.has("--synthetic-input-tokens-mean") {
            builder.note("with data, --isl is the length that prompts are cut or filled to");
        }
    } else {
        builder.push_untranslated(
            given.as_written(),
            "read are files in JSONL, one `{\"text\": …}` a line; a folder of files is not",
        );
    }
}

fn sweep(line: &ParsedLine, load: &mut TranslatedLoad, builder: &mut TranslationBuilder) {
    let kind = line.value("--sweep-type").unwrap_or("concurrency");
    let values = match (line.value("--sweep-list"), line.value("--sweep-range")) {
        (Some(list), _) => {
            list.split(',').map(|one| range(one.trim()).filter(|one| one.len() == 1)).collect::<Option<Vec<_>>>()
        }
        // Its concurrencies are powers of two, whatever the step.
        (None, range) if kind == "concurrency" => powers(range.unwrap_or("1:1024")).map(|all| vec![all]),
        (None, Some(text)) => range(text).map(|all| vec![all]),
        (None, None) => None,
    };
    let Some(values) = values.map(|values| values.into_iter().flatten().collect::<Vec<_>>()) else {
        return builder
            .push_error("`--sweep-range` is MIN:MAX or MIN:MAX:STEP, `--sweep-list` numbers with commas".to_owned());
    };
    match kind {
        "concurrency" => load.sweep(Some("--concurrency"), "concurrency", values, builder),
        "request_rate" => load.sweep(Some("--rate"), "rate", values, builder),
        "input_sequence_length" => load.sweep(Some("--input-tokens"), "input_tokens", values, builder),
        "num_dataset_entries" => load.sweep(None, "distinct_prompts", values, builder),
        other => builder.push_error(format!("`--sweep-type {other}` is not measured here: there are concurrency, request_rate, input_sequence_length and num_dataset_entries")),
    }
}

fn powers(text: &str) -> Option<Vec<serde_json::Value>> {
    let parts: Vec<u32> = text.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let (from, to) = match parts.as_slice() {
        [from, to] | [from, to, _] => (*from, *to),
        _ => return None,
    };
    let all: Vec<_> = (0..31).map(|n| 1u32 << n).filter(|n| (from..=to).contains(n)).map(|n| json!(n)).collect();
    (!all.is_empty()).then_some(all)
}

/// Prompts that it makes where the line does not say how many: `NUM_DATASET_ENTRIES` in genai_perf/config/input/config_defaults.py of
/// 0.0.16.
const DATASET_ENTRIES: u64 = 100;

/// More requests than prompts have the same prompts again.
fn distinct_prompts(load: &mut TranslatedLoad, builder: &mut TranslationBuilder) {
    let requests = load.get("--requests").map(|count| count.parse::<u64>().unwrap_or(u64::MAX));
    let is_set = load.has("--data") || ["distinct_prompts", "sessions"].iter().any(|key| load.keys.contains_key(*key));
    if is_set || load.sweeps("distinct_prompts") || requests.is_some_and(|requests| requests <= DATASET_ENTRIES) {
        return;
    }
    load.keys.insert("distinct_prompts".to_owned(), json!(DATASET_ENTRIES));
    builder.note(format!("its {DATASET_ENTRIES} prompts are sent again and again, which a prefix cache reuses; --num-dataset-entries has another number of them, and without `distinct_prompts` each request has its own"));
}

/// Adds options where an absent one means another thing here.
fn defaults(line: &ParsedLine, load: &mut TranslatedLoad, builder: &mut TranslationBuilder) {
    if !load.has("--concurrency") && !load.has("--rate") {
        load.put("--concurrency", "1");
    }
    if !line.has("--warmup-request-count") {
        load.put("--warmup", "0");
    }
    let has_data = load.has("--data");
    if !load.has("--requests") && !load.has("--measurement-interval") && !has_data {
        let users = load.highest("--concurrency").unwrap_or(Quantity::Known(1));
        let requests = users.times(2_u64).at_least(10_u64);
        load.put("--requests", requests.to_string());
        builder.note(if load.is_swept() { format!("neither a number of requests nor a duration is given: {requests} requests at each level; there 10, or twice the users of the level") } else { format!("neither a number of requests nor a duration is given: {requests} requests, as GenAI-Perf has it") });
    }
    distinct_prompts(load, builder);
    // Lines of conversations may have lengths of their own.
    let is_of_conversations = line.value("--input-file").is_some_and(|file| file.starts_with("payload:"));
    if !load.has("--output-tokens") && !is_of_conversations {
        if has_data {
            load.put("--output-tokens", "128");
        }
        builder.note("no --osl: there the model decides the length of its answers; here 128 tokens are requested");
    }
    if !line.has("--streaming") {
        load.flag("--no-streaming");
    }
    if let Some(name) = load.get("--tokenizer").map(str::to_owned)
        && !std::path::Path::new(&name).exists()
    {
        builder.note(format!(
            "--tokenizer {name} is used where it is a folder or a tokenizer.json here; nothing is downloaded"
        ));
    }
}
