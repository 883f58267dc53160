//! ModelStreamInfer: many requests on one stream, each with any number of answers, errors among them.

use std::pin::Pin;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Response, Status, Streaming};

use super::error::of_status;
use super::{ClientError, ClientErrorKind, InferenceService};
use crate::proto::inference::infer_parameter::ParameterChoice;
use crate::proto::inference::{ModelInferRequest, ModelInferResponse, ModelStreamInferResponse};

/// One stream. Triton sends its response headers only with the first answer, so the call is not awaited before the
/// first request is queued: it opens while the first answer is awaited. Dropping the stream cancels what it carries.
pub struct InferStream {
    /// `None` once no more requests will come.
    requests: Option<UnboundedSender<ModelInferRequest>>,
    state: State,
    address: String,
    deadline: Duration,
}

type Opening = Pin<Box<dyn Future<Output = Result<Response<Streaming<ModelStreamInferResponse>>, Status>> + Send>>;

enum State {
    Opening(Opening),
    Open(Box<Streaming<ModelStreamInferResponse>>),
    Over,
}

/// One response of a stream. Its id shows which request it answers: ids should differ.
#[derive(Clone, Debug)]
pub struct StreamResponse {
    /// The error of this request; the stream continues.
    pub error: Option<String>,
    pub response: ModelInferResponse,
    /// `triton_final_response`. `None`: the server does not report it. Errors of the server itself have no mark.
    pub is_final: Option<bool>,
    /// When it was read.
    pub at: Instant,
}

impl InferStream {
    pub(super) fn open(mut service: InferenceService, address: String, deadline: Duration) -> Self {
        let (requests, queued) = unbounded_channel();
        let opening = async move { service.model_stream_infer(UnboundedReceiverStream::new(queued)).await };
        Self { requests: Some(requests), state: State::Opening(Box::pin(opening)), address, deadline }
    }

    /// Queues a request; it leaves when [`Self::next`] is awaited.
    pub fn send(&self, request: ModelInferRequest) {
        // A stream that has ended reports it in `next`.
        if let Some(requests) = &self.requests {
            let _ = requests.send(request);
        }
    }

    /// No more requests will come: the stream ends when the last one is answered.
    pub fn close(&mut self) {
        self.requests = None;
    }

    /// The next answer; `None` when the stream has ended. The deadline applies to each answer separately.
    pub async fn next(&mut self) -> Option<Result<StreamResponse, ClientError>> {
        let deadline = self.deadline;
        let step = tokio::time::timeout(deadline, self.step()).await;
        match step.unwrap_or(Err(ClientErrorKind::Timeout(deadline))) {
            Ok(Some(message)) => Some(Ok(StreamResponse::from_message(message))),
            Ok(None) => {
                self.state = State::Over;
                None
            }
            Err(why) => {
                // A late answer may still arrive; a broken stream delivers no more.
                if !matches!(why, ClientErrorKind::Timeout(_)) {
                    self.state = State::Over;
                }
                Some(Err(ClientError::new("ModelStreamInfer", &self.address, why)))
            }
        }
    }

    async fn step(&mut self) -> Result<Option<ModelStreamInferResponse>, ClientErrorKind> {
        if let State::Opening(opening) = &mut self.state {
            let opened = opening.await.map_err(|status| of_status(&status))?;
            self.state = State::Open(Box::new(opened.into_inner()));
        }
        match &mut self.state {
            State::Open(answers) => answers.message().await.map_err(|status| of_status(&status)),
            _ => Ok(None),
        }
    }
}

impl StreamResponse {
    fn from_message(message: ModelStreamInferResponse) -> Self {
        let at = Instant::now();
        let response = message.infer_response.unwrap_or_default();
        let flag = response.parameters.get("triton_final_response").and_then(|flag| flag.parameter_choice.as_ref());
        let is_final = match flag {
            Some(ParameterChoice::BoolParam(flag)) => Some(*flag),
            _ => None,
        };
        let error = (!message.error_message.is_empty()).then_some(message.error_message);
        Self { error, response, is_final, at }
    }

    /// Whether the request is done for certain: marked as final, or failed before it reached the model.
    pub fn ends(&self) -> bool {
        self.is_final == Some(true) || (self.error.is_some() && self.is_final.is_none())
    }
}
