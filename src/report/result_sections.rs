//! Sections of a result that exist only when requested, each with its own heading: runs, hosts, SLOs, failures
//! counted, the steady part, the server's stamps, cancellations, other outputs, sessions, tokens, and the load.

use crate::chart::number;
use crate::document::{Block, Cell, Document, Fact, Section, Table, TableColumn};
use crate::history::MetricKey;
use crate::machine_sections::{gpus, preflight};
use crate::metric_row::{MetricRow, cell, metric_blocks};
use crate::search;
use base::spec::CancelBy;
use harness::{Adjusted, HostShare, LoadConditions, Metric, Pause, RunResult, SearchReport, zero_point_text};

/// A section, before it is drawn.
#[derive(Debug, Default)]
pub(crate) struct ResultBlock {
    pub title: &'static str,
    /// What it is about, in a sentence or two.
    pub about: String,
    /// Name, value, what was counted.
    pub facts: Vec<Fact>,
    pub metrics: Vec<MetricRow>,
    /// Headings of [`Self::rows`]; all but the first head number columns.
    pub head: Vec<&'static str>,
    pub rows: Vec<Vec<String>>,
    /// Where rows are below a summary on a page: the summary.
    pub fold: Option<&'static str>,
    /// SVG.
    pub plots: Vec<String>,
    /// A terminal leaves it out.
    pub is_on_page: bool,
}

impl From<ResultBlock> for Section {
    fn from(block: ResultBlock) -> Self {
        let table = block.table();
        let table = (!table.is_empty()).then(|| match block.fold {
            Some(summary) => Block::table(table).folded(summary, false),
            None => Block::table(table),
        });
        let ResultBlock { title, about, facts, metrics, plots, is_on_page, .. } = block;
        let facts = (!facts.is_empty()).then(|| Block::facts(facts));
        let plots = (!plots.is_empty()).then(|| Block::charts(plots));
        let section = Self { is_on_page, about, ..Self::new(title) };
        section.with(facts).with(plots).with(table).with(metric_blocks(&metrics))
    }
}

impl ResultBlock {
    pub(crate) fn new(title: &'static str, about: impl Into<String>) -> Self {
        Self { title, about: about.into(), ..Self::default() }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.facts.is_empty() && self.metrics.is_empty() && self.rows.is_empty()
    }

    /// A narrow terminal does without columns between the fourth and the last. A column of longer texts has no numbers.
    fn table(&self) -> Table {
        let column = |(at, name): (usize, &&'static str)| {
            let is_short = |row: &Vec<String>| row.get(at).is_none_or(|text| text.chars().count() <= 12);
            let is_number = at > 0 && self.rows.iter().all(is_short);
            let column = if is_number { TableColumn::number(*name) } else { TableColumn::new(*name) };
            if at > 3 && at + 1 < self.head.len() { column.priority(at as u8) } else { column }
        };
        let mut table = Table::new(self.title, self.head.iter().enumerate().map(column)).look("");
        for row in &self.rows {
            table.row(row.iter().map(Cell::from));
        }
        table
    }

    /// Adds nothing for `None`.
    pub(crate) fn fact(&mut self, name: &str, value: Option<String>, what: impl Into<String>) {
        self.facts.extend(value.map(|value| [name.to_owned(), value, what.into()]));
    }

    pub(crate) fn count(&mut self, name: &str, count: u64, what: impl Into<String>) {
        self.fact(name, Some(number(count as f64)), what);
    }
}

pub(crate) fn percent(share: f64) -> String {
    format!("{} %", number(share * 100.0))
}

/// A key of a result that only this section shows, where there is one, and the section.
type SectionRow = (Option<&'static str>, fn(&RunResult) -> Option<ResultBlock>);

/// In reading order.
const SECTIONS: [SectionRow; 14] = [
    (Some("repeats"), over_runs),
    (Some("hosts"), hosts),
    (Some("endpoints"), servers),
    (Some("goodput"), goodput),
    (None, adjusted),
    (Some("steady"), steady),
    (Some("server"), stamps),
    (None, sessions),
    (Some("cancellations"), cancellations),
    (Some("tokens"), tokens),
    (Some("outputs"), outputs),
    (Some("load"), load),
    (Some("gpu"), |result| result.gpu.as_ref().map(gpus)),
    (Some("preflight"), |result| result.preflight.as_ref().map(preflight)),
];

/// Whether only a section shows this key of a result.
pub(crate) fn is_section_key(key: &str) -> bool {
    SECTIONS.iter().any(|(shown, _)| *shown == Some(key))
}

/// The sections of this result.
pub(crate) fn sections(result: &RunResult, search: Option<&SearchReport>) -> Vec<ResultBlock> {
    let blocks = search.map(search::section).into_iter().chain(SECTIONS.iter().filter_map(|(_, block)| block(result)));
    blocks.filter(|block| !block.is_empty()).collect()
}

/// Those that the result has.
fn metrics(all: &[(&str, &Metric)]) -> Vec<MetricRow> {
    all.iter().filter_map(|(name, metric)| MetricRow::new(name, metric)).collect()
}

/// From when this result counts waiting: `schedule`, or of a closed loop `user idle`.
fn zero_point(result: &RunResult) -> String {
    match result.latency.ttft.zero_point.as_str() {
        "" => "schedule".to_owned(),
        zero_point => zero_point.replace('_', " "),
    }
}

fn token_source(result: &RunResult) -> &str {
    or(&result.tokens.source, "the answers")
}

/// A text that an older result may not have.
fn or<'a>(text: &'a str, missing: &'a str) -> &'a str {
    if text.is_empty() { missing } else { text }
}

fn goodput(result: &RunResult) -> Option<ResultBlock> {
    let goodput = result.goodput.as_ref()?;
    let slo = goodput.slo;
    let limits: Vec<String> = [(slo.ttft_ms, "TTFT"), (slo.tpot_ms, "TPOT"), (slo.e2e_ms, "E2E")]
        .into_iter()
        .filter_map(|(limit, name)| Some(format!("{name} ≤ {} ms", number(limit?))))
        .collect();
    let mut block = ResultBlock::new(
        "SLO attainment",
        format!(
            "The SLO of each request: {}; TTFT and E2E from {}. A request that failed or was not sent misses it.",
            limits.join(", "),
            zero_point(result)
        ),
    );
    let (good, of) = (number(goodput.good as f64), number(goodput.of as f64));
    if goodput.is_unknown() {
        block.fact("SLO attainment", Some("n/a".to_owned()), "no answer has a time per token");
    } else {
        block.fact("SLO attainment", goodput.attainment.map(percent), format!("{good} of {of} scheduled requests"));
    }
    block.fact(
        "goodput, requests per second",
        goodput.requests.map(number),
        "requests that met all, over the full window",
    );
    block.fact(
        "goodput, output tokens per second",
        goodput.output_tokens.map(number),
        format!("of requests that met all, over the full window; tokens from {}", token_source(result)),
    );
    Some(block)
}

/// A percentile that falls among those without an answer is infinite, which the result writes as null.
fn adjusted(result: &RunResult) -> Option<ResultBlock> {
    let metrics = [("TTFT ms", &result.latency.ttft_adjusted), ("E2E ms", &result.latency.e2e_adjusted)];
    if metrics.iter().all(|(_, adjusted)| adjusted.unanswered == 0) {
        return None;
    }
    let row = |(name, adjusted): (&str, &Adjusted)| {
        let unanswered = number(adjusted.unanswered as f64);
        let cell = |value: Option<f64>| value.map_or_else(|| format!("∞, {unanswered} unanswered"), number);
        let mut row = vec![name.to_owned(), number(adjusted.n as f64), unanswered.clone()];
        row.extend([adjusted.p50, adjusted.p90, adjusted.p95, adjusted.p99].map(cell));
        row
    };
    Some(ResultBlock {
        title: "Percentiles with failures counted",
        about: format!(
            "From {}, of all scheduled requests that were to be answered in full: one without an answer counts as \
                infinite. Window: full. Percentiles: nearest rank.",
            zero_point(result)
        ),
        head: vec!["metric", "values", "unanswered", "p50", "p90", "p95", "p99"],
        rows: metrics.into_iter().filter(|(_, adjusted)| adjusted.n > 0).map(row).collect(),
        ..ResultBlock::default()
    })
}

/// Beside the full window, so that the reader sees the effect of ramp and tail.
fn steady(result: &RunResult) -> Option<ResultBlock> {
    let steady = result.steady.as_ref()?;
    let mut block = ResultBlock::new(
        "Steady part and full window",
        format!(
            "Without ramp and tail: intended arrivals from {} s to {} s, {} successful requests. Full: all \
                successful requests, schedule start to the end of the last one. Latencies in ms: TTFT and E2E from \
                {}, TPOT from the first chunk; tokens from {}.",
            number(steady.from_s),
            number(steady.to_s),
            number(steady.requests as f64),
            zero_point(result),
            token_source(result)
        ),
    );
    block.head = vec!["metric", "full", "steady", "difference"];
    let mut row = |name: &str, full: Option<f64>, steady: Option<f64>| {
        if full.is_none() && steady.is_none() {
            return;
        }
        let difference = full.zip(steady).filter(|(full, _)| *full > 0.0);
        let difference = difference.map(|(full, steady)| format!("{:+.1} %", (steady / full - 1.0) * 100.0));
        block.rows.push(vec![
            name.to_owned(),
            cell(full),
            cell(steady),
            difference.unwrap_or_else(|| "n/a".to_owned()),
        ]);
    };
    row("requests per second", result.rates.requests_full, Some(steady.requests_per_s));
    row("output tokens per second", result.rates.output_tokens, steady.output_tokens_per_s);
    let latency = &result.latency;
    for (name, full, steady) in [
        ("TTFT", &latency.ttft, &steady.ttft),
        ("TPOT", &latency.tpot, &steady.tpot),
        ("E2E", &latency.e2e, &steady.e2e),
    ] {
        row(&format!("{name} p50"), full.p50, steady.p50);
        row(&format!("{name} p99"), full.p99, steady.p99);
    }
    for change in &result.stability.changes {
        block.fact(
            &format!("{} before and after {:.1} s", change.metric, change.at_s),
            Some(format!("{} → {} ms", number(change.before_ms), number(change.after_ms))),
            "means; neither chance nor the load explains the change",
        );
    }
    Some(block)
}

fn stamps(result: &RunResult) -> Option<ResultBlock> {
    let server = result.server.as_ref()?;
    let mut block = ResultBlock::new(
        "Server time stamps",
        "Time stamps that the server sent with each answer. Its clock is its own: only differences between \
            its stamps are used. What is outside the server is our TTFT from the issue, less the server's.",
    );
    block.metrics = metrics(&[
        ("queue in the server", &server.queue),
        ("TTFT as the server stamps it", &server.ttft),
        ("E2E as the server stamps it", &server.e2e),
        ("TTFT outside the server", &server.ttft_outside),
    ]);
    block.count("without stamps", server.without, "successful requests");
    for (blocks, name) in [
        (server.kv_cache_reused_blocks, "KV cache blocks reused"),
        (server.kv_cache_alloc_new_blocks, "KV cache blocks newly allocated"),
        (server.kv_cache_alloc_total_blocks, "KV cache blocks allocated"),
    ] {
        block.fact(name, Some(number(blocks as f64)), "sum over successful requests with stamps");
    }
    Some(block)
}

fn sessions(result: &RunResult) -> Option<ResultBlock> {
    let sessions = result.load.sessions.as_ref()?;
    let mut block = ResultBlock::new(
        "Sessions",
        "A later turn is due when the answer before it has ended and the user has paused; so a slow server \
            delays later turns, and they are shown separately.",
    );
    block.metrics =
        metrics(&[("TTFT of first turns", &sessions.ttft_first), ("TTFT of later turns", &sessions.ttft_later)]);
    block.count("sessions", sessions.count, "with at least one request issued");
    block.fact("turns of a session", Some(number(sessions.turns_mean)), "mean, of issued requests");
    block.count("turns of the longest", u64::from(sessions.turns_max), "issued requests");
    Some(block)
}

fn cancellations(result: &RunResult) -> Option<ResultBlock> {
    let cancelled = result.cancellations.as_ref()?;
    let mut block = ResultBlock::new(
        "Cancelled requests",
        format!(
            "Cancelled as configured, by {}, after {} tokens; {} of the requests were selected. They are neither ok \
                nor failed, and in no latency above.",
            match cancelled.by {
                CancelBy::Rpc => "rpc",
                CancelBy::Stop => "stop",
            },
            number(f64::from(cancelled.after_tokens)),
            percent(cancelled.share)
        ),
    );
    block.metrics = metrics(&[("from the cancel to the end", &cancelled.end_after_cancel)]);
    block.count("cancelled early", cancelled.requests, "requests");
    block.count("tokens they had", cancelled.tokens, "in all, those that came after the cancel included");
    Some(block)
}

/// The server's counts beside Regatta's.
fn tokens(result: &RunResult) -> Option<ResultBlock> {
    let tokens = &result.tokens;
    if tokens.source.is_empty() {
        return None;
    }
    let mut block = ResultBlock::new(
        "Tokens",
        "Of successful requests. Where an answer is text, tokens are what the server's usage field counts, or \
            its text retokenized, or chunks, as the source shows.",
    );
    block.count("output tokens", tokens.output, format!("source: {}", tokens.source));
    if let Some(how) = &tokens.chunk_source {
        let about = format!("{how}, for inter-token latency and each second");
        block.fact("tokens of single chunks", Some("not counted".to_owned()), about);
    }
    block.count("output tokens requested", tokens.output_requested, "by the schedule, of the same requests");
    block.count("input tokens", tokens.input, format!("source: {}", or(&tokens.input_source, "unknown")));
    if let Some(cached) = &tokens.input_cached {
        let about = format!("of {} in {} answers", number(cached.prompt_tokens as f64), number(cached.requests as f64));
        block.count("input tokens from a prefix cache", cached.tokens, about);
    }
    let by_server = tokens.input_server.map(|tokens| number(tokens as f64));
    block.fact("input tokens as the server counts", by_server, "its usage, for the same prompts");
    block.count("shorter than requested", tokens.shorter, "requests, ended by an end token");
    block.count("longer than requested", tokens.longer, "requests");
    block.fact("tokens of a first chunk", tokens.mean_first_chunk.map(number), "mean, of first chunks that had any");
    block.fact(
        "coalesced chunks",
        tokens.coalesced_share.map(percent),
        "came in the same socket read as the chunk before, and count as one arrival",
    );
    block.count("without a final marker", tokens.without_final_marker, "successful streams");
    Some(block)
}

fn outputs(result: &RunResult) -> Option<ResultBlock> {
    let count = |count: u64| number(count as f64);
    let rows = result.outputs.iter().map(|(name, output)| {
        let example = output.example.clone().unwrap_or_default();
        vec![name.clone(), count(output.responses), count(output.bytes), count(output.misshapen), example]
    });
    let block = || ResultBlock {
        title: "Other outputs",
        about: "Requested outputs other than tokens. Misshapen: tensors whose shape does not fit the request."
            .to_owned(),
        head: vec!["output", "responses", "bytes", "misshapen", "the first misshapen"],
        rows: rows.collect(),
        ..ResultBlock::default()
    };
    (!result.outputs.is_empty()).then(block)
}

fn load(result: &RunResult) -> Option<ResultBlock> {
    let load = &result.load;
    if *load == LoadConditions::default() {
        return None;
    }
    let is_on_page = load.max_in_flight.is_none();
    let mut block = ResultBlock::new("Load delivery", "");
    block.is_on_page = is_on_page;
    let stated = |text: &str, sentence: String| (!text.is_empty()).then_some(sentence);
    let from = format!("Waiting (from {}) counts from {}.", zero_point(result), load.zero_point);
    let lengths = format!("Lengths of prompts: {}.", load.input_lengths);
    let about = [stated(&load.zero_point, from), stated(&load.input_lengths, lengths)];
    block.about = about.into_iter().flatten().collect::<Vec<_>>().join(" ");
    block.count("most in flight", load.in_flight_max, "requests at once, from their stamps");
    let cap = load
        .max_in_flight
        .map(|cap| format!("arrivals that waited because {} requests were in flight", number(f64::from(cap))));
    block.count(
        "held back",
        load.held_back,
        cap.unwrap_or_else(|| "arrivals that waited; no limit on requests in flight was set".to_owned()),
    );
    let pacing = Some(result.client.pacing.clone()).filter(|pacing| !pacing.is_empty());
    block.fact("timing of arrivals", pacing, "a spin is in no share of CPU: without it the core would be idle");
    block.fact("think time of users", think(result.requested.think), "between an answer and the next request");
    if let Some(data) = &load.data {
        let again = if data.repeated { ", some more than once" } else { "" };
        let (taken, records) = (number(data.taken as f64), number(data.records as f64));
        block.fact("data", Some(data.file.clone()), format!("{taken} taken of {records} records{again}"));
        let left_out = (!data.skipped.is_empty()).then(|| data.skipped.join("; "));
        block.fact("records left out", left_out, "they were not sent");
    }
    Some(block)
}

/// A pause as requested; a pause of zero is not shown.
fn think(pause: Pause) -> Option<String> {
    match pause {
        Pause::Fixed(ms) => (ms > 0.0).then(|| format!("fixed, {} ms", number(ms))),
        Pause::Exponential(ms) => (ms > 0.0).then(|| format!("exponential, {} ms", number(ms))),
        Pause::Uniform { min, max } => Some(format!("uniform, {} to {} ms", number(min), number(max))),
    }
}

/// A column of a host's or a server's share, and its number.
type ShareColumn = (&'static str, fn(&HostShare) -> Option<f64>);

const SHARE_COLUMNS: [ShareColumn; 11] = [
    ("ok", |share| Some(share.ok as f64)),
    ("failed", |share| Some(share.failed as f64)),
    ("requests/s", |share| share.requests_per_s),
    ("tokens/s", |share| share.output_tokens_per_s),
    ("TTFT mean, ms", |share| share.ttft.mean),
    ("TTFT p50, ms", |share| share.ttft.p50),
    ("TTFT p99, ms", |share| share.ttft.p99),
    ("TPOT mean, ms", |share| share.tpot.mean),
    ("TPOT p50, ms", |share| share.tpot.p50),
    ("TPOT p99, ms", |share| share.tpot.p99),
    ("metrics read", |share| Some(share.server_metrics.as_ref()?.scrapes as f64)),
];

fn hosts(result: &RunResult) -> Option<ResultBlock> {
    shares(result, "Hosts", "host", &result.hosts)
}

/// Not where each host has one: their rows are there already.
fn servers(result: &RunResult) -> Option<ResultBlock> {
    (result.endpoints.len() != result.hosts.len()).then(|| shares(result, "Servers", "server", &result.endpoints))?
}

fn shares(result: &RunResult, title: &'static str, part: &'static str, rows: &[HostShare]) -> Option<ResultBlock> {
    let row = |host: &HostShare| {
        let numbers = SHARE_COLUMNS.map(|(_, number)| cell(number(host)));
        std::iter::once(host.host.clone()).chain(numbers).collect()
    };
    (!rows.is_empty()).then(|| ResultBlock {
        title,
        about: format!(
            "Each {part}'s own requests. Rates are over the window of the whole run, so they add up; TTFT from {}, of \
                successful requests; tokens from {}.",
            zero_point_text(&result.latency.ttft.zero_point),
            result.tokens.source
        ),
        head: std::iter::once(part).chain(SHARE_COLUMNS.map(|(name, _)| name)).collect(),
        rows: rows.iter().map(row).collect(),
        is_on_page: true,
        ..ResultBlock::default()
    })
}

/// Keys in `repeats.over_runs`.
const RUN_NUMBERS: [&str; 10] = [
    "ttft_mean",
    "ttft_p50",
    "ttft_p99",
    "tpot_mean",
    "tpot_p99",
    "e2e_mean",
    "e2e_p99",
    "requests_full",
    "output_tokens",
    "goodput",
];

/// Means over the runs of one measurement with their intervals; nothing of a single run.
pub fn repeats(result: &RunResult) -> Document {
    Document::of_sections(over_runs(result).map(Section::from))
}

fn over_runs(result: &RunResult) -> Option<ResultBlock> {
    let repeats = result.repeats.as_ref()?;
    let row = |key: &&str| {
        let over = repeats.over_runs.get(*key)?;
        let values: Vec<String> = over.values.iter().map(|value| number(*value)).collect();
        let spread = (over.mean != 0.0).then(|| format!("{} %", number(over.stddev / over.mean * 100.0)));
        Some(vec![
            format!("{}, {}", MetricKey::read(key).title(), over.unit),
            number(over.mean),
            format!("{} … {}", number(over.low), number(over.high)),
            spread.unwrap_or_else(|| "n/a".to_owned()),
            values.join(" "),
        ])
    };
    let seeds = repeats.runs.iter().map(|run| run.seed.to_string()).collect::<Vec<_>>().join(", ");
    let verdicts = repeats.runs.iter().map(|run| run.verdict.as_str()).collect::<Vec<_>>().join(", ");
    let few = if repeats.runs.len() == 2 {
        " Two runs say little about how much runs differ: an interval extends 12.7 standard errors to each side, with \
         five runs 2.8 (`--repeat 5`)."
    } else {
        ""
    };
    Some(ResultBlock {
        title: "Runs",
        about: format!(
            "{} runs of the same measurement with the seeds {seeds}: {verdicts}. The interval is of the mean over \
                runs, 95 %, by Student's t; the spread is the standard deviation between runs in percent of the \
                mean.{few} \
                Means are also in the head of the page and in its table of all results, with the failures of all \
                runs. All other numbers are of run {}, in which the populations, zero points and token sources are \
                given.",
            repeats.runs.len(),
            repeats.shown,
        ),
        head: vec!["number", "mean", "95 % interval", "spread", "runs"],
        rows: RUN_NUMBERS.iter().filter_map(row).collect(),
        ..ResultBlock::default()
    })
}

#[cfg(test)]
mod tests;
