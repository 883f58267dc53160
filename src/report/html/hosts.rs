//! What each host did, of a run that was spread over several.

use super::block::Block;
use super::metric_row::cell;
use super::svg::number;
use harness::{HostShare, RunResult, zero_point_text};

const HEAD: [&str; 10] = [
    "host",
    "ok",
    "failed",
    "requests/s",
    "tokens/s",
    "TTFT p50, ms",
    "TTFT p99, ms",
    "TPOT p50, ms",
    "TPOT p99, ms",
    "metrics read",
];

pub(super) fn section(result: &RunResult) -> Option<Block> {
    let row = |host: &HostShare| {
        vec![
            host.host.clone(),
            number(host.ok as f64),
            number(host.failed as f64),
            cell(host.requests_per_s),
            cell(host.output_tokens_per_s),
            cell(host.ttft.p50),
            cell(host.ttft.p99),
            cell(host.tpot.p50),
            cell(host.tpot.p99),
            cell(host.server_metrics.as_ref().map(|metrics| metrics.scrapes as f64)),
        ]
    };
    (!result.hosts.is_empty()).then(|| Block {
        title: "Hosts",
        about: format!(
            "Each host's own requests. Rates are over the window of the whole run, so they add up; TTFT from {}, of successful requests; tokens from {}.",
            zero_point_text(&result.latency.ttft.zero_point),
            result.tokens.source
        ),
        head: HEAD.to_vec(),
        rows: result.hosts.iter().map(row).collect(),
        ..Block::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_runs;
    use harness::Metric;

    #[test]
    fn a_row_for_each_host() {
        let host = |name: &str, ok: u64| HostShare {
            host: name.to_owned(),
            ok,
            output_tokens_per_s: Some(100.0),
            ttft: Metric { p99: Some(12.5), ..Metric::default() },
            ..HostShare::default()
        };
        let mut result = test_runs::result();
        assert!(section(&result).is_none());
        result.hosts = vec![host("a", 3), host("b", 4)];
        let block = section(&result).unwrap();
        assert_eq!(block.rows[1], ["b", "4", "0", "n/a", "100", "n/a", "12.5", "n/a", "n/a", "n/a"]);
    }
}
