//! Results of other tools, read into the format of Regatta's `result.json`: verdict `not_judged`, every number with the tool's
//! own definition. What a file does not have stays absent; nothing is filled in.
//!
//! A file is recognized by its content, not by its name. A tool's raw records, where they are given too, make it possible
//! to compute its run with another tool's definitions.

use serde_json::Value;

use super::imported::{ImportedNumbers, ImportedRequests, SERVER};
use crate::interop::metrics::{
    ImportOrigin, ImportedCounts, ImportedMetric, ImportedResult, ImportedTokens, ImportedVerdict, MeasuredResult,
    MeasuredRun, MetricConcept, MetricMeaning, MetricStats, RequestTrace, Tool,
};
use crate::interop::{aiperf, benchmark_report, genai_perf, guidellm, loadgen, perf_analyzer, trtllm_bench, vllm};

/// One imported run.
#[derive(Clone, Debug)]
pub struct Imported {
    pub tool: Tool,
    pub name: String,
    pub result: ImportedResult,
    /// Its requests, where the tool's files have them one by one.
    pub seen: Vec<RequestTrace>,
}

impl From<Imported> for MeasuredRun {
    fn from(Imported { name, result, seen, .. }: Imported) -> Self {
        Self { name, result: MeasuredResult::Imported(Box::new(result)), request_traces: seen }
    }
}

/// A file as it was read.
#[derive(Clone, Debug)]
pub struct ImportSource {
    pub name: String,
    pub text: String,
}

/// Why files are not imported. `name` is what the user calls them.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("{name} holds results of several tools: {first} and {second}\n  hint: name the file")]
    SeveralTools { name: String, first: String, second: String },
    #[error("{name} is no result that is known here\n  hint: known are {}", FORMATS.join("; "))]
    Unknown { name: String },
    #[error("{name} does not name the tool that measured, so its metrics have no definition here")]
    NoTool { name: String },
    #[error("{file} cannot be read: {source}")]
    Json { file: String, source: serde_json::Error },
    /// Of a file with a record on each line; from 1.
    #[error("{file} cannot be read: line {line}: {source}")]
    Line { file: String, line: usize, source: serde_json::Error },
}

/// What a file is known to be.
enum DetectedFormat {
    /// The tool's own numbers.
    Numbers(ImportedNumbers),
    /// ImportedRequests one by one.
    Requests(ImportedRequests),
}

/// The formats that are known, for help and errors.
pub const FORMATS: [&str; 11] = [
    "GenAI-Perf profile_export_genai_perf.json",
    "perf_analyzer profile_export.json (raw)",
    "AIPerf profile_export_aiperf.json",
    "AIPerf profile_export.jsonl (raw)",
    "vLLM bench serve JSON (raw when detailed)",
    "SGLang bench_serving JSON",
    "GuideLLM benchmarks.json",
    "Benchmark Report 0.2",
    "LoadGen's log folder (mlperf_log_summary.txt, mlperf_log_detail.txt)",
    "trtllm-bench report JSON",
    "what trtllm-bench printed, with its PERFORMANCE OVERVIEW",
];

/// Reads a tool's files: its numbers, its raw records, or both.
pub fn import(name: &str, sources: &[ImportSource]) -> Result<Imported, ImportError> {
    let mut numbers: Option<(String, ImportedNumbers)> = None;
    let mut requests: Option<(String, ImportedRequests)> = None;
    for source in sources {
        for known in read(source)? {
            match known {
                DetectedFormat::Numbers(found) => match &numbers {
                    None => numbers = Some((source.name.clone(), found)),
                    Some((other, before)) if before.tool != found.tool || before.format != found.format => {
                        let (name, first, second) = (name.to_owned(), other.clone(), source.name.clone());
                        return Err(ImportError::SeveralTools { name, first, second });
                    }
                    Some(_) => {}
                },
                DetectedFormat::Requests(found) if requests.is_none() => requests = Some((source.name.clone(), found)),
                DetectedFormat::Requests(_) => {}
            }
        }
    }
    let mut from: Vec<String> = [numbers.as_ref().map(|it| it.0.clone()), requests.as_ref().map(|it| it.0.clone())]
        .into_iter()
        .flatten()
        .collect();
    from.dedup();
    // AIPerf's records do not name the source of token counts; its summary does.
    if let (Some((_, numbers)), Some((_, requests))) = (&numbers, &mut requests)
        && numbers.tool == Some(Tool::AiPerf)
        && numbers.counted == Some(SERVER)
    {
        requests.counted = numbers.counted;
        for one in &mut requests.request_traces {
            one.tokens = one.retokenised.take().or(one.tokens);
        }
    }
    let seen = requests.as_ref().map(|(_, requests)| requests.request_traces.clone()).unwrap_or_default();
    // The records of a run may have other counts than its numbers.
    let recounted = requests.as_ref().and_then(|(_, requests)| requests.counted);
    let numbers = match (numbers, requests) {
        (Some((_, numbers)), _) => numbers,
        (None, Some((_, requests))) => computed(requests),
        (None, None) => return Err(ImportError::Unknown { name: name.to_owned() }),
    };
    let tool = numbers.tool.ok_or_else(|| ImportError::NoTool { name: name.to_owned() })?;
    let mut result = result(tool, numbers, from);
    result.imported.requests_counted = recounted.map(str::to_owned);
    Ok(Imported { tool, name: name.to_owned(), result, seen })
}

fn read(source: &ImportSource) -> Result<Vec<DetectedFormat>, ImportError> {
    let text = source.text.trim_start_matches('\u{feff}').trim();
    if text.contains(trtllm_bench::import::OVERVIEW)
        && let Some(numbers) = trtllm_bench::import::overview(text)
    {
        return Ok(vec![DetectedFormat::Numbers(numbers)]);
    }
    if let Some(numbers) = loadgen::import_numbers(text) {
        return Ok(vec![DetectedFormat::Numbers(numbers)]);
    }
    let file = || source.name.clone();
    match serde_json::from_str::<Value>(text) {
        Ok(value) => Ok(detect_formats(&value)),
        // Several documents: records, one on each line.
        Err(_)
            if source.name.ends_with("jsonl")
                || text.lines().count() > 1 && text.lines().all(|line| line.starts_with('{')) =>
        {
            let lines: Vec<Value> = text
                .lines()
                .enumerate()
                .map(|(at, line)| {
                    let wrong = |source| ImportError::Line { file: file(), line: at + 1, source };
                    serde_json::from_str(line).map_err(wrong)
                })
                .collect::<Result<_, _>>()?;
            if lines.first().is_some_and(|line| line.get("metadata").is_some() && line.get("metrics").is_some()) {
                return Ok(vec![DetectedFormat::Requests(aiperf::import::requests(&lines))]);
            }
            // SGLang adds a line for each run; the last is the newest.
            Ok(lines.last().map(detect_formats).unwrap_or_default())
        }
        Err(error) => match serde_yaml::from_str::<Value>(text) {
            Ok(value) if value.is_object() => Ok(detect_formats(&value)),
            _ => Err(ImportError::Json { file: file(), source: error }),
        },
    }
}

fn detect_formats(value: &Value) -> Vec<DetectedFormat> {
    let has = |key: &str| value.get(key).is_some();
    if value.pointer("/experiments/0/requests").is_some() {
        return vec![DetectedFormat::Requests(perf_analyzer::import::requests(value))];
    }
    if value.pointer("/metadata/guidellm_version").is_some() && has("benchmarks") {
        let mut found = vec![DetectedFormat::Numbers(guidellm::import::import_numbers(value))];
        found.extend(guidellm::import::requests(value).map(DetectedFormat::Requests));
        return found;
    }
    if value.pointer("/results/request_performance/aggregate").is_some() {
        return vec![DetectedFormat::Numbers(benchmark_report::import::import_numbers(value))];
    }
    if value.pointer("/performance/system_output_throughput_tok_s").is_some() {
        return vec![DetectedFormat::Numbers(trtllm_bench::import::report(value))];
    }
    if has("mean_ttft_ms") {
        let mut found = vec![DetectedFormat::Numbers(vllm::import::import_numbers(value))];
        found.extend(vllm::import::requests(value).map(DetectedFormat::Requests));
        return found;
    }
    if value.pointer("/request_latency/avg").is_some() || value.pointer("/request_throughput/avg").is_some() {
        return vec![DetectedFormat::Numbers(genai_perf::import::import_numbers(value))];
    }
    Vec::new()
}

/// A tool's numbers from its raw records, with its own definitions.
fn computed(requests: ImportedRequests) -> ImportedNumbers {
    let ImportedRequests { tool, format, version, requested, counted, request_traces: seen } = requests;
    let stats = MetricConcept::ALL
        .into_iter()
        .filter_map(|concept| Some((concept, MetricStats::from(&tool.spread(concept, &seen).ok()?))))
        .collect();
    let ok = || seen.iter().filter(|one| one.ok);
    let sum = |of: fn(&RequestTrace) -> Option<u32>| {
        let all: Option<Vec<u32>> = ok().map(of).collect();
        all.map(|all| all.into_iter().map(f64::from).sum())
    };
    let requests_per_s = tool.rate(&seen).ok();
    let count = if tool == Tool::GenAiPerf { seen.len() } else { ok().count() } as f64;
    let window_s = requests_per_s.filter(|rate| *rate > 0.0).map(|rate| count / rate);
    let output_tokens = sum(|one| one.retokenised.or(one.tokens));
    ImportedNumbers {
        tool: Some(tool),
        format,
        version,
        requested,
        ok: Some(ok().count() as f64),
        failed: Some((seen.len() - ok().count()) as f64),
        input_tokens: sum(|one| one.input),
        output_tokens,
        window_s,
        requests_per_s,
        tokens_per_s: output_tokens.zip(window_s).map(|(tokens, seconds)| tokens / seconds),
        counted,
        extra_rates: Vec::new(),
        stats,
    }
}

fn result(tool: Tool, numbers: ImportedNumbers, from: Vec<String>) -> ImportedResult {
    let counted = numbers.counted.unwrap_or(tool.counted());
    let metric = |(concept, stat): &(MetricConcept, MetricStats)| {
        let meaning = MetricMeaning::of(tool, *concept)?;
        if stat.mean.is_none() && stat.p50.is_none() {
            return None;
        }
        let &MetricStats { n, mean, p50, p90, p95, p99, min, max } = stat;
        let token_source = if meaning.token_source.is_empty() { "" } else { counted };
        let metric = ImportedMetric {
            unit: "ms".to_owned(),
            n: (n > 0).then_some(n),
            definition: meaning.formula,
            population: meaning.population,
            zero_point: meaning.zero_point,
            token_source: token_source.to_owned(),
            window: meaning.window,
            percentile_rule: meaning.percentile_rule,
            mean,
            p50,
            p90,
            p95,
            p99,
            min,
            max,
        };
        Some((concept.name().to_owned(), metric))
    };
    let rates = [
        ("window_s", numbers.window_s),
        ("requests_full", numbers.requests_per_s),
        ("output_tokens", numbers.tokens_per_s),
    ];
    let rates = rates.into_iter().chain(numbers.extra_rates);
    ImportedResult {
        schema: 1,
        verdict: ImportedVerdict::NotJudged,
        latency: numbers.stats.iter().filter_map(metric).collect(),
        rates: rates.filter_map(|(name, value)| Some((name.to_owned(), value?))).collect(),
        imported: ImportOrigin {
            from,
            tool: tool.name().to_owned(),
            tool_version: numbers.version,
            format: numbers.format.to_owned(),
            definitions: tool.title().to_owned(),
            requests_counted: None,
        },
        requested: numbers.requested,
        counts: ImportedCounts { ok: numbers.ok, failed: numbers.failed },
        tokens: ImportedTokens {
            input: numbers.input_tokens,
            output: numbers.output_tokens,
            source: counted.to_owned(),
        },
    }
}
