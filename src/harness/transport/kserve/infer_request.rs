//! A request's message: which tensors, in the names and shapes of the model that the server describes.
//!
//! Fixed once before the run; every message is then a copy of constants and its own prompt.

use bytes::Bytes;
use prost::Message as _;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};
use rand::RngExt;
use serde_json::{Map, Value, json};

use super::grpc_messages::{ScanRequest, joined_frame, put_field, put_id};
use super::model_metadata::{ConstantTensor, DrawnInput, ModelInputs, ModelMetadata, TEXT, TOKENS, TensorNames, VLLM};
use crate::schedule::arrivals::generator;
use crate::schedule::data::Prompt;
use crate::transport::request_encoder::{CallKind, TokenCounting};
use crate::{BenchSpec, LoadPattern, PlannedRequest, UnsupportedRequest};
use base::spec::{CancelPolicy, FieldValue, Interface, Protocol, Request, StreamMode};
use triton::field_tensor::{column, texts};
use triton::proto::inference::infer_parameter::ParameterChoice;
use triton::proto::inference::model_infer_request::InferRequestedOutputTensor;
use triton::proto::inference::{InferParameter, ModelInferRequest};

/// Data types of token ids.
const INTEGERS: [&[u8]; 8] = [b"INT32", b"INT64", b"UINT32", b"UINT64", b"INT16", b"UINT16", b"INT8", b"UINT8"];

/// Inputs of a message under construction, as they are sent: a request that is built of its tensors first and encoded
/// then costs as much as all of HTTP/2.
#[derive(Clone, Debug, PartialEq)]
struct MessageInputs {
    has_rows: bool,
    rows: usize,
    /// Names, data types and shapes: fields of the message.
    tensors: Vec<u8>,
    /// Contents, in the same order.
    raw: Vec<u8>,
}

impl MessageInputs {
    fn new(has_rows: bool, rows: usize) -> Self {
        Self { has_rows, rows, tensors: Vec::with_capacity(512), raw: Vec::with_capacity(512) }
    }

    /// `shape` without the batch dimension, `raw` for all rows.
    fn put(&mut self, name: &str, datatype: &str, shape: &[i64], raw: &[u8]) {
        let rows = self.has_rows.then_some(self.rows as u64);
        let shape = rows.into_iter().chain(shape.iter().map(|dim| dim.cast_unsigned()));
        let mut tensor = Vec::with_capacity(64);
        put_field(&mut tensor, 1, name.as_bytes());
        put_field(&mut tensor, 2, datatype.as_bytes());
        encode_key(3, WireType::LengthDelimited, &mut tensor);
        encode_varint(shape.clone().map(encoded_len_varint).sum::<usize>() as u64, &mut tensor);
        shape.for_each(|dim| encode_varint(dim, &mut tensor));
        put_field(&mut self.tensors, 5, &tensor);
        put_field(&mut self.raw, 7, raw);
    }

    /// What is the same in every message of so many requests.
    fn of_constants(has_rows: bool, rows: usize, constants: &[ConstantTensor]) -> Self {
        let mut inputs = Self::new(has_rows, rows);
        for ConstantTensor { name, datatype, shape, row } in constants {
            inputs.put(name, datatype, shape, &row.repeat(rows));
        }
        inputs
    }
}

/// How a model is called.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct InferRequestTemplate {
    pub call: CallKind,
    pub count: TokenCounting,
    /// One response for each token.
    pub streams: bool,
    /// Responses carry the index of the request in the message that they belong to.
    pub is_batched: bool,
    /// Answers to each prompt; only the final marker ends the last of them.
    pub sequences: u32,
    /// Outputs besides tokens are requested, so responses are parsed completely.
    pub has_extra_outputs: bool,
    pub end_id: i32,
    pub cancel: Option<CancelPolicy>,
    /// Stop words, or samples from LoadGen, end answers for a reason that responses do not show.
    may_end_early: bool,
    interface: Interface,
    names: &'static TensorNames,
    model: String,
    /// The model's shapes begin with a batch dimension.
    has_rows: bool,
    has_lengths: bool,
    constants: Vec<ConstantTensor>,
    /// Those of a whole batch, encoded.
    encoded_constants: MessageInputs,
    /// Encoded: what every message begins with.
    start: Vec<u8>,
    /// Encoded: the requested outputs.
    outputs: Vec<u8>,
    /// The answer's data type, where the server reports it.
    answer_type: Option<String>,
    pad_id: i32,
    seed: u64,
    drawn: Vec<DrawnInput>,
    lora: Vec<u64>,
    /// Of vLLM's backend: what is the same in every request's settings.
    sampling: Option<Map<String, Value>>,
}

/// Why a model that is called so cannot answer the request.
fn call_faults(
    request: &Request,
    call: CallKind,
    streams: bool,
    stream: StreamMode,
) -> impl Iterator<Item = &'static str> {
    let is_unary = call == CallKind::Unary;
    let counts_unknown = request.cancel.is_some() && !streams && request.streaming.is_none();
    let faults = [
        (
            streams && is_unary,
            "request.streaming: the model is not decoupled, so an answer is one response; set `streaming: false`, or \
             `model_transaction_policy { decoupled: true }` in its config.pbtxt (`decoupled_mode` of TensorRT-LLM's \
             templates)",
        ),
        (
            stream == StreamMode::Shared && is_unary,
            "stream `shared`: the model is not decoupled, so requests are unary calls",
        ),
        (counts_unknown, "request.cancel counts tokens as they come, and this model does not stream"),
        (
            request.sequences() > 1 && is_unary,
            "request.num_return_sequences above 1 needs a decoupled model: each answer comes in responses of its own",
        ),
    ];
    faults.into_iter().filter(|(is_fault, _)| *is_fault).map(|(_, fault)| fault)
}

impl InferRequestTemplate {
    /// Checks the request block against the model. Errors: everything that does not fit.
    pub fn new(spec: &BenchSpec, metadata: &ModelMetadata) -> Result<Self, UnsupportedRequest> {
        let mut faults = spec.request.faults(spec.vocab_size);
        let unsendable = spec.request.unsendable(Protocol::Kserve);
        faults.extend(unsendable.map(|setting| format!("request.{} {setting}", setting.key)));
        let interface = spec.request.interface.unwrap_or_else(|| metadata.interface());
        let is_external = matches!(spec.scenario, LoadPattern::External(_));
        if is_external && interface == Interface::Text {
            faults.push(
                "it takes text, and samples of LoadGen are token ids: name a model that has the input `input_ids`"
                    .to_owned(),
            );
        }
        let is_vllm = interface == Interface::Text && metadata.is_vllm();
        let request = &spec.request;
        let names = match interface {
            Interface::TokenIds => &TOKENS,
            Interface::Text if is_vllm => &VLLM,
            Interface::Text => &TEXT,
        };
        let call = metadata.call(&spec.scenario);
        let beams = request.beam_width.unwrap_or(1);
        let streams = request.streaming.unwrap_or(call == CallKind::Stream && beams <= 1);
        faults.extend(call_faults(request, call, streams, spec.pace.stream).map(str::to_owned));
        metadata.check_batch(request.batch(), call, &mut faults);
        let has_prompt = !streams && request.exclude_input_in_output == Some(false);
        let sequences = request.sequences();
        let mut inputs = ModelInputs::new(metadata, is_vllm, faults);
        inputs.add_prompt(names, streams);
        inputs.add_fields(request, names.form, streams, spec.end_id);
        let has_extra_outputs = !inputs.outputs.is_empty();
        let mut outputs = [names.answer, &inputs.outputs].concat();
        let is_batched = request.batch() > 1;
        if is_batched {
            outputs.push("batch_index");
        }
        let ModelInputs { constants, drawn, sampling, mut faults, lacks, .. } = inputs;
        if let Some(inputs) = metadata.inputs.as_ref().filter(|_| lacks) {
            let has: Vec<&str> = inputs.keys().map(String::as_str).collect();
            faults.push(format!("the model's inputs are {}", has.join(", ")));
        }
        metadata.check_outputs(&mut outputs, &mut faults);
        if !faults.is_empty() {
            return Err(UnsupportedRequest { faults });
        }
        Ok(Self {
            call,
            count: match interface {
                Interface::TokenIds => TokenCounting::Ids { beams, sequences, has_prompt },
                Interface::Text if streams => TokenCounting::Responses { sequences },
                Interface::Text => TokenCounting::Requested,
            },
            streams,
            is_batched,
            sequences,
            has_extra_outputs,
            end_id: request.end_id.unwrap_or(spec.end_id),
            cancel: request.cancel,
            may_end_early: request.stop_words.is_some() || is_external,
            interface,
            names,
            model: spec.model.clone(),
            has_rows: metadata.has_rows(),
            has_lengths: metadata.input_type("input_lengths", "INT32").is_some() || is_batched,
            encoded_constants: MessageInputs::of_constants(metadata.has_rows(), request.batch(), &constants),
            constants,
            start: ModelInferRequest {
                model_name: spec.model.clone(),
                parameters: parameters(call).into_iter().collect(),
                ..ModelInferRequest::default()
            }
            .encode_to_vec(),
            outputs: ModelInferRequest {
                outputs: outputs.into_iter().map(requested_output).collect(),
                ..ModelInferRequest::default()
            }
            .encode_to_vec(),
            answer_type: metadata.outputs.as_ref().and_then(|outputs| outputs.get(names.answer[0]).cloned()),
            pad_id: request.pad_id.unwrap_or(spec.end_id),
            seed: spec.seed,
            drawn,
            lora: request.lora_task_id.clone(),
            sampling,
        })
    }

    /// What to look for in responses.
    pub fn scan_request(&self) -> ScanRequest<'static> {
        let is_text = self.interface == Interface::Text;
        let has_beams = matches!(self.count, TokenCounting::Ids { beams: 2.., .. });
        ScanRequest { answer: self.names.answer[0], is_text, is_batched: self.is_batched, has_beams }
    }

    /// What the answer's data type has to be, where it is not this one.
    pub fn other_type(&self, found: &[u8]) -> Option<&str> {
        if self.interface == Interface::Text && found != b"BYTES" {
            return Some("BYTES");
        }
        if self.interface == Interface::TokenIds && !INTEGERS.contains(&found) {
            return Some("whole numbers");
        }
        self.answer_type.as_deref().filter(|offered| offered.as_bytes() != found)
    }

    /// The names that every response carries.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Only an end token justifies an answer that is shorter than requested: there are no stop words, and the length is
    /// no mere limit.
    pub fn ends_only_with_end_id(&self) -> bool {
        self.takes_ids() && self.sequences == 1 && !self.may_end_early
    }

    pub fn takes_ids(&self) -> bool {
        self.interface == Interface::TokenIds
    }

    /// Whether message `first` is to be ended early, and how.
    pub fn cancel_of(&self, first: u64) -> Option<CancelPolicy> {
        self.cancel.filter(|cancel| generator("cancel", self.seed, first).random::<f64>() < cancel.share)
    }

    /// One message for the requests from `first` on. `prompts` has one for each of `planned`.
    pub fn message(&self, first: u64, planned: &[PlannedRequest], prompts: &[Prompt], id: Option<u64>) -> Bytes {
        let rows = planned.len();
        let mut message_inputs = MessageInputs::new(self.has_rows, rows);
        match self.interface {
            Interface::TokenIds => {
                let prompts: Vec<&[i32]> = prompts.iter().map(Prompt::as_ids).collect();
                let longest = prompts.iter().map(|prompt| prompt.len()).max().unwrap_or(0);
                let mut ids = Vec::with_capacity(rows * longest);
                for (row, prompt) in (1..).zip(&prompts) {
                    ids.extend(prompt.iter().map(|token| token.to_le_bytes()));
                    ids.resize(row * longest, self.pad_id.to_le_bytes());
                }
                message_inputs.put(self.names.prompt, "INT32", &[longest as i64], ids.as_flattened());
                if self.has_lengths {
                    let lengths: Vec<_> = prompts.iter().map(|prompt| (prompt.len() as u32).to_le_bytes()).collect();
                    message_inputs.put("input_lengths", "INT32", &[1], lengths.as_flattened());
                }
            }
            Interface::Text => {
                let prompts: Vec<&str> = prompts.iter().map(Prompt::as_text).collect();
                message_inputs.put(self.names.prompt, "BYTES", &[1], &texts(&prompts));
            }
        }
        if let Some(sampling) = &self.sampling {
            let text = |planned: &PlannedRequest| {
                let mut settings = sampling.clone();
                settings.insert("max_tokens".to_owned(), json!(planned.output_len));
                Value::Object(settings).to_string()
            };
            let settings: Vec<String> = planned.iter().map(text).collect();
            message_inputs.put(self.names.output_len, "BYTES", &[1], &texts(&settings));
        } else {
            let lengths: Vec<_> = planned.iter().map(|planned| planned.output_len.to_le_bytes()).collect();
            message_inputs.put(self.names.output_len, "INT32", &[1], lengths.as_flattened());
        }
        let of_rest = (rows != self.encoded_constants.rows)
            .then(|| MessageInputs::of_constants(self.has_rows, rows, &self.constants));
        let MessageInputs { tensors, raw, .. } = of_rest.as_ref().unwrap_or(&self.encoded_constants);
        message_inputs.tensors.extend_from_slice(tensors);
        message_inputs.raw.extend_from_slice(raw);
        for DrawnInput { key, name, datatype } in self.drawn.iter().filter(|drawn| drawn.key != "cancel.by") {
            let values = (first..first + rows as u64).map(|index| match *key {
                "lora_task_id" => self.lora[index as usize % self.lora.len()],
                key => generator(key, self.seed, index).random(),
            });
            message_inputs.put(name, datatype, &[1], &column(values.map(FieldValue::Long), datatype));
        }
        if let Some(id) = id {
            put_id(&mut message_inputs.raw, id);
        }
        joined_frame(&[&self.start, &message_inputs.tensors, &self.outputs, &message_inputs.raw])
    }

    /// Requests that the backend end the request of this id.
    pub fn stop(&self, id: u64) -> Bytes {
        let mut constant_inputs = MessageInputs::new(self.has_rows, 1);
        let unit = [1, 0, 0, 0];
        // Placeholders for the inputs that the model requires of every request.
        constant_inputs.put(self.names.prompt, "INT32", &[1], &unit);
        if self.has_lengths {
            constant_inputs.put("input_lengths", "INT32", &[1], &unit);
        }
        constant_inputs.put(self.names.output_len, "INT32", &[1], &unit);
        constant_inputs.put("stop", "BOOL", &[1], &[1]);
        put_id(&mut constant_inputs.raw, id);
        joined_frame(&[&self.start, &constant_inputs.tensors, &constant_inputs.raw])
    }
}

fn parameters(call: CallKind) -> Option<(String, InferParameter)> {
    let flag = InferParameter { parameter_choice: Some(ParameterChoice::BoolParam(true)) };
    (call != CallKind::Unary).then(|| ("triton_enable_empty_final_response".to_owned(), flag))
}

fn requested_output(name: &str) -> InferRequestedOutputTensor {
    InferRequestedOutputTensor { name: name.to_owned(), ..InferRequestedOutputTensor::default() }
}

#[cfg(test)]
mod tests {
    // Messages, tensor by tensor.

    use pretty_assertions::assert_eq;

    use super::*;
    use crate::schedule::data::Prompt;
    use crate::transport::kserve::model_metadata::OfferedTensors;
    use crate::{CallSource, LoadPattern, Slo};
    use base::spec::{Arrivals, Length, LengthField, Limits, RandomSeed, StopAfter, WordList};

    fn spec(request: Request) -> BenchSpec {
        BenchSpec {
            endpoints: vec!["127.0.0.1:1".parse().unwrap()],
            protocol: crate::Transport::Kserve,
            model: "m".to_owned(),
            scenario: LoadPattern::Server { rate: 1.0.into() },
            arrivals: Arrivals::Poisson,
            stop: StopAfter { requests: Some(1), duration: None },
            input_len: Length::Fixed(2),
            output_len: Length::Fixed(2),
            seed: 7,
            warmup: 0,
            pace: crate::SendingSpec::default(),
            content: crate::PromptSource::default(),
            frontends: 1,
            clients: 1,
            stall_timeout: std::time::Duration::from_secs(1),
            limits: Limits::default(),
            slo: Slo::default(),
            vocab_size: 100,
            end_id: 2,
            timelines: false,
            request,
        }
    }

    fn offer(names: &[(&str, &str)]) -> OfferedTensors {
        names.iter().map(|(name, datatype)| ((*name).to_owned(), (*datatype).to_owned())).collect()
    }

    fn planned(input_len: u32, output_len: u32) -> PlannedRequest {
        PlannedRequest::at(0, input_len, output_len)
    }

    /// As a server reads it.
    fn message(
        template: &InferRequestTemplate,
        first: u64,
        planned: &[PlannedRequest],
        prompts: &[Prompt],
    ) -> ModelInferRequest {
        ModelInferRequest::decode(&template.message(first, planned, prompts, Some(first))[5..]).unwrap()
    }

    /// `name TYPE [shape] = first numbers`
    fn shown(message: &ModelInferRequest) -> Vec<String> {
        let tensors = message.inputs.iter().zip(&message.raw_input_contents);
        tensors
            .map(|(input, raw)| {
                let value = match input.datatype.as_str() {
                    "INT32" => {
                        format!(
                            "{:?}",
                            raw.as_chunks::<4>().0.iter().map(|b| i32::from_le_bytes(*b)).collect::<Vec<_>>()
                        )
                    }
                    "FP32" => {
                        format!(
                            "{:?}",
                            raw.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect::<Vec<_>>()
                        )
                    }
                    "UINT64" => {
                        format!(
                            "{:?}",
                            raw.as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b)).collect::<Vec<_>>()
                        )
                    }
                    _ => format!("{raw:?}"),
                };
                format!("{} {} {:?} = {value}", input.name, input.datatype, input.shape)
            })
            .collect()
    }

    #[test]
    fn a_batch_is_padded_and_says_its_lengths() {
        let request = Request {
            batch: Some(2),
            pad_id: Some(9),
            temperature: Some(0.5),
            lora_task_id: vec![10, 11, 12],
            stop_words: Some(WordList::Ids(vec![vec![5], vec![6, 7]])),
            ..Request::default()
        };
        let metadata = ModelMetadata { is_decoupled: Some(true), ..ModelMetadata::default() };
        let template = InferRequestTemplate::new(&spec(request), &metadata).unwrap();
        let message =
            message(&template, 4, &[planned(1, 8), planned(3, 9)], &[vec![20], vec![21, 22, 23]].map(Prompt::Ids));
        insta::assert_snapshot!(shown(&message).join("\n"), @r#"
    input_ids INT32 [2, 3] = [20, 9, 9, 21, 22, 23]
    input_lengths INT32 [2, 1] = [1, 3]
    request_output_len INT32 [2, 1] = [8, 9]
    streaming BOOL [2, 1] = b"\x01\x01"
    beam_width INT32 [2, 1] = [1, 1]
    end_id INT32 [2, 1] = [2, 2]
    pad_id INT32 [2, 1] = [9, 9]
    temperature FP32 [2, 1] = [0.5, 0.5]
    stop_words_list INT32 [2, 2, 3] = [5, 6, 7, 1, 3, -1, 5, 6, 7, 1, 3, -1]
    lora_task_id UINT64 [2, 1] = [11, 12]
    "#);
        assert_eq!(message.id, "4");
    }

    #[test]
    fn the_last_requests_of_a_batch_are_a_message_of_their_own_size() {
        let request =
            Request { batch: Some(2), bad_words: Some(WordList::Ids(vec![vec![7; 40]])), ..Request::default() };
        let metadata = ModelMetadata { is_decoupled: Some(true), ..ModelMetadata::default() };
        let template = InferRequestTemplate::new(&spec(request), &metadata).unwrap();
        let message = message(&template, 6, &[planned(1, 8)], &[Prompt::Ids(vec![20])]);
        assert!(message.inputs.iter().all(|input| input.shape[0] == 1), "{:?}", message.inputs);
        let raw =
            message.inputs.iter().zip(&message.raw_input_contents).find(|(input, _)| input.name == "bad_words_list");
        // Longer than a length of one byte.
        assert_eq!(raw.unwrap().1.len(), 2 * 40 * 4);
    }

    #[test]
    fn a_model_gets_what_it_has_in_its_own_types() {
        let metadata = ModelMetadata {
            is_decoupled: Some(false),
            max_batch_size: Some(0),
            inputs: Some(offer(&[
                ("text_input", "BYTES"),
                ("max_tokens", "INT32"),
                ("stream", "BOOL"),
                ("seed", "INT32"),
                ("stop_words", "BYTES"),
            ])),
            outputs: Some(offer(&[("text_output", "BYTES")])),
        };
        let request = Request {
            random_seed: Some(RandomSeed::Fixed(3)),
            stop_words: Some(WordList::Texts(vec!["ab".to_owned()])),
            ..Request::default()
        };
        let template = InferRequestTemplate::new(&spec(request), &metadata).unwrap();
        assert_eq!(
            (template.call, template.count, template.scan_request().answer),
            (CallKind::Unary, TokenCounting::Requested, "text_output")
        );
        let message = message(&template, 0, &[planned(2, 5)], &[Prompt::Text("are but".to_owned())]);
        insta::assert_snapshot!(shown(&message).join("\n"), @r#"
    text_input BYTES [1] = b"\x07\0\0\0are but"
    max_tokens INT32 [1] = [5]
    stream BOOL [1] = b"\0"
    seed INT32 [1] = [3]
    stop_words BYTES [1] = b"\x02\0\0\0ab"
    "#);
    }

    #[test]
    fn all_missing_inputs_are_reported_at_once() {
        let metadata = ModelMetadata {
            is_decoupled: Some(false),
            max_batch_size: Some(2),
            inputs: Some(offer(&[("input_ids", "INT32"), ("input_lengths", "INT32"), ("request_output_len", "INT32")])),
            outputs: Some(offer(&[("output_ids", "INT32")])),
        };
        let request = Request {
            streaming: Some(true),
            temperature: Some(0.5),
            random_seed: Some(RandomSeed::PerRequest(true)),
            bad_words: Some(WordList::Texts(vec!["x".to_owned()])),
            end_id: Some(9),
            beam_width: Some(1),
            length_field: Some(LengthField::MaxTokens),
            batch: Some(3),
            return_perf_metrics: true,
            ..Request::default()
        };
        insta::assert_snapshot!(InferRequestTemplate::new(&spec(request), &metadata).unwrap_err().faults.join("\n"), @"
    request.length_field is of openai-chat, not of kserve
    request.streaming: the model is not decoupled, so an answer is one response; set `streaming: false`, or \
            `model_transaction_policy { decoupled: true }` in its config.pbtxt (`decoupled_mode` of TensorRT-LLM's \
            templates)
    request.batch above 1 needs a decoupled model: each prompt is answered by responses of its own
    request.batch is 3, and the model's max_batch_size is 2
    request.end_id needs the input `end_id`, which the model does not have
    request.temperature needs the input `temperature`, which the model does not have
    request.random_seed needs the input `random_seed`, which the model does not have
    request.bad_words: this model takes token ids, so `ids` are required
    request.return_perf_metrics needs the input `return_perf_metrics`, which the model does not have
    the model's inputs are input_ids, input_lengths, request_output_len
    the model has no output `kv_cache_alloc_new_blocks`, `kv_cache_reused_blocks`, `kv_cache_alloc_total_blocks`, \
            `arrival_time_ns`, `first_scheduled_time_ns`, `first_token_time_ns`, `last_token_time_ns`, `batch_index`; \
            it has output_ids
    ");
    }

    #[test]
    fn vllms_backend_takes_its_settings_as_one_text() {
        let request = Request { temperature: Some(0.5), end_id: Some(-1), ..Request::default() };
        let inputs = [
            ("text_input", "BYTES"),
            ("stream", "BOOL"),
            ("sampling_parameters", "BYTES"),
            ("exclude_input_in_output", "BOOL"),
        ];
        let metadata = ModelMetadata {
            is_decoupled: Some(true),
            max_batch_size: Some(0),
            inputs: Some(offer(&inputs)),
            outputs: Some(offer(&[("text_output", "BYTES")])),
        };
        let template = InferRequestTemplate::new(&spec(request), &metadata).unwrap();
        let message = message(&template, 0, &[planned(1, 8)], &[Prompt::Text("word".into())]);
        insta::assert_snapshot!(shown(&message).join("\n"), @r#"
    text_input BYTES [1] = b"\x04\0\0\0word"
    sampling_parameters BYTES [1] = b"4\0\0\0{\"temperature\":0.5,\"ignore_eos\":true,\"max_tokens\":8}"
    stream BOOL [1] = b"\x01"
    "#);
        // What has no place in the text is refused as every missing tensor is.
        let request = Request { beam_width: Some(2), ..Request::default() };
        let faults = InferRequestTemplate::new(&spec(request), &metadata).unwrap_err().faults;
        assert!(faults.iter().any(|fault| fault.contains("beam_width")), "{faults:?}");
    }

    #[test]
    fn an_answer_has_the_type_that_the_server_reports_and_its_ids_are_whole_numbers() {
        let types = |outputs: Option<&[(&str, &str)]>| {
            let metadata =
                ModelMetadata { is_decoupled: Some(true), outputs: outputs.map(offer), ..ModelMetadata::default() };
            InferRequestTemplate::new(&spec(Request::default()), &metadata).unwrap()
        };
        let unknown = types(None);
        for datatype in ["INT32", "INT64", "UINT32"] {
            assert_eq!(unknown.other_type(datatype.as_bytes()), None);
        }
        assert_eq!(unknown.other_type(b"FP32"), Some("whole numbers"));
        let declared = types(Some(&[("output_ids", "INT32"), ("sequence_length", "INT32")]));
        assert_eq!((declared.other_type(b"INT32"), declared.other_type(b"INT64")), (None, Some("INT32")));
    }

    #[test]
    fn a_text_model_does_not_answer_samples_of_token_ids() {
        let metadata = ModelMetadata {
            is_decoupled: Some(true),
            inputs: Some(offer(&[("text_input", "BYTES"), ("max_tokens", "INT32"), ("stream", "BOOL")])),
            outputs: Some(offer(&[("text_output", "BYTES")])),
            ..ModelMetadata::default()
        };
        let external = BenchSpec { scenario: LoadPattern::External(CallSource::AtTimes), ..spec(Request::default()) };
        let faults = InferRequestTemplate::new(&external, &metadata).unwrap_err().faults;
        assert!(faults[0].starts_with("it takes text, and samples of LoadGen are token ids"), "{faults:?}");
        assert!(InferRequestTemplate::new(&external, &ModelMetadata::default()).is_ok());
    }
}
