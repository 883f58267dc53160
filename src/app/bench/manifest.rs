//! The manifest that a line of options means. `--dry-run` prints it, and `regatta run` takes it.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::cli::{BenchLoad, BenchRequest, BenchServer, TokenLength};
use crate::error::CommandError;
use base::spec::{BenchSweep, Quantity};
use plan::manifest::{Targets, shipped, targets};

/// The stage that measures.
pub(super) const STAGE: &str = "bench";

const SIM: &str = "sim:";
const USUAL_GPU: &str = "h200";
const USUAL_MODEL: &str = "llama2-70b";

/// A description of `sim:…` for display.
pub fn simulated(target: &str) -> Option<String> {
    let (gpu, model) = parts(target)?;
    Some(format!("{model} on one {}", gpu.to_uppercase()))
}

/// GPU and model of `sim:`, `sim:h100`, `sim:h100/llama2-70b`.
fn parts(target: &str) -> Option<(&str, &str)> {
    let rest = target.strip_prefix(SIM)?;
    let (gpu, model) = rest.split_once('/').unwrap_or((rest, ""));
    let gpu = if gpu.is_empty() { USUAL_GPU } else { gpu };
    Some((gpu, if model.is_empty() { USUAL_MODEL } else { model }))
}

pub fn text(request: &BenchRequest) -> Result<String, CommandError> {
    serde_yaml::to_string(&Value::Object(manifest(request)?)).map_err(|error| anyhow::Error::from(error).into())
}

/// Whether a text is a manifest as [`text`] writes it.
pub fn is_bench_manifest(text: &str) -> bool {
    let manifest: Value = serde_yaml::from_str(text).unwrap_or_default();
    let is_about_bench = manifest["about"].as_str().is_some_and(|about| about.starts_with("regatta bench "));
    manifest["regatta"] == 1 && manifest["name"] == STAGE && is_about_bench
}

/// The manifest of a request, key by key.
pub fn manifest(request: &BenchRequest) -> Result<Map<String, Value>, CommandError> {
    let mut stages = Map::new();
    let mut vars = Map::new();
    let target = match (&request.serve, parts(&request.target)) {
        (Some(served), _) => {
            stages.insert("server".to_owned(), server(served, &request.target));
            "{{ stages.server }}".to_owned()
        }
        (None, Some((gpu, model))) => {
            simulator(request, gpu, model, &mut vars, &mut stages)?;
            "{{ stages.simulator }}".to_owned()
        }
        (None, None) => request.target.clone(),
    };
    stages.insert(STAGE.to_owned(), json!({"bench": measurement(request, &target)?}));
    let mut manifest = Map::new();
    manifest.insert("regatta".to_owned(), json!(1));
    manifest.insert("name".to_owned(), json!(STAGE));
    manifest.insert("about".to_owned(), json!(format!("regatta bench {}", request.target)));
    if !vars.is_empty() {
        manifest.insert("vars".to_owned(), Value::Object(vars));
    }
    manifest.insert("stages".to_owned(), Value::Object(stages));
    Ok(manifest)
}

fn measurement(request: &BenchRequest, target: &str) -> Result<Value, CommandError> {
    let is_served = request.serve.is_some();
    let is_simulated = !is_served && request.target.starts_with(SIM);
    // An address with a parameter in it is read when the parameter has a value.
    let is_open = is_simulated || is_served || target.contains("{{");
    let parsed = if is_open { Targets::default() } else { targets(target).map_err(CommandError::usage)? };
    let mut bench = Map::new();
    let mut put = |key: &str, value: Value| {
        bench.insert(key.to_owned(), value);
    };
    put("target", json!(target));
    // Every model completes; a base model has no template for a chat.
    let usual = if is_served { Some("openai-completions") } else { None };
    let protocol = request.protocol.or(usual).map(str::to_owned).or_else(|| {
        let protocol = serde_json::to_value(parsed.protocol).ok()?;
        protocol.as_str().map(str::to_owned)
    });
    let is_http = ["http://", "https://"].iter().any(|scheme| request.target.starts_with(scheme));
    let is_openai = protocol.as_deref().is_some_and(|protocol| protocol.starts_with("openai"));
    if let Some(protocol) = request.protocol.or(usual) {
        put("protocol", json!(protocol));
    } else if protocol.is_none() && is_http {
        // A bare server: the protocol that most of them have.
        put("protocol", json!("openai-chat"));
    }
    match (&request.model, parsed.model) {
        (Some(model), _) => put("model", json!(model)),
        (None, Some(model)) => put("model", json!(model)),
        (None, None) if is_simulated && is_openai => put("model", json!("tensorrt_llm")),
        (None, None) if is_openai || protocol.is_none() && is_http => {
            put("model", json!(""));
        }
        (None, None) if protocol.as_deref() == Some("generate") => put("model", json!("ensemble")),
        (None, None) => {}
    }
    if let Some(endpoint) = &request.endpoint {
        put("endpoint", json!(if endpoint.starts_with('/') { endpoint.clone() } else { format!("/{endpoint}") }));
    }
    if let Some(name) = &request.api_key_env {
        put("api_key_env", json!(name));
    }
    if let Some(limit) = &request.ready_timeout {
        put("ready_timeout", json!(limit));
    }
    if !request.tls.is_empty() {
        put("tls", Value::Object(request.tls.clone()));
    }
    let mut extra = request.extra.clone();
    if request.ignore_eos && is_openai {
        extra.insert("ignore_eos".to_owned(), json!(true));
    }
    if is_served && is_openai && request.streaming != Some(false) {
        // Under load vLLM sends several tokens in a chunk: with its count for each, latencies per token are exact.
        let options = json!({"include_usage": true, "continuous_usage_stats": true});
        extra.entry("stream_options").or_insert(options);
    }
    if !extra.is_empty() {
        put("extra", Value::Object(extra));
    }
    for (key, value) in load(request) {
        put(&key, value);
    }
    let stop = stop(request);
    if !stop.is_empty() {
        put("stop", Value::Object(stop));
    }
    for (key, tokens) in [("input_tokens", &request.input), ("output_tokens", &request.output)] {
        if let Some(tokens) = tokens {
            put(key, length(tokens));
        }
    }
    if let Some((kind, file)) = &request.data {
        let mut data = Map::from_iter([((*kind).to_owned(), json!(file))]);
        if request.repeat_data {
            data.insert("repeat".to_owned(), json!(true));
        }
        if let Some(most) = &request.max_input_len {
            data.insert("max_input_tokens".to_owned(), json!(most));
        }
        put("data", Value::Object(data));
    }
    if let Some(path) = request.tokenizer.as_deref().and_then(tokenizer) {
        put("tokenizer", json!(path));
    }
    put("seed", json!(request.seed));
    if request.repeat > 1 {
        put("repeat", json!(request.repeat));
    }
    put("warmup", json!(request.warmup));
    if request.connections != Quantity::Known(1) {
        put("triton_num_clients_per_frontend", json!(request.connections));
    }
    if request.timelines {
        put("timelines", json!(true));
    }
    if request.is_shared {
        put("stream", json!("shared"));
    }
    put("stall_timeout", json!(request.stall_timeout));
    let limits = limits(request);
    if !limits.is_empty() {
        put("limits", Value::Object(limits));
    }
    if !request.slo.is_empty() {
        let slo: Map<String, Value> =
            request.slo.iter().map(|(key, ms)| ((*key).to_owned(), json!(format!("{ms}ms")))).collect();
        put("slo", Value::Object(slo));
    }
    put("vocab_size", json!(request.vocab_size));
    put("end_id", json!(request.end_id));
    let fields = request_fields(request, is_openai);
    if !fields.is_empty() {
        put("request", Value::Object(fields));
    }
    Ok(Value::Object(bench))
}

/// The scenario, with what belongs to it.
fn load(request: &BenchRequest) -> Map<String, Value> {
    let mut load = Map::new();
    let mut put = |key: &str, value: Value| {
        load.insert(key.to_owned(), value);
    };
    match &request.load {
        BenchLoad::Offline => put("scenario", json!("offline")),
        BenchLoad::Rate(rate) => {
            put("scenario", json!("server"));
            put("rate", json!(rate));
        }
        BenchLoad::Concurrency(users) => {
            put("scenario", json!("concurrency"));
            put("concurrency", json!(users));
        }
        BenchLoad::Trace(speed) => {
            put("scenario", json!("trace"));
            if (speed - 1.0).abs() > f64::EPSILON {
                put("speed", json!(speed));
            }
        }
        BenchLoad::Sweep(sweep) => {
            let scenario = if matches!(sweep, BenchSweep::Concurrency(_)) { "concurrency" } else { "server" };
            put("scenario", json!(scenario));
            put("sweep", json!(sweep));
        }
    }
    if request.is_constant && matches!(request.load, BenchLoad::Rate(_) | BenchLoad::Sweep(_)) {
        put("arrivals", json!("constant"));
    }
    load
}

/// When the measurement ends.
fn stop(request: &BenchRequest) -> Map<String, Value> {
    let mut stop = Map::new();
    if let Some(requests) = &request.requests {
        stop.insert("requests".to_owned(), json!(requests));
    }
    if let Some(duration) = request.duration.as_ref().filter(|_| request.load != BenchLoad::Offline) {
        stop.insert("duration".to_owned(), json!(duration));
    }
    stop
}

/// Limits of the whole run.
fn limits(request: &BenchRequest) -> Map<String, Value> {
    let mut limits = Map::new();
    for (key, limit) in [("ttft_p99", &request.ttft_p99), ("tpot_p99", &request.tpot_p99)] {
        if let Some(limit) = limit {
            limits.insert(key.to_owned(), json!(limit));
        }
    }
    limits.extend(request.limits.iter().map(|(key, limit)| (key.clone(), json!(limit))));
    limits
}

/// Further fields of each request.
fn request_fields(request: &BenchRequest, is_openai: bool) -> Map<String, Value> {
    let mut fields = Map::new();
    if !request.headers.is_empty() {
        fields.insert("headers".to_owned(), json!(request.headers));
    }
    if let Some(field) = request.length_field {
        fields.insert("length_field".to_owned(), json!(field));
    }
    if let Some(streaming) = request.streaming.filter(|streaming| !streaming || is_openai) {
        fields.insert("streaming".to_owned(), json!(streaming));
    }
    fields.extend(request.fields.clone());
    // An end token that does not exist ends nothing.
    if request.ignore_eos && !is_openai {
        fields.insert("end_id".to_owned(), json!(-1));
    }
    fields
}

/// A tokenizer.json, or the one in a folder; a name of a tokenizer elsewhere is not one.
pub fn tokenizer(path: &str) -> Option<PathBuf> {
    let path = Path::new(path);
    [path.to_owned(), path.join("tokenizer.json")].into_iter().find(|path| path.is_file())
}

/// Within four deviations: one request in sixteen thousand is beyond.
fn length(tokens: &TokenLength) -> Value {
    let TokenLength { mean, stddev, max } = tokens;
    if *stddev == Quantity::Known(0.0) {
        return json!({"fixed": mean});
    }
    let reach = stddev.clone().combine("*", 4.0, |stddev, times| stddev * times).ceiling();
    let least = mean.clone().combine("-", reach.clone(), u32::saturating_sub).at_least(1_u32);
    let most = mean.clone().combine("+", reach, u32::saturating_add);
    let most = match max {
        Some(max) => most.at_most(max.clone()),
        None => most,
    };
    json!({"normal": {"mean": mean, "stddev": stddev, "min": least, "max": most}})
}

/// Of a length that is known.
fn longest(tokens: &TokenLength) -> u64 {
    let (mean, stddev) = (tokens.mean.known().copied(), tokens.stddev.known().copied());
    let most = u64::from(mean.unwrap_or_default()) + (stddev.unwrap_or_default() * 4.0).ceil() as u64;
    let max = tokens.max.as_ref().and_then(Quantity::known);
    max.map_or(most, |max| most.min(u64::from(*max)))
}

/// The stage that starts a server for the measurement.
fn server(served: &BenchServer, model: &str) -> Value {
    let mut keys = Map::from_iter([("model".to_owned(), json!(model))]);
    if !served.program.is_empty() {
        keys.insert("program".to_owned(), json!(served.program));
    }
    if served.tp > 1 {
        keys.insert("tensor_parallel_size".to_owned(), json!(served.tp));
    }
    if !served.args.is_empty() {
        keys.insert("args".to_owned(), json!(served.args));
    }
    keys.insert("servers".to_owned(), json!(served.copies));
    json!({"gpus": served.tp * served.copies, "serve": { served.engine: keys }})
}

/// Engine, repository and server of the simulator, with the shapes and tuning that are shipped.
fn simulator(
    request: &BenchRequest,
    gpu: &str,
    model: &str,
    vars: &mut Map<String, Value>,
    stages: &mut Map<String, Value>,
) -> Result<(), CommandError> {
    for path in [format!("manifests/quickstart/sim-{gpu}-x1.yaml"), format!("manifests/models/{model}.yaml")] {
        let Some((_, bytes)) = shipped().find(|(name, _)| *name == path) else {
            let known = |folder: &str, before: &str, after: &str| {
                let names = shipped().filter_map(|(name, _)| {
                    Some(name.strip_prefix(folder)?.strip_prefix(before)?.strip_suffix(after)?.to_owned())
                });
                names.collect::<Vec<_>>().join(", ")
            };
            return Err(CommandError::Usage(format!(
                "`{}`: the simulator knows the GPUs {} and the models {}",
                request.target,
                known("manifests/quickstart/", "sim-", "-x1.yaml"),
                known("manifests/models/", "", ".yaml"),
            )));
        };
        let found: Value = serde_yaml::from_slice(bytes).map_err(anyhow::Error::from)?;
        if let Some(found) = found["vars"].as_object() {
            vars.extend(found.clone());
        }
    }
    let [input, output] = [&request.input, &request.output].map(|tokens| tokens.as_ref().map_or(0, longest));
    if let Some(tuning) = vars.get_mut("tuning").and_then(Value::as_object_mut) {
        let mut widen = |key: &str, least: u64| {
            let now = tuning.get(key).and_then(Value::as_u64).unwrap_or(0);
            tuning.insert(key.to_owned(), json!(now.max(least)));
        };
        widen("max_input_len", input);
        widen("max_seq_len", input + output);
    }
    let streams = request.streaming != Some(false);
    stages.insert(
        "engine".to_owned(),
        json!({"engine": {
            "backend": "simulator",
            "model": "{{ model }}",
            "system": "{{ machine }}",
            "precision": "{{ precision }}",
            "checkpoint_flags": {"kv_cache_dtype": "fp8"},
            "build_flags": {
                "max_batch_size": "{{ tuning.max_batch_size }}",
                "max_num_tokens": "{{ tuning.max_num_tokens }}",
                "max_input_len": "{{ tuning.max_input_len }}",
                "max_seq_len": "{{ tuning.max_seq_len }}",
                "tokens_per_block": "{{ tuning.tokens_per_block }}",
            },
        }}),
    );
    stages.insert(
        "repository".to_owned(),
        json!({"repository": {
            "engine": "{{ stages.engine.out }}",
            "streaming": streams,
            "runtime_flags": {
                "kvcache_free_gpu_mem_frac": "{{ tuning.kv_fraction }}",
                "batch_scheduler_policy": "{{ tuning.scheduler }}",
                "enable_chunked_context": true,
            },
        }}),
    );
    stages.insert(
        "simulator".to_owned(),
        json!({"serve": {"simulator": {"repository": "{{ stages.repository.out }}", "ready": {"timeout": "1m"}}}}),
    );
    Ok(())
}
