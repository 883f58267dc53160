//! perf_analyzer's raw export, from which GenAI-Perf computes its numbers: requests one by one, a stamp for each response.

use serde_json::{Map, Value};

use crate::metrics::{ChunkKind, RequestTrace, Tool, TracedChunk, TracedChunks};
use crate::results::imported::{ImportedRequests, text_at};

/// Each level of a range is an experiment of its own.
pub(crate) fn experiments(value: &Value) -> Vec<ImportedRequests> {
    let version = text_at(value, "/version").filter(|version| !version.is_empty());
    let all = value.get("experiments").and_then(Value::as_array).into_iter().flatten();
    all.map(|experiment| ImportedRequests { version: version.clone(), ..requests(experiment) }).collect()
}

/// A response is a chunk; stamps become ms from the first request.
fn requests(experiment: &Value) -> ImportedRequests {
    let all = || experiment.get("requests").and_then(Value::as_array).into_iter().flatten();
    let start = all().filter_map(|one| one.get("timestamp")?.as_u64()).min().unwrap_or(0);
    let ms = |at: u64| at.saturating_sub(start) as f64 / 1e6;
    let seen = all()
        .enumerate()
        .filter_map(|(index, one)| {
            let issue = ms(one.get("timestamp")?.as_u64()?);
            let stamps: Vec<f64> =
                one.get("response_timestamps")?.as_array()?.iter().filter_map(|at| Some(ms(at.as_u64()?))).collect();
            let carried = carried(one.get("response_outputs").and_then(Value::as_array).map_or(&[], Vec::as_slice));
            let chunks: Vec<TracedChunk> = stamps
                .iter()
                .enumerate()
                // Without contents a response is taken as one token.
                .map(|(n, at)| (*at, carried.get(n).copied().unwrap_or((ChunkKind::Token, 1))))
                .map(|(at, (kind, tokens))| TracedChunk { at, tokens, kind })
                .collect();
            let ok = chunks.iter().any(|chunk| chunk.kind == ChunkKind::Token);
            Some(RequestTrace {
                index: index as u64,
                ok,
                sched: None,
                issue,
                end: stamps.last().copied().unwrap_or(issue),
                input: None,
                input_server: None,
                // The file has no counts.
                tokens: Some(chunks.iter().map(|chunk| chunk.tokens).sum()),
                retokenized: None,
                chunks: TracedChunks::Every(chunks),
                error: (!ok).then(|| "no response that counts".to_owned()),
            })
        })
        .collect();
    let mut requested = Map::new();
    if let (Some(mode), Some(value)) =
        (text_at(experiment, "/experiment/mode"), experiment.pointer("/experiment/value"))
    {
        requested.insert(mode, value.clone());
    }
    ImportedRequests {
        tool: Tool::GenAiPerf,
        format: "perf_analyzer profile_export.json",
        version: None,
        requested,
        counted: Some("responses, each counted as one token"),
        request_traces: seen,
    }
}

/// What each response of a request carries, and how many tokens.
fn carried(outputs: &[Value]) -> Vec<(ChunkKind, u32)> {
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

/// Where an event was read in two pieces, perf_analyzer has two responses of it: the first gets the whole, and its stamp.
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
        let text = TEXT.iter().find_map(|place| event.pointer(place)?.as_str());
        with_text += u32::from(text.is_some_and(|text| !text.is_empty()));
        with_role |= event.pointer("/choices/0/delta/role").is_some();
    }
    match (with_text, with_role) {
        (0, true) => (ChunkKind::Role, 0),
        (0, false) => (ChunkKind::Usage, 0),
        (tokens, _) => (ChunkKind::Token, tokens),
    }
}
