//! Answers over gRPC, as Triton writes them and as it should not. Six tokens are requested.

use bytes::Bytes;
use regatta::triton::proto::inference::model_infer_response::InferOutputTensor;
use regatta::triton::proto::inference::{
    InferTensorContents, ModelInferRequest, ModelInferResponse, ModelStreamInferResponse,
};

use super::{By, Form, Truth};
use crate::scripted_server::response;

fn message(response: ModelInferResponse) -> ModelStreamInferResponse {
    ModelStreamInferResponse { infer_response: Some(response), ..Default::default() }
}

fn tokens(request: &ModelInferRequest, count: u32, is_final: bool) -> ModelStreamInferResponse {
    message(response(&request.id, count, is_final))
}

/// So many responses of one token.
fn ones(request: &ModelInferRequest, count: u32) -> Vec<ModelStreamInferResponse> {
    (0..count).map(|_| tokens(request, 1, false)).collect()
}

/// Five tokens, and the last with the flag.
fn good(request: &ModelInferRequest) -> Vec<ModelStreamInferResponse> {
    [ones(request, 5), vec![tokens(request, 1, true)]].concat()
}

/// The good answer, with every response changed.
fn changed(request: &ModelInferRequest, change: fn(&mut ModelInferResponse)) -> Vec<ModelStreamInferResponse> {
    let mut messages = good(request);
    messages.iter_mut().filter_map(|message| message.infer_response.as_mut()).for_each(change);
    messages
}

fn output(response: &mut ModelInferResponse) -> &mut InferOutputTensor {
    &mut response.outputs[0]
}

fn length(response: &mut ModelInferResponse, length: i32) {
    response.raw_output_contents[1] = length.to_le_bytes().to_vec().into();
}

/// A token and three end tokens behind it, which are beyond `sequence_length`.
fn padded(response: &mut ModelInferResponse) {
    output(response).shape = vec![1, 1, 4];
    response.raw_output_contents[0] =
        [70_i32, 2, 2, 2].iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>().into();
}

/// Only the first request is answered otherwise; what comes after its end is read before the second one's answer.
fn is_first(request: &ModelInferRequest) -> bool {
    request.id == "0"
}

type Messages = fn(&ModelInferRequest) -> Vec<ModelStreamInferResponse>;

const SIX: Truth = Truth { ok: 1, tokens: 6, first: 1, chunks: 6 };
const FAILED: Truth = Truth { ok: 0, tokens: 0, first: 0, chunks: 0 };

pub fn forms() -> Vec<Form> {
    let alone = |name, truth, messages: Messages| Form { name, truth, by: By::Grpc { is_shared: false, messages } };
    let shared = |name, truth, messages: Messages| Form { name, truth, by: By::Grpc { is_shared: true, messages } };
    vec![
        alone("grpc: final flag on the last token", SIX, good),
        alone("grpc: empty final response", SIX, |request| [ones(request, 6), vec![tokens(request, 0, true)]].concat()),
        alone("grpc: 3 tokens a response", Truth { ok: 1, tokens: 6, first: 3, chunks: 2 }, |request| {
            vec![tokens(request, 3, false), tokens(request, 3, true)]
        }),
        alone("grpc: no final response", SIX, |request| ones(request, 6)),
        alone("grpc: two final responses", SIX, |request| [good(request), vec![tokens(request, 0, true)]].concat()),
        alone("grpc: 50 tokens after the final response", SIX, |request| [good(request), ones(request, 50)].concat()),
        alone("grpc: another id", SIX, |request| changed(request, |response| "77".clone_into(&mut response.id))),
        alone("grpc: no id", SIX, |request| changed(request, |response| response.id.clear())),
        alone("grpc: another model", SIX, |request| {
            changed(request, |response| "llama".clone_into(&mut response.model_name))
        }),
        alone("grpc: shape of 3 without bytes", FAILED, |request| {
            changed(request, |response| {
                output(response).shape = vec![1, 1, 3];
                response.raw_output_contents = vec![Bytes::new(), Bytes::from_static(&[1, 0, 0, 0])];
            })
        }),
        alone("grpc: shape of 3 with the bytes of one", SIX, |request| {
            changed(request, |response| output(response).shape = vec![1, 1, 3])
        }),
        alone("grpc: INT64", SIX, |request| {
            changed(request, |response| {
                "INT64".clone_into(&mut output(response).datatype);
                response.raw_output_contents[0] = Bytes::from_static(&[10, 0, 0, 0, 0, 0, 0, 0]);
            })
        }),
        alone("grpc: FP32", SIX, |request| {
            changed(request, |response| "FP32".clone_into(&mut output(response).datatype))
        }),
        alone("grpc: negative ids", SIX, |request| {
            changed(request, |response| response.raw_output_contents[0] = Bytes::from_static(&[251, 255, 255, 255]))
        }),
        alone("grpc: contents that are not raw", SIX, |request| {
            changed(request, |response| {
                output(response).contents =
                    Some(InferTensorContents { int_contents: vec![70_000], ..InferTensorContents::default() });
                response.raw_output_contents.clear();
            })
        }),
        alone("grpc: padded to 4 ids", SIX, |request| changed(request, padded)),
        alone("grpc: sequence_length of -5", SIX, |request| changed(request, |response| length(response, -5))),
        alone("grpc: sequence_length of 2^31 - 1", SIX, |request| {
            changed(request, |response| length(response, i32::MAX))
        }),
        alone("grpc: sequence_length of all so far", SIX, |request| {
            let mut messages = good(request);
            for (before, message) in (1..).zip(&mut messages) {
                message.infer_response.iter_mut().for_each(|response| length(response, before));
            }
            messages
        }),
        alone("grpc: final response after 3 tokens", FAILED, |request| {
            [ones(request, 2), vec![tokens(request, 1, true)]].concat()
        }),
        alone("grpc: end token after 3 tokens", Truth { ok: 1, tokens: 3, first: 1, chunks: 3 }, |request| {
            let mut messages = [ones(request, 2), vec![tokens(request, 1, true)]].concat();
            let last = messages[2].infer_response.as_mut().unwrap();
            last.raw_output_contents[0] = Bytes::from_static(&[2, 0, 0, 0]);
            messages
        }),
        alone("grpc: more tokens than requested", Truth { ok: 1, tokens: 9, first: 1, chunks: 9 }, |request| {
            [ones(request, 8), vec![tokens(request, 1, true)]].concat()
        }),
        shared("grpc, shared stream: final flag on the last token", SIX, good),
        shared("grpc, shared stream: 50 tokens after the final response", SIX, |request| {
            [good(request), ones(request, if is_first(request) { 50 } else { 0 })].concat()
        }),
        shared("grpc, shared stream: two final responses", SIX, |request| {
            let again = if is_first(request) { vec![tokens(request, 0, true)] } else { Vec::new() };
            [good(request), again].concat()
        }),
        shared("grpc, shared stream: a response for no request", SIX, |request| {
            let stray = if is_first(request) { vec![message(response("777", 1, false))] } else { Vec::new() };
            [stray, good(request)].concat()
        }),
        shared("grpc, shared stream: another model", SIX, |request| {
            changed(request, |response| "llama".clone_into(&mut response.model_name))
        }),
    ]
}
