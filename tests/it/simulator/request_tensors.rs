//! What a request may ask the simulated engine for, tensor by tensor.

use pretty_assertions::assert_eq;
use regatta::sim::{SimOptions, token};
use regatta::triton::proto::inference::*;
use serde_json::json;

use super::ground::{Files, Running, is_final, output_ids, raw, request, stream, tensor};

/// With one tensor more.
fn with(mut request: ModelInferRequest, name: &str, datatype: &str, shape: &[i64], bytes: &[u8]) -> ModelInferRequest {
    request.inputs.push(tensor(name, datatype, shape));
    request.raw_input_contents.push(bytes.to_vec().into());
    request
}

fn number(response: &ModelInferResponse, name: &str) -> i32 {
    let at = response.outputs.iter().position(|output| output.name == name).unwrap();
    i32::from_le_bytes(response.raw_output_contents[at][..4].try_into().unwrap())
}

/// The tokens of all responses to this id, in order.
fn tokens_of(answers: &[ModelStreamInferResponse], id: &str) -> Vec<i32> {
    let own = answers.iter().filter_map(|answer| answer.infer_response.as_ref()).filter(|r| r.id == id);
    own.filter(|response| !response.outputs.is_empty()).flat_map(output_ids).collect()
}

fn spoken(id: &str, count: u64) -> Vec<i32> {
    (0..count).map(|index| token(id, index, 128_256, None)).collect()
}

#[tokio::test]
async fn bad_words_are_not_said_and_stop_words_are_the_last() {
    let files = Files::new(true, &json!({}));
    let server = Running::start(files.options());
    let free = spoken("a", 10);
    let list = |words: &[i32]| raw(words).to_vec();
    let bad = with(request("a", 5, 10, true), "bad_words_list", "INT32", &[1, 2, 1], &list(&[free[4], 1]));
    let tokens = tokens_of(&stream(&mut server.client().await, vec![bad]).await, "a");
    assert_eq!((tokens.len(), &tokens[..4]), (10, &free[..4]));
    assert!(!tokens.contains(&free[4]));
    let stop =
        with(request("a", 5, 10, true), "stop_words_list", "INT32", &[1, 2, 2], &list(&[free[4], free[5], 2, -1]));
    let answers = stream(&mut server.client().await, vec![stop]).await;
    assert_eq!(tokens_of(&answers, "a"), free[..6]);
    assert_eq!(is_final(answers[5].infer_response.as_ref().unwrap()), Some(true));
}

#[tokio::test]
async fn a_seed_makes_two_drawn_answers_alike() {
    let files = Files::new(true, &json!({}));
    let server = Running::start(files.options());
    let drawn = |id: &str, seed: u64| {
        let request = with(request(id, 5, 8, true), "runtime_top_k", "INT32", &[1, 1], &40_i32.to_le_bytes());
        with(request, "random_seed", "UINT64", &[1, 1], &seed.to_le_bytes())
    };
    // Greedy: the likeliest token is the same whatever the seed.
    let greedy = with(request("d", 5, 8, true), "random_seed", "UINT64", &[1, 1], &5_u64.to_le_bytes());
    let requests = vec![drawn("a", 5), drawn("b", 5), drawn("c", 6), greedy];
    let answers = stream(&mut server.client().await, requests).await;
    let of = |id| tokens_of(&answers, id);
    assert_eq!(of("a"), of("b"));
    assert_ne!(of("a"), of("c"));
    assert_eq!(of("d"), spoken("d", 8));
}

#[tokio::test]
async fn rows_and_sequences_say_which_they_are_and_the_last_of_them_all_is_final() {
    let files = Files::new(true, &json!({}));
    let server = Running::start(files.options());
    let batch = ModelInferRequest {
        inputs: vec![
            tensor("input_ids", "INT32", &[2, 3]),
            tensor("input_lengths", "INT32", &[2, 1]),
            tensor("request_output_len", "INT32", &[2, 1]),
            tensor("streaming", "BOOL", &[2, 1]),
            tensor("num_return_sequences", "INT32", &[2, 1]),
        ],
        // Behind the length is padding, which may be anything.
        raw_input_contents: vec![
            raw(&[5, 6, 7, 8, -1, -1]),
            raw(&[3, 1]),
            raw(&[4, 2]),
            vec![1, 1].into(),
            raw(&[2, 1]),
        ],
        ..request("b", 1, 1, true)
    };
    let answers = stream(&mut server.client().await, vec![batch]).await;
    let responses: Vec<&ModelInferResponse> = answers.iter().filter_map(|a| a.infer_response.as_ref()).collect();
    let count = |row, sequence| {
        let is_it =
            |r: &&&ModelInferResponse| (number(r, "batch_index"), number(r, "sequence_index")) == (row, sequence);
        responses.iter().filter(is_it).count()
    };
    assert_eq!((count(0, 0), count(0, 1), count(1, 0), responses.len()), (4, 4, 2, 10));
    let finals: Vec<bool> = responses.iter().map(|response| is_final(response).unwrap()).collect();
    assert_eq!(finals.iter().position(|flag| *flag), Some(9));
}

#[tokio::test]
async fn a_stop_request_ends_the_request_of_its_id_and_no_other() {
    let files = Files::new(true, &json!({"max_batch_size": 1}));
    // One place: `a` has it for many seconds at this speed, `b` waits behind it.
    let server = Running::start(SimOptions { speed: 1.0, ..files.options() });
    let (to_server, outgoing) = tokio::sync::mpsc::unbounded_channel();
    let outgoing = tokio_stream::wrappers::UnboundedReceiverStream::new(outgoing);
    to_server.send(request("a", 100, 1900, true)).unwrap();
    to_server.send(request("b", 5, 2, true)).unwrap();
    let mut answers = server.client().await.model_stream_infer(outgoing).await.unwrap().into_inner();
    assert_eq!(answers.message().await.unwrap().unwrap().infer_response.unwrap().id, "a");
    to_server.send(with(request("a", 1, 1, true), "stop", "BOOL", &[1, 1], &[1])).unwrap();
    drop(to_server);
    let mut rest = Vec::new();
    while let Some(answer) = answers.message().await.unwrap() {
        rest.push(answer);
    }
    assert!(rest.iter().all(|answer| answer.error_message.is_empty()));
    assert!(tokens_of(&rest, "a").len() < 1899);
    assert_eq!(tokens_of(&rest, "b"), spoken("b", 2));
}

#[tokio::test]
async fn what_the_engine_cannot_do_is_refused_in_the_backends_words() {
    let files = Files::new(false, &json!({}));
    let server = Running::start(files.options());
    let good = || request("1", 5, 5, false);
    let float = |name: &str, value: f32| with(good(), name, "FP32", &[1, 1], &value.to_le_bytes());
    let int = |name: &str, value: i32| with(good(), name, "INT32", &[1, 1], &value.to_le_bytes());
    let words = |list: &[i32]| with(good(), "stop_words_list", "INT32", &[1, 2, list.len() as i64 / 2], &raw(list));
    let mut uneven = good();
    uneven.inputs[1].shape = vec![2, 1];
    uneven.raw_input_contents[1] = raw(&[5, 5]);
    let mut batch = good();
    for (input, bytes) in batch.inputs.iter_mut().zip(&mut batch.raw_input_contents) {
        input.shape[0] = 2;
        *bytes = bytes.repeat(2).into();
    }
    let cases = [
        uneven,
        batch,
        int("num_return_sequences", 2),
        int("beam_width", 2),
        int("runtime_top_k", -1),
        float("runtime_top_p", 1.5),
        float("temperature", -0.5),
        float("repetition_penalty", 0.0),
        int("min_length", -1),
        words(&[7, 8, 3, -1]),
        words(&[7, 8, -1, 1]),
        with(good(), "lora_task_id", "UINT64", &[1, 1], &9_u64.to_le_bytes()),
        with(good(), "return_context_logits", "BOOL", &[1, 1], &[1]),
    ];
    let mut errors = Vec::new();
    for case in cases {
        let status = server.client().await.model_infer(case).await.unwrap_err();
        errors.push(format!("{:?}: {}", status.code(), status.message()));
    }
    insta::assert_snapshot!(errors.join("\n"), @r"
    InvalidArgument: [request id: 1] input 'input_lengths' batch size does not match other inputs for 'tensorrt_llm'
    Internal: Batch size > 1 requires the tensorrt_llm backend to be using decoupled transaction policy
    Internal: num_return_sequences > 1 requires the tensorrt_llm backend to be using decoupled transaction policy
    Internal: Requested beam width 2 exceeds the engine's max_beam_width 1
    Internal: [TensorRT-LLM][ERROR] Assertion failed: topK.value() >= 0
    Internal: [TensorRT-LLM][ERROR] Assertion failed: topP.value() <= 1.f
    Internal: [TensorRT-LLM][ERROR] Assertion failed: temperature.value() >= 0.f
    Internal: [TensorRT-LLM][ERROR] Assertion failed: penalty.value() > 0.f
    Internal: [TensorRT-LLM][ERROR] Assertion failed: minTokens.value() >= 0
    Internal: [TensorRT-LLM][ERROR] Assertion failed: Sparse list must not have out-of-bound offsets: 7 8 3 -1
    Internal: [TensorRT-LLM][ERROR] Assertion failed: Sparse list must not have additional -1s: 7 8 -1 1
    Internal: LoRA task 9 not found in cache. Please send LoRA weights with request
    Internal: Return context logit need to build engine with gather_context_logits
    ");
}
