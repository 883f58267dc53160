//! The step time fitted to what vLLM 0.24 did on an H200.

use std::path::Path;

use regatta::sim::{
    CalibrationTarget, DecoderModel, GpuTiming, Parallelism, Precision, StepTimeFit, calibrate, read_step_log,
};
use regatta::spec::SimScheduler;

fn golden(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/vllm-h200").join(file);
    std::fs::read_to_string(path).unwrap()
}

fn target() -> CalibrationTarget {
    CalibrationTarget {
        model: DecoderModel { ..super::ground::engine_spec().model },
        gpu: GpuTiming { name: "H200".into(), memory_gb: 141.0, bandwidth_gbs: 4800.0, tflops_16bit: 989.0 },
        precision: Precision::Bf16,
        kv: Precision::Bf16,
        parallelism: Parallelism { tensor: 1, pipeline: 1 },
        scheduler: SimScheduler::Vllm,
        source: "vLLM 0.24 on an H200".into(),
    }
}

fn fit(log: &str) -> StepTimeFit {
    calibrate(&target(), &[read_step_log(log).unwrap()]).unwrap()
}

#[test]
fn a_real_servers_steps_are_explained_within_a_few_per_cent() {
    let fit = fit(&golden("step_log.jsonl"));
    assert!(fit.r_squared > 0.99, "{}", fit.r_squared);
    assert!(fit.mean_error < 0.02, "{}", fit.mean_error);
    assert!(fit.held_out_error.unwrap() < 0.03, "{:?}", fit.held_out_error);
    assert!(fit.regions.iter().all(|region| region.mean < 0.08), "{:?}", fit.regions);
    // No coefficient may be beyond what the hardware can do.
    let c = &fit.calibration;
    for share in [c.weights_bandwidth, c.kv_bandwidth, c.compute, c.attention] {
        assert!((0.3..1.0).contains(&share), "{c:?}");
    }
    assert!(fit.assumed.is_empty(), "{:?}", fit.assumed);
}

/// Longer contexts than any that the fit saw beside generation, and the batches between those that it saw.
#[test]
fn loads_that_the_fit_has_not_seen_come_out_right() {
    let log = read_step_log(&golden("step_log.jsonl")).unwrap();
    // Up to step 536: single prompts, and prompts of 128 tokens; after it: prompts of 1024 tokens.
    let (short, long): (Vec<_>, Vec<_>) = log.into_iter().partition(|step| step.step < 537);
    let seen = calibrate(&target(), &[short]).unwrap();
    let all = calibrate(&target(), &[long]).unwrap();
    let limits = regatta::sim::derive(
        &target().model,
        &target().gpu,
        Precision::Bf16,
        Precision::Bf16,
        Parallelism { tensor: 1, pipeline: 1 },
        &seen.calibration,
    )
    .0;
    // Steps that only generate: the log of the long prompts has their batch and KV cache.
    let log = read_step_log(&golden("step_log.jsonl")).unwrap();
    let errors: Vec<f64> = all
        .rows
        .iter()
        .filter(|row| row.prompt_tokens == 0)
        .map(|row| {
            let step = log.iter().find(|step| step.step == row.step).unwrap();
            let modelled = limits.step_ns(0, 0, step.decode_requests, step.decode_kv) as f64 / 1e9;
            (modelled / row.measured - 1.0).abs()
        })
        .collect();
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    assert!(errors.len() > 150 && mean < 0.06, "{} steps, {mean}", errors.len());
}

#[test]
fn a_log_with_every_fourth_step_gives_the_same_coefficients() {
    let (all, some) = (fit(&golden("step_log.jsonl")).calibration, fit(&golden("steps.jsonl")).calibration);
    for (all, some) in [
        (all.weights_bandwidth, some.weights_bandwidth),
        (all.kv_bandwidth, some.kv_bandwidth),
        (all.compute, some.compute),
        (all.request_us, some.request_us),
    ] {
        assert!((some / all - 1.0).abs() < 0.1, "{some} instead of {all}");
    }
}
