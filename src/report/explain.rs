//! `explain`: what each of Regatta's numbers means, and which tools mean something else by the same term.

use std::fmt::Write as _;
use std::sync::LazyLock;

use serde::Serialize;
use serde_json::{Value, json as value};

use crate::document::{Cell, Table};
use crate::styler::{Styler, TextRole};
use harness::{CountedIn, LATENCIES, LatencyMetric};
use interop::{MetricConcept, MetricMeaning, Tool, vector};

/// One number of `result.json`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ExplainedNumber {
    /// As it is typed, and as `result.json` has it.
    pub name: &'static str,
    /// Where in `result.json`.
    pub place: &'static str,
    pub title: &'static str,
    pub unit: &'static str,
    /// In one sentence.
    pub about: &'static str,
    pub formula: &'static str,
    pub population: &'static str,
    pub zero_point: &'static str,
    pub token_source: &'static str,
    pub window: &'static str,
    /// What to keep in mind.
    pub mind: &'static str,
    /// The term that other tools use for something like it.
    #[serde(skip)]
    pub concept: Option<MetricConcept>,
}

const MS: ExplainedNumber = ExplainedNumber {
    name: "",
    place: "",
    title: "",
    unit: "ms",
    about: "",
    formula: "",
    population: "successful requests",
    zero_point: "schedule",
    token_source: "none: no tokens are counted",
    window: "full: schedule start to the end of the last successful request",
    mind: "",
    concept: None,
};

const COUNTED: &str = "the server's output_ids, its usage, or its text retokenized by Regatta; result.json names which";

/// A latency, from its row.
fn latency(row: &LatencyMetric) -> ExplainedNumber {
    let &LatencyMetric { key, place, title, about, formula, population, zero_point, mind, .. } = row;
    let token_source = if row.tokens == CountedIn::Nothing { MS.token_source } else { COUNTED };
    // Other tools call the gaps between chunks ITL.
    let term = key.split('_').next().map(|term| if term == "icl" { "itl" } else { term });
    let concept = MetricConcept::ALL.iter().copied().find(|concept| Some(concept.as_str()) == term);
    ExplainedNumber {
        name: key,
        place,
        title,
        about,
        formula,
        population,
        zero_point,
        token_source,
        mind,
        concept,
        ..MS
    }
}

/// Every number that can be explained: the latencies, and the others.
pub static ENTRIES: LazyLock<Vec<ExplainedNumber>> =
    LazyLock::new(|| LATENCIES.iter().map(latency).chain(FURTHER).collect());

/// Each row: its name, where in `result.json` it is, and what is known of it.
macro_rules! numbers {
    ($($name:ident = $place:literal { $($fact:ident: $value:expr,)* })*) => {
        [$(ExplainedNumber { name: stringify!($name), place: $place, $($fact: $value,)* ..MS }),*]
    };
}

/// Those that are no latencies of their own.
const FURTHER: [ExplainedNumber; 16] = numbers! {
    ttft_adjusted = "latency.ttft_adjusted" {
        title: "time to first token, failures counted",
        about: "Percentiles in which a request without an answer counts as infinite.",
        formula: "TTFT; failed, cancelled and never sent requests = +inf",
        population: "all scheduled requests",
        mind: "Percentiles of successful requests improve when requests fail; these do not.",
    }
    e2e_adjusted = "latency.e2e_adjusted" {
        title: "end-to-end latency, failures counted",
        about: "Percentiles in which a request without an answer counts as infinite.",
        formula: "E2E; failed, cancelled and never sent requests = +inf",
        population: "all scheduled requests",
    }
    requests_full = "rates.requests_full" {
        title: "requests per second",
        about: "Answers over the whole run, including ramp and tail.",
        formula: "successful requests / (end of the last successful request − schedule start)",
        concept: Some(MetricConcept::Requests),
        unit: "/s",
    }
    requests_loadgen_completed = "rates.requests_loadgen_completed" {
        title: "requests per second, as LoadGen completes them",
        about: "MLPerf's number for the Server scenario.",
        formula: "(ok − 1) / (end of the last-issued successful request − first issue)",
        zero_point: "issue",
        window: "first issue to the end of the last-issued request",
        concept: Some(MetricConcept::Requests),
        unit: "/s",
    }
    output_tokens = "rates.output_tokens" {
        title: "output tokens per second",
        about: "The system's throughput.",
        formula: "output tokens of successful requests / window",
        token_source: COUNTED,
        unit: "/s",
    }
    offered = "rates.offered" {
        title: "offered rate",
        about: "The rate that the schedule requested.",
        formula: "(N − 1) / (last − first intended arrival)",
        population: "scheduled requests",
        window: "first to last intended arrival",
        unit: "/s",
    }
    admitted = "rates.admitted" {
        title: "admitted rate",
        about: "What the client really sent; more than 1 % off the offered rate is a fault of the client.",
        formula: "(N − 1) / (last − first issue)",
        population: "issued requests",
        zero_point: "issue",
        window: "first to last issue",
        unit: "/s",
    }
    goodput = "goodput" {
        title: "goodput",
        about: "Requests per second that meet the SLO.",
        formula: "requests that meet all limits of slo / window",
        population: "all scheduled requests; failed and never sent ones are misses",
        mind: "An answer too short for a TPOT is judged by TTFT and E2E alone.",
        unit: "/s",
    }
    steady = "steady" {
        title: "steady part",
        about: "The same numbers without ramp and tail, and whether the server drifted meanwhile.",
        formula: "of requests and chunks inside the steady window",
        population: "successful requests of the steady window",
        window: "steady: result.json has its ends",
    }
    little = "little" {
        title: "Little's law",
        about: "Requests in flight against rate times time in the system.",
        formula: "|L − λW| / L, L from a running gauge, λ and W from the records",
        unit: "",
        population: "issued requests",
        zero_point: "issue",
        window: "the whole run",
        mind: "All terms come from the client's own stamps and agree by construction: it does not check the run.",
    }
    cpu_share_max = "client.cpu_share_max" {
        title: "busiest load worker",
        about: "The share of one core that the busiest worker used.",
        formula: "CPU time of a worker / wall time, the largest",
        unit: "",
        population: "load workers",
        zero_point: "none",
        window: "the whole run",
        mind: "Above 85 % the client is the bottleneck.",
    }
    backlog = "client.backlog_p99_ms" {
        title: "backlog of the client",
        about: "How long an answer waited in the client after it was read.",
        formula: "processing − socket read, p99",
        population: "chunks of all requests",
        zero_point: "socket read",
    }
    ks = "client.ks_distance" {
        title: "were the arrivals Poisson",
        about: "The distance of the real gaps between issues from the requested distribution.",
        formula: "Kolmogorov–Smirnov distance of the gaps to the exponential law",
        unit: "",
        population: "issued requests",
        zero_point: "issue",
        mind: "Above its critical value the client distorted the arrivals.",
    }
    tokens_per_joule = "gpu.tokens_per_joule" {
        title: "tokens per joule of the GPUs",
        unit: "/J",
        about: "Output tokens for each joule that the servers' GPUs used.",
        formula: "output tokens per second / mean power of all reported GPUs",
        population: "output tokens of successful requests; gpu.population lists the GPUs",
        zero_point: "none",
        token_source: COUNTED,
        mind: "The GPUs alone, without CPUs, fans and the loss of power supplies. Absent unless every GPU reported \
            its power for 90 % of the window.",
    }
    gpu_energy = "gpu.energy_j" {
        title: "energy of the GPUs",
        unit: "J",
        about: "The energy that the servers' GPUs used during the measurement.",
        formula: "trapezoids under the readings of power, ends of the window interpolated, summed over GPUs",
        population: "gpu.population lists the GPUs",
        zero_point: "none",
        token_source: "none",
        mind: "Most boards report a mean over the last second, so a window of a few seconds is blurred. covered_s is \
            how much of the window the readings span, longest_gap_s the longest time between two.",
    }
    preflight = "preflight" {
        title: "client check before the measurement",
        unit: "",
        about: "Whether this machine can generate the load, tested before the measurement against a server that does \
            no work.",
        formula: "lag: issue − intended arrival. CPU share: CPU time for a chunk × planned tokens per second / \
            load workers",
        population: "issued requests of the trial",
        zero_point: "schedule, of the trial",
        token_source: "planned ones; each chunk of the null server is one",
        window: "the trial, about 2 s before the measurement",
        mind: "Warning if more than 1 % of the requests, beyond chance, are later than 1 ms, or if twice the planned \
            tokens/s would need more than 85 % of a core for each worker. INVALID(client) if they are later than 5 ms, \
            or if the planned tokens/s alone need more than 85 %. Users have no planned rate: more than 85 % is a \
            warning. Streaming over HTTP needs more CPU than this trial over gRPC.",
    }
};

/// The entry of that name; `ITL` and other tools' terms find Regatta's.
pub fn entry(name: &str) -> Option<&'static ExplainedNumber> {
    let name = name.to_lowercase().replace('-', "_");
    let name = match name.as_str() {
        "itl" | "inter_token_latency" => "itl_token",
        "time_to_first_token" => "ttft",
        "time_per_output_token" => "tpot",
        "request_latency" | "e2el" | "latency" => "e2e",
        "request_throughput" => "requests_full",
        "output_token_throughput" | "output_throughput" => "output_tokens",
        "inter_chunk_latency" => "icl",
        "slo" => "goodput",
        name => name,
    };
    ENTRIES.iter().find(|entry| entry.name == name)
}

/// The value of a tool's term on the golden vector.
struct Other {
    tool: Tool,
    /// Mean in ms, or requests/s.
    value: Option<f64>,
    n: Option<usize>,
    meaning: MetricMeaning,
}

fn others(concept: MetricConcept) -> Vec<Other> {
    let seen = vector();
    let other = |tool: Tool| {
        let meaning = MetricMeaning::new(tool, concept)?;
        let (value, n) = if concept == MetricConcept::Requests {
            (tool.rate(&seen).ok(), None)
        } else {
            let spread = tool.spread(concept, &seen).ok()?;
            (spread.mean(), Some(spread.n()))
        };
        Some(Other { tool, value, n, meaning })
    };
    Tool::ALL.iter().copied().filter_map(other).collect()
}

fn deviation_percent(value: Option<f64>, ours: Option<f64>) -> Option<f64> {
    Some((value? / ours? - 1.0) * 100.0)
}

fn facts(entry: &ExplainedNumber) -> Vec<(&'static str, &'static str)> {
    let facts = [
        ("formula", entry.formula),
        ("population", entry.population),
        ("zero point", entry.zero_point),
        ("tokens", entry.token_source),
        ("window", entry.window),
        ("in", entry.place),
        ("note", entry.mind),
    ];
    facts.into_iter().filter(|(_, text)| !text.is_empty()).collect()
}

/// One metric, as text.
pub fn text(entry: &ExplainedNumber, styler: Styler) -> String {
    let unit = if entry.unit.is_empty() { String::new() } else { format!(", {}", entry.unit) };
    let mut out =
        format!("{}: {}{unit}\n", styler.tone(TextRole::Name, entry.name), styler.tone(TextRole::Strong, entry.title));
    let _ = writeln!(out, "{}\n", entry.about);
    let rows = facts(entry).into_iter().map(|(name, text)| [Cell::quiet(name), text.into()]);
    out.push_str(&Table::list([], rows).terminal(styler, "  "));
    if let Some(concept) = entry.concept {
        let others = others(concept);
        let ours = others.iter().find(|other| other.tool == Tool::Regatta).and_then(|other| other.value);
        let unit = if concept == MetricConcept::Requests { "" } else { " ms" };
        let _ = writeln!(
            out,
            "\nWhat `{}` means elsewhere, and its mean on one set of five requests (the golden vector):",
            concept.title()
        );
        let row = |other: &Other| {
            let away = deviation_percent(other.value, ours).filter(|_| other.tool != Tool::Regatta);
            [
                Cell::name(other.tool.title()),
                other.value.map_or_else(|| "n/a".to_owned(), |value| format!("{value:.2}{unit}")).into(),
                Cell::new(TextRole::Warning, away.map_or_else(String::new, |away| format!("{away:+.1} %"))),
                Cell::quiet(other.n.map_or_else(String::new, |n| format!("n={n}"))),
                (&other.meaning.formula).into(),
            ]
        };
        out.push_str(&Table::list([], others.iter().map(row)).terminal(styler, "  "));
        out.push('\n');
        let notes = others.iter().map(|other| other.tool).filter(|tool| !tool.caveat().is_empty());
        let rows = notes.map(|tool| [Cell::name(tool.as_str()), Cell::quiet(tool.caveat())]);
        out.push_str(&Table::list([], rows).terminal(styler, "  "));
    }
    out
}

pub fn json(entry: &ExplainedNumber) -> Value {
    let others: Vec<Value> = entry.concept.map_or_else(Vec::new, |concept| {
        let others = others(concept);
        let ours = others.iter().find(|other| other.tool == Tool::Regatta).and_then(|other| other.value);
        others
            .iter()
            .map(|other| {
                value!({
                    "tool": other.tool.as_str(),
                    "version": other.tool.title(),
                    "word": concept.title(),
                    "meaning": other.meaning,
                    "golden_mean": other.value,
                    "golden_n": other.n,
                    "percent_from_ours": deviation_percent(other.value, ours),
                    "surprise": other.tool.caveat(),
                })
            })
            .collect()
    });
    let mut json = value!(entry);
    json["elsewhere"] = others.into();
    json
}

/// All of them, a line each.
pub fn list(styler: Styler) -> String {
    let row = |entry: &ExplainedNumber| [Cell::name(entry.name), Cell::quiet(entry.unit), entry.formula.into()];
    Table::list([], ENTRIES.iter().map(row)).terminal(styler, "")
}

pub fn list_json() -> Value {
    Value::Array(ENTRIES.iter().map(json).collect())
}
