//! `--dataset-name` and its options: what vLLM's benchmarks send.

use serde_json::json;

use crate::command_line::load::{SHAREGPT_FILE, TranslatedLoad, needs_tokenizer};
use crate::command_line::options::{GivenOption, ParsedLine};
use crate::command_line::translation::{NoMeaning, TranslationBuilder};
use base::spec::Quantity;

/// Options of each data set; the first are those of all.
#[rustfmt::skip]
const OPTIONS: &[(&str, &[&str])] = &[
    ("", &["--dataset-name", "--dataset-path", "--num-prompts", "--output-len", "--disable-shuffle"]),
    ("random", &["--input-len", "--random-input-len", "--random-output-len", "--random-range-ratio", "--random-prefix-len", "--prefix-len"]),
    ("prefix_repetition", &["--prefix-repetition-prefix-len", "--prefix-repetition-suffix-len", "--prefix-repetition-num-prefixes", "--prefix-repetition-output-len"]),
    ("sonnet", &["--input-len", "--sonnet-input-len", "--sonnet-output-len", "--sonnet-prefix-len", "--prefix-len"]),
    ("sharegpt", &["--sharegpt-output-len", "--no-oversample"]),
    ("custom", &["--custom-output-len", "--no-oversample"]),
    ("timed_trace", &["--timed-trace-chunk-hash-size", "--timed-trace-sec-multiplier", "--self-timed", "--no-self-timed"]),
];

/// What `--random-range-ratio` is to a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RangeRatio {
    /// Lengths are up to this share below and above their mean.
    Around,
    /// Lengths are from this share of the longest up to it.
    UpTo,
    /// One of the two, by a program of which only the name is known. Today's `benchmark_serving.py` has the first.
    Unknown,
}

impl RangeRatio {
    /// The shortest and the longest length.
    fn of(self, length: &Quantity<u32>, ratio: &Quantity<f64>) -> (Quantity<u32>, Quantity<u32>) {
        let times = |one: f64, other: f64| one * other;
        let share = |share: Quantity<f64>| length.clone().map(f64::from).combine("*", share, times);
        let beside = |sign: &str, known: fn(f64, f64) -> f64| Quantity::Known(1.0).combine(sign, ratio.clone(), known);
        match self {
            Self::Around | Self::Unknown => (
                share(beside("-", |one, ratio| one - ratio)).whole(),
                share(beside("+", |one, ratio| one + ratio)).ceiling(),
            ),
            Self::UpTo => (share(ratio.clone()).whole(), length.clone()),
        }
    }
}

/// Whether `put` reads it for some data set.
pub(super) fn is_option(name: &str) -> bool {
    OPTIONS.iter().any(|(_, names)| names.contains(&name))
}

fn name(line: &ParsedLine) -> &str {
    line.value("--dataset-name").unwrap_or(if line.has("--dataset-path") { "sharegpt" } else { "random" })
}

/// An option of another data set changes nothing there, and has no place here.
pub(super) fn left(given: &GivenOption, line: &ParsedLine, builder: &mut TranslationBuilder) {
    let set = name(line);
    let is_read =
        OPTIONS.iter().any(|(other, names)| (other.is_empty() || *other == set) && names.contains(&given.name));
    if !is_read {
        builder.push_untranslated(given.as_written(), format!("it is for another data set than `{set}`"));
    }
}

/// Prompts and answers of a line. An error is the sentence on a data set that is not read.
pub(super) fn put(
    line: &ParsedLine,
    range_ratio: RangeRatio,
    load: &mut TranslatedLoad,
    builder: &mut TranslationBuilder,
) -> Result<(), NoMeaning> {
    for given in line.given.iter().filter(|given| is_option(given.name) && given.name.ends_with("-len")) {
        if given.number::<i64>().is_none() {
            builder.push_error(format!("`{}` is no whole number", given.as_written()));
        }
    }
    let number = |names: &[&str], usual: u32| {
        names.iter().find_map(|name| line.number::<u32>(name)).unwrap_or(Quantity::Known(usual))
    };
    let positive = |tokens: Quantity<u32>| tokens.map(|tokens| tokens.max(1));
    let file = line.value("--dataset-path");
    let prompts = line.value("--num-prompts").unwrap_or("1000");
    let is_all = prompts.parse::<i64>().is_ok_and(|count| count < 1);
    if !is_all {
        load.put("--requests", prompts);
    }
    match name(line) {
        "random" => {
            if let Some(file) = file {
                builder.push_error(format!("`--dataset-path {file}` and --dataset-name random contradict each other: made-up prompts are of no file"));
            }
            let given = line.given.iter().rev().find(|given| given.name == "--random-range-ratio");
            let (input, output) = (
                number(&["--input-len", "--random-input-len"], 1024),
                number(&["--output-len", "--random-output-len"], 128),
            );
            let ratio = given.and_then(|given| ratio(given, builder));
            // Without one all have the same length, by either law.
            let lengths = |length: &Quantity<u32>| match &ratio {
                Some(ratio) => range_ratio.of(length, ratio),
                None => (length.clone(), length.clone()),
            };
            for (key, (low, high)) in [("input_tokens", lengths(&input)), ("output_tokens", lengths(&output))] {
                load.length_between(key, &positive(low), &positive(high));
            }
            if let (RangeRatio::Unknown, Some(given), Some(ratio)) = (range_ratio, given, &ratio) {
                builder.note(other_lengths(&given.as_written(), &input, &output, ratio));
            }
            prefix(load, 1_u32, &number(&["--random-prefix-len", "--prefix-len"], 0));
        }
        "prefix_repetition" => {
            load.put("--input-tokens", number(&["--prefix-repetition-suffix-len"], 256).to_string());
            load.put("--output-tokens", number(&["--output-len", "--prefix-repetition-output-len"], 128).to_string());
            let count = number(&["--prefix-repetition-num-prefixes"], 10);
            prefix(load, count, &number(&["--prefix-repetition-prefix-len"], 256));
        }
        "sonnet" => {
            let shared = number(&["--sonnet-prefix-len", "--prefix-len"], 200);
            let whole = number(&["--input-len", "--sonnet-input-len"], 550);
            let own = positive(whole.combine("-", shared.clone(), u32::saturating_sub));
            load.put("--input-tokens", own.to_string());
            load.put("--output-tokens", number(&["--output-len", "--sonnet-output-len"], 150).to_string());
            prefix(load, 1_u32, &shared);
            builder.push_untranslated(
                format!("--dataset-path {}", file.unwrap_or("sonnet.txt")),
                "its verses are not read: prompts are made up, with the same lengths and the same shared beginning",
            );
        }
        "sharegpt" => {
            load.put("--data", file.unwrap_or(SHAREGPT_FILE));
            load.put("--data-kind", "sharegpt");
            if file.is_none() {
                builder.note("without --dataset-path vLLM makes up prompts or stops; here the file is read, and nothing is downloaded");
            }
            if let Some(tokens) = line.value("--output-len").or(line.value("--sharegpt-output-len")) {
                load.put("--output-tokens", tokens);
            }
            records(line, load, is_all);
        }
        "custom" => {
            load.put("--data", file.unwrap_or("data.jsonl"));
            load.put("--data-kind", "jsonl");
            match line.value("--output-len").or(line.value("--custom-output-len")).unwrap_or("256") {
                // As in the data.
                "-1" => {}
                tokens => load.put("--output-tokens", tokens),
            }
            records(line, load, is_all);
        }
        "timed_trace" => trace(line, file, load),
        set @ ("hf" | "spec_bench" | "speed_bench" | "burstgpt" | "txt-slices" | "trtllm_custom") => {
            let name = file.map_or_else(|| set.to_owned(), |file| format!("{set} {file}"));
            return Err(format!(
                "the line has no meaning here: the data set `{name}` is not read, and nothing is downloaded; save its prompts as JSON lines, `{{\"prompt\": …}}`, and give them with --dataset-name custom --dataset-path FILE"
            ).into());
        }
        other => {
            return Err(format!(
                "the line has no meaning here: the data set `{other}` is none of text to generate from, and images, sound and ranking are not measured"
            ).into());
        }
    }
    Ok(())
}

/// What the lengths would be by the other law.
fn other_lengths(written: &str, input: &Quantity<u32>, output: &Quantity<u32>, ratio: &Quantity<f64>) -> String {
    let [input, output] = [input, output]
        .map(|length| RangeRatio::UpTo.of(length, ratio))
        .map(|(min, max)| (min.map(|min| min.max(1)), max.map(|max| max.max(1))));
    format!(
        "{written}: programs of this name read it in two ways. Here lengths are that share below and above their mean, as today's of vLLM and TensorRT-LLM's have them; InferenceMAX's and vLLM's older one have lengths from that share up to the length itself: `input_tokens: {{ uniform: {{ min: {}, max: {} }} }}` and `output_tokens: {{ uniform: {{ min: {}, max: {} }} }}`",
        input.0, input.1, output.0, output.1
    )
}

/// Answers of ShareGPT's records are as long as the recorded ones, in tokens of the model.
pub(super) fn count_answers(line: &ParsedLine, load: &mut TranslatedLoad, builder: &mut TranslationBuilder) {
    if load.get("--data-kind") != Some("sharegpt") {
        return;
    }
    let mut left_out = "there records with fewer than 4 tokens in prompt or answer, and those with more than 2048 in both, are left out".to_owned();
    if load.has("--output-tokens") {
        left_out += ", and prompts above 1024 tokens; here only `data.max_input_tokens`, with a tokenizer, leaves out long prompts";
    } else {
        needs_tokenizer(line.value("--tokenizer").or(line.value("--model")), load, builder);
        let data = load.keys.entry("data").or_insert_with(|| json!({}));
        data["max_input_tokens"] = json!(1024);
    }
    builder.note(left_out);
}

/// In an order drawn with the seed, and from the top again when the file ends.
fn records(line: &ParsedLine, load: &mut TranslatedLoad, is_all: bool) {
    let mut data = serde_json::Map::new();
    if !line.has("--disable-shuffle") {
        data.insert("order".to_owned(), json!("shuffled"));
    }
    if !line.has("--no-oversample") && !is_all {
        data.insert("repeat".to_owned(), json!(true));
    }
    if !data.is_empty() {
        load.keys.insert("data".to_owned(), json!(data));
    }
}

/// Tokens of a hash id, where a line does not set them.
const TRACE_BLOCK_TOKENS: u32 = 16;

/// Mooncake's format. Time stamps are in units of the multiplier, in seconds where none is given; here they are in milliseconds.
fn trace(line: &ParsedLine, file: Option<&str>, load: &mut TranslatedLoad) {
    load.put("--data", file.unwrap_or("conversation_trace.jsonl"));
    load.put("--data-kind", "mooncake");
    load.flag("--ignore-eos");
    let mut data = serde_json::Map::new();
    // This many from the top, each once.
    if let Some(count) = load.remove("--requests").and_then(|count| count.parse::<Quantity<u64>>().ok()) {
        data.insert("first".to_owned(), json!(count));
    }
    let block_tokens = line.number::<u32>("--timed-trace-chunk-hash-size");
    data.insert("block_tokens".to_owned(), json!(block_tokens.unwrap_or(Quantity::Known(TRACE_BLOCK_TOKENS))));
    load.keys.insert("data".to_owned(), json!(data));
    if !line.has("--no-self-timed") {
        let unit = line.value("--timed-trace-sec-multiplier").and_then(|text| text.parse::<f64>().ok());
        load.trace(1e-3 / unit.filter(|unit| *unit > 0.0).unwrap_or(1.0));
    }
}

fn prefix(load: &mut TranslatedLoad, count: impl Into<Quantity<u32>>, tokens: &Quantity<u32>) {
    let count = count.into();
    if *tokens != Quantity::Known(0) {
        load.keys.insert("prefixes".to_owned(), json!({"count": count, "tokens": tokens}));
    }
}

fn ratio(given: &GivenOption, builder: &mut TranslationBuilder) -> Option<Quantity<f64>> {
    let is_share = |ratio: &Quantity<f64>| ratio.known().is_none_or(|ratio| (0.0..=1.0).contains(ratio));
    let ratio = given.number::<f64>().filter(is_share);
    if ratio.is_none() {
        builder.push_untranslated(
            given.as_written(),
            "a ratio from 0 to 1 is read; lengths of other kinds are `input_tokens` and `output_tokens`",
        );
    }
    ratio
}
