//! KServe v2's infer call: tensors as JSON, or as bytes behind it (Triton's binary tensor data extension).

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tonic::Code;

use super::super::service::ServiceInner;
use super::request_body::BodyError;
use super::{Answer, failed, full_reply, json_reply, status_of};
use triton::proto::inference::infer_parameter::ParameterChoice;
use triton::proto::inference::model_infer_request::{InferInputTensor, InferRequestedOutputTensor};
use triton::proto::inference::{InferParameter, ModelInferRequest, ModelInferResponse};
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

pub(super) async fn perform(
    inner: &Arc<ServiceInner>,
    name: &str,
    version: &str,
    headers: &HeaderMap,
    body: &Bytes,
) -> Answer {
    let (mut request, binary) = match read(headers, body) {
        Ok(read) => read,
        Err(error) => return failed(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    name.clone_into(&mut request.model_name);
    version.clone_into(&mut request.model_version);
    match inner.infer(&request).await {
        Ok(response) => written(&response, &binary),
        Err(status) if status.code() == Code::Unimplemented => {
            let message = "HTTP end point doesn't support models with decoupled transaction policy";
            failed(status_of(status.code()), message)
        }
        Err(status) => failed(status_of(status.code()), status.message()),
    }
}

fn read(headers: &HeaderMap, body: &Bytes) -> Result<(ModelInferRequest, Binary), BodyError> {
    let length = match headers.get(JSON_LENGTH) {
        None => body.len(),
        Some(value) => {
            let length = value.to_str().ok().and_then(|text| text.parse().ok()).filter(|length| *length <= body.len());
            let wrong = || BodyError::JsonLength { header: JSON_LENGTH, value: value.clone(), body: body.len() };
            length.ok_or_else(wrong)?
        }
    };
    let parsed: Body = serde_json::from_slice(&body[..length]).map_err(BodyError::Json)?;
    let mut request = ModelInferRequest { id: parsed.id, ..ModelInferRequest::default() };
    let mut rest = body.slice(length..);
    for input in parsed.inputs {
        let raw = match (input.parameters.get("binary_data_size"), &input.data) {
            (Some(size), _) => {
                let size = size.as_u64().and_then(|size| usize::try_from(size).ok()).filter(|size| *size <= rest.len());
                match size {
                    Some(size) => rest.split_to(size),
                    None => return Err(BodyError::BinarySize { input: input.name, left: rest.len() }),
                }
            }
            (None, Some(data)) => elements(&input, data)?,
            (None, None) => return Err(BodyError::NoData { input: input.name }),
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
        return Err(BodyError::AdditionalData { bytes: rest.len() });
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
fn elements(input: &Input, data: &Value) -> Result<Bytes, BodyError> {
    let Some(datatype) = DataType::parse(&input.datatype) else {
        return Err(BodyError::Datatype { input: input.name.clone(), datatype: input.datatype.clone() });
    };
    if matches!(datatype, DataType::Fp16 | DataType::Bf16) {
        return Err(BodyError::NoJsonForm { input: input.name.clone(), datatype });
    }
    let given = Tensor::from_json(&input.name, datatype, data)?;
    let tensor = Tensor::new(given.name, input.shape.clone(), given.data)?;
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

fn written(response: &ModelInferResponse, binary: &Binary) -> Answer {
    let tensors = match tensors_of(response) {
        Ok(tensors) => tensors,
        Err(error) => return failed(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    };
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
        return json_reply(StatusCode::OK, &head);
    }
    let head = head.to_string();
    let length = HeaderValue::from(head.len());
    let mut answer = full_reply(StatusCode::OK, "application/octet-stream", [head.as_bytes(), &tail].concat());
    answer.headers_mut().insert(JSON_LENGTH, length);
    answer
}
