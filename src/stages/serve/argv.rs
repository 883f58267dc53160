//! The command lines of server programs with OpenAI's interfaces around one engine, `trtllm-serve` and vLLM: one
//! process for each copy of the model, with GPUs and a port of its own. They are a pure function of the manifest, so
//! that they can be read before anything runs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::launch::{HOST, check_free, free_ports};
use super::planned_server::{PlannedServer, ReadinessProbe, ServerCommand, log_of, placed, refused};
use crate::container::wrap;
use crate::task_context::TaskContext;
use crate::trtllm_bench::given_options;
use base::event::{Endpoint, Failure, GpuId, ReducedSetting};
use base::units::{counted, unquoted};
use plan::manifest::model::{Serve, SimServer, TrtllmServe, Vllm};
use runner::store::WithPath as _;
use triton::SpecProblem;
use triton::launch::LaunchWorld;

/// The file that `--extra_llm_api_options` names, in the task's folder.
const OPTIONS: &str = "extra_llm_api_options.yaml";

/// Options of `trtllm-serve`, each with the key of the manifest where that has another name.
const TRTLLM_OPTIONS: &str = "backend tokenizer tp_size=tensor_parallelism pp_size=pipeline_parallelism \
    ep_size=moe_expert_parallelism max_batch_size max_num_tokens max_seq_len max_beam_width num_postprocess_workers";

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
    argv.extend(["--host", &server.host, "--port", port].map(str::to_owned));
    argv.extend(given_options(&serde_json::to_value(server).unwrap_or_default(), TRTLLM_OPTIONS));
    argv.extend(options.iter().flat_map(|file| ["--extra_llm_api_options", *file].map(str::to_owned)));
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

/// What follows `regatta sim serve --repository PATH`; its ports are free ones.
pub fn simulator_options(server: &SimServer) -> Vec<String> {
    let (speed, load_seconds) = (server.speed, server.load_seconds);
    let ports = "--grpc-port 0 --http-port 0 --metrics-port 0";
    format!("{ports} --speed {speed} --load-seconds {load_seconds}").split(' ').map(str::to_owned).collect()
}

/// Writes the options as YAML. `None` if no option is set.
fn write(out: &Path, server: &TrtllmServe) -> Result<Option<PathBuf>, Failure> {
    if server.options.is_empty() {
        return Ok(None);
    }
    let path = out.join(OPTIONS);
    let text = serde_yaml::to_string(&server.options).map_err(std::io::Error::other);
    text.and_then(|text| std::fs::write(&path, text)).at("write", &path)?;
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
    argv.extend(["--host", &server.host, "--port", port].map(str::to_owned));
    let keys = serde_json::to_value(server).unwrap_or_default();
    let is_usual = |key: &str| key.ends_with("_parallel_size") && keys[key] == 1;
    for key in Vllm::OWN.split(' ').filter(|key| !is_usual(key)) {
        push_option(&mut argv, key, &keys[key]);
    }
    if server.step_log {
        argv.push("--enable-logging-iteration-details".to_owned());
    }
    for (name, value) in &server.options {
        push_option(&mut argv, name, value);
    }
    argv.extend(server.args.iter().cloned());
    argv
}

/// `--name value`; true and false are `--name` and `--no-name`, and null is nothing.
fn push_option(argv: &mut Vec<String>, key: &str, value: &Value) {
    let name = key.replace('_', "-");
    match value {
        Value::Null => {}
        Value::Bool(true) => argv.push(format!("--{name}")),
        Value::Bool(false) => argv.push(format!("--no-{name}")),
        Value::Array(values) => {
            argv.push(format!("--{name}"));
            argv.extend(values.iter().map(unquoted));
        }
        value => argv.extend([format!("--{name}"), unquoted(value)]),
    }
}

/// The copies of one model.
pub struct EngineCopies {
    /// GPUs of one copy, and what they are the product of: `tp × pp`.
    pub ranks: u32,
    pub factors: &'static str,
    /// `None`: as many as the GPUs allow.
    pub servers: Option<u32>,
    /// The first one's; further ones count up.
    pub port: Option<u16>,
    pub probe: ReadinessProbe,
    /// Its port has Prometheus' `/metrics`, too.
    pub has_metrics: bool,
    /// Files that a container must have beyond those that the arguments name.
    pub named: Vec<PathBuf>,
}

impl EngineCopies {
    /// The GPUs of each copy; empty ones where none are leased.
    pub fn shares(&self, gpus: &[GpuId]) -> Result<Vec<Vec<GpuId>>, SpecProblem> {
        let ranks = self.ranks as usize;
        if gpus.is_empty() {
            return Ok(vec![Vec::new(); self.servers.unwrap_or(1) as usize]);
        }
        let servers = self.servers.map_or_else(|| (gpus.len() / ranks).max(1), |servers| servers as usize);
        if servers * ranks != gpus.len() {
            let (factors, needed) = (self.factors, servers * ranks);
            let [leased, servers] = [counted(gpus.len(), "GPU"), counted(servers, "server")];
            let message = format!("{leased} leased, but {needed} needed: {servers} of {ranks} ({factors})");
            return Err(SpecProblem::new(message, "change the stage's `gpus`, or `servers`"));
        }
        Ok(gpus.chunks(ranks).map(<[GpuId]>::to_vec).collect())
    }

    /// The servers to be. `argv` is the command line of one on a port.
    pub fn plan(
        &self,
        context: &TaskContext,
        argv: impl Fn(&str) -> Vec<String>,
    ) -> Result<Vec<PlannedServer>, Failure> {
        let shares = self.shares(&context.lease.gpus).map_err(|problem| refused(&[problem]))?;
        let count = shares.len();
        let ports = self.ports(count)?;
        let mut planned = Vec::new();
        for (index, (gpus, port)) in shares.into_iter().zip(ports).enumerate() {
            let mut words = argv(&port.to_string());
            if let Some(lowered) = &context.lease.lowered {
                crate::task_context::out_of_memory::lower_option(&mut words, lowered);
            }
            let words = words.into_iter().map(OsString::from);
            let ServerCommand { argv, wrapped, stop_target: world } =
                placed(context, words.collect(), &gpus, &self.named)?;
            let log = log_of(context, index, count);
            planned.push(PlannedServer {
                // It has one port, for everything.
                endpoint: Some(Endpoint {
                    http: Some(port),
                    metrics: self.has_metrics.then_some(port),
                    ..Endpoint::new(HOST, port)
                }),
                // Inside a container they are counted anew.
                gpus: if wrapped.is_some() { Vec::new() } else { gpus },
                stop_target: world.unwrap_or(LaunchWorld::Process),
                probe: self.probe,
                wrapped,
                ..PlannedServer::new(format!("server {index}"), argv, log)
            });
        }
        Ok(planned)
    }

    fn ports(&self, count: usize) -> Result<Vec<u16>, Failure> {
        let Some(first) = self.port else { return free_ports(count) };
        let too_high = || Failure::refused(format!("`port` {first}: {count} servers do not fit above it"));
        (0..count)
            .map(|index| {
                let port = u16::try_from(index).ok().and_then(|index| first.checked_add(index)).ok_or_else(too_high)?;
                check_free(port, "port").map(|()| port)
            })
            .collect()
    }
}

/// A path of the manifest as a server gets it: absolute where it exists, since a server runs in the task's folder.
pub fn existing_path(context: &TaskContext, text: &str) -> String {
    let path = context.path(text);
    if path.exists() { path.display().to_string() } else { text.to_owned() }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn gpus(numbers: std::ops::Range<u32>) -> Vec<GpuId> {
        numbers.map(GpuId::Index).collect()
    }

    #[test]
    fn every_copy_has_its_own_gpus() {
        let copies = |servers| EngineCopies {
            ranks: 2,
            factors: "tp × pp",
            servers,
            port: None,
            probe: ReadinessProbe::Health,
            has_metrics: false,
            named: Vec::new(),
        };
        let two = copies(None);
        assert_eq!(two.shares(&gpus(4..8)).unwrap(), [gpus(4..6), gpus(6..8)]);
        assert_eq!(two.shares(&[]).unwrap(), [gpus(0..0)]);
        let wrong = two.shares(&gpus(0..3)).unwrap_err();
        assert_eq!(wrong.message, "3 GPUs leased, but 2 needed: 1 server of 2 (tp × pp)");
        assert!(copies(Some(1)).shares(&gpus(0..4)).unwrap_err().message.contains("1 server of 2"));
    }
}
