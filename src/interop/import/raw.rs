//! Files with requests one by one, from which every metric can be computed with any tool's definition.

use serde_json::{Map, Value, json};

use super::{Requests, SERVER, Tool, at, text_at};
use crate::interop::metrics::{ChunkKind, RequestTrace, TracedChunk, TracedChunks};

/// Chunks from a first one and the gaps after it. Which chunk has how many tokens is known only if each has one.
fn from_gaps(first: f64, gaps: &[f64], tokens: Option<u32>, last: Option<f64>) -> TracedChunks {
    let chunk = |at| TracedChunk { at, tokens: 1, kind: ChunkKind::Token };
    if tokens == Some(gaps.len() as u32 + 1) {
        let mut at = first;
        let later = gaps.iter().map(|gap| {
            at += gap;
            chunk(at)
        });
        return TracedChunks::Every(std::iter::once(chunk(first)).chain(later).collect());
    }
    let last = last.unwrap_or_else(|| first + gaps.iter().sum::<f64>());
    TracedChunks::Ends {
        first: chunk(first),
        last: chunk(last),
        count: (gaps.len() as u32 + 1).max(tokens.unwrap_or(1).min(3)),
    }
}

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
pub(super) fn aiperf(lines: &[Value]) -> Requests {
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
            let retokenised = metric("output_sequence_length").map(|n| n as u32);
            let gaps: Vec<f64> = line
                .pointer("/metrics/inter_chunk_latency/value")
                .and_then(Value::as_array)
                .map(|all| all.iter().filter_map(Value::as_f64).collect())
                .unwrap_or_default();
            let last = metric("request_latency").map(|ms| issue + ms);
            let error = line.get("error").filter(|error| !error.is_null());
            let chunks = match metric("time_to_first_token") {
                Some(first) => from_gaps(issue + first, &gaps, retokenised, last),
                None => TracedChunks::Every(Vec::new()),
            };
            Some(RequestTrace {
                index: index as u64,
                ok: error.is_none(),
                sched: None,
                issue,
                end,
                input: metric("input_sequence_length").map(|n| n as u32),
                tokens: metric("usage_completion_tokens").map(|n| n as u32),
                retokenised: retokenised.filter(|_| !is_server_count),
                chunks,
                error: error.map(|error| text_at(error, "/message").unwrap_or_else(|| error.to_string())),
            })
        })
        .collect();
    Requests {
        tool: Tool::AiPerf,
        format: "AIPerf profile_export.jsonl",
        version: None,
        asked: Map::new(),
        counted: is_server_count.then_some(SERVER),
        seen,
    }
}

/// vLLM's detailed arrays. `None` where the file was saved without them.
pub(super) fn vllm(value: &Value) -> Option<Requests> {
    if value.get("mean_e2e_latency_ms").is_some() {
        return None;
    }
    let list = |key: &str| value.get(key).and_then(Value::as_array);
    let (first, starts, lengths) = (list("ttfts")?, list("start_times")?, list("output_lens")?);
    let whole = list("latencies")?;
    let number = |list: Option<&Vec<Value>>, n: usize| list.and_then(|list| list.get(n)?.as_f64());
    let origin = starts.iter().filter_map(Value::as_f64).fold(f64::INFINITY, f64::min);
    let seen = (0..first.len())
        .filter_map(|n| {
            let issue = (number(Some(starts), n)? - origin) * 1e3;
            let tokens = number(Some(lengths), n).map(|tokens| tokens as u32);
            let error = list("errors").and_then(|all| all.get(n)?.as_str()).filter(|error| !error.is_empty());
            let end = issue + number(Some(whole), n)? * 1e3;
            let ok = error.is_none() && tokens != Some(0);
            let gaps: Vec<f64> = list("itls")
                .and_then(|all| all.get(n)?.as_array())
                .map(|all| all.iter().filter_map(|gap| Some(gap.as_f64()? * 1e3)).collect())
                .unwrap_or_default();
            Some(RequestTrace {
                index: n as u64,
                ok,
                sched: None,
                issue,
                end,
                input: number(list("input_lens"), n).map(|tokens| tokens as u32),
                tokens,
                retokenised: None,
                chunks: if ok {
                    from_gaps(issue + number(Some(first), n)? * 1e3, &gaps, tokens, Some(end))
                } else {
                    TracedChunks::Every(Vec::new())
                },
                error: error.map(str::to_owned),
            })
        })
        .collect();
    let mut asked = Map::new();
    asked.insert("requests".to_owned(), json!(first.len()));
    Some(Requests {
        tool: Tool::Vllm,
        format: "vLLM bench serve JSON, detailed",
        version: None,
        asked,
        counted: None,
        seen,
    })
}

/// GuideLLM's requests, with the times when they should have started.
pub(super) fn guidellm(value: &Value) -> Option<Requests> {
    let requests = value.pointer("/benchmarks/0/requests")?;
    let of = |kind: &str| requests.get(kind).and_then(Value::as_array).cloned().unwrap_or_default();
    let (good, bad) = (of("successful"), of("errored"));
    let time = |one: &Value, name: &str| at(one, &format!("/info/timings/{name}"));
    let all = || good.iter().map(|one| (one, true)).chain(bad.iter().map(|one| (one, false)));
    let origin = all().filter_map(|(one, _)| time(one, "request_start")).fold(f64::INFINITY, f64::min);
    let seen: Vec<RequestTrace> = all()
        .enumerate()
        .filter_map(|(index, (one, ok))| {
            let ms = |name: &str| time(one, name).map(|at| (at - origin) * 1e3);
            let issue = ms("request_start")?;
            let tokens = at(one, "/output_metrics/total_tokens")
                .or_else(|| at(one, "/output_metrics/text_tokens"))
                .map(|tokens| tokens as u32);
            let chunk = |at| TracedChunk { at, tokens: 1, kind: ChunkKind::Token };
            let count = time(one, "token_iterations").unwrap_or(0.0) as u32;
            let chunks = match (ms("first_token_iteration"), ms("last_token_iteration")) {
                (Some(first), Some(last)) => TracedChunks::Ends { first: chunk(first), last: chunk(last), count },
                _ => TracedChunks::Every(Vec::new()),
            };
            Some(RequestTrace {
                index: index as u64,
                ok,
                sched: ms("targeted_start"),
                issue,
                end: ms("request_end").unwrap_or(issue),
                input: at(one, "/input_metrics/total_tokens").map(|tokens| tokens as u32),
                tokens,
                retokenised: None,
                chunks,
                error: (!ok).then(|| text_at(one, "/info/error").unwrap_or_else(|| "errored".to_owned())),
            })
        })
        .collect();
    (!seen.is_empty()).then(|| Requests {
        tool: Tool::GuideLlm,
        format: "GuideLLM benchmarks.json",
        version: text_at(value, "/metadata/guidellm_version"),
        asked: Map::new(),
        counted: None,
        seen,
    })
}
