//! `aiperf profile`, GenAI-Perf's successor.

use serde_json::json;

use super::input_file::{FirstLine, InputFile};
use super::option_table::{TABLE, left};
use super::warm_up;
use crate::command_line::conversations::{ConversationOptions, length_pairs, rate_of_conversations};
use crate::command_line::headers::header;
use crate::command_line::json_number::number;
use crate::command_line::load::{
    CHAT, COMPLETIONS, SHAREGPT_FILE, TranslatedLoad, api_key, burstiness, duration_beside_requests, extra, goodput,
    length, needs_tokenizer, overlapping_address, ready_timeout, tokenizer, whole,
};
use crate::command_line::options::{GivenOption, ParsedLine, read};
use crate::command_line::translation::{Translation, TranslationBuilder};
use crate::command_line::translation_error::TranslationError;
use base::spec::Quantity;

const TOOL: &str = "aiperf profile";

/// How many prompts are made for a benchmark that ends after a time.
const PROMPTS_OF_A_DURATION: u32 = 100;

/// Its options for conversations.
const CONVERSATIONS: ConversationOptions = ConversationOptions {
    count: "--conversation-num",
    turns_mean: "--conversation-turn-mean",
    turns_stddev: "--conversation-turn-stddev",
    delay_mean: "--conversation-turn-delay-mean",
    delay_stddev: "--conversation-turn-delay-stddev",
    delay_ratio: "--conversation-turn-delay-ratio",
};

pub(crate) fn translate(words: &[String], first_line: FirstLine<'_>) -> Result<Translation, TranslationError> {
    let mut builder = TranslationBuilder::default();
    let line = read(TOOL, TABLE, words, &mut builder);
    for word in line.plain.iter().chain(&line.behind) {
        builder.push_error(format!("`{word}`: {TOOL} takes options only"));
    }
    let mut load = TranslatedLoad::default();
    let (protocol, usual) = match line.value("--endpoint-type").unwrap_or("chat") {
        "completions" => COMPLETIONS,
        other => {
            if other != "chat" {
                builder
                    .push_error(format!("`--endpoint-type {other}` is not supported: there are chat and completions"));
            }
            CHAT
        }
    };
    load.put("--protocol", protocol);
    if !line.has("--use-legacy-max-tokens") {
        load.limits_completion_tokens();
    }
    let urls: Vec<&str> = line
        .given
        .iter()
        .filter(|given| given.name == "--url")
        .flat_map(|given| &given.values)
        .map(String::as_str)
        .collect();
    let urls = if urls.is_empty() { vec!["localhost:8000"] } else { urls };
    overlapping_address(&urls, line.value("--endpoint").unwrap_or(usual), usual, &mut load, &mut builder);
    if let Some(file) = line.value("--config") {
        return TranslationBuilder::nothing(
            TOOL,
            format!(
                "the line has no meaning here: its settings are in `{file}`, which is not read; give them as options"
            ),
        );
    }
    if let Some(rate) = line.value("--user-centric-rate") {
        return TranslationBuilder::nothing(TOOL, user_centric(rate, line.value("--num-users")));
    }
    if let Some(name) = line.value("--public-dataset").filter(|name| *name != "sharegpt") {
        return TranslationBuilder::nothing(
            TOOL,
            format!(
                "the line has no meaning here: the data set `{name}` is not downloaded; save its prompts as JSON lines and give them with `--input-file FILE --custom-dataset-type single_turn`"
            ),
        );
    }
    if let Some(given) = line.given.iter().find(|given| searches(given.name)) {
        return TranslationBuilder::nothing(
            TOOL,
            format!(
                "`{TOOL} {}` has no meaning here: it searches for a load within limits; that is `bench.search`, which finds the highest rate within `limits`, and `regatta bench --sweep` for all levels up to saturation",
                given.as_written()
            ),
        );
    }
    let file = match InputFile::of(&line, first_line, &mut builder) {
        Ok(file) => file,
        Err(why) => return TranslationBuilder::nothing(TOOL, why),
    };
    if let Some(file) = file {
        file.put(&line, &mut load);
    }
    for given in &line.given {
        if !levels(given, &mut load, &mut builder) && !length(&mut load, given) {
            option(given, &line, &mut load, &mut builder);
        }
    }
    if load.get("--data-kind") == Some("sharegpt") && !load.has("--output-tokens") {
        let model = line.value("--tokenizer").or(line.value("--model"));
        needs_tokenizer(model, &mut load, &mut builder);
    }
    // It sends a trace at its time stamps, whatever level is given.
    if file == Some(InputFile::Trace) {
        let levels = ["--concurrency", "--request-rate"];
        for given in line.given.iter().filter(|given| levels.contains(&given.name)) {
            builder.note(format!("{}: arrivals are those of the trace, as AIPerf sends one whose lines have a `timestamp`; without time stamps it sends them at that level: then write `data: {{ jsonl: FILE }}` and the level", given.as_written()));
        }
        load.trace(1.0);
        load.keys.shift_remove("max_in_flight");
    }
    CONVERSATIONS.put(&line, &mut load, &mut builder);
    rate_of_conversations("--request-rate", &mut load, &mut builder);
    warm_up::put(&line, &mut load, &mut builder);
    defaults(&line, file, &mut load, &mut builder);
    builder.finish(TOOL, load.means())
}

/// Why turns at a fixed distance are not sent, and what is.
fn user_centric(rate: &str, users: Option<&str>) -> String {
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| *number > 0.0);
    let users = users.unwrap_or("N");
    let gap = match (number(rate), number(users)) {
        (Some(rate), Some(users)) => format!("{} s", number_text(users / rate)),
        _ => format!("{users}/{rate} s"),
    };
    format!(
        "`{TOOL} --user-centric-rate {rate}` has no meaning here: there the turns of a user begin {gap} apart, here a user pauses from the end of an answer on; `--concurrency {users}` with `think_time: {{ fixed: … }}`, of {gap} less the time of an answer, is near it"
    )
}

/// Options that make the line a search for a load; limits alone do not.
fn searches(name: &str) -> bool {
    name.starts_with("--search-") || name.starts_with("--optuna-")
}

fn number_text(value: f64) -> String {
    number((value * 1e3).round() / 1e3).to_string()
}

fn option(given: &GivenOption, line: &ParsedLine, load: &mut TranslatedLoad, builder: &mut TranslationBuilder) {
    let value = given.value();
    match given.name {
        "--model" => {
            load.put("--model", value);
            if given.values.len() > 1 {
                builder.push_untranslated(
                    given.as_written(),
                    "one measurement drives one model, the first; add a `bench` for each",
                );
            }
        }
        // Read together, above.
        "--endpoint-type" | "--endpoint" | "--url" | "--use-legacy-max-tokens" => {}
        "--streaming" => load.flag("--streaming"),
        "--api-key" => api_key("--api-key", load, builder),
        "--header" => header(given, load, builder),
        "--wait-for-model-timeout" => ready_timeout(given, load, builder),
        "--extra-inputs" => given.values.iter().for_each(|word| extra(load, builder, word, true)),
        "--goodput" => goodput(load, builder, given),
        "--random-seed" => load.put("--seed", value),
        "--concurrency" if line.has("--request-rate") => whole(given, load, builder, "max_in_flight"),
        "--concurrency" => load.put("--concurrency", value),
        "--request-rate" => load.put("--rate", value),
        "--request-rate-mode" => match value {
            "constant" | "poisson" => load.put("--arrivals", value),
            "gamma" => {
                if !line.has("--arrival-smoothness") {
                    builder.note("gaps of a gamma distribution with the smoothness 1 are Poisson's");
                }
            }
            _ => builder.push_untranslated(
                given.as_written(),
                "at once up to a number in flight is a closed loop: --concurrency",
            ),
        },
        "--arrival-smoothness" if line.value("--request-rate-mode") == Some("gamma") => {
            burstiness(given, load, builder);
        }
        "--request-count" => load.put("--requests", value),
        // Read together, above.
        name if name.starts_with("--conversation-") => {}
        "--seq-dist" => length_pairs(&given.as_written(), value, load, builder),
        "--num-profile-runs" => load.put("--repeat", value),
        // Read together, above.
        "--warmup-duration" | "--warmup-request-count" | "--num-warmup-sessions" | "--input-file" => {}
        "--shared-system-prompt-length" => match given.number::<u32>() {
            Some(tokens) if tokens != Quantity::Known(0) => {
                load.keys.insert("prefixes".to_owned(), json!({"count": 1, "tokens": tokens}));
            }
            _ => builder.push_error(format!("`{}`: a whole number from 1 on", given.as_written())),
        },
        "--random-range-ratio" => around(given, line, load, builder),
        "--benchmark-duration" if value.contains(',') => builder.push_error(format!(
            "`{}`: one number is read; a list is a line, and a measurement, for each of its values",
            given.as_written()
        )),
        "--benchmark-duration" => load.put("--duration", format!("{value}s")),
        "--request-timeout-seconds" => {
            load.put_request_key("deadline", json!(format!("{value}s")));
        }
        "--request-cancellation-rate" if value.parse::<f64>().is_ok_and(|rate| rate == 0.0) => {}
        "--request-cancellation-rate" | "--request-cancellation-delay" => {
            builder.push_untranslated(
                given.as_written(),
                "requests are ended after tokens, not after a time: `bench.request.cancel`",
            );
        }
        "--num-dataset-entries" if line.has("--input-file") => {
            builder.push_untranslated(given.as_written(), "each record of the data is sent once");
        }
        "--num-dataset-entries" | "--prefix-prompt-pool-size" | "--prefix-prompt-length" => pool(given, line, load),
        "--tokenizer" => tokenizer(given, load, builder),
        "--public-dataset" => {
            load.put("--data", SHAREGPT_FILE);
            load.put("--data-kind", "sharegpt");
            load.keys.insert("data".to_owned(), json!({"order": "shuffled", "repeat": true}));
            builder.note(format!("nothing is downloaded: put {SHAREGPT_FILE} there, or name it in `data.sharegpt`"));
        }
        "--batch-size-text" if value == "1" => {}
        "--custom-dataset-type"
        | "--fixed-schedule"
        | "--fixed-schedule-auto-offset"
        | "--no-fixed-schedule"
        | "--allow-dataset-wrap"
        | "--no-allow-dataset-wrap"
            if line.has("--input-file") => {}
        name => builder.push_untranslated(given.as_written(), left(name)),
    }
}

/// `10,20,30` is a measurement for each.
fn levels(given: &GivenOption, load: &mut TranslatedLoad, builder: &mut TranslationBuilder) -> bool {
    let (option, key) = match given.name {
        "--concurrency" => ("--concurrency", "concurrency"),
        "--request-rate" => ("--rate", "rate"),
        "--synthetic-input-tokens-mean" => ("--input-tokens", "input_tokens"),
        "--output-tokens-mean" => ("--output-tokens", "output_tokens"),
        _ => return false,
    };
    if !given.value().contains(',') {
        return false;
    }
    let values: Option<Vec<_>> =
        given.value().split(',').map(|part| part.trim().parse::<f64>().ok().map(number)).collect();
    match values {
        Some(_) if load.is_swept() => builder.push_untranslated(
            given.as_written(),
            "one key of a sweep is read, the first; `foreach` of a stage takes several",
        ),
        Some(values) => load.sweep(Some(option), key, values, builder),
        None => builder.push_error(format!("`{}`: numbers with commas between them", given.as_written())),
    }
    true
}

/// Lengths evenly around their means, or up to them, by the tool whose style it is.
fn around(given: &GivenOption, line: &ParsedLine, load: &mut TranslatedLoad, builder: &mut TranslationBuilder) {
    let is_share = |ratio: &Quantity<f64>| ratio.known().is_none_or(|ratio| (0.0..=1.0).contains(ratio));
    let Some(ratio) = given.number::<f64>().filter(is_share) else {
        return builder.push_untranslated(given.as_written(), "a ratio from 0 to 1 is read");
    };
    let is_sglang = line.value("--random-corpus-style").is_some_and(|style| style.starts_with("sglang"));
    for (name, key) in [("--synthetic-input-tokens-mean", "input_tokens"), ("--output-tokens-mean", "output_tokens")] {
        let Some(mean) = line.number::<f64>(name) else { continue };
        let beside = |sign: &str, known: fn(f64, f64) -> f64| Quantity::Known(1.0).combine(sign, ratio.clone(), known);
        let share = |share: Quantity<f64>| mean.clone().combine("*", share, |one, other| one * other);
        let (low, high) = if is_sglang {
            (share(ratio.clone()), mean.clone())
        } else {
            (share(beside("-", |one, ratio| one - ratio)), share(beside("+", |one, ratio| one + ratio)))
        };
        let [low, high] = [low, high].map(|length| length.whole().map(|length| length.max(1)));
        load.length_between(key, &low, &high);
    }
}

fn pool(given: &GivenOption, line: &ParsedLine, load: &mut TranslatedLoad) {
    let number = |name: &str| line.number::<u32>(name).filter(|number| *number != Quantity::Known(0));
    if given.name == "--num-dataset-entries" {
        if let Some(entries) = number("--num-dataset-entries") {
            load.keys.insert("distinct_prompts".to_owned(), json!(entries));
        }
    } else if let (Some(count), Some(tokens)) = (number("--prefix-prompt-pool-size"), number("--prefix-prompt-length"))
    {
        load.keys.insert("prefixes".to_owned(), json!({"count": count, "tokens": tokens}));
    }
}

fn defaults(line: &ParsedLine, file: Option<InputFile>, load: &mut TranslatedLoad, builder: &mut TranslationBuilder) {
    if !load.has("--concurrency") && !load.has("--rate") && !load.has("--trace") {
        load.put("--concurrency", "1");
    }
    if !load.has("--requests") && !load.has("--duration") && !load.has("--data") {
        let users = load.highest("--concurrency").or_else(|| line.number("--concurrency"));
        let requests = users.unwrap_or(Quantity::Known(1)).times(2_u64).at_least(10_u64);
        load.put("--requests", requests.to_string());
        builder.note(if load.is_swept() { format!("neither a number of requests nor a duration is given: {requests} requests at each level; there 10, or twice the users of the level") } else { format!("neither a number of requests nor a duration is given: {requests} requests, as AIPerf has it") });
    }
    // The first of its limits ends it.
    if load.has("--requests")
        && let Some(duration) = load.remove("--duration")
    {
        duration_beside_requests(format!("--benchmark-duration {}", duration.trim_end_matches('s')), builder);
    }
    // `_resolve_entries` in aiperf/config/flags/_converter_dataset.py: as many prompts as requests, where their number is given.
    if !load.has("--requests")
        && ["distinct_prompts", "sessions"].iter().all(|key| !load.keys.contains_key(*key))
        && !load.has("--data")
    {
        load.keys.insert("distinct_prompts".to_owned(), json!(PROMPTS_OF_A_DURATION));
    }
    let has_lengths = matches!(file, Some(InputFile::Lengths | InputFile::Trace));
    if !load.has("--output-tokens") && has_lengths {
        builder.note("of a line without `output_length` the model decides the length there; here it needs `output_tokens`, which is then that of all lines");
    } else if !load.has("--output-tokens") && load.get("--data-kind").is_none_or(|kind| kind == "jsonl") {
        if load.has("--data") {
            load.put("--output-tokens", "128");
        }
        builder.note("no --osl: there the model decides the length of its answers; here 128 tokens are requested");
    }
    if !line.has("--streaming") {
        load.flag("--no-streaming");
    }
}
