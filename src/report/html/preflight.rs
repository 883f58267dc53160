//! What was tried before the measurement, on the page.

use super::block::{Block, percent};
use super::svg::number;
use harness::preflight::PreflightResult;

pub(super) fn section(preflight: &PreflightResult) -> Block {
    let load = match (preflight.rate, preflight.users) {
        (Some(rate), _) => format!("{} req/s", number(rate)),
        (_, Some(users)) => format!("{} users", number(users)),
        _ => "the planned load".to_owned(),
    };
    let tries = if preflight.tries > 1 { " The better of two tries." } else { "" };
    let mut block = Block {
        title: "Preflight: can this machine generate the load",
        about: format!(
            "Tested just before the measurement, for {} s: {load} with {} tokens an answer, against {}. The server under test received no requests.{tries}",
            number(preflight.seconds),
            number(f64::from(preflight.tokens_per_answer)),
            preflight.server,
        ),
        ..Block::default()
    };
    block.fact("outcome", Some(preflight.outcome.replace('_', " ")), "of the checks below");
    block.fact(
        "issue behind schedule, p99 ms",
        preflight.lag_p99_ms.map(number),
        format!(
            "of {} issued requests; warning above {}, invalid above {}",
            number(preflight.requests as f64),
            number(preflight.lag_bound_ms),
            number(preflight.lag_hard_bound_ms)
        ),
    );
    block.fact("busiest load worker", Some(percent(preflight.cpu_share_max)), "share of a core during the trial");
    block.fact("CPU ms for 1,000 chunks", preflight.cpu_ms_per_1000_chunks.map(number), "of all load workers");
    let planned = preflight.planned_tokens_per_s.map(number).unwrap_or_default();
    block.fact(
        "a core of each worker, at the planned load",
        preflight.cpu_share_planned.map(percent),
        format!("for {planned} planned tokens/s, from the CPU for 1,000 chunks"),
    );
    block.count("most requests under way", preflight.in_flight_max, "at once, during the trial");
    block
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reader_sees_what_was_tried_and_against_what() {
        let preflight = json!({
            "server": "a server of ours", "outcome": "invalid_client", "tries": 2, "seconds": 1.8, "requests": 60, "rate": 50.0,
            "tokens_per_answer": 100, "lag_p99_ms": 6.5, "lag_bound_ms": 1.0, "lag_hard_bound_ms": 5.0, "cpu_share_max": 0.25,
            "in_flight_max": 31,
        });
        let block = section(&serde_json::from_value(preflight).unwrap());
        assert!(
            block.about.contains("50 req/s with 100 tokens") && block.about.contains("better of two"),
            "{}",
            block.about
        );
        let fact = |name: &str| block.facts.iter().find(|fact| fact[0].starts_with(name)).expect(name).clone();
        assert_eq!(fact("outcome")[1], "invalid client");
        assert_eq!(fact("issue behind")[1..], ["6.5", "of 60 issued requests; warning above 1, invalid above 5"]);
        assert!(!block.facts.iter().any(|fact| fact[0].contains("planned")), "what is not known is not shown");
    }
}
