//! The client, against the simulator.

use std::time::Duration;

use pretty_assertions::assert_eq;
use regatta::event::Endpoint;
use regatta::sim::{Faults, SimOptions};
use regatta::triton::{AwaitError, ClientError, TritonClient, await_ready};
use serde_json::json;

use crate::simulator::ground::{Files, Running, request};

fn endpoint(server: &Running) -> Endpoint {
    server.address.to_string().parse().unwrap()
}

#[tokio::test]
async fn a_server_is_asked_who_it_is() {
    let files = Files::new(false, &json!({}));
    let server = Running::start(files.options());
    let mut client = TritonClient::connect(&endpoint(&server)).await.unwrap();
    assert!(client.is_live().await.unwrap() && client.is_ready().await.unwrap());
    assert!(client.is_model_ready("ensemble").await.unwrap());
    assert!(!client.is_model_ready("nobody").await.unwrap());
    assert_eq!(client.server_metadata().await.unwrap().name, "triton");
    assert_eq!(client.model_metadata("ensemble").await.unwrap().platform, "ensemble");
    assert_eq!(client.model_config("tensorrt_llm").await.unwrap().backend, "tensorrtllm");
    assert_eq!(client.repository_index().await.unwrap().len(), 5);
    assert_eq!(client.infer(request("1", 5, 5, false)).await.unwrap().id, "1");
    let error = client.model_config("nobody").await.unwrap_err();
    assert_eq!(error.to_string(), "the server refused: Request for unknown model: 'nobody' is not found (NotFound)");
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
    let limit = Duration::from_millis(500);
    let error = await_ready(&endpoint(&server), limit, |_, _| {}, std::future::pending()).await.unwrap_err();
    let AwaitError::Timeout { last, .. } = error else { panic!("{error}") };
    assert_eq!(last, "the server is up and not ready");
}

#[tokio::test]
async fn waiting_ends_when_asked_to() {
    // Nobody listens on a port that was just given back.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let endpoint: Endpoint = format!("127.0.0.1:{port}").parse().unwrap();
    let (asked, stop) = tokio::sync::oneshot::channel::<()>();
    let mut asked = Some(asked);
    let stopped = async {
        let _ = stop.await;
    };
    let progress = |_, said: &str| {
        assert!(said.contains("refused"), "{said}");
        drop(asked.take());
    };
    let error = await_ready(&endpoint, Duration::from_mins(1), progress, stopped).await.unwrap_err();
    assert!(matches!(error, AwaitError::Stopped { .. }), "{error}");
    assert!(matches!(TritonClient::connect(&endpoint).await, Err(ClientError::Connect { .. })));
}
