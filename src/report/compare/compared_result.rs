//! One result with the meaning of every number.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::explain;
use base::diag::ErrorText;
use base::event::Verdict;
use base::spec::{Length, Statistic};
use base::units::four_digits;
use harness::gpu::GpusUsage;
use harness::{
    Adjusted, LimitSearch, LoadPattern, Metric, RunIdentity, RunResult, SearchReport, SearchRules, Workload,
    marked_verdict,
};
use interop::{ImportIdentity, ImportedResult, MeasuredResult, MeasuredRun, MetricConcept, MetricMeaning, Tool};

/// One metric with the requests it comes from.
#[derive(Clone, Debug)]
pub struct Measure {
    pub key: String,
    pub unit: &'static str,
    pub meaning: MetricMeaning,
    /// `mean`, `p50`, …; a rate has one number without a name.
    pub stats: Vec<(&'static str, f64)>,
    /// By request; empty where they are not known.
    pub values: Vec<(u64, f64)>,
    pub more_is_better: bool,
}

impl Measure {
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.meaning.differences(&other.meaning).is_empty()
    }

    pub(super) fn stat(&self, name: &str) -> Option<f64> {
        self.stats.iter().find(|(stat, _)| *stat == name).map(|(_, value)| *value)
    }
}

/// A result as it is compared.
#[derive(Clone, Debug)]
pub struct ComparedResult {
    pub name: String,
    /// None for an imported result, which has no verdict.
    pub verdict: Option<Verdict>,
    /// How many runs its numbers are means over; 1 for a single run.
    pub runs: usize,
    /// Whether LoadGen's durations were shortened.
    rehearsal: bool,
    /// What was measured, if its file has that.
    pub identity: Option<RunIdentity>,
    /// Its server and its load. None for an imported result.
    pub workload: Option<Workload>,
    /// The tool that the numbers come from.
    pub tool: Tool,
    /// The same arrivals, lengths and prompts have the same.
    pub digest: Option<String>,
    /// Users went on until a time was over: a faster server was sent more requests of the same seed.
    is_ended_by_time: bool,
    /// Requests came at times that do not depend on answers; also of another tool, whose plan is not known.
    pub(super) has_arrivals: bool,
    /// Prompts or answers of other seeds may have other lengths.
    pub(super) has_lengths: bool,
    load: BTreeMap<String, String>,
    /// The other requested settings.
    settings: BTreeMap<String, String>,
    /// Mean tokens of a prompt and of an answer.
    lengths: [Option<f64>; 2],
    /// Mean tokens requested of an answer, in Regatta's own result: lengths are drawn, and other seeds draw others.
    requested_answer: Option<f64>,
    /// The share of prompt tokens that a prefix cache had; `None`: not known.
    pub(super) cached_share: Option<f64>,
    /// Whose the numbers have.
    pub(super) definitions: String,
    /// Of an imported result: requests that failed.
    pub(super) failed: Option<f64>,
    /// Of an imported result, which has no verdict: what its tool reported against it.
    pub(super) objections: Vec<String>,
    /// The source of the token counts.
    counted: String,
    pub measures: Vec<Measure>,
    /// Of a search: the rate that it found. The other numbers are those of its probe at that rate.
    pub searched: Option<SearchedRate>,
    /// Of a search: the limits that the rate meets. With other limits there is another rate.
    pub(crate) searched_limits: Option<String>,
    /// What only a condition looks at: more statistics of the measures, and the percentiles that count failures,
    /// which may be infinite.
    pub(super) gate_measures: Vec<Measure>,
}

/// The highest rate at which the limits of a search hold, requests per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SearchedRate {
    /// The estimate; the highest rate that held, where nothing could be estimated.
    pub rate: f64,
    /// The ends of its 95 % interval.
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// The limits held at the highest rate that was tried: the rate is this or more, and by how much is not known.
    pub is_lower_bound: bool,
}

impl SearchedRate {
    fn new(search: &SearchReport) -> Self {
        // A file of an earlier version has no bounds.
        let highest = Some(search.bounds.high).filter(|high| *high > 0.0);
        match &search.rules {
            SearchRules::Limits(LimitSearch { estimate: Some(estimate), .. }) => {
                let above = highest.filter(|highest| estimate.rate > *highest);
                Self {
                    rate: above.unwrap_or(estimate.rate),
                    low: Some(estimate.low),
                    high: Some(estimate.high),
                    is_lower_bound: above.is_some(),
                }
            }
            _ => Self {
                rate: search.found.at_least,
                low: None,
                high: None,
                is_lower_bound: search.found.below.is_none(),
            },
        }
    }

    /// `12.3 (10.1 … 14)`, `400 or more`
    pub fn describe(&self) -> String {
        self.describe_with(|rate| four_digits(rate).to_string())
    }

    /// Like `describe`, with numbers as a table has them.
    pub fn describe_with(&self, number: impl Fn(f64) -> String) -> String {
        let rate = number(self.rate);
        if self.is_lower_bound {
            return format!("{rate} or more");
        }
        match (self.low, self.high) {
            (Some(low), Some(high)) => format!("{rate} ({} … {})", number(low), number(high)),
            _ => format!("{rate} (no interval)"),
        }
    }
}

/// The key of [`ComparedResult::searched`] among the measures.
pub const FOUND_RATE: &str = "found_rate";

const STATS: [Statistic; 5] = [Statistic::Mean, Statistic::P50, Statistic::P90, Statistic::P95, Statistic::P99];
const FURTHER_STATS: [Statistic; 2] = [Statistic::P75, Statistic::Max];

/// Requested settings that are not part of the load: endpoints, seeds, limits, sampling.
const NO_LOAD: [&str; 17] = [
    "endpoints",
    "model",
    "seed",
    "warmup",
    "frontends",
    "clients",
    "stall_timeout_ms",
    "ttft_p99_limit_ms",
    "tpot_p99_limit_ms",
    "further_limits",
    "slo",
    "vocab_size",
    "end_id",
    "requests",
    "stop_requests",
    "stop_duration_ms",
    "timelines",
];

impl ComparedResult {
    /// With the numbers and definitions that the result has.
    pub fn new(measured_run: &MeasuredRun) -> Self {
        let imported = measured_run.result.imported().and_then(ImportedResult::tool);
        let mut sheet = Self::empty(measured_run, measured_run.result.tool());
        for (key, metric) in measured_run.result.metrics() {
            let (as_tool, concept) = by_request(key, sheet.tool);
            let values = concept
                .and_then(|concept| as_tool.by_request(concept, &measured_run.request_traces).ok())
                .unwrap_or_default();
            sheet.add_latency(key, meaning(key, &metric), &metric, values);
        }
        for key in ["requests_full", "requests_loadgen_completed", "output_tokens"] {
            if let Some(rate) = measured_run.result.rate(key) {
                let meaning = rate_meaning(key, imported, &sheet.counted);
                sheet.measures.push(rate_measure(key, rate, meaning));
            }
        }
        if let Some(own) = measured_run.result.own()
            && let Some(gpu) = &own.gpu
            && let Some(tokens) = own.number("tokens_per_joule", gpu.tokens_per_joule)
        {
            sheet.measures.push(energy(gpu, tokens, &sheet.counted));
        }
        if let Some(own) = measured_run.result.own() {
            let of_all = [("ttft_adjusted", &own.latency.ttft_adjusted), ("e2e_adjusted", &own.latency.e2e_adjusted)];
            sheet.gate_measures.extend(of_all.into_iter().filter(|(_, it)| it.n > 0).map(adjusted));
        }
        sheet
    }

    /// With the rate that a search found, whose last probe this result is.
    #[must_use]
    pub fn with_search(mut self, search: &SearchReport) -> Self {
        let searched = SearchedRate::new(search);
        let limits = match &search.rules {
            SearchRules::Limits(LimitSearch { goal: Some(goal), .. }) => goal.limits.join(", "),
            SearchRules::Limits(_) => "the limits of the search".to_owned(),
            SearchRules::Loadgen { .. } => "LoadGen's rules".to_owned(),
        };
        let meaning = MetricMeaning {
            formula: format!("the highest rate that meets {limits}"),
            ..rate_meaning(FOUND_RATE, None, "")
        };
        if let Some(workload) = &mut self.workload {
            (workload.load, workload.extent) = (format!("highest rate with {limits}"), None);
        }
        self.searched_limits = Some(limits);
        self.measures.insert(0, rate_measure(FOUND_RATE, searched.rate, meaning));
        self.searched = Some(searched);
        self
    }

    /// With a tool's definitions, from the requests one by one.
    pub fn as_tool(measured_run: &MeasuredRun, tool: Tool) -> Result<Self, ErrorText> {
        let refused = |reason: &str| {
            ErrorText::new(format_args!("{} cannot be computed as {}: {reason}", measured_run.name, tool.as_str()))
        };
        let mut sheet = Self::empty(measured_run, tool);
        let imported = measured_run.result.imported().map(|result| &result.imported);
        if let Some(counted) = imported.and_then(|imported| imported.requests_counted.as_ref()) {
            sheet.counted.clone_from(counted);
        }
        if measured_run.request_traces.is_empty() {
            return match imported {
                Some(imported) if imported.tool == tool.as_str() => Ok(Self::new(measured_run)),
                _ => Err(refused("it has no records of single requests with their start times")
                    .hint("import the tool's raw records with its numbers")),
            };
        }
        let mut missing = Vec::new();
        for &concept in MetricConcept::ALL {
            let Some(meaning) = MetricMeaning::new(tool, concept) else { continue };
            if concept == MetricConcept::Requests {
                if let Ok(rate) = tool.rate(&measured_run.request_traces) {
                    sheet.measures.push(rate_measure("requests_full", rate, meaning));
                }
                continue;
            }
            match tool.spread(concept, &measured_run.request_traces) {
                Ok(spread) => {
                    let meaning = if meaning.token_source.is_empty() {
                        meaning
                    } else {
                        MetricMeaning { token_source: sheet.counted.clone(), ..meaning }
                    };
                    let values = tool.by_request(concept, &measured_run.request_traces).unwrap_or_default();
                    sheet.add_latency(concept.as_str(), meaning, &spread.metric(), values);
                }
                Err(why) => missing.push(format!("{}: {}", concept.title(), why.reason())),
            }
        }
        if sheet.measures.is_empty() {
            return Err(refused(&missing.join("; ")));
        }
        Ok(sheet)
    }

    /// The usual statistics are compared; a condition looks at the further ones, too.
    fn add_latency(&mut self, key: &str, meaning: MetricMeaning, metric: &Metric, values: Vec<(u64, f64)>) {
        let stats = |names: &[Statistic]| {
            names.iter().filter_map(|name| Some((name.as_str(), metric.statistic(*name)?))).collect()
        };
        self.gate_measures.push(latency_measure(key, meaning.clone(), stats(&FURTHER_STATS)));
        self.measures.push(Measure { values, ..latency_measure(key, meaning, stats(&STATS)) });
    }

    fn empty(measured_run: &MeasuredRun, tool: Tool) -> Self {
        let result = &measured_run.result;
        let requested = result.requested();
        let (mut load, mut settings) = (BTreeMap::new(), BTreeMap::new());
        for (key, value) in &requested {
            // Bounds on the size of answers are not part of the load.
            let mut value = value.clone();
            if let Some(request) = value.as_object_mut().filter(|_| key == "request") {
                request.remove("response_limits");
            }
            let value = &value;
            if !is_nothing(value) {
                let is_load = match result {
                    MeasuredResult::Regatta(_) => !NO_LOAD.contains(&key.as_str()),
                    MeasuredResult::Imported(_) => ImportIdentity::is_load(key, &requested),
                };
                let of = if is_load { &mut load } else { &mut settings };
                of.insert(key.clone(), value_text(value));
            }
        }
        if result.own().is_some() {
            load.extend(implied_settings(&requested));
        }
        // Servers that runs start have other ports each time.
        let names = result.identity().and_then(RunIdentity::server_names);
        settings.extend(names.map(|names| ("endpoints".to_owned(), names)));
        // One name for one concept, whichever tool reports it.
        let scenario = requested.get("scenario");
        for (place, name) in [("/server/rate", "request_rate"), ("/concurrency/users", "concurrency")] {
            if let Some(level) = scenario.and_then(|scenario| scenario.pointer(place)) {
                load.remove("scenario");
                load.insert(name.to_owned(), value_text(level));
            }
        }
        let ok = result.ok().filter(|ok| *ok > 0.0);
        let mean = |sum: Option<f64>| Some(sum? / ok?);
        Self {
            name: measured_run.name.clone(),
            runs: result.runs(),
            rehearsal: result.own().is_some_and(RunResult::is_rehearsal),
            identity: result.identity().cloned(),
            workload: result.own().map(RunResult::workload),
            verdict: result.verdict(),
            tool,
            digest: result.own().map(|own| own.schedule_digest.clone()).filter(|digest| !digest.is_empty()),
            is_ended_by_time: result.own().is_some_and(|own| {
                let requested = &own.requested;
                matches!(requested.scenario, LoadPattern::Concurrency { .. }) && requested.stop_requests.is_none()
            }),
            has_arrivals: result.own().is_none_or(|own| own.requested.scenario.is_open_loop()),
            has_lengths: result.own().is_none_or(|own| {
                let lengths = [&own.requested.input_len, &own.requested.output_len];
                !lengths.iter().all(|length| matches!(length, Length::Fixed(_)))
            }),
            load,
            settings,
            lengths: result.tokens().map(mean),
            requested_answer: mean(
                result.own().map(|own| own.tokens.output_requested as f64).filter(|requested| *requested > 0.0),
            ),
            cached_share: result.own().and_then(RunResult::cached_prompt_share),
            definitions: match result.imported().map(|imported| &imported.imported) {
                Some(origin) if origin.tool == tool.as_str() => origin.definitions.clone(),
                _ => tool.title().to_owned(),
            },
            failed: result.imported().and_then(|imported| imported.counts.failed).filter(|failed| *failed > 0.0),
            objections: result.imported().map(ImportedResult::objections).unwrap_or_default(),
            counted: counted(measured_run),
            measures: Vec::new(),
            searched: None,
            searched_limits: None,
            gate_measures: Vec::new(),
        }
    }

    /// Its plan: arrivals, lengths and prompts. `None`: it is not known, or how many requests were in it depended on
    /// the server.
    pub fn plan(&self) -> Option<&str> {
        self.digest.as_deref().filter(|_| !self.is_ended_by_time)
    }

    /// What makes numbers unlike where it differs, as text by name.
    pub const fn load(&self) -> &BTreeMap<String, String> {
        &self.load
    }

    /// Where, on what and how it was measured, as text by name: a difference in it may be what the comparison is about.
    pub const fn settings(&self) -> &BTreeMap<String, String> {
        &self.settings
    }

    /// As it stands on pages: `VALID`, `VALID SIMULATED`, `not judged`.
    pub fn verdict_word(&self) -> String {
        let verdict = self.verdict.map_or("not judged", Verdict::as_str);
        marked_verdict(verdict, self.is_simulated(), self.rehearsal)
    }

    /// What it was measured on; of an imported result what its file says of model and load: `meta/llama · 10 req/s ·
    /// 200 requests · 500 → 128 tokens`. `None`: neither is known.
    pub(super) fn measured_on(&self) -> Option<String> {
        if self.identity.is_some() || self.workload.is_some() {
            return self.identity.as_ref().map(RunIdentity::line);
        }
        let pace = match (self.load.get("request_rate").map(String::as_str), self.load.get("concurrency")) {
            (Some("inf"), _) => Some("all at once".to_owned()),
            (Some(rate), _) => Some(format!("{rate} req/s")),
            (None, users) => users.map(|users| format!("concurrency {users}")),
        };
        let unknown = pace.as_ref().map(|_| "unknown model".to_owned());
        let model = self.settings.get("model").cloned().or(unknown)?;
        let requests = self.settings.get("requests").map(|requests| format!("{requests} requests"));
        let [prompt, answer] = self.lengths;
        let lengths = prompt.zip(answer).map(|(prompt, answer)| format!("{prompt:.0} → {answer:.0} tokens"));
        Some([Some(model), pace, requests, lengths].into_iter().flatten().collect::<Vec<_>>().join(" · "))
    }

    pub const fn is_rehearsal(&self) -> bool {
        self.rehearsal
    }

    /// Whether its file marks a server as the simulator.
    pub fn is_simulated(&self) -> bool {
        self.identity.as_ref().is_some_and(|identity| identity.simulated)
    }

    /// How the loads differ, in the fields that both report; and what cannot be compared.
    pub(super) fn unlike_load(&self, other: &Self) -> (Vec<String>, Vec<String>) {
        let mut unlike: Vec<String> = self
            .load
            .iter()
            .filter_map(|(key, one)| Some((key, one, other.load.get(key)?)))
            .filter(|(_, one, another)| one != another)
            .map(|(key, one, another)| format!("load: {key} {one} / {another}"))
            .collect();
        let pace = |sheet: &Self| {
            ["request_rate", "concurrency", "scenario"]
                .into_iter()
                .find_map(|key| Some((key, sheet.load.get(key)?.clone())))
        };
        if let (Some((one, value)), Some((another, other_value))) = (pace(self), pace(other))
            && one != another
        {
            unlike.push(format!("load: {one} {value} / {another} {other_value}"));
        }
        let mut notes = Vec::new();
        for (what, place) in [("prompt", 0), ("answer", 1)] {
            let (Some(one), Some(another)) = (self.lengths[place], other.lengths[place]) else { continue };
            let is_near = |one: f64, another: f64| (one - another).abs() <= 0.02 * one.max(another);
            let is_alike = match (self.requested_answer, other.requested_answer) {
                // Both state the lengths from which they draw, compared above; an answer must be as near to its own
                // request.
                (Some(_), Some(_)) if what == "prompt" => true,
                (Some(request), Some(other_request)) => is_near(one / request, another / other_request),
                _ => is_near(one, another),
            };
            if is_alike {
                continue;
            }
            let text = format!("mean {what} of {one:.1} / {another:.1} tokens");
            if self.counted == other.counted {
                unlike.push(format!("load: {text}"));
            } else {
                notes.push(format!(
                    "{text}, counted by {} / {}: whether the load was the same is unknown",
                    self.counted, other.counted
                ));
            }
        }
        (unlike, notes)
    }
}

/// The source of the output token counts.
fn counted(measured_run: &MeasuredRun) -> String {
    match measured_run.result.token_source() {
        "" => "none".to_owned(),
        source if measured_run.result.own().is_some() => by_whom(source),
        source => source.to_owned(),
    }
}

/// Regatta's own counts are the server's, unless there were none: then responses, chunks or the requested length
/// stood in for tokens, or the client counted. Answers of several sources have no one counter.
fn by_whom(source: &str) -> String {
    let stands_in = ["responses", "chunks", "requested"].iter().any(|what| source.starts_with(what));
    if stands_in || source.contains("; ") {
        return source.to_owned();
    }
    let counter = if source.starts_with("retokenized") { "the client" } else { "the server" };
    format!("{counter}: {source}")
}

/// Nothing was requested: `null`, and a list or an object that has nothing else in it.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.values().all(is_nothing),
        Value::Array(all) => all.iter().all(is_nothing),
        _ => false,
    }
}

/// What Regatta's own result leaves out, because it is the default, and what makes numbers unlike where it is not: one
/// stream for many requests is another way to send, and with retries a failure is an answer that comes late.
fn implied_settings(requested: &Map<String, Value>) -> Vec<(String, String)> {
    let by_kserve = requested.get("protocol").is_none_or(|protocol| protocol == "kserve");
    let stream = by_kserve.then_some(("stream", "per_request"));
    let left_out = stream.into_iter().chain([("retries", "none")]).filter(|(key, _)| !requested.contains_key(*key));
    left_out.map(|(key, usual)| (key.to_owned(), usual.to_owned())).collect()
}

/// Short text: `40`, `fixed 16`, `uniform min 1, max 6`. Equal numbers give equal texts: `40` and `40.0`.
fn value_text(value: &Value) -> String {
    match value {
        Value::Number(number) => number.as_f64().map_or_else(|| number.to_string(), |number| number.to_string()),
        Value::String(text) => text.clone(),
        Value::Object(fields) => {
            let all = fields.iter().filter(|(_, value)| !is_nothing(value) && **value != false);
            let words = all
                .map(|(key, value)| if *value == true { key.clone() } else { format!("{key} {}", value_text(value)) });
            let words: Vec<String> = words.collect();
            if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
        }
        Value::Array(all) => all.iter().map(value_text).collect::<Vec<_>>().join(", "),
        Value::Bool(_) | Value::Null => value.to_string(),
    }
}

/// The definition that a metric of a result states.
fn meaning(key: &str, metric: &Metric) -> MetricMeaning {
    let entry = explain::entry(key);
    let counts = entry.is_some_and(|entry| matches!(entry.name.as_str(), "tpot" | "itl_token"));
    MetricMeaning {
        token_source: match (metric.definition.as_str(), counts) {
            ("", true) => by_whom(&metric.token_source),
            ("", false) => String::new(),
            _ => metric.token_source.clone(),
        },
        // Regatta's own is the same in each result.
        formula: match metric.definition.as_str() {
            "" => entry.map(|entry| entry.formula.clone()).unwrap_or_default(),
            definition => definition.to_owned(),
        },
        population: metric.population.clone(),
        zero_point: metric.zero_point.clone(),
        window: metric.window.clone(),
        percentile_rule: metric.percentile_rule.clone(),
    }
}

/// `counted`: the source of the tokens.
fn rate_meaning(key: &str, imported: Option<Tool>, counted: &str) -> MetricMeaning {
    let entry = explain::entry(key);
    let token_source = if key == "output_tokens" { counted } else { "" };
    let of_tool = |tool| {
        let requests = MetricMeaning::new(tool, MetricConcept::Requests);
        let tokens = |meaning: MetricMeaning| MetricMeaning {
            formula: format!("output tokens over the window of: {}", meaning.formula),
            token_source: token_source.to_owned(),
            ..meaning
        };
        if key == "output_tokens" { requests.map(tokens) } else { requests }
    };
    imported
        .and_then(of_tool)
        .unwrap_or_else(|| MetricMeaning { token_source: token_source.to_owned(), ..full_window(entry) })
}

/// Of all requests, from the zero point of the entry.
fn full_window(entry: Option<&explain::ExplainedNumber>) -> MetricMeaning {
    MetricMeaning {
        formula: entry.map(|entry| entry.formula.clone()).unwrap_or_default(),
        zero_point: entry.map(|entry| entry.zero_point.clone()).unwrap_or_default(),
        window: "full".to_owned(),
        ..MetricMeaning::default()
    }
}

fn latency_measure(key: &str, meaning: MetricMeaning, stats: Vec<(&'static str, f64)>) -> Measure {
    Measure { key: key.to_owned(), unit: "ms", meaning, stats, values: Vec::new(), more_is_better: false }
}

/// Percentiles that count a request without an answer as infinitely late.
fn adjusted((key, it): (&str, &Adjusted)) -> Measure {
    let entry = explain::entry(key);
    let meaning = full_window(entry);
    let stats = [("p50", it.p50), ("p90", it.p90), ("p95", it.p95), ("p99", it.p99)];
    latency_measure(key, meaning, stats.map(|(stat, value)| (stat, value.unwrap_or(f64::INFINITY))).to_vec())
}

fn rate_measure(key: &str, rate: f64, meaning: MetricMeaning) -> Measure {
    let stats = vec![("", rate)];
    Measure { key: key.to_owned(), unit: "/s", meaning, stats, values: Vec::new(), more_is_better: true }
}

/// Tokens per joule of GPUs, which GPUs being part of what it means. `counted`: the source of the tokens.
fn energy(gpu: &GpusUsage, tokens_per_joule: f64, counted: &str) -> Measure {
    let meaning = MetricMeaning {
        formula: gpu.tokens_per_joule_is.clone(),
        population: gpu.population.clone(),
        token_source: counted.to_owned(),
        window: gpu.window.clone(),
        ..MetricMeaning::default()
    };
    Measure { unit: "/J", ..rate_measure("tokens_per_joule", tokens_per_joule, meaning) }
}

/// The tool and concept that define a metric, to find its values by request.
fn by_request(key: &str, tool: Tool) -> (Tool, Option<MetricConcept>) {
    let concept = MetricConcept::ALL.iter().copied().find(|concept| concept.as_str() == key);
    match (tool, key) {
        (Tool::Regatta, "ttft_sent") => (Tool::Vllm, Some(MetricConcept::Ttft)),
        (Tool::Regatta, "e2e_sent") => (Tool::Vllm, Some(MetricConcept::E2e)),
        _ => (tool, concept),
    }
}
