//! `trtllm_bench:` — TensorRT-LLM's own benchmark. Its output becomes a result that names the source of its numbers.
//!
//! The command is a pure function of the manifest, so that it can be read before anything runs.

use std::ffi::OsString;
use std::path::Path;

use indexmap::IndexMap;
use serde_json::Value;

use super::task_context::TaskContext;
use crate::Run;
use base::diag::ErrorText;
use base::event::{Done, Failure, FailureKind};
use base::files::{read_bytes, read_text};
use base::units::{three_digits, unquoted};
use exec::process::{ProcessCommand, StreamCopies};
use harness::RESULT;
use interop::{ImportSource, Imported, ImportedResult};
use plan::manifest::model::TrtllmBench;

impl Run for TrtllmBench {
    const FORMAT: Option<u32> = Some(1);

    async fn run(&self, context: TaskContext) -> Result<Done, Failure> {
        let context = &context;
        let out = &context.lease.out;
        let path = |written: &String| context.path(written).to_string_lossy().into_owned();
        let bench = Self {
            dataset: path(&self.dataset),
            model_path: self.model_path.as_ref().map(path),
            engine_dir: self.engine_dir.as_ref().map(path),
            ..self.clone()
        };
        let options = out.join(format!("{}.yml", bench.name));
        let wanted = without_nulls(&bench.options);
        let bench = Self { options: wanted, ..bench };
        if !bench.options.is_empty() {
            let text = serde_yaml::to_string(&bench.options)
                .map_err(|error| Failure::refused(format!("`options` cannot be written: {error}")))?;
            context.write(&options, text)?;
        }
        let report = out.join(format!("{}.json", bench.name));
        let argv: Vec<OsString> = command(&bench, &options, &report).into_iter().map(OsString::from).collect();
        context.lease.report_progress("trtllm-bench", 0, None);
        let copies = StreamCopies {
            stdout: out.join(format!("{}.out", bench.name)),
            stderr: out.join(format!("{}.err", bench.name)),
        };
        context.run(ProcessCommand { copies: Some(copies), ..context.command(argv.clone()) }).await?;

        let log = read_bytes(&context.lease.log)
            .map_err(|error| Failure::system(format!("its log cannot be read: {error}")))?;
        let printed = log.get(context.log.begin() as usize..).unwrap_or_default();
        let empty = |error: ErrorText| context.failure(FailureKind::Files, error.message, &argv);
        let imported = read_numbers(&bench, &report, printed).map_err(empty)?;
        measured_something(&imported.result).map_err(empty)?;
        context.write_json(RESULT, &imported.result)?;
        for doubt in doubts(&bench, &imported.result) {
            context.lease.notice(doubt);
        }
        Ok(Done { headline: Some(headline(&imported.result)), ..Done::default() })
    }
}

/// The command. `options` is the file of `--extra_llm_api_options`, `report` where its numbers go.
pub fn command(bench: &TrtllmBench, options: &Path, report: &Path) -> Vec<String> {
    let mut words: Vec<String> = bench.launcher.clone();
    words.extend(["trtllm-bench", "-m", &bench.model].map(str::to_owned));
    words.extend(bench.model_path.iter().flat_map(|path| ["--model_path".to_owned(), path.clone()]));
    words.push("throughput".to_owned());
    // Keys of the manifest are called like the options.
    let keys = serde_json::to_value(bench).unwrap_or_default();
    let before = "tp ep pp engine_dir warmup dataset backend max_batch_size max_num_tokens max_seq_len";
    words.extend(given_options(&keys, before));
    if !bench.options.is_empty() {
        words.extend(["--extra_llm_api_options".to_owned(), options.display().to_string()]);
    }
    words.extend(given_options(&keys, "num_requests kv_cache_free_gpu_mem_fraction concurrency"));
    words.extend(["--report_json".to_owned(), report.display().to_string()]);
    if bench.streaming {
        words.push("--streaming".to_owned());
    }
    for (name, value) in &bench.flags {
        match value {
            Value::Null | Value::Bool(false) => {}
            Value::Bool(true) => words.push(format!("--{name}")),
            value => words.extend([format!("--{name}"), unquoted(value)]),
        }
    }
    words
}

/// `--name value` for each of these keys that has a value. `option=key`: the option has another name.
pub fn given_options(keys: &Value, names: &str) -> Vec<String> {
    let option = |name: &str| {
        let (option, key) = name.split_once('=').unwrap_or((name, name));
        (!keys[key].is_null()).then(|| [format!("--{option}"), unquoted(&keys[key])])
    };
    names.split(' ').filter_map(option).flatten().collect()
}

/// What has a value, however deep: null is left out, and so is a map with nothing in it.
fn without_nulls(options: &IndexMap<String, Value>) -> IndexMap<String, Value> {
    fn without_nulls_in(value: &Value) -> Option<Value> {
        match value {
            Value::Null => None,
            Value::Object(fields) => {
                let fields: serde_json::Map<String, Value> =
                    fields.iter().filter_map(|(name, value)| Some((name.clone(), without_nulls_in(value)?))).collect();
                (!fields.is_empty()).then_some(Value::Object(fields))
            }
            value => Some(value.clone()),
        }
    }
    options.iter().filter_map(|(name, value)| Some((name.clone(), without_nulls_in(value)?))).collect()
}

/// Its numbers: from the report where it wrote one, which has all digits, else from what it printed.
fn read_numbers(bench: &TrtllmBench, report: &Path, printed: &[u8]) -> Result<Imported, ErrorText> {
    let source = match read_text(report) {
        Ok(text) => ImportSource { name: format!("{}.json", bench.name), text },
        Err(_) => {
            ImportSource { name: format!("{}.out", bench.name), text: String::from_utf8_lossy(printed).into_owned() }
        }
    };
    // The last overview is that of the whole run.
    let run = interop::import_runs(&bench.name, &[source]).ok().and_then(|mut runs| runs.pop());
    let no_overview = || ErrorText::new("trtllm-bench exited with 0, but its output has no PERFORMANCE OVERVIEW");
    run.map(|(_, run)| run).ok_or_else(no_overview)
}

/// A report of no requests or no tokens is not a measurement.
fn measured_something(result: &ImportedResult) -> Result<(), ErrorText> {
    if result.counts.ok.is_some_and(|requests| requests < 1.0) {
        return Err(ErrorText::new("trtllm-bench exited with 0, but its report has no answered request"));
    }
    match ["output_tokens", "requests_full"].into_iter().find_map(|name| result.rates.get(name).copied()) {
        Some(rate) if rate.is_finite() && rate > 0.0 => Ok(()),
        Some(rate) => {
            Err(ErrorText::new(format_args!("trtllm-bench exited with 0, but its report has {rate} per second")))
        }
        None => Err(ErrorText::new("trtllm-bench succeeded, but its report has no throughput")),
    }
}

/// Differences from what was requested.
fn doubts(bench: &TrtllmBench, result: &ImportedResult) -> Vec<String> {
    let mut doubts = Vec::new();
    if let (Some(requested), Some(ran)) = (bench.num_requests, result.counts.ok)
        && (requested as f64 - ran).abs() > 0.5
    {
        doubts.push(format!("{requested} requests were requested; trtllm-bench reports {ran}"));
    }
    doubts
}

/// `5,531 tok/s  43.2 req/s (n=3000, as trtllm-bench reports)`
fn headline(result: &ImportedResult) -> String {
    let rate = |name: &str, unit: &str| result.rates.get(name).map(|value| format!("{} {unit}", three_digits(*value)));
    let mut parts: Vec<String> = Vec::new();
    parts.extend(rate("output_tokens", "tok/s"));
    parts.extend(rate("requests_full", "req/s"));
    for (name, word) in [("ttft", "TTFT mean"), ("tpot", "TPOT mean")] {
        let mean = result.latency.get(name).and_then(|metric| metric.mean);
        parts.extend(mean.map(|value| format!("{word} {} ms", three_digits(value))));
    }
    let n = result.counts.ok.map(|n| format!("n={n}, ")).unwrap_or_default();
    format!("{} ({n}as trtllm-bench reports)", parts.join("  "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use interop::ImportedCounts;

    fn bench(more: &Value) -> TrtllmBench {
        let mut bench = serde_json::json!({"model": "Llama3.3-70B", "dataset": "D"});
        for (key, value) in more.as_object().unwrap() {
            bench[key] = value.clone();
        }
        serde_json::from_value(bench).unwrap()
    }

    #[test]
    fn the_command_is_that_of_the_recipe_and_asks_for_a_report() {
        let bench = bench(&serde_json::json!({
            "model_path": "W", "tp": 1, "warmup": 0, "max_batch_size": 640, "max_num_tokens": 2048,
            "options": {"enable_attention_dp": false}, "num_requests": 4000, "kv_cache_free_gpu_mem_fraction": 0.95,
            "streaming": true, "flags": {"iteration_log": "I", "enable_chunked_context": true, "modality": null},
        }));
        insta::assert_snapshot!(command(&bench, Path::new("O.yml"), Path::new("R.json")).join(" "), @"\
            trtllm-llmapi-launch trtllm-bench -m Llama3.3-70B --model_path W throughput \
            --tp 1 --ep 1 --pp 1 --warmup 0 --dataset D --backend pytorch --max_batch_size 640 --max_num_tokens 2048 \
            --extra_llm_api_options O.yml --num_requests 4000 --kv_cache_free_gpu_mem_fraction 0.95 --concurrency -1 \
            --report_json R.json --streaming --iteration_log I --enable_chunked_context");
    }

    #[test]
    fn a_report_of_nothing_is_no_result() {
        let outcome = |ok: f64, rates: &[(&str, f64)]| {
            measured_something(&ImportedResult {
                counts: ImportedCounts { ok: Some(ok), failed: None },
                rates: rates.iter().map(|(name, rate)| ((*name).to_owned(), *rate)).collect(),
                ..ImportedResult::default()
            })
        };
        assert_eq!(outcome(3.0, &[("output_tokens", 5.0)]), Ok(()));
        assert!(outcome(0.0, &[("output_tokens", 5.0)]).is_err());
        assert!(outcome(3.0, &[("output_tokens", 0.0)]).is_err());
        assert!(outcome(3.0, &[]).is_err());
    }

    #[test]
    fn an_engine_needs_no_launcher() {
        let bench = bench(&serde_json::json!({"backend": "tensorrt", "engine_dir": "E", "launcher": []}));
        insta::assert_snapshot!(command(&bench, Path::new("O"), Path::new("R")).join(" "), @"trtllm-bench -m \
            Llama3.3-70B throughput --tp 1 --ep 1 --pp 1 --engine_dir E --dataset D --backend tensorrt --concurrency \
            -1 --report_json R");
    }
}
