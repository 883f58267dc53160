//! Whole requests, ready to be written, with a body in each interface's terms.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::schedule::arrivals::generator;
use crate::schedule::data::Prompt;
use crate::spec::transport::{Api, Http};
use crate::transport::request_encoder::TokenCounting;
use crate::transport::sent_headers::SentHeaders;
use crate::{BenchSpec, PlannedRequest, UnsupportedRequest};
use base::spec::{CancelPolicy, LengthField, REQUEST_FIELDS, Request, RequestField, WireForm, sets_length};
use rand::RngExt;
use rand::distr::Distribution;
use rand::distr::weighted::WeightedIndex;

/// How a model is called over HTTP. Fixed once before the run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HttpRequestTemplate {
    pub api: Api,
    /// The names that answers must carry.
    pub model: String,
    pub streams: bool,
    pub cancel: Option<CancelPolicy>,
    pub path: String,
    /// Headers after the host: key, content type and the like.
    headers: String,
    /// The keys in them. A server may repeat one, and then no text of the server shows it.
    pub secrets: Vec<String>,
    /// The fields that are the same in every body.
    constants: Map<String, Value>,
    /// The model takes and gives token ids.
    pub prompt_ids: bool,
    /// Of a model of token ids: its answer has the ids of all.
    pub beams: u32,
    /// The interface's name for the number of tokens to generate.
    length_key: &'static str,
    seed: u64,
    seed_key: Option<&'static str>,
    /// Answers to one prompt.
    pub choices: u32,
    extra: Map<String, Value>,
    /// Drawn by their weights.
    adapters: BTreeMap<String, f64>,
}

/// What the server reported about the model before the run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ServerModelInfo {
    /// Its name, should none have been given.
    pub model: String,
    /// A Triton model's inputs, where they are known.
    pub inputs: Option<Vec<String>>,
}

impl HttpRequestTemplate {
    /// Checks the request block against the interface. Errors: everything that does not fit.
    pub(super) fn new(
        spec: &BenchSpec,
        http: &Http,
        offered: &ServerModelInfo,
        sent: &SentHeaders,
    ) -> Result<Self, UnsupportedRequest> {
        let request = &spec.request;
        let mut fields = RequestFieldsBuilder {
            api: http.api,
            inputs: offered.inputs.as_deref(),
            constants: Map::new(),
            faults: Vec::new(),
        };
        let beams = request.beam_width.unwrap_or(1);
        let streams = request.streaming.unwrap_or(beams <= 1);
        let has_ids = fields.inputs.is_some_and(|inputs| inputs.iter().any(|name| name == "input_ids"));
        let has_text = fields.inputs.is_none_or(|inputs| inputs.iter().any(|name| name == "text_input"));
        let prompt_ids = match http.api {
            Api::Generate => http.prompt_ids || has_ids && !has_text,
            Api::OpenaiCompletions => http.prompt_ids,
            Api::OpenaiChat => false,
        };
        let unsendable = request.unsendable(http.api.protocol());
        fields.faults.extend(unsendable.map(|setting| format!("request.{} {setting}", setting.key)));
        let length_key = match (http.api, prompt_ids) {
            (Api::Generate, true) => "request_output_len",
            (Api::OpenaiChat, _) => request.length_field.unwrap_or(LengthField::MaxTokens).as_str(),
            _ => "max_tokens",
        };
        match http.api {
            Api::Generate => {
                if request.cancel.is_some() && !streams && request.streaming.is_none() {
                    let reason =
                        "request.cancel counts tokens as they come, and an answer of several beams does not stream";
                    fields.faults.push(reason.to_owned());
                }
                let key = if prompt_ids { "streaming" } else { "stream" };
                fields.add_if_available(key, Value::from(streams));
            }
            Api::OpenaiChat | Api::OpenaiCompletions => {
                fields.constants.insert("model".to_owned(), Value::from(offered.model.clone()));
                fields.constants.insert("stream".to_owned(), Value::from(streams));
                if streams {
                    fields.constants.insert("stream_options".to_owned(), json!({"include_usage": true}));
                }
            }
        }
        let seed_key = fields.add_fields(request, streams, prompt_ids.then_some(spec.end_id));
        if !fields.faults.is_empty() {
            return Err(UnsupportedRequest { faults: fields.faults });
        }
        Ok(Self {
            api: http.api,
            model: offered.model.clone(),
            streams,
            cancel: request.cancel,
            path: path(http, &offered.model, streams),
            headers: headers(sent, streams),
            secrets: sent.secrets().to_vec(),
            constants: fields.constants,
            prompt_ids,
            beams,
            length_key,
            seed: spec.seed,
            seed_key,
            choices: http.choices(),
            extra: http.extra.clone(),
            adapters: request.adapters.clone(),
        })
    }

    /// Where token counts come from.
    pub fn count(&self) -> TokenCounting {
        match self.api {
            Api::Generate if self.prompt_ids => {
                TokenCounting::Ids { beams: self.beams, sequences: 1, has_prompt: false }
            }
            Api::Generate if self.streams => TokenCounting::Responses { sequences: 1 },
            Api::Generate => TokenCounting::Requested,
            Api::OpenaiChat | Api::OpenaiCompletions => TokenCounting::Usage,
        }
    }

    /// The most tokens that the request allows in all; none where `extra` takes the limit out or sets it otherwise.
    pub fn limit(&self, output_len: u32) -> Option<u32> {
        (!sets_length(&self.extra)).then(|| output_len.saturating_mul(self.choices))
    }

    /// Whether request `index` is to be ended early, and how.
    pub fn cancel_of(&self, index: u64) -> Option<CancelPolicy> {
        self.cancel.filter(|cancel| generator("cancel", self.seed, index).random::<f64>() < cancel.share)
    }

    /// The model that request `index` names: its record's, or an adapter.
    pub fn model<'t>(&'t self, index: u64, planned: &'t PlannedRequest) -> &'t str {
        let given = planned.own.as_ref().and_then(|fields| fields.body.get("model")?.as_str());
        given.or_else(|| self.adapter(index)).unwrap_or(&self.model)
    }

    fn adapter(&self, index: u64) -> Option<&str> {
        let drawn =
            WeightedIndex::new(self.adapters.values()).ok()?.sample(&mut generator("adapter", self.seed, index));
        self.adapters.keys().nth(drawn).map(String::as_str)
    }

    /// The body of request `index`.
    fn body(&self, index: u64, planned: &PlannedRequest, prompt: &Prompt) -> Value {
        let mut body = self.constants.clone();
        let (key, value) = match self.api {
            Api::Generate if self.prompt_ids => {
                body.insert("input_lengths".to_owned(), Value::from(prompt.len()));
                ("input_ids", prompt.to_json())
            }
            Api::Generate => ("text_input", prompt.to_json()),
            Api::OpenaiChat => ("messages", prompt.to_json()),
            Api::OpenaiCompletions => ("prompt", prompt.to_json()),
        };
        body.insert(key.to_owned(), value);
        body.insert(self.length_key.to_owned(), Value::from(planned.output_len));
        if self.api == Api::Generate {
            body.insert("id".to_owned(), Value::from(index.to_string()));
        }
        if let Some(key) = self.seed_key {
            let seed: u64 = generator("random_seed", self.seed, index).random();
            // JSON numbers of many servers are signed.
            body.insert(key.to_owned(), Value::from(seed >> 1));
        }
        if self.api != Api::Generate {
            body.insert("model".to_owned(), Value::from(self.model(index, planned)));
        }
        for (key, value) in self.extra.iter().chain(planned.own.iter().flat_map(|fields| &fields.body)) {
            if value.is_null() {
                body.remove(key);
            } else {
                body.insert(key.clone(), value.clone());
            }
        }
        Value::Object(body)
    }

    /// The first lines of every request, which name the server.
    pub(super) fn head(&self, authority: &str) -> String {
        format!("POST {} HTTP/1.1\r\nHost: {authority}\r\n", self.path)
    }

    /// The rest of a request, the same for every server.
    pub fn request(&self, index: u64, planned: &PlannedRequest, prompt: &Prompt) -> Bytes {
        addressed(&self.unaddressed(index, planned, prompt), index)
    }

    /// Like `request`, without its id, which [`addressed`] adds.
    pub fn unaddressed(&self, index: u64, planned: &PlannedRequest, prompt: &Prompt) -> Bytes {
        // Not `Display`, which passes each piece through a formatter; a value of JSON can always be written.
        let body = serde_json::to_string(&self.body(index, planned, prompt)).unwrap_or_default();
        let length = body.len();
        format!("{}Content-Length: {length}\r\n\r\n{body}", self.headers(planned)).into()
    }

    /// Those of the benchmark with those of the request's record in their place.
    fn headers(&self, planned: &PlannedRequest) -> Cow<'_, str> {
        let Some(given) = planned.own.as_ref().map(|fields| &fields.headers).filter(|given| !given.is_empty()) else {
            return Cow::Borrowed(&self.headers);
        };
        let is_kept = |line: &&str| line.split_once(':').is_none_or(|(name, _)| !given.has(name));
        let kept: String = self.headers.split_inclusive("\r\n").filter(is_kept).collect();
        Cow::Owned(given.0.iter().fold(kept, |lines, (name, value)| lines + &format!("{name}: {value}\r\n")))
    }
}

/// A request with its id in front: headers may be in any order.
pub(crate) fn addressed(unaddressed: &[u8], id: u64) -> Bytes {
    [format!("X-Request-Id: {id}\r\n").as_bytes(), unaddressed].concat().into()
}

fn path(http: &Http, model: &str, streams: bool) -> String {
    if let Some(path) = &http.path {
        return path.clone();
    }
    match http.api.openai_path() {
        Some(path) => path.to_owned(),
        None if streams => format!("/v2/models/{model}/generate_stream"),
        None => format!("/v2/models/{model}/generate"),
    }
}

/// The headers of a request besides its host and length. Those that are given replace Regatta's own.
pub(super) fn headers(sent: &SentHeaders, streams: bool) -> String {
    let accept = if streams { "text/event-stream, application/json" } else { "application/json" };
    let user_agent = concat!("regatta/", env!("CARGO_PKG_VERSION"));
    let usual = [("User-Agent", user_agent), ("Content-Type", "application/json"), ("Accept", accept)];
    let usual = usual.iter().filter(|(name, _)| !sent.has(name)).map(|(name, value)| format!("{name}: {value}\r\n"));
    usual.collect::<String>() + &sent.lines()
}

/// Fields so far, and those that do not fit.
struct RequestFieldsBuilder<'a> {
    api: Api,
    inputs: Option<&'a [String]>,
    constants: Map<String, Value>,
    faults: Vec<String>,
}

impl RequestFieldsBuilder<'_> {
    fn has(&self, name: &str) -> bool {
        self.inputs.is_none_or(|inputs| inputs.iter().any(|input| input == name))
    }

    /// The fields that are set, and those that every request to such a model has: `end_id` is the benchmark's, for a
    /// model of token ids. Returns the name of a seed that is another one in each request.
    fn add_fields(&mut self, request: &Request, streams: bool, end_id: Option<i32>) -> Option<&'static str> {
        let form = if self.api == Api::Generate { WireForm::Generate } else { WireForm::Openai };
        let mut seed_key = None;
        for field in in_body_order(form) {
            // One beam is what every model has, with the input or without.
            let given = field.value(request).filter(|value| !field.is_neutral(value));
            let usual = match (field.key, end_id) {
                _ if form == WireForm::Openai => None,
                ("end_id" | "pad_id", Some(id)) => Some(Value::from(id)),
                ("beam_width", Some(_)) => Some(Value::from(1)),
                ("exclude_input_in_output", _) => (!streams).then(|| Value::from(true)),
                _ => None,
            };
            match (given, usual) {
                (Some(value), _) => {
                    let Some(name) = self.find(field.name(), field.names(form)) else { continue };
                    match value.to_json() {
                        Some(value) => drop(self.constants.insert(name.to_owned(), value)),
                        None => seed_key = Some(name),
                    }
                }
                (None, Some(usual)) => self.add_if_available(field.key, usual),
                (None, None) => {}
            }
        }
        seed_key
    }

    /// The name under which the interface, or the Triton model, takes a field.
    fn find(&mut self, key: &str, names: &[&'static str]) -> Option<&'static str> {
        // OpenAI's servers accept unknown names.
        let name = names.iter().find(|name| self.api != Api::Generate || self.has(name)).copied();
        if let (None, Some(name)) = (name, names.last()) {
            self.faults.push(format!("request.{key} needs the input `{name}`, which the model does not have"));
        }
        name
    }

    /// Sent where the model has it.
    fn add_if_available(&mut self, name: &str, value: Value) {
        if self.has(name) {
            self.constants.insert(name.to_owned(), value);
        }
    }
}

/// The fields of a body. Some stand before or after the others, as they did in earlier versions: the same request has
/// the same bytes.
fn in_body_order(form: WireForm) -> Vec<&'static RequestField> {
    const FIRST: [&str; 7] =
        ["end_id", "pad_id", "beam_width", "exclude_input_in_output", "temperature", "top_p", "top_k"];
    const LAST: [&str; 3] = ["length_penalty", "early_stopping", "random_seed"];
    let mut fields: Vec<_> = REQUEST_FIELDS.iter().filter(|field| !field.names(form).is_empty()).collect();
    fields.sort_by_key(|field| {
        let first = FIRST.iter().position(|key| *key == field.key);
        first.unwrap_or(FIRST.len() + usize::from(LAST.contains(&field.key)))
    });
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::spec::FieldKind;

    #[test]
    fn every_field_is_a_member_under_its_name() {
        for field in REQUEST_FIELDS.iter().filter(|field| field.key != "cancel.by") {
            let value = match field.kind {
                FieldKind::Int { min, .. } => json!(min.max(2)),
                FieldKind::Number(_) => json!(0.5),
                FieldKind::Switch => json!(true),
                FieldKind::Seed => json!({"fixed": 7}),
                FieldKind::WordTexts => json!({"texts": ["ab"]}),
                FieldKind::Turns | FieldKind::WordIds | FieldKind::Client => continue,
            };
            let request: Request = serde_json::from_value(json!({ (field.name()): value })).unwrap();
            let sent = field.value(&request).and_then(|value| value.to_json()).unwrap();
            for (api, form) in [(Api::Generate, WireForm::Generate), (Api::OpenaiChat, WireForm::Openai)] {
                let Some(name) = field.names(form).first() else { continue };
                let (constants, faults) = (Map::new(), Vec::new());
                let mut fields = RequestFieldsBuilder { api, inputs: None, constants, faults };
                assert_eq!(fields.add_fields(&request, true, None), None);
                assert_eq!(fields.constants.get(*name), Some(&sent), "{}", field.key);
                assert_eq!((fields.constants.len(), fields.faults.len()), (1, 0), "{}", field.key);
            }
        }
    }
}
