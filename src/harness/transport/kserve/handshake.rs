//! The requests before a run: is the server there, is the model ready, which inputs and which call does it need?

use bytes::Bytes;
use prost::Message;

use super::grpc_messages;
use super::infer_request::InferRequestTemplate;
use super::model_metadata::{ModelMetadata, OfferedTensors};
use super::rpc::unary_call;
use crate::transport::connection::{Connection, HandshakeError, absent};
use crate::{BenchSpec, HarnessError};
use triton::proto::inference::model_config::SchedulingChoice;
use triton::proto::inference::model_metadata_response::TensorMetadata;
use triton::proto::inference::{
    ModelConfig, ModelConfigRequest, ModelConfigResponse, ModelMetadataRequest, ModelMetadataResponse,
    ModelReadyRequest, ModelReadyResponse, ServerReadyRequest, ServerReadyResponse,
};

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
