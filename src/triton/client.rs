//! A KServe v2 client for the questions that are asked once: is it live, is it ready, what does it serve, one answer.
//!
//! Never used for load: the harness has its own path, with its own connections and stamps.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tonic::transport::{Channel, Endpoint as Address};
use tonic::{Code, Status};

use super::proto::inference::grpc_inference_service_client::GrpcInferenceServiceClient;
use super::proto::inference::{
    ModelConfig, ModelConfigRequest, ModelInferRequest, ModelInferResponse, ModelMetadataRequest,
    ModelMetadataResponse, ModelReadyRequest, RepositoryIndexRequest, ServerLiveRequest, ServerMetadataRequest,
    ServerMetadataResponse, ServerReadyRequest,
};
use crate::event::Endpoint;

/// How often a server that is not ready is asked again.
const PAUSE: Duration = Duration::from_millis(50);
/// No single question may take longer while waiting for readiness: a server that accepts and never answers is not ready.
const PATIENCE: Duration = Duration::from_secs(5);
/// Triton's own limit for one message.
const MESSAGE_LIMIT: usize = i32::MAX as usize;

/// Why a server did not answer as asked.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("`{address}` is not an address")]
    Address { address: String },
    #[error("cannot reach {address}: {message}")]
    Connect { address: String, message: String },
    #[error("the server refused: {} ({:?})", .0.message(), .0.code())]
    Refused(Box<Status>),
    #[error("the answer has no model config")]
    Empty,
}

/// Why waiting for a server ended without a ready one.
#[derive(Debug, thiserror::Error)]
pub enum AwaitError {
    #[error("{endpoint} was not ready after {:.1} s: {last}", after.as_secs_f64())]
    Timeout { endpoint: Endpoint, after: Duration, last: String },
    #[error("asked to stop while waiting for {endpoint}")]
    Stopped { endpoint: Endpoint },
    #[error(transparent)]
    Address(#[from] ClientError),
}

impl From<Status> for ClientError {
    fn from(status: Status) -> Self {
        Self::Refused(Box::new(status))
    }
}

/// One connection to one server.
#[derive(Clone, Debug)]
pub struct TritonClient {
    service: GrpcInferenceServiceClient<Channel>,
}

impl TritonClient {
    /// Connects now.
    pub async fn connect(endpoint: &Endpoint) -> Result<Self, ClientError> {
        let channel = address(endpoint)?.connect().await;
        let channel =
            channel.map_err(|error| ClientError::Connect { address: endpoint.to_string(), message: chain(&error) })?;
        Ok(Self::over(channel))
    }

    fn over(channel: Channel) -> Self {
        let service = GrpcInferenceServiceClient::new(channel)
            .max_decoding_message_size(MESSAGE_LIMIT)
            .max_encoding_message_size(MESSAGE_LIMIT);
        Self { service }
    }

    pub async fn is_live(&mut self) -> Result<bool, ClientError> {
        Ok(self.service.server_live(ServerLiveRequest {}).await?.into_inner().live)
    }

    pub async fn is_ready(&mut self) -> Result<bool, ClientError> {
        Ok(self.service.server_ready(ServerReadyRequest {}).await?.into_inner().ready)
    }

    /// An unknown model is not ready; it is no error.
    pub async fn is_model_ready(&mut self, name: &str) -> Result<bool, ClientError> {
        let request = ModelReadyRequest { name: name.to_owned(), version: String::new() };
        Ok(self.service.model_ready(request).await?.into_inner().ready)
    }

    pub async fn server_metadata(&mut self) -> Result<ServerMetadataResponse, ClientError> {
        Ok(self.service.server_metadata(ServerMetadataRequest {}).await?.into_inner())
    }

    pub async fn model_metadata(&mut self, name: &str) -> Result<ModelMetadataResponse, ClientError> {
        let request = ModelMetadataRequest { name: name.to_owned(), version: String::new() };
        Ok(self.service.model_metadata(request).await?.into_inner())
    }

    pub async fn model_config(&mut self, name: &str) -> Result<ModelConfig, ClientError> {
        let request = ModelConfigRequest { name: name.to_owned(), version: String::new() };
        self.service.model_config(request).await?.into_inner().config.ok_or(ClientError::Empty)
    }

    /// One request, one answer. Decoupled models refuse with `Unimplemented`.
    pub async fn infer(&mut self, request: ModelInferRequest) -> Result<ModelInferResponse, ClientError> {
        Ok(self.service.model_infer(request).await?.into_inner())
    }

    /// Names and states of the models in the server's repository: `(name, state, reason)`.
    pub async fn repository_index(&mut self) -> Result<Vec<(String, String, String)>, ClientError> {
        let answer = self.service.repository_index(RepositoryIndexRequest::default()).await?.into_inner();
        Ok(answer.models.into_iter().map(|model| (model.name, model.state, model.reason)).collect())
    }
}

/// Waits until a server says that it is ready. `progress` hears, at each attempt, how long it has been and what the
/// server said last; `stop` ends the waiting when it resolves.
///
/// Ready is no health: a server may say so with a dead backend behind it.
pub async fn await_ready(
    endpoint: &Endpoint,
    limit: Duration,
    mut progress: impl FnMut(Duration, &str),
    stop: impl Future<Output = ()>,
) -> Result<(), AwaitError> {
    let begun = Instant::now();
    let address = address(endpoint)?.connect_timeout(PATIENCE).timeout(PATIENCE);
    let mut last = "not asked yet".to_owned();
    let waiting = async {
        loop {
            match ask(&address).await {
                Ok(()) => return,
                Err(said) => last = said,
            }
            progress(begun.elapsed(), &last);
            sleep(PAUSE).await;
        }
    };
    tokio::select! {
        biased;
        () = stop => Err(AwaitError::Stopped { endpoint: endpoint.clone() }),
        done = timeout(limit, waiting) => match done {
            Ok(()) => Ok(()),
            Err(_) => Err(AwaitError::Timeout { endpoint: endpoint.clone(), after: begun.elapsed(), last }),
        },
    }
}

/// A new connection each time: a server that is still loading often closes the first ones.
async fn ask(address: &Address) -> Result<(), String> {
    let channel = address.connect().await.map_err(|error| chain(&error))?;
    let mut client = TritonClient::over(channel);
    match client.is_ready().await {
        Ok(true) => Ok(()),
        Ok(false) => Err("the server is up and not ready".to_owned()),
        Err(ClientError::Refused(status)) if status.code() == Code::Unimplemented => {
            Err("something answers there that is not a Triton server".to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
}

fn address(endpoint: &Endpoint) -> Result<Address, ClientError> {
    let host = if endpoint.host.contains(':') && !endpoint.host.starts_with('[') {
        format!("[{}]", endpoint.host)
    } else {
        endpoint.host.clone()
    };
    Address::from_shared(format!("http://{host}:{}", endpoint.grpc))
        .map(|address| address.tcp_nodelay(true))
        .map_err(|_| ClientError::Address { address: endpoint.to_string() })
}

/// An error with what caused it: tonic's own words are only "transport error".
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
