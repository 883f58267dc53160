//! The client: every question, against the simulator and against a real server; what goes wrong says what and where.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pretty_assertions::assert_eq;
use regatta::event::Endpoint;
use regatta::sim::{Faults, SimOptions};
use regatta::triton::{
    AwaitError, ClientError, ClientErrorKind, DataType, HttpAddress, HttpClient, InferRequest, InferStream,
    ListeningService, StreamResponse, Tensor, TensorData, TritonClient, await_ready, probe, tensors_of,
};
use serde_json::json;
use tempfile::TempDir;
use tonic::Code;

use crate::ports::free_port;
use crate::simulator::ground::{Files, Running, request};
use crate::tritonserver::RealTriton;
use crate::world::signal_pid;

fn endpoint(server: &Running) -> Endpoint {
    server.address.to_string().parse().unwrap()
}

/// A repository with some of the models in `tests/parts/models`.
pub fn repository(models: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let parts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parts/models");
    for model in models {
        for file in ["config.pbtxt", "1/model.py"] {
            let to = folder.path().join("models").join(model).join(file);
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::copy(parts.join(model).join(file), to).unwrap();
        }
    }
    folder
}

fn models(folder: &TempDir) -> PathBuf {
    folder.path().join("models")
}

/// Triton opens its HTTP port a little after it is ready over gRPC, and its metrics port last.
pub async fn all_up(server: RealTriton) -> RealTriton {
    let (host, port) = (&server.endpoint.host, server.endpoint.metrics.unwrap());
    let up = async {
        while probe(host, port).await != ListeningService::Metrics {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), up).await.expect("its metrics port");
    server
}

fn http(server: &RealTriton) -> HttpClient {
    HttpClient::new(HttpAddress { host: server.endpoint.host.clone(), port: server.endpoint.http.unwrap() })
}

fn number(name: &str, value: i32) -> Tensor {
    Tensor::new(name, [1], TensorData::Int32(vec![value])).unwrap()
}

fn count(model: &str, id: &str, n: i32) -> InferRequest {
    InferRequest::new(model, id).input(number("n", n))
}

async fn next(stream: &mut InferStream) -> StreamResponse {
    stream.next().await.expect("an answer").expect("no failure")
}

/// What a stream still says until it is over.
async fn rest(stream: &mut InferStream) -> Vec<StreamResponse> {
    stream.close();
    let mut answers = Vec::new();
    while let Some(answer) = stream.next().await {
        answers.push(answer.expect("no failure"));
    }
    answers
}

fn numbers(answers: &[StreamResponse]) -> Vec<i32> {
    let of = |answer: &StreamResponse| tensors_of(&answer.response).unwrap();
    let tensors = answers.iter().flat_map(of);
    tensors
        .flat_map(|tensor| match tensor.data {
            TensorData::Int32(values) => values,
            other => panic!("{other:?}"),
        })
        .collect()
}

#[tokio::test]
async fn a_server_is_asked_who_it_is() {
    let files = Files::new(false, &json!({}));
    let server = Running::start(files.options());
    let client = TritonClient::connect(&endpoint(&server)).await.unwrap();
    assert!(client.is_live().await.unwrap() && client.is_ready().await.unwrap() && client.is_serving().await.unwrap());
    assert!(client.is_model_ready("ensemble", "").await.unwrap());
    assert!(!client.is_model_ready("nobody", "").await.unwrap());
    assert_eq!(client.server_metadata().await.unwrap().name, "triton");
    assert_eq!(client.model_metadata("ensemble", "1").await.unwrap().platform, "ensemble");
    assert_eq!(client.model_config("tensorrt_llm", "").await.unwrap().backend, "tensorrtllm");
    assert_eq!(client.repository_index(false).await.unwrap().len(), 5);
    assert_eq!(client.infer(request("1", 5, 5, false)).await.unwrap().id, "1");

    let error = client.model_config("nobody", "").await.unwrap_err();
    let address = server.address;
    let expected =
        format!("ModelConfig of `nobody` at {address}: Request for unknown model: 'nobody' is not found (NotFound)");
    assert_eq!((error.to_string(), error.code()), (expected, Some(Code::NotFound)));
}

#[tokio::test]
async fn a_stream_can_be_asked_before_it_has_answered() {
    // The response headers come with the first response only: whoever waits for them before asking waits for ever.
    let files = Files::new(true, &json!({}));
    let server = Running::start(files.options());
    let client = TritonClient::connect(&endpoint(&server)).await.unwrap();
    let mut stream = client.stream();
    stream.send(request("a", 5, 4, true));
    stream.send(request("b", 5, 2, true));
    let answers = rest(&mut stream).await;
    let of = |id: &str| answers.iter().filter(|answer| answer.response.id == id).collect::<Vec<_>>();
    assert_eq!((of("a").len(), of("b").len()), (4, 2));
    assert!(of("a").last().unwrap().ends() && !of("a")[0].ends());
    assert!(answers.windows(2).all(|pair| pair[0].at <= pair[1].at));
}

#[tokio::test]
async fn a_late_answer_is_not_waited_for() {
    let files = Files::new(true, &json!({}));
    let faults = Faults { stall_after_tokens: Some(2), ..Faults::default() };
    let server = Running::start(SimOptions { faults, ..files.options() });
    let client = TritonClient::connect(&endpoint(&server)).await.unwrap().deadline(Duration::from_secs(3));
    let mut stream = client.stream();
    stream.send(request("a", 5, 9, true));
    let (mut tokens, mut late) = (0, None);
    while late.is_none() {
        match stream.next().await.expect("an answer or a deadline") {
            Ok(_) => tokens += 1,
            Err(error) => late = Some(error),
        }
    }
    let late = late.unwrap();
    assert_eq!(tokens, 2);
    assert!(late.to_string().ends_with("no answer within 3.0 s"), "{late}");
    assert!(late.hint().unwrap().contains("ready while its model process is dead"));
}

#[tokio::test]
async fn waiting_ends_when_the_server_is_ready() {
    let files = Files::new(true, &json!({}));
    let server = Running::start(files.options());
    await_ready(&endpoint(&server), Duration::from_mins(1), |_, _| {}, std::future::pending()).await.unwrap();
}

#[tokio::test]
async fn waiting_ends_in_time_and_says_what_the_server_said_last() {
    let files = Files::new(true, &json!({}));
    let faults = Faults { never_ready: true, ..Faults::default() };
    let server = Running::start(SimOptions { faults, ..files.options() });
    let limit = Duration::from_secs(3);
    let error = await_ready(&endpoint(&server), limit, |_, _| {}, std::future::pending()).await.unwrap_err();
    let AwaitError::Timeout { last, .. } = error else { panic!("{error}") };
    assert_eq!(last.to_string(), "the server is up but not ready");
}

#[tokio::test]
async fn waiting_ends_when_asked_to() {
    let port = free_port();
    let endpoint: Endpoint = format!("127.0.0.1:{port}").parse().unwrap();
    let (sender, stop) = tokio::sync::oneshot::channel::<()>();
    let mut sender = Some(sender);
    let stopped = async {
        let _ = stop.await;
    };
    let progress = |_, message: &str| {
        assert!(message.contains("refused"), "{message}");
        drop(sender.take());
    };
    let error = await_ready(&endpoint, Duration::from_mins(1), progress, stopped).await.unwrap_err();
    assert!(matches!(error, AwaitError::Stopped { .. }), "{error}");
    let error = TritonClient::connect(&endpoint).await.unwrap_err();
    assert!(
        matches!(error.why, ClientErrorKind::Connect { .. })
            && error.hint().unwrap().contains("check that the server runs"),
        "{error}"
    );
}

#[tokio::test]
#[ignore = "needs a real tritonserver"]
async fn a_real_server_answers_every_question() {
    let folder = repository(&["echo", "counter"]);
    let server = RealTriton::ready(&models(&folder), &["--model-control-mode=explicit", "--load-model=*"]).await;
    let client = TritonClient::connect(&server.endpoint).await.unwrap();
    assert!(client.is_live().await.unwrap() && client.is_ready().await.unwrap() && client.is_serving().await.unwrap());
    let about = client.server_metadata().await.unwrap();
    assert!(about.extensions.iter().any(|extension| extension == "statistics"), "{about:?}");
    assert_eq!(client.model_metadata("counter", "1").await.unwrap().inputs[0].datatype, "INT32");
    let config = client.model_config("counter", "").await.unwrap();
    assert!(config.model_transaction_policy.unwrap().decoupled);
    assert_eq!(client.repository_index(true).await.unwrap().len(), 2);

    // Every data type there and back. BF16 has no numpy type, so a Python model cannot have it.
    for datatype in DataType::ALL.iter().copied().filter(|datatype| *datatype != DataType::Bf16) {
        let name = if datatype == DataType::Bytes { "STRING" } else { datatype.name() };
        let values = match datatype {
            DataType::Bool => json!([true, false, true]),
            DataType::Bytes => json!(["", "é", "three"]),
            DataType::Fp16 | DataType::Fp32 | DataType::Fp64 => json!([0.5, -2.0, 1024.0]),
            _ => json!([0, 1, 127]),
        };
        let tensor = Tensor::from_json(name, datatype, &values).unwrap();
        let request = InferRequest::new("echo", name).input(tensor.clone()).output(name).build();
        assert_eq!(tensors_of(&client.infer(request).await.unwrap()).unwrap(), [tensor]);
    }

    // Unloading is heard of at once; loading with another config changes what is in effect.
    client.unload("echo", false).await.unwrap();
    let error = client.model_metadata("echo", "").await.unwrap_err();
    assert!(error.hint().unwrap().contains("unloaded"), "{error}");
    let config = json!({
        "backend": "python", "max_batch_size": 4,
        "input": [{ "name": "INT32", "data_type": "TYPE_INT32", "dims": [-1] }],
        "output": [{ "name": "INT32", "data_type": "TYPE_INT32", "dims": [-1] }],
    });
    client.load("echo", Some(config.to_string())).await.unwrap();
    assert_eq!(client.model_config("echo", "").await.unwrap().max_batch_size, 4);
    let error = client.load("nobody", None).await.unwrap_err();
    assert!(error.server_message().unwrap().contains("failed to poll"), "{error}");
}

#[tokio::test]
#[ignore = "needs a real tritonserver"]
async fn a_real_stream_stays_usable_after_every_error() {
    let folder = repository(&["echo", "counter", "apart"]);
    let server = RealTriton::ready(&models(&folder), &[]).await;
    let client = TritonClient::connect(&server.endpoint).await.unwrap();

    // Decoupled and unary do not go together.
    let error = client.infer(count("counter", "1", 1).build()).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::Unimplemented));
    assert!(error.hint().unwrap().contains("only in a stream"));

    let wrong = |id: &str| -> InferRequest {
        match id {
            "unknown model" => count("nobody", id, 1),
            "unknown input" => count("counter", id, 1).input(number("m", 1)),
            "missing input" => InferRequest::new("counter", id),
            "wrong type" => {
                InferRequest::new("counter", id).input(Tensor::new("n", [1], TensorData::Fp32(vec![1.0])).unwrap())
            }
            "wrong shape" => {
                InferRequest::new("counter", id).input(Tensor::new("n", [2], TensorData::Int32(vec![1, 2])).unwrap())
            }
            "unknown output" => count("counter", id, 1).output("j"),
            "the model's own" => count("counter", id, -1),
            other => panic!("{other}"),
        }
    };
    let mut stream = client.stream();
    let mut errors = BTreeMap::new();
    for id in [
        "unknown model",
        "unknown input",
        "missing input",
        "wrong type",
        "wrong shape",
        "unknown output",
        "the model's own",
    ] {
        stream.send(wrong(id).build());
        let answer = next(&mut stream).await;
        assert!(answer.ends(), "{id}: {answer:?}");
        // Errors of the server itself are not marked as the last word; those of the model are.
        assert_eq!(answer.is_final == Some(true), id == "the model's own", "{id}");
        errors.insert(id, answer.error.expect(id));
        // And the stream goes on.
        stream.send(count("counter", "fine", 2).build());
        let fine = [next(&mut stream).await, next(&mut stream).await];
        assert_eq!((numbers(&fine), fine[1].is_final), (vec![1, 2], Some(true)), "after {id}");
    }
    assert!(errors["unknown model"].contains("'nobody' is not found"), "{errors:?}");
    assert!(errors["wrong type"].contains("'n'") && errors["wrong shape"].contains("'n'"), "{errors:?}");
    assert!(errors["unknown output"].contains("'j'"), "{errors:?}");
    assert_eq!(errors["the model's own"], "cannot count to -1");
    assert_eq!(rest(&mut stream).await.len(), 0);

    // Answers of two requests come mixed, and are told apart by their ids.
    let mut stream = client.stream();
    for id in ["a", "b"] {
        stream.send(count("counter", id, 3).input(number("pause_ms", 20)).build());
    }
    let answers = rest(&mut stream).await;
    for id in ["a", "b"] {
        let own: Vec<StreamResponse> = answers.iter().filter(|answer| answer.response.id == id).cloned().collect();
        assert_eq!(numbers(&own), [1, 2, 3]);
    }

    // Without asking for it, a model that tells its end apart has none that can be seen.
    let mut stream = client.stream();
    stream.send(count("apart", "1", 2).build());
    let unmarked = rest(&mut stream).await;
    assert!(unmarked.len() == 2 && unmarked.iter().all(|answer| answer.is_final != Some(true)));
    let mut stream = client.stream();
    stream.send(count("apart", "1", 2).with_final_response().build());
    let marked = rest(&mut stream).await;
    assert!(marked.len() == 3 && marked[2].is_final == Some(true) && marked[2].response.outputs.is_empty());
}

#[tokio::test]
#[ignore = "needs a real tritonserver"]
async fn a_real_server_with_a_dead_model_says_that_it_is_ready() {
    let folder = repository(&["counter"]);
    let server = RealTriton::ready(&models(&folder), &[]).await;
    let client = TritonClient::connect(&server.endpoint).await.unwrap().deadline(Duration::from_secs(5));
    let mut stream = client.stream();
    stream.send(count("counter", "1", 1000).input(number("pause_ms", 20)).build());
    next(&mut stream).await;
    for stub in server.stubs() {
        signal_pid(stub, "KILL");
    }
    // In flight: nothing more, and no word of it; now and then the server ends the connection.
    let late = loop {
        match stream.next().await.expect("an answer or a deadline") {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(
        matches!(late.why, ClientErrorKind::Timeout(_) | ClientErrorKind::Refused { code: Code::Unknown, .. }),
        "{late}"
    );
    assert!(client.is_live().await.unwrap() && client.is_ready().await.unwrap());
    assert!(client.is_model_ready("counter", "").await.unwrap());
    let mut stream = client.stream();
    stream.send(count("counter", "2", 1).build());
    let error = next(&mut stream).await.error.expect("an error");
    assert!(error.contains("is not healthy"), "{error}");
}

#[tokio::test]
#[ignore = "needs a real tritonserver"]
async fn a_real_server_over_http() {
    let folder = repository(&["echo", "counter"]);
    let server = all_up(RealTriton::ready(&models(&folder), &[]).await).await;
    let mut client = http(&server);
    assert!(client.is_live().await.unwrap() && client.is_ready().await.unwrap());
    assert!(client.is_model_ready("echo", "1").await.unwrap() && !client.is_model_ready("nobody", "").await.unwrap());
    assert_eq!(client.server_metadata().await.unwrap()["name"], "triton");
    assert_eq!(client.model_metadata("echo", "").await.unwrap()["platform"], "python");
    assert_eq!(client.model_config("counter", "").await.unwrap()["model_transaction_policy"]["decoupled"], true);
    assert_eq!(client.repository_index().await.unwrap().as_array().unwrap().len(), 2);
    let body = json!({ "inputs": [{ "name": "INT32", "datatype": "INT32", "shape": [2], "data": [4, 5] }] });
    assert_eq!(client.infer("echo", &body).await.unwrap()["outputs"][0]["data"], json!([4, 5]));
    assert_eq!(client.generate("echo", &json!({ "INT32": [7] })).await.unwrap()["INT32"], 7);

    // The trap: status 200, and an error in the body.
    let error = client.generate("counter", &json!({ "n": 3 })).await.unwrap_err();
    assert!(matches!(error.why, ClientErrorKind::Http { status: 200, .. }), "{error}");
    assert!(error.hint().unwrap().contains("generate_stream"));
    let error = client.generate("nobody", &json!({ "n": 3 })).await.unwrap_err();
    assert!(error.to_string().ends_with("Request for unknown model: 'nobody' is not found (HTTP 404)"), "{error}");
    let error = client.generate("echo", &json!({ "INT32": ["x"] })).await.unwrap_err();
    assert!(matches!(error.why, ClientErrorKind::Http { status: 400.., .. }), "{error}");

    let mut events = client.generate_stream("counter", &json!({ "n": 3 })).await.unwrap();
    let mut counted = Vec::new();
    while let Some(event) = events.next().await {
        counted.push(event.unwrap().0["i"].as_i64().unwrap());
    }
    assert_eq!(counted, [1, 2, 3]);
    let refused = client.generate_stream("counter", &json!({ "n": -1 })).await;
    let error = match refused {
        Ok(mut events) => events.next().await.expect("an event").unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(error.server_message(), Some("cannot count to -1"));
    // The connection is good for the next question.
    assert!(client.is_live().await.unwrap());
}

#[tokio::test]
#[ignore = "needs a real tritonserver"]
async fn what_listens_on_a_port_is_reported() {
    let folder = repository(&["echo"]);
    let server = all_up(RealTriton::ready(&models(&folder), &[]).await).await;
    let Endpoint { host, grpc, http, metrics, .. } = server.endpoint.clone();
    assert_eq!(probe(&host, grpc).await, ListeningService::Grpc);
    assert_eq!(probe(&host, http.unwrap()).await, ListeningService::Http);
    assert_eq!(probe(&host, metrics.unwrap()).await, ListeningService::Metrics);
    let free = free_port();
    assert_eq!(probe(&host, free).await, ListeningService::Nothing);
    // gRPC spoken to the HTTP port is an error, not a wait.
    let mistaken = Endpoint { grpc: http.unwrap(), ..server.endpoint.clone() };
    let error: ClientError = match TritonClient::connect(&mistaken).await {
        Ok(client) => client.is_live().await.unwrap_err(),
        Err(error) => error,
    };
    assert!(!matches!(error.why, ClientErrorKind::Timeout(_)), "{error}");
}
