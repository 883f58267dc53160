//! Inference over HTTP: KServe v2's infer call, whose tensors are JSON or bytes behind it (Triton's binary tensor data
//! extension), and Triton's generate extension.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_stream::{StreamExt as _, once};
use tonic::{Code, Status};

use super::{Answer, event, events, full_reply, json_reply, parse};
use crate::serve::driver::ResponseSink;
use crate::serve::inputs::{full_shape, invalid, wire_type};
use crate::serve::load::LoadedModel;
use crate::serve::service::{GuardedResponseStream, ServiceInner};
use triton::proto::inference::infer_parameter::ParameterChoice;
use triton::proto::inference::model_infer_request::{InferInputTensor, InferRequestedOutputTensor};
use triton::proto::inference::{InferParameter, ModelInferRequest, ModelInferResponse, ModelStreamInferResponse};
use triton::{DataType, InferRequest, Tensor, tensors_of};

/// How many bytes of a body are JSON; binary tensors follow.
const JSON_LENGTH: &str = "inference-header-content-length";

#[derive(Deserialize)]
struct Body {
    #[serde(default)]
    id: String,
    #[serde(default)]
    parameters: Map<String, Value>,
    inputs: Vec<Input>,
    #[serde(default)]
    outputs: Vec<Output>,
}

#[derive(Deserialize)]
struct Input {
    name: String,
    shape: Vec<i64>,
    datatype: String,
    #[serde(default)]
    parameters: Map<String, Value>,
    data: Option<Value>,
}

#[derive(Deserialize)]
struct Output {
    name: String,
    #[serde(default)]
    parameters: Map<String, Value>,
}

/// Which outputs to return as bytes.
struct Binary {
    names: Vec<String>,
    /// Outputs that the request does not name.
    others: bool,
}

pub(super) async fn infer(
    inner: &Arc<ServiceInner>,
    name: &str,
    version: &str,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Answer, Status> {
    let (mut request, binary) = read(headers, body)?;
    name.clone_into(&mut request.model_name);
    version.clone_into(&mut request.model_version);
    let response = inner.infer(&request).await.map_err(|status| match status.code() {
        Code::Unimplemented => {
            Status::unimplemented("HTTP end point doesn't support models with decoupled transaction policy")
        }
        _ => status,
    })?;
    written(&response, &binary)
}

fn read(headers: &HeaderMap, body: &Bytes) -> Result<(ModelInferRequest, Binary), Status> {
    let length = match headers.get(JSON_LENGTH) {
        None => body.len(),
        Some(value) => {
            let length = value.to_str().ok().and_then(|text| text.parse().ok()).filter(|length| *length <= body.len());
            let Some(length) = length else {
                let whole = body.len();
                return invalid(format_args!(
                    "header `{JSON_LENGTH}` is {value:?}; it must be a length within the body of {whole} bytes"
                ));
            };
            length
        }
    };
    let parsed: Body = parse(&body[..length])?;
    let mut request = ModelInferRequest { id: parsed.id, ..ModelInferRequest::default() };
    let mut rest = body.slice(length..);
    for input in parsed.inputs {
        let raw = match (input.parameters.get("binary_data_size"), &input.data) {
            (Some(size), _) => {
                let size = size.as_u64().and_then(|size| usize::try_from(size).ok()).filter(|size| *size <= rest.len());
                let Some(size) = size else {
                    let (name, left) = (&input.name, rest.len());
                    return invalid(format_args!(
                        "`binary_data_size` of input '{name}' is more than the {left} bytes left"
                    ));
                };
                rest.split_to(size)
            }
            (None, Some(data)) => elements(&input, data)?,
            (None, None) => {
                return invalid(format_args!("must specify 'data' field in input tensor '{}'", input.name));
            }
        };
        request.raw_input_contents.push(raw);
        request.inputs.push(InferInputTensor {
            name: input.name,
            datatype: input.datatype,
            shape: input.shape,
            ..InferInputTensor::default()
        });
    }
    if !rest.is_empty() {
        return invalid(format_args!("unexpected additional input data: {} bytes belong to no input", rest.len()));
    }
    let is_on = |parameters: &Map<String, Value>, key: &str| parameters.get(key) == Some(&Value::Bool(true));
    let binary = Binary {
        names: parsed
            .outputs
            .iter()
            .filter(|output| is_on(&output.parameters, "binary_data"))
            .map(|output| output.name.clone())
            .collect(),
        others: parsed.outputs.is_empty() && is_on(&parsed.parameters, "binary_data_output"),
    };
    request.outputs = parsed
        .outputs
        .into_iter()
        .map(|output| InferRequestedOutputTensor { name: output.name, ..InferRequestedOutputTensor::default() })
        .collect();
    request.parameters =
        parsed.parameters.iter().filter_map(|(key, value)| Some((key.clone(), parameter(value)?))).collect();
    Ok((request, binary))
}

/// Values of a JSON tensor, nested by its shape or flat, as bytes.
fn elements(input: &Input, data: &Value) -> Result<Bytes, Status> {
    let (name, datatype) = (&input.name, &input.datatype);
    let Some(datatype) = DataType::parse(datatype) else {
        return invalid(format_args!("invalid datatype '{datatype}' for input '{name}'"));
    };
    if matches!(datatype, DataType::Fp16 | DataType::Bf16) {
        return invalid(format_args!(
            "receiving {datatype} data via JSON is not supported. Please use the binary data format for input '{name}'"
        ));
    }
    let tensor = Tensor::from_json(name, datatype, data)
        .and_then(|given| Tensor::new(given.name, input.shape.clone(), given.data))
        .map_err(|error| Status::invalid_argument(error.to_string()))?;
    Ok(InferRequest::new("", "").input(tensor).build().raw_input_contents.remove(0))
}

fn parameter(value: &Value) -> Option<InferParameter> {
    let choice = match value {
        Value::Bool(it) => ParameterChoice::BoolParam(*it),
        Value::Number(it) if it.is_i64() => ParameterChoice::Int64Param(it.as_i64()?),
        Value::Number(it) => ParameterChoice::DoubleParam(it.as_f64()?),
        Value::String(it) => ParameterChoice::StringParam(it.clone()),
        _ => return None,
    };
    Some(InferParameter { parameter_choice: Some(choice) })
}

fn written(response: &ModelInferResponse, binary: &Binary) -> Result<Answer, Status> {
    let tensors = tensors_of(response).map_err(|error| Status::internal(error.to_string()))?;
    let mut tail = BytesMut::new();
    let outputs: Vec<Value> = tensors
        .iter()
        .zip(&response.raw_output_contents)
        .map(|(tensor, raw)| {
            let mut output = json!({
                "name": tensor.name,
                "datatype": tensor.data.datatype().name(),
                "shape": tensor.shape,
            });
            if binary.others || binary.names.contains(&tensor.name) {
                tail.extend_from_slice(raw);
                output["parameters"] = json!({ "binary_data_size": raw.len() });
            } else {
                output["data"] = tensor.to_json();
            }
            output
        })
        .collect();
    let mut head = json!({
        "model_name": response.model_name,
        "model_version": response.model_version,
        "outputs": outputs,
    });
    if !response.id.is_empty() {
        head["id"] = response.id.clone().into();
    }
    if !binary.others && binary.names.is_empty() {
        return Ok(json_reply(StatusCode::OK, &head));
    }
    let head = head.to_string();
    let length = HeaderValue::from(head.len());
    let mut answer = full_reply(StatusCode::OK, "application/octet-stream", [head.as_bytes(), &tail].concat());
    answer.headers_mut().insert(JSON_LENGTH, length);
    Ok(answer)
}

// Triton's generate extension: keys of a JSON object are inputs of the model, outputs come back as keys.

type GenerateOutcome = Result<ModelStreamInferResponse, Status>;

pub(super) async fn generate(
    inner: &Arc<ServiceInner>,
    name: &str,
    version: &str,
    body: &Map<String, Value>,
    streams: bool,
) -> Result<Answer, Status> {
    let model = inner.find(name, version)?;
    let accepted = inner.accept(&read_generate(model, body)?, false)?;
    let call = inner.call();
    let (sender, receiver) = mpsc::unbounded_channel();
    let is_ensemble = model.config.platform == "ensemble";
    let outputs_json = move |answer: &GenerateOutcome| outputs_json(is_ensemble, answer);
    if let Some(answer) = inner.submit(accepted, call.owner, || Some(ResponseSink::Stream(sender.clone()))) {
        let _ = sender.send(Ok(answer.empty_final()));
    }
    drop(sender);
    let answers = UnboundedReceiverStream::new(receiver);
    let mut answers = GuardedResponseStream::new(Box::pin(answers), call);
    let first = answers.next().await.ok_or_else(|| Status::unavailable("the server is stopping"))?;
    if streams {
        // The status belongs to the first response: until it is there, nothing is sent.
        let first = outputs_json(&first)?;
        let rest = answers.filter_map(move |answer| match outputs_json(&answer) {
            Ok(Value::Null) => None,
            Ok(value) => Some(event(&value)),
            Err(failure) => Some(event(&json!({"error": failure.message()}))),
        });
        return Ok(events(once(event(&first)).chain(rest)));
    }
    if answers.next().await.is_some() {
        // The real server has sent 200 by then.
        let message = "generate expects model to produce exactly 1 response, use generate stream for model that \
                       generates various number of responses";
        return Ok(json_reply(StatusCode::OK, &json!({"error": message})));
    }
    Ok(json_reply(StatusCode::OK, &outputs_json(&first)?))
}

/// Null is a response without outputs.
fn outputs_json(is_ensemble: bool, answer: &GenerateOutcome) -> Result<Value, Status> {
    match answer {
        Err(status) => Err(Status::internal(status.message())),
        Ok(answer) if !answer.error_message.is_empty() => Err(Status::internal(&answer.error_message)),
        Ok(answer) => Ok(answer.infer_response.as_ref().map_or(Value::Null, |response| outputs(is_ensemble, response))),
    }
}

fn outputs(is_ensemble: bool, response: &ModelInferResponse) -> Value {
    if response.outputs.is_empty() {
        return Value::Null;
    }
    let mut value = Map::new();
    if !response.id.is_empty() {
        value.insert("id".to_owned(), response.id.clone().into());
    }
    value.insert("model_name".to_owned(), response.model_name.clone().into());
    value.insert("model_version".to_owned(), response.model_version.clone().into());
    if is_ensemble {
        // Triton's ensemble scheduler passes on these parameters of its last step's response.
        let unset = [("sequence_end", json!(false)), ("sequence_id", json!(0)), ("sequence_start", json!(false))];
        value.extend(unset.map(|(name, value)| (name.to_owned(), value)));
    }
    for tensor in tensors_of(response).into_iter().flatten() {
        let values = tensor.to_json();
        value.insert(tensor.name, if tensor.data.len() == 1 { values[0].clone() } else { values });
    }
    Value::Object(value)
}

/// Keys that are not inputs are parameters, which are ignored here.
fn read_generate(model: &LoadedModel, body: &Map<String, Value>) -> Result<ModelInferRequest, Status> {
    let mut request = ModelInferRequest { model_name: model.name.clone(), ..ModelInferRequest::default() };
    if let Some(id) = body.get("id").and_then(Value::as_str) {
        id.clone_into(&mut request.id);
    }
    for known in &model.config.input {
        let Some(value) = body.get(&known.name) else { continue };
        let wrong =
            || Status::invalid_argument(format!("unable to parse '{}': {value} does not fit its type", known.name));
        let datatype = wire_type(known.data_type()).ok_or_else(wrong)?;
        let data = Tensor::from_json(&known.name, datatype, value).map_err(|_| wrong())?.data;
        let shape = full_shape(model.config.max_batch_size, &[data.len() as i64]);
        request.inputs.push(InferInputTensor {
            name: known.name.clone(),
            datatype: datatype.name().to_owned(),
            shape: shape.into_iter().map(|dim| if dim < 0 { 1 } else { dim }).collect(),
            ..InferInputTensor::default()
        });
        request.raw_input_contents.push(data.raw());
    }
    Ok(request)
}
