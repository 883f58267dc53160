//! Simulated servers of commands: `regatta sim serve`, the preflight's server, and the twin that a manifest serves.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use tokio::signal::unix::{SignalKind, signal};

use super::project::Project;
use super::{bench, run};
use crate::cli::{
    self, BenchTask, CliExit, CliRequest, Global, LockMode, OutputVerbosity, RunRequest, Select, SimulateRequest,
};
use crate::console::{print, print_error};
use crate::error::CommandError;
use plan::manifest::model::{Action, Engine, Repository, Serve};
use plan::{Plan, Task};
use sim::{Addresses, EngineServing, Faults, GroundTruthServer, ResponsePattern, ResponseScript, SimOptions};
use stages::{engine_spec, twin_serving};

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
                let line = format!("regatta bench http://{http} -m ensemble");
                print_error(&format!("OpenAI's interface: `{line}`; Ctrl-C ends the server\n"));
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
    let Some(CliRequest::Bench(BenchTask::Target(benchmark))) = read.filter(|_| is_simulated) else {
        return Err(CommandError::Usage(format!("`{target}` is not `sim:`, `sim:GPU` or `sim:GPU/MODEL`")));
    };
    let home = Project::open_current(global)?.home;
    let manifest = bench::manifest::write_file(&home, &bench::manifest::text(&benchmark)?)?;
    let request = RunRequest {
        manifest: manifest.to_string_lossy().into_owned(),
        select: Select { until: vec![bench::manifest::REPOSITORY.to_owned()], ..Select::default() },
        locking: LockMode::Ignore,
        ..RunRequest::default()
    };
    let quiet = Global { loudness: OutputVerbosity::Quiet, ..global.clone() };
    let ran = run::perform(&quiet, &request, true, run::RunPurpose::Ordinary)?;
    let made = ran.outs.into_iter().find(|(task, _)| task.as_str() == bench::manifest::REPOSITORY);
    let out = made.map(|(_, out)| out).filter(|_| ran.exit == CliExit::Done);
    let out = out.ok_or_else(|| CommandError::Usage(format!("there is no repository of `{target}` to serve")))?;
    // Its first and only server.
    Ok(out.join("triton_model_repo_0"))
}

/// The server for a preflight: real sockets and no work. Prints `ready grpc=PORT`, serves until TERM or INT.
pub(super) fn null_server(first_ms: (f64, f64), gap_ms: (f64, f64)) -> Result<CliExit, CommandError> {
    let server =
        GroundTruthServer::without_limit(ResponsePattern::Scripted(ResponseScript { seed: 2026, first_ms, gap_ms }))?;
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
fn faults(given: &[(String, String)]) -> Result<Faults, CommandError> {
    let mut faults = Faults::default();
    for (name, value) in given {
        let number = || {
            value
                .parse::<u64>()
                .map_err(|_| CommandError::Usage(format!("--fault {name} needs a number, not `{value}`")))
        };
        match name.as_str() {
            "die-after-requests" => faults.die_after_requests = Some(number()?),
            "stall-after-tokens" => faults.stall_after_tokens = Some(number()?),
            "error-on-request" => faults.error_on_request = Some(number()?),
            "never-ready" => faults.never_ready = true,
            "final-apart" => faults.final_apart = true,
            _ => return Err(CommandError::Usage(format!("there is no fault `{name}`"))),
        }
    }
    Ok(faults)
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
