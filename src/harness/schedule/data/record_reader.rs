//! The records of a file of JSON: one a line, or the elements of a list. Every reader of prompts gets them from here.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead, BufReader};
use std::ops::ControlFlow;
use std::path::Path;

use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::jsonl::{RecordPlace, fault};
use crate::spec::transport::{Api, Transport};
use crate::{BenchSpec, HarnessError, LoadPattern};
use base::files::{RecordLines, open_text};
use base::spec::{REQUEST_FIELDS, WireForm};
use base::units::counted;

/// Hands the text of each record to `take`, until that has enough. Blank lines are no records.
///
/// # Errors
/// The file cannot be read, or is not JSON; and those of `take`.
pub(crate) fn for_each_record(
    file: &Path,
    mut take: impl FnMut(RecordPlace, &[u8]) -> Result<ControlFlow<()>, HarnessError>,
) -> Result<(), HarnessError> {
    let mut reader = open_text(file).map_err(|error| fault(file, error.to_string()))?;
    let begin = reader.fill_buf().map_err(|error| fault(file, error.to_string()))?.trim_ascii_start();
    if is_begun(begin) {
        let whole = serde_json::from_reader(reader).map_err(|error| fault(file, error.to_string()))?;
        let records = records(whole).ok_or_else(|| fault(file, "`data` must be a list of objects".to_owned()))?;
        for (number, record) in (1..).zip(records) {
            let text = serde_json::Value::Object(record).to_string();
            if take(RecordPlace::Entry(number), text.as_bytes())?.is_break() {
                break;
            }
        }
        return Ok(());
    }
    // A line of ids begins with a bracket, too; in a list of records an object or a text follows.
    let rest = begin.strip_prefix(b"[").map(<[u8]>::trim_ascii_start);
    if rest.is_some_and(|rest| matches!(rest.first(), Some(b'{' | b'"' | b']'))) {
        let mut list = List { take: &mut take, failed: None };
        let mut json = serde_json::Deserializer::from_reader(reader);
        let read = json.deserialize_seq(&mut list).and_then(|()| json.end());
        return match list.failed {
            Some(error) => Err(error),
            None => read.map_err(|error| fault(file, error.to_string())),
        };
    }
    lines(file, reader, take)
}

fn lines(
    file: &Path,
    reader: BufReader<std::fs::File>,
    mut take: impl FnMut(RecordPlace, &[u8]) -> Result<ControlFlow<()>, HarnessError>,
) -> Result<(), HarnessError> {
    let mut lines = RecordLines::new(reader);
    while let Some((number, line)) = lines.next_line().map_err(|error| fault(file, error.to_string()))? {
        let record = line.trim_ascii();
        if !record.is_empty() && take(RecordPlace::Line(number), record)?.is_break() {
            break;
        }
    }
    Ok(())
}

struct List<'a, T> {
    take: &'a mut T,
    failed: Option<HarnessError>,
}

impl<'de, T> Visitor<'de> for &mut List<'_, T>
where
    T: FnMut(RecordPlace, &[u8]) -> Result<ControlFlow<()>, HarnessError>,
{
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of records")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut records: A) -> Result<(), A::Error> {
        for number in 1.. {
            let Some(record) = records.next_element::<Box<RawValue>>()? else { return Ok(()) };
            match (self.take)(RecordPlace::Element(number), record.get().as_bytes()) {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => break,
                Err(error) => {
                    self.failed = Some(error);
                    break;
                }
            }
        }
        // The rest is not needed, but a list must be read to its end.
        while records.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
}

// The keys that records of files of prompts may have: one table for all formats. A key that changes a request is sent,
// or is an error that names it; it is never passed over.
//
// The user's manual has this table, and a test compares the two.

/// What a benchmark does with the value of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordKey {
    /// A text, or a list of token ids.
    Prompt,
    Ids,
    /// The text of a record of `benchmark_core_model.py`: in front of that of `Instruction`.
    Input,
    Instruction,
    /// A text that token ids were made from; by itself it is not sent.
    IdsText,
    /// The answer of such a record, which gives the output length.
    Output,
    Messages,
    /// Messages of ShareGPT: questions and recorded answers.
    Conversation,
    /// A request body: what is neither its prompt nor its length is sent as it is.
    Body,
    /// A member of the request's body, sent as it is.
    Member,
    /// The model of the request, or an adapter.
    Model,
    /// Headers of the request.
    Headers,
    /// Further members of its body.
    Extra,
    /// Where a line of a batch file is sent; the benchmark must send it there.
    Route,
    InputLength,
    OutputLength,
    HashIds,
    Timestamp,
    Delay,
    Session,
    /// Not part of a request, and changes nothing in it.
    Metadata,
    /// Metadata of a recorded conversation; of another record it would be a field of the request.
    ConversationMetadata,
}

pub(super) static RECORD_KEYS: &[(RecordKey, &str)] = &[
    (RecordKey::Prompt, "prompt text text_input"),
    (RecordKey::Ids, "input_ids prompt_token_ids token_ids tok_input"),
    (RecordKey::Input, "input"),
    (RecordKey::Instruction, "instruction"),
    (RecordKey::IdsText, "question system_prompt"),
    (RecordKey::Output, "output"),
    (RecordKey::Messages, "messages"),
    (RecordKey::Conversation, "conversations conversation"),
    (RecordKey::Body, "body payload"),
    (
        RecordKey::Member,
        "tools tool_choice parallel_tool_calls response_format reasoning_effort chat_template_kwargs logit_bias \
         logprobs top_logprobs ignore_eos",
    ),
    (RecordKey::Model, "model adapter"),
    (RecordKey::Headers, "headers"),
    (RecordKey::Extra, "extra"),
    (RecordKey::Route, "method url"),
    (RecordKey::InputLength, "input_length input_tokens input_lengths"),
    (RecordKey::OutputLength, "output_length output_tokens max_tokens max_completion_tokens request_output_len"),
    (RecordKey::HashIds, "hash_ids"),
    (RecordKey::Timestamp, "timestamp"),
    (RecordKey::Delay, "delay"),
    (RecordKey::Session, "session_id session"),
    (
        RecordKey::ConversationMetadata,
        "model_name conversation_id conversation_hash dialogue_id turn num_turns views avatarUrl \
         custom_instruction skip_prompt_formatting hashed_ip header country state detoxify_moderation tstamp",
    ),
    (
        RecordKey::Metadata,
        "id _id idx index uid uuid hash custom_id request_id prompt_id question_id task_id sample_id \
         example_id source sources origin dataset dataset_name split title author license link date created \
         created_at version lang language category categories subcategory domain topic topics subject task \
         type tag tags label labels level difficulty quality score scores rating metric comment note notes \
         description meta metadata openai_moderation toxic redacted answer answers response completion chosen \
         rejected outputs reference references target targets solution canonical_solution ground_truth \
         gt_output expected expected_output expected_answer correct_answer explanation rationale code test \
         tests test_list entry_point tok_output tok_input_len tok_input_length tok_output_len \
         tok_output_length",
    ),
];

/// Keys of a message that a server does not get: what tools note beside its role and its text.
pub(super) const MESSAGE_METADATA: &str = "id uuid timestamp created_at markdown text weight loss lang \
    language turn_id turn_identifier toxic redacted hashed_ip header country state";

/// Keys of a message that are sent with its role and its content.
pub(super) const MESSAGE_KEYS: &str =
    "name tool_calls tool_call_id function_call refusal reasoning_content reasoning audio";

/// Members of a body that the benchmark sets and measures by; a record has its length under a key of its own.
pub(super) const OWN_MEMBERS: &str = "messages prompt stream stream_options n max_tokens max_completion_tokens";

/// The names of such a list.
pub(super) fn has_name(list: &str, name: &str) -> bool {
    list.split(' ').any(|other| other == name)
}

/// The use of a key; none is known of a key that a request may need.
pub(super) fn record_key(name: &str) -> Option<RecordKey> {
    RECORD_KEYS.iter().find(|(_, names)| has_name(names, name)).map(|(key, _)| *key)
}

/// What decides whether a benchmark can send a record as it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordRules {
    /// Fields that requests have in any case. The same value in a record changes nothing.
    fields: Map<String, Value>,
    /// The protocol, where it cannot send messages.
    without_messages: Option<&'static str>,
    /// Records may set fields of their own requests.
    pub sends_fields: bool,
    /// Requests are sent at the time stamps of the records.
    pub is_trace: bool,
}

impl RecordRules {
    pub fn new(spec: &BenchSpec) -> Self {
        let mut fields = match serde_json::to_value(&spec.request) {
            Ok(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        for field in REQUEST_FIELDS {
            if let (Some(name), Some(value)) =
                (field.names(WireForm::Openai).first(), fields.get(field.name()).cloned())
            {
                fields.insert((*name).to_owned(), value);
            }
        }
        let streams = spec.request.streaming.unwrap_or(true);
        let always = json!({
            "model": spec.model,
            "stream": streams,
            "streaming": streams,
            "stream_options": {"include_usage": true},
            "n": 1,
            "role": "user",
        });
        fields.extend(always.as_object().cloned().unwrap_or_default());
        let (mut without_messages, mut sends_fields) = (Some("KServe"), false);
        if let Transport::Http(http) = &spec.protocol {
            fields.extend(http.extra.clone());
            if let Some(usual) = http.api.openai_path() {
                sends_fields = true;
                fields.insert("method".to_owned(), json!("POST"));
                fields.insert("url".to_owned(), json!(http.path.as_deref().unwrap_or(usual)));
            }
            without_messages = (http.api != Api::OpenaiChat).then_some(http.api.protocol().as_str());
        }
        Self { fields, without_messages, sends_fields, is_trace: matches!(spec.scenario, LoadPattern::Trace { .. }) }
    }

    /// Why messages cannot be sent, if they cannot.
    pub fn messages_fault(&self) -> Option<String> {
        self.without_messages.map(|protocol| {
            format!(
                "`messages` cannot be sent over {protocol}; set `protocol: openai-chat` (target \
                 `openai://HOST:PORT`), or give each prompt as `prompt`"
            )
        })
    }

    /// Whether a value adds nothing to what is sent.
    pub fn have(&self, name: &str, value: &Value) -> bool {
        is_nothing(value)
            || self.fields.get(name).is_some_and(|sent| match (name, sent.as_str(), value.as_str()) {
                // A gateway has the path below one of its own.
                ("url", Some(sent), Some(path)) => sent.ends_with(path),
                _ => is_same(sent, value),
            })
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(values) => values.iter().all(|value| matches!(value.as_str(), Some(""))),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn is_same(sent: &Value, value: &Value) -> bool {
    match (sent.as_f64(), value.as_f64()) {
        (Some(sent), Some(value)) => sent.total_cmp(&value).is_eq(),
        _ => sent == value,
    }
}

/// Keys of a file's records that would change requests and are not sent.
#[derive(Debug)]
pub(super) struct UnsentKeys<'a> {
    rules: &'a RecordRules,
    keys: BTreeMap<String, UnsentKey>,
}

#[derive(Debug)]
struct UnsentKey {
    first: RecordPlace,
    records: u64,
}

impl<'a> UnsentKeys<'a> {
    /// More names than these are not those of a data set.
    const MOST: usize = 40;

    pub const fn new(rules: &'a RecordRules) -> Self {
        Self { rules, keys: BTreeMap::new() }
    }

    /// Notes the fields of a record that are not sent.
    pub fn check(&mut self, place: RecordPlace, fields: impl IntoIterator<Item = (String, Value)>) {
        for (name, value) in fields {
            if !self.rules.have(&name, &value) {
                self.note(place, name);
            }
        }
    }

    /// Notes the messages of a record where the protocol cannot send them.
    pub fn check_messages(&mut self, place: RecordPlace) {
        if self.rules.without_messages.is_some() {
            self.note(place, "messages".to_owned());
        }
    }

    fn note(&mut self, place: RecordPlace, name: String) {
        if self.keys.len() < Self::MOST || self.keys.contains_key(&name) {
            self.keys.entry(name).or_insert(UnsentKey { first: place, records: 0 }).records += 1;
        }
    }

    /// Each key is an error, with the first record that has it; the last one is what to do.
    pub fn faults(&self) -> Vec<String> {
        let model = self.rules.fields.get("model").and_then(Value::as_str);
        let fault = |(name, UnsentKey { first, records }): (&String, &UnsentKey)| {
            let others = match records - 1 {
                0 => String::new(),
                more => format!(" (also in {})", counted(more, "more record")),
            };
            let reason = match (name.as_str(), model) {
                ("messages", _) => self.rules.messages_fault().unwrap_or_default(),
                ("model", Some("")) => {
                    "`model` is set, and the benchmark names none: set it there (-m NAME)".to_owned()
                }
                ("model", Some(model)) => format!("`model` is not `{model}`, the model of the benchmark"),
                ("url" | "method", _) if let Some(Value::String(sent)) = self.rules.fields.get(name) => format!(
                    "`{name}` is not `{sent}`, where the benchmark sends: split the file by its `url`, a benchmark each"
                ),
                _ => {
                    let shown: String = name.escape_debug().take(60).collect();
                    format!("`{shown}` may change what is requested, and is not sent")
                }
            };
            format!("{first}: {reason}{others}")
        };
        let mut faults: Vec<String> = self.keys.iter().map(fault).collect();
        let names: Vec<&str> = self.keys.keys().map(String::as_str).filter(|name| !is_sent_otherwise(name)).collect();
        if !names.is_empty() {
            let of_record = if self.rules.sends_fields { "a record's own field into its `extra`; " } else { "" };
            faults.push(format!(
                "set a field that is the same in all requests in the benchmark: `request`, or `extra` (`--extra \
                 NAME:VALUE`); {of_record}remove keys that are no part of a request{}",
                removal(&names)
            ));
        }
        faults
    }
}

/// Has advice of its own.
fn is_sent_otherwise(name: &str) -> bool {
    matches!(name, "messages" | "model" | "url" | "method")
}

/// The command for plain names.
fn removal(names: &[&str]) -> String {
    let is_plain = |name: &&&str| {
        name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !name.starts_with(|c: char| c.is_ascii_digit())
    };
    let plain: Vec<String> = names.iter().filter(is_plain).take(8).map(|name| format!(".{name}")).collect();
    if plain.is_empty() { String::new() } else { format!(": `jq -c 'del({})' FILE`", plain.join(", ")) }
}

// The file of perf_analyzer's `--input-data`, `{"data": [{"text_input": ["…"], "max_tokens": [20]}]}`: inputs of a
// model, or the bodies of OpenAI's interfaces under `payload`; and AIPerf's `inputs.json`, which has the bodies of a
// session under `payloads`. Each entry becomes a record as a line of JSON has it.

/// Whether a file that begins so is one.
pub(super) fn is_begun(begin: &[u8]) -> bool {
    let rest = begin.trim_ascii_start().strip_prefix(b"{").unwrap_or_default().trim_ascii_start();
    let rest = rest.strip_prefix(b"\"data\"").unwrap_or_default().trim_ascii_start();
    rest.strip_prefix(b":").is_some_and(|rest| rest.trim_ascii_start().first() == Some(&b'['))
}

/// Its entries as records; of sequences all steps, in order. `None`: `data` is not a list of objects.
pub(super) fn records(mut file: Map<String, Value>) -> Option<Vec<Map<String, Value>>> {
    let Value::Array(entries) = file.remove("data")? else { return None };
    let steps = entries.into_iter().flat_map(|entry| match entry {
        Value::Array(steps) => steps,
        Value::Object(mut session) => match session.shift_remove("payloads") {
            Some(Value::Array(bodies)) => {
                let with_body = |body| {
                    let mut turn = session.clone();
                    turn.insert("payload".to_owned(), body);
                    Value::Object(turn)
                };
                bodies.into_iter().map(with_body).collect()
            }
            Some(other) => vec![json!({ "payloads": other })],
            None => vec![Value::Object(session)],
        },
        entry => vec![entry],
    });
    steps.map(|step| if let Value::Object(step) = step { Some(record(step)) } else { None }).collect()
}

/// Inputs have a list of values, or an object that also gives their shape.
fn record(entry: Map<String, Value>) -> Map<String, Value> {
    let value = |(name, mut value): (String, Value)| {
        if let Some(content) = value.get_mut("content") {
            value = content.take();
        }
        let is_list = record_key(&name) == Some(RecordKey::Ids);
        while let Some([inner]) = value.as_array_mut().map(Vec::as_mut_slice)
            && (inner.is_array() || !is_list)
        {
            value = inner.take();
        }
        (name, value)
    };
    entry.into_iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn a_key_has_one_use() {
        let names: Vec<&str> = RECORD_KEYS.iter().flat_map(|(_, names)| names.split(' ')).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    }

    #[test]
    fn the_manual_has_every_key() {
        let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/manual/reference/prompts.md");
        let text = std::fs::read_to_string(manual).unwrap();
        let names = RECORD_KEYS.iter().flat_map(|(_, names)| names.split(' ')).chain(MESSAGE_METADATA.split(' '));
        let missing: Vec<_> = names.filter(|name| !text.contains(&format!("`{name}`"))).collect();
        assert!(missing.is_empty(), "the manual lacks {missing:?}");
    }

    #[test]
    fn a_value_that_is_sent_anyway_changes_nothing() {
        let fields = json!({"temperature": 0, "model": "m", "stop": ["x"]}).as_object().cloned().unwrap();
        let sent = RecordRules { fields, ..RecordRules::default() };
        for (name, value) in [("temperature", json!(0.0)), ("model", json!("m")), ("stop", json!(["x"]))] {
            assert!(sent.have(name, &value), "{name}");
        }
        for nothing in [json!(null), json!(""), json!([]), json!({}), json!([""])] {
            assert!(sent.have("tools", &nothing), "{nothing}");
        }
        for (name, value) in
            [("temperature", json!(1)), ("model", json!("n")), ("tools", json!([1])), ("stream", json!(false))]
        {
            assert!(!sent.have(name, &value), "{name}");
        }
    }
}

#[cfg(test)]
mod perf_analyzer_tests {
    use super::*;

    fn read(file: Value) -> Option<Value> {
        let Value::Object(file) = file else { unreachable!("an object") };
        Some(json!(records(file)?))
    }

    #[test]
    fn inputs_of_a_model_and_bodies_are_records() {
        let file = json!({"data": [
            {"text_input": ["a b"], "max_tokens": [20], "stop_words": ["x", "y"]},
            {"input_ids": {"content": [1, 2], "shape": [1, 2]}, "request_output_len": [[5]]},
            {"input_ids": [[3]]},
            {"payload": [{"messages": [{"role": "user", "content": "c"}], "max_tokens": 7}], "timestamp": [10]},
            [{"text_input": ["d"]}],
            {"session_id": "s", "payloads": [{"prompt": "e"}, {"prompt": "f"}]},
        ]});
        let expected = json!([
            {"text_input": "a b", "max_tokens": 20, "stop_words": ["x", "y"]},
            {"input_ids": [1, 2], "request_output_len": 5},
            {"input_ids": [3]},
            {"payload": {"messages": [{"role": "user", "content": "c"}], "max_tokens": 7}, "timestamp": 10},
            {"text_input": "d"},
            {"session_id": "s", "payload": {"prompt": "e"}},
            {"session_id": "s", "payload": {"prompt": "f"}},
        ]);
        assert_eq!(read(file).unwrap(), expected);
        assert_eq!(read(json!({"data": [3]})), None);
    }

    #[test]
    fn a_line_of_json_is_no_such_file() {
        assert!(is_begun(b" {\n \"data\" : [ {"));
        assert!(!is_begun(b"{\"prompt\": \"data\"}"));
        assert!(!is_begun(b"{\"data\": 3}"));
        assert!(!is_begun(b""));
    }
}
