//! Results of other tools, read into the format of Regatta's `result.json`: verdict `not_judged`, every number with the
//! tool's own definition. What a file does not have stays absent; nothing is filled in.
//!
//! A file is recognized by its content, not by its name. A tool's raw records, where they are given too, make it
//! possible to compute its run with another tool's definitions.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use anstream::adapter::strip_str;
use serde_json::{Map, Value};

use super::file_format::{FileFormat, ImportedNumbers, OtherFile, SERVER, known_formats};
use super::import_identity::ImportIdentity;
use super::printed::{self, LOADGEN_LOG_FILES, LoadGenLog};
use super::records;
use crate::metrics::{
    ImportOrigin, ImportedCounts, ImportedResult, ImportedTokens, ImportedVerdict, MeasuredResult, MeasuredRun,
    MetricConcept, MetricMeaning, RequestTrace, Tool,
};
use harness::Metric;

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
    #[error("{name} holds results of several tools or formats: {first} and {second}")]
    SeveralTools { name: String, first: String, second: String },
    #[error("{name} is not in a known result format")]
    Unknown { name: String },
    #[error("{file} is {}, which is not read", kind.is)]
    Other { file: String, kind: &'static OtherFile },
    #[error("{name} holds {count} runs")]
    SeveralRuns { name: String, count: usize },
    #[error("two runs in different folders are at the same level, {level}: {first} and {second}")]
    SameLevel { level: String, first: String, second: String },
    #[error("{file} belongs to an accuracy run, in which LoadGen does not measure")]
    AccuracyRun { file: String },
    #[error("{name} is empty")]
    Empty { name: String },
    #[error("{file} ends in the middle of its JSON: it was cut off, or its tool still writes it")]
    CutOff { file: String },
    #[error("{file} has the result of a run without a number: neither a rate nor a latency")]
    NoNumbers { file: String },
    #[error("{file} has a {metric} below 0, which its tool measured wrongly")]
    BelowZero { file: String, metric: String },
    #[error("{first} and {second} have the same numbers: they are one run; name it once")]
    SameRun { first: String, second: String },
    #[error("{file} cannot be read: {source}")]
    Json { file: String, source: serde_json::Error },
    #[error("cannot read {}: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
}

impl ImportError {
    /// With the path of its file, where that is one of several in folders.
    pub(super) fn of_files(mut self, files: &[PathBuf]) -> Self {
        if let Self::NoNumbers { file }
        | Self::CutOff { file }
        | Self::Json { file, .. }
        | Self::BelowZero { file, .. }
        | Self::Other { file, .. } = &mut self
            && let Some(path) = files.iter().find(|path| path.ends_with(&**file))
        {
            *file = path.display().to_string();
        }
        self
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::SeveralTools { .. } => "name the files of one".to_owned(),
            Self::Unknown { .. } => {
                format!("known are {}; a command line in it is translated by `regatta import -- LINE`", known_formats())
            }
            Self::Other { file, kind } => kind.instead.replace("FILE", file),
            Self::SeveralRuns { name, .. } => {
                format!("`regatta import {name}` makes a sweep of them, whose points are results")
            }
            Self::SameLevel { .. } => "import each folder of runs by itself, and compare the sweeps".to_owned(),
            Self::AccuracyRun { .. } => "import the folder of the performance run".to_owned(),
            Self::NoNumbers { .. } => "a run that ended early has none; texts and `1,5` are not numbers".to_owned(),
            Self::BelowZero { metric, .. } => format!("measure again, or remove {metric} from the file"),
            Self::Empty { .. } | Self::SameRun { .. } | Self::CutOff { .. } | Self::Json { .. } | Self::File { .. } => {
                return None;
            }
        })
    }
}

/// The files of one run by their names, and what is in them.
struct RunFiles {
    from: Vec<String>,
    numbers: ImportedNumbers,
}

/// Reads the files of a folder, or those that were named together: every run in them, with the file that it is from. At
/// least one.
///
/// # Errors
/// They cannot be read, none is known, or they are of several tools.
pub fn import_runs(name: &str, sources: &[ImportSource]) -> Result<Vec<(String, Imported)>, ImportError> {
    let mut runs: Vec<RunFiles> = Vec::new();
    let mut records: Vec<RunFiles> = Vec::new();
    let (lists, files): (Vec<&ImportSource>, Vec<&ImportSource>) =
        sources.iter().partition(|source| source.text.trim().starts_with('['));
    for source in files.into_iter().chain(lists.iter().copied()) {
        // The summary of `vllm bench sweep`: a list of the runs in the same folder.
        if source.text.trim().starts_with('[') && source.text.contains("\"run_number\"") && !runs.is_empty() {
            continue;
        }
        let whole = with_percentiles(source, &lists);
        for numbers in read(whole.as_ref().unwrap_or(source))? {
            let run = RunFiles { from: vec![source.name.clone()], numbers };
            if run.numbers.is_records {
                records.push(run);
                continue;
            }
            if let Some(before) = runs.first() {
                if before.numbers.tool != run.numbers.tool || before.numbers.format != run.numbers.format {
                    let described = |RunFiles { from, numbers }: &RunFiles| {
                        format!("{} ({} by {})", from[0], numbers.format, numbers.tool.as_str())
                    };
                    let (first, second) = (described(before), described(&run));
                    return Err(ImportError::SeveralTools { name: name.to_owned(), first, second });
                }
                // Both logs of a folder have the same numbers.
                let is_log = |name: &String| LOADGEN_LOG_FILES.contains(&name.as_str());
                if is_log(&source.name) && is_log(&before.from[0]) && before.from != run.from {
                    continue;
                }
            }
            runs.push(run);
        }
    }
    // inference-perf's summary has the requests of all stages, and the files of adapters have some of them again.
    let is_stage = |RunFiles { from, numbers }: &RunFiles| {
        numbers.tool != Tool::InferencePerf || !(numbers.requested.is_empty() || from[0].contains("adapter_"))
    };
    if runs.iter().any(is_stage) {
        runs.retain(is_stage);
    }
    attach(&mut runs, records);
    if runs.is_empty() {
        let is_empty = !sources.is_empty() && sources.iter().all(|source| source.text.trim().is_empty());
        let name = name.to_owned();
        let error = if is_empty { ImportError::Empty { name } } else { ImportError::Unknown { name } };
        let other = sources.iter().find_map(|source| Some((source.name.clone(), OtherFile::detect(&source.text)?)));
        return Err(other.map_or(error, |(file, kind)| ImportError::Other { file, kind }));
    }
    let runs: Vec<(String, Imported)> = runs.into_iter().map(|run| imported(name, run)).collect();
    let has_number = |run: &Imported| !(run.result.latency.is_empty() && run.result.rates.is_empty());
    if let Some((file, _)) = runs.iter().find(|(_, run)| !has_number(run)) {
        return Err(ImportError::NoNumbers { file: file.clone() });
    }
    let is_below_zero = |metric: &Metric| metric.mean.into_iter().chain(metric.min).any(|ms| ms < 0.0);
    let below_zero = runs.iter().find_map(|(file, run)| {
        let (metric, _) = run.result.latency.iter().find(|(_, metric)| is_below_zero(metric))?;
        Some(ImportError::BelowZero { file: file.clone(), metric: metric.clone() })
    });
    below_zero.map_or(Ok(runs), Err)
}

/// The summary of a run of evalscope, with the percentiles that it writes into a file of their own.
fn with_percentiles(summary: &ImportSource, lists: &[&ImportSource]) -> Option<ImportSource> {
    let is_summary = summary.name == "benchmark_summary.json";
    let list = lists.iter().find(|list| is_summary && list.name == "benchmark_percentile.json")?;
    let rows: Vec<Map<String, Value>> = serde_json::from_str(&strict_json(&list.text)).ok()?;
    let row = |mut row: Map<String, Value>| Some((row.remove("Percentiles")?.as_str()?.to_owned(), Value::Object(row)));
    let mut object: Map<String, Value> = serde_json::from_str(&strict_json(&summary.text)).ok()?;
    object.insert("percentiles".to_owned(), Value::Object(rows.into_iter().filter_map(row).collect()));
    Some(ImportSource { name: summary.name.clone(), text: Value::Object(object).to_string() })
}

/// Records without numbers belong to the run with a matching file name (`c8.json` and `c8_genai_perf.json`), or to the
/// only run of the same tool; others are a run of their own.
fn attach(runs: &mut Vec<RunFiles>, records: Vec<RunFiles>) {
    let stem = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let is_alone = runs.len() == 1 && records.len() == 1;
    for RunFiles { from, numbers: requests } in records {
        // By how much the name of its file is longer.
        let distance = |run: &RunFiles| {
            if !run.numbers.request_traces.is_empty() || run.numbers.tool != requests.tool {
                return None;
            }
            match stem(&run.from[0]).strip_prefix(&stem(&from[0])) {
                Some(rest) if rest.is_empty() || rest.starts_with(['_', '-']) => Some(rest.len()),
                _ => is_alone.then_some(usize::MAX),
            }
        };
        let nearest =
            runs.iter_mut().filter_map(|run| Some((distance(run)?, run))).min_by_key(|(distance, _)| *distance);
        match nearest {
            Some((_, run)) => {
                run.from.extend(from);
                run.from.dedup();
                run.numbers.take_requests(requests);
            }
            None => runs.push(RunFiles { from, numbers: computed(requests) }),
        }
    }
}

impl ImportedNumbers {
    /// Takes the requests of its run from records, which may have other counts of tokens.
    fn take_requests(&mut self, records: Self) {
        self.requests_counted = records.counted;
        self.request_traces = records.request_traces;
        // AIPerf's records do not name the source of token counts; its summary does.
        if self.tool == Tool::AiPerf && self.counted == Some(SERVER) {
            self.requests_counted = self.counted;
            for trace in &mut self.request_traces {
                trace.tokens = trace.retokenized.take().or(trace.tokens);
            }
        }
    }
}

/// The run with the file that it is from.
fn imported(name: &str, RunFiles { from, mut numbers }: RunFiles) -> (String, Imported) {
    let (file, tool) = (from[0].clone(), numbers.tool);
    let identity = ImportIdentity::new(&numbers);
    let seen = std::mem::take(&mut numbers.request_traces);
    (file, Imported { tool, name: name.to_owned(), identity, result: result(numbers, from), seen })
}

fn read(source: &ImportSource) -> Result<Vec<ImportedNumbers>, ImportError> {
    let text = source.text.trim();
    // Lines of a log begin with `[`, too.
    let is_json = text.trim_start_matches(['[', ' ', '\n', '\r', '\t']).starts_with('{');
    // A terminal's colors are in what was copied from it.
    let runs = if is_json { Vec::new() } else { printed::printed_runs(&strip_str(text).to_string()) };
    if !runs.is_empty() {
        return Ok(runs);
    }
    match printed::loadgen_log(text) {
        Some(LoadGenLog::Performance(numbers)) => return Ok(vec![*numbers]),
        Some(LoadGenLog::Accuracy) => return Err(ImportError::AccuracyRun { file: source.name.clone() }),
        None => {}
    }
    let text = strict_json(text);
    let is_aiperf_record = |value: &Value| ["metadata", "metrics"].iter().all(|key| value.get(key).is_some());
    // Several documents are records, or the runs to which a tool adds one each, as SGLang and vLLM do.
    match serde_json::Deserializer::from_str(&text).into_iter::<Value>().collect::<Result<Vec<Value>, _>>() {
        Ok(values) if values.first().is_some_and(is_aiperf_record) => Ok(vec![records::aiperf(&values)]),
        Ok(values) => Ok(values.iter().flat_map(runs_of_object).collect()),
        Err(error) if is_json && error.is_eof() => Err(ImportError::CutOff { file: source.name.clone() }),
        Err(error) if is_json => Err(ImportError::Json { file: source.name.clone(), source: error }),
        Err(_) if !is_yaml(&source.name) => Ok(Vec::new()),
        Err(_) => Ok(base::files::parse_yaml::<Value>(&text).map(|value| runs_of_object(&value)).unwrap_or_default()),
    }
}

fn is_yaml(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}

/// Python's `json` writes `Infinity` and `NaN`, which are no JSON. SGLang's file has the first as its rate, where
/// vLLM's has `"inf"`.
fn strict_json(text: &str) -> Cow<'_, str> {
    if !["Infinity", "NaN"].iter().any(|word| text.contains(word)) {
        return Cow::Borrowed(text);
    }
    let without_words =
        |part: &str| part.replace("-Infinity", "null").replace("Infinity", "\"inf\"").replace("NaN", "null");
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

fn runs_of_object(value: &Value) -> Vec<ImportedNumbers> {
    if let Some(list) = value.as_array() {
        return list.iter().filter(|item| item.is_object()).flat_map(runs_of_object).collect();
    }
    if value.pointer("/experiments/0/requests").is_some() {
        return records::experiments(value);
    }
    let Some(format) = FileFormat::detect(value) else { return Vec::new() };
    // The warm-up of `vllm bench sweep` does not count as a run.
    if format.tool == Tool::Vllm && value.get("run_number").and_then(Value::as_i64) == Some(-1) {
        return Vec::new();
    }
    let run = |run: &Value| {
        let request_traces = match format.tool {
            Tool::Vllm => records::vllm(run).unwrap_or_default(),
            Tool::GuideLlm => records::guidellm(run),
            _ => Vec::new(),
        };
        ImportedNumbers { request_traces, ..format.numbers(run, value) }
    };
    format.runs(value).into_iter().map(run).collect()
}

/// A tool's numbers from its raw records, with its own definitions.
fn computed(records: ImportedNumbers) -> ImportedNumbers {
    let (tool, traces) = (records.tool, &records.request_traces);
    let stats = MetricConcept::ALL
        .iter()
        .filter_map(|&concept| Some((concept, tool.spread(concept, traces).ok()?.metric())))
        .collect();
    let ok: Vec<&RequestTrace> = traces.iter().filter(|trace| trace.ok).collect();
    let sum = |tokens: fn(&RequestTrace) -> Option<u32>| {
        let counts: Option<Vec<u32>> = ok.iter().map(|trace| tokens(trace)).collect();
        counts.map(|counts| counts.into_iter().map(f64::from).sum())
    };
    let requests_per_s = tool.rate(traces).ok();
    let count = if tool == Tool::GenAiPerf { traces.len() } else { ok.len() } as f64;
    let window_s = requests_per_s.filter(|rate| *rate > 0.0).map(|rate| count / rate);
    let output_tokens: Option<f64> = sum(|trace| trace.retokenized.or(trace.tokens));
    ImportedNumbers {
        ok: Some(ok.len() as f64),
        failed: Some((traces.len() - ok.len()) as f64),
        input_tokens: sum(|trace| trace.input),
        output_tokens,
        window_s,
        requests_per_s,
        tokens_per_s: output_tokens.zip(window_s).map(|(tokens, seconds)| tokens / seconds),
        requests_counted: records.counted,
        stats,
        ..records
    }
}

fn result(numbers: ImportedNumbers, from: Vec<String>) -> ImportedResult {
    let tool = numbers.tool;
    let counted = numbers.counted.unwrap_or(tool.counted());
    let metric = |(concept, numbers): (MetricConcept, Metric)| {
        // Tools write 0 ms for what they did not measure: no request succeeded, or answers did not stream.
        let is_measured = numbers.mean.or(numbers.p50).is_some_and(|ms| ms != 0.0);
        let meaning = MetricMeaning::new(tool, concept).filter(|_| is_measured)?;
        Some((concept.as_str().to_owned(), meaning.state(numbers, counted)))
    };
    // Nor is a rate of 0 tokens beside one of requests, of a tool that does not say how many tokens there were.
    let is_counted = numbers.output_tokens.is_some() || numbers.requests_per_s.is_none_or(|rate| rate <= 0.0);
    let rates = [
        ("window_s", numbers.window_s),
        ("requests_full", numbers.requests_per_s),
        ("output_tokens", numbers.tokens_per_s.filter(|rate| is_counted || *rate > 0.0)),
    ];
    let rates = rates.into_iter().chain(numbers.extra_rates);
    ImportedResult {
        schema: 1,
        verdict: ImportedVerdict::NotJudged,
        latency: numbers.stats.into_iter().filter_map(metric).collect(),
        rates: rates.filter_map(|(name, value)| Some((name.to_owned(), value?))).collect(),
        imported: ImportOrigin {
            from,
            tool: tool.as_str().to_owned(),
            tool_version: numbers.version,
            format: numbers.format.to_owned(),
            // LoadGen's rate is another one in each scenario.
            definitions: match numbers.requested.get("scenario").and_then(Value::as_str) {
                Some(scenario) if tool == Tool::LoadGen => format!("MLPerf LoadGen, {scenario}"),
                _ => tool.title().to_owned(),
            },
            requests_counted: numbers.requests_counted.map(str::to_owned),
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pretty_assertions::assert_eq;

    use super::*;
    use crate::formats::located_runs::{LocatedRun, locate_runs};

    /// Runs in a folder or a file of the golden results. The tools' own code wrote the files, of made-up requests; the
    /// logs are as their documentation has them.
    fn runs(name: &str) -> Vec<LocatedRun> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/results").join(name);
        locate_runs(&[path]).unwrap_or_else(|error| panic!("{name}: {error}")).runs
    }

    /// `ttft mean p99` of a run, its rates of requests and tokens, and how many requests were answered.
    fn numbers(run: &LocatedRun) -> String {
        let result = &run.run.result;
        let metric = |(name, metric): (&String, &Metric)| {
            let shown = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.2}"));
            format!("{name} {} {}", shown(metric.mean), shown(metric.p99))
        };
        let rate = |name: &str| result.rates.get(name).map(|rate| format!("{rate:.2}/s"));
        let latency = result.latency.iter().map(metric);
        let rates = ["requests_full", "output_tokens"].into_iter().filter_map(rate);
        let ok = result.counts.ok.map(|ok| format!("{ok} requests"));
        latency.chain(rates).chain(ok).collect::<Vec<_>>().join(", ")
    }

    fn sorted(mut values: Vec<String>) -> Vec<String> {
        values.sort();
        values
    }

    #[test]
    fn latencies_of_0_are_none() {
        let latencies = |completed: u32, ttft: f64| {
            let text = serde_json::json!({
                "model_id": "m", "completed": completed, "failed": 9, "duration": 2.0,
                "request_throughput": completed, "mean_ttft_ms": ttft, "median_ttft_ms": ttft, "p99_ttft_ms": ttft,
            });
            let file = ImportSource { name: "result.json".to_owned(), text: text.to_string() };
            let result = import_runs("it", &[file]).expect("a result").remove(0).1.result;
            (result.latency.len(), result.counts.ok)
        };
        // No request succeeded; the server did not stream; it did.
        assert_eq!([latencies(0, 0.0), latencies(3, 0.0), latencies(3, 1.5)].map(|(count, _)| count), [0, 0, 1]);
        assert_eq!(latencies(3, 0.0).1, Some(3.0));
    }

    /// mlcommons/inference#1546
    #[test]
    fn a_rate_of_0_tokens_beside_one_of_requests_is_none() {
        let rates = |tokens: &str| {
            let head =
                "MLPerf Results Summary\nScenario : Offline\nMode : PerformanceOnly\nSamples per second: 459.2\n";
            let text = format!("{head}Tokens per second: {tokens}\nResult is : VALID\n");
            let file = ImportSource { name: "mlperf_log_summary.txt".to_owned(), text };
            let rates = import_runs("it", &[file]).expect("a result").remove(0).1.result.rates;
            ["requests_full", "output_tokens"].map(|name| rates.get(name).copied())
        };
        assert_eq!([rates("0"), rates("2755.16")], [[Some(459.2), None], [Some(459.2), Some(2755.16)]]);
    }

    #[test]
    fn a_time_has_the_unit_that_the_file_gives_it() {
        let read = |unit: &str, mean: f64| {
            let text = serde_json::json!({
                "request_throughput": {"unit": "requests/sec", "avg": 2.0},
                "request_latency": {"unit": unit, "avg": mean},
            });
            let file = ImportSource { name: "profile_export_genai_perf.json".to_owned(), text: text.to_string() };
            import_runs("it", &[file]).expect("a result").remove(0).1.result.latency["e2e"].mean
        };
        assert_eq!([read("ms", 1500.0), read("s", 1.5), read("ns", 1.5e9)], [Some(1500.0); 3]);
    }

    #[test]
    fn stages_of_inference_perf_are_runs_and_its_summary_of_all_is_none() {
        let runs = runs("inference-perf");
        let loads = runs.iter().map(|run| run.run.result.requested["request_rate"].to_string()).collect();
        assert_eq!(sorted(loads), ["1.0", "2.0"]);
        let second = runs.iter().find(|run| run.run.result.requested["request_rate"] == 2.0).expect("a stage");
        assert_eq!(
            numbers(second),
            "ttft 139.00 177.22, tpot 20.00 20.00, itl 20.00 20.00, e2e 1120.00 1158.22, 1.94/s, 96.81/s, 40 requests"
        );
        let tokens = &second.run.result.tokens;
        assert_eq!((tokens.input, tokens.output), (Some(4000.0), Some(2000.0)));
        assert_eq!(second.run.tool, Tool::InferencePerf);
    }

    #[test]
    fn runs_of_genai_bench_have_the_unit_that_their_file_states() {
        let runs = runs("genai-bench");
        let users = runs.iter().map(|run| run.run.result.requested["concurrency"].to_string()).collect();
        assert_eq!(sorted(users), ["4", "8"]);
        for run in &runs {
            let expected = "ttft 145.00 189.10, tpot 20.00 20.00, e2e 2125.00 2169.10, 1.00/s, 100.00/s, 10 requests";
            assert_eq!(numbers(run), expected, "{}", run.place.display());
        }
    }

    #[test]
    fn a_run_of_evalscope_has_the_percentiles_of_their_own_file() {
        let runs = runs("evalscope");
        let expected =
            "ttft 119.00 138.00, tpot 20.00 20.00, itl 20.00 20.00, e2e 1099.00 1118.00, 1.88/s, 94.18/s, 20 requests";
        assert_eq!(runs.iter().map(numbers).collect::<Vec<_>>(), [expected]);
        let requested = &runs[0].run.result.requested;
        assert_eq!((&requested["concurrency"], requested.get("request_rate")), (&Value::from(4), None));
    }

    #[test]
    fn levels_of_llama_benchy_are_runs() {
        let runs = runs("llama-benchy");
        assert_eq!(runs.iter().map(numbers).collect::<Vec<_>>(), ["ttft 200.00 –", "ttft 205.00 –"]);
        let rates: Vec<_> = runs.iter().map(|run| run.run.result.rates["output_tokens_after_first"].round()).collect();
        assert_eq!(rates, [50.0, 98.0]);
    }

    #[test]
    fn tables_that_genai_perf_and_aiperf_print_are_runs_with_their_own_definitions() {
        let read = |name: &str| {
            let mut runs = runs(name);
            assert_eq!(runs.len(), 1, "{name}");
            runs.remove(0)
        };
        let (first, second) = (read("printed/genai-perf.log"), read("printed/aiperf.log"));
        assert_eq!((first.run.tool, second.run.tool), (Tool::GenAiPerf, Tool::AiPerf));
        assert_eq!(
            numbers(&first),
            "ttft 16.26 17.09, itl 3.27 4.65, e2e 1203.91 1420.33, 5.00/s, 1990.31/s, 60 requests"
        );
        // Its labels go over several lines.
        assert_eq!(
            numbers(&second),
            "ttft 182.96 1500.40, itl 3.27 4.65, e2e 1203.91 1420.33, 27.50/s, 10944.03/s, 711 requests"
        );
        let tokens = &second.run.result.tokens;
        assert_eq!((tokens.input, tokens.output), (Some(141_916.0), Some(282_978.0)));
    }
}
