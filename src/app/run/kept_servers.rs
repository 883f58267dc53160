//! `regatta serve`: which servers stay up, what is printed when they are ready, and the command that uses them.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::timeout;

use crate::cli::{self, CliExit};
use crate::console::{print, print_error};
use crate::error::CommandError;
use crate::project::current_folder;
use base::event::{Endpoint, Event, RunId, Stop};
use exec::process::{self, ExitKind, ProcessCommand};
use plan::manifest::model::{Action, Serve};
use plan::{Plan, Task};
use report::EndpointRow;
use runner::store::{ProjectLock, StateFolder};
use runner::{EventEmitter, GPUS_HINT, KeptService, KeptServices, RunOptions, RunSummary};
use triton::TritonClient;

/// signal(7): a shell's code for a command that a signal ended is this and the signal's number.
const SIGNALLED: i32 = 128;

/// Servers that stay up: until a stop request, or for one command.
pub(super) struct KeptServers {
    /// Their stage, or one task of it.
    pub name: String,
    /// For each task of the plan.
    tasks: Vec<bool>,
    command: Vec<OsString>,
    announcement: Announcement,
    phase: ServingPhase,
}

/// How endpoints are printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Announcement {
    Table,
    Json,
    /// They are in the events.
    Nothing,
}

/// Whether the servers are up without a command, so that the first stop request is the ordinary end.
#[derive(Clone)]
pub(super) struct ServingPhase {
    is_serving: Arc<AtomicBool>,
    release: Stop,
}

impl ServingPhase {
    /// Ends the serving, and reports so; `None` while there is something to interrupt.
    pub fn end(&self) -> Option<Event> {
        self.is_serving.load(Ordering::Acquire).then(|| {
            self.release.request();
            Event::Notice { task: None, text: "the servers are being stopped; Ctrl-C again kills them".to_owned() }
        })
    }
}

/// What the run around the servers has.
pub(super) struct ServingContext<'a> {
    pub home: &'a StateFolder,
    pub plan: &'a Plan,
    pub id: &'a RunId,
    pub stop: &'a Stop,
    pub emit: &'a EventEmitter,
    pub lock: &'a ProjectLock,
}

impl KeptServers {
    /// The servers that are meant.
    ///
    /// # Errors
    /// Nothing serves, it is not clear what should, or the command is not there.
    pub fn choose(plan: &Plan, request: &cli::ServeRequest) -> Result<Self, CommandError> {
        let name = match &request.stage {
            Some(name) => name.clone(),
            None => only_stage(plan, &request.run.subject.manifest)?,
        };
        // An unknown name is reported with a suggestion.
        plan.select(std::slice::from_ref(&name), &[])?;
        let named: Vec<&Task> = plan.tasks.iter().filter(|task| is_named(task, &name)).collect();
        if named.iter().any(|task| !task.kind.facts().is_service) {
            return Err(CommandError::hinted(format!("`{name}` starts no servers"), stages_hint(&serve_stages(plan))));
        }
        let tasks: Vec<bool> = plan.tasks.iter().map(|task| is_named(task, &name) && task.skipped.is_none()).collect();
        if !tasks.contains(&true) {
            let reason = named.first().and_then(|task| task.skipped.as_deref()).unwrap_or("no task is left of it");
            return Err(CommandError::Usage(format!("`{name}` is skipped: {reason}")));
        }
        if let Some(program) = request.command.first() {
            let command = ProcessCommand::new(request.command.clone(), current_folder()?, "/dev/null");
            if !command.is_found() {
                return Err(CommandError::Usage(format!(
                    "the command `{}` was not found, or is not executable",
                    program.to_string_lossy()
                )));
            }
        }
        let announcement = match (request.run.mode.events, request.json) {
            (Some(_), _) => Announcement::Nothing,
            (None, true) => Announcement::Json,
            (None, false) => Announcement::Table,
        };
        let phase = ServingPhase { is_serving: Arc::default(), release: Stop::new() };
        Ok(Self { name, tasks, command: request.command.clone(), announcement, phase })
    }

    /// All servers run at the same time, so each needs its own GPUs.
    pub fn check_gpus(&self, plan: &Plan, options: &RunOptions) -> Result<(), CommandError> {
        let held = plan.tasks.iter().zip(&self.tasks).filter(|(task, held)| **held && task.host.is_none());
        let users: Vec<&Task> = held.map(|(task, _)| task).filter(|task| task.gpus > 0).collect();
        let needed: u32 = users.iter().map(|task| task.gpus).sum();
        let has = options.gpus.len();
        if needed as usize <= has {
            return Ok(());
        }
        let names = users.iter().map(|task| format!("`{}`", task.id)).collect::<Vec<_>>().join(", ");
        let (together, hint) = match users.as_slice() {
            [_] => ("needs", GPUS_HINT.to_owned()),
            _ => ("together need", format!("serve one of them: `regatta serve {} {}`", plan.name, users[0].id)),
        };
        let message = format!("{names} {together} {needed} GPUs, but this run can lease only {has}");
        Err(CommandError::hinted(message, hint))
    }

    pub fn phase(&self) -> ServingPhase {
        self.phase.clone()
    }

    /// What the runner gets, and where it reports the servers.
    pub fn kept_services(&self) -> (KeptServices, UnboundedReceiver<Vec<KeptService>>) {
        let (ready, receive) = unbounded_channel();
        (KeptServices { tasks: self.tasks.clone(), ready, release: self.phase.release.clone() }, receive)
    }

    /// Waits until the servers are ready, prints where they are, and keeps them up: for the command, whose outcome it
    /// returns, or until the run ends.
    pub async fn attend(
        &self,
        mut running: JoinHandle<RunSummary>,
        mut ready: UnboundedReceiver<Vec<KeptService>>,
        around: &ServingContext<'_>,
    ) -> Result<(RunSummary, Option<ExitKind>), JoinError> {
        let services = tokio::select! {
            biased;
            summary = &mut running => return Ok((summary?, None)),
            Some(services) = ready.recv() => services,
        };
        let rows = endpoint_rows(around.plan, &services).await;
        // Without it another command only waits where it could go on.
        let _ = around.lock.show_serving();
        if self.command.is_empty() {
            self.phase.is_serving.store(true, Ordering::Release);
            self.announce(&rows);
            return Ok((running.await?, None));
        }
        self.announce(&rows);
        let quit = around.stop.child();
        let command = self.run_command(&services, &rows, around, &quit);
        tokio::pin!(command);
        let end = tokio::select! {
            summary = &mut running => {
                quit.request();
                command.await;
                return Ok((summary?, None));
            }
            end = &mut command => end,
        };
        self.phase.release.request();
        Ok((running.await?, end))
    }

    fn announce(&self, rows: &[EndpointRow]) {
        let text = match self.announcement {
            Announcement::Nothing => return,
            Announcement::Json => report::endpoints_json(rows),
            Announcement::Table => report::endpoints_text(rows),
        };
        // The command's output is its own, unless a program is to read the endpoints.
        if self.command.is_empty() || self.announcement == Announcement::Json {
            print(&text);
        } else {
            print_error(&text);
        }
        if self.command.is_empty() {
            print_error("serving until Ctrl-C\n");
        }
    }

    /// Runs the command with the endpoints in its environment. `None`: it could not be started, which has been
    /// reported.
    async fn run_command(
        &self,
        services: &[KeptService],
        rows: &[EndpointRow],
        around: &ServingContext<'_>,
        quit: &Stop,
    ) -> Option<ExitKind> {
        let task = services.first().map(|service| service.task.clone())?;
        let endpoints: Vec<Endpoint> = services.iter().flat_map(|service| service.endpoints.iter().cloned()).collect();
        let first = |of: fn(&EndpointRow) -> Option<&String>| rows.iter().find_map(of).cloned();
        let command = ProcessCommand::new(self.command.clone(), Path::new("."), "/dev/null");
        let mut command = ProcessCommand { inherits_stdio: true, ..command }
            // Another `regatta` below it does not wait for the lock of this run.
            .set(process::HOME, around.home.clients())
            .set(process::RUN, around.id.as_str())
            .set("REGATTA_ENDPOINTS", Endpoint::list_text(&endpoints));
        for (name, value) in [
            ("REGATTA_GRPC", first(|row| row.grpc.as_ref())),
            ("REGATTA_HTTP", first(|row| row.http.as_ref()).map(|address| format!("http://{address}"))),
            ("REGATTA_METRICS", first(|row| row.metrics.as_ref()).map(|address| format!("http://{address}/metrics"))),
            ("REGATTA_MODEL", first(|row| row.model.as_ref())),
        ] {
            command = match value {
                Some(value) => command.set(name, value),
                None => command.remove(name),
            };
        }
        let mut group = None;
        let ended = process::run(command, quit, |pgid| {
            group = Some(pgid);
            (around.emit)(Event::ProcessStarted { task: task.clone(), pgid });
        })
        .await;
        if let Some(pgid) = group {
            (around.emit)(Event::ProcessEnded { task, pgid });
        }
        match ended {
            Ok(ended) => {
                if let Some(text) = bad_end(ended.how) {
                    (around.emit)(Event::Notice { task: None, text });
                }
                Some(ended.how)
            }
            Err(error) => {
                (around.emit)(Event::Notice { task: None, text: format!("the command was not started: {error}") });
                Some(ExitKind::Code(i32::from(CliExit::Failed.code())))
            }
        }
    }
}

fn bad_end(how: ExitKind) -> Option<String> {
    match how {
        ExitKind::Code(0) | ExitKind::Stopped => None,
        ExitKind::Code(code) => Some(format!("the command ended with exit code {code}")),
        ExitKind::Signal(signal) => Some(format!("the command was ended by signal {signal}")),
    }
}

/// The exit code of `regatta serve` after its command ended.
pub(super) fn exit_of_command(end: ExitKind) -> CliExit {
    let code = match end {
        ExitKind::Stopped => return CliExit::Interrupted,
        ExitKind::Code(0) => return CliExit::Done,
        ExitKind::Code(code) => code,
        ExitKind::Signal(signal) => SIGNALLED + signal,
    };
    CliExit::OfCommand(u8::try_from(code).unwrap_or(CliExit::Failed.code()))
}

fn is_named(task: &Task, name: &str) -> bool {
    task.stage == name || task.id.as_str() == name
}

/// The stages that start servers in this plan.
fn serve_stages(plan: &Plan) -> Vec<&str> {
    let serves = |task: &&Task| task.serve().is_some();
    let mut stages: Vec<&str> = plan.tasks.iter().filter(serves).map(|task| task.stage.as_str()).collect();
    stages.dedup();
    stages
}

fn only_stage(plan: &Plan, manifest: &str) -> Result<String, CommandError> {
    match serve_stages(plan).as_slice() {
        [stage] => Ok((*stage).to_owned()),
        [] => Err(CommandError::Usage("no stage of this plan starts a server".to_owned())),
        several => Err(CommandError::hinted(
            format!("several stages start servers: {}", several.join(", ")),
            format!("name one of them: `regatta serve {manifest} {}`", several[0]),
        )),
    }
}

fn stages_hint(stages: &[&str]) -> String {
    match stages {
        [] => "no stage of this plan starts a server".to_owned(),
        stages => format!("these do: {}", stages.join(", ")),
    }
}

/// A server that is ready lists its models at once; one that does not has none to name.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);
/// The model that `regatta bench` takes by default.
const MODEL: &str = "tensorrt_llm";

/// What a server speaks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Interface {
    Kserve,
    OpenAi,
    /// Only its port is known.
    Unknown,
}

/// A row for each server of these services.
pub(super) async fn endpoint_rows(plan: &Plan, services: &[KeptService]) -> Vec<EndpointRow> {
    let mut rows = Vec::new();
    for service in services {
        let interface = interface(plan, service);
        for (index, endpoint) in service.endpoints.iter().enumerate() {
            rows.push(EndpointRow { task: service.task.to_string(), server: index, ..row(endpoint, interface).await });
        }
    }
    rows
}

fn interface(plan: &Plan, service: &KeptService) -> Interface {
    let task = plan.tasks.iter().find(|task| task.id == service.task);
    match task.and_then(Task::action) {
        Some(Action::Serve(Serve::TrtllmServe(_) | Serve::Vllm(_))) => Interface::OpenAi,
        Some(Action::Serve(Serve::Command(server))) => match server.ready.by.as_str() {
            "health" => Interface::OpenAi,
            // It was found out when it was ready.
            "detect" if service.endpoints.iter().any(|endpoint| endpoint.http.is_some()) => Interface::OpenAi,
            "detect" | "kserve" => Interface::Kserve,
            _ => Interface::Unknown,
        },
        _ => Interface::Kserve,
    }
}

async fn row(endpoint: &Endpoint, interface: Interface) -> EndpointRow {
    let at = |port: Option<u16>| port.map(|port| endpoint.at_port(port));
    let address = endpoint.to_string();
    let row = EndpointRow { host: endpoint.name.clone(), metrics: at(endpoint.metrics), ..EndpointRow::default() };
    match interface {
        Interface::OpenAi => EndpointRow { bench: format!("openai://{address}"), http: Some(address), ..row },
        Interface::Unknown => EndpointRow { bench: address.clone(), grpc: Some(address), ..row },
        Interface::Kserve => EndpointRow {
            model: model(endpoint).await,
            http: at(endpoint.http),
            bench: address.clone(),
            grpc: Some(address),
            ..row
        },
    }
}

/// The model to benchmark: the usual one, else the first that is ready.
async fn model(endpoint: &Endpoint) -> Option<String> {
    let index = async { TritonClient::connect(endpoint).await?.repository_index(true).await };
    let models = timeout(QUERY_TIMEOUT, index).await.ok()?.ok()?;
    let names: Vec<String> = models.into_iter().map(|model| model.name).collect();
    let usual = names.iter().find(|name| *name == MODEL);
    usual.or(names.first()).cloned()
}
