//! What LoadGen costs through the harness: the way of a query to the socket, of a token to LoadGen, and the rate that a
//! server which answers at once is asked at. `cargo bench --bench loadgen -- LIBLOADGEN [QPS …]`, on a quiet machine;
//! `-- serve` only starts that server, for another client to be held against.
//!
//! Server scenario, 8 tokens an answer, short durations. The client is a process of its own, as in a pipeline.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use regatta::harness::{BenchSpec, CallSource, LoadPattern, Slo, read_result};
use regatta::mlperf::DatasetRecord;
use regatta::mlperf::loadgen::{ChildOrders, LoadgenTest};
use regatta::rules::{Round, TestRequest, conf};
use regatta::sim::{GroundTruthServer, ResponsePattern};
use regatta::spec::{Arrivals, Division, Length, Limits, StopAfter, TestMode};

const TOKENS: u32 = 8;
const SAMPLES: u64 = 64;
const SECONDS: u64 = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let mut out = std::io::stdout().lock();
    let server = GroundTruthServer::start(ResponsePattern::AtOnce { tokens: TOKENS })?;
    let Some(library) = words.first() else {
        writeln!(out, "needs the path of a libloadgen.so, as a `mlperf: {{ loadgen: … }}` stage builds it")?;
        return Ok(());
    };
    if library == "serve" {
        writeln!(out, "{}", server.address)?;
        out.flush()?;
        loop {
            std::thread::park();
        }
    }
    let rates: Vec<f64> = words[1..].iter().filter_map(|word| word.parse().ok()).collect();
    let rates = if rates.is_empty() { vec![500.0, 1_000.0, 2_000.0, 4_000.0, 8_000.0] } else { rates };
    for rate in rates {
        let folder = tempfile::tempdir()?;
        let result = measure(&server, Path::new(library), rate, folder.path())?;
        let loadgen = result.loadgen.unwrap_or_default();
        let metric = |name: &str| loadgen.metrics.iter().find(|m| m.metric == name).map_or(f64::NAN, |m| m.loadgen);
        let us = |value: Option<f64>| value.unwrap_or(f64::NAN);
        writeln!(
            out,
            "{rate} qps requested, {:.0} completed: TTFT p50 {:.3} ms, p99 {:.3} ms; call to send p50 {:.1} µs, p99 {:.1} µs; \
             first token from read to report p50 {:.1} µs, p99 {:.1} µs; in LoadGen {:.2} µs a first token, {:.2} µs an answer; {} errors",
            metric("result_completed_samples_per_sec"),
            metric("result_first_token_50.00_percentile_latency_ns"),
            metric("result_first_token_99.00_percentile_latency_ns"),
            us(result.latency.queue_client.p50) * 1e3,
            us(result.latency.queue_client.p99) * 1e3,
            us(loadgen.reporting.first_token_p50_us),
            us(loadgen.reporting.first_token_p99_us),
            us(loadgen.reporting.first_token_call_us),
            us(loadgen.reporting.completion_call_us),
            loadgen.errors,
        )?;
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a bench starts the program that it measures")]
fn measure(
    server: &GroundTruthServer,
    library: &Path,
    rate: f64,
    out: &Path,
) -> Result<regatta::harness::RunResult, Box<dyn std::error::Error>> {
    let round = Round::named("v5.1").ok_or("round")?;
    let line = format!("{{\"input_ids\":{:?}}}\n", (3..35).collect::<Vec<i32>>());
    std::fs::write(out.join("dataset.jsonl"), line.repeat(SAMPLES as usize))?;
    let more: indexmap::IndexMap<String, serde_json::Value> =
        [("min_duration".to_owned(), (SECONDS * 1_000).into())].into_iter().collect();
    let request = TestRequest {
        round: "v5.1",
        benchmark: "llama2-70b-99.9",
        scenario: regatta::rules::MlperfScenario::Server,
        mode: TestMode::Performance,
        division: Division::Open,
        rehearsal: true,
        target_qps: Some(rate),
        user_conf: &more,
        dataset_samples: Some(SAMPLES),
    };
    let conf = conf::conf(&request).map_err(|wrong| format!("{wrong:?}"))?;
    std::fs::write(out.join("user.conf"), conf.text)?;
    let test = LoadgenTest {
        library: std::path::absolute(library)?,
        samples: out.join("dataset.jsonl"),
        dataset: DatasetRecord {
            benchmark: "llama2-70b-99.9".to_owned(),
            synthetic: true,
            samples: SAMPLES,
            sha256: String::new(),
        },
        out: out.to_owned(),
        spec: spec(server)?,
        round: round.name.clone(),
        benchmark: "llama2-70b-99.9".to_owned(),
        scenario: regatta::rules::MlperfScenario::Server,
        mode: TestMode::Performance,
        division: Division::Open,
        rehearsal: Some(SAMPLES),
        target_qps: Some(rate),
        user_conf: out.join("user.conf"),
        user_keys: vec!["min_duration".to_owned()],
        audit: None,
        sut_name: "a server that answers at once".to_owned(),
    };
    let job = out.join("job.json");
    std::fs::write(&job, serde_json::to_vec(&ChildOrders::Test(Box::new(test)))?)?;
    let output = Command::new(env!("CARGO_BIN_EXE_regatta")).arg("__loadgen-test").arg(&job).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stdout).into_owned().into());
    }
    Ok(read_result(&out.join("result.json"))?)
}

fn spec(server: &GroundTruthServer) -> Result<BenchSpec, Box<dyn std::error::Error>> {
    Ok(BenchSpec {
        endpoints: vec![server.address.to_string().parse()?],
        protocol: regatta::harness::Transport::Kserve,
        model: "tensorrt_llm".to_owned(),
        scenario: LoadPattern::External(CallSource::AtTimes),
        arrivals: Arrivals::Constant,
        stop: StopAfter::default(),
        input_len: Length::Given,
        output_len: Length::Given,
        seed: 0,
        warmup: 10,
        pace: regatta::harness::SendingSpec::default(),
        content: regatta::harness::PromptSource::default(),
        frontends: 1,
        clients: 2,
        stall_timeout: Duration::from_mins(1),
        limits: Limits::default(),
        slo: Slo::default(),
        timelines: false,
        vocab_size: 32_000,
        end_id: 2,
        request: regatta::spec::Request::default(),
    })
}
