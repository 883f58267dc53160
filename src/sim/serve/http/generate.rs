//! Triton's generate extension: keys of a JSON object are inputs of the model, outputs come back as keys.

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use http::StatusCode;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_stream::{StreamExt as _, once};
use tonic::Status;

use super::super::driver::ResponseSink;
use super::super::loaded_model::LoadedModel;
use super::super::service::{GuardedResponseStream, ServiceInner};
use super::super::tensor::full_shape;
use super::reply::ServedFailure;
use super::request_body::BodyError;
use super::{Answer, event, events, failed, json_reply, refusal_reply};
use triton::proto::inference::model_infer_request::InferInputTensor;
use triton::proto::inference::{DataType, ModelInferRequest, ModelInferResponse, ModelStreamInferResponse};

type GenerateOutcome = Result<ModelStreamInferResponse, Status>;

pub(super) async fn perform(
    inner: &Arc<ServiceInner>,
    name: &str,
    version: &str,
    body: &Map<String, Value>,
    streams: bool,
) -> Answer {
    let model = match inner.find(name, version) {
        Ok(model) => model,
        Err(refusal) => return refusal_reply(&refusal),
    };
    let request = match request(model, body) {
        Ok(request) => request,
        Err(error) => return failed(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    let accepted = match inner.accept(&request, false) {
        Ok(accepted) => accepted,
        Err(refusal) => return refusal_reply(&refusal),
    };
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
    if streams {
        // The status belongs to the first response: until it is there, nothing is sent.
        return match answers.next().await {
            None => failed(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping"),
            Some(first) => match outputs_json(&first) {
                Err(failure) => failed(StatusCode::INTERNAL_SERVER_ERROR, &failure.0),
                Ok(value) => {
                    let rest = answers.filter_map(move |answer| match outputs_json(&answer) {
                        Ok(Value::Null) => None,
                        Ok(value) => Some(event(&value)),
                        Err(failure) => Some(event(&json!({"error": failure.0}))),
                    });
                    events(once(event(&value)).chain(rest))
                }
            },
        };
    }
    let first = answers.next().await;
    let second = answers.next().await;
    match (first, second) {
        (None, _) => failed(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping"),
        (Some(first), None) => match outputs_json(&first) {
            Ok(value) => json_reply(StatusCode::OK, &value),
            Err(failure) => failed(StatusCode::INTERNAL_SERVER_ERROR, &failure.0),
        },
        // The real server has sent 200 by then.
        (Some(_), Some(_)) => failed(
            StatusCode::OK,
            "generate expects model to produce exactly 1 response, use generate stream for model that generates various \
             number of responses",
        ),
    }
}

/// Null is a response without outputs.
fn outputs_json(is_ensemble: bool, answer: &GenerateOutcome) -> Result<Value, ServedFailure> {
    match answer {
        Err(status) => Err(ServedFailure(status.message().to_owned())),
        Ok(answer) if !answer.error_message.is_empty() => Err(ServedFailure(answer.error_message.clone())),
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
        for (name, unset) in
            [("sequence_end", json!(false)), ("sequence_id", json!(0)), ("sequence_start", json!(false))]
        {
            value.insert(name.to_owned(), unset);
        }
    }
    for (output, raw) in response.outputs.iter().zip(&response.raw_output_contents) {
        let json = if output.datatype == "BYTES" {
            Value::from(String::from_utf8_lossy(raw.get(4..).unwrap_or_default()))
        } else {
            match raw.as_chunks::<4>().0 {
                [one] => Value::from(i32::from_le_bytes(*one)),
                all => all.iter().map(|word| i32::from_le_bytes(*word)).collect(),
            }
        };
        value.insert(output.name.clone(), json);
    }
    Value::Object(value)
}

/// Keys that are not inputs are parameters, which are ignored here.
fn request(model: &LoadedModel, body: &Map<String, Value>) -> Result<ModelInferRequest, BodyError> {
    let mut request = ModelInferRequest { model_name: model.name.clone(), ..ModelInferRequest::default() };
    if let Some(id) = body.get("id").and_then(Value::as_str) {
        id.clone_into(&mut request.id);
    }
    for known in &model.config.input {
        let Some(value) = body.get(&known.name) else { continue };
        let elements: &[Value] = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        let mut raw = BytesMut::new();
        for element in elements {
            put(known.data_type(), element, &mut raw)
                .ok_or_else(|| BodyError::Value { input: known.name.clone(), value: element.clone() })?;
        }
        let shape = full_shape(model.config.max_batch_size, &[elements.len() as i64]);
        request.inputs.push(InferInputTensor {
            name: known.name.clone(),
            datatype: super::wire_name(known.data_type()).to_owned(),
            shape: shape.into_iter().map(|dim| if dim < 0 { 1 } else { dim }).collect(),
            ..InferInputTensor::default()
        });
        request.raw_input_contents.push(raw.freeze());
    }
    Ok(request)
}

fn put(data_type: DataType, value: &Value, raw: &mut BytesMut) -> Option<()> {
    match data_type {
        DataType::TypeString => {
            let text = Bytes::copy_from_slice(value.as_str()?.as_bytes());
            raw.put_u32_le(u32::try_from(text.len()).ok()?);
            raw.put(text);
        }
        DataType::TypeBool => raw.put_u8(u8::from(value.as_bool()?)),
        DataType::TypeInt32 => raw.put_i32_le(i32::try_from(value.as_i64()?).ok()?),
        DataType::TypeUint32 => raw.put_u32_le(u32::try_from(value.as_u64()?).ok()?),
        DataType::TypeInt64 => raw.put_i64_le(value.as_i64()?),
        DataType::TypeUint64 => raw.put_u64_le(value.as_u64()?),
        DataType::TypeFp32 => raw.put_f32_le(value.as_f64()? as f32),
        DataType::TypeFp64 => raw.put_f64_le(value.as_f64()?),
        _ => return None,
    }
    Some(())
}
