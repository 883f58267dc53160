//! What the load generator itself costs: CPU per 1,000 streamed responses and the ceiling, against a server that
//! answers at once. `cargo bench --bench harness [-- requests tokens]`, on a machine with nothing else to do.
//!
//! The server writes ready-made responses, one DATA frame each, from a thread of its own in the same process; the CPU
//! reported is that of the load workers only. Where both share two cores the ceiling is that of the pair.

use std::io::Write as _;
use std::time::Duration;

use regatta::event::Stop;
use regatta::harness::{Arrivals, Ended, Length, Limits, Scenario, Slo, Spec, Until, run};
use regatta::sim::{Manner, Proof};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let mut out = std::io::stdout().lock();
    let cases = match numbers[..] {
        [requests, tokens] => vec![(requests, tokens, 2)],
        _ => vec![(20_000, 128, 1), (20_000, 128, 2), (50_000, 1, 1), (50_000, 1, 2)],
    };
    for (requests, tokens, clients) in cases {
        let server = Proof::start(Manner::AtOnce { tokens: tokens as u32 })?;
        let spec = Spec {
            endpoints: vec![server.address.to_string().parse()?],
            protocol: regatta::harness::Protocol::Kserve,
            model: "tensorrt_llm".to_owned(),
            scenario: Scenario::Offline,
            arrivals: Arrivals::Constant,
            stop: Until { requests: Some(requests), duration: None },
            input_len: Length::Fixed(32),
            output_len: Length::Fixed(tokens as u32),
            seed: 1,
            warmup: 10,
            pace: regatta::harness::Pace::default(),
            content: regatta::harness::Content::default(),
            frontends: 1,
            clients,
            stall_timeout: Duration::from_mins(1),
            limits: Limits::default(),
            slo: Slo::default(),
            timelines: false,
            vocab_size: 32_000,
            end_id: 2,
            request: regatta::harness::Request::default(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let measured = runtime.block_on(run(&spec, &Stop::new(), |_| {}))?;
        assert!(measured.requests.iter().all(|request| request.ended == Ended::Ok), "{:?}", measured.result.counts);
        let result = measured.result;
        writeln!(
            out,
            "{requests} requests of {tokens} tokens, {} workers: {:.2} ms CPU per 1,000 responses, {:.0} responses/s, {:.0} requests/s, busiest worker {:.0} % of a core",
            result.client.workers,
            result.client.cpu_ms_per_1000_chunks.unwrap_or(f64::NAN),
            result.rates.output_tokens.unwrap_or(f64::NAN),
            result.rates.requests_full.unwrap_or(f64::NAN),
            result.client.cpu_share_max * 100.0,
        )?;
    }
    Ok(())
}
