//! From the manifest's settings to a [`LaunchSpec`].

use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use serde_json::Value;

use crate::container::{self, named_paths};
use base::event::GpuId;
use base::units::unquoted;
use exec::container::ContainerSpec;
use plan::Task;
use plan::manifest::model;
use plan::manifest::model::TritonServer;
use triton::SpecProblem;
use triton::launch::{BasePorts, LaunchSpec, LaunchTuning, Ports, ServerSpec, place};

/// What a launch needs beside the manifest's settings.
pub struct LaunchContext<'a> {
    pub gpus: Vec<GpuId>,
    /// Unique on the host.
    pub container_name: String,
    /// Names of the stage's own variables.
    pub stage_env: Vec<String>,
    /// A path of the manifest, seen from the server.
    pub path: &'a dyn Fn(&str) -> String,
}

/// Where `mpirun` writes the output of ranks. Of a stage with secrets nowhere: they are taken out of the server's log alone, from which
/// each rank's own is made.
pub fn rank_logs(task: &Task, folder: impl FnOnce() -> String) -> String {
    if task.secrets.is_empty() { folder() } else { String::new() }
}

pub fn spec(server: &TritonServer, mut servers: Vec<ServerSpec>, place: LaunchContext<'_>) -> LaunchSpec {
    let container = server.container.as_ref().map(|one| container::of_model(one, &place.container_name));
    if let Some(container) = &container {
        let named = named_in_options(server);
        for one in &mut servers {
            one.reads = reads(one, &named, container);
        }
    }
    LaunchSpec {
        servers,
        gpus: place.gpus,
        program: server.program.clone(),
        words: server.words.clone(),
        prefix: server.prefix.clone(),
        args: server.args.clone(),
        mode: server.mode,
        world_size: server.world_size,
        spawn_processes: server.spawn_processes,
        launcher: server.launcher,
        oversubscribe: server.oversubscribe,
        mpi: server.mpi.clone(),
        srun: server.srun.clone(),
        trtllm_llmapi_launch: server.trtllm_llmapi_launch,
        container,
        host: server.host.clone(),
        tuning: tuning(server, place.path),
        stage_env: place.stage_env,
    }
}

/// The paths that its options and further arguments name.
fn named_in_options(server: &TritonServer) -> Vec<PathBuf> {
    let options = server.options.values().chain(server.backend_config.values().flat_map(IndexMap::values));
    let mut named: Vec<PathBuf> = options.flat_map(named_paths::in_json).collect();
    named.extend(named_paths::in_arguments(server.args.iter().chain(&server.words).map(String::as_str)));
    named
}

/// What the container of a server mounts beyond its repository and its engines. What is not built yet is mounted as it is named.
fn reads(server: &ServerSpec, named: &[PathBuf], container: &ContainerSpec) -> Vec<String> {
    let mut covered = named_paths::mount_targets(&container.mounts);
    covered.push(Path::new(&server.repository));
    covered.extend(server.models.iter().filter_map(|model| model.engine.as_deref()).map(Path::new));
    let named: Vec<PathBuf> = server.reads.iter().map(PathBuf::from).chain(named.iter().cloned()).collect();
    let points = named_paths::mount_points(&named, &covered);
    points.into_iter().map(|path| path.display().to_string()).collect()
}

/// The ports of this many servers, free ones not chosen yet.
pub fn ports(server: &TritonServer, servers: usize) -> Result<Vec<Ports>, SpecProblem> {
    // A command line that is written out has Triton's own ports where it names none.
    let or_usual = |port: Option<u16>, usual: u16| port.or((!server.words.is_empty()).then_some(usual));
    let base = BasePorts {
        grpc: or_usual(server.grpc_port, 8001),
        http: or_usual(server.http_port, 8000),
        metrics: or_usual(server.metrics_port, 8002),
    };
    place(base, servers)
}

fn tuning(server: &TritonServer, path: &dyn Fn(&str) -> String) -> LaunchTuning {
    LaunchTuning {
        http_address: server.http_address.clone(),
        grpc_address: server.grpc_address.clone(),
        metrics_address: server.metrics_address.clone(),
        log_verbose: server.log_verbose,
        log_file: server.log_file.as_deref().map(path),
        exit_timeout_secs: server.exit_timeout_secs,
        tensorrt_llm_model_name: server.tensorrt_llm_model_name.clone(),
        multimodal_gpu0_cuda_mem_pool_bytes: server.multimodal_gpu0_cuda_mem_pool_bytes,
        model_control_mode: server.model_control_mode.map(|mode| {
            match mode {
                model::ModelControl::None => "none",
                model::ModelControl::Poll => "poll",
                model::ModelControl::Explicit => "explicit",
            }
            .to_owned()
        }),
        load_model: server.load_model.clone(),
        backend_config: server
            .backend_config
            .iter()
            .flat_map(|(backend, all)| {
                all.iter().map(move |(name, value)| format!("{backend},{name}={}", unquoted(value)))
            })
            .collect(),
        trace_config: server.trace.as_ref().map(|trace| trace_config(trace, path)).unwrap_or_default(),
        rate_limit: server.rate_limit.map(|mode| {
            match mode {
                model::RateLimit::Off => "off",
                model::RateLimit::ExecutionCount => "execution_count",
            }
            .to_owned()
        }),
        rate_limit_resource: server.rate_limit_resource.clone(),
        options: server
            .options
            .iter()
            .flat_map(|(name, value)| {
                let name = name.replace('_', "-");
                let values = match value {
                    Value::Array(values) => values.iter().map(unquoted).collect(),
                    one => vec![unquoted(one)],
                };
                values.into_iter().map(move |value| (name.clone(), value))
            })
            .collect(),
    }
}

/// Values of `--trace-config`: settings for all modes, then `mode,setting=value`.
fn trace_config(trace: &model::Trace, path: &dyn Fn(&str) -> String) -> Vec<String> {
    let mode = match trace.mode.unwrap_or_default() {
        model::TraceMode::Triton => "triton",
        model::TraceMode::Opentelemetry => "opentelemetry",
    };
    let mut all = vec![format!("mode={mode}")];
    all.extend(trace.level.iter().map(|level| {
        let level = match level {
            model::TraceLevel::Off => "OFF",
            model::TraceLevel::Timestamps => "TIMESTAMPS",
            model::TraceLevel::Tensors => "TENSORS",
        };
        format!("level={level}")
    }));
    all.extend(trace.rate.map(|rate| format!("rate={rate}")));
    all.extend(trace.count.map(|count| format!("count={count}")));
    all.extend(trace.file.as_deref().map(|file| format!("{mode},file={}", path(file))));
    all.extend(trace.settings.iter().map(|(name, value)| format!("{mode},{name}={}", unquoted(value))));
    all
}
