//! 1,000 streams at once: whether all of them are at the server as soon as they are sent, or wait in a queue that nobody
//! shows.

use regatta::harness::LoadPattern;
use regatta::spec::Arrivals;

use crate::Outcome;
use crate::race::Race;
use crate::server::{Server, Truth, monotonic};
use crate::spread::Spread;

const STREAMS: u64 = 1_000;
const TOKENS: u32 = 40;
const GAP_MS: f64 = 50.0;
const OVER_HTTP: u64 = 400;

pub fn print(_: f64) -> Outcome {
    println!("{STREAMS} concurrent streams ({TOKENS} tokens, {GAP_MS} ms each), 8 connections, all sent at once");
    // Some time before the first token, so that all are there before any is done.
    let mut server = Server::paced(1_000.0, GAP_MS)?;
    let race = Race {
        scenario: LoadPattern::Offline,
        arrivals: Arrivals::Constant,
        requests: STREAMS,
        tokens: TOKENS,
        clients: 8,
        seed: 1,
    };
    let measured = race.run(&server)?;
    let truths = server.truths()?;
    let (zero, requests) = (monotonic(measured.zero), measured.requests.to_vec());
    let on_the_way = Spread::of(truths.iter().map(|truth| {
        let issue = zero + i128::from(requests[truth.id as usize].t_issue);
        (truth.came - issue) as f64 / 1e6
    }));
    let result = &measured.result;
    println!(
        "  most at the server at once: {}; waited for a stream: {}; from issue to the server, ms p50 / p99 / max: \
         {:.2} / {:.2} / {:.2}",
        most_at_once(&truths),
        result.connections.waited_for_stream,
        on_the_way.median(),
        on_the_way.at(0.99),
        on_the_way.at(1.0),
    );
    println!(
        "  gap between tokens, ms p50 / p99: {:.2} / {:.2}; socket read to our hands, ms p99: {:.3}; busiest worker \
         {:.0} % of a core",
        result.latency.icl.p50.unwrap_or(f64::NAN),
        result.latency.icl.p99.unwrap_or(f64::NAN),
        result.client.backlog_p99_ms.unwrap_or(f64::NAN),
        result.client.cpu_share_max * 1e2,
    );
    over_http()
}

/// Offline over HTTP: how long it takes until all requests are at the server.
fn over_http() -> Outcome {
    let mut server = Server::sse(1, 100)?;
    let race = Race {
        scenario: LoadPattern::Offline,
        arrivals: Arrivals::Constant,
        requests: OVER_HTTP,
        tokens: 1,
        clients: 1,
        seed: 1,
    };
    let measured = race.run_over_http(&server)?;
    let zero = monotonic(measured.zero);
    let ms = |ns: i128| ns as f64 / 1e6;
    let came = Spread::of(server.truths()?.iter().map(|truth| ms(truth.came - zero)));
    let issued = Spread::of(measured.requests.iter().map(|request| ms(request.t_issue.into())));
    println!(
        "{OVER_HTTP} at once over HTTP: the last is issued {:.2} ms after the start, and at the server after {:.2} ms \
         (the first after {:.2}); goal 10",
        issued.at(1.0),
        came.at(1.0),
        came.at(0.0),
    );
    Ok(())
}

fn most_at_once(truths: &[Truth]) -> i64 {
    let mut changes: Vec<(i128, i64)> = truths.iter().flat_map(|truth| [(truth.came, 1), (truth.last, -1)]).collect();
    changes.sort_unstable();
    let mut now = 0;
    let levels = changes.iter().map(|(_, change)| {
        now += change;
        now
    });
    levels.max().unwrap_or_default()
}
