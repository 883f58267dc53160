//! Whole requests, ready to be written, with a body in each interface's terms.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::schedule::data::Prompt;
use crate::schedule::random_draws::generator;
use crate::spec::transport::{Api, Http};
use crate::transport::call::TokenCounting;
use crate::transport::sent_headers::SentHeaders;
use crate::{BenchSpec, PlannedRequest, UnsupportedRequest};
use base::spec::{CancelPolicy, LengthField, RandomSeed, Request, WordList, sets_length};
use rand::RngExt;

/// How a model is called over HTTP. Fixed once before the run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HttpRequestTemplate {
    pub api: Api,
    /// The names that answers must carry.
    pub model: String,
    pub streams: bool,
    pub cancel: Option<CancelPolicy>,
    path: String,
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
                    let why =
                        "request.cancel counts tokens as they come, and an answer of several beams does not stream";
                    fields.faults.push(why.to_owned());
                }
                let key = if prompt_ids { "streaming" } else { "stream" };
                fields.field_if_available(key, Value::from(streams));
                fields.ending_and_beams(request, prompt_ids.then_some(spec.end_id));
                fields.prompt_in_answer(request.exclude_input_in_output, streams);
            }
            Api::OpenaiChat | Api::OpenaiCompletions => {
                fields.constants.insert("model".to_owned(), Value::from(offered.model.clone()));
                fields.constants.insert("stream".to_owned(), Value::from(streams));
                if streams {
                    fields.constants.insert("stream_options".to_owned(), json!({"include_usage": true}));
                }
            }
        }
        fields.field_if_set("temperature", &["temperature"], request.temperature.map(Value::from));
        fields.field_if_set("top_p", &["top_p", "runtime_top_p"], request.top_p.map(Value::from));
        fields.field_if_set("top_k", &["top_k", "runtime_top_k"], request.top_k.map(Value::from));
        fields.field_if_set("repetition_penalty", &["repetition_penalty"], request.repetition_penalty.map(Value::from));
        fields.field_if_set("presence_penalty", &["presence_penalty"], request.presence_penalty.map(Value::from));
        fields.field_if_set("frequency_penalty", &["frequency_penalty"], request.frequency_penalty.map(Value::from));
        fields.field_if_set("min_length", &["min_tokens", "min_length"], request.min_length.map(Value::from));
        let texts = |words: &Option<WordList>| match words {
            Some(WordList::Texts(texts)) => Some(json!(texts)),
            Some(WordList::Ids(_)) | None => None,
        };
        fields.field_if_set("stop_words", &["stop", "stop_words"], texts(&request.stop_words));
        if http.api == Api::Generate {
            fields.field_if_set("bad_words", &["bad_words"], texts(&request.bad_words));
            fields.field_if_set(
                "length_penalty",
                &["len_penalty", "length_penalty"],
                request.length_penalty.map(Value::from),
            );
            fields.field_if_set("early_stopping", &["early_stopping"], request.early_stopping.map(Value::from));
        }
        let mut seed_key = None;
        match request.random_seed {
            Some(RandomSeed::Fixed(seed)) => {
                fields.field_if_set("random_seed", &["seed", "random_seed"], Some(Value::from(seed)));
            }
            Some(RandomSeed::PerRequest(true)) => seed_key = fields.find("random_seed", &["seed", "random_seed"]),
            Some(RandomSeed::PerRequest(false)) | None => {}
        }
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
        for (key, value) in &self.extra {
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
        let body = self.body(index, planned, prompt).to_string();
        let length = body.len();
        format!("{}Content-Length: {length}\r\n\r\n{body}", self.headers).into()
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

    /// The name under which the interface, or the Triton model, takes it.
    fn find(&mut self, key: &str, names: &[&'static str]) -> Option<&'static str> {
        // OpenAI's servers accept unknown names, so the first is as good as any.
        let found = match self.api {
            Api::Generate => names.iter().rev().chain(names).find(|name| self.has(name)).copied(),
            Api::OpenaiChat | Api::OpenaiCompletions => names.first().copied(),
        };
        if found.is_none() {
            self.faults.push(format!("request.{key} needs the input `{}`, which the model does not have", names[0]));
        }
        found
    }

    /// What ends an answer, and the number of beams. A model of token ids gets them in every request, with `end_id` of the benchmark.
    fn ending_and_beams(&mut self, request: &Request, end_id: Option<i32>) {
        // One beam is what every model has, with the input or without.
        let beams = request.beam_width.filter(|beams| *beams > 1);
        for (key, given, usual) in [
            ("end_id", request.end_id.map(Value::from), end_id.map(Value::from)),
            ("pad_id", request.pad_id.map(Value::from), end_id.map(Value::from)),
            ("beam_width", beams.map(Value::from), end_id.map(|_| Value::from(1))),
        ] {
            match (given, usual) {
                (Some(given), _) => self.field_if_set(key, &[key], Some(given)),
                (None, Some(usual)) => self.field_if_available(key, usual),
                (None, None) => {}
            }
        }
    }

    /// Without streaming a model is to leave the prompt out of its answer, where it can.
    fn prompt_in_answer(&mut self, exclude: Option<bool>, streams: bool) {
        const KEY: &str = "exclude_input_in_output";
        match exclude {
            Some(_) => self.field_if_set(KEY, &[KEY], exclude.map(Value::from)),
            None if !streams => self.field_if_available(KEY, Value::from(true)),
            None => {}
        }
    }

    /// Sent where the model has it.
    fn field_if_available(&mut self, name: &str, value: Value) {
        if self.has(name) {
            self.constants.insert(name.to_owned(), value);
        }
    }

    fn field_if_set(&mut self, key: &str, names: &[&'static str], value: Option<Value>) {
        let Some(value) = value else { return };
        if let Some(name) = self.find(key, names) {
            self.constants.insert(name.to_owned(), value);
        }
    }
}
