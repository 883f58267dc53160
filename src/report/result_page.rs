//! One benchmark on the page of a run: verdict, numbers, metrics with their definitions, curves.

use crate::chart::run::requests as request_timeline;
use crate::chart::{OverlayCurve, SecondValue, StepPlot, number, spread};
use crate::document::{Badge, Block, Cell, Document, Fact, Item, Section, TableColumn, Top};
use crate::explain::short_name;
use crate::machine_sections::server;
use crate::metric_row::{MetricRow, metric_blocks};
use crate::result_sections::{ResultBlock, is_section_key, sections};
use crate::run_page::PageResult;
use crate::search::{self, FoundHead};
use crate::styler::TextRole;
use crate::sweep::limit_lines;
use base::event::TaskId;
use base::spec::LimitedMetric;
use base::units::counted;
use harness::{
    Connections, Counts, FinishReason, LoadPattern, LoadgenResult, Metric, Rates, Reason, ReasonSeverity, RunIdentity,
    RunResult, TimeSlice, Violation, WHOLE_ANSWERS, zero_point_text,
};
use interop::MeasuredResult;
use serde_json::Value;
use std::collections::BTreeMap;

/// One benchmark, in the parts that a page and a terminal have in their own order.
#[derive(Debug)]
pub(crate) struct ResultSection {
    pub task: String,
    /// `VALID`, `LIMIT MISSED`, `VALID SIMULATED`, …; `None` where the file has none.
    pub verdict: Option<Badge>,
    pub simulated: bool,
    pub rehearsal: bool,
    /// Of a run that LoadGen drove, and of a probe of a search: what it is.
    pub remark: Option<String>,
    /// The server and the load.
    pub workload: Option<String>,
    /// What was measured, in a line and in full; nothing in files of older programs.
    pub identity: Option<String>,
    measured: Option<Block>,
    /// The server and the load, LoadGen's own result and what the search found, and the reasons of the verdict.
    judged: Vec<Block>,
    /// The most important numbers.
    numbers: Block,
    /// The same in a row of the table of all results.
    pub row: Vec<Cell>,
    /// What the head of the page has of it.
    pub top: Option<Top>,
    /// JSON of what the rest does not show.
    others: String,
    /// The metrics, and what holds for all of them.
    latencies: Vec<Block>,
    /// SVG.
    plots: Vec<String>,
    /// Sections that exist only when requested, and the servers' own metrics.
    sections: Vec<Section>,
}

/// Where the clocks of latencies start.
const ZERO_POINTS: &str = "Zero points: schedule is the intended arrival of a request; when the user became idle, in \
    a closed loop, is the end of the user's last answer plus its think time; issue is when it was sent; chunk is a \
    piece of the answer.";

impl ResultSection {
    pub(crate) fn badge(&self) -> Badge {
        let missing = || Badge { role: TextRole::Quiet, text: "no verdict".to_owned() };
        self.verdict.clone().unwrap_or_else(missing)
    }

    /// All of it on a page.
    pub(crate) fn card(self, anchor: String, is_open: bool) -> Section {
        let badges = vec![self.badge()];
        let zero_points = Block::notes((!self.latencies.is_empty()).then_some(ZERO_POINTS));
        let others = Block::lines(vec![self.others]).folded("All other values", false);
        let parts = self.sections.into_iter().chain([Section::default().with([others])]).collect();
        let card = Section { anchor, is_open: Some(is_open), badges, parts, ..Section::page(self.task) };
        let card = card.with(self.judged).with([self.numbers]).with(self.measured).with(self.latencies);
        card.with(zero_points).with([Block::charts(self.plots)])
    }
}

/// The result of one benchmark on a terminal: what the page of its run has, without pictures.
pub fn result(task: &TaskId, result: &MeasuredResult) -> Document {
    let section = section(&PageResult::new(task.clone(), result.clone()));
    let verdict = Section::new(section.badge().text).with(Block::notes(section.identity)).with(section.judged);
    let latencies = Section::new("Latencies").with(section.latencies);
    let numbers = Section::new("Numbers").with([section.numbers]);
    Document::of_sections([latencies, numbers].into_iter().chain(section.sections).chain([verdict]))
}

pub(crate) fn section(page: &PageResult) -> ResultSection {
    let PageResult { task, result, search, requests, .. } = page;
    let search = search.as_ref();
    let identity = result.identity();
    let role = result.verdict().map_or(TextRole::Quiet, TextRole::from);
    let run = result.own();
    let loadgen = run.and_then(|run| run.loadgen.as_ref());
    let latencies = result.latencies().into_iter();
    let mut metrics: Vec<_> = latencies.filter_map(|(key, metric)| MetricRow::new(key, metric)).collect();
    let mut shared = shared(&mut metrics);
    shared.extend(run.filter(|run| run.has_silently_whole_answers()).map(|_| WHOLE_ANSWERS.to_owned()));
    let mut plots = run.map(distributions).unwrap_or_default();
    plots.extend(run.map(series).unwrap_or_default());
    plots.extend(run.and_then(|run| request_timeline(requests, run.counts.scheduled)));
    let mut blocks = run.map(|run| sections(run, search)).unwrap_or_default();
    blocks.extend(run.and_then(|run| run.server_metrics.as_ref()).map(server));
    let head = search.map(search::head);
    let remarks = [loadgen.map(loadgen_mode), head.as_ref().map(|head| format!("{} of a search", head.probe))];
    let remarks: Vec<String> = remarks.into_iter().flatten().collect();
    let top = run.map(|run| match &head {
        Some(head) => top_of_search(run, top(run, &plots), head, &blocks),
        None => top(run, &plots),
    });
    let workload = run.map(|run| run.workload().to_string());
    let notes = head.into_iter().map(|head| head.note).chain(loadgen.map(loadgen_note));
    let reasons = run.map(|run| run.reasons().iter().map(reason_item).collect()).unwrap_or_default();
    let judged = Block::notes(workload.clone().into_iter().chain(notes)).chain([Block::items(reasons)]);
    ResultSection {
        task: task.to_string(),
        verdict: run.map(|run| Badge { role, text: run.verdict_text() }),
        simulated: identity.is_some_and(|identity| identity.simulated),
        rehearsal: run.is_some_and(RunResult::is_rehearsal),
        remark: (!remarks.is_empty()).then(|| remarks.join(", ")),
        workload,
        identity: identity.map(RunIdentity::line),
        measured: identity.map(|identity| Block::pairs(identity.entries()).folded("What was measured", false)),
        judged: judged.collect(),
        numbers: Block::facts(first(result)),
        row: row(result),
        top,
        others: other_values(result),
        latencies: metric_blocks(&metrics).into_iter().chain(Block::notes(shared)).collect(),
        plots,
        sections: blocks.into_iter().map(Section::from).collect(),
    }
}

fn reason_item(reason: &Reason) -> Item {
    let is_warning = reason.severity == ReasonSeverity::Warning;
    let (role, mark) = if is_warning { (TextRole::Warning, "!") } else { (TextRole::Bad, "✗") };
    Item { role, mark: mark.to_owned(), text: reason.line(), ..Item::default() }
}

/// The columns of [`ResultSection::row`].
pub(crate) fn row_columns() -> [TableColumn; 7] {
    let column = |title: &str| TableColumn { digits: number, ..TableColumn::number(title) };
    let ms = |title: &str| column(title).unit("ms");
    let latencies = [ms("TTFT p50"), ms("TTFT p99"), ms("TPOT p50"), ms("TPOT p99")];
    let [ttft_p50, ttft_p99, tpot_p50, tpot_p99] = latencies;
    [column("tok/s"), column("req/s"), ttft_p50, ttft_p99, tpot_p50, tpot_p99, column("failed")]
}

/// LoadGen's keys for the columns of [`row_columns`] but the last.
const LOADGEN_ROW: [&[&str]; 6] = [
    &["result_tokens_per_second", "result_completed_tokens_per_second"],
    &["result_samples_per_second", "result_completed_samples_per_sec"],
    &["result_first_token_50.00_percentile_latency_ns"],
    &["result_first_token_99.00_percentile_latency_ns"],
    &["result_time_per_output_token_50.00_percentile_ns"],
    &["result_time_per_output_token_99.00_percentile_ns"],
];

/// LoadGen's own numbers in the order of [`LOADGEN_ROW`]. `None`: it reports none of them.
fn loadgen_numbers(loadgen: &LoadgenResult) -> Option<[Option<f64>; 6]> {
    let number = |keys: &[&str]| {
        let metric = loadgen.metrics.iter().find(|metric| keys.contains(&metric.metric.as_str()))?;
        Some(metric.loadgen)
    };
    let numbers = LOADGEN_ROW.map(number);
    numbers.iter().any(Option::is_some).then_some(numbers)
}

fn loadgen_mode(loadgen: &LoadgenResult) -> String {
    if loadgen.is_performance() {
        "LoadGen".to_owned()
    } else if loadgen.is_accuracy() {
        "accuracy run, no speed is measured".to_owned()
    } else {
        format!("{}, not judged by its speed", loadgen.mode.to_uppercase())
    }
}

fn loadgen_note(loadgen: &LoadgenResult) -> String {
    let LoadgenResult { scenario, headline, .. } = loadgen;
    if loadgen.is_performance() {
        let result = loadgen.result.as_deref().unwrap_or("no result");
        let numbers = if headline.is_empty() { String::new() } else { format!(", {headline}") };
        format!("LoadGen {scenario}: {result}{numbers}. The numbers below are Regatta's, of the same requests.")
    } else {
        format!("LoadGen {scenario}, {}. The numbers below are Regatta's.", loadgen_mode(loadgen))
    }
}

/// Of several runs of one measurement, the means over them, and the failures of all. Of a run that LoadGen drove,
/// LoadGen's own numbers; of its accuracy runs and audits none.
fn row(result: &MeasuredResult) -> Vec<Cell> {
    let cell = |number: Option<f64>| Cell::number(TextRole::Plain, number);

    let failed =
        result.own().and_then(|own| own.count("requests_failed", own.counts.failed)).map(|failed| failed as f64);
    if let Some(loadgen) = result.own().and_then(|own| own.loadgen.as_ref()) {
        if !loadgen.is_performance() {
            return std::iter::repeat_n(Cell::from("–"), LOADGEN_ROW.len()).chain([cell(failed)]).collect();
        }
        if let Some(numbers) = loadgen_numbers(loadgen) {
            return numbers.into_iter().chain([failed]).map(cell).collect();
        }
    }
    let metrics = result.metrics();
    let latencies = ["ttft", "tpot"].into_iter().flat_map(|name| {
        let metric = metrics.iter().find(|(key, _)| *key == name).map(|(_, metric)| metric);
        [metric.and_then(|metric| metric.p50), metric.and_then(|metric| metric.p99)]
    });
    let rates = ["output_tokens", "requests_full"].map(|name| result.rate(name));
    rates.into_iter().chain(latencies).chain([failed]).map(cell).collect()
}

/// One sentence, three numbers, one picture. Of several runs of one measurement the numbers are means over them; the
/// picture is of the run that the result shows.
fn top(result: &RunResult, plots: &[String]) -> Top {
    let mean = |name: &str, key: &str, unit: &str, of_each: &str| {
        if result.runs() < 2 {
            return None;
        }
        let Some(over) = result.over_runs(key) else {
            return Some([name.to_owned(), "n/a".to_owned(), "not every run has this number".to_owned()]);
        };
        let ends = format!("{} … {}", number(over.low), number(over.high));
        let about = format!("mean over {} runs, 95 % {ends}; of each run {of_each}", over.values.len());
        Some([name.to_owned(), format!("{} {unit}", number(over.mean)), about])
    };
    let is_offline = matches!(result.requested.scenario, LoadPattern::Offline);
    let latency = &result.latency;
    let ms = |name: &str, key: &str, metric: &Metric| {
        let ends =
            metric.p99_interval.and_then(|ends| Some(format!(" ({} … {})", number(ends.low?), number(ends.high?))));
        let (n, population) = (number(metric.n as f64), &metric.population);
        let from = zero_point_text(&metric.zero_point);
        let title = format!("{name} p99");
        mean(&title, key, "ms", &format!("p99 of the {population}, {n} in the one shown, from {from}")).unwrap_or_else(
            || {
                let value = metric.p99.map_or_else(|| "n/a".to_owned(), |value| format!("{} ms", number(value)));
                [title.clone(), value, format!("of {n} {population}, from {from}{}", ends.unwrap_or_default())]
            },
        )
    };
    let unit = |value: Option<f64>, unit: &str| {
        value.map_or_else(|| "n/a".to_owned(), |value| format!("{} {unit}", number(value)))
    };
    let window = format!("over {} s: schedule start to the last answer", number(result.rates.window_s));
    let each = "successful requests, schedule start to the last answer";
    let tokens = mean("output tokens", "output_tokens", "tok/s", each).unwrap_or_else(|| {
        let about = format!("of successful requests, {window}");
        ["output tokens".to_owned(), unit(result.rates.output_tokens, "tok/s"), about]
    });
    let requests = mean("requests", "requests_full", "req/s", each).unwrap_or_else(|| {
        let (ok, all) = (number(result.counts.ok as f64), number(result.counts.scheduled as f64));
        ["requests".to_owned(), unit(result.rates.requests_full, "req/s"), format!("{ok} ok of {all}, {window}")]
    });
    let loadgen = result.loadgen.as_ref();
    let facts = if let Some(facts) = loadgen.and_then(|loadgen| loadgen_top(loadgen, result.counts.ok)) {
        facts
    } else if is_offline && latency.tpot.p99.is_none() {
        vec![tokens, requests, ms("E2E from the send", "e2e_sent_p99", &latency.e2e_sent)]
    } else if is_offline {
        vec![tokens, requests, ms("TPOT", "tpot_p99", &latency.tpot)]
    } else {
        vec![tokens, ms("TTFT", "ttft_p99", &latency.ttft), ms("TPOT", "tpot_p99", &latency.tpot)]
    };
    let headline = result.headline();
    let wanted = if is_offline { "in each second" } else { "TTFT: cumulative" };
    let picture = plots.iter().find(|plot| plot.contains(wanted)).or_else(|| plots.first());
    Top {
        sentence: headline.split(" (").next().unwrap_or(&headline).replace("  ", " · "),
        facts,
        picture: picture.filter(|_| loadgen.is_none_or(|loadgen| !loadgen.is_accuracy())).cloned(),
        ..Top::default()
    }
}

/// The rate that a search found and its picture; the numbers of the run are those of one probe, and named so.
fn top_of_search(result: &RunResult, of_run: Top, found: &FoundHead, blocks: &[ResultBlock]) -> Top {
    let of_probe = of_run
        .facts
        .iter()
        .map(|[name, value, about]| [format!("{name} of {}", found.probe), value.clone(), about.clone()]);
    let of_search =
        blocks.iter().find_map(|block| block.plots.first().cloned().filter(|_| block.title == search::TITLE));
    Top {
        sentence: format!("{} · {}", result.verdict_text(), found.sentence),
        facts: std::iter::once(found.number.clone()).chain(of_probe.take(2)).collect(),
        picture: of_search.or_else(|| of_run.picture.clone()),
        ..of_run
    }
}

/// LoadGen's own numbers. `None`: it reports none.
fn loadgen_top(loadgen: &LoadgenResult, answers: u64) -> Option<Vec<[String; 3]>> {
    if loadgen.is_accuracy() {
        let about = "logged, to be scored; an accuracy run measures no speed";
        return Some(vec![["answers".to_owned(), number(answers as f64), about.to_owned()]]);
    }
    let [tokens, samples, _, ttft, _, tpot] = loadgen_numbers(loadgen)?;
    let judged = if loadgen.is_performance() { "" } else { "; an audit is not judged by its speed" };
    let fact = |name: &str, value: Option<f64>, unit: &str, about: &str| {
        Some([name.to_owned(), format!("{} {unit}", number(value?)), format!("LoadGen's own{about}{judged}")])
    };
    let facts = [
        fact("output tokens", tokens, "tok/s", ""),
        fact("samples", samples.filter(|_| ttft.is_none()), "samples/s", ""),
        fact("TTFT p99", ttft, "ms", ", from the issue of a sample"),
        fact("TPOT p99", tpot, "ms", ""),
    ];
    Some(facts.into_iter().flatten().collect())
}

/// What metrics have in common with the first appears once, above them.
fn shared(metrics: &mut [MetricRow]) -> Vec<String> {
    let mut lines = Vec::new();
    for part in metrics.first().map(|first| first.method.clone()).unwrap_or_default() {
        let count = metrics.iter().filter(|metric| metric.method.contains(&part)).count();
        if count > 1 {
            for metric in &mut *metrics {
                metric.method.retain(|other| *other != part);
            }
            let others = if count < metrics.len() { ", unless stated otherwise below" } else { "" };
            lines.push(part + others);
        }
    }
    lines
}

/// Name, value, and what was counted, of the run that the result shows.
fn first(result: &MeasuredResult) -> Vec<Fact> {
    let run = result.own();
    let imported = result.imported();
    let count = |of: fn(&Counts) -> u64| run.map(|run| of(&run.counts) as f64);
    let rate = |name: &str, of_run: fn(&Rates) -> Option<f64>| match run {
        Some(run) => of_run(&run.rates),
        None => result.rate(name),
    };
    let window = run.map(|run| run.rates.window_s).or_else(|| imported?.rates.get("window_s").copied());
    let failed = count(|counts| counts.failed).or_else(|| imported?.counts.failed);
    let tokens = match result.token_source() {
        "" => String::new(),
        source => format!("; tokens from {source}"),
    };
    let rows = [
        fact(
            "output tokens per second",
            rate("output_tokens", |rates| rates.output_tokens),
            &format!("of successful requests, over the window{tokens}"),
        ),
        fact(
            "requests per second",
            rate("requests_full", |rates| rates.requests_full),
            "successful requests over the window",
        ),
        fact(
            "offered per second",
            run.and_then(|run| run.rates.offered),
            "N − 1 over the time from first to last intended arrival",
        ),
        fact("window, seconds", window, "schedule start to the end of the last successful request"),
        fact("requests scheduled", count(|counts| counts.scheduled), "whether or not they were sent"),
        fact("ok", result.ok(), "successful requests"),
        fact("failed", failed, "sent, and ended with an error"),
        fact("not sent", count(|counts| counts.not_sent), "because the run was stopped"),
        fact("output tokens", result.tokens()[1], &format!("of successful requests{tokens}")),
    ];
    rows.into_iter().flatten().chain(run.map(course_facts).unwrap_or_default()).collect()
}

fn fact(name: &str, value: Option<f64>, about: &str) -> Option<Fact> {
    Some([name.to_owned(), number(value?), about.to_owned()])
}

/// How answers ended, and what the connections and the client did.
fn course_facts(run: &RunResult) -> Vec<Fact> {
    let (ends, reasons) = sum(&run.counts.finish_reasons, FinishReason::as_str);
    let (violations, classes) = sum(&run.counts.violations, Violation::as_str);
    let Connections { count, reconnects, idle_closed, resent, .. } = &run.connections;
    let idle = format!("{idle_closed} closed by the server while idle, {} sent again", counted(*resent, "request"));
    let rows = [
        fact("finish reasons", ends, &reasons),
        fact("protocol violations", violations, &format!("{classes}; in no number")),
        fact("connections", Some(*count as f64), &format!("{reconnects} reconnected; {idle}")),
        fact("client CPU", run.client.cpu_ms_per_1000_chunks, "ms for 1,000 chunks"),
    ];
    rows.into_iter().flatten().collect()
}

/// How many in all, and how many of each kind. `None`: nothing was counted.
fn sum<K: Copy>(counts: &BTreeMap<K, u64>, name: fn(K) -> &'static str) -> (Option<f64>, String) {
    let each: Vec<String> = counts.iter().map(|(kind, count)| format!("{count} {}", name(*kind))).collect();
    ((!each.is_empty()).then(|| counts.values().sum::<u64>() as f64), each.join(", "))
}

/// What no other part of the page shows, in the file's own form; that includes what this version does not know.
fn other_values(result: &MeasuredResult) -> String {
    let shown =
        ["verdict", "reasons", "headline", "identity", "server_metrics", "latency", "curves", "slices", "search"];
    let mut value = result.json().unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        fields.retain(|key, _| !shown.contains(&key.as_str()) && !is_section_key(key));
    }
    serde_json::to_string_pretty(&value).unwrap_or_default()
}

/// The distribution of each latency that has one, with its limits.
fn distributions(run: &RunResult) -> Vec<String> {
    let requested = &run.requested;
    let usual = [requested.ttft_p99_limit_ms, requested.tpot_p99_limit_ms];
    let plot = |(key, points): (&String, &Vec<(f64, f64)>)| {
        let metric = run.latency.each().find(|(name, _)| name == key).map(|(_, metric)| metric);
        let unit = metric.map_or("ms", |metric| metric.unit.as_str());
        let statistics = metric.map(|metric| [("p50", metric.p50), ("p99", metric.p99)]).into_iter().flatten();
        let statistics =
            statistics.filter_map(|(name, value)| Some((value?, "mark", format!("{name}: {} {unit}", number(value?)))));
        let limited = LimitedMetric::ALL.iter().find(|metric| metric.as_str() == key.trim_end_matches("_token"));
        let limits = limited.map(|metric| limit_lines(*metric, usual, &requested.further_limits, &requested.slo));
        let limits = limits.into_iter().flatten().map(|(value, name)| (value, "limit", name));
        let points = points.iter().map(|(x, fraction)| (*x, fraction * 100.0)).collect();
        let heading = format!("{}: cumulative % of requests", short_name(key));
        spread(&heading, unit, &[OverlayCurve { place: 0, points }], &statistics.chain(limits).collect::<Vec<_>>())
    };
    run.curves.iter().filter_map(plot).collect()
}

/// What happened in each second of the run: a step for each, the last one as long as it was.
fn series(result: &RunResult) -> Vec<String> {
    let end = result.rates.window_s;
    let column = |of: fn(&TimeSlice) -> Option<f64>| -> Vec<(f64, f64)> {
        result.slices.iter().filter_map(|slice| Some((slice.second as f64, of(slice)?))).collect()
    };
    let most = match result.load.in_flight_max {
        0 => String::new(),
        most => format!("; most: {}", number(most as f64)),
    };
    let has_peaks = result.slices.iter().any(|slice| slice.in_flight_max.is_some());
    let plot = |(title, value, kind): SecondSeries| {
        let most = if matches!(kind, SecondValue::Most | SecondValue::AtStart) { most.as_str() } else { "" };
        StepPlot { title: &format!("{title}{most}"), seconds: &column(value), end, kind }.draw()
    };
    second_series(result.tokens.chunk_source.is_some(), has_peaks).into_iter().filter_map(plot).collect()
}

/// A title, the value of a second, and what that is.
pub(crate) type SecondSeries = (&'static str, fn(&TimeSlice) -> Option<f64>, SecondValue);

/// What is drawn of each second. A file of an earlier version has no peaks.
pub(crate) fn second_series(has_chunks: bool, has_peaks: bool) -> [SecondSeries; 3] {
    [
        (
            if has_chunks { "Chunks in each second" } else { "Output tokens in each second" },
            |slice| Some(slice.tokens as f64),
            SecondValue::Sum,
        ),
        if has_peaks {
            let title = "Most requests in flight in each second";
            (title, |slice| Some(slice.in_flight_max? as f64), SecondValue::Most)
        } else {
            let title = "Requests in flight when each second began";
            (title, |slice| Some(slice.in_flight as f64), SecondValue::AtStart)
        },
        ("Mean TTFT of each second's first tokens, ms", |slice| slice.ttft_ms, SecondValue::Mean),
    ]
}
