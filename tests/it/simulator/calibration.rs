//! The step time fitted to what vLLM 0.24 did on an H200.

use std::fmt::Write as _;
use std::path::Path;

use regatta::sim::{
    CalibrationTarget, GpuTiming, ModelOnGpus, Parallelism, Precision, StepTimeFit, calibrate, read_step_log,
};
use regatta::spec::{ModelShape, SimScheduler};

pub(super) fn golden(file: &str) -> String {
    logged("vllm-h200", file)
}

fn logged(folder: &str, file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(folder).join(file);
    std::fs::read_to_string(path).unwrap()
}

pub(super) fn target() -> CalibrationTarget {
    CalibrationTarget {
        model: ModelShape { ..super::ground::engine_spec().model },
        gpu: GpuTiming {
            name: "H200".into(),
            memory_gb: 141.0,
            bandwidth_gbs: 4800.0,
            link_gbs: None,
            tflops_16bit: 989.0,
        },
        precision: Precision::Bf16,
        kv: Precision::Bf16,
        parallelism: Parallelism { tensor: 1, pipeline: 1 },
        scheduler: SimScheduler::Vllm,
        max_cudagraph_capture_size: 512,
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

#[test]
fn the_largest_cuda_graph_is_the_one_that_is_set() {
    let log = read_step_log(&golden("step_log.jsonl")).unwrap();
    let of = |max_cudagraph_capture_size| {
        let target = CalibrationTarget { max_cudagraph_capture_size, ..target() };
        let fit = calibrate(&target, std::slice::from_ref(&log)).unwrap();
        (fit.calibration.cuda_graph_tokens, fit.calibration.layer_us, fit.mean_error)
    };
    let (right, wrong) = (of(512), of(2048));
    assert_eq!((right.0, wrong.0), (512, 2048));
    // The server had graphs up to 512 tokens: that explains its steps best.
    assert!(right.1 > 50.0 && right.2 < wrong.2, "{right:?} {wrong:?}");
}

/// Longer contexts than any that the fit saw beside generation, and the batches between those that it saw.
#[test]
fn loads_that_the_fit_has_not_seen_come_out_right() {
    let log = read_step_log(&golden("step_log.jsonl")).unwrap();
    // Up to step 536: single prompts, and prompts of 128 tokens; after it: prompts of 1024 tokens.
    let (short, long): (Vec<_>, Vec<_>) = log.into_iter().partition(|step| step.step < 537);
    let seen = calibrate(&target(), &[short]).unwrap();
    let all = calibrate(&target(), &[long]).unwrap();
    let limits = regatta::sim::derive(&ModelOnGpus {
        model: &target().model,
        gpu: &target().gpu,
        precision: Precision::Bf16,
        kv: Precision::Bf16,
        parallelism: Parallelism { tensor: 1, pipeline: 1 },
        calibration: &seen.calibration,
    })
    .0;
    // Steps that only generate: the log of the long prompts has their batch and KV cache.
    let log = read_step_log(&golden("step_log.jsonl")).unwrap();
    let errors: Vec<f64> = all
        .rows
        .iter()
        .filter(|row| row.prompt_tokens == 0)
        .map(|row| {
            let step = log.iter().find(|step| step.step == row.step).unwrap();
            let modeled = limits.step_ns(0, 0, 0, step.decode_requests, step.decode_kv) as f64 / 1e9;
            (modeled / row.measured - 1.0).abs()
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

/// The same load as was measured (800 requests at once, 512 to 128 tokens; then 20 requests a second), on the server that
/// the calibration was fitted to with other loads. Measured: three runs of 5,334 to 5,916 tokens a second; TTFT p50 34.6 to
/// 44.0 ms and TPOT p50 6.5 to 7.1 ms.
#[test]
fn whole_loads_that_the_fit_has_not_seen_come_out_near_what_was_measured() {
    use regatta::sim::{EngineServing, EngineSpec, SchedulerPolicy, VirtualBenchmark, VirtualWorkload, served_limits};
    use regatta::spec::{Length, LimitedMetric, Statistic};

    let spec = EngineSpec {
        model: target().model,
        gpu: target().gpu,
        calibration: fit(&golden("step_log.jsonl")).calibration,
        precision: "bf16".into(),
        build_flags: serde_json::json!({"max_batch_size": 1024, "max_input_len": 4095, "max_seq_len": 4096,
            "max_num_tokens": 8192, "tokens_per_block": 16})
        .as_object()
        .unwrap()
        .clone(),
        ..super::ground::engine_spec()
    };
    // The pool that this server reported: 19,073 blocks of 16 tokens.
    let serving = EngineServing { kv_tokens: Some(19_073 * 16), ..EngineServing::default() };
    let server = served_limits(&spec, &serving).unwrap();
    assert_eq!((server.policy, server.blocks), (SchedulerPolicy::Vllm, 19_073));
    let workload = VirtualWorkload {
        input_tokens: Length::Fixed(512),
        output_tokens: Length::Fixed(128),
        adapters: Vec::new(),
        seed: 1,
    };
    let all = VirtualBenchmark::new(&server, 1, &workload).served(800, None).unwrap();
    let at_20 = VirtualBenchmark::new(&server, 1, &workload).served(2000, Some(20.0)).unwrap();
    let of = |metric| at_20.statistic(metric, Statistic::P50).unwrap().unwrap();
    let (ttft, tpot) = (of(LimitedMetric::Ttft), of(LimitedMetric::Tpot));
    let shown = format!("{:.0} tok/s, TTFT p50 {ttft:.1} ms, TPOT p50 {tpot:.2} ms", all.tokens_per_second());
    assert!((all.tokens_per_second() / 5625.0 - 1.0).abs() < 0.15, "{shown}");
    // The way through the HTTP server takes longer under load than for a request alone.
    assert!((ttft / 38.1 - 1.0).abs() < 0.25, "{shown}");
    assert!((tpot / 6.77 - 1.0).abs() < 0.15, "{shown}");
}

/// An H100 that no coefficient was fitted to: the calibration of the H200 on the data sheet of the H100. Measured by two load
/// generators, two runs each, vLLM 0.24 on one H100 80 GB: 1,000 requests of 512 and 128 tokens at once had 5,681 to 6,088 tokens a
/// second, a mean TTFT of 7.2 to 8.3 s and a mean TPOT of 88.5 to 95.8 ms; 20 requests a second had a mean TPOT of 9.4 to 10.6 ms
/// and a mean TTFT of 50 to 63 ms.
#[test]
fn another_gpu_comes_out_near_what_was_measured_on_it() {
    use regatta::sim::{EngineServing, EngineSpec, VirtualBenchmark, VirtualWorkload, served_limits};
    use regatta::spec::{Length, LimitedMetric, Statistic};

    let spec = EngineSpec {
        model: target().model,
        gpu: GpuTiming { name: "H100".into(), memory_gb: 80.0, bandwidth_gbs: 3350.0, ..target().gpu },
        calibration: fit(&golden("step_log.jsonl")).calibration,
        precision: "bf16".into(),
        build_flags: serde_json::json!({"max_batch_size": 1024, "max_input_len": 4095, "max_seq_len": 4096,
            "max_num_tokens": 8192, "tokens_per_block": 16})
        .as_object()
        .unwrap()
        .clone(),
        ..super::ground::engine_spec()
    };
    let server = served_limits(&spec, &EngineServing::default()).unwrap();
    let workload = VirtualWorkload {
        input_tokens: Length::Fixed(512),
        output_tokens: Length::Fixed(128),
        adapters: Vec::new(),
        seed: 1,
    };
    let all = VirtualBenchmark::new(&server, 1, &workload).served(1000, None).unwrap();
    let at_20 = VirtualBenchmark::new(&server, 1, &workload).served(2000, Some(20.0)).unwrap();
    let mean =
        |result: &regatta::sim::VirtualResult, metric| result.statistic(metric, Statistic::Mean).unwrap().unwrap();
    let found = [
        (all.tokens_per_second(), 5681.0, 6088.0),
        (mean(&all, LimitedMetric::Ttft), 7200.0, 8300.0),
        (mean(&all, LimitedMetric::Tpot), 88.5, 95.8),
        (mean(&at_20, LimitedMetric::Tpot), 9.4, 10.6),
    ];
    // Of the nearer end of what was measured.
    let errors = found.map(|(value, low, high)| (value / low - 1.0).min(0.0) + (value / high - 1.0).max(0.0));
    assert!(errors.iter().all(|error| error.abs() < 0.10), "{found:?} {errors:?}");
    // Too short, by a third: what the HTTP server does beside the tokens of other requests is not modeled.
    let ttft = mean(&at_20, LimitedMetric::Ttft);
    assert!((33.0..50.0).contains(&ttft), "{ttft}");
}

/// Loads that were measured on an H100 after those of its step log: `tests/golden/vllm-h100/README.md`.
#[test]
fn loads_on_an_h100_that_the_fit_has_not_seen_come_out_near_what_was_measured() {
    use regatta::sim::{EngineServing, EngineSpec, VirtualBenchmark, VirtualResult, VirtualWorkload, served_limits};
    use regatta::spec::{Length, LimitedMetric, Statistic};

    let gpu = GpuTiming { name: "H100".into(), memory_gb: 80.0, bandwidth_gbs: 3350.0, ..target().gpu };
    let log = read_step_log(&logged("vllm-h100", "step_log.jsonl")).unwrap();
    let fit = calibrate(&CalibrationTarget { gpu: gpu.clone(), ..target() }, &[log]).unwrap();
    assert!(fit.r_squared > 0.99 && fit.mean_error < 0.02, "{} {}", fit.r_squared, fit.mean_error);
    assert!(fit.held_out_error.unwrap() < 0.04, "{:?}", fit.held_out_error);
    let spec = EngineSpec {
        model: target().model,
        gpu,
        calibration: fit.calibration,
        precision: "bf16".into(),
        build_flags: serde_json::json!({"max_batch_size": 1024, "max_input_len": 32767, "max_seq_len": 32768,
            "max_num_tokens": 8192, "tokens_per_block": 16})
        .as_object()
        .unwrap()
        .clone(),
        ..super::ground::engine_spec()
    };
    // The pool that this server reported.
    let serving = EngineServing { kv_fraction: 1.0, kv_tokens: Some(450_288), ..EngineServing::default() };
    let server = served_limits(&spec, &serving).unwrap();
    let of = |inputs, outputs| VirtualWorkload {
        input_tokens: Length::Fixed(inputs),
        output_tokens: Length::Fixed(outputs),
        adapters: Vec::new(),
        seed: 1,
    };
    let number = |result: &VirtualResult, metric, one| result.statistic(metric, one).unwrap().unwrap();
    let (ttft, tpot, mean, p50) = (LimitedMetric::Ttft, LimitedMetric::Tpot, Statistic::Mean, Statistic::P50);
    let mut table = String::from("| load | | measured | error, % |\n|---|---|---|---|\n");
    let mut wrong = Vec::new();
    let mut row = |load: &str, what: &str, measured: f64, simulated: f64, most: f64| {
        let error = simulated / measured - 1.0;
        let digits = usize::from(measured < 100.0);
        let measured = regatta::units::grouped(measured, digits);
        let _ = writeln!(table, "| {load} | {what} | {measured} | {:+.1} |", 100.0 * error);
        if error.abs() > most {
            wrong.push(format!("{load}, {what}: {error}"));
        }
    };
    let all = VirtualBenchmark::new(&server, 1, &of(512, 128)).served(1000, None).unwrap();
    row("1,000 requests of 512 and 128 tokens at once", "tok/s", 5766.0, all.tokens_per_second(), 0.10);
    row("", "TTFT mean", 7394.0, number(&all, ttft, mean), 0.10);
    row("", "TPOT mean", 89.1, number(&all, tpot, mean), 0.10);
    let long = VirtualBenchmark::new(&server, 1, &of(30_000, 200)).served(24, None).unwrap();
    assert_eq!(long.pauses, 0);
    row("24 of 30,000 and 200 tokens at once", "tok/s", 140.9, long.tokens_per_second(), 0.10);
    row("", "TTFT mean", 15_180.0, number(&long, ttft, mean), 0.10);
    row("", "TPOT mean", 70.0, number(&long, tpot, mean), 0.15);
    // Rate, lengths, and the medians of TTFT and TPOT; of 20 a second with 512 tokens, the means of two runs.
    for (rate, inputs, outputs, measured_ttft, measured_tpot) in [
        (20.0, 16, 128, 22.1, 6.77),
        (20.0, 440, 128, 35.5, 8.48),
        (20.0, 512, 128, 47.0, 9.74),
        (20.0, 600, 128, 56.3, 10.73),
        (5.0, 512, 128, 38.0, 7.41),
        (5.9, 2000, 300, 74.5, 11.1),
    ] {
        let ran = VirtualBenchmark::new(&server, 1, &of(inputs, outputs)).served(2000, Some(rate)).unwrap();
        let load = format!("{rate} a second, {} and {outputs} tokens", regatta::units::grouped(f64::from(inputs), 0));
        row(&load, "TTFT p50", measured_ttft, number(&ran, ttft, p50), 0.35);
        row("", "TPOT p50", measured_tpot, number(&ran, tpot, p50), 0.15);
    }
    super::on_the_page("concepts/simulation.md", &table);
    assert!(wrong.is_empty(), "{table}{wrong:?}");
}

/// The calibration of this file in `manifests/calibrations`.
pub(super) fn shipped(file: &str) -> regatta::spec::SimCalibration {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/calibrations").join(file);
    let text = std::fs::read_to_string(path).unwrap();
    let mut settings = serde_json::Map::new();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    for (key, value) in lines.filter_map(|line| line.strip_prefix("    ")?.split_once(": ")) {
        let value = value.trim_matches('"');
        let number = value.parse::<f64>().map(|number| serde_json::json!(number));
        let whole = value.parse::<u64>().map(|number| serde_json::json!(number));
        settings.insert(key.to_owned(), whole.or(number).unwrap_or_else(|_| serde_json::json!(value)));
    }
    serde_json::from_value(settings.into()).unwrap()
}

/// What of a load was measured.
#[derive(Clone, Copy, PartialEq)]
enum Measured {
    TokensPerSecond,
    Latency(regatta::spec::LimitedMetric, regatta::spec::Statistic),
}

impl Measured {
    fn of(self, result: &regatta::sim::VirtualResult) -> f64 {
        match self {
            Self::TokensPerSecond => result.tokens_per_second(),
            Self::Latency(metric, statistic) => result.statistic(metric, statistic).unwrap().unwrap(),
        }
    }

    fn name(self) -> String {
        match self {
            Self::TokensPerSecond => "tok/s".to_owned(),
            Self::Latency(metric, statistic) => regatta::spec::LatencyLimit { metric, statistic, ms: 0.0 }.name(),
        }
    }
}

/// How requests arrive.
#[derive(Clone, Copy)]
enum Load {
    /// All at once, or at a rate.
    Requests(usize, Option<f64>),
    /// So many users, and requests of all of them.
    Users(usize, usize),
}

/// What was measured: each run of a server that had its host for itself, the one run beside three other servers on a host,
/// and what was fitted to it.
type Runs<'a> = (Measured, &'a [f64], Option<f64>, &'a str);

/// A load on servers with these limits, and what was measured of it.
type Row<'a> = (&'a str, &'a regatta::sim::EngineLimits, usize, Load, &'a [Runs<'a>]);

/// Loads that were measured with vLLM 0.24 on H200, 512 and 128 tokens, for 30 or 40 s: `tests/golden/vllm-h200/README.md`.
#[test]
fn loads_on_h200_come_out_near_what_was_measured() {
    use Measured::{Latency, TokensPerSecond as Tokens};
    use regatta::sim::{EngineServing, EngineSpec, VirtualBenchmark, VirtualWorkload, served_limits, with_users};
    use regatta::spec::Length;
    use regatta::spec::LimitedMetric::{Tpot, Ttft};
    use regatta::spec::Statistic::{Mean, P50, P99};

    const FITTED: &str = "fitted";
    // To the step log of the load, not to this number.
    const LOGGED: &str = "step log";
    const HELD_OUT: &str = "";

    let gpu = GpuTiming { link_gbs: Some(450.0), ..target().gpu };
    let small = ModelShape { ..super::ground::engine_spec().model };
    let large = ModelShape {
        name: "llama-70b".into(),
        parameters: 70_553_706_496,
        active_parameters: Some(70_553_706_496),
        num_hidden_layers: 80,
        hidden_size: 8192,
        intermediate_size: 28_672,
        num_attention_heads: 64,
        ..small.clone()
    };
    let server = |model: &ModelShape, tensor_parallelism| {
        let spec = EngineSpec {
            model: model.clone(),
            gpu: gpu.clone(),
            calibration: shipped("vllm-h200.yaml"),
            precision: "bf16".into(),
            tensor_parallelism,
            build_flags: serde_json::json!({"max_batch_size": 1024, "max_input_len": 4095, "max_seq_len": 4096,
                "max_num_tokens": 8192, "tokens_per_block": 16})
            .as_object()
            .unwrap()
            .clone(),
            ..super::ground::engine_spec()
        };
        served_limits(&spec, &EngineServing::default()).unwrap()
    };
    let (small, large) = (server(&small, 1), server(&large, 4));
    let workload = VirtualWorkload {
        input_tokens: Length::Fixed(512),
        output_tokens: Length::Fixed(128),
        adapters: Vec::new(),
        seed: 1,
    };
    let at = |rate: f64, servers: usize| Load::Requests((rate * 100.0) as usize * servers, Some(rate));
    let [ttft, tpot] = [Latency(Ttft, P50), Latency(Tpot, P50)];
    let [ttft99, tpot99] = [Latency(Ttft, P99), Latency(Tpot, P99)];
    let [mean_ttft, mean_tpot] = [Latency(Ttft, Mean), Latency(Tpot, Mean)];
    let rows: [Row<'_>; 14] = [
        (
            "one user",
            &small,
            1,
            Load::Users(1, 20),
            &[(ttft, &[23.0], Some(21.6), HELD_OUT), (tpot, &[4.95], Some(4.83), HELD_OUT)],
        ),
        (
            "16 users",
            &small,
            1,
            Load::Users(16, 128),
            &[(Tokens, &[2365.0, 2301.0], Some(2389.0), HELD_OUT), (mean_ttft, &[153.6, 170.8], Some(183.0), HELD_OUT)],
        ),
        (
            "64 users",
            &small,
            1,
            Load::Users(64, 384),
            &[(Tokens, &[5082.0], Some(4939.0), HELD_OUT), (mean_ttft, &[483.7], Some(506.0), FITTED)],
        ),
        (
            "256 users",
            &small,
            1,
            Load::Users(256, 1024),
            &[
                (Tokens, &[5486.0], Some(5424.0), FITTED),
                (mean_ttft, &[1771.0], Some(1822.0), HELD_OUT),
                (mean_tpot, &[33.0], Some(33.2), HELD_OUT),
            ],
        ),
        (
            "5 a second",
            &small,
            1,
            at(5.0, 1),
            &[(ttft, &[29.4, 35.2], Some(38.0), LOGGED), (tpot, &[5.32, 5.27], Some(5.21), LOGGED)],
        ),
        (
            "10 a second",
            &small,
            1,
            at(10.0, 1),
            &[(ttft, &[34.4, 44.8], Some(32.4), HELD_OUT), (tpot, &[5.74, 6.21], Some(5.66), HELD_OUT)],
        ),
        (
            "20 a second",
            &small,
            1,
            at(20.0, 1),
            &[
                (ttft, &[34.6, 38.1, 44.0, 38.2, 52.0], Some(60.7), LOGGED),
                (tpot, &[6.5, 6.77, 7.1, 6.93, 8.02], Some(8.34), LOGGED),
            ],
        ),
        ("28 a second", &small, 1, at(28.0, 1), &[(ttft, &[51.1], None, HELD_OUT), (tpot, &[9.70], None, HELD_OUT)]),
        (
            "35 a second",
            &small,
            1,
            at(35.0, 1),
            &[(ttft, &[48.2, 77.2], Some(69.3), HELD_OUT), (tpot, &[10.05, 12.22], Some(10.82), HELD_OUT)],
        ),
        ("800 at once", &small, 1, Load::Requests(800, None), &[(Tokens, &[5334.0, 5916.0], None, HELD_OUT)]),
        (
            "4,000 at once, four servers",
            &small,
            4,
            Load::Requests(4000, None),
            &[
                (Tokens, &[21_300.0, 22_200.0], None, HELD_OUT),
                (mean_ttft, &[7100.0], None, HELD_OUT),
                (mean_tpot, &[108.0], None, HELD_OUT),
            ],
        ),
        (
            "80 a second, four servers",
            &small,
            4,
            at(80.0, 1),
            &[(ttft99, &[88.8], None, "a tail"), (tpot99, &[13.6], None, "a tail")],
        ),
        ("70B on four GPUs, 800 at once", &large, 1, Load::Requests(800, None), &[(Tokens, &[2636.0], None, FITTED)]),
        (
            "70B on four GPUs, 10 a second",
            &large,
            1,
            at(10.0, 1),
            &[(tpot99, &[33.7], None, FITTED), (ttft99, &[275.0], None, "a tail")],
        ),
    ];
    let mut table = String::from(
        "| vLLM 0.24 on H200 | | measured | beside others | Regatta | AIConfigurator | with 8,192 tokens | BLIS | fit |\n\
        |---|---|---|---|---|---|---|---|---|\n",
    );
    let mut wrong = Vec::new();
    for (load, server, servers, arrivals, numbers) in rows {
        let result = match arrivals {
            Load::Requests(count, rate) => VirtualBenchmark::new(server, servers, &workload).served(count, rate),
            Load::Users(users, count) => with_users(server, servers, &workload, count, users),
        };
        let result = result.unwrap();
        for (place, (measured, runs, beside, role)) in numbers.iter().enumerate() {
            let value = runs.iter().sum::<f64>() / runs.len() as f64;
            let error = |simulated: f64| 100.0 * (simulated / value - 1.0);
            let number = |number: f64| regatta::units::grouped(number, usize::from(value < 100.0));
            let ends = [f64::min, f64::max].map(|end| number(runs.iter().copied().reduce(end).unwrap()));
            let range = if runs.len() > 1 { format!(" ({} to {})", ends[0], ends[1]) } else { String::new() };
            let row = PEERS.iter().find(|row| (row.0, row.1) == (load, *measured));
            let peers = row.map_or([None; 3], |(_, _, answers)| *answers);
            let peers = peers.map(|answer| answer.map_or_else(String::new, |answer| format!("{:+.0}", error(answer))));
            let own = error(measured.of(&result));
            let _ = writeln!(
                table,
                "| {} | {} | {}{range} | {} | {own:+.1} | {} | {role} |",
                if place == 0 { load } else { "" },
                measured.name(),
                number(value),
                beside.map_or_else(String::new, number),
                peers.join(" | ")
            );
            // The band of step logs for throughput, 15 % for latencies.
            let most = if *measured == Tokens { 10.0 } else { 15.0 };
            if [FITTED, LOGGED, HELD_OUT].contains(role) && own.abs() > most {
                wrong.push(format!("{load}, {}: {own:+.1} %", measured.name()));
            }
        }
    }
    super::on_the_page("concepts/simulation.md", &table);
    assert!(wrong.is_empty(), "{table}{wrong:?}");
}

/// What other simulators answer to the same loads.
///
/// AIConfigurator 0.12.0, with the users as its batch size, and its own `--ctx-tokens` (512, the prompt) or 8,192:
///
/// ```sh
/// aiconfigurator cli estimate --model-path FOLDER --system h200_sxm --backend vllm --perf-db-version 0.24.0 \
///   --isl 512 --osl 128 --tp-size 1 --gemm-quant-mode bfloat16 --kvcache-quant-mode bfloat16 \
///   --fmha-quant-mode bfloat16 --batch-size USERS
/// ```
///
/// BLIS (inference-sim, commit f90a1e3 of 2026-08-22) with its default model of latencies, trained-physics. Its
/// `hardware_config.json` has no H200: the H100's entry was copied, with 4.8 TB/s and 141 GiB. Users are `--concurrency
/// USERS --num-requests 6·USERS` (20 for one), rates a `--workload-spec` with Poisson arrivals for 100 seconds:
///
/// ```sh
/// blis run --model meta-llama/llama-3.1-8b-instruct --model-config-folder model_configs/llama-3.1-8b-instruct \
///   --hardware-config h200.json --hardware H200 --tp 1 --max-num-seqs 1024 --max-num-batched-tokens 8192 \
///   --max-model-len 4096
/// ```
const PEERS: &[(&str, Measured, [Option<f64>; 3])] = {
    use Measured::{Latency, TokensPerSecond};
    use regatta::spec::LimitedMetric::{Tpot, Ttft};
    use regatta::spec::Statistic::{Mean, P50};
    &[
        ("one user", Latency(Ttft, P50), [Some(37.082), Some(199.960), Some(21.858)]),
        ("one user", Latency(Tpot, P50), [Some(4.848), Some(4.848), Some(5.195)]),
        ("16 users", TokensPerSecond, [Some(2366.85), Some(1763.74), Some(2696.05)]),
        ("16 users", Latency(Ttft, Mean), [Some(57.579), Some(300.608), Some(38.881)]),
        ("64 users", TokensPerSecond, [Some(5657.71), Some(4308.39), Some(7946.00)]),
        ("64 users", Latency(Ttft, Mean), [Some(70.628), Some(354.148), Some(69.986)]),
        ("256 users", TokensPerSecond, [Some(5704.58), Some(6834.70), Some(15535.04)]),
        ("256 users", Latency(Ttft, Mean), [Some(95.726), Some(421.082), Some(112.893)]),
        ("256 users", Latency(Tpot, Mean), [Some(22.263), Some(34.140), Some(15.675)]),
        ("5 a second", Latency(Ttft, P50), [None, None, Some(24.54)]),
        ("5 a second", Latency(Tpot, P50), [None, None, Some(5.346)]),
        ("10 a second", Latency(Ttft, P50), [None, None, Some(24.95)]),
        ("10 a second", Latency(Tpot, P50), [None, None, Some(5.509)]),
        ("20 a second", Latency(Ttft, P50), [None, None, Some(25.37)]),
        ("20 a second", Latency(Tpot, P50), [None, None, Some(5.849)]),
        ("35 a second", Latency(Ttft, P50), [None, None, Some(26.32)]),
        ("35 a second", Latency(Tpot, P50), [None, None, Some(6.449)]),
    ]
};
