//! `vllm bench serve`, and the `benchmark_serving.py` that it was, which TensorRT-LLM has still.
//!
//! `vllm bench throughput` and `latency`, which drive the engine in their own process: the same load on `vllm serve`.

use serde_json::{Map, Value, json};

use super::SERVE;
use super::dataset;
use crate::command_line::{
    CHAT, COMPLETIONS, Env, GivenOption, ParsedLine, RangeRatio, ScriptBench, TranslatedLoad, TranslatedScript,
    TranslationBuilder, TranslationKind, TranslationResult, adapters, host_and_port, number, token_ids, tool_table,
};
use base::diag::ErrorText;
use base::spec::Quantity;

/// A program of this family.
pub(super) struct ServingBenchmark {
    tool: &'static str,
    /// Made-up prompts have answers of exactly the requested length by themselves.
    random_ignores_eos: bool,
    /// The temperature that it sends where none is given.
    temperature: Option<&'static str>,
    /// Requests that it sends first to see whether the server answers.
    tests: &'static str,
    /// Arrivals at a rate are rescaled so that the whole load takes exactly the time that the rate implies:
    /// `normalize_factor` of vLLM 0.33.0 (vllm/benchmarks/serve.py).
    moves_arrivals: bool,
    range_ratio: RangeRatio,
}

pub(super) static VLLM: ServingBenchmark = ServingBenchmark {
    tool: "vllm bench serve",
    random_ignores_eos: true,
    temperature: None,
    tests: "0",
    moves_arrivals: true,
    range_ratio: RangeRatio::Around,
};
static BENCHMARK_SERVING: ServingBenchmark = benchmark_serving(RangeRatio::Around);
/// InferenceMAX's, and what was made of it.
static BENCH_SERVING: ServingBenchmark = benchmark_serving(RangeRatio::UpTo);
/// Known by its name only, which several programs have.
static SOME_BENCHMARK_SERVING: ServingBenchmark = benchmark_serving(RangeRatio::Unknown);

const fn benchmark_serving(range_ratio: RangeRatio) -> ServingBenchmark {
    ServingBenchmark {
        tool: "benchmark_serving.py",
        random_ignores_eos: false,
        temperature: Some("0"),
        tests: "1",
        moves_arrivals: false,
        range_ratio,
    }
}

/// Which program of the name `benchmark_serving` a line starts: by its path, or by an option that only one of them
/// has.
pub(super) fn named(path: &str, words: &[String]) -> &'static ServingBenchmark {
    let is_bench_serving = path.contains("bench_serving/benchmark_serving.py") || path.starts_with("atom.");
    if is_bench_serving || words.iter().any(|word| word == USE_CHAT_TEMPLATE) {
        &BENCH_SERVING
    } else if path.starts_with("tensorrt_llm.") {
        &BENCHMARK_SERVING
    } else {
        &SOME_BENCHMARK_SERVING
    }
}

/// An option of InferenceMAX's program alone.
const USE_CHAT_TEMPLATE: &str = "--use-chat-template";

tool_table!(
    TABLE,
    ["vllm-bench-serve", "vllm-data-sets"],
    [("adapters", adapters), ("token_ids", token_ids), ("burstiness", burstiness), ("ramp", ramp)]
);

pub(super) fn translate(program: &ServingBenchmark, env: &Env, words: &[String]) -> TranslationResult {
    let tool = program.tool;
    let mut load = TranslatedLoad::default();
    let line = TABLE.read_as(tool, words, &mut load.builder);
    line.has_options_only(tool, &mut load.builder);
    if line.has(USE_CHAT_TEMPLATE) && program.range_ratio != RangeRatio::UpTo {
        load.builder.push_error(format!(
            "`{USE_CHAT_TEMPLATE}` is not an option of {tool}, but of InferenceMAX's benchmark_serving.py"
        ));
    }
    if let Err(why) = measured(program, env, &line, &mut load) {
        return TranslationBuilder::nothing(tool, why);
    }
    TABLE.apply(&line, &mut load);
    dataset::count_answers(&line, &mut load);
    load.default_tokenizer(line.value("--model"));
    load.finish(tool)
}

/// What options set together, and the program's own defaults.
fn measured(
    program: &ServingBenchmark,
    env: &Env,
    line: &ParsedLine,
    load: &mut TranslatedLoad,
) -> Result<(), ErrorText> {
    interface(line, load)?;
    load.rate_and_limit(line.value("--request-rate"), line.last("--max-concurrency"));
    dataset::put(line, program.range_ratio, load)?;
    let has_rate = load.get("rate").is_some_and(|rate| rate != "-1");
    if program.moves_arrivals && has_rate && !line.has("--ramp-up-strategy") {
        load.builder.note(
            "vLLM scales all gaps by one factor, so that the last of N requests is due after exactly N/RATE \
            seconds; Regatta keeps them as drawn, so the rate of one run is close to RATE, the closer the more \
            requests it has",
        );
    }
    let tests = if line.has("--no-test-input") { "0" } else { program.tests };
    load.put("warmup", line.value("--num-warmups").unwrap_or(tests));
    load.streaming(!line.has("--non-streaming"));
    let is_random = line.value("--dataset-name").is_none_or(|name| name == "random") && !line.has("--dataset-path");
    if is_random && program.random_ignores_eos {
        load.flag("extra.ignore_eos");
    }
    if env.has("OPENAI_API_KEY") {
        load.put("api_key_env", "OPENAI_API_KEY");
    }
    if let Some(temperature) = program.temperature {
        load.put("request.temperature", temperature);
    }
    Ok(())
}

/// The server and its protocol; the sentence on one that is not measured.
fn interface(line: &ParsedLine, load: &mut TranslatedLoad) -> Result<(), ErrorText> {
    let backend = line.value("--backend").unwrap_or("openai");
    let (protocol, usual) = match backend {
        "vllm" | "openai" | "lmdeploy" | "scalellm" | "sglang" => COMPLETIONS,
        "openai-chat" => CHAT,
        "tensorrt-llm" => ("generate", "/v2/models/ensemble/generate_stream"),
        other => {
            return Err(ErrorText::new(format_args!(
                "cannot translate the line: requests of --backend {other} are not measured; the text interfaces \
                    are `openai` and `openai-chat`, which most servers have beside their own"
            )));
        }
    };
    load.put("protocol", protocol);
    load.limits_completion_tokens();
    let path = line.value("--endpoint").unwrap_or(usual);
    if backend == "openai-chat" && !path.trim_end_matches('/').ends_with("chat/completions") {
        load.builder.push_error(format!(
            "`--endpoint {path}` is not the path of --backend openai-chat, which ends with chat/completions"
        ));
    }
    let base = line.value("--base-url").map_or_else(
        || host_and_port(line.value("--host").unwrap_or("localhost"), line.value("--port").unwrap_or("8000")),
        str::to_owned,
    );
    match path.strip_prefix("/v2/models/").and_then(|rest| rest.split('/').next()) {
        // There --model is for the tokenizer.
        Some(model) if protocol == "generate" => {
            load.put("model", model);
            load.address(&base, usual, usual);
        }
        _ => {
            if let Some(name) = line.value("--served-model-name").or(line.value("--model")) {
                load.put("model", name);
            }
            load.address(&base, path, usual);
        }
    }
    Ok(())
}

fn burstiness(load: &mut TranslatedLoad, _: &ParsedLine, given: &GivenOption) -> bool {
    let has_gaps = load.get("rate").is_some_and(|rate| rate != "-1");
    if has_gaps {
        load.burstiness(given);
    }
    has_gaps
}

/// In how many steps the rate rises here, at most.
const STEPS: u32 = 20;

/// How the rate rises with the number of the request: `_get_current_request_rate` of vLLM 0.33.0
/// (vllm/benchmarks/serve.py).
#[derive(Clone, Copy)]
struct RisingRate {
    from: f64,
    to: f64,
    requests: f64,
    is_exponential: bool,
}

impl RisingRate {
    fn at(self, request: f64) -> f64 {
        let progress = request / (self.requests - 1.0).max(1.0);
        if self.is_exponential {
            self.from * (self.to / self.from).powf(progress)
        } else {
            self.from + (self.to - self.from) * progress
        }
    }

    /// Requests and seconds of each step. All have as many requests.
    fn steps(self) -> (f64, Vec<f64>) {
        /// Of a step with more requests, so many are looked at.
        const MOST: f64 = 1000.0;
        let steps = self.requests.min(f64::from(STEPS)).max(1.0).floor();
        let each = self.requests / steps;
        let looked_at = each.ceil().min(MOST);
        let seconds = |step: u32| {
            let request = |part: u32| (f64::from(step) + (f64::from(part) + 0.5) / looked_at) * each - 0.5;
            let gaps: f64 = (0..looked_at as u32).map(|part| 1.0 / self.at(request(part).max(0.0))).sum();
            gaps / looked_at * each
        };
        (each, (0..steps as u32).map(seconds).collect())
    }

    fn put(self, load: &mut TranslatedLoad) {
        let (each, seconds) = self.steps();
        let rounded = |value: f64| number((value * 1e4).round() / 1e4);
        let whole: f64 = seconds.iter().sum();
        let step = |lasts: &f64| {
            let time = format!("{}ms", number((lasts * 1e3).round().max(1.0)));
            json!({"level": rounded(each / lasts), "lasts": time})
        };
        let steps: Vec<Value> = seconds.iter().map(step).collect();
        load.put("rate", rounded(self.requests / whole).to_string());
        load.set("rate", Value::Null);
        load.builder.note(format!(
            "vLLM changes the rate with every request; Regatta changes it in {} steps, each with as many \
            requests as vLLM sends in the same time, {} s in all",
            steps.len(),
            number((whole * 10.0).round() / 10.0)
        ));
        load.set("ramp", json!({ "steps": steps }));
    }
}

/// A rate that rises from one request to the next.
fn ramp(load: &mut TranslatedLoad, line: &ParsedLine, given: &GivenOption) -> bool {
    match rising_rate(load, line, given) {
        Ok(rate) => rate.put(load),
        Err(error) => load.builder.push_error(error.to_string()),
    }
    true
}

/// The rate that rises; or why it cannot be measured.
fn rising_rate(load: &TranslatedLoad, line: &ParsedLine, given: &GivenOption) -> Result<RisingRate, ErrorText> {
    let read = |name: &str| line.value(name).and_then(|text| text.parse::<f64>().ok()).filter(|n| n.is_finite());
    let requests = load.get("stop.requests").and_then(|count| count.parse::<u32>().ok()).map(f64::from);
    let (Some(from), Some(to), Some(requests)) = (read("--ramp-up-start-rps"), read("--ramp-up-end-rps"), requests)
    else {
        return Err(ErrorText::new(
            "`--ramp-up-strategy` needs --ramp-up-start-rps, --ramp-up-end-rps and a number of prompts",
        ));
    };
    if line.has("--request-rate") {
        return Err(ErrorText::new(
            "`--request-rate` and `--ramp-up-strategy` contradict each other: the rate rises from --ramp-up-start-rps",
        ));
    }
    if from <= 0.0 || to <= 0.0 {
        return Err(ErrorText::new("`--ramp-up-start-rps` and `--ramp-up-end-rps` are above 0"));
    }
    let is_exponential = match given.value() {
        "linear" => false,
        "exponential" => true,
        _ => return Err(ErrorText::new(format_args!("`{given}`: linear or exponential"))),
    };
    Ok(RisingRate { from, to, requests, is_exponential })
}

tool_table!(IN_PROCESS_BENCHMARK, ["vllm-bench-in-process", "vllm-data-sets"], []);

const IN_PROCESS: &str = "vLLM runs the engine in the process of the benchmark; Regatta measures the same engine \
    through `vllm serve`, so HTTP and detokenization are part of the measurement";

/// All prompts at once.
pub(super) fn throughput(env: &Env, words: &[String]) -> TranslationResult {
    const TOOL: &str = "vllm bench throughput";
    let mut load = TranslatedLoad::default();
    let (line, engine) = IN_PROCESS_BENCHMARK.read_known(words, &mut load.builder);
    if let Some(other @ ("hf" | "mii")) = line.value("--backend") {
        return TranslationBuilder::nothing(
            TOOL,
            format!("cannot translate the line: it measures another engine, `{other}`; --backend vllm is imported"),
        );
    }
    if let Err(why) = dataset::put(&line, RangeRatio::Around, &mut load) {
        return TranslationBuilder::nothing(TOOL, why);
    }
    load.put("scenario", "offline");
    load.put("warmup", "0");
    finish(TOOL, env, &line, engine, load)
}

/// One batch after the other.
pub(super) fn latency(env: &Env, words: &[String]) -> TranslationResult {
    const TOOL: &str = "vllm bench latency";
    let mut load = TranslatedLoad::default();
    let (line, engine) = IN_PROCESS_BENCHMARK.read_known(words, &mut load.builder);
    dataset::name(&line).clone_into(&mut load.data_set);
    let number = |name: &str| line.first_number::<u64>(&[name]);
    let batch = number("--batch-size").map(|batch| batch.max(1));
    let length = |name: &str, usual: u64| line.number::<u64>(name).unwrap_or(Quantity::Known(usual)).to_string();
    load.put("concurrency", batch.to_string());
    load.put("stop.requests", batch.clone().times(number("--num-iters")).to_string());
    load.put("warmup", batch.clone().times(number("--num-iters-warmup")).to_string());
    load.put("input_tokens", length("--input-len", 32));
    load.put("output_tokens", length("--output-len", 128));
    load.builder.note(format!(
        "vLLM starts a batch of {batch} when the previous one is finished; in Regatta each of {batch} users \
        sends its next request by itself, with answers of one length"
    ));
    finish(TOOL, env, &line, engine, load)
}

fn finish(
    tool: &'static str,
    env: &Env,
    line: &ParsedLine,
    mut engine: Vec<String>,
    mut load: TranslatedLoad,
) -> TranslationResult {
    load.builder.note(IN_PROCESS);
    env.report_visible_gpus(&mut load.builder);
    load.target("localhost:8000");
    load.put("protocol", "openai-completions");
    load.flag("extra.ignore_eos");
    // Its own, whatever the model's generation_config.json has.
    load.put("request.temperature", "1.0");
    load.add("extra", "top_p:1.0");
    dataset::count_answers(line, &mut load);
    IN_PROCESS_BENCHMARK.apply(line, &mut load);
    if let Some(path) = line.value("--lora-path") {
        engine.extend(["--lora-modules".to_owned(), format!("lora={path}")]);
        load.put("model", "lora");
    }
    let mut builder = std::mem::take(&mut load.builder);
    let server = SERVE.command(&["vllm", "serve"], &engine, &mut builder);
    let script = TranslatedScript {
        stages: Map::from_iter([("server".to_owned(), server.stage(env))]),
        benches: vec![ScriptBench { server: Some("server".to_owned()), bench: load.bench(), ..<_>::default() }],
        ..TranslatedScript::default()
    };
    builder.finish(tool, TranslationKind::Script(script))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sums of `1 / rate` of all requests.
    #[test]
    fn steps_take_as_long_as_the_requests_of_vllm() {
        let ramp = |is_exponential| RisingRate { from: 1.0, to: 16.0, requests: 100.0, is_exponential }.steps();
        for (is_exponential, seconds) in [(false, 18.8), (true, 34.0)] {
            let (each, steps) = ramp(is_exponential);
            let whole: f64 = steps.iter().sum();
            assert!((each - 5.0).abs() < 1e-9 && (whole - seconds).abs() < 0.1, "{whole}");
            assert!(steps.is_sorted_by(|one, next| one > next), "{steps:?}");
        }
        assert_eq!(RisingRate { from: 2.0, to: 4.0, requests: 1.0, is_exponential: false }.steps(), (1.0, vec![0.5]));
    }
}
