//! One server's life, from the manifest's settings to a [`LaunchSpec`] with free ports: started, watched, ended, and
//! what it leaves behind removed.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use indexmap::IndexMap;
use tokio::sync::watch::Receiver;

use super::planned_server::PlannedServer;
use super::stop::SHORT;
use super::watch::{ServerFault, WatchReport};
use super::{stop, watch};
use crate::container::{self, emit_removal, wrap};
use base::event::{Endpoint, Event, ExternalResource, Failure, GpuId, Stop, TaskId};
use exec::container::ContainerSpec;
use exec::process::{self, ProcessCommand, ProcessExit, Running, Splitter, remove_shared_memory};
use plan::Task;
use plan::manifest::model::TritonServer;
use runner::EventEmitter;
use runner::store::{ProjectLock, StateFolder};
use triton::launch::{LaunchSpec, LaunchWorld, Port, Ports, ServerSpec};

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

/// Where `mpirun` writes the output of ranks. Of a stage with secrets nowhere: they are taken out of the server's log
/// alone, from which each rank's own is made.
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
    let mut settings = server.clone();
    let trace_file = settings.trace.as_mut().and_then(|trace| trace.file.as_mut());
    for file in settings.log_file.iter_mut().chain(trace_file) {
        *file = (place.path)(file);
    }
    LaunchSpec { settings, servers, gpus: place.gpus, container, stage_env: place.stage_env }
}

/// The paths that its options and further arguments name.
fn named_in_options(server: &TritonServer) -> Vec<PathBuf> {
    let options = server.options.values().chain(server.backend_config.values().flat_map(IndexMap::values));
    let mut named: Vec<PathBuf> = options.flat_map(wrap::in_json).collect();
    named.extend(wrap::in_arguments(server.args.iter().chain(&server.words).map(String::as_str)));
    named
}

/// What the container of a server mounts beyond its repository and its engines. What is not built yet is mounted as it
/// is named.
fn reads(server: &ServerSpec, named: &[PathBuf], container: &ContainerSpec) -> Vec<String> {
    let mut covered = wrap::mount_targets(&container.settings.mounts);
    covered.push(Path::new(&server.repository));
    covered.extend(server.models.iter().filter_map(|model| model.engine.as_deref()).map(Path::new));
    let named: Vec<PathBuf> = server.reads.iter().map(PathBuf::from).chain(named.iter().cloned()).collect();
    let points = wrap::mount_points(&named, &covered);
    points.into_iter().map(|path| path.display().to_string()).collect()
}

pub(super) const HOST: &str = "127.0.0.1";

/// Gives every free port a number; none is one that was given.
pub(super) fn choose(ports: &mut [Ports]) -> Result<(), Failure> {
    let given: Vec<u16> = ports
        .iter()
        .flat_map(Ports::all)
        .filter_map(|(_, port)| if let Port::Known(port) = port { Some(port) } else { None })
        .collect();
    let wanted = 3 * ports.len();
    // So many more that enough are left when some are ports that were given.
    let mut free = free_ports(wanted + given.len())?.into_iter().filter(|port| !given.contains(port));
    for one in ports {
        for port in [&mut one.grpc, &mut one.http, &mut one.metrics] {
            if *port == Port::Free
                && let Some(number) = free.next()
            {
                *port = Port::Known(number);
            }
        }
    }
    Ok(())
}

/// Ports without a listener, all different.
pub(super) fn free_ports(count: usize) -> Result<Vec<u16>, Failure> {
    let taken: Result<Vec<TcpListener>, _> = (0..count).map(|_| TcpListener::bind(("0.0.0.0", 0))).collect();
    taken
        .and_then(|taken| taken.iter().map(|listener| listener.local_addr().map(|address| address.port())).collect())
        .map_err(|error| Failure::system(format!("no free port: {error}")))
}

pub(super) fn check_free(port: u16, key: &str) -> Result<(), Failure> {
    match TcpListener::bind(("0.0.0.0", port)) {
        Ok(_) => Ok(()),
        Err(error) => {
            let failure = Failure::service(format!("port {port} cannot be used: {error}"));
            Err(match process::listener(port) {
                Some(owner) => {
                    let failure = failure.cause(format!("process {} listens there: {}", owner.pid, owner.command));
                    // To end it would spoil what that run measures.
                    failure.hint(match current_run(|name| process::variable(owner.pid, name)) {
                        Some(run) => {
                            format!(
                                "it belongs to {run}: wait for the end of that, or leave `{key}` out to get a free one"
                            )
                        }
                        None => format!("end it (`kill {}`), or leave `{key}` out to get a free one", owner.pid),
                    })
                }
                None => failure.hint(format!(
                    "`ss -ltnp` shows the process that listens there; or leave `{key}` out to get a free one"
                )),
            })
        }
    }
}

/// The run in the environment of a process, and its project, if it holds its project's lock: what a killed run left
/// behind ends with no run.
fn current_run(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let (run, home) = (variable(process::RUN)?, variable(process::HOME)?);
    let project = home.strip_suffix("/.regatta").unwrap_or(&home);
    let has_lock = match ProjectLock::holder(&StateFolder::new(PathBuf::from(project), PathBuf::from(&home))) {
        Ok(holder) => holder.is_some_and(|holder| holder.run == run),
        // A lock of another user.
        Err(_) => true,
    };
    has_lock.then(|| format!("run {run} of {project}"))
}

/// How often the log of an MPI world is taken apart.
const SPLIT: Duration = Duration::from_millis(500);
/// A server that has not answered for this long is not waited for as long as one that drains.
const NOT_HEARD: Duration = Duration::from_secs(3);

/// How one server left.
pub struct ServerExit {
    pub server: usize,
    pub exit: ProcessExit,
    pub why: ExitCause,
    /// After its start.
    pub after: Duration,
    /// The rank that was seen to be gone first.
    pub first_gone: Option<u32>,
}

pub enum ExitCause {
    /// It ended by itself.
    Unexpected,
    /// We requested it.
    Requested,
    /// Its process was there and it was no longer usable, so it was ended.
    Unhealthy(ServerFault),
}

/// A server that has been started.
pub struct RunningServer {
    pub index: usize,
    pub server: Arc<PlannedServer>,
    pub running: Running,
    /// A command with the server's surroundings, for commands to its container program.
    pub order: ProcessCommand,
    pub external_resources: Vec<ExternalResource>,
    pub quit: Stop,
    /// Filled when all servers are up.
    pub ready_endpoint: Receiver<Option<Endpoint>>,
    pub task: TaskId,
    pub emit: EventEmitter,
}

impl RunningServer {
    pub async fn run(self) -> ServerExit {
        let Self { index, server, mut running, order, external_resources, quit, ready_endpoint: up, task, emit } = self;
        let begun = Instant::now();
        let pgid = running.pgid();
        let seen = parking_lot::Mutex::new(WatchReport::default());
        let mut splitter = matches!(server.stop_target, LaunchWorld::Mpi { .. }).then(|| Splitter::new(&server.log));
        let reason = tokio::select! {
            biased;
            _ = running.ended() => ExitCause::Unexpected,
            () = quit.requested() => ExitCause::Requested,
            ill = watch::wait_for_fault(&server, pgid, up, &seen) => ExitCause::Unhealthy(ill),
            () = split(&mut splitter) => unreachable!("it has no end"),
        };
        let after = begun.elapsed();
        if let ExitCause::Unhealthy(ill) = &reason {
            let text = format!("{} is no longer usable and is stopped: {ill}", server.name);
            emit(Event::Notice { task: Some(task.clone()), text });
        }
        let WatchReport { last_answer_at, first_gone } = seen.into_inner();
        let (exit, is_gone) = match &reason {
            ExitCause::Unexpected => stop::after_death(running, &server, &order).await,
            ExitCause::Requested => {
                let is_unresponsive = last_answer_at.is_some_and(|last_answer_at| last_answer_at.elapsed() > NOT_HEARD);
                let grace = if is_unresponsive { SHORT } else { stop::grace(&server.argv) };
                stop::stop(running, &server, &order, grace, &quit).await
            }
            ExitCause::Unhealthy(_) => stop::stop(running, &server, &order, SHORT, &quit).await,
        };
        if let Some(splitter) = &mut splitter {
            let _ = splitter.step();
        }
        for thing in external_resources {
            if let ExternalResource::SharedMemory { mark } = &thing {
                remove_shared_memory(mark);
            }
            emit_removal(&*emit, &task, thing, is_gone);
        }
        emit(Event::ProcessEnded { task, pgid });
        ServerExit { server: index, exit, why: reason, after, first_gone }
    }
}

/// Takes the log apart for as long as it grows.
async fn split(splitter: &mut Option<Splitter>) {
    let Some(splitter) = splitter else { return std::future::pending().await };
    loop {
        tokio::time::sleep(SPLIT).await;
        // The whole log is there in any case.
        let _ = splitter.step();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::event::RunId;

    #[test]
    fn ports_that_were_given_are_kept_and_no_two_are_the_same() {
        let mut ports = vec![Ports { grpc: Port::Known(18_001), ..Ports::default() }, Ports::default()];
        choose(&mut ports).unwrap();
        assert_eq!(ports[0].grpc, Port::Known(18_001));
        let mut list: Vec<String> = ports.iter().flat_map(Ports::all).map(|(_, port)| port.to_string()).collect();
        list.sort();
        list.dedup();
        assert!(list.len() == 6 && !list.iter().any(|port| port == "<free>"), "{list:?}");
    }

    #[test]
    fn a_taken_port_is_named_with_its_owner() {
        let listener = TcpListener::bind(("0.0.0.0", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let failure = check_free(port, "port").unwrap_err();
        assert!(failure.cause.unwrap().contains(&std::process::id().to_string()));
    }

    #[test]
    fn a_process_belongs_to_a_run_only_while_that_has_the_lock() {
        let project = tempfile::tempdir().unwrap();
        let home = StateFolder::new(project.path().to_owned(), project.path().join(".regatta"));
        let lock = ProjectLock::try_take(&home, || Ok(RunId::new("r1"))).unwrap();
        let state = home.state().display().to_string();
        let run_of = |run: &str| current_run(|name| Some(if name == process::RUN { run } else { &state }.to_owned()));
        let named = format!("run r1 of {}", project.path().display());
        assert_eq!(run_of("r1"), Some(named));
        assert_eq!(run_of("r0"), None);
        drop(lock);
        // A child that another test starts has the lock's file until it becomes its own program.
        let is_free = |_| {
            run_of("r1").is_none() || {
                std::thread::sleep(Duration::from_millis(10));
                false
            }
        };
        assert!((0..500).any(is_free), "{:?}", run_of("r1"));
    }
}
