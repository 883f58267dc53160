//! `/metrics` of a simulated vLLM: the families of vLLM's own code, `tests/golden/vllm-metrics`, with the counts of what clients received.

#![expect(clippy::float_cmp, reason = "counts are whole numbers")]

use std::collections::BTreeMap;
use std::net::SocketAddr;

use pretty_assertions::assert_eq;
use regatta::sim::{EngineSpec, SimOptions, write_engine};
use regatta::spec::{AcceptanceRate, Drafter, Drafting, SimCalibration, SimScheduler};
use regatta::triton::{Exposition, HttpAddress, HttpClient};
use serde_json::{Value, json};

use super::determinism::stamp;
use super::ground::{Files, Running, engine_spec, output_ids, request, stream, tensor};

/// Of vLLM's own code, in a server with the same settings as `vllm` has.
const VLLM: &str = include_str!("../../golden/vllm-metrics/exposition.txt");
/// What they describe is not known to the simulation.
const LEFT_OUT: [&str; 2] = ["vllm:cache_config_info", "vllm:lora_requests_info"];

fn vllm(drafting: Option<Drafting>, parameters: &Value) -> (Files, Running) {
    at_speed(100.0, drafting, parameters)
}

fn at_speed(speed: f64, drafting: Option<Drafting>, parameters: &Value) -> (Files, Running) {
    let files = Files::new(true, parameters);
    let calibration = SimCalibration { scheduler: SimScheduler::Vllm, ..SimCalibration::default() };
    let spec = EngineSpec { calibration, drafting, ..engine_spec() };
    write_engine(&spec, &files.0.path().join("engine")).unwrap();
    let free = Some("127.0.0.1:0".parse().unwrap());
    let server = Running::start(SimOptions { speed, http: free, metrics: free, ..files.options() });
    (files, server)
}

fn three_drafts() -> Drafting {
    Drafting { drafter: Drafter::NGram, draft_len: 3, acceptance: AcceptanceRate::Same(0.7) }
}

async fn page(address: Option<SocketAddr>) -> Result<String, String> {
    let address = address.unwrap();
    let mut client = HttpClient::new(HttpAddress { host: address.ip().to_string(), port: address.port() });
    client.text("/metrics").await.map_err(|error| error.to_string())
}

/// Values of the series, by name and labels without those that all have.
async fn values(server: &Running) -> BTreeMap<String, f64> {
    let exposition = Exposition::parse(&page(server.http).await.unwrap()).unwrap();
    let series = exposition.samples().map(|(_, sample)| {
        let mut sample = sample.clone();
        sample.labels.retain(|name, _| !matches!(name.as_str(), "engine" | "model_name"));
        (sample.key().replace("vllm:", ""), sample.value.0)
    });
    series.collect()
}

#[tokio::test]
async fn a_fresh_server_has_the_text_of_vllms_own_code() {
    let (_files, server) = vllm(Some(three_drafts()), &json!({}));
    let text = page(server.http).await.unwrap();
    let (mut found, mut created) = (Vec::new(), Vec::new());
    for line in text.replace("model_name=\"tensorrt_llm\"", "model_name=\"m\"").lines() {
        match line.split_once("} ").filter(|(key, _)| key.contains("_created{")) {
            Some((key, value)) => {
                created.push(value.parse::<f64>().unwrap());
                found.push(format!("{key}}} 0.0"));
            }
            None => found.push(line.to_owned()),
        }
    }
    let is_known = |line: &&str| !LEFT_OUT.iter().any(|name| line.contains(name));
    assert_eq!(found.join("\n"), VLLM.lines().filter(is_known).collect::<Vec<_>>().join("\n"));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    assert!(created.iter().all(|at| (now - 600.0..=now).contains(at)), "{created:?}");
    // The port of a Triton's metrics has them behind those of Triton itself.
    let both = page(server.metrics).await.unwrap();
    assert!(both.ends_with(&text) && both.starts_with("# HELP nv_inference_request_success"), "{both}");
    assert!(!both.contains("nv_trt_llm_"), "{both}");
    server.stop().unwrap();
}

#[tokio::test]
async fn an_engine_of_tensorrt_llm_has_none_of_them() {
    let free = Some("127.0.0.1:0".parse().unwrap());
    let files = Files::new(true, &json!({}));
    let server = Running::start(SimOptions { http: free, metrics: free, ..files.options() });
    assert!(page(server.http).await.unwrap_err().contains("404"));
    let text = page(server.metrics).await.unwrap();
    assert!(text.contains("nv_trt_llm_kv_cache_block_metrics") && !text.contains("vllm:"), "{text}");
    server.stop().unwrap();
}

/// What a client saw of a request.
struct Seen {
    isl: u64,
    /// Tokens of each chunk.
    chunks: Vec<u64>,
    /// Arrival, first place in a step, first token, last token; simulated ns.
    stamps: [u64; 4],
}

async fn load(server: &Running, count: i32, longest: i32) -> Vec<Seen> {
    let requests: Vec<_> = (0..count)
        .map(|at| {
            let (isl, osl) = (20 + (at * 37) % 300, 1 + (at * 13) % longest);
            let mut request = request(&format!("{isl} {at}"), isl, osl, true);
            request.inputs.push(tensor("return_perf_metrics", "BOOL", &[1, 1]));
            request.raw_input_contents.push(vec![1].into());
            request
        })
        .collect();
    let mut seen: BTreeMap<String, Seen> = BTreeMap::new();
    for answer in stream(&mut server.client().await, requests).await {
        let response = answer.infer_response.unwrap();
        let isl = response.id.split(' ').next().unwrap().parse().unwrap();
        let one = seen.entry(response.id.clone()).or_insert(Seen { isl, chunks: Vec::new(), stamps: [0; 4] });
        one.chunks.push(output_ids(&response).len() as u64);
        let names = ["arrival_time_ns", "first_scheduled_time_ns", "first_token_time_ns", "last_token_time_ns"];
        if stamp(&response, names[0]).is_some() {
            one.stamps = names.map(|name| stamp(&response, name).unwrap());
        }
    }
    seen.into_values().collect()
}

fn is_near(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 1e-9 * expected.abs().max(1.0)
}

/// The pool holds a quarter of the requests, so some lose their blocks and compute their tokens again.
#[tokio::test]
async fn a_load_is_counted_as_its_client_received_it() {
    let (_files, server) = vllm(None, &json!({"max_tokens_in_paged_kv_cache": 2048}));
    let seen = load(&server, 40, 120).await;
    let values = values(&server).await;
    let of = |key: &str| *values.get(key).unwrap_or_else(|| panic!("no {key}"));
    let requests = seen.len() as f64;
    let prompt: u64 = seen.iter().map(|one| one.isl).sum();
    let tokens: u64 = seen.iter().flat_map(|one| &one.chunks).sum();
    assert_eq!(seen.len(), 40);
    assert_eq!(of("prompt_tokens_total"), prompt as f64);
    assert_eq!(of(r#"prompt_tokens_by_source_total{source="local_compute"}"#), prompt as f64);
    assert_eq!(of("request_prefill_kv_computed_tokens_sum"), prompt as f64);
    assert_eq!(of("request_prompt_tokens_sum"), prompt as f64);
    for name in ["generation_tokens_total", "request_generation_tokens_sum", "request_params_max_tokens_sum"] {
        assert_eq!(of(name), tokens as f64, "{name}");
    }
    assert_eq!(of("iteration_tokens_total_sum"), (prompt + tokens) as f64);
    assert_eq!(of(r#"request_success_total{finished_reason="length"}"#), requests);
    assert_eq!(of(r#"request_success_total{finished_reason="stop"}"#), 0.0);
    assert!(of("num_preemptions_total") > 0.0);
    // Times, of all requests and of each.
    let between = |from: usize, to: usize| seen.iter().map(move |one| (one.stamps[to] - one.stamps[from]) as f64 / 1e9);
    for (name, from, to) in [
        ("time_to_first_token_seconds", 0, 2),
        ("e2e_request_latency_seconds", 0, 3),
        ("request_queue_time_seconds", 0, 1),
        ("request_prefill_time_seconds", 1, 2),
        ("request_inference_time_seconds", 1, 3),
        ("request_decode_time_seconds", 2, 3),
    ] {
        assert_eq!(of(&format!("{name}_count")), requests, "{name}");
        let (sum, expected) = (of(&format!("{name}_sum")), between(from, to).sum());
        assert!(is_near(sum, expected), "{name}: {sum}, {expected}");
        let buckets = values.iter().filter_map(|(key, count)| Some((key.strip_prefix(name)?, *count)));
        for (limit, count) in buckets.filter(|(rest, _)| rest.starts_with("_bucket")) {
            let limit = limit.trim_start_matches("_bucket{le=\"").trim_end_matches("\"}");
            let most = if limit == "+Inf" { f64::INFINITY } else { limit.parse().unwrap() };
            assert_eq!(count, between(from, to).filter(|time| *time <= most).count() as f64, "{name} {limit}");
        }
    }
    let gaps: usize = seen.iter().map(|one| one.chunks.len() - 1).sum();
    assert_eq!(of("inter_token_latency_seconds_count"), gaps as f64);
    assert!(is_near(of("inter_token_latency_seconds_sum"), between(2, 3).sum()));
    let tpot = seen.iter().filter(|one| one.chunks.len() > 1);
    let tpot = tpot.map(|one| (one.stamps[3] - one.stamps[2]) as f64 / 1e9 / (one.chunks.len() - 1) as f64);
    assert!(is_near(of("request_time_per_output_token_seconds_sum"), tpot.sum()));
    assert_eq!(of("request_time_per_output_token_seconds_count"), requests);
    server.stop().unwrap();
}

#[tokio::test]
async fn drafts_are_counted_by_position() {
    let (_files, server) = vllm(Some(three_drafts()), &json!({}));
    let seen = load(&server, 60, 100).await;
    let values = values(&server).await;
    let of = |key: &str| *values.get(key).unwrap_or_else(|| panic!("no {key}"));
    // The first token of a request is that of its prompt; each other chunk has the tokens of a step that verified three drafts.
    let steps: Vec<u64> = seen.iter().flat_map(|one| one.chunks[1..].iter().copied()).collect();
    assert_eq!(of("num_preemptions_total"), 0.0);
    assert_eq!(of("spec_decode_num_drafts_total"), steps.len() as f64);
    assert_eq!(of("spec_decode_num_draft_tokens_total"), 3.0 * steps.len() as f64);
    let mut all = 0.0;
    for position in 0..3 {
        let count = of(&format!("spec_decode_num_accepted_tokens_per_pos_total{{position=\"{position}\"}}"));
        let received = steps.iter().filter(|tokens| **tokens > position + 1).count() as f64;
        // In the last step of a request drafts may be accepted that it has no use for.
        assert!((received..=received + seen.len() as f64).contains(&count), "{position}: {count}, {received}");
        all += count;
    }
    assert_eq!(of("spec_decode_num_accepted_tokens_total"), all);
    assert_eq!(of("generation_tokens_total"), seen.iter().flat_map(|one| &one.chunks).sum::<u64>() as f64);
    server.stop().unwrap();
}

/// Requests that have room for their prompts run, the others wait.
#[tokio::test]
async fn gauges_show_who_runs_and_who_waits() {
    // The load takes some seconds.
    let (_files, server) = at_speed(1.0, None, &json!({"max_tokens_in_paged_kv_cache": 2048}));
    let mut client = server.client().await;
    let requests: Vec<_> = (0..10).map(|at| request(&at.to_string(), 300, 660, true)).collect();
    let mut answers = client.model_stream_infer(tokio_stream::iter(requests)).await.unwrap().into_inner();
    // Six have room for their prompts at first; the answers go on.
    for _ in 0..20 {
        tokio_stream::StreamExt::next(&mut answers).await.unwrap().unwrap();
    }
    let values = values(&server).await;
    let of = |key: &str| values[key];
    let (running, waiting) = (of("num_requests_running"), of("num_requests_waiting"));
    assert!((1.0..=6.0).contains(&running) && running + waiting == 10.0, "{running} run, {waiting} wait");
    assert_eq!(of(r#"num_requests_waiting_by_reason{reason="capacity"}"#), waiting);
    assert_eq!(of(r#"num_requests_waiting_by_reason{reason="deferred"}"#), 0.0);
    assert!(of("kv_cache_usage_perc") > 0.25 && of("kv_cache_usage_perc") <= 1.0, "{values:?}");
    drop((answers, client));
    // What the client gave up reaches the server while this waits.
    tokio::task::spawn_blocking(|| server.stop()).await.unwrap().unwrap();
}
