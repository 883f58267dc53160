//! The questions before a run: is the server there, is the model ready, does it stream?

use bytes::Bytes;
use prost::Message;

use super::exchange::{Call, ask, code};
use super::link::Link;
use super::{HarnessError, Scenario, Spec, wire};
use crate::triton::proto::inference::{
    ModelConfigRequest, ModelConfigResponse, ModelReadyRequest, ModelReadyResponse, ServerReadyRequest,
    ServerReadyResponse,
};

/// Asks over the link itself: after these calls the server's stream limit has arrived.
/// A server without ModelConfig is taken by scenario: Server streams, Offline does not.
pub(super) async fn greet(link: &Link, spec: &Spec) -> Result<Call, HarnessError> {
    let endpoint = link.authority();
    let absent = |why: String| HarnessError::Connect { endpoint: endpoint.clone(), why };
    let refuse = |why: String| HarnessError::Model { endpoint: endpoint.clone(), model: spec.model.clone(), why };
    link.sender().await.map_err(absent)?;
    match answer::<ServerReadyResponse>(link, spec, "ServerReady", &ServerReadyRequest {}).await {
        Ok(server) if !server.ready => return Err(absent("it is live and not ready".to_owned())),
        Ok(_) | Err((Some(code::UNIMPLEMENTED), _)) => {}
        Err((_, why)) => return Err(absent(why)),
    }
    let ready = ModelReadyRequest { name: spec.model.clone(), ..ModelReadyRequest::default() };
    match answer::<ModelReadyResponse>(link, spec, "ModelReady", &ready).await {
        Ok(model) if !model.ready => return Err(refuse("it is not ready".to_owned())),
        Ok(_) | Err((Some(code::UNIMPLEMENTED), _)) => {}
        Err((_, why)) => return Err(refuse(why)),
    }
    let config = ModelConfigRequest { name: spec.model.clone(), ..ModelConfigRequest::default() };
    match answer::<ModelConfigResponse>(link, spec, "ModelConfig", &config).await {
        Ok(answer) => {
            let policy = answer.config.and_then(|config| config.model_transaction_policy);
            Ok(if policy.is_some_and(|policy| policy.decoupled) { Call::Stream } else { Call::Unary })
        }
        Err((Some(code::UNIMPLEMENTED), _)) => Ok(match spec.scenario {
            Scenario::Server { .. } => Call::Stream,
            Scenario::Offline => Call::Unary,
        }),
        Err((_, why)) => Err(refuse(why)),
    }
}

/// gRPC code, where there is one, and text.
type Refusal = (Option<u32>, String);

async fn answer<A: Message + Default>(
    link: &Link,
    spec: &Spec,
    method: &str,
    question: &impl Message,
) -> Result<A, Refusal> {
    let patience = spec.stall_timeout;
    let bytes: Bytes = tokio::time::timeout(patience, ask(link, method, wire::frame(question)))
        .await
        .map_err(|_| (None, format!("{method} was not answered within {:.1} s", patience.as_secs_f64())))??;
    A::decode(bytes).map_err(|e| (None, format!("the answer to {method} is not understood: {e}")))
}
