//! The command lines of vLLM's servers: a pure function of the manifest, so that they can be read before anything runs.

use serde_json::Value;

use super::engine_copies::{EngineCopies, existing_path};
use super::planned_server::{PlannedServer, ReadinessProbe};
use crate::container::named_paths;
use crate::task_context::TaskContext;
use base::event::Failure;
use plan::manifest::model::Vllm;

pub fn engine_copies(server: &Vllm) -> EngineCopies {
    EngineCopies {
        ranks: server.ranks(),
        factors: "tp × pp × dp",
        servers: server.servers,
        port: server.port,
        probe: ReadinessProbe::OpenAi,
        has_metrics: true,
        named: server.options.values().flat_map(named_paths::in_json).collect(),
    }
}

pub fn plan(context: &TaskContext, server: &Vllm) -> Result<Vec<PlannedServer>, Failure> {
    let server = with_paths(server, |text| existing_path(context, text));
    engine_copies(&server).plan(context, |port| argv(&server, port))
}

/// With the model's and the tokenizer's folder as a server finds them.
pub fn with_paths(server: &Vllm, found: impl Fn(&str) -> String) -> Vllm {
    Vllm { model: found(&server.model), tokenizer: server.tokenizer.as_deref().map(found), ..server.clone() }
}

/// The arguments of one server.
pub fn argv(server: &Vllm, port: &str) -> Vec<String> {
    let mut argv = server.program.clone();
    // `vllm serve MODEL`; the module has an option for it.
    if server.program.last().is_none_or(|word| word != "serve") {
        argv.push("--model".to_owned());
    }
    argv.push(server.model.clone());
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            push_option(&mut argv, name, &value);
        }
    };
    let text = |value: &Option<String>| value.clone().map(Value::from);
    let parallel = |size: u32| (size > 1).then(|| size.into());
    put("host", Some(server.host.clone().into()));
    put("port", Some(port.into()));
    put("tokenizer", text(&server.tokenizer));
    put("served-model-name", text(&server.served_model_name));
    put("dtype", text(&server.dtype));
    put("quantization", text(&server.quantization));
    put("load-format", text(&server.load_format));
    put("tensor-parallel-size", parallel(server.tensor_parallel_size));
    put("pipeline-parallel-size", parallel(server.pipeline_parallel_size));
    put("data-parallel-size", parallel(server.data_parallel_size));
    put("max-model-len", server.max_model_len.map(Value::from));
    put("max-num-seqs", server.max_num_seqs.map(Value::from));
    put("max-num-batched-tokens", server.max_num_batched_tokens.map(Value::from));
    put("gpu-memory-utilization", server.gpu_memory_utilization.map(Value::from));
    put("kv-cache-dtype", text(&server.kv_cache_dtype));
    put("enforce-eager", server.enforce_eager.map(Value::from));
    put("enable-prefix-caching", server.enable_prefix_caching.map(Value::from));
    put("enable-chunked-prefill", server.enable_chunked_prefill.map(Value::from));
    put("enable-logging-iteration-details", server.step_log.then(|| true.into()));
    for (name, value) in &server.options {
        put(&name.replace('_', "-"), Some(value.clone()));
    }
    argv.extend(server.args.iter().cloned());
    argv
}

/// `--name value`; true and false are `--name` and `--no-name`, and null is nothing.
fn push_option(argv: &mut Vec<String>, name: &str, value: &Value) {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match value {
        Value::Null => {}
        Value::Bool(true) => argv.push(format!("--{name}")),
        Value::Bool(false) => argv.push(format!("--no-{name}")),
        Value::Array(values) => {
            argv.push(format!("--{name}"));
            argv.extend(values.iter().map(text));
        }
        value => argv.extend([format!("--{name}"), text(value)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(server: serde_json::Value) -> String {
        argv(&serde_json::from_value(server).unwrap(), "8000").join(" ")
    }

    #[test]
    fn what_is_not_given_is_left_to_vllm() {
        insta::assert_snapshot!(line(serde_json::json!({"model": "meta-llama/Llama-3.1-8B"})), @"vllm serve meta-llama/Llama-3.1-8B --host 0.0.0.0 --port 8000");
    }

    #[test]
    fn keys_are_the_options_of_vllm() {
        let server = serde_json::json!({
            "model": "/models/llama", "program": ["python3", "-m", "vllm.entrypoints.openai.api_server"], "tokenizer": "/models/tokenizer",
            "served_model_name": "llama", "dtype": "bfloat16", "quantization": "fp8", "load_format": "dummy", "tensor_parallel_size": 2,
            "pipeline_parallel_size": 2, "data_parallel_size": 2, "max_model_len": 4096, "max_num_seqs": 256, "max_num_batched_tokens": 8192,
            "gpu_memory_utilization": 0.9, "kv_cache_dtype": "fp8", "enforce_eager": true, "enable_prefix_caching": false,
            "enable_chunked_prefill": true, "host": "127.0.0.1", "args": ["--disable-log-stats"],
            "options": {"compilation_config": {"level": 3}, "cudagraph_capture_sizes": [1, 2], "async-scheduling": false, "seed": 1, "revision": null},
        });
        insta::assert_snapshot!(line(server), @r#"python3 -m vllm.entrypoints.openai.api_server --model /models/llama --host 127.0.0.1 --port 8000 --tokenizer /models/tokenizer --served-model-name llama --dtype bfloat16 --quantization fp8 --load-format dummy --tensor-parallel-size 2 --pipeline-parallel-size 2 --data-parallel-size 2 --max-model-len 4096 --max-num-seqs 256 --max-num-batched-tokens 8192 --gpu-memory-utilization 0.9 --kv-cache-dtype fp8 --enforce-eager --no-enable-prefix-caching --enable-chunked-prefill --compilation-config {"level":3} --cudagraph-capture-sizes 1 2 --no-async-scheduling --seed 1 --disable-log-stats"#);
    }
}
