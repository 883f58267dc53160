//! The fields of a request: one row for each key below `bench.request:`.
//!
//! From a row follow the bounds in the schema and their check, the protocols that can send the key, its name in JSON
//! bodies and its tensor, what the simulator reads of a request, and the option of `regatta bench`. The key itself,
//! with its documentation, is a field of [`Request`].

use schemars::Schema;
use serde_json::{Map, Value, json};

use super::connection::Protocol::{self, Generate, Kserve, OpenaiChat, OpenaiCompletions};
use super::load::RandomSeed;
use super::request::{CancelBy, CancelPolicy, Interface, Request, WordList};
use super::schema_format::{MOST_PARTS, MOST_USERS};

/// What a field may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldKind {
    Int {
        min: i64,
        max: i64,
    },
    Number(FieldBounds),
    Switch,
    /// The same for every request, or one drawn for each.
    Seed,
    /// Ids of adapters, taken in turn.
    Turns,
    /// Words as token ids, or as texts.
    WordIds,
    WordTexts,
    /// The client acts on it itself.
    Client,
}

/// The numbers that a field may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldBounds {
    Finite,
    From(f64),
    Above(f64),
    Within(f64, f64),
}

/// The value of a field, as a request sends it.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldValue {
    Int(i64),
    Long(u64),
    Number(f64),
    Switch(bool),
    Ids(Vec<Vec<i32>>),
    Texts(Vec<String>),
    /// Another one in each request, or in a message of its own.
    PerRequest,
    /// Set, and not sent as a value.
    Set,
}

/// Whose names a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireForm {
    /// Members of a body of OpenAI's interfaces.
    Openai,
    /// Members of a body of Triton's generate extension, which are inputs of a model of either interface.
    Generate,
    /// Tensors of TensorRT-LLM's models of token ids.
    TokenIds,
    /// Tensors of its text models.
    Text,
    /// Members of the text `sampling_parameters` of Triton's vLLM backend.
    Vllm,
}

use WireForm::{Openai, Text, TokenIds, Vllm};

impl WireForm {
    pub const ALL: [Self; 5] = [Openai, Self::Generate, TokenIds, Text, Vllm];

    const fn protocols(self) -> &'static [Protocol] {
        match self {
            Openai => &[OpenaiChat, OpenaiCompletions],
            Self::Generate => &[Generate],
            TokenIds | Text | Vllm => &[Kserve],
        }
    }
}

/// One key below `request:`.
#[derive(Clone, Copy, Debug)]
pub struct RequestField {
    /// With the form of a value whose forms are sent differently: `stop_words.ids`.
    pub key: &'static str,
    pub kind: FieldKind,
    /// By [`WireForm`]: its names there, the preferred one first. A model has one of them.
    names: [&'static [&'static str]; 5],
    /// Protocols over which the client acts on it.
    protocols: &'static [Protocol],
    /// What every server does, with the field or without.
    pub neutral: Option<i64>,
    /// The outputs that it requests.
    pub outputs: &'static [&'static str],
    /// The option of `regatta bench`.
    pub option: Option<BenchOption>,
    value: fn(&Request) -> Option<FieldValue>,
}

/// An option of `regatta bench` that sets a field.
#[derive(Clone, Copy, Debug)]
pub struct BenchOption {
    pub name: &'static str,
    /// Its help; empty where the option is not made from its row.
    pub help: &'static str,
}

/// Every protocol.
const ALL: &[Protocol] = &[Kserve, Generate, OpenaiChat, OpenaiCompletions];
const TENSORS: &[WireForm] = &[TokenIds, Text];
const TRITON: &[WireForm] = &[TokenIds, Text, WireForm::Generate];
const I32: FieldKind = FieldKind::Int { min: i32::MIN as i64, max: i32::MAX as i64 };
const FROM_0: FieldKind = FieldKind::Int { min: 0, max: i32::MAX as i64 };
const FINITE: FieldKind = FieldKind::Number(FieldBounds::Finite);
const PARTS: FieldKind = FieldKind::Int { min: 1, max: MOST_PARTS as i64 };
const USERS: FieldKind = FieldKind::Int { min: 1, max: MOST_USERS as i64 };

/// Outputs of `return_perf_metrics`.
const PERF: &[&str] = &[
    "kv_cache_alloc_new_blocks",
    "kv_cache_reused_blocks",
    "kv_cache_alloc_total_blocks",
    "arrival_time_ns",
    "first_scheduled_time_ns",
    "first_token_time_ns",
    "last_token_time_ns",
];

/// All fields, in the order of their tensors in a message.
pub const REQUEST_FIELDS: &[RequestField] = &[
    field("interface", FieldKind::Client, |request| (request.interface == Some(Interface::TokenIds)).then_some(SET))
        .over(&[Kserve, Generate, OpenaiCompletions]),
    field("streaming", FieldKind::Client, |request| request.streaming.map(|_| SET)).over(ALL).option("no-streaming"),
    field("headers", FieldKind::Client, |request| (!request.headers.is_empty()).then_some(SET))
        .over(ALL)
        .option("header"),
    field("length_field", FieldKind::Client, |request| request.length_field.map(|_| SET))
        .over(&[OpenaiChat])
        .option("length-field"),
    field("beam_width", PARTS, |request| int(request.beam_width)).on(TRITON, &["beam_width"]).neutral(1),
    field("end_id", FieldKind::Int { min: -1, max: i32::MAX as i64 }, |request| int(request.end_id))
        .on(TRITON, &["end_id"]),
    field("pad_id", I32, |request| int(request.pad_id)).on(TRITON, &["pad_id"]),
    field("num_return_sequences", PARTS, |request| int(request.num_return_sequences))
        .on(TENSORS, &["num_return_sequences"])
        .neutral(1),
    field("exclude_input_in_output", FieldKind::Switch, |request| request.exclude_input_in_output.map(Switch))
        .on(TRITON, &["exclude_input_in_output"]),
    field("temperature", FieldKind::Number(FieldBounds::From(0.0)), |request| request.temperature.map(Number))
        .on(&WireForm::ALL, &["temperature"])
        .made_option(
            "temperature",
            "Sampling temperature; 0 always picks the most likely token [default: the server's]",
        ),
    field("top_k", FROM_0, |request| int(request.top_k))
        .on(&[Openai, Text, Vllm], &["top_k"])
        .on(&[TokenIds], &["runtime_top_k"])
        .on(&[WireForm::Generate], &["runtime_top_k", "top_k"]),
    field("top_p", FieldKind::Number(FieldBounds::Within(0.0, 1.0)), |request| request.top_p.map(Number))
        .on(&[Openai, Text, Vllm], &["top_p"])
        .on(&[TokenIds], &["runtime_top_p"])
        .on(&[WireForm::Generate], &["runtime_top_p", "top_p"]),
    field("repetition_penalty", FieldKind::Number(FieldBounds::Above(0.0)), |request| {
        request.repetition_penalty.map(Number)
    })
    .on(&WireForm::ALL, &["repetition_penalty"]),
    field("presence_penalty", FINITE, |request| request.presence_penalty.map(Number))
        .on(&WireForm::ALL, &["presence_penalty"]),
    field("frequency_penalty", FINITE, |request| request.frequency_penalty.map(Number))
        .on(&WireForm::ALL, &["frequency_penalty"]),
    field("length_penalty", FINITE, |request| request.length_penalty.map(Number))
        .on(&[TokenIds], &["len_penalty"])
        .on(&[Text], &["length_penalty"])
        .on(&[WireForm::Generate], &["length_penalty", "len_penalty"]),
    field("early_stopping", FieldKind::Switch, |request| request.early_stopping.map(Switch))
        .on(TRITON, &["early_stopping"]),
    // Renamed in TensorRT-LLM after 0.20, as the seed was.
    field("min_length", FROM_0, |request| int(request.min_length))
        .on(&[Openai, Vllm], &["min_tokens"])
        .on(TRITON, &["min_length", "min_tokens"])
        .made_option("min-tokens", "Minimum number of output tokens; the end token is ignored until then"),
    field("random_seed", FieldKind::Seed, |request| match request.random_seed? {
        RandomSeed::Fixed(seed) => Some(FieldValue::Long(seed)),
        RandomSeed::PerRequest(is_drawn) => is_drawn.then_some(FieldValue::PerRequest),
    })
    .on(&[Openai, Vllm], &["seed"])
    .on(TRITON, &["random_seed", "seed"]),
    field("adapters", FieldKind::Client, |request| (!request.adapters.is_empty()).then_some(SET))
        .over(&[OpenaiChat, OpenaiCompletions]),
    field("lora_task_id", FieldKind::Turns, |request| {
        (!request.lora_task_id.is_empty()).then_some(FieldValue::PerRequest)
    })
    .on(TENSORS, &["lora_task_id"]),
    field("stop_words.ids", FieldKind::WordIds, |request| ids(request.stop_words.as_ref()))
        .on(&[TokenIds], &["stop_words_list"]),
    field("stop_words.texts", FieldKind::WordTexts, |request| texts(request.stop_words.as_ref()))
        .on(&[Openai, Vllm], &["stop"])
        .on(&[Text], &["stop_words"])
        .on(&[WireForm::Generate], &["stop_words", "stop"]),
    field("bad_words.ids", FieldKind::WordIds, |request| ids(request.bad_words.as_ref()))
        .on(&[TokenIds], &["bad_words_list"]),
    field("bad_words.texts", FieldKind::WordTexts, |request| texts(request.bad_words.as_ref()))
        .on(&[Text, WireForm::Generate], &["bad_words"]),
    field("cancel.by", FieldKind::Switch, |request| {
        let is_stop = matches!(request.cancel, Some(CancelPolicy { by: CancelBy::Stop, .. }));
        is_stop.then_some(FieldValue::PerRequest)
    })
    .on(TENSORS, &["stop"]),
    field("return_log_probs", FieldKind::Switch, |request| on(request.return_log_probs))
        .on(TENSORS, &["return_log_probs"])
        .outputs(&["cum_log_probs", "output_log_probs"]),
    field("return_context_logits", FieldKind::Switch, |request| on(request.return_context_logits))
        .on(TENSORS, &["return_context_logits"])
        .outputs(&["context_logits"]),
    field("return_generation_logits", FieldKind::Switch, |request| on(request.return_generation_logits))
        .on(TENSORS, &["return_generation_logits"])
        .outputs(&["generation_logits"]),
    field("return_perf_metrics", FieldKind::Switch, |request| on(request.return_perf_metrics))
        .on(TENSORS, &["return_perf_metrics"])
        .outputs(PERF),
    field("batch", USERS, |request| int(request.batch)).over(&[Kserve]).neutral(1),
    field("deadline", FieldKind::Client, |request| request.deadline.as_ref().map(|_| SET)).over(ALL),
];

use FieldValue::{Number, Switch};
const SET: FieldValue = FieldValue::Set;

const fn field(key: &'static str, kind: FieldKind, value: fn(&Request) -> Option<FieldValue>) -> RequestField {
    RequestField { key, kind, names: [&[]; 5], protocols: &[], neutral: None, outputs: &[], option: None, value }
}

fn int(value: Option<impl Into<i64>>) -> Option<FieldValue> {
    value.map(|value| FieldValue::Int(value.into()))
}

fn on(is_requested: bool) -> Option<FieldValue> {
    is_requested.then_some(Switch(true))
}

fn ids(words: Option<&WordList>) -> Option<FieldValue> {
    match words? {
        WordList::Ids(words) => Some(FieldValue::Ids(words.clone())),
        WordList::Texts(_) => None,
    }
}

fn texts(words: Option<&WordList>) -> Option<FieldValue> {
    match words? {
        WordList::Texts(words) => Some(FieldValue::Texts(words.clone())),
        WordList::Ids(_) => None,
    }
}

/// Why a value cannot be that of a field. Follows the key in a sentence.
#[derive(Debug, thiserror::Error)]
pub enum FieldValueError {
    #[error(transparent)]
    Type(#[from] serde_json::Error),
    #[error("{0}")]
    Bounds(String),
    #[error("must be one value: a record sends what it has")]
    Several,
}

impl RequestField {
    const fn on(mut self, forms: &[WireForm], names: &'static [&'static str]) -> Self {
        let mut at = 0;
        while at < forms.len() {
            self.names[forms[at] as usize] = names;
            at += 1;
        }
        self
    }

    const fn over(mut self, protocols: &'static [Protocol]) -> Self {
        self.protocols = protocols;
        self
    }

    const fn neutral(mut self, value: i64) -> Self {
        self.neutral = Some(value);
        self
    }

    const fn outputs(mut self, outputs: &'static [&'static str]) -> Self {
        self.outputs = outputs;
        self
    }

    /// One that `bench` declares itself.
    const fn option(mut self, name: &'static str) -> Self {
        self.option = Some(BenchOption { name, help: "" });
        self
    }

    /// One that is made from this row.
    const fn made_option(mut self, name: &'static str, help: &'static str) -> Self {
        self.option = Some(BenchOption { name, help });
        self
    }

    /// The row of a key, in whatever form its value is.
    pub fn find(key: &str) -> Option<&'static Self> {
        REQUEST_FIELDS.iter().find(|field| field.name() == key || field.key == key)
    }

    /// The row that has this name in bodies of OpenAI's interfaces.
    pub fn with_openai_name(name: &str) -> Option<&'static Self> {
        REQUEST_FIELDS.iter().find(|field| field.names(Openai) == [name])
    }

    /// The row of a key that a record of prompts may set for its own request, by either name.
    pub fn in_record(name: &str) -> Option<&'static Self> {
        let mut sendable = REQUEST_FIELDS.iter().filter(|field| !field.names(Openai).is_empty());
        sendable.find(|field| field.name() == name || field.names(Openai) == [name])
    }

    /// The key below `request`.
    pub fn name(&self) -> &'static str {
        self.key.strip_suffix(".ids").or_else(|| self.key.strip_suffix(".texts")).unwrap_or(self.key)
    }

    pub fn names(&self, form: WireForm) -> &'static [&'static str] {
        self.names[form as usize]
    }

    pub fn value(&self, request: &Request) -> Option<FieldValue> {
        (self.value)(request)
    }

    /// Whether a value is what every server does without it.
    pub fn is_neutral(&self, value: &FieldValue) -> bool {
        self.neutral.is_some_and(|neutral| *value == FieldValue::Int(neutral))
    }

    /// The member of an OpenAI body for a value as the manifest or the body has it.
    ///
    /// # Errors
    /// What the value must be.
    pub fn openai_member(&self, value: &Value) -> Result<Value, FieldValueError> {
        let value = match (self.kind, value) {
            (FieldKind::Seed, Value::Number(_)) => json!({"fixed": value}),
            (FieldKind::WordTexts, Value::String(_)) => json!({"texts": [value]}),
            (FieldKind::WordTexts, Value::Array(_)) => json!({"texts": value}),
            _ => value.clone(),
        };
        let request: Request = serde_json::from_value(json!({ self.name(): value }))?;
        let value = self.value(&request).ok_or(FieldValueError::Several)?;
        match self.fault(&value) {
            Some(fault) => Err(FieldValueError::Bounds(fault)),
            None => value.to_json().ok_or(FieldValueError::Several),
        }
    }

    /// The protocols that can send it.
    pub fn protocols(&self) -> impl Iterator<Item = Protocol> {
        let forms = WireForm::ALL.into_iter().filter(|form| !self.names(*form).is_empty());
        let sent: Vec<Protocol> = forms.flat_map(WireForm::protocols).chain(self.protocols).copied().collect();
        ALL.iter().copied().filter(move |protocol| sent.contains(protocol))
    }

    /// Why the field cannot have this value. Follows the key in a sentence.
    fn fault(&self, value: &FieldValue) -> Option<String> {
        let (holds, bounds) = match (self.kind, value) {
            (FieldKind::Int { min, max }, FieldValue::Int(value)) => {
                let bounds =
                    if max < i64::from(i32::MAX) { format!("from {min} to {max}") } else { format!("{min} or more") };
                ((min..=max).contains(value), bounds)
            }
            (FieldKind::Number(bounds), FieldValue::Number(value)) => (bounds.hold(*value), bounds.to_string()),
            _ => return None,
        };
        (!holds).then(|| format!("must be {bounds}"))
    }
}

impl FieldBounds {
    fn hold(self, value: f64) -> bool {
        value.is_finite()
            && match self {
                Self::Finite => true,
                Self::From(min) => value >= min,
                Self::Above(min) => value > min,
                Self::Within(min, max) => (min..=max).contains(&value),
            }
    }
}

impl std::fmt::Display for FieldBounds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Finite => f.write_str("a finite number"),
            Self::From(min) => write!(f, "{min} or more"),
            Self::Above(min) => write!(f, "above {min}"),
            Self::Within(min, max) => write!(f, "from {min} to {max}"),
        }
    }
}

impl FieldValue {
    /// As a member of a JSON body; `None` for what has another value in each request.
    pub fn to_json(&self) -> Option<Value> {
        Some(match self {
            Self::Int(value) => json!(value),
            Self::Long(value) => json!(value),
            Self::Number(value) => json!(value),
            Self::Switch(value) => json!(value),
            Self::Ids(words) => json!(words),
            Self::Texts(words) => json!(words),
            Self::PerRequest | Self::Set => return None,
        })
    }
}

/// A setting that the protocol of a request cannot send. Its text follows the key in a sentence.
#[derive(Clone, Copy, Debug)]
pub struct UnsendableSetting {
    /// Below `request`: `length_penalty`, `stop_words.ids`.
    pub key: &'static str,
    field: &'static RequestField,
    protocol: Protocol,
}

impl std::fmt::Display for UnsendableSetting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let protocols: Vec<&str> = self.field.protocols().map(Protocol::as_str).collect();
        write!(f, "is of {}, not of {}", protocols.join(", "), self.protocol.as_str())
    }
}

impl Request {
    /// The fields that are set, with their values.
    pub fn fields(&self) -> impl Iterator<Item = (&'static RequestField, FieldValue)> {
        REQUEST_FIELDS.iter().filter_map(|field| Some((field, field.value(self)?)))
    }

    /// What is set and the protocol cannot send.
    pub fn unsendable(&self, protocol: Protocol) -> impl Iterator<Item = UnsendableSetting> {
        self.fields()
            .filter(move |(field, value)| !field.is_neutral(value) && field.protocols().all(|other| other != protocol))
            .map(move |(field, _)| UnsendableSetting { key: field.key, field, protocol })
    }

    /// Values beyond their bounds, each in a sentence that begins with its key.
    pub(super) fn range_faults(&self) -> impl Iterator<Item = String> {
        self.fields().filter_map(|(field, value)| Some(format!("{} {}", field.key, field.fault(&value)?)))
    }
}

/// Writes the bounds of the rows into the schema of a request.
pub(super) fn add_bounds(schema: &mut Schema) {
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for field in REQUEST_FIELDS {
        let (min, max) = match field.kind {
            FieldKind::Int { min, max } => (Some(min), Some(max)),
            FieldKind::Number(FieldBounds::From(min) | FieldBounds::Above(min)) => (Some(min as i64), None),
            FieldKind::Number(FieldBounds::Within(min, max)) => (Some(min as i64), Some(max as i64)),
            _ => (None, None),
        };
        let Some(property) = properties.get_mut(field.key).and_then(Value::as_object_mut) else { continue };
        insert(property, "minimum", min.filter(|min| *min > i64::from(i32::MIN)));
        insert(property, "maximum", max.filter(|max| *max < i64::from(i32::MAX)));
    }
}

fn insert(property: &mut Map<String, Value>, key: &str, bound: Option<i64>) {
    if let Some(bound) = bound {
        property.insert(key.to_owned(), json!(bound));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unsendable(request: &Request, protocol: Protocol) -> Vec<&'static str> {
        request.unsendable(protocol).map(|setting| setting.key).collect()
    }

    #[test]
    fn each_protocol_has_its_settings() {
        let beams = Request {
            beam_width: Some(4),
            length_penalty: Some(2.0),
            early_stopping: Some(true),
            bad_words: Some(WordList::Ids(vec![vec![3]])),
            end_id: Some(9),
            pad_id: Some(4),
            exclude_input_in_output: Some(true),
            ..Request::default()
        };
        let unsent_fields = [
            "beam_width",
            "end_id",
            "pad_id",
            "exclude_input_in_output",
            "length_penalty",
            "early_stopping",
            "bad_words.ids",
        ];
        assert_eq!(unsendable(&beams, OpenaiChat), unsent_fields);
        assert_eq!(unsendable(&beams, OpenaiCompletions), unsent_fields);
        assert_eq!(unsendable(&beams, Generate), ["bad_words.ids"]);
        assert_eq!(unsendable(&beams, Kserve), [""; 0]);
        let usual = Request {
            temperature: Some(0.5),
            min_length: Some(3),
            beam_width: Some(1),
            num_return_sequences: Some(1),
            ..Request::default()
        };
        for protocol in [Kserve, Generate, OpenaiChat, OpenaiCompletions] {
            assert_eq!(unsendable(&usual, protocol), [""; 0]);
        }
        let words = Request { stop_words: Some(WordList::Ids(vec![vec![3]])), ..Request::default() };
        let text = words.unsendable(Generate).next().map(|setting| setting.to_string());
        assert_eq!(text.as_deref(), Some("is of kserve, not of generate"));
    }

    #[test]
    fn every_row_is_a_key_of_the_manifest_and_has_a_protocol() {
        let schema = schemars::schema_for!(Request).to_value();
        for field in REQUEST_FIELDS {
            let key = field.key.split('.').next().unwrap();
            assert!(!schema["properties"][key].is_null(), "{key}");
            assert!(field.protocols().count() > 0, "{key}");
        }
    }
}
