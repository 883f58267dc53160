//! The same questions have the same bytes as answers, on every machine, and on both clocks.

use regatta::sim::{EngineServing, SimulatedRequest, VirtualBenchmark, VirtualWorkload, served_limits, simulate};
use regatta::spec::{Length, SimCalibration, SimScheduler};
use regatta::triton::proto::inference::ModelInferResponse;
use serde_json::json;
use sha2::{Digest as _, Sha256};

/// One load on the scheduler of each server: 5,000 requests with drawn arrivals and lengths, on a pool that is short of blocks.
fn digest(scheduler: SimScheduler) -> String {
    let spec = regatta::sim::EngineSpec {
        calibration: SimCalibration { scheduler, ..SimCalibration::default() },
        ..super::ground::engine_spec()
    };
    let serving = EngineServing { kv_tokens: Some(40_000), ..EngineServing::default() };
    let workload = VirtualWorkload {
        input_tokens: Length::Lognormal { mean: 300.0, stddev: 200.0, min: 16, max: 900 },
        output_tokens: Length::Normal { mean: 120.0, stddev: 60.0, min: 4, max: 400 },
        adapters: Vec::new(),
        seed: 20_240_601,
    };
    let ran = VirtualBenchmark::new(&served_limits(&spec, &serving).unwrap(), 2, &workload)
        .served(5_000, Some(900.0))
        .unwrap();
    let mut bytes = Vec::new();
    for value in ran.ttft.iter().chain(&ran.tpot).chain(&ran.e2e) {
        bytes.extend(value.to_bits().to_le_bytes());
    }
    let hash: Vec<String> = Sha256::digest(&bytes)[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{} requests, {} steps, {} pauses, {}", ran.requests, ran.steps, ran.pauses, hash.concat())
}

#[test]
fn a_load_has_the_same_latencies_to_the_last_bit() {
    let both = [digest(SimScheduler::TensorrtLlm), digest(SimScheduler::Vllm)];
    assert_eq!(both, [digest(SimScheduler::TensorrtLlm), digest(SimScheduler::Vllm)]);
    insta::assert_snapshot!(both.join("\n"), @r"
    5000 requests, 7281 steps, 0 pauses, 14620e898070dc6d
    5000 requests, 6150 steps, 807 pauses, 382d8f890f3c21b5
    ");
}

/// A stamp of `return_perf_metrics`, simulated nanoseconds.
pub fn stamp(response: &ModelInferResponse, name: &str) -> Option<u64> {
    let at = response.outputs.iter().position(|output| output.name == name)?;
    let bytes = response.raw_output_contents[at][..].try_into().unwrap();
    Some(u64::try_from(i64::from_le_bytes(bytes)).unwrap())
}

/// What a server answered in real time, replayed from the stamps of its arrivals: the same first and last tokens, to the nanosecond.
#[tokio::test]
async fn real_time_and_virtual_time_have_the_same_steps() {
    let files = super::ground::Files::new(true, &json!({}));
    let server = super::ground::Running::start(files.options());
    let mut client = server.client().await;
    let mut served = Vec::new();
    for wave in 0..2 {
        let requests: Vec<_> = (0..40)
            .map(|at| {
                let (isl, osl) = (20 + (at * 37 + wave * 11) % 300, 2 + (at * 13 + wave * 5) % 60);
                let mut request = super::ground::request(&format!("{isl} {osl} {at}"), isl, osl, true);
                request.inputs.push(super::ground::tensor("return_perf_metrics", "BOOL", &[1, 1]));
                request.raw_input_contents.push(vec![1].into());
                request
            })
            .collect();
        for answer in super::ground::stream(&mut client, requests).await {
            assert_eq!(answer.error_message, "");
            let response = answer.infer_response.unwrap();
            let Some(arrival) = stamp(&response, "arrival_time_ns") else { continue };
            let times = ["first_token_time_ns", "last_token_time_ns"].map(|name| stamp(&response, name).unwrap());
            let lengths: Vec<u64> = response.id.split(' ').map(|number| number.parse().unwrap()).collect();
            served.push((SimulatedRequest::new(arrival, lengths[0], lengths[1]), times));
        }
    }
    server.stop().unwrap();
    assert_eq!(served.len(), 80);
    let load: Vec<_> = served.iter().map(|(request, _)| *request).collect();
    let limits = served_limits(&super::ground::engine_spec(), &EngineServing::default()).unwrap();
    let replayed = simulate(&limits, &load).unwrap();
    let in_virtual_time: Vec<_> = replayed.requests.iter().map(|request| [request.first, request.last]).collect();
    let in_real_time: Vec<_> = served.iter().map(|(_, times)| *times).collect();
    pretty_assertions::assert_eq!(in_virtual_time, in_real_time);
}
