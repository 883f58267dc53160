//! What was tried before the measurement, on the page.

use serde_json::Value;

use super::block::{Block, at, percent, shown, text};
use super::svg::number;

pub(super) fn read(result: &Value) -> Option<Block> {
    let told = result.get("preflight").filter(|told| told.is_object())?;
    let load = match (shown(told, "/rate"), shown(told, "/users")) {
        (Some(rate), _) => format!("{rate} req/s"),
        (_, Some(users)) => format!("{users} users"),
        _ => "the planned load".to_owned(),
    };
    let tries = if at(told, "/tries").is_some_and(|tries| tries > 1.0) { " The better of two tries." } else { "" };
    let mut block = Block {
        title: "Preflight: can this machine generate the load",
        about: format!(
            "Tested just before the measurement, for {} s: {load} with {} tokens an answer, against {}. The server under test received no requests.{tries}",
            shown(told, "/seconds").unwrap_or_default(),
            shown(told, "/tokens_per_answer").unwrap_or_default(),
            text(told, "/server").unwrap_or("a server that does no work"),
        ),
        ..Block::default()
    };
    block.fact("outcome", text(told, "/outcome").map(|outcome| outcome.replace('_', " ")), "of the checks below");
    let bounds = |path: &str| at(told, path).map(number).unwrap_or_default();
    block.fact(
        "issue behind schedule, p99 ms",
        shown(told, "/lag_p99_ms"),
        format!(
            "of {} issued requests; warning above {}, invalid above {}",
            bounds("/requests"),
            bounds("/lag_bound_ms"),
            bounds("/lag_hard_bound_ms")
        ),
    );
    block.fact("busiest load worker", at(told, "/cpu_share_max").map(percent), "share of a core during the trial");
    block.fact("CPU ms for 1,000 chunks", shown(told, "/cpu_ms_per_1000_chunks"), "of all load workers");
    block.fact(
        "a core of each worker, at the planned load",
        at(told, "/cpu_share_planned").map(percent),
        format!("for {} planned tokens/s, from the CPU for 1,000 chunks", bounds("/planned_tokens_per_s")),
    );
    block.fact("most requests under way", shown(told, "/in_flight_max"), "at once, during the trial");
    Some(block)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reader_sees_what_was_tried_and_against_what() {
        let block = read(&json!({ "preflight": {
            "server": "a server of ours", "outcome": "invalid_client", "tries": 2, "seconds": 1.8, "requests": 60, "rate": 50.0,
            "tokens_per_answer": 100, "lag_p99_ms": 6.5, "lag_bound_ms": 1.0, "lag_hard_bound_ms": 5.0, "cpu_share_max": 0.25,
            "in_flight_max": 31,
        }}))
        .expect("a block");
        assert!(
            block.about.contains("50 req/s with 100 tokens") && block.about.contains("better of two"),
            "{}",
            block.about
        );
        let fact = |name: &str| block.facts.iter().find(|fact| fact[0].starts_with(name)).expect(name).clone();
        assert_eq!(fact("outcome")[1], "invalid client");
        assert_eq!(fact("issue behind")[1..], ["6.5", "of 60 issued requests; warning above 1, invalid above 5"]);
        assert!(!block.facts.iter().any(|fact| fact[0].contains("planned")), "what is not known is not told");
        assert!(read(&json!({})).is_none());
    }
}
