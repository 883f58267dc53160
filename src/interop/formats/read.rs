//! Results of other tools, read into the format of Regatta's `result.json`: verdict `not_judged`, every number with the tool's
//! own definition. What a file does not have stays absent; nothing is filled in.
//!
//! A file is recognized by its content, not by its name. A tool's raw records, where they are given too, make it possible
//! to compute its run with another tool's definitions.

use std::borrow::Cow;
use std::path::Path;

use base::diag::ErrorText;
use serde_json::{Map, Value};

use crate::loadgen::{LOG_FILES, ReadLog};
use crate::metrics::{
    ImportOrigin, ImportedCounts, ImportedMetric, ImportedResult, ImportedTokens, ImportedVerdict, MeasuredResult,
    MeasuredRun, MetricConcept, MetricMeaning, MetricStats, RequestTrace, Tool,
};
use crate::results::ImportIdentity;
use crate::results::imported::{ImportedNumbers, ImportedRequests, SERVER};
use crate::{aiperf, genai_perf, guidellm, loadgen, perf_analyzer, trtllm_bench, vllm};

/// One imported run.
#[derive(Clone, Debug)]
pub struct Imported {
    pub tool: Tool,
    pub name: String,
    /// What tells it apart from other runs.
    pub identity: ImportIdentity,
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
    #[error(
        "{}",
        ErrorText::new(format_args!("{} holds results of several tools or formats: {} and {}", .name, .first, .second))
            .hint("name the files of one")
    )]
    SeveralTools { name: String, first: String, second: String },
    #[error(
        "{}",
        ErrorText::new(format_args!("{} is no result that is known here", .name)).hint(format_args!(
            "known are {}; a command line in it is translated by `regatta import -- LINE`",
            FORMATS.join("; ")
        ))
    )]
    Unknown { name: String },
    #[error(
        "{}",
        ErrorText::new(format_args!("{} holds {} runs", .name, .count))
            .hint(format_args!("`regatta import {}` makes a sweep of them, whose points are results", .name))
    )]
    SeveralRuns { name: String, count: usize },
    #[error(
        "{}",
        ErrorText::new(format_args!(
            "two runs in different folders are at the same level, {}: {} and {}", .level, .first, .second
        ))
        .hint("import each folder of runs by itself, and compare the sweeps")
    )]
    SameLevel { level: String, first: String, second: String },
    #[error("{name} does not name the tool that measured, so its metrics have no definition here")]
    NoTool { name: String },
    #[error(
        "{}",
        ErrorText::new(format_args!("{} is of an accuracy run, in which LoadGen measures nothing", .file))
            .hint("import the folder of the performance run")
    )]
    AccuracyRun { file: String },
    #[error("{file} cannot be read: {source}")]
    Json { file: String, source: serde_json::Error },
}

/// What a file is known to be.
enum DetectedFormat {
    /// The tool's own numbers.
    Numbers(ImportedNumbers),
    /// Requests one by one.
    Requests(ImportedRequests),
    /// A run with both.
    Run(ImportedNumbers, ImportedRequests),
}

impl DetectedFormat {
    fn of(numbers: ImportedNumbers, requests: Option<ImportedRequests>) -> Self {
        match requests {
            Some(requests) => Self::Run(numbers, requests),
            None => Self::Numbers(numbers),
        }
    }
}

/// The files of one run, as far as they were found, by their names.
#[derive(Default)]
struct RunFiles {
    numbers: Option<(String, ImportedNumbers)>,
    requests: Option<(String, ImportedRequests)>,
}

/// The formats that are known, for help and errors.
const FORMATS: [&str; 11] = [
    "GenAI-Perf profile_export_genai_perf.json",
    "perf_analyzer profile_export.json (raw)",
    "AIPerf profile_export_aiperf.json",
    "AIPerf profile_export.jsonl (raw)",
    "vLLM bench serve JSON (raw when detailed)",
    "SGLang bench_serving JSON",
    "GuideLLM benchmarks.json",
    "LoadGen's log folder (mlperf_log_summary.txt, mlperf_log_detail.txt)",
    "trtllm-bench report JSON",
    "what trtllm-bench printed, with its PERFORMANCE OVERVIEW",
    "what vLLM and SGLang printed, with its Serving Benchmark Result (`--save-result` writes the JSON)",
];

/// Reads the files of a folder, or those that were named together: every run in them, with the file that it is from. At least one.
///
/// # Errors
/// They cannot be read, none is known, or they are of several tools.
pub fn import_runs(name: &str, sources: &[ImportSource]) -> Result<Vec<(String, Imported)>, ImportError> {
    let mut runs: Vec<RunFiles> = Vec::new();
    let mut records: Vec<(String, ImportedRequests)> = Vec::new();
    let (lists, files): (Vec<&ImportSource>, Vec<&ImportSource>) =
        sources.iter().partition(|source| source.text.trim().starts_with('['));
    for source in files.into_iter().chain(lists) {
        let file = || source.name.clone();
        // The summary of `vllm bench sweep`, a list of the runs that are beside it.
        if source.text.trim().starts_with('[') && source.text.contains("\"run_number\"") && !runs.is_empty() {
            continue;
        }
        for known in read(source)? {
            let (numbers, requests) = match known {
                DetectedFormat::Numbers(numbers) => (numbers, None),
                DetectedFormat::Run(numbers, requests) => (numbers, Some((file(), requests))),
                DetectedFormat::Requests(requests) => {
                    records.push((file(), requests));
                    continue;
                }
            };
            if let Some((other, before)) = runs.first().and_then(|run| run.numbers.as_ref()) {
                if before.tool != numbers.tool || before.format != numbers.format {
                    let of_format = |file: &str, numbers: &ImportedNumbers| {
                        let tool = numbers.tool.map(|tool| format!(" by {}", tool.name())).unwrap_or_default();
                        format!("{file} ({}{tool})", numbers.format)
                    };
                    let (first, second) = (of_format(other, before), of_format(&source.name, &numbers));
                    return Err(ImportError::SeveralTools { name: name.to_owned(), first, second });
                }
                // Both logs of a folder have the same numbers.
                if LOG_FILES.contains(&source.name.as_str())
                    && LOG_FILES.contains(&other.as_str())
                    && *other != source.name
                {
                    continue;
                }
            }
            runs.push(RunFiles { numbers: Some((file(), numbers)), requests });
        }
    }
    attach(&mut runs, records);
    if runs.is_empty() {
        return Err(ImportError::Unknown { name: name.to_owned() });
    }
    runs.into_iter().map(|run| of_files(name, run)).collect()
}

/// Records without numbers belong to the run whose file is called like theirs, `c8.json` and `c8_genai_perf.json`, or to the only
/// one of their tool; others are a run of their own.
fn attach(runs: &mut Vec<RunFiles>, records: Vec<(String, ImportedRequests)>) {
    let stem = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let is_alone = runs.len() == 1 && records.len() == 1;
    for (file, requests) in records {
        // By how much the name of its file is longer.
        let distance = |run: &RunFiles| {
            let (name, numbers) = run.numbers.as_ref()?;
            if run.requests.is_some() || numbers.tool != Some(requests.tool) {
                return None;
            }
            match stem(name).strip_prefix(&stem(&file)) {
                Some(rest) if rest.is_empty() || rest.starts_with(['_', '-']) => Some(rest.len()),
                _ => is_alone.then_some(usize::MAX),
            }
        };
        let nearest =
            runs.iter_mut().filter_map(|run| Some((distance(run)?, run))).min_by_key(|(distance, _)| *distance);
        match nearest {
            Some((_, run)) => run.requests = Some((file, requests)),
            None => runs.push(RunFiles { numbers: None, requests: Some((file, requests)) }),
        }
    }
}

fn of_files(name: &str, RunFiles { numbers, mut requests }: RunFiles) -> Result<(String, Imported), ImportError> {
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
            one.tokens = one.retokenized.take().or(one.tokens);
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
    let file = from.first().cloned().unwrap_or_default();
    let identity = ImportIdentity::of(&numbers);
    let mut result = result(tool, numbers, from);
    result.imported.requests_counted = recounted.map(str::to_owned);
    Ok((file, Imported { tool, name: name.to_owned(), identity, result, seen }))
}

fn read(source: &ImportSource) -> Result<Vec<DetectedFormat>, ImportError> {
    let text = source.text.trim();
    let file = || source.name.clone();
    // Lines of a log begin with `[`, too.
    let is_json = text.trim_start_matches(['[', ' ', '\n', '\r', '\t']).starts_with('{');
    if !is_json && text.contains(trtllm_bench::import::OVERVIEW) {
        return Ok(trtllm_bench::import::overviews(text).into_iter().map(DetectedFormat::Numbers).collect());
    }
    if !is_json && text.contains(vllm::printed::TITLE) {
        let tables = vllm::printed::tables(text);
        return Ok(tables.iter().map(|table| DetectedFormat::Numbers(vllm::import::printed_numbers(table))).collect());
    }
    match loadgen::read(text) {
        Some(ReadLog::Performance(numbers)) => return Ok(vec![DetectedFormat::Numbers(*numbers)]),
        Some(ReadLog::Accuracy) => return Err(ImportError::AccuracyRun { file: file() }),
        None => {}
    }
    let text = strict_json(text);
    // Several documents are records, or the runs to which a tool adds one each, as SGLang and vLLM do.
    match serde_json::Deserializer::from_str(&text).into_iter::<Value>().collect::<Result<Vec<Value>, _>>() {
        Ok(values)
            if values
                .first()
                .is_some_and(|first| first.get("metadata").is_some() && first.get("metrics").is_some()) =>
        {
            Ok(vec![DetectedFormat::Requests(aiperf::import::requests(&values))])
        }
        Ok(values) => Ok(values.iter().flat_map(detect_formats).collect()),
        Err(source) if is_json => Err(ImportError::Json { file: file(), source }),
        Err(_) if !is_yaml(&source.name) => Ok(Vec::new()),
        Err(_) => Ok(serde_yaml::from_str::<Value>(&text).map(|value| detect_formats(&value)).unwrap_or_default()),
    }
}

fn is_yaml(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}

/// Python's `json` writes `Infinity` and `NaN`, which are no JSON. SGLang's file has the first as its rate, where vLLM's has `"inf"`.
fn strict_json(text: &str) -> Cow<'_, str> {
    if !["Infinity", "NaN"].iter().any(|word| text.contains(word)) {
        return Cow::Borrowed(text);
    }
    let mut strict = String::with_capacity(text.len());
    // Strings are every second part between quotes that no backslash escapes.
    let (mut is_string, mut is_escaped, mut start) = (false, false, 0);
    for (at, byte) in text.bytes().enumerate() {
        if byte == b'"' && !is_escaped {
            let part = &text[start..at];
            strict.push_str(&if is_string { part.to_owned() } else { without_words(part) });
            strict.push('"');
            (is_string, start) = (!is_string, at + 1);
        }
        is_escaped = byte == b'\\' && !is_escaped;
    }
    strict.push_str(&without_words(&text[start..]));
    Cow::Owned(strict)
}

fn without_words(part: &str) -> String {
    part.replace("-Infinity", "null").replace("Infinity", "\"inf\"").replace("NaN", "null")
}

fn detect_formats(value: &Value) -> Vec<DetectedFormat> {
    let has = |key: &str| value.get(key).is_some();
    if let Some(list) = value.as_array() {
        return list.iter().filter(|item| item.is_object()).flat_map(detect_formats).collect();
    }
    if value.pointer("/experiments/0/requests").is_some() {
        return perf_analyzer::import::experiments(value).into_iter().map(DetectedFormat::Requests).collect();
    }
    if value.pointer("/metadata/guidellm_version").is_some() && has("benchmarks") {
        let all = guidellm::import::runs(value).into_iter();
        return all.map(|(numbers, requests)| DetectedFormat::of(numbers, requests)).collect();
    }
    if value.pointer("/performance/system_output_throughput_tok_s").is_some() {
        return vec![DetectedFormat::Numbers(trtllm_bench::import::report(value))];
    }
    if has("mean_ttft_ms") {
        // The warm-up of `vllm bench sweep` is no run.
        if value.get("run_number").and_then(Value::as_i64) == Some(-1) {
            return Vec::new();
        }
        return vec![DetectedFormat::of(vllm::import::import_numbers(value), vllm::import::requests(value))];
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
    let output_tokens = sum(|one| one.retokenized.or(one.tokens));
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
        stats,
        ..ImportedNumbers::default()
    }
}

/// Whose definitions the numbers have. LoadGen's rate is another one in each scenario.
fn definitions(tool: Tool, requested: &Map<String, Value>) -> String {
    match requested.get("scenario").and_then(Value::as_str) {
        Some(scenario) if tool == Tool::LoadGen => format!("MLPerf LoadGen, {scenario}"),
        _ => tool.title().to_owned(),
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
            definitions: definitions(tool, &numbers.requested),
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
