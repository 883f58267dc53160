//! Sections of a result that exist only when requested, each with its own heading: SLOs, failures counted, the steady
//! part, the server's stamps, withdrawals, other outputs, sessions, tokens, GPUs, the preflight, and a search.

use serde_json::Value;

use super::block::{Block, at, object, percent, shown, text};
use super::metric_row::{MetricRow, metric};
use super::svg::number;
use super::{gpu, hosts, preflight, repeats, search};

/// Keys of a result that only these sections show.
pub(super) const TOLD: [&str; 12] = [
    "repeats",
    "hosts",
    "goodput",
    "steady",
    "server",
    "withdrawals",
    "outputs",
    "tokens",
    "load",
    "search",
    "gpu",
    "preflight",
];

/// The sections of this result, in reading order.
pub(super) fn read(result: &Value) -> Vec<Block> {
    let all = [
        search::read(result),
        repeats::read(result),
        hosts::read(result),
        goodput(result),
        adjusted(result),
        steady(result),
        stamps(result),
        sessions(result),
        withdrawals(result),
        tokens(result),
        outputs(result),
        load(result),
        gpu::read(result),
        preflight::read(result),
    ];
    all.into_iter().flatten().filter(|block| !block.is_empty()).collect()
}

/// The metrics of an object, under their own names.
fn metrics(value: &Value, names: &[(&str, &str)]) -> Vec<MetricRow> {
    names.iter().filter_map(|(key, name)| Some(metric(name, value.get(*key)?.as_object()?))).collect()
}

/// From when this result counts waiting: `schedule`, or of a closed loop `user free`.
fn zero_point(result: &Value) -> String {
    text(result, "/latency/ttft/zero_point").unwrap_or("schedule").replace('_', " ")
}

fn goodput(result: &Value) -> Option<Block> {
    let told = result.get("goodput").filter(|told| told.is_object())?;
    let limits: Vec<String> = [("ttft_ms", "TTFT"), ("tpot_ms", "TPOT"), ("e2e_ms", "E2E")]
        .into_iter()
        .filter_map(|(key, name)| Some(format!("{name} ≤ {} ms", number(told.get("slo")?.get(key)?.as_f64()?))))
        .collect();
    let mut block = Block {
        title: "SLO attainment",
        about: format!(
            "The SLO of each request: {}; TTFT and E2E from {}. A request that failed or was not sent misses it.",
            limits.join(", "),
            zero_point(result)
        ),
        ..Block::default()
    };
    let of = shown(told, "/of").unwrap_or_default();
    let good = shown(told, "/good").unwrap_or_default();
    block.fact("SLO attainment", at(told, "/attainment").map(percent), format!("{good} of {of} scheduled requests"));
    block.fact("goodput, requests per second", shown(told, "/requests"), "requests that met all, over the full window");
    let source = text(result, "/tokens/source").unwrap_or("the answers");
    block.fact(
        "goodput, output tokens per second",
        shown(told, "/output_tokens"),
        format!("of requests that met all, over the full window; tokens from {source}"),
    );
    Some(block)
}

/// A percentile that falls among those without an answer is infinite, which JSON writes as null.
fn adjusted(result: &Value) -> Option<Block> {
    let latency = result.get("latency")?;
    let row = |key: &str, name: &str| {
        let told = latency.get(key)?;
        let n = at(told, "/n").filter(|n| *n > 0.0)?;
        let unanswered = shown(told, "/unanswered").unwrap_or_default();
        let cell = |column| {
            told.get(column).and_then(Value::as_f64).map_or_else(|| format!("∞, {unanswered} unanswered"), number)
        };
        let mut row = vec![name.to_owned(), number(n), unanswered.clone()];
        row.extend(["p50", "p90", "p95", "p99"].map(cell));
        Some(row)
    };
    let rows: Vec<_> =
        [("ttft_adjusted", "TTFT ms"), ("e2e_adjusted", "E2E ms")].iter().filter_map(|(k, n)| row(k, n)).collect();
    let lost = |row: &Vec<String>| row.get(2).is_some_and(|unanswered| unanswered != "0");
    if !rows.iter().any(lost) {
        return None;
    }
    Some(Block {
        title: "Percentiles with failures counted",
        about: format!(
            "From {}, of all scheduled requests that were to be answered in full: one without an answer counts as infinite. Window: full. Percentiles: nearest rank.",
            zero_point(result)
        ),
        head: vec!["metric", "values", "unanswered", "p50", "p90", "p95", "p99"],
        rows,
        ..Block::default()
    })
}

/// Beside the full window, so that the reader sees the effect of ramp and tail.
fn steady(result: &Value) -> Option<Block> {
    let told = result.get("steady").filter(|told| told.is_object())?;
    let mut block = Block {
        title: "Steady part and full window",
        about: format!(
            "Without ramp and tail: intended arrivals from {} s to {} s, {} successful requests. Full: all successful requests, schedule start to the end of the last one. Latencies in ms: TTFT and E2E from {}, TPOT from the first chunk; tokens from {}.",
            shown(told, "/from_s").unwrap_or_default(),
            shown(told, "/to_s").unwrap_or_default(),
            shown(told, "/requests").unwrap_or_default(),
            zero_point(result),
            text(result, "/tokens/source").unwrap_or("the answers")
        ),
        head: vec!["metric", "full", "steady", "difference"],
        ..Block::default()
    };
    let mut row = |name: &str, full: &str, steady: &str| {
        let (full, steady) = (at(result, full), at(told, steady));
        if full.is_none() && steady.is_none() {
            return;
        }
        let none = || "n/a".to_owned();
        let difference = full.zip(steady).filter(|(full, _)| *full > 0.0);
        let difference = difference.map(|(full, steady)| format!("{:+.1} %", (steady / full - 1.0) * 100.0));
        block.rows.push(vec![
            name.to_owned(),
            full.map_or_else(none, number),
            steady.map_or_else(none, number),
            difference.unwrap_or_else(none),
        ]);
    };
    row("requests per second", "/rates/requests_full", "/requests_per_s");
    row("output tokens per second", "/rates/output_tokens", "/output_tokens_per_s");
    for (name, key) in [("TTFT", "ttft"), ("TPOT", "tpot"), ("E2E", "e2e")] {
        for column in ["p50", "p99"] {
            row(&format!("{name} {column}"), &format!("/latency/{key}/{column}"), &format!("/{key}/{column}"));
        }
    }
    if let (Some(first), Some(second), Some(errors)) =
        (at(told, "/drift/first_half_ms"), at(told, "/drift/second_half_ms"), at(told, "/drift/standard_errors"))
    {
        block.fact(
            "drift of TTFT",
            Some(format!("{} → {} ms", number(first), number(second))),
            format!(
                "mean of the first and the second half of the run; at equal load {} standard errors apart",
                number(errors)
            ),
        );
    }
    Some(block)
}

fn stamps(result: &Value) -> Option<Block> {
    let told = result.get("server").filter(|told| told.is_object())?;
    let names = [
        ("queue", "queue in the server"),
        ("ttft", "TTFT as the server stamps it"),
        ("e2e", "E2E as the server stamps it"),
        ("ttft_outside", "TTFT outside the server"),
    ];
    let mut block = Block {
        title: "Server time stamps",
        about: "Time stamps that the server sent with each answer. Its clock is its own: only differences between its stamps are used. What is outside the server is our TTFT from the issue, less the server's."
            .to_owned(),
        metrics: metrics(told, &names),
        ..Block::default()
    };
    block.fact("without stamps", shown(told, "/without"), "successful requests");
    for (key, name) in [
        ("/kv_cache_reused_blocks", "KV cache blocks reused"),
        ("/kv_cache_alloc_new_blocks", "KV cache blocks newly allocated"),
        ("/kv_cache_alloc_total_blocks", "KV cache blocks allocated"),
    ] {
        block.fact(name, shown(told, key), "sum over successful requests with stamps");
    }
    Some(block)
}

fn sessions(result: &Value) -> Option<Block> {
    let told = result.pointer("/load/sessions").filter(|told| told.is_object())?;
    let mut block = Block {
        title: "Sessions",
        about: "A later turn is due when the answer before it has ended and the user has paused; so a slow server delays later turns, and they are shown separately."
            .to_owned(),
        metrics: metrics(told, &[("ttft_first", "TTFT of first turns"), ("ttft_later", "TTFT of later turns")]),
        ..Block::default()
    };
    block.fact("sessions", shown(told, "/count"), "with at least one request issued");
    block.fact("turns of a session", shown(told, "/turns_mean"), "mean, of issued requests");
    block.fact("turns of the longest", shown(told, "/turns_max"), "issued requests");
    Some(block)
}

fn withdrawals(result: &Value) -> Option<Block> {
    let told = result.get("withdrawals").filter(|told| told.is_object())?;
    let mut block = Block {
        title: "Cancelled requests",
        about: format!(
            "Cancelled as configured, by {}, after {} tokens; {} of the requests were selected. They are neither ok nor failed, and in no latency above.",
            text(told, "/by").unwrap_or("a cancel").replace('_', " "),
            shown(told, "/after_tokens").unwrap_or_default(),
            at(told, "/share").map(percent).unwrap_or_default()
        ),
        metrics: metrics(told, &[("end_after_cancel", "from the cancel to the end")]),
        ..Block::default()
    };
    block.fact("withdrawn", shown(told, "/requests"), "requests");
    block.fact("tokens they had", shown(told, "/tokens"), "in all, those that came after the cancel included");
    Some(block)
}

/// The server's counts beside Regatta's.
fn tokens(result: &Value) -> Option<Block> {
    let told = result.get("tokens").filter(|told| told.is_object())?;
    let mut block = Block {
        title: "Tokens",
        about: "Of successful requests. Where an answer is text, tokens are what the server's usage field counts, or its text retokenized, or chunks, as the source shows."
            .to_owned(),
        ..Block::default()
    };
    let source = text(told, "/source").unwrap_or("unknown");
    let input = text(told, "/input_source").unwrap_or("unknown");
    block.fact("output tokens", shown(told, "/output"), format!("source: {source}"));
    block.fact(
        "tokens of single chunks",
        text(told, "/chunk_source").map(|_| "not counted".to_owned()),
        text(told, "/chunk_source")
            .map(|how| format!("{how}, for inter-token latency and each second"))
            .unwrap_or_default(),
    );
    block.fact("output tokens requested", shown(told, "/output_asked"), "by the schedule, of the same requests");
    block.fact("input tokens", shown(told, "/input"), format!("source: {input}"));
    block.fact("input tokens as the server counts", shown(told, "/input_server"), "its usage, for the same prompts");
    block.fact("shorter than requested", shown(told, "/shorter"), "requests, ended by an end token");
    block.fact("longer than requested", shown(told, "/longer"), "requests");
    block.fact("tokens of a first chunk", shown(told, "/mean_first_chunk"), "mean, of first chunks that had any");
    block.fact(
        "coalesced chunks",
        at(told, "/coalesced_share").map(percent),
        "came in one socket read with the chunk before: their gap reads 0",
    );
    block.fact("without a final marker", shown(told, "/without_final_marker"), "successful streams");
    Some(block)
}

fn outputs(result: &Value) -> Option<Block> {
    let rows = object(result, "outputs")?.iter().map(|(name, told)| {
        let number = |key| shown(told, key).unwrap_or_default();
        let example = text(told, "/example").unwrap_or_default().to_owned();
        vec![name.clone(), number("/responses"), number("/bytes"), number("/misshapen"), example]
    });
    Some(Block {
        title: "Other outputs",
        about: "Requested outputs other than tokens. Misshapen: tensors whose shape does not fit the request."
            .to_owned(),
        head: vec!["output", "responses", "bytes", "misshapen", "the first misshapen"],
        rows: rows.collect(),
        ..Block::default()
    })
}

fn load(result: &Value) -> Option<Block> {
    let told = result.get("load").filter(|told| told.is_object())?;
    let mut block = Block { title: "Load delivery", ..Block::default() };
    let zero = zero_point(result);
    let from = text(told, "/zero_point").map(|when| format!("Waiting (from {zero}) counts from {when}."));
    let lengths = text(told, "/input_lengths").map(|who| format!("Lengths of prompts: {who}."));
    block.about = [from, lengths].into_iter().flatten().collect::<Vec<_>>().join(" ");
    block.fact("most in flight", shown(told, "/in_flight_max"), "requests at once, from their stamps");
    let cap =
        shown(told, "/max_in_flight").map(|cap| format!("arrivals that waited because {cap} requests were in flight"));
    block.fact(
        "held back",
        shown(told, "/held_back"),
        cap.unwrap_or_else(|| "arrivals that waited; no limit on requests in flight was set".to_owned()),
    );
    if let Some(think) = think(result) {
        block.fact("think time of users", Some(think), "between an answer and the next request");
    }
    if let Some(data) = told.get("data").filter(|data| data.is_object()) {
        let taken = shown(data, "/taken").unwrap_or_default();
        let records = shown(data, "/records").unwrap_or_default();
        let again =
            if data.get("repeated").and_then(Value::as_bool) == Some(true) { ", some more than once" } else { "" };
        let file = text(data, "/file").map(str::to_owned);
        block.fact("data", file, format!("{taken} taken of {records} records{again}"));
        let skipped = data.get("skipped").and_then(Value::as_array).map(Vec::len).filter(|skipped| *skipped > 0);
        block.fact("records left out", skipped.map(|n| number(n as f64)), "result.json has why");
    }
    Some(block)
}

/// A pause as requested; a pause of zero is not shown.
fn think(result: &Value) -> Option<String> {
    let (law, value) = object(result.get("asked")?, "think")?.iter().next()?;
    match (value.as_f64(), at(value, "/min"), at(value, "/max")) {
        (Some(ms), ..) => (ms > 0.0).then(|| format!("{law}, {} ms", number(ms))),
        (None, Some(min), Some(max)) => Some(format!("{law}, {} to {} ms", number(min), number(max))),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
