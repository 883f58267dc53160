//! CPU of the load workers' threads against a server that answers at once: for 1,000 streamed tokens, and for 1,000
//! requests of one token.

use regatta::harness::LoadPattern;
use regatta::spec::Arrivals;

use crate::Outcome;
use crate::floor;
use crate::race::Race;
use crate::server::Server;
use crate::spread::Spread;
use crate::sse;

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
    over_http(share)
}

/// OpenAI's events over HTTP/1.1, and after each case a client on as many connections that drops them unread.
fn over_http(share: f64) -> Outcome {
    println!(
        "The same over HTTP, completions in server-sent events; behind it the floor: sockets read, nothing parsed"
    );
    for (label, tokens, gap_ms, users, requests) in [
        ("128 tokens in one write, 8 users", 128, 0, 8_u32, 10_000.0),
        ("128 tokens in one write, 64 users", 128, 0, 64, 10_000.0),
        ("128 tokens 2 ms apart, 8 users", 128, 2, 8, 400.0),
        ("128 tokens 2 ms apart, 64 users", 128, 2, 64, 2_000.0),
        ("1 token, 8 users", 1, 0, 8, 20_000.0),
    ] {
        let server = Server::sse(tokens, gap_ms)?;
        let requests = (requests * share).ceil() as u64;
        let (mut cpu, mut floors) = (Vec::new(), Vec::new());
        for _ in 0..REPEATS {
            let race = Race {
                scenario: LoadPattern::Concurrency { users: f64::from(users).into() },
                arrivals: Arrivals::Constant,
                requests,
                tokens,
                clients: 1,
                seed: 1,
            };
            let result = race.run_over_http(&server)?.result;
            cpu.push(result.client.cpu_ms_per_1000_chunks.unwrap_or(f64::NAN));
            floors.push(sse::floor(&server, users.into(), requests, BYTES, tokens.into())?);
        }
        let (cpu, floors) = (Spread::of(cpu), Spread::of(floors));
        println!("  {label:<42} {:<24} floor {}", cpu.summary(3), floors.summary(3));
    }
    Ok(())
}
