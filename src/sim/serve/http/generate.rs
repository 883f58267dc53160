//! Triton's generate extension: keys of a JSON object are inputs of the model, outputs come back as keys.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_stream::{StreamExt as _, once};
use tonic::Status;

use super::super::driver::ResponseSink;
use super::super::loaded_model::LoadedModel;
use super::super::service::{GuardedResponseStream, ServiceInner};
use super::super::tensor::{full_shape, wire_type};
use super::reply::ServedFailure;
use super::request_body::BodyError;
use super::{Answer, event, events, failed, json_reply, refusal_reply};
use triton::proto::inference::model_infer_request::InferInputTensor;
use triton::proto::inference::{ModelInferRequest, ModelInferResponse, ModelStreamInferResponse};
use triton::{Tensor, tensors_of};

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
    for tensor in tensors_of(response).into_iter().flatten() {
        let values = tensor.to_json();
        value.insert(tensor.name, if tensor.data.len() == 1 { values[0].clone() } else { values });
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
        let wrong = || BodyError::Value { input: known.name.clone(), value: value.clone() };
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
