//! LoRA adapters: what they cost, and a server that has them.

use regatta::sim::{
    EngineServing, EngineSpec, SimulatedRequest, VirtualBenchmark, VirtualWorkload, served_limits, simulate,
    write_engine,
};
use regatta::spec::{Length, LoraConfig};
use serde_json::json;

use super::ground::{Files, Running, engine_spec, request, stream, tensor};

fn with_slots(max_loras: u32) -> EngineSpec {
    let lora = LoraConfig { max_lora_rank: 16, max_loras, host_link_gbs: 50.0 };
    EngineSpec { lora: Some(lora), ..engine_spec() }
}

#[test]
fn more_slots_and_fewer_adapters_are_faster_and_slots_take_kv_cache() {
    let serving = EngineServing::default();
    let rate = |slots: u32, adapters: u64| {
        let workload = VirtualWorkload {
            input_tokens: Length::Fixed(200),
            output_tokens: Length::Fixed(60),
            adapters: (1..=adapters).collect(),
            seed: 2,
        };
        VirtualBenchmark::new(&served_limits(&with_slots(slots), &serving).unwrap(), 1, &workload)
            .served(1500, None)
            .unwrap()
            .tokens_per_second()
    };
    let (none, one, eight) = (rate(8, 0), rate(8, 1), rate(8, 8));
    assert!(none > one && one > eight, "{none} {one} {eight}");
    // 32 adapters and two slots: they go in groups, and every change copies one.
    assert!(rate(2, 32) < rate(32, 32), "{} {}", rate(2, 32), rate(32, 32));
    let blocks = |spec: &EngineSpec| served_limits(spec, &serving).unwrap().blocks;
    assert!(blocks(&with_slots(64)) < blocks(&with_slots(1)) && blocks(&with_slots(1)) < blocks(&engine_spec()));
}

/// The tasks that requests name are adapters of the simulated engine: the same steps on both clocks.
#[tokio::test]
async fn tasks_of_requests_are_adapters_on_both_clocks() {
    let files = Files::new(true, &json!({}));
    write_engine(&with_slots(2), &files.0.path().join("engine")).unwrap();
    let server = Running::start(files.options());
    let mut client = server.client().await;
    let requests: Vec<_> = (0..20_i32)
        .map(|at| {
            let (isl, osl) = (20 + (at * 37) % 300, 2 + (at * 13) % 60);
            let mut request = request(&format!("{isl} {osl} {}", at % 5 + 1), isl, osl, true);
            request.id = format!("{} {at}", request.id);
            request.inputs.push(tensor("return_perf_metrics", "BOOL", &[1, 1]));
            request.raw_input_contents.push(vec![1].into());
            request.inputs.push(tensor("lora_task_id", "UINT64", &[1, 1]));
            request.raw_input_contents.push((at as u64 % 5 + 1).to_le_bytes().to_vec().into());
            request
        })
        .collect();
    let mut served = Vec::new();
    for answer in stream(&mut client, requests).await {
        assert_eq!(answer.error_message, "");
        let response = answer.infer_response.unwrap();
        let Some(arrival) = super::determinism::stamp(&response, "arrival_time_ns") else { continue };
        let times = ["first_token_time_ns", "last_token_time_ns"]
            .map(|name| super::determinism::stamp(&response, name).unwrap());
        let words: Vec<u64> = response.id.split(' ').map(|number| number.parse().unwrap()).collect();
        let request =
            SimulatedRequest { adapter: Some(words[2]), ..SimulatedRequest::new(arrival, words[0], words[1]) };
        served.push((request, times));
    }
    server.stop().unwrap();
    assert_eq!(served.len(), 20);
    let load: Vec<_> = served.iter().map(|(request, _)| *request).collect();
    let replayed = simulate(&served_limits(&with_slots(2), &EngineServing::default()).unwrap(), &load).unwrap();
    for ((_, times), replayed) in served.iter().zip(&replayed.requests) {
        assert_eq!([replayed.first, replayed.last], *times);
    }
}
