//! The same questions have the same bytes as answers, on every machine.

use regatta::sim::{TwinServing, VirtualWorkload, served_at, twin};
use regatta::spec::{Length, SimCalibration, SimScheduler};
use sha2::{Digest as _, Sha256};

/// One load on the scheduler of each server: 5,000 requests with drawn arrivals and lengths, on a pool that is short of blocks.
fn digest(scheduler: SimScheduler) -> String {
    let spec = regatta::sim::EngineSpec {
        calibration: SimCalibration { scheduler, ..SimCalibration::default() },
        ..super::ground::engine_spec()
    };
    let serving = TwinServing { kv_tokens: Some(40_000), ..TwinServing::default() };
    let workload = VirtualWorkload {
        input_tokens: Length::Lognormal { mean: 300.0, stddev: 200.0, min: 16, max: 900 },
        output_tokens: Length::Normal { mean: 120.0, stddev: 60.0, min: 4, max: 400 },
        seed: 20_240_601,
    };
    let ran = served_at(&twin(&spec, &serving).unwrap(), 2, &workload, 5_000, 900.0).unwrap();
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
    5000 requests, 7281 steps, 0 pauses, 466028bf4f7271b8
    5000 requests, 6152 steps, 817 pauses, b1d25678e91ff611
    ");
}
