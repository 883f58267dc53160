//! The simulator in virtual time: requests per second of one core's time, and memory.
//!
//! ```text
//! cargo bench --bench twin                # a server, and an hour of a fleet
//! cargo bench --bench twin -- day         # 10,000 GPUs for a day: 1,250 replicas of eight
//! ```
//!
//! Llama-2-70B in 8 bits on an H200, 294 tokens in and out. CPU time is this process's own, so that other programs do not count.

#![allow(clippy::print_stdout, reason = "a benchmark prints a table")]

use std::time::Instant;

use regatta::sim::{
    Balancer, Chunking, DecoderModel, EngineSpec, Failures, Fleet, GpuTiming, RateOverTime, SchedulerPolicy,
    TwinServing, VirtualWorkload, run_fleet, simulate, twin,
};
use regatta::spec::{Length, SimCalibration};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

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

fn spec(tensor_parallelism: u32) -> EngineSpec {
    EngineSpec {
        model: DecoderModel {
            name: "llama2-70b".into(),
            architecture: "LlamaForCausalLM".into(),
            parameters: 68_976_648_192,
            active_parameters: 68_976_648_192,
            experts: None,
            num_hidden_layers: 80,
            hidden_size: 8192,
            intermediate_size: 28672,
            num_attention_heads: 64,
            num_key_value_heads: 8,
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
        tensor_parallelism,
        pipeline_parallelism: 1,
        checkpoint_flags: serde_json::Map::new(),
        build_flags:
            json!({"max_batch_size": 2048, "max_input_len": 1024, "max_seq_len": 2048, "max_num_tokens": 1536})
                .as_object()
                .cloned()
                .unwrap_or_default(),
    }
}

fn workload() -> VirtualWorkload {
    VirtualWorkload {
        input_tokens: Length::Lognormal { mean: 294.0, stddev: 220.0, min: 1, max: 1024 },
        output_tokens: Length::Lognormal { mean: 294.0, stddev: 230.0, min: 1, max: 1024 },
        seed: 1,
    }
}

fn main() {
    let serving = TwinServing { chunking: Chunking::FirstComeFirstServed, ..TwinServing::default() };
    let server = twin(&spec(1), &serving).expect("the engine fits");
    println!("load | requests | steps | virtual s | requests per second of CPU time | wall s | peak MB");
    for (name, policy, rate, count) in [
        ("all at once", SchedulerPolicy::GuaranteedNoEvict, None, 40_000),
        ("12 a second", SchedulerPolicy::GuaranteedNoEvict, Some(12.0), 200_000),
        ("12 a second, vLLM's scheduler", SchedulerPolicy::Vllm, Some(12.0), 200_000),
        ("4 a second", SchedulerPolicy::MaxUtilization, Some(4.0), 200_000),
    ] {
        let limits = regatta::sim::EngineLimits { policy, ..server.clone() };
        let load = workload().requests(count, rate);
        let (cpu, wall) = (cpu_seconds(), Instant::now());
        let run = simulate(&limits, &load).expect("every request fits");
        println!(
            "{name} | {count} | {} | {:.0} | {:.0} | {:.1} | {:.0}",
            run.steps,
            run.end as f64 / 1e9,
            count as f64 / (cpu_seconds() - cpu),
            wall.elapsed().as_secs_f64(),
            peak_mb()
        );
    }
    let is_day = std::env::args().any(|word| word == "day");
    // 78 balancers of 16 replicas and two more: as near to 1,250 as whole balancers are.
    let (name, balancers, rate) = if is_day {
        ("1,248 replicas of 8 GPUs, a day", 78, RateOverTime::day(400.0, 1600.0))
    } else {
        ("64 replicas of 8 GPUs, an hour", 4, RateOverTime::parse("0,320\n3600,320").expect("two points"))
    };
    for policy in [Balancer::RoundRobin, Balancer::LeastLoad] {
        let fleet = Fleet {
            server: twin(&spec(8), &serving).expect("the engine fits"),
            policy,
            balancers,
            replicas: 16,
            simulated: balancers,
            rate: rate.clone(),
            workload: workload(),
            prefixes: None,
            failures: Some(Failures { mean_time_between: 30.0 * 86_400.0, repair: 600.0 }),
        };
        let (cpu, wall) = (cpu_seconds(), Instant::now());
        let result = run_fleet(&fleet, 2).expect("every request fits");
        println!(
            "{name}, {policy:?} | {} | {} | {:.0} | {:.0} | {:.1} | {:.0}",
            result.answered,
            result.steps,
            result.end as f64 / 1e9,
            result.answered as f64 / (cpu_seconds() - cpu),
            wall.elapsed().as_secs_f64(),
            peak_mb()
        );
    }
}
