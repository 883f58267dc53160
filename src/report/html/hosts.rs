//! What each host did, of a run that was spread over several.

use serde_json::Value;

use super::block::{Block, shown, text};

/// Path in a host's part, and its heading.
const COLUMNS: [(&str, &str); 9] = [
    ("/ok", "ok"),
    ("/failed", "failed"),
    ("/requests_per_s", "requests/s"),
    ("/output_tokens_per_s", "tokens/s"),
    ("/ttft/p50", "TTFT p50, ms"),
    ("/ttft/p99", "TTFT p99, ms"),
    ("/tpot/p50", "TPOT p50, ms"),
    ("/tpot/p99", "TPOT p99, ms"),
    ("/server_metrics/scrapes", "metrics read"),
];

pub(super) fn read(result: &Value) -> Option<Block> {
    let hosts = result.get("hosts")?.as_array().filter(|hosts| !hosts.is_empty())?;
    let from = text(result, "/latency/ttft/zero_point")
        .unwrap_or("schedule")
        .replace("user_free", "when the user became idle")
        .replace('_', " ");
    let source = text(result, "/tokens/source").unwrap_or("the answers");
    let row = |host: &Value| {
        let name = text(host, "/host").unwrap_or("?").to_owned();
        let cells = COLUMNS.iter().map(|(path, _)| shown(host, path).unwrap_or_else(|| "n/a".to_owned()));
        std::iter::once(name).chain(cells).collect()
    };
    Some(Block {
        title: "Hosts",
        about: format!(
            "Each host's own requests. Rates are over the window of the whole run, so they add up; TTFT from {from}, of successful requests; tokens from {source}."
        ),
        head: std::iter::once("host").chain(COLUMNS.iter().map(|(_, head)| *head)).collect(),
        rows: hosts.iter().map(row).collect(),
        ..Block::default()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_row_for_each_host() {
        let host = |name: &str, ok: u64| json!({ "host": name, "ok": ok, "failed": 0, "output_tokens_per_s": 100.0, "ttft": { "p99": 12.5 } });
        let block = read(&json!({ "hosts": [host("a", 3), host("b", 4)] })).unwrap();
        assert_eq!(block.rows[1], ["b", "4", "0", "n/a", "100", "n/a", "12.5", "n/a", "n/a", "n/a"]);
        assert!(read(&json!({ "hosts": [] })).is_none());
    }
}
