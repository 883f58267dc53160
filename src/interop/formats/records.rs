//! The requests of a run, one by one, in the files of AIPerf, GuideLLM, perf_analyzer and vLLM. Stamps become ms from
//! the first request.

use serde_json::Value;

use super::file_format::{ImportedNumbers, SERVER, at, number_at, text_at};
use crate::metrics::{ChunkKind, RequestTrace, Tool, TracedChunk, TracedChunks};

fn requests(tool: Tool, format: &'static str, request_traces: Vec<RequestTrace>) -> ImportedNumbers {
    ImportedNumbers { tool, format, request_traces, is_records: true, ..ImportedNumbers::default() }
}

fn count_at(value: &Value, place: &str) -> Option<u32> {
    number_at(value, place).map(|count| count as u32)
}

fn numbers_at(value: &Value, place: &str) -> Vec<f64> {
    at(value, place).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_f64).collect()
}

const fn token(at: f64) -> TracedChunk {
    TracedChunk { at, tokens: 1, kind: ChunkKind::Token }
}

/// Chunks from a first one and the gaps after it. Which chunk has how many tokens is known only if each has one.
fn from_gaps(first: f64, gaps: &[f64], tokens: Option<u32>, last: Option<f64>) -> TracedChunks {
    let count = gaps.len() as u32 + 1;
    if tokens == Some(count) {
        let mut at = first;
        let later = gaps.iter().map(|gap| {
            at += gap;
            token(at)
        });
        return TracedChunks::Every(std::iter::once(token(first)).chain(later).collect());
    }
    let last = last.unwrap_or_else(|| first + gaps.iter().sum::<f64>());
    TracedChunks::Ends { first: token(first), last: token(last), count: count.max(tokens.unwrap_or(1).min(3)) }
}

/// Records of `profile_export.jsonl`, without AIPerf's warm-up.
pub(super) fn aiperf(lines: &[Value]) -> ImportedNumbers {
    let is_profiled = |line: &&Value| text_at(line, "/metadata/benchmark_phase").is_none_or(|it| it == "profiling");
    let lines: Vec<&Value> = lines.iter().filter(is_profiled).collect();
    let ns = |line: &Value, key: &str| at(line, &format!("/metadata/{key}")).and_then(Value::as_u64);
    let start = lines.iter().filter_map(|line| ns(line, "request_start_ns")).min().unwrap_or(0);
    let ms = |at: u64| (i128::from(at) - i128::from(start)) as f64 / 1e6;
    let is_server_count = has_server_counts(&lines);
    let trace = |(index, line): (usize, &&Value)| {
        let metric = |tag: &str| number_at(line, &format!("/metrics/{tag}/value"));
        let issue = ms(ns(line, "request_start_ns")?);
        let retokenized = metric("output_sequence_length").map(|count| count as u32);
        let gaps = numbers_at(line, "/metrics/inter_chunk_latency/value");
        let last = metric("request_latency").map(|ms| issue + ms);
        let error = line.get("error").filter(|error| !error.is_null());
        let first = metric("time_to_first_token");
        Some(RequestTrace {
            index: index as u64,
            ok: error.is_none(),
            issue,
            end: ns(line, "request_end_ns").map_or(issue, ms),
            input: metric("input_sequence_length").map(|count| count as u32),
            tokens: metric("usage_completion_tokens").map(|count| count as u32),
            retokenized: retokenized.filter(|_| !is_server_count),
            chunks: first.map(|first| from_gaps(issue + first, &gaps, retokenized, last)).unwrap_or_default(),
            error: error.map(|error| text_at(error, "/message").unwrap_or_else(|| error.to_string())),
            ..RequestTrace::default()
        })
    };
    let traces = lines.iter().enumerate().filter_map(trace).collect();
    let counted = is_server_count.then_some(SERVER);
    ImportedNumbers { counted, ..requests(Tool::AiPerf, "AIPerf profile_export.jsonl", traces) }
}

/// Both lengths of every request are those of the server's usage, as with `--use-server-token-count`. Records do not
/// show whether the option was set; where all counts agree, they are the server's count.
fn has_server_counts(lines: &[&Value]) -> bool {
    let is_same = |line: &Value, length: &str, usage: &str| {
        let metric = |tag: &str| number_at(line, &format!("/metrics/{tag}/value"));
        metric(length).zip(metric(usage)).is_some_and(|(length, usage)| length.total_cmp(&usage).is_eq())
    };
    let mut counted = lines.iter().filter(|line| at(line, "/metrics/output_sequence_length").is_some()).peekable();
    counted.peek().is_some()
        && counted.all(|line| {
            is_same(line, "output_sequence_length", "usage_completion_tokens")
                && is_same(line, "input_sequence_length", "usage_prompt_tokens")
        })
}

/// vLLM's detailed arrays. `None` where the file was saved without them.
pub(super) fn vllm(run: &Value) -> Option<Vec<RequestTrace>> {
    let list = |key: &str| run.get(key).and_then(Value::as_array);
    let (first, starts) = (list("ttfts")?, list("start_times")?);
    list("output_lens")?;
    let origin = starts.iter().filter_map(Value::as_f64).fold(f64::INFINITY, f64::min);
    let trace = |n: usize| {
        let seconds = |key: &str| number_at(run, &format!("/{key}/{n}"));
        let issue = (seconds("start_times")? - origin) * 1e3;
        let tokens = count_at(run, &format!("/output_lens/{n}"));
        let error = text_at(run, &format!("/errors/{n}")).filter(|error| !error.is_empty());
        let ok = error.is_none() && tokens != Some(0);
        let gaps: Vec<f64> = numbers_at(run, &format!("/itls/{n}")).into_iter().map(|gap| gap * 1e3).collect();
        let to_first = seconds("ttfts")? * 1e3;
        // `regatta export` writes the latencies and vLLM none: it takes an answer to end with its last chunk.
        let latency = seconds("latencies").map_or_else(|| to_first + gaps.iter().sum::<f64>(), |time| time * 1e3);
        let end = issue + latency;
        Some(RequestTrace {
            index: n as u64,
            ok,
            issue,
            end,
            input: count_at(run, &format!("/input_lens/{n}")),
            tokens,
            chunks: if ok { from_gaps(issue + to_first, &gaps, tokens, Some(end)) } else { TracedChunks::default() },
            error,
            ..RequestTrace::default()
        })
    };
    Some((0..first.len()).filter_map(trace).collect())
}

/// The requests of a benchmark of GuideLLM, with the times when they should have started.
pub(super) fn guidellm(benchmark: &Value) -> Vec<RequestTrace> {
    let list = |kind: &str| at(benchmark, &format!("/requests/{kind}")).and_then(Value::as_array).into_iter().flatten();
    let items = || list("successful").map(|one| (one, true)).chain(list("errored").map(|one| (one, false)));
    let time = |request: &Value, name: &str| number_at(request, &format!("/info/timings/{name}"));
    let origin = items().filter_map(|(request, _)| time(request, "request_start")).fold(f64::INFINITY, f64::min);
    let trace = |(index, (request, ok)): (usize, (&Value, bool))| {
        let ms = |name: &str| time(request, name).map(|at| (at - origin) * 1e3);
        let issue = ms("request_start")?;
        let count = time(request, "token_iterations").unwrap_or(0.0) as u32;
        let ends = ms("first_token_iteration").zip(ms("last_token_iteration"));
        let chunks = ends.map(|(first, last)| TracedChunks::Ends { first: token(first), last: token(last), count });
        Some(RequestTrace {
            index: index as u64,
            ok,
            sched: ms("targeted_start"),
            issue,
            end: ms("request_end").unwrap_or(issue),
            input: count_at(request, "/input_metrics/total_tokens"),
            tokens: count_at(request, "/output_metrics/total_tokens")
                .or_else(|| count_at(request, "/output_metrics/text_tokens")),
            chunks: chunks.unwrap_or_default(),
            error: (!ok).then(|| text_at(request, "/info/error").unwrap_or_else(|| "errored".to_owned())),
            ..RequestTrace::default()
        })
    };
    items().enumerate().filter_map(trace).collect()
}

/// perf_analyzer's raw export, from which GenAI-Perf computes its numbers. Each level of a range is an experiment of
/// its own.
pub(super) fn experiments(file: &Value) -> Vec<ImportedNumbers> {
    let version = text_at(file, "/version").filter(|version| !version.is_empty());
    let items = file.get("experiments").and_then(Value::as_array).into_iter().flatten();
    items.map(|experiment| ImportedNumbers { version: version.clone(), ..experiment_requests(experiment) }).collect()
}

/// A stamp for each response; a response is a chunk.
fn experiment_requests(experiment: &Value) -> ImportedNumbers {
    let items = || experiment.get("requests").and_then(Value::as_array).into_iter().flatten();
    let start = items().filter_map(|request| request.get("timestamp")?.as_u64()).min().unwrap_or(0);
    let ms = |at: u64| at.saturating_sub(start) as f64 / 1e6;
    let trace = |(index, request): (usize, &Value)| {
        let issue = ms(request.get("timestamp")?.as_u64()?);
        let stamps = request.get("response_timestamps")?.as_array()?.iter().filter_map(|at| Some(ms(at.as_u64()?)));
        let contents = contents(request.get("response_outputs").and_then(Value::as_array).map_or(&[], Vec::as_slice));
        // Without contents a response is taken as one token.
        let content = |n: usize| contents.get(n).copied().unwrap_or((ChunkKind::Token, 1));
        let chunk = |(n, at): (usize, f64)| TracedChunk { at, kind: content(n).0, tokens: content(n).1 };
        let chunks: Vec<TracedChunk> = stamps.enumerate().map(chunk).collect();
        let ok = chunks.iter().any(|chunk| chunk.kind == ChunkKind::Token);
        Some(RequestTrace {
            index: index as u64,
            ok,
            issue,
            end: chunks.last().map_or(issue, |chunk| chunk.at),
            // The file has no counts.
            tokens: Some(chunks.iter().map(|chunk| chunk.tokens).sum()),
            chunks: TracedChunks::Every(chunks),
            error: (!ok).then(|| "no response that counts".to_owned()),
            ..RequestTrace::default()
        })
    };
    let traces = items().enumerate().filter_map(trace).collect();
    let level = text_at(experiment, "/experiment/mode").zip(at(experiment, "/experiment/value").cloned());
    ImportedNumbers {
        requested: level.into_iter().collect(),
        counted: Some("responses, each counted as one token"),
        ..requests(Tool::GenAiPerf, "perf_analyzer profile_export.json", traces)
    }
}

/// The kind of each response of a request, and how many tokens it has.
fn contents(outputs: &[Value]) -> Vec<(ChunkKind, u32)> {
    let texts: Option<Vec<&str>> = outputs.iter().map(|output| output.get("response")?.as_str()).collect();
    match texts {
        Some(texts) => whole_events(texts).iter().map(|text| events(text)).collect(),
        None => outputs.iter().map(tensors).collect(),
    }
}

/// Over gRPC a response counts for GenAI-Perf even if its text is empty; its text has no tokens then.
fn tensors(output: &Value) -> (ChunkKind, u32) {
    let tokens = match (output.get("text_output").and_then(Value::as_str), output.get("output_ids")) {
        (Some(text), _) => u32::from(!text.is_empty()),
        (None, Some(Value::Array(ids))) => ids.len() as u32,
        (None, _) => 1,
    };
    (ChunkKind::Token, tokens)
}

/// Where an event was read in two pieces, perf_analyzer has two responses of it: the first gets the whole, and its
/// stamp.
fn whole_events(texts: Vec<&str>) -> Vec<String> {
    let mut whole: Vec<String> = texts.into_iter().map(str::to_owned).collect();
    for n in (1..whole.len()).rev() {
        let begins = ["data:", ":", "event:", "id:", "retry:"].iter().any(|word| whole[n].starts_with(word));
        if begins || whole[n].is_empty() {
            continue;
        }
        let rest = whole[n].find("data: ").map_or_else(String::new, |at| whole[n].split_off(at));
        let piece = std::mem::replace(&mut whole[n], rest);
        whole[n - 1].push_str(&piece);
    }
    whole
}

/// Server-sent events over HTTP, of OpenAI's interfaces or of `generate_stream`: only text counts.
fn events(text: &str) -> (ChunkKind, u32) {
    const TEXT: [&str; 4] =
        ["/choices/0/delta/content", "/choices/0/text", "/choices/0/message/content", "/text_output"];
    let (mut with_text, mut with_role) = (0, false);
    for line in text.lines() {
        // An answer that is not streamed is the bare object.
        let line = line.strip_prefix("data:").unwrap_or(line);
        let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
        let text = TEXT.iter().find_map(|place| at(&event, place)?.as_str());
        with_text += u32::from(text.is_some_and(|text| !text.is_empty()));
        with_role |= at(&event, "/choices/0/delta/role").is_some();
    }
    match (with_text, with_role) {
        (0, true) => (ChunkKind::Role, 0),
        (0, false) => (ChunkKind::Usage, 0),
        (tokens, _) => (ChunkKind::Token, tokens),
    }
}
