//! The commands of the simulator: `regatta sim serve` and the servers behind it (the preflight's, and the twin that a
//! manifest serves), and `regatta sim calibrate`, which makes a preset from step logs.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use serde::de::DeserializeOwned;
use tokio::signal::unix::{SignalKind, signal};

use super::project::Project;
use super::{bench, run};
use crate::cli::{
    self, CalibrateRequest, CliExit, CliRequest, Global, LockingArgs, OutputVerbosity, RunMode, RunRequest, Select,
    SimulateRequest, Subject,
};
use crate::console::{print, print_as, print_error};
use crate::error::CommandError;
use base::files::read_text;
use plan::manifest::ManifestLibrary;
use plan::manifest::model::{Action, Engine, ModelShape, Repository, Serve, SystemShape};
use plan::{Plan, Task};
use report::{calibration, calibration_json, calibration_preset};
use runner::store::write_named;
use sim::{
    Addresses, CalibrationTarget, EngineServing, Faults, GroundTruthServer, Parallelism, Precision, ResponsePattern,
    ResponseScript, SimOptions,
};
use stages::{engine_spec, gpu_timing, twin_serving};

/// The HTTP port of a simulated server that is not made of a repository of the user's.
const HTTP_PORT: u16 = 8000;

/// Serves until TERM or INT. Prints one line once all ports are open: `ready grpc=8001 http=8000 metrics=8002`.
pub(super) fn serve(global: &Global, request: &SimulateRequest) -> Result<CliExit, CommandError> {
    let repository = request.repository.clone().map_or_else(|| repository(global, &request.target), Ok)?;
    let mut options = SimOptions::new(repository, SocketAddr::new(request.grpc_address, request.grpc_port));
    let there = |port: u16| SocketAddr::new(request.grpc_address, port);
    let usual_port = request.repository.is_none().then_some(HTTP_PORT);
    options.http = request.http_port.or(usual_port).map(there);
    options.metrics = request.metrics_port.map(there);
    options.speed = request.speed;
    options.load_seconds = request.load_seconds;
    options.faults = faults(&request.faults)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let stop = stop_signal()?;
        let ready = |at: Addresses| {
            print(&ready_line(&at));
            if let (None, Some(http)) = (&request.repository, at.http) {
                print_error(&format!("Measure it: `regatta bench http://{http}`; Ctrl-C ends the server\n"));
            }
        };
        sim::serve(options, stop, ready).await?;
        Ok(CliExit::Done)
    })
}

/// The repository of the server that `regatta bench TARGET` starts, made where it is not in the cache.
fn repository(global: &Global, target: &str) -> Result<PathBuf, CommandError> {
    let read = cli::parse(["regatta", "bench", target]).ok().map(|line| line.request);
    let is_simulated = bench::manifest::simulated(target).is_some();
    let Some(CliRequest::Bench(benchmark)) = read.filter(|_| is_simulated) else {
        return Err(CommandError::Usage(format!("`{target}` is not `sim:`, `sim:GPU` or `sim:GPU/MODEL`")));
    };
    let home = Project::open_current(global)?.home;
    let manifest = bench::manifest::write_file(&home, &bench::manifest::text(&benchmark)?)?;
    let request = RunRequest {
        subject: Subject::new(&manifest.to_string_lossy(), &[]),
        select: Select { until: vec![bench::manifest::REPOSITORY.to_owned()], ..Select::default() },
        mode: RunMode { locking: LockingArgs::NONE, ..RunMode::default() },
        ..RunRequest::default()
    };
    let quiet = Global { loudness: OutputVerbosity::Quiet, ..global.clone() };
    let ran = run::perform(&quiet, &request, true, run::RunPurpose::Ordinary)?;
    let made = ran.out(bench::manifest::REPOSITORY).filter(|_| ran.exit == CliExit::Done);
    let made = made.ok_or_else(|| CommandError::Usage(format!("the repository of `{target}` could not be made")))?;
    // Its first and only server.
    Ok(made.join("triton_model_repo_0"))
}

/// The server for a preflight: real sockets and no work. Prints `ready grpc=PORT`, serves until TERM or INT.
pub(super) fn null_server(first_ms: (f64, f64), gap_ms: (f64, f64)) -> Result<CliExit, CommandError> {
    let script = ResponseScript { seed: 2026, first_ms, gap_ms };
    let server = GroundTruthServer::with_streams(ResponsePattern::Scripted(script), u32::MAX)?;
    print(&format!("ready grpc={}\n", server.address.port()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        stop_signal()?.await;
        Ok::<_, CommandError>(CliExit::Done)
    })
}

/// Ends with TERM or INT.
fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    })
}

fn ready_line(at: &Addresses) -> String {
    let mut line = format!("ready grpc={}", at.grpc.port());
    for (name, address) in [("http", at.http), ("metrics", at.metrics)] {
        if let Some(address) = address {
            let _ = write!(line, " {name}={}", address.port());
        }
    }
    line.push('\n');
    line
}

/// The hidden `--fault NAME[=N]` options, for tests of clients and proxies.
fn faults(given: &[String]) -> Result<Faults, CommandError> {
    let member = |text: &String| {
        let (name, value) = text.split_once('=').unwrap_or((text, "true"));
        (name.to_owned(), value.parse().unwrap_or_else(|_| serde_json::Value::from(value)))
    };
    let members = given.iter().map(member).collect();
    serde_json::from_value(serde_json::Value::Object(members))
        .map_err(|error| CommandError::Usage(format!("--fault: {error}")))
}

/// What a benchmark's servers are made of.
#[derive(Default)]
pub(super) struct ServedTwin {
    pub engine: Option<Engine>,
    pub repository: Option<Repository>,
    /// Simulated seconds per second. `None`: the servers are no simulated ones.
    pub speed: Option<f64>,
}

impl ServedTwin {
    /// The engine and the repository that a benchmark's servers need.
    pub(super) fn served(plan: &Plan, task: &Task) -> Self {
        let mut twin = Self::default();
        let mut open: Vec<usize> = task.needs.iter().map(|need| need.task as usize).collect();
        let mut seen = vec![false; plan.tasks.len()];
        while let Some(at) = open.pop() {
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            let task = &plan.tasks[at];
            match task.action() {
                Some(Action::Engine(engine)) => twin.engine = Some(engine.clone()),
                Some(Action::Repository(repository)) => twin.repository = Some(repository.clone()),
                Some(Action::Serve(Serve::Simulator(server))) => twin.speed = Some(server.speed),
                _ => {}
            }
            open.extend(task.needs.iter().map(|need| need.task as usize));
        }
        twin
    }

    /// GPUs in use, and copies of the engine that share the requests.
    pub(super) fn sizes(&self) -> (u32, usize) {
        let each =
            self.engine.as_ref().map_or(1, |engine| engine.tensor_parallelism * engine.pipeline_parallelism).max(1);
        let servers = self.repository.as_ref().map_or(1, |repository| {
            let copies = repository.gpus.map_or(repository.triton_num_servers, |gpus| gpus / each);
            copies.max(repository.triton_num_servers).max(1)
        });
        (servers * each, servers as usize)
    }

    /// What to simulate. `None` if no engine is given.
    pub(super) fn simulated(&self) -> Option<(sim::EngineSpec, EngineServing)> {
        self.engine.as_ref().map(|engine| (engine_spec(engine), twin_serving(self.repository.as_ref())))
    }
}

pub(super) fn calibrate(global: &Global, request: &CalibrateRequest) -> Result<CliExit, CommandError> {
    let project = Project::open_current(global)?;
    let model: ModelShape = part(&project.manifests, "models", &request.model, "model")?;
    let mut gpu: serde_yaml::Value = part(&project.manifests, "gpus", &request.system, "gpu")?;
    if let Some(gpu) = gpu.as_mapping_mut() {
        // A system says how many it has of them; a fit is of one.
        gpu.entry("gpus".into()).or_insert_with(|| 1.into());
    }
    let gpu: SystemShape = serde_yaml::from_value(gpu).map_err(|error| wrong(&request.system, "gpu", &error))?;
    let precision = precision(&request.precision)?;
    let kv = match &request.kv_cache_dtype {
        Some(word) => self::precision(word)?,
        None if precision.bytes() < 2.0 => Precision::Fp16,
        None => precision,
    };
    let mut logs = Vec::new();
    for path in &request.logs {
        let text = read_text(path).with_context(|| format!("cannot read {}", path.display()))?;
        let log =
            sim::read_step_log(&text).map_err(|error| CommandError::usage(format!("{}: {error}", path.display())))?;
        logs.push(log);
    }
    let names: Vec<_> = request.logs.iter().filter_map(|path| Some(path.file_name()?.to_string_lossy())).collect();
    let target = CalibrationTarget {
        source: request.source.clone().unwrap_or_else(|| names.join(", ")),
        model,
        gpu: gpu_timing(&gpu),
        precision,
        kv,
        parallelism: Parallelism { tensor: request.tensor_parallelism, pipeline: 1 },
        scheduler: request.scheduler,
        max_cudagraph_capture_size: request.max_cudagraph_capture_size,
    };
    let fit = sim::calibrate(&target, &logs).map_err(CommandError::usage)?;
    print_as(global.styler(), request.json, || calibration_json(&fit), |styler| calibration(&fit).terminal(styler));
    let preset = calibration_preset(&fit);
    match &request.output {
        Some(path) => {
            write_named(path, preset)?;
            print_error(&format!("the preset is in {}\n", path.display()));
        }
        None if !request.json => print(&format!("\n{preset}")),
        None => {}
    }
    Ok(CliExit::Done)
}

fn precision(word: &str) -> Result<Precision, CommandError> {
    Precision::parse(word).ok_or_else(|| CommandError::usage(format!("`{word}` is not one of fp16, bf16, fp8, fp4")))
}

/// `vars.KEY` of a file, or of a shipped one of this folder of `manifests`.
fn part<T: DeserializeOwned>(
    library: &ManifestLibrary,
    folder: &str,
    name: &str,
    key: &str,
) -> Result<T, CommandError> {
    let file = library
        .find(&format!("{folder}/{name}"))
        .or_else(|| library.find(name))
        .ok_or_else(|| CommandError::usage(format!("there is no `{name}`, and no manifests/{folder}/{name}.yaml")))?;
    let source = file.read().map_err(|error| CommandError::usage(format!("{name}: {error}")))?;
    let mut yaml: serde_yaml::Value =
        serde_yaml::from_slice(&source.bytes).map_err(|error| wrong(&source.name, key, &error))?;
    let value = yaml.get_mut("vars").and_then(|vars| vars.get_mut(key)).map(std::mem::take).unwrap_or_default();
    if value.is_null() {
        return Err(CommandError::usage(format!("{} has no `vars.{key}`", source.name)));
    }
    serde_yaml::from_value(value).map_err(|error| wrong(&source.name, key, &error))
}

fn wrong(name: &str, key: &str, error: &serde_yaml::Error) -> CommandError {
    CommandError::usage(format!("{name}: vars.{key}: {error}"))
}
