//! The server's description of a model, and the inputs that are the same in every message to it.
//!
//! The requests before a run: is the server there, is the model ready, which inputs and which call does it need?

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;
use serde_json::{Map, Value, json};

use super::grpc_messages;
use super::infer_request::InferRequestTemplate;
use super::rpc::unary_call;
use crate::transport::connection::{Connection, HandshakeError, absent};
use crate::transport::request_encoder::CallKind;
use crate::{BenchSpec, CallSource, HarnessError, LoadPattern};
use base::spec::{FieldValue, Interface, REQUEST_FIELDS, Request, RequestField, WireForm};
use triton::field_tensor;
use triton::proto::inference::model_config::SchedulingChoice;
use triton::proto::inference::model_metadata_response::TensorMetadata;
use triton::proto::inference::{
    ModelConfig, ModelConfigRequest, ModelConfigResponse, ModelMetadataRequest, ModelMetadataResponse,
    ModelReadyRequest, ModelReadyResponse, ServerReadyRequest, ServerReadyResponse,
};

/// The names that an interface uses for tensors that are not request fields.
#[derive(Debug, PartialEq)]
pub struct TensorNames {
    pub form: WireForm,
    pub prompt: &'static str,
    pub output_len: &'static str,
    pub streaming: &'static str,
    /// The answer first; the rest where the model has it.
    pub answer: &'static [&'static str],
}

pub static TOKENS: TensorNames = TensorNames {
    form: WireForm::TokenIds,
    prompt: "input_ids",
    output_len: "request_output_len",
    streaming: "streaming",
    answer: &["output_ids", "sequence_length"],
};

/// The names of text models.
pub const TEXT: TensorNames = TensorNames {
    form: WireForm::Text,
    prompt: "text_input",
    output_len: "max_tokens",
    streaming: "stream",
    answer: &["text_output"],
};

/// The settings of Triton's vLLM backend: one JSON text in place of a tensor for each.
const SAMPLING: &str = "sampling_parameters";

/// The names of Triton's vLLM backend.
pub static VLLM: TensorNames = TensorNames { output_len: SAMPLING, ..TEXT };

/// What a model offers, by name.
pub type OfferedTensors = BTreeMap<String, String>;

/// A model as its server describes it. What a server does not report is taken from TensorRT-LLM's defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelMetadata {
    pub is_decoupled: Option<bool>,
    pub max_batch_size: Option<i32>,
    /// Name → data type.
    pub inputs: Option<OfferedTensors>,
    pub outputs: Option<OfferedTensors>,
}

impl ModelMetadata {
    pub fn interface(&self) -> Interface {
        let is_text = self.describes(TEXT.prompt) && !self.describes(TOKENS.prompt);
        if is_text { Interface::Text } else { Interface::TokenIds }
    }

    /// Whether it is a model of Triton's vLLM backend: one of text that has no tensor for the length of an answer.
    pub fn is_vllm(&self) -> bool {
        self.describes(SAMPLING) && !self.describes("max_tokens")
    }

    /// Where the server does not report it, the scenario decides: Server streams, Offline does not.
    pub fn call(&self, scenario: &LoadPattern) -> CallKind {
        match (self.is_decoupled, scenario) {
            (Some(false), _) | (None, LoadPattern::Offline | LoadPattern::External(CallSource::AllAtOnce)) => {
                CallKind::Unary
            }
            (Some(true) | None, _) => CallKind::Stream,
        }
    }

    pub fn has_rows(&self) -> bool {
        self.max_batch_size != Some(0)
    }

    /// The input's type, or `usual` if the server does not report one. `None` if the model has no such input.
    pub fn input_type(&self, name: &str, usual: &str) -> Option<String> {
        self.inputs.as_ref().map_or_else(|| Some(usual.to_owned()), |inputs| inputs.get(name).cloned())
    }

    /// The server reports that the model has this input.
    pub fn describes(&self, name: &str) -> bool {
        self.inputs.as_ref().is_some_and(|inputs| inputs.contains_key(name))
    }

    pub fn check_batch(&self, batch: usize, call: CallKind, faults: &mut Vec<String>) {
        if batch <= 1 {
            return;
        }
        if call == CallKind::Unary {
            faults.push(
                "request.batch above 1 needs a decoupled model: each prompt is answered by responses of its own"
                    .to_owned(),
            );
        }
        if let Some(most) = self.max_batch_size.filter(|most| i64::from(*most) < batch as i64) {
            faults.push(format!("request.batch is {batch}, and the model's max_batch_size is {most}"));
        }
    }

    /// The answer must be there; `sequence_length` is dropped where the model lacks it; any other missing output is an
    /// error.
    pub fn check_outputs(&self, wanted: &mut Vec<&'static str>, faults: &mut Vec<String>) {
        let Some(outputs) = &self.outputs else { return };
        wanted.retain(|name| *name != "sequence_length" || outputs.contains_key(*name));
        let missing: Vec<String> =
            wanted.iter().filter(|name| !outputs.contains_key(**name)).map(|name| format!("`{name}`")).collect();
        if !missing.is_empty() {
            let has: Vec<&str> = outputs.keys().map(String::as_str).collect();
            faults.push(format!("the model has no output {}; it has {}", missing.join(", "), has.join(", ")));
        }
    }
}

/// A tensor that is the same in every row of every message.
#[derive(Clone, Debug, PartialEq)]
pub struct ConstantTensor {
    pub name: &'static str,
    pub datatype: String,
    /// Without the batch dimension.
    pub shape: Vec<i64>,
    pub row: Bytes,
}

/// An input with another value in each request.
#[derive(Clone, Debug, PartialEq)]
pub struct DrawnInput {
    /// Of the request's field.
    pub key: &'static str,
    pub name: &'static str,
    pub datatype: String,
}

/// The inputs of a model that a request sets, and the fields that the model does not take.
pub struct ModelInputs<'a> {
    metadata: &'a ModelMetadata,
    pub constants: Vec<ConstantTensor>,
    pub drawn: Vec<DrawnInput>,
    /// Of vLLM's backend: what is the same in every request's settings.
    pub sampling: Option<Map<String, Value>>,
    /// Outputs besides the answer.
    pub outputs: Vec<&'static str>,
    pub faults: Vec<String>,
    /// Some input is missing.
    pub lacks: bool,
}

impl<'a> ModelInputs<'a> {
    pub fn new(metadata: &'a ModelMetadata, is_vllm: bool, faults: Vec<String>) -> Self {
        let sampling = is_vllm.then(Map::new);
        let (constants, drawn, outputs) = (Vec::new(), Vec::new(), Vec::new());
        Self { metadata, constants, drawn, sampling, outputs, faults, lacks: false }
    }

    /// What every request has.
    pub fn add_prompt(&mut self, names: &TensorNames, streams: bool) {
        for name in [names.prompt, names.output_len] {
            if self.metadata.input_type(name, "").is_none() {
                self.lacks = true;
                self.faults.push(format!("this interface needs the input `{name}`, which the model does not have"));
            }
        }
        self.add_if_available(names.streaming, &FieldValue::Switch(streams));
    }

    /// The fields that are set, and those that every request to such a model has.
    pub fn add_fields(&mut self, request: &Request, form: WireForm, streams: bool, end_id: i32) {
        for field in REQUEST_FIELDS {
            let usual = self.usual(field.key, form, streams, end_id);
            // One beam is what every model has, with the input or without.
            let given = field.value(request).filter(|value| usual.is_none() || !field.is_neutral(value));
            match (given, usual) {
                (Some(value), _) => self.add(field, &value, form),
                (None, Some(value)) => self.add_if_available(field.key, &value),
                (None, None) => {}
            }
        }
        // An end token that does not exist never ends an answer.
        if let Some(sampling) = self.sampling.as_mut().filter(|_| request.end_id == Some(-1)) {
            sampling.insert("ignore_eos".to_owned(), json!(true));
        }
    }

    /// The default of a field: a model with token ids gets its end id in every request, and a model that does not
    /// stream is told to leave the prompt out of its answer.
    fn usual(&self, key: &str, form: WireForm, streams: bool, end_id: i32) -> Option<FieldValue> {
        match key {
            "beam_width" if form == WireForm::TokenIds => Some(FieldValue::Int(1)),
            "end_id" | "pad_id" if form == WireForm::TokenIds => Some(FieldValue::Int(end_id.into())),
            "exclude_input_in_output" if !streams && self.metadata.describes(key) => Some(FieldValue::Switch(true)),
            _ => None,
        }
    }

    fn add(&mut self, field: &'static RequestField, value: &FieldValue, form: WireForm) {
        if let Some(sampling) = &mut self.sampling {
            let member = field.names(WireForm::Vllm).first().zip(value.to_json());
            if let Some((name, value)) = member {
                sampling.insert((*name).to_owned(), value);
                return;
            }
            if (field.key, value) == ("end_id", &FieldValue::Int(-1)) {
                return;
            }
        }
        let names = field.names(form);
        let expected = match value {
            _ if !names.is_empty() => None,
            FieldValue::Ids(_) => Some("text, so `texts`"),
            FieldValue::Texts(_) => Some("token ids, so `ids`"),
            _ => return,
        };
        if let Some(expected) = expected {
            self.faults.push(format!("request.{}: this model takes {expected} are required", field.name()));
            return;
        }
        self.outputs.extend(field.outputs);
        let usual = field_tensor::usual_type(value);
        let input = names.iter().find_map(|name| Some((*name, self.metadata.input_type(name, usual)?)));
        match (input, value) {
            (Some((name, datatype)), FieldValue::PerRequest) => {
                self.drawn.push(DrawnInput { key: field.key, name, datatype });
            }
            (Some((name, datatype)), value) => self.add_constant(name, datatype, value),
            (None, _) => {
                self.lacks = true;
                let fault = format!("needs the input `{}`, which the model does not have", names[0]);
                self.faults.push(format!("request.{} {fault}", field.name()));
            }
        }
    }

    fn add_if_available(&mut self, name: &'static str, value: &FieldValue) {
        if let Some(datatype) = self.metadata.input_type(name, field_tensor::usual_type(value)) {
            self.add_constant(name, datatype, value);
        }
    }

    fn add_constant(&mut self, name: &'static str, datatype: String, value: &FieldValue) {
        let (shape, row) = field_tensor::encode(value, &datatype);
        self.constants.push(ConstantTensor { name, datatype, shape, row });
    }
}

/// Uses the link itself: after these calls the server's stream limit has arrived.
pub(crate) async fn handshake(link: &Connection, spec: &BenchSpec) -> Result<InferRequestTemplate, HarnessError> {
    let endpoint = link.authority();
    let refuse = |error: HandshakeError| error.refused(&endpoint, &spec.model);
    link.sender().await.map_err(|error| absent(&endpoint, error))?;
    match answer::<ServerReadyResponse>(link, spec, "ServerReady", &ServerReadyRequest {}).await {
        Ok(server) if !server.ready => {
            return Err(refuse(HandshakeError::NotReady("the server is live but not ready".to_owned())));
        }
        Err(error) if !error.is_unimplemented() => return Err(absent(&endpoint, error)),
        _ => {}
    }
    let ready = ModelReadyRequest { name: spec.model.clone(), ..ModelReadyRequest::default() };
    match answer::<ModelReadyResponse>(link, spec, "ModelReady", &ready).await {
        Ok(model) if !model.ready => return Err(refuse(HandshakeError::Refused("it is not ready".to_owned()))),
        Err(error) if !error.is_unimplemented() => return Err(refuse(error)),
        _ => {}
    }
    let metadata = describe(link, spec).await.map_err(refuse)?;
    InferRequestTemplate::new(spec, &metadata).map_err(|source| HarnessError::Request {
        endpoint: endpoint.clone(),
        model: spec.model.clone(),
        source,
    })
}

/// What the server reports about the model. A method that it lacks leaves its part open.
async fn describe(link: &Connection, spec: &BenchSpec) -> Result<ModelMetadata, HandshakeError> {
    let mut metadata = ModelMetadata::default();
    let request = ModelConfigRequest { name: spec.model.clone(), ..ModelConfigRequest::default() };
    match answer::<ModelConfigResponse>(link, spec, "ModelConfig", &request).await {
        Ok(answer) => {
            let config = answer.config.unwrap_or_default();
            metadata.is_decoupled = Some(decouples(link, spec, &config).await?);
            metadata.max_batch_size = Some(config.max_batch_size);
        }
        Err(error) if error.is_unimplemented() => {}
        Err(error) => return Err(error),
    }
    let request = ModelMetadataRequest { name: spec.model.clone(), ..ModelMetadataRequest::default() };
    match answer::<ModelMetadataResponse>(link, spec, "ModelMetadata", &request).await {
        Ok(answer) => {
            // Every model has inputs and outputs: an answer without them carries no information.
            let offer = |tensors: Vec<TensorMetadata>| {
                let offer: OfferedTensors = tensors.into_iter().map(|tensor| (tensor.name, tensor.datatype)).collect();
                (!offer.is_empty()).then_some(offer)
            };
            metadata.inputs = offer(answer.inputs);
            metadata.outputs = offer(answer.outputs);
        }
        Err(error) if error.is_unimplemented() => {}
        Err(error) => return Err(error),
    }
    Ok(metadata)
}

/// An ensemble does not declare it: it streams when one of its steps does.
async fn decouples(link: &Connection, spec: &BenchSpec, config: &ModelConfig) -> Result<bool, HandshakeError> {
    let is_decoupled = |config: &ModelConfig| config.model_transaction_policy.is_some_and(|policy| policy.decoupled);
    if is_decoupled(config) {
        return Ok(true);
    }
    let Some(SchedulingChoice::EnsembleScheduling(ensemble)) = &config.scheduling_choice else { return Ok(false) };
    for step in &ensemble.step {
        let request = ModelConfigRequest { name: step.model_name.clone(), ..ModelConfigRequest::default() };
        let answer = answer::<ModelConfigResponse>(link, spec, "ModelConfig", &request).await;
        let of_step = |error| HandshakeError::Refused(format!("its step `{}`: {error}", step.model_name));
        let config = answer.map_err(of_step)?.config;
        if config.as_ref().is_some_and(is_decoupled) {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn answer<A: Message + Default>(
    link: &Connection,
    spec: &BenchSpec,
    method: &'static str,
    question: &impl Message,
) -> Result<A, HandshakeError> {
    let patience = spec.stall_timeout;
    let bytes: Bytes = tokio::time::timeout(patience, unary_call(link, method, grpc_messages::frame(question)))
        .await
        .map_err(|_| HandshakeError::late(method, patience))?
        .map_err(|error| HandshakeError::Call { method, error: error.shown(|text| link.headers.hide(text)) })?;
    A::decode(bytes)
        .map_err(|error| HandshakeError::Refused(format!("the answer to {method} is not understood: {error}")))
}
