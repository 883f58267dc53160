//! `/metrics` of a real server: read before and after, polled beside a benchmark, told in its result and its report.

use std::time::Duration;

use pretty_assertions::assert_eq;
use regatta::triton::{
    Exposition, HttpAddress, HttpClient, InferRequest, MetricKind, Scraper, Tensor, TensorData, TritonClient, summarize,
};
use serde_json::Value;

use crate::ports::free_port;
use crate::triton::{all_up, repository};
use crate::tritonserver::{self, RealTriton};
use crate::world::World;

fn address(server: &RealTriton) -> HttpAddress {
    HttpAddress { host: server.endpoint.host.clone(), port: server.endpoint.metrics.unwrap() }
}

fn count(n: i32, pause_ms: i32) -> InferRequest {
    let number = |name: &str, value| Tensor::new(name, [1], TensorData::Int32(vec![value])).unwrap();
    InferRequest::new("counter", "1").input(number("n", n)).input(number("pause_ms", pause_ms))
}

async fn value(client: &mut HttpClient, key: &str) -> f64 {
    let exposition = Exposition::parse(&client.text("/metrics").await.unwrap()).unwrap();
    let found = exposition.samples().find(|(_, sample)| sample.key() == key);
    found.unwrap_or_else(|| panic!("no {key}")).1.value.0
}

#[tokio::test]
#[ignore = "needs a real tritonserver"]
async fn a_real_server_counts_what_it_was_sent_and_calls_much_of_it_success() {
    let folder = repository(&["counter"]);
    let server = all_up(RealTriton::ready(&folder.path().join("models"), &[]).await).await;
    let client = TritonClient::connect(&server.endpoint).await.unwrap();
    let mut metrics = HttpClient::new(address(&server));
    let exposition = Exposition::parse(&metrics.text("/metrics").await.unwrap()).unwrap();
    let success = exposition.families.iter().find(|family| family.name == "nv_inference_request_success").unwrap();
    assert!(success.kind == MetricKind::Counter && success.help.contains("successful"));

    let key = r#"nv_inference_request_success{model="counter",version="1"}"#;
    assert_eq!(value(&mut metrics, key).await.to_bits(), 0f64.to_bits());
    let mut stream = client.stream();
    for _ in 0..3 {
        stream.send(count(2, 0).build());
    }
    stream.close();
    while let Some(answer) = stream.next().await {
        assert!(answer.unwrap().error.is_none());
    }
    assert_eq!(value(&mut metrics, key).await.round() as i64, 3);

    // One that is given up in the middle: no proof of anything is a success in these numbers.
    let mut stream = client.stream();
    stream.send(count(10_000, 5).build());
    stream.next().await.unwrap().unwrap();
    drop(stream);
    let pending = async {
        while value(&mut metrics, key).await < 4.0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), pending).await.expect("a cancelled request counted as success");
}

#[tokio::test]
#[ignore = "needs a real tritonserver"]
async fn polling_goes_on_when_a_server_does_not_answer() {
    let folder = repository(&["counter"]);
    let server = all_up(RealTriton::ready(&folder.path().join("models"), &[]).await).await;
    let nothing = free_port();
    let servers = vec![address(&server), HttpAddress { host: "127.0.0.1".to_owned(), port: nothing }];
    let clients = servers.into_iter().map(HttpClient::new).collect();
    let scraper = Scraper::start(clients, Duration::from_millis(20)).unwrap();
    let client = TritonClient::connect(&server.endpoint).await.unwrap();
    let zero = std::time::Instant::now();
    let mut stream = client.stream();
    stream.send(count(50, 5).build());
    stream.close();
    let mut numbers = 0;
    while let Some(answer) = stream.next().await {
        assert!(answer.unwrap().error.is_none());
        numbers += 1;
    }
    let window = zero.elapsed();
    let scrape = scraper.finish().await;
    assert_eq!(numbers, 50);

    let summary = summarize(&scrape, zero, window);
    // Every round asks both; one of them never answers.
    assert!(
        summary.scrapes > 1 && summary.missed == summary.scrapes,
        "{} answers, {} missed",
        summary.scrapes,
        summary.missed
    );
    assert!(summary.first_miss.as_ref().unwrap().contains("refused"), "{summary:?}");
    let grown =
        |name: &str| summary.metrics.iter().find(|metric| metric.name == name).and_then(|metric| metric.increase);
    assert_eq!(grown("nv_inference_request_success"), Some(1.0));
    assert!(summary.from_s.unwrap() <= summary.to_s.unwrap() && summary.to_s.unwrap() >= window.as_secs_f64());
    // The lines say the same, with the run's start as their zero.
    let lines: Vec<Value> = scrape.lines(zero).map(|line| serde_json::from_str(&line).unwrap()).collect();
    assert_eq!(lines.iter().filter(|line| line.get("missed").is_some()).count() as u64, summary.missed);
    let last = lines.iter().rfind(|line| line.get("values").is_some()).unwrap();
    assert_eq!(last["values"][r#"nv_inference_request_success{model="counter",version="1"}"#], 1.0);
}

#[test]
#[ignore = "needs a real tritonserver"]
fn a_benchmark_keeps_what_its_servers_said() {
    let world = World::new();
    world.copy("manifests");
    let program = format!("tritonserver={}", tritonserver::program().display());
    // Two seconds of arrivals: more than one poll.
    let words = ["run", "triton-cpu", &program, "scenarios=server", "rate=30", "duration=2s", "step_ms=1"];
    let ended = world.regatta(&words);
    // Beside other tests the verdict may be a bad one, and what was measured is then kept aside.
    assert!([0, 3, 4].contains(&ended.code), "{}\n{}", ended.stdout, ended.stderr);
    let files = walkdir::WalkDir::new(world.path(".regatta")).into_iter().flatten();
    let lines = files.map(walkdir::DirEntry::into_path).find(|path| path.ends_with("server-metrics.jsonl"));
    let lines = lines.expect("a file of all numbers");
    let read = |name: &str| std::fs::read_to_string(lines.with_file_name(name)).unwrap();
    let result: Value = serde_json::from_str(&read("result.json")).unwrap();
    let server_metrics = &result["server_metrics"];
    assert_eq!(server_metrics["servers"].as_array().unwrap().len(), 2);
    assert!(server_metrics["scrapes"].as_u64().unwrap() >= 4, "{server_metrics}");
    assert!(server_metrics["cpu_ms"].as_f64().unwrap() > 0.0);
    let requests = result["counts"]["scheduled"].as_f64().unwrap();
    let success =
        server_metrics["metrics"].as_array().unwrap().iter().find(|metric| {
            metric["name"] == "nv_inference_request_success" && metric["labels"]["model"] == "tensorrt_llm"
        });
    // The warm-up of each connection may be among them, and nothing else is.
    let grown = success.expect("successes")["increase"].as_f64().unwrap();
    let most = requests + 2.0 * result["requested"]["warmup"].as_f64().unwrap();
    assert!(grown <= most, "{requests} requests, {grown} counted");
    // A poll just after the servers were ready may have come before the metrics port.
    assert!(
        grown >= requests || server_metrics["missed"].as_u64().unwrap() > 0,
        "{requests} requests, {grown} counted"
    );
    assert!(server_metrics["derived"].as_array().unwrap().iter().any(|derived| derived["name"] == "mean batch size"));
    let polls = server_metrics["scrapes"].as_u64().unwrap() + server_metrics["missed"].as_u64().unwrap();
    assert_eq!(read("server-metrics.jsonl").lines().count() as u64, polls);
    if ended.code == 0 {
        let page = world.read("latest/report.html");
        assert!(page.contains("Server metrics") && page.contains("nv_inference_request_success"), "no metrics");
    }
}
