//! `bench.data:` — the files that prompts come from.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use base::spec::{DelayPlace, LONGEST_LENGTH, MOST_REQUESTS, RecordOrder};

/// Prompts from a file: exactly one of `jsonl, sharegpt, mooncake, input_ids, plan`. Paths are relative to the current folder.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// One JSON object a line, or a JSON list of them: `prompt` or `text` or `input_ids` (or only `input_length`), over `openai-chat` also `messages`, or `input`, `instruction` and `output` of benchmark_core_model.py; if there are, `output_length` or `max_tokens`, `timestamp` (ms), `session_id`, `delay` (ms). A key that may change a request and is not sent is an error. Also perf_analyzer's `{"data": […]}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jsonl: Option<String>,
    /// A list of conversations, as in ShareGPT_V3_unfiltered_cleaned_split.json, or one a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharegpt: Option<String>,
    /// A trace, one JSON object a line: `input_length`, with `hash_ids` if there are (equal ids are equal tokens), or `text_input`; `output_length` and `timestamp` (ms).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mooncake: Option<String>,
    /// Token ids: rows of a `.npy` (see `lengths`), or a list a line in a `.jsonl`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_ids: Option<String>,
    /// The `plan.jsonl` of another run: the same requests again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// `.npy` with the length of each row of `input_ids`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lengths: Option<String>,
    /// `.npy` with the output length of each row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_lengths: Option<String>,
    /// Only the first N records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MOST_REQUESTS))]
    pub first: Option<u64>,
    /// Leave out records with a prompt of more tokens than this; without a tokenizer, of more words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = LONGEST_LENGTH))]
    pub max_input_tokens: Option<u32>,
    #[serde(default)]
    pub order: RecordOrder,
    /// Begin again at the end of the data. If false, it is an error if the data end before `stop` is reached.
    #[serde(default)]
    pub repeat: bool,
    /// Tokens that each hash id stands for.
    #[serde(default = "mooncake_block")]
    #[schemars(range(min = 1, max = LONGEST_LENGTH))]
    pub block_tokens: u32,
    #[serde(default)]
    pub delay: DelayPlace,
}

const fn mooncake_block() -> u32 {
    512
}

impl Data {
    /// The files with the keys that name them: those of prompts first.
    pub fn files(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let Self { jsonl, sharegpt, mooncake, input_ids, plan, lengths, output_lengths, .. } = self;
        let files = [
            ("jsonl", jsonl),
            ("sharegpt", sharegpt),
            ("mooncake", mooncake),
            ("input_ids", input_ids),
            ("plan", plan),
            ("lengths", lengths),
            ("output_lengths", output_lengths),
        ];
        files.into_iter().filter_map(|(key, file)| Some((key, file.as_deref()?)))
    }

    /// Like `files`, with the whole key.
    pub fn inputs(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.files().map(|(key, file)| {
            let key = match key {
                "jsonl" => "bench.data.jsonl",
                "sharegpt" => "bench.data.sharegpt",
                "mooncake" => "bench.data.mooncake",
                "input_ids" => "bench.data.input_ids",
                "plan" => "bench.data.plan",
                "lengths" => "bench.data.lengths",
                _ => "bench.data.output_lengths",
            };
            (key, file)
        })
    }
}
