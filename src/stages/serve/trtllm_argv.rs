//! The command line of `trtllm-serve`: one for each copy of the model, as NVIDIA's harness starts them. It is a pure function
//! of the manifest, so that it can be read before anything runs.

use std::path::{Path, PathBuf};

use super::engine_copies::{EngineCopies, existing_path};
use super::planned_server::{PlannedServer, ReadinessProbe};
use crate::container::named_paths;
use crate::task_context::TaskContext;
use base::event::{Failure, FailureKind, ReducedSetting};
use plan::manifest::model::{Serve, TrtllmServe};

/// The file that `--extra_llm_api_options` names, in the task's folder.
const OPTIONS: &str = "extra_llm_api_options.yaml";

pub fn engine_copies(server: &TrtllmServe) -> EngineCopies {
    EngineCopies {
        ranks: server.ranks(),
        factors: "tp × pp",
        servers: server.servers,
        port: server.port,
        probe: ReadinessProbe::Health,
        // Its `/metrics` are not Prometheus'.
        has_metrics: false,
        named: server.options.values().flat_map(named_paths::in_json).collect(),
    }
}

/// The arguments of one server. `options` is the file of its options, if there are any.
pub fn argv(server: &TrtllmServe, model: &str, port: &str, options: Option<&str>) -> Vec<String> {
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
pub fn plan(context: &TaskContext, server: &TrtllmServe) -> Result<Vec<PlannedServer>, Failure> {
    let lower =
        |server: &TrtllmServe| context.lease.lowered.as_ref().and_then(|lowered| lowered_options(server, lowered));
    let server = &lower(server).unwrap_or_else(|| server.clone());
    let options = write(&context.lease.out, server)?.map(|path| path.display().to_string());
    let found = |text: &str| existing_path(context, text);
    let server = TrtllmServe { tokenizer: server.tokenizer.as_deref().map(found), ..server.clone() };
    let model = found(&server.model);
    engine_copies(&server).plan(context, |port| argv(&server, &model, port, options.as_deref()))
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

/// Writes the options as YAML. None: there are none.
fn write(out: &Path, server: &TrtllmServe) -> Result<Option<PathBuf>, Failure> {
    if server.options.is_empty() {
        return Ok(None);
    }
    let path = out.join(OPTIONS);
    let wrong = |error: String| Failure::new(FailureKind::System, format!("{}: {error}", path.display()));
    let text = serde_yaml::to_string(&server.options).map_err(|error| wrong(error.to_string()))?;
    std::fs::write(&path, text).map_err(|error| wrong(error.to_string()))?;
    Ok(Some(path))
}

#[cfg(test)]
mod tests {
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
        let words = argv(&server(&serde_json::json!({})), "/models/llama", "30000", Some("o.yaml")).join(" ");
        insta::assert_snapshot!(words, @"trtllm-serve /models/llama --host 0.0.0.0 --port 30000 --backend pytorch --tp_size 2 --pp_size 1 --max_batch_size 64 --max_num_tokens 2048 --num_postprocess_workers 2 --extra_llm_api_options o.yaml");
        let python = server(&serde_json::json!({"python": "/venv/bin/python", "args": ["--trust_remote_code"]}));
        let words = argv(&python, "m", "1", None).join(" ");
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
