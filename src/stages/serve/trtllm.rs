//! `trtllm-serve`: one for each copy of the model, as NVIDIA's harness starts them. The command is a pure function of the
//! manifest, so that it can be read before anything runs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::planned_server::{PlannedServer, ReadinessProbe, ServerCommand, StopTarget, log_of, placed};
use super::ports::{HOST, check_free, free_ports};
use crate::event::{Endpoint, Failure, FailureKind, GpuId, ReducedSetting};
use crate::manifest::model::{Action, Serve, TrtllmServe};
use crate::stages::container::named_paths;
use crate::stages::task_context::TaskContext;
use crate::triton::SpecProblem;

/// The file that `--extra_llm_api_options` names, in the task's folder.
const OPTIONS: &str = "extra_llm_api_options.yaml";

/// The GPUs of each server; empty ones where none are leased.
pub fn shares(server: &TrtllmServe, gpus: &[GpuId]) -> Result<Vec<Vec<GpuId>>, SpecProblem> {
    let ranks = server.ranks() as usize;
    if gpus.is_empty() {
        return Ok(vec![Vec::new(); server.servers.unwrap_or(1) as usize]);
    }
    let servers = server.servers.map_or_else(|| (gpus.len() / ranks).max(1), |servers| servers as usize);
    if servers * ranks != gpus.len() {
        return Err(SpecProblem {
            message: format!(
                "{} GPUs are leased, and {servers} servers of {ranks} (tp × pp) need {}",
                gpus.len(),
                servers * ranks
            ),
            hint: Some("change the stage's `gpus`, or `servers`".to_owned()),
        });
    }
    Ok(gpus.chunks(ranks).map(<[GpuId]>::to_vec).collect())
}

/// The arguments of one server. `options` is the file of its options, if there are any.
pub fn argv(server: &TrtllmServe, model: &str, port: &str, options: Option<&str>) -> Vec<String> {
    let mut argv = match &server.python {
        Some(python) => vec![python.clone(), "-m".to_owned(), "tensorrt_llm.commands.serve".to_owned()],
        None => vec![server.program.clone()],
    };
    argv.push(model.to_owned());
    let number = |value: Option<u32>| value.map(|value| value.to_string());
    let mut say = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            argv.extend([format!("--{name}"), value]);
        }
    };
    say("host", Some(server.host.clone()));
    say("port", Some(port.to_owned()));
    say("backend", Some(server.backend.clone()));
    say("tokenizer", server.tokenizer.clone());
    say("tp_size", Some(server.tensor_parallelism.to_string()));
    say("pp_size", Some(server.pipeline_parallelism.to_string()));
    say("ep_size", number(server.moe_expert_parallelism));
    say("max_batch_size", number(server.max_batch_size));
    say("max_num_tokens", number(server.max_num_tokens));
    say("max_seq_len", number(server.max_seq_len));
    say("max_beam_width", number(server.max_beam_width));
    say("num_postprocess_workers", number(server.num_postprocess_workers));
    say("extra_llm_api_options", options.map(str::to_owned));
    argv.extend(server.args.iter().cloned());
    argv
}

/// The servers to be, their options written.
pub fn plan(context: &TaskContext, server: &TrtllmServe) -> Result<Vec<PlannedServer>, Failure> {
    let shares = shares(server, &context.lease.gpus).map_err(|problem| {
        let failure = Failure::new(FailureKind::Refused, problem.message);
        match problem.hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    })?;
    let lower =
        |server: &TrtllmServe| context.lease.lowered.as_ref().and_then(|lowered| lowered_options(server, lowered));
    let server = &lower(server).unwrap_or_else(|| server.clone());
    let options = write(&context.lease.out, server)?;
    let named = server.options.values().flat_map(named_paths::in_json).collect::<Vec<_>>();
    let options = options.map(|path| path.display().to_string());
    let found = |text: &str| {
        let path = context.path(text);
        if path.exists() { path.display().to_string() } else { text.to_owned() }
    };
    let server = TrtllmServe { tokenizer: server.tokenizer.as_deref().map(found), ..server.clone() };
    let model = found(&server.model);
    let count = shares.len();
    let ports = ports(&server, count)?;
    let mut planned = Vec::new();
    for (index, (gpus, port)) in shares.into_iter().zip(ports).enumerate() {
        let mut words = argv(&server, &model, &port.to_string(), options.as_deref());
        if let Some(lowered) = &context.lease.lowered {
            crate::stages::task_context::options::lower(&mut words, lowered);
        }
        let words = words.into_iter().map(OsString::from);
        let ServerCommand { argv, wrapped, stop_target: world } = placed(context, words.collect(), &gpus, &named)?;
        planned.push(PlannedServer {
            name: format!("server {index}"),
            argv,
            log: log_of(context, index, count),
            // It has one port, for everything.
            endpoint: Some(Endpoint { host: HOST.to_owned(), grpc: port, http: Some(port), metrics: None, name: None }),
            // Inside a container they are counted anew.
            gpus: if wrapped.is_some() { Vec::new() } else { gpus },
            env: Vec::new(),
            unset: Vec::new(),
            stop_target: world.unwrap_or(StopTarget::Process),
            probe: ReadinessProbe::Health,
            wrapped,
            repository: None,
        });
    }
    Ok(planned)
}

fn ports(server: &TrtllmServe, count: usize) -> Result<Vec<u16>, Failure> {
    let Some(first) = server.port else { return free_ports(count) };
    let too_high =
        || Failure::new(FailureKind::Refused, format!("`port` {first}: {count} servers do not fit above it"));
    (0..count)
        .map(|index| {
            let port = u16::try_from(index).ok().and_then(|index| first.checked_add(index)).ok_or_else(too_high)?;
            check_free(port, "port").map(|()| port)
        })
        .collect()
}

/// With a lower number among its options; `None`: it stands elsewhere.
fn lowered_options(server: &TrtllmServe, lowered: &ReducedSetting) -> Option<TrtllmServe> {
    let pointer = server.option(&lowered.knob)?;
    let mut options = serde_json::to_value(&server.options).ok()?;
    let number = options.pointer_mut(&pointer)?;
    // A count stays a count.
    *number = if number.is_f64() { lowered.to.into() } else { (lowered.to as u64).into() };
    Some(TrtllmServe { options: serde_json::from_value(options).ok()?, ..server.clone() })
}

/// What a number among the options of a task's servers is in this try.
pub fn option_value(context: &TaskContext, knob: &str) -> Option<f64> {
    if let Some(lowered) = context.lease.lowered.as_ref().filter(|lowered| lowered.knob == knob) {
        return Some(lowered.to);
    }
    // The stage runs, so that its action was read.
    let Ok(Action::Serve(Serve::TrtllmServe(server))) = context.lease.task.typed_action() else { return None };
    serde_json::to_value(&server.options).ok()?.pointer(&server.option(knob)?)?.as_f64()
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
        let lower = |knob: &str, to: f64| {
            let lowered = ReducedSetting { knob: knob.to_owned(), from: 1.0, to };
            lowered_options(&server, &lowered).map(|server| serde_json::json!(server.options).to_string())
        };
        let text = lower("kv_cache_free_gpu_mem_fraction", 0.85).unwrap();
        assert!(text.contains(r#""free_gpu_memory_fraction":0.85"#), "{text}");
        let text = lower("moe_config.max_num_tokens", 2048.0).unwrap();
        assert!(text.contains(r#""max_num_tokens":2048}"#), "{text}");
        assert_eq!(lower("max_seq_len", 1.0), None);
    }

    fn gpus(numbers: std::ops::Range<u32>) -> Vec<GpuId> {
        numbers.map(GpuId::Index).collect()
    }

    #[test]
    fn every_copy_has_its_own_gpus() {
        let two = server(&serde_json::json!({}));
        assert_eq!(shares(&two, &gpus(4..8)).unwrap(), [gpus(4..6), gpus(6..8)]);
        assert_eq!(shares(&two, &[]).unwrap(), [gpus(0..0)]);
        let wrong = shares(&two, &gpus(0..3)).unwrap_err();
        assert_eq!(wrong.message, "3 GPUs are leased, and 1 servers of 2 (tp × pp) need 2");
        let one = server(&serde_json::json!({"servers": 1}));
        assert!(shares(&one, &gpus(0..4)).unwrap_err().message.contains("1 servers of 2"));
    }
}
