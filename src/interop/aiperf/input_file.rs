//! The file of prompts of an AIPerf line. Where the line does not name its type, AIPerf takes it from the first line of the file
//! (`_infer_dataset_type` in aiperf/dataset/composer/custom.py of 0.13.0).

use serde_json::{Value, json};

use crate::command_line::load::TranslatedLoad;
use crate::command_line::options::ParsedLine;
use crate::command_line::translation::{NoMeaning, TranslationBuilder};

/// The first line of a file that is at hand.
pub(crate) type FirstLine<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What is in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InputFile {
    /// A prompt for each request, one after the other and from the top again.
    Prompts,
    /// The same, drawn at random.
    Pool,
    /// Lengths, sent at the level of the line.
    Lengths,
    /// Requests at the time stamps of a trace.
    Trace,
}

impl InputFile {
    /// That of the line. An error is the sentence on a type that is not read.
    pub fn of(
        line: &ParsedLine,
        first_line: FirstLine<'_>,
        builder: &mut TranslationBuilder,
    ) -> Result<Option<Self>, NoMeaning> {
        let Some(file) = line.value("--input-file") else { return Ok(None) };
        let scheduled = |kind: Self| if line.has("--fixed-schedule") { Self::Trace } else { kind };
        match line.value("--custom-dataset-type") {
            Some("single_turn") => Ok(Some(scheduled(Self::Prompts))),
            Some("random_pool") => Ok(Some(Self::Pool)),
            Some("mooncake_trace") if line.has("--no-fixed-schedule") => Ok(Some(Self::Lengths)),
            Some("mooncake_trace") => Ok(Some(Self::Trace)),
            Some(other) => Err(not_read(file, other)),
            None => match first_line(file).map(|text| Self::seen(file, &text)) {
                Some(Ok(Self::Trace)) if line.has("--no-fixed-schedule") => Ok(Some(Self::Lengths)),
                Some(seen) => seen.map(|kind| Some(scheduled(kind))),
                None => {
                    if !line.has("--fixed-schedule") {
                        builder.note(format!("--input-file {file}: it is not here, and AIPerf takes its type from its first line; here it has a prompt in each line. For a trace (`timestamp`, `input_length`), which comes at its time stamps, add --custom-dataset-type mooncake_trace"));
                    }
                    Ok(Some(scheduled(Self::Prompts)))
                }
            },
        }
    }

    fn seen(file: &str, first: &str) -> Result<Self, NoMeaning> {
        let record: Value = serde_json::from_str(first.trim()).unwrap_or_default();
        let has = |name: &str| record.get(name).is_some();
        if has("turns") {
            return Err(not_read(file, "multi_turn"));
        }
        let is_trace = has("input_length")
            || has("hash_ids")
            || has("timestamp") && ["text_input", "messages", "payload"].into_iter().any(has);
        Ok(match (is_trace, has("timestamp")) {
            (true, true) => Self::Trace,
            (true, false) => Self::Lengths,
            (false, _) => Self::Prompts,
        })
    }

    /// The data of the load, and how often each record is sent.
    pub fn put(self, line: &ParsedLine, load: &mut TranslatedLoad) {
        load.put("--data", line.value("--input-file").unwrap_or_default());
        let is_mooncake = self == Self::Trace && line.value("--custom-dataset-type") != Some("single_turn");
        load.put("--data-kind", if is_mooncake { "mooncake" } else { "jsonl" });
        if self == Self::Pool {
            load.put_data_key("order", json!("shuffled"));
        }
        // It begins again at their end.
        let has_end = line.has("--request-count") || line.has("--benchmark-duration");
        if self != Self::Trace && has_end && !line.has("--no-allow-dataset-wrap") {
            load.put_data_key("repeat", json!(true));
        }
    }
}

fn not_read(file: &str, kind: &str) -> NoMeaning {
    format!(
        "the line has no meaning here: `{file}` of the type {kind} is not read; read are single_turn, random_pool and mooncake_trace. Save conversations as JSON lines, one for each turn, `{{\"session_id\": 1, \"prompt\": \"…\"}}`, and give them with `regatta bench --data FILE.jsonl`"
    )
    .into()
}
