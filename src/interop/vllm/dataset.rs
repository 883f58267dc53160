//! `--dataset-name` and its options: what vLLM's benchmarks send.

use serde_json::json;

use crate::command_line::{GivenOption, OptionRow, ParsedLine, RangeRatio, SHAREGPT_FILE, TranslatedLoad, share};
use base::diag::ErrorText;
use base::spec::Quantity;

/// The name of a line's data set.
pub(super) fn name(line: &ParsedLine) -> &str {
    line.value("--dataset-name").unwrap_or(if line.has("--dataset-path") { "sharegpt" } else { "random" })
}

/// Prompts and answers of a line. An error is the sentence on a data set that is not read.
pub(super) fn put(line: &ParsedLine, range_ratio: RangeRatio, load: &mut TranslatedLoad) -> Result<(), ErrorText> {
    let has_data_sets =
        |name: &str| line.table.and_then(|table| table.row(name)).is_some_and(OptionRow::is_of_data_set);
    let lengths = |given: &&GivenOption| {
        given.name.ends_with("-len") && (has_data_sets(given.name) || given.name == "--output-len")
    };
    for given in line.given.iter().filter(lengths).filter(|given| given.number::<i64>().is_none()) {
        load.builder.push_error(format!("`{given}` is not a whole number"));
    }
    name(line).clone_into(&mut load.data_set);
    let number = |names: &[&str]| line.first_number::<u32>(names);
    let file = line.value("--dataset-path");
    let prompts = line.setting("--num-prompts");
    let is_all = prompts.parse::<i64>().is_ok_and(|count| count < 1);
    if !is_all {
        load.put("stop.requests", prompts);
    }
    match name(line) {
        "random" => random(line, range_ratio, load),
        "prefix_repetition" => {
            load.put("input_tokens", number(&["--prefix-repetition-suffix-len"]).to_string());
            load.put("output_tokens", number(&["--output-len", "--prefix-repetition-output-len"]).to_string());
            let count = number(&["--prefix-repetition-num-prefixes"]);
            load.prefixes(count, &number(&["--prefix-repetition-prefix-len"]));
        }
        "sonnet" => {
            let shared = number(&["--sonnet-prefix-len", "--prefix-len"]);
            let whole = number(&["--input-len", "--sonnet-input-len"]);
            let rest = whole.combine("-", shared.clone(), u32::saturating_sub).map(|tokens| tokens.max(1));
            load.put("input_tokens", rest.to_string());
            load.put("output_tokens", number(&["--output-len", "--sonnet-output-len"]).to_string());
            load.prefixes(1, &shared);
            load.builder.push_untranslated(
                format!("--dataset-path {}", file.unwrap_or("sonnet.txt")),
                "its verses are not read: prompts are synthetic, with the same lengths and the same shared beginning",
            );
        }
        "sharegpt" => {
            load.data("sharegpt", file.unwrap_or(SHAREGPT_FILE));
            if file.is_none() {
                load.builder.note(
                    "without --dataset-path vLLM generates prompts or stops; Regatta reads the file, and \
                    downloads nothing",
                );
            }
            if let Some(tokens) = line.value("--output-len").or(line.value("--sharegpt-output-len")) {
                load.put("output_tokens", tokens);
            }
            records(line, load, is_all);
        }
        "custom" => {
            load.data("jsonl", file.unwrap_or("data.jsonl"));
            match line.value("--output-len").unwrap_or(line.setting("--custom-output-len")) {
                // As in the data.
                "-1" => {}
                tokens => load.put("output_tokens", tokens),
            }
            records(line, load, is_all);
        }
        "timed_trace" => trace(line, file, load),
        set @ ("hf" | "spec_bench" | "speed_bench" | "burstgpt" | "txt-slices" | "trtllm_custom") => {
            let name = file.map_or_else(|| set.to_owned(), |file| format!("{set} {file}"));
            return Err(ErrorText::new(format_args!(
                "cannot translate the line: Regatta neither reads nor downloads the data set `{name}`; save its \
                    prompts as JSON lines, `{{\"prompt\": …}}`, and give them with --dataset-name custom \
                    --dataset-path FILE"
            )));
        }
        other => {
            return Err(ErrorText::new(format_args!(
                "cannot translate the line: the data set `{other}` is not one of text to generate from, and images, \
                    sound and ranking are not measured"
            )));
        }
    }
    Ok(())
}

/// Made-up prompts.
fn random(line: &ParsedLine, range_ratio: RangeRatio, load: &mut TranslatedLoad) {
    if let Some(file) = line.value("--dataset-path") {
        load.builder.push_error(format!(
            "`--dataset-path {file}` and --dataset-name random contradict each other: random prompts need no file"
        ));
    }
    let number = |names: &[&str]| line.first_number::<u32>(names);
    let given = line.last("--random-range-ratio");
    let input = number(&["--input-len", "--random-input-len"]);
    let output = number(&["--output-len", "--random-output-len"]);
    let [ratio, of_output] = ["input", "output"].map(|side| given.and_then(|given| share(given, side)));
    if let (Some(given), None) = (given, ratio.as_ref().and(of_output.as_ref())) {
        load.builder.push_untranslated_load(
            given,
            "only a ratio from 0 to 1 is supported; for other lengths use `input_tokens` and `output_tokens`",
        );
    }
    // Without one all have the same length, by either law.
    let lengths = |length: &Quantity<u32>, ratio: &Option<Quantity<f64>>| match ratio {
        Some(ratio) => range_ratio.bounds(length, ratio),
        None => (length.clone(), length.clone()),
    };
    let positive = |tokens: Quantity<u32>| tokens.map(|tokens| tokens.max(1));
    let bounds = [("input_tokens", lengths(&input, &ratio)), ("output_tokens", lengths(&output, &of_output))];
    for (key, (low, high)) in bounds {
        load.length_between(key, &positive(low), &positive(high));
    }
    if let (RangeRatio::Unknown, Some(given), Some(ratio)) = (range_ratio, given, &ratio) {
        load.builder.note(other_lengths(given, &input, &output, ratio));
    }
    load.prefixes(1, &number(&["--random-prefix-len", "--prefix-len"]));
}

/// What the lengths would be by the other law.
fn other_lengths(given: &GivenOption, input: &Quantity<u32>, output: &Quantity<u32>, ratio: &Quantity<f64>) -> String {
    let [input, output] = [input, output]
        .map(|length| RangeRatio::UpTo.bounds(length, ratio))
        .map(|(min, max)| (min.map(|min| min.max(1)), max.map(|max| max.max(1))));
    format!(
        "{given}: programs of this name read it in two ways. Here lengths are that share below and above their \
            mean, as in today's vLLM and TensorRT-LLM; InferenceMAX and older versions of vLLM draw them from that \
            share up to the length itself: `input_tokens: {{ uniform: {{ min: {}, max: {} }} }}` and `output_tokens: \
            {{ uniform: {{ min: {}, max: {} }} }}`",
        input.0, input.1, output.0, output.1
    )
}

/// Answers of ShareGPT's records are as long as the recorded ones, in tokens of the model.
pub(super) fn count_answers(line: &ParsedLine, load: &mut TranslatedLoad) {
    if load.get("data.kind") != Some("sharegpt") {
        return;
    }
    let mut left_out = "vLLM leaves out records with fewer than 4 tokens in prompt or answer, and those with \
    more than 2048 in both"
        .to_owned();
    if load.has("output_tokens") {
        left_out += ", and prompts above 1024 tokens; in Regatta only `data.max_input_tokens`, with a tokenizer, \
        leaves out long prompts";
    } else {
        load.needs_tokenizer(line.value("--tokenizer").or(line.value("--model")));
        load.set("data.max_input_tokens", json!(1024));
    }
    load.builder.note(left_out);
}

/// In an order drawn with the seed, and from the top again when the file ends.
fn records(line: &ParsedLine, load: &mut TranslatedLoad, is_all: bool) {
    if !line.has("--disable-shuffle") {
        load.set("data.order", json!("shuffled"));
    }
    if !line.has("--no-oversample") && !is_all {
        load.set("data.repeat", json!(true));
    }
}

/// Tokens of a hash id, where a line does not set them.
const TRACE_BLOCK_TOKENS: u32 = 16;

/// Mooncake's format. Time stamps are in units of the multiplier, in seconds where none is given; here they are in
/// milliseconds.
fn trace(line: &ParsedLine, file: Option<&str>, load: &mut TranslatedLoad) {
    load.data("mooncake", file.unwrap_or("conversation_trace.jsonl"));
    load.flag("extra.ignore_eos");
    // This many from the top, each once.
    if let Some(count) = load.remove("stop.requests").and_then(|count| count.parse::<Quantity<u64>>().ok()) {
        load.set("data.first", json!(count));
    }
    let block_tokens = line.number::<u32>("--timed-trace-chunk-hash-size");
    load.set("data.block_tokens", json!(block_tokens.unwrap_or(Quantity::Known(TRACE_BLOCK_TOKENS))));
    if !line.has("--no-self-timed") {
        let unit = line.value("--timed-trace-sec-multiplier").and_then(|text| text.parse::<f64>().ok());
        load.trace(1e-3 / unit.filter(|unit| *unit > 0.0).unwrap_or(1.0));
    }
}
