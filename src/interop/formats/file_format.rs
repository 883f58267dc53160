//! The table of result files, `formats.toml`: how a format is recognized, and the numbers of a run read with its rows.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::metrics::{MetricConcept, RequestTrace, Tool};
use harness::Metric;

/// A server's count of tokens, as [`Tool::counted`] names it.
pub(super) const SERVER: &str = "the server";

/// A run in a file of another tool: its numbers, its requests one by one, or both.
#[derive(Clone, Debug, Default)]
pub(super) struct ImportedNumbers {
    pub tool: Tool,
    pub format: &'static str,
    pub version: Option<String>,
    pub requested: Map<String, Value>,
    pub ok: Option<f64>,
    pub failed: Option<f64>,
    pub input_tokens: Option<f64>,
    pub output_tokens: Option<f64>,
    pub window_s: Option<f64>,
    /// Mean number of requests in flight, of a tool that measures it.
    pub in_flight: Option<f64>,
    pub requests_per_s: Option<f64>,
    pub tokens_per_s: Option<f64>,
    /// The source of output token counts, where it is not this tool's usual one.
    pub counted: Option<&'static str>,
    /// Further rates, per second, by the name that they get.
    pub extra_rates: Vec<(&'static str, Option<f64>)>,
    /// In ms.
    pub stats: Vec<(MetricConcept, Metric)>,
    pub request_traces: Vec<RequestTrace>,
    /// The source of token counts of the requests, where that is not this tool's usual one.
    pub requests_counted: Option<&'static str>,
    /// The file has the requests only.
    pub is_records: bool,
}

/// Places of one value: the first that has it counts.
type Places = Vec<String>;

/// A format of result files: a row of the table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileFormat {
    pub name: String,
    /// In the list of formats that are read, where the name is not enough; empty: it is not listed.
    known_as: Option<String>,
    pub tool: Tool,
    like: Option<String>,
    /// An object is of this format if it has all places of one of these lists.
    #[serde(default)]
    has: Vec<Places>,
    /// An object with one of these places is of another format.
    #[serde(default)]
    without: Places,
    /// The place of the list of a file's runs.
    runs: Option<String>,
    /// A setting's name, and its places.
    #[serde(default)]
    requested: Vec<Places>,
    #[serde(default)]
    own_texts: Vec<String>,
    counted_by_server: Option<String>,
    #[serde(default)]
    rates: Vec<(String, String)>,
    latency: Option<LatencyRows>,
    numbers: Option<NumberPlaces>,
    /// Labels above a printed result.
    #[serde(default)]
    pub settings: Vec<Places>,
    #[serde(default)]
    pub labels: Vec<Places>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LatencyRows {
    places: StatisticPlaces,
    metrics: Vec<LatencyRow>,
}

/// The places of a metric's statistics.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct StatisticPlaces {
    n: String,
    mean: String,
    p50: Option<String>,
    percentile: String,
    min: String,
    max: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LatencyRow {
    metric: MetricConcept,
    name: String,
    /// How many values, where that is not with the metric.
    n: Option<String>,
    /// Unit of the times where the file does not state one.
    #[serde(default)]
    unit: TimeUnit,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum TimeUnit {
    #[default]
    Ms,
    #[serde(alias = "sec", alias = "seconds")]
    S,
    #[serde(alias = "µs")]
    Us,
    Ns,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct NumberPlaces {
    version: Places,
    ok: Places,
    failed: Places,
    input_tokens: Places,
    /// Of a request, where the file has no sum.
    mean_input_tokens: Places,
    output_tokens: Places,
    mean_output_tokens: Places,
    window_s: Places,
    window_ms: Places,
    in_flight: Places,
    requests_per_s: Places,
    tokens_per_s: Places,
}

#[derive(Deserialize)]
struct FormatTable {
    format: Vec<FileFormat>,
}

static FORMATS: LazyLock<Vec<FileFormat>> = LazyLock::new(|| {
    let table: FormatTable = toml::from_str(include_str!("formats.toml")).expect("a test reads the table");
    let mut formats: Vec<FileFormat> = Vec::new();
    for format in table.format {
        let base = format.like.as_ref().and_then(|name| formats.iter().find(|base| base.name == *name));
        let format = base.map_or_else(|| format.clone(), |base| format.clone().based_on(base));
        formats.push(format);
    }
    formats
});

/// The formats that are read, for help and errors.
pub(super) fn known_formats() -> String {
    let names = FORMATS.iter().map(|format| format.known_as.as_ref().unwrap_or(&format.name));
    names.filter(|name| !name.is_empty()).map(String::as_str).collect::<Vec<_>>().join("; ")
}

impl FileFormat {
    /// A row of the table; `name` is in it.
    pub fn named(name: &str) -> &'static Self {
        FORMATS.iter().find(|format| format.name == name).expect("a row of the table")
    }

    /// The format of a JSON object.
    pub fn detect(value: &Value) -> Option<&'static Self> {
        let has = |place: &String| at(value, place).is_some();
        FORMATS
            .iter()
            .find(|format| format.has.iter().any(|places| places.iter().all(has)) && !format.without.iter().any(has))
    }

    fn based_on(self, base: &Self) -> Self {
        let or = |first: Vec<Places>, others: &[Places]| if first.is_empty() { others.to_vec() } else { first };
        Self {
            requested: or(self.requested, &base.requested),
            own_texts: base.own_texts.clone(),
            rates: base.rates.clone(),
            latency: self.latency.or_else(|| base.latency.clone()),
            numbers: self.numbers.or_else(|| base.numbers.clone()),
            ..self
        }
    }

    /// The runs of a file; most have one.
    pub fn runs<'a>(&self, file: &'a Value) -> Vec<&'a Value> {
        match &self.runs {
            Some(place) => at(file, place).and_then(Value::as_array).into_iter().flatten().collect(),
            None => vec![file],
        }
    }

    /// The numbers of a run of the file.
    pub fn numbers(&'static self, run: &Value, file: &Value) -> ImportedNumbers {
        static NO_PLACES: LazyLock<NumberPlaces> = LazyLock::new(NumberPlaces::default);
        let computed = computed(self.tool, run);
        let run_values = RunValues([&computed, run, file]);
        let places = self.numbers.as_ref().unwrap_or(&NO_PLACES);
        let number = |places: &Places| run_values.number(places);
        let ok = number(&places.ok);
        let sum = |sum: &Places, mean: &Places| number(sum).or_else(|| Some((number(mean)? * ok?).round()));
        let is_native = self.tool == Tool::SglangChat
            && matches!(text_at(run, "/backend").as_deref(), Some("sglang" | "sglang-native"));
        let is_counted_by_server =
            self.counted_by_server.as_ref().and_then(|place| at(run, place)) == Some(&Value::Bool(true));
        let version = run_values.first(&places.version).and_then(Value::as_str);
        ImportedNumbers {
            tool: if is_native { Tool::SglangNative } else { self.tool },
            format: &self.name,
            version: version.map(str::to_owned),
            requested: self.settings_of(run, &run_values),
            ok,
            failed: number(&places.failed),
            input_tokens: sum(&places.input_tokens, &places.mean_input_tokens),
            output_tokens: sum(&places.output_tokens, &places.mean_output_tokens),
            window_s: number(&places.window_s).or_else(|| Some(number(&places.window_ms)? / 1e3)),
            in_flight: number(&places.in_flight),
            requests_per_s: number(&places.requests_per_s),
            tokens_per_s: number(&places.tokens_per_s),
            counted: is_counted_by_server.then_some(SERVER),
            extra_rates: self.rates.iter().map(|(name, place)| (name.as_str(), run_values.number_at(place))).collect(),
            stats: self.latency.iter().flat_map(|latency| latency.read(&run_values)).collect(),
            ..ImportedNumbers::default()
        }
    }

    fn settings_of(&self, run: &Value, run_values: &RunValues<'_>) -> Map<String, Value> {
        let mut requested = Map::new();
        for row in &self.requested {
            let Some((key, places)) = row.split_first() else { continue };
            let is_level = ["input_tokens", "output_tokens", "request_rate"].contains(&key.as_str());
            // A length or a rate of -1 is not set.
            let is_set = |value: &&Value| !is_level || value.as_f64().is_none_or(|number| number > 0.0);
            let value = places.iter().find_map(|place| run_values.at(place).filter(is_set));
            let value = value.map(|value| if key == "endpoints" { json!([value]) } else { value.clone() });
            requested.extend(value.map(|value| (key.clone(), value)));
        }
        if !self.own_texts.is_empty() {
            // Times differ from run to run, and what `regatta export` adds is in its own result.
            let is_added = |key: &String| {
                let is_time = ["date", "time"].iter().any(|word| key.contains(word));
                !is_time && !self.own_texts.contains(key) && !key.starts_with("regatta_")
            };
            let texts = run.as_object().into_iter().flatten().filter(|(key, value)| value.is_string() && is_added(key));
            requested.extend(texts.map(|(key, value)| (key.clone(), value.clone())));
        }
        // Beside a limit on requests in flight an infinite rate is as many users; inference-perf makes up a rate there.
        let is_rate = |rate: &Value| rate != "inf" && self.tool != Tool::InferencePerf;
        if requested.contains_key("concurrency") && requested.get("request_rate").is_some_and(|rate| !is_rate(rate)) {
            requested.shift_remove("request_rate");
        }
        requested
    }
}

impl LatencyRows {
    fn read(&self, run_values: &RunValues<'_>) -> Vec<(MetricConcept, Metric)> {
        let row = |row: &LatencyRow| {
            let get = |place: &String| run_values.number_at(&place.replace('@', &row.name));
            let stated = run_values.at(&format!("/{}/unit", row.name)).or_else(|| run_values.at("/_time_unit"));
            // Times in a unit that is not known have no meaning.
            let unit = stated.map_or(Some(row.unit), |stated| TimeUnit::deserialize(stated).ok());
            let ms = |place: &String| {
                Some(match unit? {
                    TimeUnit::Ms => get(place)?,
                    TimeUnit::S => get(place)? * 1e3,
                    TimeUnit::Us => get(place)? / 1e3,
                    TimeUnit::Ns => get(place)? / 1e6,
                })
            };
            let StatisticPlaces { n, mean, p50, percentile, min, max } = &self.places;
            let percentile = |number: &str| ms(&percentile.replace('#', number));
            let stats = Metric {
                n: get(row.n.as_ref().unwrap_or(n)).map_or(0, |n| n as u64),
                mean: ms(mean),
                p50: p50.as_ref().map_or_else(|| percentile("50"), ms),
                p90: percentile("90"),
                p95: percentile("95"),
                p99: percentile("99"),
                min: ms(min),
                max: ms(max),
                ..Metric::default()
            };
            (row.metric, stats)
        };
        self.metrics.iter().map(row).collect()
    }
}

/// Where the values of a run are looked up: what is computed of it, the run itself, and its file.
struct RunValues<'a>([&'a Value; 3]);

impl<'a> RunValues<'a> {
    fn at(&self, place: &str) -> Option<&'a Value> {
        self.0.into_iter().find_map(|value| at(value, place).filter(|value| !value.is_null()))
    }

    fn first(&self, places: &Places) -> Option<&'a Value> {
        places.iter().find_map(|place| self.at(place))
    }

    fn number_at(&self, place: &str) -> Option<f64> {
        self.at(place)?.as_f64().filter(|number| number.is_finite())
    }

    fn number(&self, places: &Places) -> Option<f64> {
        places.iter().find_map(|place| self.number_at(place))
    }
}

/// Values of a run that its file does not have as such, at places of the table.
fn computed(tool: Tool, run: &Value) -> Value {
    let mut values = json!({});
    match tool {
        Tool::Vllm | Tool::SglangChat => {
            // SGLang counts no failures; its details have an error, or an empty text, for each request.
            if let (None, Some(errors)) = (number_at(run, "/failed"), run.get("errors").and_then(Value::as_array)) {
                let failed = errors.iter().filter_map(Value::as_str).filter(|error| !error.is_empty()).count();
                values["failed"] = json!(failed as f64);
            }
            // Lengths of other data sets have these options, too, and do not follow them.
            if text_at(run, "/dataset_name").is_some_and(|name| name.starts_with("random")) {
                for key in ["input", "output"] {
                    values[format!("{key}_tokens")] = run.get(format!("random_{key}_len")).cloned().unwrap_or_default();
                }
            }
        }
        Tool::GuideLlm => {
            let limit = at(run, "/config/strategy/max_concurrency").filter(|limit| !limit.is_null());
            match (text_at(run, "/config/strategy/type_").as_deref(), limit) {
                (Some("synchronous"), _) => values["config"]["strategy"]["streams"] = json!(1),
                // As many at once as may be; without a limit all.
                (Some("throughput"), Some(limit)) => values["config"]["strategy"]["streams"] = limit.clone(),
                (Some("throughput"), None) => values["config"]["strategy"]["rate"] = json!("inf"),
                _ => {}
            }
        }
        _ => {}
    }
    values
}

/// The value at a place such as `/phases/-1/rate`.
pub(super) fn at<'a>(value: &'a Value, place: &str) -> Option<&'a Value> {
    place.split('/').skip(1).try_fold(value, |value, step| match value {
        Value::Array(items) if step == "-1" => items.last(),
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        value => value.get(step.replace("~1", "/")),
    })
}

pub(super) fn number_at(value: &Value, place: &str) -> Option<f64> {
    at(value, place)?.as_f64().filter(|number| number.is_finite())
}

pub(super) fn text_at(value: &Value, place: &str) -> Option<String> {
    Some(at(value, place)?.as_str()?.to_owned())
}

/// A file that is recognized and not read: a row of `other-files.toml`. Results without numbers of requests, configs,
/// manifests.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OtherFile {
    /// What the file is: `a manifest of Regatta`.
    pub is: String,
    marks: Vec<Vec<String>>,
    /// What to do with it.
    pub instead: String,
    /// The command line whose last argument is the file.
    pub line: Vec<String>,
}

impl OtherFile {
    /// The row that a text has the marks of.
    pub fn detect(text: &str) -> Option<&'static Self> {
        static FILES: LazyLock<BTreeMap<String, Vec<OtherFile>>> =
            LazyLock::new(|| toml::from_str(include_str!("other-files.toml")).expect("a test reads the table"));
        let has = |mark: &String| match mark.strip_prefix('^') {
            Some(begin) => text.lines().any(|line| line.starts_with(begin)),
            None => text.contains(&**mark),
        };
        FILES.values().flatten().find(|file| file.marks.iter().any(|marks| marks.iter().all(has)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_is_read() {
        assert_eq!(FORMATS.len(), 21);
        for format in FORMATS.iter() {
            let is_known = format.like.as_ref().is_none_or(|name| FORMATS.iter().any(|other| other.name == *name));
            assert!(is_known, "{}", format.name);
            assert!(format.labels.iter().chain(&format.settings).all(|row| row.len() >= 2), "{}", format.name);
        }
        let has_numbers = |format: &&FileFormat| format.numbers.is_some() == format.latency.is_some();
        assert!(FORMATS.iter().all(|format| has_numbers(&format)));
    }

    #[test]
    fn a_file_of_an_early_guidellm_has_its_runs() {
        let spread = |mean: f64| {
            json!({ "successful": { "mean": mean, "min": 1.0, "max": 9.0, "count": 4, "total_sum": mean * 4.0,
                "percentiles": { "p50": mean, "p99": 9.0 } } })
        };
        let run = json!({
            "type_": "generative_benchmark",
            "args": { "strategy": { "type_": "concurrent", "streams": 8 } },
            "run_stats": { "requests_made": { "successful": 4, "errored": 1, "incomplete": 0, "total": 5 } },
            "worker": { "backend_target": "http://localhost:8000", "backend_model": "m" },
            "metrics": { "request_latency": spread(2.0), "time_to_first_token_ms": spread(30.0),
                "time_per_output_token_ms": spread(7.0), "inter_token_latency_ms": spread(8.0),
                "requests_per_second": spread(1.5), "output_tokens_per_second": spread(60.0),
                "prompt_token_count": spread(100.0), "output_token_count": spread(40.0) },
            "duration": 3.0,
        });
        let file = json!({ "benchmarks": [run] });
        let format = FileFormat::detect(&file).expect("a format");
        let [run] = format.runs(&file)[..] else { panic!("one run") };
        let numbers = format.numbers(run, &file);
        assert_eq!((numbers.tool, numbers.ok, numbers.failed), (Tool::GuideLlm, Some(4.0), Some(1.0)));
        assert_eq!((numbers.input_tokens, numbers.output_tokens), (Some(400.0), Some(160.0)));
        assert_eq!(
            (numbers.window_s, numbers.requests_per_s, numbers.tokens_per_s),
            (Some(3.0), Some(1.5), Some(60.0))
        );
        let means: Vec<_> = numbers.stats.iter().map(|(metric, stats)| (*metric, stats.mean)).collect();
        let read = [MetricConcept::Ttft, MetricConcept::Itl, MetricConcept::E2e].into_iter().zip([30.0, 8.0, 2000.0]);
        assert_eq!(means, read.map(|(metric, mean)| (metric, Some(mean))).collect::<Vec<_>>());
        assert_eq!(numbers.requested["concurrency"], 8);
    }

    #[test]
    fn places_lead_through_objects_and_lists() {
        let value = json!({ "phases": [{ "rate": 1 }, { "rate": 2.5 }], "name": "a" });
        assert_eq!(number_at(&value, "/phases/-1/rate"), Some(2.5));
        assert_eq!(number_at(&value, "/phases/0/rate"), Some(1.0));
        assert_eq!((text_at(&value, "/name").as_deref(), text_at(&value, "/phases/2")), (Some("a"), None));
        assert_eq!(at(&value, ""), Some(&value));
    }

    #[test]
    fn a_file_is_recognized_by_its_marks() {
        for (text, is) in [
            ("model_names: [gpt2]\nendpoint: { type: chat }\n", "a config of GenAI-Perf"),
            ("models: [m]\nendpoint: { urls: [a] }\nphases: []\n", "a config of AIPerf"),
            ("benchmark:\n  model: m\n  endpoint: { url: a }\n", "a config of AIPerf"),
            ("backend: { kind: openai_http }\ndata: []\n", "a config of GuideLLM"),
            ("regatta: 1\nbackend: a\ndata: b\n", "a manifest of Regatta"),
            ("---\napiVersion: batch/v1\nkind: Job\n---\nkind: Service\n", "a Kubernetes manifest"),
            ("{\"cells\": [{\"source\": [\"!vllm serve m\"]}], \"nbformat\": 4}", "a notebook"),
            ("*.Server.target_qps = 10\n", "a file of LoadGen's settings (user.conf or mlperf.conf)"),
            ("name: \"gpt2\"\nbackend: \"vllm\"\ninput [\n", "a model's configuration for Triton"),
            ("model: m\ntensor-parallel-size: 2\n", "a file of options of vLLM's server"),
            ("kv_cache_config:\n  free_gpu_memory_fraction: 0.9\n", "a file of options of TensorRT-LLM's LLM API"),
            ("*** Measurement Settings ***\n  Batch size: 1\n", "what perf_analyzer printed"),
            ("[{\"n_prompt\":512,\"n_gen\":0,\"avg_ts\":7100.0}]", "a result of llama-bench"),
            ("| model | test | t/s |\n| --- | --- | --- |\n| q | pp512 | 2 ± 1 |\n", "a result of llama-bench"),
            ("{\"elapsed_time\": 1.0, \"tokens_per_second\": 5.0}", "a result of vllm bench throughput or latency"),
        ] {
            assert_eq!(OtherFile::detect(text).map(|file| &*file.is), Some(is), "{text}");
        }
        for text in ["- 1", "hello", "{\"a\": 1}", "backend: a\n"] {
            assert!(OtherFile::detect(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_row_says_what_to_do_or_has_a_line() {
        let file = OtherFile::detect("load: {}\nserver: {}\n").expect("inference-perf's");
        assert_eq!(file.line.join(" "), "inference-perf --config_file");
        assert!(file.instead.contains("alone"));
        assert!(OtherFile::detect("regatta: 1").is_some_and(|file| !file.instead.is_empty() && file.line.is_empty()));
    }
}
