//! `profile_export.jsonl`: requests one by one.

use serde_json::{Map, Value};

use crate::metrics::{RequestTrace, Tool, TracedChunks};
use crate::results::imported::{ImportedRequests, SERVER, at, from_gaps, text_at};

/// Both lengths of every request are those of the server's usage, as with `--use-server-token-count`. Records do not show
/// whether the option was set; where all counts agree, they are the server's count.
fn has_server_counts<'a>(mut lines: impl Iterator<Item = &'a Value>) -> bool {
    let same = |line: &Value, length: &str, usage: &str| {
        let metric = |tag: &str| at(line, &format!("/metrics/{tag}/value"));
        metric(length).zip(metric(usage)).is_some_and(|(length, usage)| length.total_cmp(&usage).is_eq())
    };
    let mut lines = lines.by_ref().filter(|line| line.pointer("/metrics/output_sequence_length").is_some()).peekable();
    lines.peek().is_some()
        && lines.all(|line| {
            same(line, "output_sequence_length", "usage_completion_tokens")
                && same(line, "input_sequence_length", "usage_prompt_tokens")
        })
}

/// AIPerf's records, without its warm-up.
pub(crate) fn requests(lines: &[Value]) -> ImportedRequests {
    let profiled = |line: &&Value| text_at(line, "/metadata/benchmark_phase").is_none_or(|phase| phase == "profiling");
    let ns = |line: &Value, key: &str| line.pointer(&format!("/metadata/{key}")).and_then(Value::as_u64);
    let start = lines.iter().filter(profiled).filter_map(|line| ns(line, "request_start_ns")).min().unwrap_or(0);
    let ms = |at: u64| (i128::from(at) - i128::from(start)) as f64 / 1e6;
    let is_server_count = has_server_counts(lines.iter().filter(profiled));
    let seen = lines
        .iter()
        .filter(profiled)
        .enumerate()
        .filter_map(|(index, line)| {
            let metric = |tag: &str| at(line, &format!("/metrics/{tag}/value"));
            let issue = ms(ns(line, "request_start_ns")?);
            let end = ns(line, "request_end_ns").map_or(issue, ms);
            let retokenized = metric("output_sequence_length").map(|n| n as u32);
            let gaps: Vec<f64> = line
                .pointer("/metrics/inter_chunk_latency/value")
                .and_then(Value::as_array)
                .map(|all| all.iter().filter_map(Value::as_f64).collect())
                .unwrap_or_default();
            let last = metric("request_latency").map(|ms| issue + ms);
            let error = line.get("error").filter(|error| !error.is_null());
            let chunks = match metric("time_to_first_token") {
                Some(first) => from_gaps(issue + first, &gaps, retokenized, last),
                None => TracedChunks::Every(Vec::new()),
            };
            Some(RequestTrace {
                index: index as u64,
                ok: error.is_none(),
                sched: None,
                issue,
                end,
                input: metric("input_sequence_length").map(|n| n as u32),
                input_server: None,
                tokens: metric("usage_completion_tokens").map(|n| n as u32),
                retokenized: retokenized.filter(|_| !is_server_count),
                chunks,
                error: error.map(|error| text_at(error, "/message").unwrap_or_else(|| error.to_string())),
            })
        })
        .collect();
    ImportedRequests {
        tool: Tool::AiPerf,
        format: "AIPerf profile_export.jsonl",
        version: None,
        requested: Map::new(),
        counted: is_server_count.then_some(SERVER),
        request_traces: seen,
    }
}
