//! CPU of the load workers' threads against a server that answers at once: for 1,000 streamed tokens, and for 1,000
//! requests of one token.

use regatta::harness::LoadPattern;
use regatta::spec::Arrivals;

use crate::Outcome;
use crate::floor;
use crate::race::Race;
use crate::server::Server;
use crate::spread::Spread;

const REPEATS: usize = 5;
/// About as long as a request of 32 prompt tokens.
const BYTES: usize = 512;

struct Case {
    label: &'static str,
    goal: &'static str,
    scenario: LoadPattern,
    requests: u64,
    tokens: u32,
    clients: u32,
}

pub fn print(share: f64) -> Outcome {
    println!("CPU of the load workers, ms per 1,000 tokens or one-token requests: median of {REPEATS} (least to most)");
    let users = |users: f64| LoadPattern::Concurrency { users: users.into() };
    let case =
        |label, goal, scenario, requests, tokens, clients| Case { label, goal, scenario, requests, tokens, clients };
    for case in [
        case("128 tokens, 8 users, 1 connection", "0.3", users(8.0), 10_000, 128, 1),
        case("128 tokens, 64 users, 2 connections", "0.3", users(64.0), 10_000, 128, 2),
        case("128 tokens, all at once, 2 connections", "0.3", LoadPattern::Offline, 10_000, 128, 2),
        case("1 token, 8 users, 1 connection", "15", users(8.0), 20_000, 1, 1),
        case("1 token, 64 users, 2 connections", "15", users(64.0), 20_000, 1, 2),
        case("1 token, 100,000 at once, 2 connections", "15", LoadPattern::Offline, 100_000, 1, 2),
    ] {
        let server = Server::at_once(case.tokens)?;
        let (mut cpu, mut rate) = (Vec::new(), Vec::new());
        for _ in 0..REPEATS {
            let race = Race {
                scenario: case.scenario.clone(),
                arrivals: Arrivals::Constant,
                requests: (case.requests as f64 * share).ceil() as u64,
                tokens: case.tokens,
                clients: case.clients,
                seed: 1,
            };
            let result = race.run(&server)?.result;
            cpu.push(result.client.cpu_ms_per_1000_chunks.unwrap_or(f64::NAN));
            rate.push(result.rates.output_tokens.unwrap_or(f64::NAN));
        }
        let (cpu, rate) = (Spread::of(cpu), Spread::of(rate));
        println!(
            "  {:<42} {:<24} goal ≤ {:<4} at {:>9.0} tokens/s",
            case.label,
            cpu.summary(3),
            case.goal,
            rate.median()
        );
    }
    println!("The same for h2 alone, 8 users on 1 connection, answers dropped unread: the floor of any client on it");
    for (label, tokens, requests) in [("128 tokens", 128, 10_000.0), ("1 token", 1, 20_000.0)] {
        let server = Server::at_once(tokens)?;
        let requests = (requests * share).ceil() as u64;
        let costs = (0..REPEATS).map(|_| floor::cost(&server, 8, requests, BYTES)).collect::<Result<Vec<_>, _>>()?;
        println!("  {label:<42} {}", Spread::of(costs).summary(3));
    }
    Ok(())
}
