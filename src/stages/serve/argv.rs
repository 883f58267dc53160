//! The command line of `trtllm-serve`: one for each copy of the model, as NVIDIA's harness starts them. It is a pure
//! function of the manifest, so that it can be read before anything runs.
//!
//! The command lines of vLLM's servers: a pure function of the manifest, so that they can be read before anything
//! runs.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::engine_copies::{EngineCopies, existing_path};
use super::planned_server::{PlannedServer, ReadinessProbe};
use crate::container::wrap;
use crate::task_context::TaskContext;
use base::event::{Failure, ReducedSetting};
use plan::manifest::model::{Serve, TrtllmServe, Vllm};

/// The file that `--extra_llm_api_options` names, in the task's folder.
const OPTIONS: &str = "extra_llm_api_options.yaml";

pub fn trtllm_copies(server: &TrtllmServe) -> EngineCopies {
    EngineCopies {
        ranks: server.ranks(),
        factors: "tp × pp",
        servers: server.servers,
        port: server.port,
        probe: ReadinessProbe::Health,
        // Its `/metrics` are not Prometheus'.
        has_metrics: false,
        named: server.options.values().flat_map(wrap::in_json).collect(),
    }
}

/// The arguments of one server. `options` is the file of its options, if there are any.
pub fn trtllm_argv(server: &TrtllmServe, model: &str, port: &str, options: Option<&str>) -> Vec<String> {
    let mut argv = match &server.python {
        Some(python) => vec![python.clone(), "-m".to_owned(), "tensorrt_llm.commands.serve".to_owned()],
        None => vec![server.program.clone()],
    };
    argv.push(model.to_owned());
    let number = |value: Option<u32>| value.map(|value| value.to_string());
    let mut option = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            argv.extend([format!("--{name}"), value]);
        }
    };
    option("host", Some(server.host.clone()));
    option("port", Some(port.to_owned()));
    option("backend", Some(server.backend.clone()));
    option("tokenizer", server.tokenizer.clone());
    option("tp_size", Some(server.tensor_parallelism.to_string()));
    option("pp_size", Some(server.pipeline_parallelism.to_string()));
    option("ep_size", number(server.moe_expert_parallelism));
    option("max_batch_size", number(server.max_batch_size));
    option("max_num_tokens", number(server.max_num_tokens));
    option("max_seq_len", number(server.max_seq_len));
    option("max_beam_width", number(server.max_beam_width));
    option("num_postprocess_workers", number(server.num_postprocess_workers));
    option("extra_llm_api_options", options.map(str::to_owned));
    argv.extend(server.args.iter().cloned());
    argv
}

/// The servers to be, their options written.
pub fn plan_trtllm(context: &TaskContext, server: &TrtllmServe) -> Result<Vec<PlannedServer>, Failure> {
    let lower =
        |server: &TrtllmServe| context.lease.lowered.as_ref().and_then(|lowered| lowered_options(server, lowered));
    let server = &lower(server).unwrap_or_else(|| server.clone());
    let options = write(&context.lease.out, server)?.map(|path| path.display().to_string());
    let located = |text: &str| existing_path(context, text);
    let server = TrtllmServe { tokenizer: server.tokenizer.as_deref().map(located), ..server.clone() };
    let model = located(&server.model);
    trtllm_copies(&server).plan(context, |port| trtllm_argv(&server, &model, port, options.as_deref()))
}

/// With a lower number among its options; `None`: it stands elsewhere.
fn lowered_options(server: &TrtllmServe, lowered: &ReducedSetting) -> Option<TrtllmServe> {
    let pointer = server.option(&lowered.setting)?;
    let mut options = serde_json::to_value(&server.options).ok()?;
    let number = options.pointer_mut(&pointer)?;
    // A count stays a count.
    *number = if number.is_f64() { lowered.to.into() } else { (lowered.to as u64).into() };
    Some(TrtllmServe { options: serde_json::from_value(options).ok()?, ..server.clone() })
}

/// What a number among the options of a task's servers is in this try.
pub fn option_value(context: &TaskContext, setting: &str) -> Option<f64> {
    if let Some(lowered) = context.lease.lowered.as_ref().filter(|lowered| lowered.setting == setting) {
        return Some(lowered.to);
    }
    let Some(Serve::TrtllmServe(server)) = context.lease.task.serve() else { return None };
    serde_json::to_value(&server.options).ok()?.pointer(&server.option(setting)?)?.as_f64()
}

/// Writes the options as YAML. `None` if no option is set.
fn write(out: &Path, server: &TrtllmServe) -> Result<Option<PathBuf>, Failure> {
    if server.options.is_empty() {
        return Ok(None);
    }
    let path = out.join(OPTIONS);
    let wrong = |error: String| Failure::system(format!("{}: {error}", path.display()));
    let text = serde_yaml::to_string(&server.options).map_err(|error| wrong(error.to_string()))?;
    std::fs::write(&path, text).map_err(|error| wrong(error.to_string()))?;
    Ok(Some(path))
}

pub fn vllm_copies(server: &Vllm) -> EngineCopies {
    EngineCopies {
        ranks: server.ranks(),
        factors: "tp × pp × dp",
        servers: server.servers,
        port: server.port,
        probe: ReadinessProbe::OpenAi,
        has_metrics: true,
        named: server.options.values().flat_map(wrap::in_json).collect(),
    }
}

pub fn plan_vllm(context: &TaskContext, server: &Vllm) -> Result<Vec<PlannedServer>, Failure> {
    let server = with_paths(server, |text| existing_path(context, text));
    vllm_copies(&server).plan(context, |port| vllm_argv(&server, port))
}

/// With the model's and the tokenizer's folder as a server finds them.
pub fn with_paths(server: &Vllm, found: impl Fn(&str) -> String) -> Vllm {
    Vllm { model: found(&server.model), tokenizer: server.tokenizer.as_deref().map(found), ..server.clone() }
}

/// The arguments of one server.
pub fn vllm_argv(server: &Vllm, port: &str) -> Vec<String> {
    let mut argv = server.program.clone();
    // `vllm serve MODEL`; the module has an option for it.
    if server.program.last().is_none_or(|word| word != "serve") {
        argv.push("--model".to_owned());
    }
    argv.push(server.model.clone());
    let mut push = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            push_option(&mut argv, name, &value);
        }
    };
    let text = |value: &Option<String>| value.clone().map(Value::from);
    let parallel = |size: u32| (size > 1).then(|| size.into());
    push("host", Some(server.host.clone().into()));
    push("port", Some(port.into()));
    push("tokenizer", text(&server.tokenizer));
    push("served-model-name", text(&server.served_model_name));
    push("dtype", text(&server.dtype));
    push("quantization", text(&server.quantization));
    push("load-format", text(&server.load_format));
    push("tensor-parallel-size", parallel(server.tensor_parallel_size));
    push("pipeline-parallel-size", parallel(server.pipeline_parallel_size));
    push("data-parallel-size", parallel(server.data_parallel_size));
    push("max-model-len", server.max_model_len.map(Value::from));
    push("max-num-seqs", server.max_num_seqs.map(Value::from));
    push("max-num-batched-tokens", server.max_num_batched_tokens.map(Value::from));
    push("gpu-memory-utilization", server.gpu_memory_utilization.map(Value::from));
    push("kv-cache-dtype", text(&server.kv_cache_dtype));
    push("enforce-eager", server.enforce_eager.map(Value::from));
    push("enable-prefix-caching", server.enable_prefix_caching.map(Value::from));
    push("enable-chunked-prefill", server.enable_chunked_prefill.map(Value::from));
    push("enable-logging-iteration-details", server.step_log.then(|| true.into()));
    for (name, value) in &server.options {
        push(&name.replace('_', "-"), Some(value.clone()));
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
mod trtllm_argv_tests {
    use super::*;

    fn server(change: &serde_json::Value) -> TrtllmServe {
        let mut server = serde_json::json!({
            "model": "/models/llama", "tensor_parallelism": 2, "max_batch_size": 64, "max_num_tokens": 2048,
            "num_postprocess_workers": 2,
        });
        for (key, value) in change.as_object().unwrap() {
            server[key] = value.clone();
        }
        serde_json::from_value(server).unwrap()
    }

    #[test]
    fn the_command_is_the_one_of_nvidias_harness() {
        let words = trtllm_argv(&server(&serde_json::json!({})), "/models/llama", "30000", Some("o.yaml")).join(" ");
        insta::assert_snapshot!(words, @"trtllm-serve /models/llama --host 0.0.0.0 --port 30000 --backend pytorch \
         --tp_size 2 --pp_size 1 --max_batch_size 64 --max_num_tokens 2048 --num_postprocess_workers 2 \
         --extra_llm_api_options o.yaml");
        let python = server(&serde_json::json!({"python": "/venv/bin/python", "args": ["--trust_remote_code"]}));
        let words = trtllm_argv(&python, "m", "1", None).join(" ");
        assert!(words.starts_with("/venv/bin/python -m tensorrt_llm.commands.serve m --host"), "{words}");
        assert!(words.ends_with("--num_postprocess_workers 2 --trust_remote_code"), "{words}");
    }

    #[test]
    fn a_number_among_the_options_is_lowered_and_keeps_its_kind() {
        let server = server(&serde_json::json!({"options": {
            "kv_cache_config": {"free_gpu_memory_fraction": 0.9}, "moe_config": {"max_num_tokens": 4096},
        }}));
        let lower = |setting: &str, to: f64| {
            let lowered = ReducedSetting { setting: setting.to_owned(), from: 1.0, to };
            lowered_options(&server, &lowered).map(|server| serde_json::json!(server.options).to_string())
        };
        let text = lower("kv_cache_free_gpu_mem_fraction", 0.85).unwrap();
        assert!(text.contains(r#""free_gpu_memory_fraction":0.85"#), "{text}");
        let text = lower("moe_config.max_num_tokens", 2048.0).unwrap();
        assert!(text.contains(r#""max_num_tokens":2048}"#), "{text}");
        assert_eq!(lower("max_seq_len", 1.0), None);
    }
}

#[cfg(test)]
mod vllm_argv_tests {
    use super::*;

    fn line(server: serde_json::Value) -> String {
        vllm_argv(&serde_json::from_value(server).unwrap(), "8000").join(" ")
    }

    #[test]
    fn what_is_not_given_is_left_to_vllm() {
        insta::assert_snapshot!(line(serde_json::json!({"model": "meta-llama/Llama-3.1-8B"})), @"vllm serve \
            meta-llama/Llama-3.1-8B --host 0.0.0.0 --port 8000");
    }

    #[test]
    fn keys_are_the_options_of_vllm() {
        let server = serde_json::json!({
            "model": "/models/llama", "program": ["python3", "-m", "vllm.entrypoints.openai.api_server"],
            "tokenizer": "/models/tokenizer", "served_model_name": "llama", "dtype": "bfloat16", "quantization": "fp8",
            "load_format": "dummy", "tensor_parallel_size": 2, "pipeline_parallel_size": 2, "data_parallel_size": 2,
            "max_model_len": 4096, "max_num_seqs": 256, "max_num_batched_tokens": 8192, "gpu_memory_utilization": 0.9,
            "kv_cache_dtype": "fp8", "enforce_eager": true, "enable_prefix_caching": false,
            "enable_chunked_prefill": true, "host": "127.0.0.1", "args": ["--disable-log-stats"],
            "options": {
                "compilation_config": {"level": 3}, "cudagraph_capture_sizes": [1, 2], "async-scheduling": false,
                "seed": 1, "revision": null,
            },
        });
        insta::assert_snapshot!(line(server), @"python3 -m vllm.entrypoints.openai.api_server --model /models/llama \
            --host 127.0.0.1 --port 8000 --tokenizer /models/tokenizer --served-model-name llama --dtype bfloat16 \
            --quantization fp8 --load-format dummy --tensor-parallel-size 2 --pipeline-parallel-size 2 \
            --data-parallel-size 2 --max-model-len 4096 --max-num-seqs 256 --max-num-batched-tokens 8192 \
            --gpu-memory-utilization 0.9 --kv-cache-dtype fp8 --enforce-eager --no-enable-prefix-caching \
            --enable-chunked-prefill --compilation-config {\"level\":3} --cudagraph-capture-sizes 1 2 \
            --no-async-scheduling --seed 1 --disable-log-stats");
    }
}
