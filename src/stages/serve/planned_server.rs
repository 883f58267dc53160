//! The server processes that there will be: the command, ports and GPUs of each, and what there is to stop.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::launch::{HOST, LaunchContext, check_free, choose, free_ports, rank_logs};
use super::repository_models::repositories;
use super::{argv, launch, repository_models};
use crate::container::{self, wrap};
use crate::task_context::{TaskContext, out_of_memory};
use base::event::{Endpoint, ExternalResource, Failure, GpuId};
use base::files::read_text;
use base::spec::Launcher;
use exec::process::{AttemptLog, ProcessCommand};
use plan::manifest::model::{CommandServer, Serve, SimServer, TritonServer};
use runner::store::WithPath as _;
use triton::SpecProblem;
use triton::launch::{LaunchWorld, LaunchedServer, Port, ServerSpec};

/// One server process to be.
#[derive(Clone)]
pub struct PlannedServer {
    /// For display: `server 0`.
    pub name: String,
    pub argv: Vec<OsString>,
    pub log: AttemptLog,
    /// `None`: the server chooses its port and prints it in its log.
    pub endpoint: Option<Endpoint>,
    pub gpus: Vec<GpuId>,
    /// What its environment has beyond the stage's own.
    pub env: Vec<(String, OsString)>,
    /// Variables of our own environment that it must not have.
    pub unset: Vec<String>,
    #[allow(dead_code, reason = "for the code that stops it")]
    pub stop_target: LaunchWorld,
    pub probe: ReadinessProbe,
    /// Its command as a container program takes it, if it has one around it.
    pub wrapped: Option<ProcessCommand>,
    /// What it serves, where that is known.
    pub repository: Option<PathBuf>,
}

/// What there is to stop when this command line starts a server: `mpirun` and `docker run --name "{name}"` are known.
fn stop_target(words: &[String], name: String) -> LaunchWorld {
    let program = words.first().map(|word| word.rsplit('/').next().unwrap_or(word)).unwrap_or_default();
    let count = |option: &&[String; 2]| matches!(option[0].as_str(), "-n" | "-np");
    match program {
        "mpirun" | "mpiexec" | "orterun" => {
            let ranks = words.array_windows().filter(count).filter_map(|[_, n]| n.parse::<u32>().ok()).sum();
            LaunchWorld::Mpi { ranks }
        }
        // A name that the user chose may belong to an unrelated container.
        "docker" | "podman" if words.iter().any(|word| word.contains("{name}")) => {
            LaunchWorld::Container { program: words[0].clone(), name }
        }
        _ => LaunchWorld::Process,
    }
}

/// How readiness is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadinessProbe {
    /// ServerReady over gRPC.
    Kserve,
    /// As its port answers: ServerReady over gRPC, or over HTTP a list of models.
    Detect,
    /// A TCP connection.
    Port,
    /// `GET /health`.
    Health,
    /// The same, and then `GET /v1/models` lists one.
    OpenAi,
}

impl PlannedServer {
    /// A process of this machine, asked by KServe's protocol whether it is ready; its log names its ports.
    pub fn new(name: String, argv: Vec<OsString>, log: AttemptLog) -> Self {
        Self {
            name,
            argv,
            log,
            endpoint: None,
            gpus: Vec::new(),
            env: Vec::new(),
            unset: Vec::new(),
            stop_target: LaunchWorld::Process,
            probe: ReadinessProbe::Kserve,
            wrapped: None,
            repository: None,
        }
    }

    pub fn command(&self, context: &TaskContext) -> ProcessCommand {
        let mut command = match &self.wrapped {
            Some(wrapped) => ProcessCommand { argv: self.argv.clone(), ..wrapped.clone() },
            None => context.command(self.argv.clone()),
        };
        self.log.path().clone_into(&mut command.log);
        for name in &self.unset {
            command = command.remove(name);
        }
        for (name, value) in &self.env {
            command = command.set(name, value);
        }
        if self.gpus.is_empty() { command } else { command.set("CUDA_VISIBLE_DEVICES", GpuId::list(&self.gpus)) }
    }
}

/// A server's command line as it is started.
pub(super) struct ServerCommand {
    pub argv: Vec<OsString>,
    /// In a container: its command, and what there is to stop.
    pub wrapped: Option<ProcessCommand>,
    pub stop_target: Option<LaunchWorld>,
}

/// In the stage's container, if it has one, with these GPUs, what its arguments name, and `named`.
pub(super) fn placed(
    context: &TaskContext,
    argv: Vec<OsString>,
    gpus: &[GpuId],
    named: &[PathBuf],
) -> Result<ServerCommand, Failure> {
    let Some(place) = &context.place else { return Ok(ServerCommand { argv, wrapped: None, stop_target: None }) };
    // The program itself is one of the image's.
    let arguments = argv.iter().skip(1).filter_map(|word| word.to_str());
    let named = [wrap::in_arguments(arguments), named.to_vec()].concat();
    let inside = place.wrap(&context.lease, &context.command(argv), gpus, &named)?;
    let world = match inside.external_resource {
        Some(ExternalResource::Container { program, name }) => LaunchWorld::Container { program, name },
        _ => LaunchWorld::Process,
    };
    Ok(ServerCommand { argv: inside.command.argv.clone(), wrapped: Some(inside.command), stop_target: Some(world) })
}

/// One log for each server; the task's own when there is only one.
pub(super) fn log_of(context: &TaskContext, index: usize, servers: usize) -> AttemptLog {
    if servers == 1 {
        context.log.clone()
    } else {
        AttemptLog::from_now(context.lease.log.with_extension(format!("{index}.log")))
    }
}

pub fn plan(context: &TaskContext, serve: &Serve) -> Result<Vec<PlannedServer>, Failure> {
    match serve {
        Serve::Simulator(server) => simulators(context, server),
        Serve::Triton(server) => tritons(context, server),
        Serve::TrtllmServe(server) => argv::plan_trtllm(context, server),
        Serve::Vllm(server) => argv::plan_vllm(context, server),
        Serve::Command(server) => command(context, server).map(|planned| vec![planned]),
        // `attached` has dealt with it before there is anything to plan.
        Serve::Attach(_) => Ok(Vec::new()),
    }
}

fn simulators(context: &TaskContext, server: &SimServer) -> Result<Vec<PlannedServer>, Failure> {
    let program = context.program()?;
    let repositories = repository_models::private_copies(context, repositories(&context.path(&server.repository))?)?;
    let count = repositories.len();
    let planned = repositories.into_iter().enumerate().map(|(index, repository)| {
        let mut argv: Vec<OsString> = vec![program.clone().into()];
        argv.extend(words(["sim", "serve", "--repository"]));
        argv.push(repository.clone().into());
        argv.extend(argv::simulator_options(server).into_iter().map(OsString::from));
        if context.lease.assignment.host.is_some() {
            // Its client is on another machine.
            argv.extend(words(["--grpc-address", "0.0.0.0"]));
        }
        let log = log_of(context, index, count);
        PlannedServer { repository: Some(repository), ..PlannedServer::new(format!("server {index}"), argv, log) }
    });
    Ok(planned.collect())
}

fn tritons(context: &TaskContext, server: &TritonServer) -> Result<Vec<PlannedServer>, Failure> {
    let Some(repository) = &server.repository else {
        return Err(Failure::refused("`serve.triton` needs a `repository`"));
    };
    let repositories = repository_models::private_copies(context, repositories(&context.path(repository))?)?;
    let count = repositories.len();
    let mut ports = triton::launch::ports(server, count).map_err(|problem| refused(&[problem]))?;
    choose(&mut ports)?;
    let servers = repositories.iter().zip(&ports).enumerate().map(|(index, (repository, ports))| ServerSpec {
        repository: repository.display().to_string(),
        models: repository_models::models(repository),
        reads: repository_models::paths_named_in(repository),
        ports: *ports,
        rank_logs: rank_logs(&context.lease.task, || {
            log_of(context, index, count).path().with_extension("ranks").display().to_string()
        }),
    });
    let place = LaunchContext {
        gpus: context.lease.gpus.clone(),
        container_name: container::name(&context.mark),
        stage_env: context.lease.assignment.env.keys().cloned().collect(),
        path: &|path| context.path(path).display().to_string(),
    };
    let mut spec = launch::spec(server, servers.collect(), place);
    if let (Some(place), Some(container)) = (&context.place, &mut spec.container) {
        place.image().clone_into(&mut container.settings.image);
    }
    let plan = triton::launch::plan(&spec).map_err(|error| refused(&error.problems))?;
    check_no_other_server(server)?;
    check_ports_free(server, &plan.servers)?;
    for folder in plan.servers.iter().flat_map(|one| &one.ranks).filter_map(|rank| rank.log.as_deref()) {
        // A container engine mounts only what is there.
        let folder = Path::new(folder).ancestors().nth(2).unwrap_or(Path::new(folder));
        std::fs::create_dir_all(folder).at("create", folder)?;
    }
    for note in plan.notes {
        context.lease.notice(note);
    }
    let planned = plan.servers.into_iter().enumerate().zip(repositories).map(|((index, server), repository)| {
        PlannedServer { repository: Some(repository), ..triton(context, server, index, count) }
    });
    Ok(planned.collect())
}

fn triton(context: &TaskContext, server: LaunchedServer, index: usize, count: usize) -> PlannedServer {
    let number = |port: Port| if let Port::Known(port) = port { Some(port) } else { None };
    let argv = server.argv().into_iter().map(OsString::from).collect();
    PlannedServer {
        endpoint: number(server.ports.grpc).map(|grpc| Endpoint {
            http: number(server.ports.http),
            metrics: number(server.ports.metrics),
            ..Endpoint::new(&server.host, grpc)
        }),
        // What sees the GPUs is in `env`: inside a container they are counted anew.
        unset: leaving(&server.unset, &context.lease.assignment.env),
        env: server.env.into_iter().map(|(name, value)| (name, value.into())).collect(),
        stop_target: server.world,
        ..PlannedServer::new(server.name, argv, log_of(context, index, count))
    }
}

/// The variables of our own environment that these patterns mean; what the stage sets itself stays.
fn leaving(patterns: &[String], own: &BTreeMap<String, String>) -> Vec<String> {
    let meant = |name: &str| {
        patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == pattern,
        })
    };
    let ours = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).filter(|name| meant(name));
    // One that is named whole may come from the lease, not from our environment.
    let named = patterns.iter().filter(|pattern| !pattern.ends_with('*')).cloned();
    let mut list: Vec<String> = ours.chain(named).filter(|name| !own.contains_key(name)).collect();
    list.sort();
    list.dedup();
    list
}

/// A failure with all objections to a plan.
pub fn refused(problems: &[SpecProblem]) -> Failure {
    let messages = problems.iter().map(|problem| problem.message.as_str()).collect::<Vec<_>>().join("; ");
    let hints: Vec<&str> = problems.iter().filter_map(|problem| problem.hint.as_deref()).collect();
    let failure = Failure::refused(messages);
    if hints.is_empty() { failure } else { failure.hint(hints.join("; ")) }
}

/// With `force: false` no other program of that name may run.
fn check_no_other_server(server: &TritonServer) -> Result<(), Failure> {
    let name = Path::new(&server.program).file_name().unwrap_or_default().to_string_lossy().into_owned();
    // The kernel keeps fifteen bytes of a name.
    let name: String = name.chars().take(15).collect();
    if server.force {
        return Ok(());
    }
    let comm = |pid: &str| read_text(format!("/proc/{pid}/comm")).unwrap_or_default();
    let pids: Vec<String> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit()) && comm(pid).trim_end() == name)
        .collect();
    if pids.is_empty() {
        return Ok(());
    }
    let message = format!("`force: false`, and {name} runs already: process {}", pids.join(", "));
    Err(Failure::service(message).hint(format!("`kill {}` ends it; `force: true` starts next to it", pids.join(" "))))
}

/// Fixed ports must be free here, unless the servers are elsewhere.
fn check_ports_free(server: &TritonServer, planned: &[LaunchedServer]) -> Result<(), Failure> {
    let elsewhere = planned.iter().any(|one| one.launcher == Launcher::Srun) || !server.mpi.hosts.is_empty();
    let reused = |option: &str| {
        [option.to_owned(), option.replace('-', "_")]
            .iter()
            .any(|name| server.options.get(name).and_then(serde_json::Value::as_bool) == Some(true))
    };
    let fixed = [
        ("grpc_port", server.grpc_port.is_some() && !reused("reuse-grpc-port")),
        ("http_port", server.http_port.is_some() && !reused("reuse-http-port")),
        ("metrics_port", server.metrics_port.is_some()),
    ];
    for one in planned.iter().filter(|_| !elsewhere) {
        for ((key, fixed), (_, port)) in fixed.iter().zip(one.ports.all()) {
            if let (true, Port::Known(port)) = (fixed, port) {
                check_free(port, key)?;
            }
        }
    }
    Ok(())
}

fn command(context: &TaskContext, server: &CommandServer) -> Result<PlannedServer, Failure> {
    let port = match server.port {
        Some(port) => {
            check_free(port, "port")?;
            port
        }
        None => free_ports(1)?[0],
    };
    let by = match server.ready.by.as_str() {
        "detect" => ReadinessProbe::Detect,
        "kserve" => ReadinessProbe::Kserve,
        "port" => ReadinessProbe::Port,
        "health" => ReadinessProbe::Health,
        other => {
            return Err(Failure::refused(format!("`ready.by: {other}` is not one of detect, kserve, port, health")));
        }
    };
    let (port_text, name) = (port.to_string(), container::name(&context.mark));
    let fill = |word: &String| word.replace("{port}", &port_text).replace("{name}", &name);
    let mut words = server.words.clone();
    if let Some(lowered) = &context.lease.lowered {
        out_of_memory::lower_option(&mut words, lowered);
    }
    let argv: Vec<OsString> = words.iter().map(|word| fill(word).into()).collect();
    let ServerCommand { argv, wrapped, stop_target: world } = placed(context, argv, &context.lease.gpus, &[])?;
    let world = world.unwrap_or_else(|| stop_target(&server.words, name));
    Ok(PlannedServer {
        // Servers with `/health` are probed over HTTP.
        endpoint: Some(Endpoint { http: (by == ReadinessProbe::Health).then_some(port), ..Endpoint::new(HOST, port) }),
        stop_target: world,
        probe: by,
        wrapped,
        ..PlannedServer::new("the server".to_owned(), argv, context.log.clone())
    })
}

fn words<const N: usize>(words: [&str; N]) -> Vec<OsString> {
    words.map(OsString::from).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_to_stop_is_known_from_the_words() {
        let world = |line: &str| stop_target(&line.split(' ').map(str::to_owned).collect::<Vec<_>>(), "n".to_owned());
        assert_eq!(world("mpirun -n 1 a : -n 3 b"), LaunchWorld::Mpi { ranks: 4 });
        let container = LaunchWorld::Container { program: "podman".to_owned(), name: "n".to_owned() };
        assert_eq!(world("podman run --name {name} image"), container);
        assert_eq!(
            world("podman run --name mine image"),
            LaunchWorld::Process,
            "a container of that name may belong to another user"
        );
        assert_eq!(world("tritonserver -n 4"), LaunchWorld::Process);
        assert_eq!(container::name("2026.a/b"), "regatta-2026.a_b");
    }
}
