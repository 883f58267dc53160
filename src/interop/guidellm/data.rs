//! `--data`: made-up prompts, or a file.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::command_line::{TranslatedLoad, quantity};
use base::diag::{ErrorText, nearest};
use base::spec::Quantity;
use base::units::unquoted;

/// What GuideLLM sends.
#[derive(Debug)]
pub(super) enum GuideLlmData {
    /// Prompts of these lengths: `prompt_tokens`, `output_tokens_stdev`, …
    Synthetic(Map<String, Value>),
    /// JSON lines.
    JsonLines(String),
    /// A trace in Mooncake's format: its fields.
    Mooncake(Map<String, Value>),
    /// A trace of time stamps and lengths: its fields.
    Trace(Map<String, Value>),
    /// Anything else, as it was written.
    Other(String),
}

/// `name=value,name=value`, where a value may have brackets, or a JSON object.
pub(super) fn pairs(text: &str) -> Map<String, Value> {
    if let Ok(Value::Object(all)) = serde_json::from_str(text) {
        return all;
    }
    let mut fields_by_name = Map::new();
    let mut depth = 0i32;
    let fields = text.split(|letter| {
        depth += match letter {
            '[' | '{' | '(' => 1,
            ']' | '}' | ')' => -1,
            _ => 0,
        };
        letter == ',' && depth <= 0
    });
    for (name, value) in fields.filter_map(|field| field.split_once('=')) {
        let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
        fields_by_name.insert(name.trim().to_owned(), value);
    }
    fields_by_name
}

/// A number, which may stand in quotes.
pub(super) fn numeric(value: &Value) -> Option<Quantity<f64>> {
    let number = value.as_f64().map(Quantity::Known).or_else(|| value.as_str()?.trim().parse().ok());
    number.filter(|number: &Quantity<f64>| number.known().is_none_or(|number| number.is_finite()))
}

impl GuideLlmData {
    /// Of a text without a kind.
    pub fn read(text: &str) -> Self {
        let fields = pairs(text);
        if fields.contains_key("prompt_tokens") {
            return Self::Synthetic(fields);
        }
        if fields.is_empty() && is_json_lines(text) {
            Self::JsonLines(text.to_owned())
        } else {
            Self::Other(text.to_owned())
        }
    }

    /// Of `kind=…,name=value`, or a JSON list of such objects.
    pub fn parse_all(text: &str) -> Vec<Self> {
        match serde_json::from_str(text) {
            Ok(Value::Array(all)) => all.iter().map(|one| Self::parse_kind(&one.to_string())).collect(),
            _ => vec![Self::parse_kind(text)],
        }
    }

    /// As the line has it, or nearly so.
    pub fn written(&self) -> String {
        match self {
            Self::Synthetic(all) | Self::Mooncake(all) | Self::Trace(all) => {
                let fields = all.iter().map(|(name, value)| format!("{name}={}", unquoted(value)));
                fields.collect::<Vec<_>>().join(",")
            }
            Self::JsonLines(text) | Self::Other(text) => text.clone(),
        }
    }

    /// Of `kind=…,name=value`.
    fn parse_kind(text: &str) -> Self {
        let fields = pairs(text);
        let field = |name: &str| fields.get(name).and_then(Value::as_str);
        match (field("kind"), field("path").or(field("source"))) {
            (Some("synthetic_text"), _) => Self::Synthetic(fields),
            (Some("json_file"), Some(path)) if is_json_lines(path) => Self::JsonLines(path.to_owned()),
            (Some("trace_mooncake" | "mooncake"), Some(_)) => Self::Mooncake(fields),
            (Some("trace_synthetic"), Some(_)) => Self::Trace(fields),
            (None, _) => Self::read(text),
            _ => Self::Other(text.to_owned()),
        }
    }

    /// Prompts and answers of a load; how many requests there are, where the data say so. An error is the sentence on
    /// data that are not read.
    pub fn put(&self, load: &mut TranslatedLoad) -> Result<Option<Quantity<u64>>, ErrorText> {
        match self {
            Self::Synthetic(all) => {
                length(all, "prompt_tokens", "input_tokens", load);
                length(all, "output_tokens", "output_tokens", load);
                // It requests the whole length.
                load.flag("extra.ignore_eos");
                Ok(shape(all, load))
            }
            Self::JsonLines(path) => {
                load.data("jsonl", path);
                load.builder.note(
                    "of each line its `prompt` or `text` is read, and `output_length`; GuideLLM requests a line with \
                    an output length with ignore_eos, which is --ignore-eos. For a line without one GuideLLM lets the \
                    model decide the length; Regatta needs `output_tokens`, which applies to all lines",
                );
                Ok(None)
            }
            Self::Mooncake(all) => {
                trace(all, "mooncake", load)?;
                if let Some(tokens) = all.get("hash_id_block_size").and_then(quantity) {
                    load.set("data.block_tokens", json!(tokens));
                }
                Ok(None)
            }
            Self::Trace(all) => trace(all, "jsonl", load).map(|()| None),
            Self::Other(text) => Err(ErrorText::new(format_args!(
                "cannot translate the line: Regatta neither reads nor downloads the data `{text}`; save the \
                    prompts as JSON lines, `{{\"prompt\": …}}`, and give them with --data FILE.jsonl"
            ))),
        }
    }
}

/// The file of a trace. Each of its answers has the whole length.
fn trace(all: &Map<String, Value>, kind: &str, load: &mut TranslatedLoad) -> Result<(), ErrorText> {
    const COLUMNS: [(&str, &[&str]); 4] = [
        ("timestamp_column", &["timestamp"]),
        ("prompt_tokens_column", &["input_length", "input_tokens"]),
        ("output_tokens_column", &["output_length", "output_tokens", "max_tokens"]),
        ("hash_ids_column", &["hash_ids"]),
    ];
    let field = |name: &str| all.get(name).and_then(Value::as_str);
    let path = field("path").or(field("source")).unwrap_or_default();
    let other: Vec<String> = COLUMNS
        .iter()
        .filter_map(|(column, known)| Some((field(column).filter(|name| !known.contains(name))?, known[0])))
        .map(|(name, known)| format!("`{name}` to `{known}`"))
        .collect();
    if !other.is_empty() {
        return Err(ErrorText::new(format_args!(
            "cannot translate the line: the columns of `{path}` have other names than those that are read; rename \
                {} in the file and leave the option out",
            other.join(", ")
        )));
    }
    if !is_json_lines(path) {
        return Err(ErrorText::new(format_args!(
            "cannot translate the line: `{path}` is not read; save the trace as JSON lines, `{{\"timestamp\": 0.5, \
                \"input_length\": 256, \"output_length\": 128}}`, in a file NAME.jsonl"
        )));
    }
    load.data(kind, path);
    load.flag("extra.ignore_eos");
    Ok(())
}

/// A mean, and the other properties of a length.
fn length(all: &Map<String, Value>, from: &str, key: &'static str, load: &mut TranslatedLoad) {
    let number = |suffix: &str| all.get(&format!("{from}{suffix}")).and_then(quantity);
    let Some(mean) = number("") else { return };
    let (least, most) = (number("_min"), number("_max"));
    match (number("_stdev").filter(|stdev| *stdev != Quantity::Known(0)), least, most) {
        (None, None, None) => load.put(key, mean.to_string()),
        (Some(stdev), None, None) => {
            load.put(key, mean.to_string());
            let is_input = key == "input_tokens";
            let key = if is_input { "input_tokens.normal.stddev" } else { "output_tokens.normal.stddev" };
            load.put(key, stdev.to_string());
        }
        (Some(stdev), least, most) => {
            load.put(key, mean.to_string());
            let reach = || mean.clone().combine("+", stdev.clone().times(5_u64), u64::saturating_add);
            let most = most.unwrap_or_else(reach);
            let normal =
                json!({"mean": mean, "stddev": stdev, "min": least.unwrap_or(Quantity::Known(1)), "max": most});
            load.set(key, json!({"normal": normal}));
        }
        (None, least, most) => {
            let [least, most] = [least, most].map(|bound| {
                bound.unwrap_or_else(|| mean.clone()).map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX))
            });
            load.length_between(key, &least, &most);
        }
    }
}

/// Shared beginnings and conversations; everything else is named.
fn shape(all: &Map<String, Value>, load: &mut TranslatedLoad) -> Option<Quantity<u64>> {
    const LENGTHS: &str = "prompt_tokens prompt_tokens_stdev prompt_tokens_min prompt_tokens_max output_tokens \
        output_tokens_stdev output_tokens_min output_tokens_max";
    let number = |name: &str| all.get(name).and_then(quantity);
    for (name, value) in all {
        match name.as_str() {
            name if LENGTHS.split(' ').any(|length| length == name) => {}
            "kind" | "samples" | "prefix_count" => {}
            "prefix_tokens" => {
                if let Some(tokens) = quantity(value).filter(|tokens| *tokens != Quantity::Known(0)) {
                    let count = number("prefix_count").unwrap_or(Quantity::Known(1));
                    load.set("prefixes", json!({"count": count, "tokens": tokens}));
                }
            }
            "turns" if value.as_u64() == Some(1) => {}
            "turns" if value.is_string() => {
                load.builder.push_error(format!("`turns={}` is not a number", unquoted(value)));
            }
            "turns" => {
                load.set("sessions", json!({"turns": {"fixed": value}, "history": "answers"}));
            }
            "source" => {
                load.builder.push_untranslated(format!("source={value}"), "prompts are synthetic, drawn from the seed");
            }
            other => {
                // The first releases had variances.
                let stdev = other.strip_suffix("_variance").map(|stem| format!("{stem}_stdev"));
                let near = stdev.or_else(|| nearest(other, LENGTHS.split(' ')).map(str::to_owned));
                let reason = near.map(|near| format!("it is not a field of GuideLLM's data; did you mean `{near}`?"));
                let reason = reason.unwrap_or_else(|| "Regatta has no equivalent".to_owned());
                load.builder.push_untranslated_load(format!("{other}={value}"), reason);
            }
        }
    }
    number("samples")
}

/// By the name of the file.
fn is_json_lines(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|suffix| suffix.eq_ignore_ascii_case("jsonl"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_may_have_commas_in_brackets() {
        let fields = pairs("kind=concurrent,streams=[1, 2,4],target=http://h:8000");
        assert_eq!(
            Value::Object(fields),
            json!({"kind": "concurrent", "streams": [1, 2, 4], "target": "http://h:8000"})
        );
        assert_eq!(Value::Object(pairs("{\"prompt_tokens\": 5}")), json!({"prompt_tokens": 5}));
        assert!(pairs("wikitext").is_empty());
    }
}
