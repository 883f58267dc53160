//! How requests to a model are encoded, over gRPC or HTTP, and how the tokens of its answers are counted. Both are
//! fixed before the run.

use bytes::Bytes;

use super::connection::Connection;
use super::http::{self, HttpRequestTemplate};
use super::kserve::infer_request::InferRequestTemplate;
use super::kserve::{grpc_messages, model_metadata};
use crate::schedule::data::{PreviousAnswers, Prompt};
use crate::spec::transport::Api;
use crate::{BenchSpec, HarnessError, PlannedRequest, RequestSchedule, Transport};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RequestEncoder {
    Kserve(InferRequestTemplate),
    Http(HttpRequestTemplate),
}

/// A message, ready to be sent.
pub(crate) struct EncodedMessage {
    pub frame: Bytes,
    /// Tokens of the prompt, where answers that came before are part of it. All others are as long as planned.
    pub input_len: Option<u32>,
}

impl RequestEncoder {
    /// Queries the server over this connection.
    pub async fn negotiate(link: &Connection, spec: &BenchSpec) -> Result<Self, HarnessError> {
        match (&link.pool, &spec.protocol) {
            (Some(pool), Transport::Http(http)) => Ok(Self::Http(http::handshake(pool, spec, http).await?)),
            _ => Ok(Self::Kserve(model_metadata::handshake(link, spec).await?)),
        }
    }

    /// One message for the requests from `first` on. `previous` has the answers of their session so far.
    pub fn message(
        &self,
        schedule: &RequestSchedule,
        first: u64,
        planned: &[PlannedRequest],
        previous: &PreviousAnswers,
    ) -> Result<EncodedMessage, HarnessError> {
        let prompts = (first..).zip(planned).map(|(index, planned)| self.prompt(schedule, index, planned, previous));
        let prompts = prompts.collect::<Result<Vec<_>, _>>()?;
        let frame = match (self, planned, &prompts[..]) {
            (Self::Kserve(template), ..) => template.message(first, planned, &prompts, Some(first)),
            (Self::Http(template), [planned, ..], [prompt, ..]) => template.request(first, planned, prompt),
            (Self::Http(_), ..) => Bytes::new(),
        };
        let input_len = match (planned, &prompts[..]) {
            // To tokenize a whole conversation takes milliseconds, in which other answers would be stamped late.
            ([planned], [prompt]) if planned.needs_answers() && (self.takes_ids() || !schedule.has_tokenizer()) => {
                Some(schedule.length_of(prompt))
            }
            _ => None,
        };
        Ok(EncodedMessage { frame, input_len })
    }

    fn prompt(
        &self,
        schedule: &RequestSchedule,
        index: u64,
        planned: &PlannedRequest,
        previous: &PreviousAnswers,
    ) -> Result<Prompt, HarnessError> {
        Ok(if self.takes_ids() {
            Prompt::Ids(schedule.ids(index, planned, previous)?)
        } else if self.is_chat() {
            Prompt::Chat(schedule.chat(index, planned, previous)?)
        } else {
            Prompt::Text(schedule.text(index, planned, previous)?)
        })
    }

    /// The message for one request, without its id: [`Self::addressed`] adds that.
    pub fn unaddressed(
        &self,
        schedule: &RequestSchedule,
        index: u64,
        planned: &PlannedRequest,
    ) -> Result<Bytes, HarnessError> {
        let prompt = self.prompt(schedule, index, planned, &PreviousAnswers::default())?;
        Ok(match self {
            Self::Kserve(template) => template.message(index, std::slice::from_ref(planned), &[prompt], None),
            Self::Http(template) => template.unaddressed(index, planned, &prompt),
        })
    }

    /// Like `unaddressed`, with its id.
    pub fn addressed(&self, unaddressed: &Bytes, id: u64) -> Bytes {
        match self {
            Self::Kserve(_) => grpc_messages::addressed(unaddressed, id),
            Self::Http(_) => http::addressed(unaddressed, id),
        }
    }

    /// Whether prompts are token ids; else they are text.
    fn takes_ids(&self) -> bool {
        match self {
            Self::Kserve(template) => template.takes_ids(),
            Self::Http(template) => template.prompt_ids,
        }
    }

    const fn is_chat(&self) -> bool {
        matches!(self, Self::Http(template) if matches!(template.api, Api::OpenaiChat))
    }

    pub fn call(&self) -> CallKind {
        match self {
            Self::Kserve(template) => template.call,
            Self::Http(template) if template.streams => CallKind::Stream,
            Self::Http(_) => CallKind::Unary,
        }
    }

    pub fn count(&self) -> TokenCounting {
        match self {
            Self::Kserve(template) => template.count,
            Self::Http(template) => template.count(),
        }
    }
}

// How a model is called, and how the tokens of its answers are counted: fixed before the run.

/// How a model is called: decoupled ones by stream, the others by a single call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    Stream,
    Unary,
}

impl CallKind {
    pub const fn method(self) -> &'static str {
        match self {
            Self::Stream => "ModelStreamInfer",
            Self::Unary => "ModelInfer",
        }
    }
}

/// How output tokens are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenCounting {
    /// Elements of `output_ids` over the beams, of all sequences; the prompt in front is not counted.
    Ids { beams: u32, sequences: u32, has_prompt: bool },
    /// One response is one token.
    Responses { sequences: u32 },
    /// The answer is one text: as many tokens as were requested.
    Requested,
    /// `usage.completion_tokens`; chunks where the server sends none.
    Usage,
}

impl TokenCounting {
    /// In readable form.
    pub fn source(self) -> String {
        match self {
            Self::Ids { sequences: n @ 2.., .. } => format!("output_ids, of all {n} sequences of a request"),
            Self::Responses { sequences: n @ 2.. } => {
                format!("responses, each counted as one token, of all {n} sequences of a request")
            }
            Self::Ids { beams: 0 | 1, .. } => "output_ids".to_owned(),
            Self::Ids { beams, .. } => format!("output_ids of the longest of {beams} beams"),
            Self::Responses { .. } => "responses, each counted as one token".to_owned(),
            Self::Usage => "usage.completion_tokens".to_owned(),
            Self::Requested => "requested max_tokens, since the answer is one text".to_owned(),
        }
    }

    /// Whether an answer without another count is counted by its text.
    pub fn is_of_text(self) -> bool {
        matches!(self, Self::Responses { .. } | Self::Requested | Self::Usage)
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use triton::proto::inference::ModelInferRequest;

    use super::*;

    #[test]
    fn an_id_behind_the_message_is_the_message_with_the_id() {
        let message = ModelInferRequest { model_name: "m".to_owned(), ..ModelInferRequest::default() };
        for id in [0, 7, 4_294_967_296] {
            let framed = grpc_messages::addressed(&grpc_messages::frame(&message), id);
            let length = u32::from_be_bytes([framed[1], framed[2], framed[3], framed[4]]) as usize;
            assert_eq!((framed[0], length), (0, framed.len() - 5));
            let read = ModelInferRequest::decode(&framed[5..]).unwrap();
            assert_eq!(read, ModelInferRequest { id: id.to_string(), ..message.clone() });
        }
    }
}
