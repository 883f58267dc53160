//! The load of eight GPUs in the reference submission: 98 requests/s of 296 tokens, 29,000 tokens/s. How much of the
//! server's own capacity is delivered, Offline and as Server.

use regatta::harness::{LoadPattern, Measured};
use regatta::spec::Arrivals;

use crate::Outcome;
use crate::capacity::used;
use crate::race::Race;
use crate::server::{Server, Truth};

const TOKENS: u32 = 296;
const RATE: f64 = 98.0;
/// Streams that the server takes at once on a connection.
const PLACES: u32 = 200;
const GAP_MS: f64 = PLACES as f64 * 1e3 / (RATE * TOKENS as f64);
const SECONDS: f64 = 15.0;

pub fn print(share: f64) -> Outcome {
    println!("The load of 8 GPUs: {RATE} requests/s, {:.0} tokens/s; goal ≥ 99.9 %", RATE * f64::from(TOKENS));
    let race = |scenario, clients| Race {
        scenario,
        arrivals: Arrivals::Poisson,
        requests: ((RATE * SECONDS * share) as u64).max(2 * u64::from(PLACES)),
        tokens: TOKENS,
        clients,
        seed: 1,
    };
    let mut server = Server::paced(GAP_MS, GAP_MS)?;
    // One connection: the server's limit of 200 streams is its capacity, and the queue stands at the client.
    let offline = race(LoadPattern::Offline, 1).run(&server)?;
    let truths = server.truths()?;
    print_row("Offline: places at the server taken", used(&truths, PLACES as usize), &offline, &truths);
    let served = race(LoadPattern::Server { rate: RATE.into() }, 2).run(&server)?;
    let truths = server.truths()?;
    print_row(
        "Server: the server's own time in what was measured from the schedule",
        own_time(&served, &truths),
        &served,
        &truths,
    );
    Ok(())
}

/// From arrival at the server to its last token, over from the schedule to our last token; of all requests together.
fn own_time(measured: &Measured, truths: &[Truth]) -> f64 {
    let theirs: i128 = truths.iter().map(|truth| truth.last - truth.came).sum();
    let ours: u64 = measured.requests.iter().filter_map(|request| Some(request.t_last? - request.t_sched)).sum();
    theirs as f64 / ours as f64
}

fn print_row(what: &str, share: f64, measured: &Measured, truths: &[Truth]) {
    let tokens: u64 = truths.iter().map(|truth| truth.tokens).sum();
    println!(
        "  {what}: {:.3} %; {} of its {tokens} tokens counted, {:.0} tokens/s; {} workers, busiest {:.0} % of a core, \
         {:.2} ms of CPU per 1,000 tokens",
        share * 1e2,
        measured.result.tokens.output,
        measured.result.rates.output_tokens.unwrap_or(f64::NAN),
        measured.result.client.workers,
        measured.result.client.cpu_share_max * 1e2,
        measured.result.client.cpu_ms_per_1000_chunks.unwrap_or(f64::NAN),
    );
}
