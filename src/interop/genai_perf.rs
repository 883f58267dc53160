//! `genai-perf profile` and `genai-perf analyze`, of 2024 and of now.

use std::path::Path;

use serde_json::json;

use crate::command_line::{
    CHAT, COMPLETIONS, ConversationOptions, GivenOption, ParsedLine, TranslatedLoad, TranslationResult, length_pairs,
    models, range, rate_of_conversations, tool_table,
};
use crate::perf_analyzer;
use base::spec::Quantity;

tool_table!(
    PROFILE,
    ["genai-perf"],
    [
        ("model", models),
        ("backend", backend),
        ("data", data),
        ("prefixes", prefixes),
        ("window", window),
        ("batch", batch),
        ("length_pairs", length_pairs),
    ]
);

/// Its options for conversations.
const CONVERSATIONS: ConversationOptions = ConversationOptions {
    count: "--num-sessions",
    turns_mean: "--session-turns-mean",
    turns_stddev: "--session-turns-stddev",
    delay_mean: "--session-turn-delay-mean",
    delay_stddev: "--session-turn-delay-stddev",
    delay_ratio: "--session-delay-ratio",
};

/// Which of GenAI-Perf's commands a line is, or has the options of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subcommand {
    Profile,
    /// Measures several levels, also where no option names them.
    Analyze,
}

pub(crate) fn translate(tool: &'static str, command: Subcommand, words: &[String]) -> TranslationResult {
    let mut load = TranslatedLoad::default();
    let line = PROFILE.read_as(tool, words, &mut load.builder);
    interface(&line, &mut load);
    for word in &line.plain {
        load.builder.push_error(format!("`{word}`: {tool} takes options only"));
    }
    if line.has("--concurrency") && line.has("--request-rate") {
        load.builder.push_error(format!("`--concurrency` and `--request-rate`: {tool} takes one of them"));
        return load.finish(tool);
    }
    PROFILE.apply(&line, &mut load);
    if command == Subcommand::Analyze
        || ["--sweep-type", "--sweep-range", "--sweep-list"].iter().any(|name| line.has(name))
    {
        sweep(&line, &mut load);
    }
    CONVERSATIONS.put(&line, &mut load);
    rate_of_conversations("--request-rate", &mut load);
    defaults(&line, &mut load);
    perf_analyzer::translate_passthrough(&line.behind, &mut load);
    if load.has("rate") && !load.has("arrivals") {
        // It sends at equal distances unless perf_analyzer has another setting.
        load.put("arrivals", "constant");
    }
    load.default_tokenizer(None);
    load.finish(tool)
}

/// The server's address and protocol.
fn interface(line: &ParsedLine, load: &mut TranslatedLoad) {
    let endpoint = line.value("--endpoint-type");
    let path = line.value("--endpoint");
    let protocol = match (line.value("--service-kind"), endpoint) {
        (None | Some("triton"), None | Some("kserve")) => "kserve",
        (None | Some("triton"), Some("generate")) => "generate",
        (Some("openai"), None) | (None | Some("openai"), Some("chat")) => "openai-chat",
        (None | Some("openai"), Some("completions")) => "openai-completions",
        (kind, endpoint) => {
            let word = endpoint.or(kind).unwrap_or_default();
            load.builder.push_error(format!(
                "cannot translate the line: requests of `{word}` are not measured; those of kserve, generate, chat and \
                completions are"
            ));
            "kserve"
        }
    };
    load.put("protocol", protocol);
    let usual_url = if protocol == "kserve" { "localhost:8001" } else { "localhost:8000" };
    let url = line.value("--url").unwrap_or(usual_url);
    let usual = match protocol {
        "openai-chat" => CHAT.1,
        "openai-completions" => COMPLETIONS.1,
        _ => {
            load.target(url);
            if let Some(path) = path {
                load.put("endpoint", path);
            }
            return;
        }
    };
    load.overlapping_address(&[url], path.unwrap_or(usual), usual);
}

/// The server's model metadata shows the backend.
fn backend(_: &mut TranslatedLoad, _: &ParsedLine, given: &GivenOption) -> bool {
    let value = given.value();
    value == "vllm" || value.starts_with("tensorrtllm") || value.starts_with("trtllm")
}

fn window(load: &mut TranslatedLoad, _: &ParsedLine, given: &GivenOption) -> bool {
    load.put("stop.duration", format!("{}ms", given.value()));
    load.builder
        .note("Regatta sends requests for --measurement-interval; `genai-perf` measures three windows of that length");
    true
}

fn batch(load: &mut TranslatedLoad, _: &ParsedLine, given: &GivenOption) -> bool {
    let is_kserve = load.get("protocol") == Some("kserve");
    if is_kserve {
        if let Some(rows) = given.number::<u32>() {
            load.set("request", json!({"batch": rows}));
        }
        load.builder.note(format!(
            "`genai-perf` sends {} prompts in one message; Regatta sends and measures each as a request",
            given.value()
        ));
    }
    is_kserve
}

fn prefixes(load: &mut TranslatedLoad, line: &ParsedLine, _: &GivenOption) -> bool {
    let count = line.first_number::<u32>(&["--num-prefix-prompts"]);
    if count != Quantity::Known(0) {
        load.prefixes(count, &line.first_number(&["--prefix-prompt-length"]));
    }
    true
}

fn data(load: &mut TranslatedLoad, line: &ParsedLine, given: &GivenOption) -> bool {
    let file = given.value();
    let has_end = line.has("--request-count") || line.has("--measurement-interval");
    if let Some(file) = file.strip_prefix("payload:") {
        load.data("jsonl", file);
        // In GenAI-Perf the delay is measured from the end of the previous answer.
        load.set("data.delay", json!("after_answer"));
        if line.has("--session-concurrency") {
            load.sessions_of_data();
        } else if has_end {
            load.flag("data.repeat");
        }
        if let Some(ratio) = line.value("--session-delay-ratio") {
            load.builder.push_untranslated_load(
                format!("--session-delay-ratio {ratio}"),
                "the pauses of a file are kept as they are: change its `delay`",
            );
        }
    } else if file.starts_with("synthetic:") {
        load.builder
            .push_untranslated_load(given, "it is for other endpoint types; without data, prompts are synthetic");
    } else if Path::new(file).extension().is_some_and(|suffix| suffix == "jsonl") {
        load.put("data", file);
        // It begins again at their end.
        if has_end {
            load.flag("data.repeat");
        }
        if line.has("--synthetic-input-tokens-mean") {
            load.builder.note("with data, --isl cuts or pads prompts to this length");
        }
    } else {
        load.builder.push_untranslated_load(
            given,
            "read are files in JSONL, one `{\"text\": …}` a line; a folder of files is not",
        );
    }
    true
}

/// The levels that `analyze` measures.
fn sweep(line: &ParsedLine, load: &mut TranslatedLoad) {
    let kind = line.value("--sweep-type").unwrap_or("concurrency");
    let values = match (line.value("--sweep-list"), line.value("--sweep-range")) {
        (Some(list), _) => list
            .split(',')
            .map(|level| range(level.trim()).filter(|levels| levels.len() == 1))
            .collect::<Option<Vec<_>>>(),
        // Its concurrencies are powers of two, whatever the step.
        (None, range) if kind == "concurrency" => powers(range.unwrap_or("1:1024")).map(|all| vec![all]),
        (None, Some(text)) => range(text).map(|all| vec![all]),
        (None, None) => None,
    };
    let Some(values) = values.map(|values| values.into_iter().flatten().collect::<Vec<_>>()) else {
        return load.builder.push_error(
            "`--sweep-range` is MIN:MAX or MIN:MAX:STEP, both powers of 2 for a concurrency; `--sweep-list` is numbers \
            with commas",
        );
    };
    match kind {
        "concurrency" => load.sweep("concurrency", values),
        "request_rate" => load.sweep("rate", values),
        "input_sequence_length" => load.sweep("input_tokens", values),
        "num_dataset_entries" => load.sweep("distinct_prompts", values),
        other => load.builder.push_error(format!(
            "`--sweep-type {other}` is not supported; supported are concurrency, request_rate, input_sequence_length \
             and num_dataset_entries"
        )),
    }
}

fn powers(text: &str) -> Option<Vec<serde_json::Value>> {
    let parts: Vec<u32> = text.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let (from, to) = match parts.as_slice() {
        [from, to] | [from, to, _] => (*from, *to),
        _ => return None,
    };
    // It refuses other ends.
    let is_range = from <= to && from.is_power_of_two() && to.is_power_of_two();
    is_range.then(|| (from.trailing_zeros()..=to.trailing_zeros()).map(|n| json!(1_u32 << n)).collect())
}

/// Prompts that it makes where the line does not say how many: `NUM_DATASET_ENTRIES` in
/// genai_perf/config/input/config_defaults.py of
/// 0.0.16.
const DATASET_ENTRIES: u64 = 100;

/// More requests than prompts have the same prompts again.
fn distinct_prompts(load: &mut TranslatedLoad) {
    let requests = load.get("stop.requests").map(|count| count.parse::<u64>().unwrap_or(u64::MAX));
    let is_set = load.has("data") || ["distinct_prompts", "sessions"].iter().any(|key| load.keys.contains_key(*key));
    if is_set || load.sweeps("distinct_prompts") || requests.is_some_and(|requests| requests <= DATASET_ENTRIES) {
        return;
    }
    load.set("distinct_prompts", json!(DATASET_ENTRIES));
    load.builder.note(format!(
        "its {DATASET_ENTRIES} prompts are sent again and again, which a prefix cache reuses; \
        --num-dataset-entries has another number of them, and without `distinct_prompts` each request has its own"
    ));
}

/// Sets what a line without an option means there.
fn defaults(line: &ParsedLine, load: &mut TranslatedLoad) {
    if !load.has("concurrency") && !load.has("rate") {
        load.put("concurrency", "1");
    }
    if !line.has("--warmup-request-count") {
        load.put("warmup", "0");
    }
    let has_data = load.has("data");
    if !load.has("stop.requests") && !load.has("stop.duration") && !has_data {
        load.usual_requests(load.most_users(), "GenAI-Perf");
    }
    distinct_prompts(load);
    // Lines of conversations may have lengths of their own.
    let is_of_conversations = line.value("--input-file").is_some_and(|file| file.starts_with("payload:"));
    if !load.has("output_tokens") && !is_of_conversations {
        load.usual_answers();
    }
    if !line.has("--streaming") {
        load.streaming(false);
    }
}
