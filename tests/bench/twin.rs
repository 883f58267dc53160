//! The simulator in virtual time: requests per second of one core's time, memory, and a hash of what happened.
//!
//! ```text
//! cargo bench --bench twin                # full loads
//! cargo bench --bench twin -- hash        # small loads: only the hashes, to compare with those of another machine
//! ```
//!
//! Llama-2-70B in 8 bits on an H200, 294 tokens in and out. CPU time is this process's own, so that other programs do not count. A
//! hash is of the times and tokens of every request.

#![allow(clippy::print_stdout, reason = "a benchmark prints a table")]

use std::time::Instant;

use regatta::sim::{
    Chunking, EngineServing, EngineSpec, GpuTiming, SchedulerPolicy, VirtualRun, VirtualWorkload, served_limits,
    simulate,
};
use regatta::spec::{Length, ModelShape, SimCalibration};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use sha2::{Digest as _, Sha256};

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The most memory that this process had, MB.
fn peak_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or(0.0) / 1e3
}

fn spec() -> EngineSpec {
    EngineSpec {
        model: ModelShape {
            name: "llama2-70b".into(),
            architecture: "LlamaForCausalLM".into(),
            parameters: 68_976_648_192,
            active_parameters: Some(68_976_648_192),
            num_experts: None,
            experts_per_token: None,
            num_hidden_layers: 80,
            hidden_size: 8192,
            intermediate_size: 28672,
            num_attention_heads: 64,
            num_key_value_heads: 8,
            head_dim: None,
            vocab_size: 32000,
            max_position_embeddings: 4096,
        },
        gpu: GpuTiming {
            name: "H200".into(),
            memory_gb: 141.0,
            bandwidth_gbs: 4800.0,
            link_gbs: Some(450.0),
            tflops_16bit: 989.0,
        },
        calibration: SimCalibration::default(),
        precision: "fp8".into(),
        tensor_parallelism: 1,
        pipeline_parallelism: 1,
        checkpoint_flags: serde_json::Map::new(),
        build_flags:
            json!({"max_batch_size": 2048, "max_input_len": 1024, "max_seq_len": 2048, "max_num_tokens": 1536})
                .as_object()
                .cloned()
                .unwrap_or_default(),
        drafting: None,
        lora: None,
        max_cudagraph_capture_size: None,
    }
}

fn workload() -> VirtualWorkload {
    VirtualWorkload {
        input_tokens: Length::Lognormal { mean: 294.0, stddev: 220.0, min: 1, max: 1024 },
        output_tokens: Length::Lognormal { mean: 294.0, stddev: 230.0, min: 1, max: 1024 },
        adapters: Vec::new(),
        seed: 1,
    }
}

/// The first digits of the SHA-256 of these numbers.
fn hash(numbers: impl IntoIterator<Item = u64>) -> String {
    let mut hasher = Sha256::new();
    for number in numbers {
        hasher.update(number.to_le_bytes());
    }
    let digits: Vec<String> = hasher.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    digits.concat()
}

fn hash_of_run(run: &VirtualRun) -> String {
    let requests = run.requests.iter().flat_map(|it| [it.first, it.last, it.tokens, u64::from(it.pauses)]);
    hash(requests.chain([run.end, run.steps, run.peak_blocks]))
}

/// What a line has beside the name of the load.
struct Line<'a> {
    name: &'a str,
    requests: u64,
    steps: u64,
    end: u64,
    /// CPU time and time on the clock before it.
    begin: (f64, Instant),
    hash: &'a str,
}

fn print(line: &Line<'_>, is_timed: bool) {
    let Line { name, requests, steps, end, begin: (cpu, wall), hash } = line;
    if !is_timed {
        println!("{name} | {requests} | {hash}");
        return;
    }
    println!(
        "{name} | {requests} | {steps} | {:.0} | {:.0} | {:.1} | {:.0} | {hash}",
        *end as f64 / 1e9,
        *requests as f64 / (cpu_seconds() - cpu),
        wall.elapsed().as_secs_f64(),
        peak_mb()
    );
}

fn main() {
    let has = |wanted: &str| std::env::args().any(|word| word == wanted);
    let is_timed = !has("hash");
    let serving = EngineServing { chunking: Chunking::FirstComeFirstServed, ..EngineServing::default() };
    let server = served_limits(&spec(), &serving).expect("the engine fits");
    if is_timed {
        println!("load | requests | steps | virtual s | requests per second of CPU time | wall s | peak MB | hash");
    }
    let size = if is_timed { 1 } else { 20 };
    for (name, policy, rate, count) in [
        ("all at once", SchedulerPolicy::GuaranteedNoEvict, None, 40_000),
        ("12 a second", SchedulerPolicy::GuaranteedNoEvict, Some(12.0), 200_000),
        ("12 a second, vLLM's scheduler", SchedulerPolicy::Vllm, Some(12.0), 200_000),
        ("4 a second", SchedulerPolicy::MaxUtilization, Some(4.0), 200_000),
    ] {
        let limits = regatta::sim::EngineLimits { policy, ..server.clone() };
        let load = workload().requests(count / size, rate);
        let begin = (cpu_seconds(), Instant::now());
        let run = simulate(&limits, &load).expect("every request fits");
        let requests = load.len() as u64;
        let hash = &hash_of_run(&run);
        print(&Line { name, requests, steps: run.steps, end: run.end, begin, hash }, is_timed);
    }
}
