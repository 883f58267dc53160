//! OpenAI's chat and completions in the shape of vLLM and `trtllm-serve`, straight onto the engine.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, StatusCode};
use hyper::body::Incoming;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_stream::{StreamExt as _, iter, once};
use tonic::Status;

use super::super::answer::{ServedAnswer, ServedPrompt};
use super::super::driver::ResponseSink;
use super::super::load::LoadedModel;
use super::super::request::{Accepted, RequestPart, check_lengths};
use super::super::service::{GuardedResponseStream, ServiceInner};
use super::{Answer, bytes, event, events, json_reply, parse, status_of};
use crate::serve::answer::TokenGenerator;
use crate::serve::request::PromptTokens;
use triton::proto::inference::ModelStreamInferResponse;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Chat,
    Completions,
}

pub(super) fn models(inner: &ServiceInner) -> Answer {
    let data: Vec<Value> = inner.models.values().filter_map(|model| card(inner, model)).collect();
    json_reply(StatusCode::OK, &json!({"object": "list", "data": data}))
}

pub(super) fn model(inner: &ServiceInner, name: &str) -> Answer {
    let card = inner.models.get(name).and_then(|model| card(inner, model));
    card.map_or_else(|| error(StatusCode::NOT_FOUND, &does_not_exist(name)), |card| json_reply(StatusCode::OK, &card))
}

/// The model's entry in `/v1/models`, with the speed of simulated time and the basis of the step times, because a
/// gateway may pass on nothing else. `None`: the model has no engine.
fn card(inner: &ServiceInner, model: &LoadedModel) -> Option<Value> {
    let (_, engine) = inner.engine_under(model)?;
    Some(json!({"id": model.name, "object": "model", "created": 0, "owned_by": "regatta-simulator",
        "speed": inner.clock.speed(), "step_times": engine.step_times}))
}

fn does_not_exist(name: &str) -> String {
    format!("The model `{name}` does not exist.")
}

/// How a completion gives token ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IdsMode {
    /// In place of text, as trtllm-serve with `detokenize: false`.
    Alone,
    /// Beside it, as vLLM with `return_token_ids: true`.
    BesideText,
}

pub(super) async fn perform(inner: &Arc<ServiceInner>, kind: Kind, request: Request<Incoming>) -> Answer {
    answer(inner, kind, request).await.unwrap_or_else(|refusal| refuse(&refusal))
}

async fn answer(inner: &Arc<ServiceInner>, kind: Kind, request: Request<Incoming>) -> Result<Answer, Status> {
    let (engine, part, shape) = parse_request(inner, kind, &parse(&bytes(request).await?)?)?;
    let streams = part.answer.is_streaming;
    let call = inner.call();
    let (sender, receiver) = mpsc::unbounded_channel();
    let mut sender = Some(sender);
    let accepted = Accepted::Serve { engine, parts: vec![part] };
    inner.submit(accepted, call.owner, || sender.take().map(ResponseSink::Stream));
    let mut answers = GuardedResponseStream::new(Box::pin(UnboundedReceiverStream::new(receiver)), call);
    let first = answers.next().await.ok_or_else(|| Status::unavailable("the server is stopping"))?;
    let first = text_of(first)?;
    if !streams {
        return Ok(json_reply(StatusCode::OK, &shape.full_reply(&first)));
    }
    let mut count = 0;
    let ending = shape.ending();
    let role = shape.role();
    let texts = once(Ok(first)).chain(answers.map(text_of)).map(move |text| match text {
        Ok(text) => {
            count += 1;
            shape.token(&text, count)
        }
        Err(failure) => event(&error_object(StatusCode::INTERNAL_SERVER_ERROR, failure.message())),
    });
    Ok(events(iter(role).chain(texts).chain(iter(ending))))
}

fn text_of(answer: Result<ModelStreamInferResponse, Status>) -> Result<String, Status> {
    let answer = answer.map_err(|status| Status::internal(status.message()))?;
    if !answer.error_message.is_empty() {
        return Err(Status::internal(answer.error_message));
    }
    let raw = answer.infer_response.and_then(|response| response.raw_output_contents.into_iter().next());
    Ok(String::from_utf8_lossy(raw.as_ref().and_then(|raw| raw.get(4..)).unwrap_or_default()).into_owned())
}

/// The engine, the work that it has, and the form of the answer.
fn parse_request(
    inner: &ServiceInner,
    kind: Kind,
    body: &Map<String, Value>,
) -> Result<(String, RequestPart, ReplyTemplate), Status> {
    let field = |name: &str| body.get(name).filter(|value| !value.is_null());
    let name = field("model").and_then(Value::as_str).unwrap_or_default();
    let model = inner.find(name, "").map_err(|refusal| Status::new(refusal.code(), does_not_exist(name)))?;
    let (engine_name, engine) = inner
        .engine_under(model)
        .ok_or_else(|| Status::invalid_argument(format!("`{name}` does not generate text")))?;
    if field("n").and_then(Value::as_u64).is_some_and(|n| n != 1) {
        return Err(Status::invalid_argument("the simulator makes one choice (`n` is 1)"));
    }
    let isl = prompt_tokens(&inner.prompts, kind, body)?;
    let osl =
        ["max_completion_tokens", "max_tokens"].iter().find_map(|name| field(name)).map_or(Some(16), Value::as_u64);
    let osl = osl.filter(|osl| *osl > 0).ok_or_else(|| Status::invalid_argument("max_tokens must be at least 1"))?;
    check_lengths(isl, osl, engine).map_err(|refusal| Status::invalid_argument(refusal.message()))?;
    let option = |name: &str| field("stream_options").is_some_and(|options| options[name] == Value::Bool(true));
    let number = inner.count_request()?;
    let plain = ServedAnswer::new(model, engine, format!("cmpl-{number}"), ServedPrompt::Text(Vec::new()));
    let answer = ServedAnswer { is_streaming: field("stream") == Some(&Value::Bool(true)), ..plain };
    let shape = ReplyTemplate {
        kind,
        id: answer.id.clone(),
        model: name.to_owned(),
        isl,
        isl_source: inner.prompts.source(),
        osl,
        include_usage: option("include_usage"),
        continuous_usage: option("continuous_usage_stats"),
        ids: match kind {
            Kind::Chat => None,
            Kind::Completions if field("detokenize") == Some(&Value::Bool(false)) => Some(IdsMode::Alone),
            Kind::Completions => (field("return_token_ids") == Some(&Value::Bool(true))).then_some(IdsMode::BesideText),
        },
        speaker: answer.beams.first().cloned(),
    };
    Ok((engine_name.to_owned(), RequestPart { isl, osl, max_tokens: osl, adapter: None, answer }, shape))
}

/// As on the text path of the gRPC interface. A chat's template is not counted.
fn prompt_tokens(prompts: &PromptTokens, kind: Kind, body: &Map<String, Value>) -> Result<u64, Status> {
    let count = |text: &str| prompts.count(text.as_bytes());
    let missing = |what: &str| Status::invalid_argument(format!("`{what}` is missing or has the wrong type"));
    let tokens = match kind {
        Kind::Chat => {
            let messages = body.get("messages").and_then(Value::as_array).ok_or_else(|| missing("messages"))?;
            if messages.is_empty() {
                return Err(Status::invalid_argument("`messages` has no message"));
            }
            let of_content = |content: &Value| match content {
                Value::String(text) => count(text),
                // In parts, as GuideLLM sends it.
                Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).map(count).sum(),
                _ => 0,
            };
            messages.iter().map(|message| of_content(&message["content"])).sum()
        }
        Kind::Completions => match body.get("prompt") {
            Some(Value::String(text)) => count(text),
            Some(Value::Array(ids)) if ids.iter().all(Value::is_u64) => ids.len() as u64,
            _ => return Err(missing("prompt")),
        },
    };
    Ok(tokens.max(1))
}

/// The constant part of every piece of one answer.
#[derive(Clone)]
struct ReplyTemplate {
    kind: Kind,
    id: String,
    model: String,
    isl: u64,
    /// How `isl` was counted.
    isl_source: &'static str,
    osl: u64,
    include_usage: bool,
    continuous_usage: bool,
    ids: Option<IdsMode>,
    speaker: Option<TokenGenerator>,
}

impl ReplyTemplate {
    /// A completion's choice: the tokens that it brings, and their text.
    fn completion(&self, text: &str, tokens: Range<u64>, finish: &Value) -> Value {
        let mut choice = json!({"index": 0, "text": text, "logprobs": null, "finish_reason": finish});
        if let (Some(mode), Some(speaker)) = (self.ids, &self.speaker) {
            choice["token_ids"] = tokens.map(|index| speaker.token(index)).collect();
            if mode == IdsMode::Alone {
                choice["text"] = json!("");
            }
        }
        choice
    }

    fn chunk(&self, choices: &Value, usage: Value) -> Bytes {
        let object = match self.kind {
            Kind::Chat => "chat.completion.chunk",
            Kind::Completions => "text_completion",
        };
        let mut chunk = json!({"id": self.id, "object": object, "created": 0, "model": self.model, "choices": choices});
        if self.include_usage {
            chunk["usage"] = usage;
        }
        event(&chunk)
    }

    fn usage(&self, tokens: u64) -> Value {
        json!({
            "prompt_tokens": self.isl,
            "total_tokens": self.isl + tokens,
            "completion_tokens": tokens,
            "prompt_tokens_source": self.isl_source,
        })
    }

    /// A chat begins with the role.
    fn role(&self) -> Option<Bytes> {
        (self.kind == Kind::Chat).then(|| {
            let delta = json!({"role": "assistant", "content": ""});
            self.chunk(&json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": null}]), Value::Null)
        })
    }

    fn token(&self, text: &str, count: u64) -> Bytes {
        let finish = if count == self.osl { json!("length") } else { Value::Null };
        let choice = match self.kind {
            Kind::Chat => {
                json!({"index": 0, "delta": {"content": text}, "logprobs": null, "finish_reason": finish})
            }
            Kind::Completions => self.completion(text, count - 1..count, &finish),
        };
        let usage = if self.continuous_usage { self.usage(count) } else { Value::Null };
        self.chunk(&json!([choice]), usage)
    }

    fn ending(&self) -> Vec<Bytes> {
        let usage = self.include_usage.then(|| self.chunk(&json!([]), self.usage(self.osl)));
        usage.into_iter().chain([Bytes::from_static(b"data: [DONE]\n\n")]).collect()
    }

    fn full_reply(&self, text: &str) -> Value {
        let (object, choice) = match self.kind {
            Kind::Chat => (
                "chat.completion",
                json!({"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "length"}),
            ),
            Kind::Completions => ("text_completion", self.completion(text, 0..self.osl, &json!("length"))),
        };
        json!({
            "id": self.id,
            "object": object,
            "created": 0,
            "model": self.model,
            "choices": [choice],
            "usage": self.usage(self.osl),
        })
    }
}

fn refuse(refusal: &Status) -> Answer {
    error(status_of(refusal.code()), refusal.message())
}

fn error(status: StatusCode, message: &str) -> Answer {
    json_reply(status, &error_object(status, message))
}

fn error_object(status: StatusCode, message: &str) -> Value {
    let kind = match status {
        StatusCode::NOT_FOUND => "NotFoundError",
        status if status.is_client_error() => "BadRequestError",
        _ => "InternalServerError",
    };
    json!({"error": {"message": message, "type": kind, "param": null, "code": status.as_u16()}})
}
