//! `serve:` — servers with a lifetime: started, waited for, watched, and stopped for certain.

mod argv;
pub mod attach;
mod launch;
mod loading;
mod planned_server;
mod preview;
pub mod ready;
mod repository_models;
mod stop;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use ::plan::manifest::model::Serve;
use tokio::sync::watch as channel;
use tokio::task::JoinSet;

use crate::Run;
use crate::container::refuse_taken;
use crate::task_context::{TaskContext, ended};
use base::event::{Done, Endpoint, Event, Failure, Stop};
use exec::process::{ExitKind, Running};
use launch::{ExitCause, RunningServer, ServerExit};
use planned_server::PlannedServer;
pub use planned_server::refused;
pub use preview::previews;
use triton::launch::LaunchWorld;
use watch::exit_failure;

/// signal(7)
const SIGKILL: i32 = 9;

impl Run for Serve {
    const FORMAT: Option<u32> = None;

    async fn run(&self, mut context: TaskContext) -> Result<Done, Failure> {
        if let Some(attach) = self.attached() {
            return attach::perform(&mut context, &attach).await;
        }
        let ready = match self {
            Self::Simulator(server) => &server.ready,
            Self::Triton(server) => &server.ready,
            Self::TrtllmServe(server) => &server.ready,
            Self::Vllm(server) => &server.ready,
            Self::Command(server) => &server.ready,
            Self::Attach(server) => &server.ready,
        };
        let limit = ready.limit();
        let send_ready = context.lease.ready.take();
        let _copies = repository_models::RepositoryCopies(&context.lease.out);
        let planned = planned_server::plan(&context, self)?;
        let mut servers = Servers {
            context: &context,
            set: JoinSet::new(),
            ready_senders: Vec::new(),
            quit: context.lease.stop.child(),
        };
        let mut planned: Vec<PlannedServer> = planned;
        let result = servers.run_until_end(&mut planned, limit, send_ready).await;
        let left = servers.end(&planned).await;
        if let Self::Vllm(server) = self
            && server.step_log
        {
            keep_steps(&context, &planned);
        }
        // A server that was already dead at the stop request has failed.
        match (result, left) {
            (Ok(_), Some(left)) => Err(servers.exit_failure(&planned[left.server], &left, "while it was needed")),
            (result, _) => result,
        }
    }
}

/// The steps of each server's engine, from its log.
fn keep_steps(context: &TaskContext, planned: &[PlannedServer]) {
    for PlannedServer { name, log, .. } in planned {
        context.lease.notice(match watch::write(log) {
            Ok(Some((path, count))) => format!("{name}: {count} steps of its engine are in {}", path.display()),
            Ok(None) => format!("{name}: its log has no steps of its engine"),
            Err(error) => format!("{name}: the steps of its engine cannot be kept: {}: {error}", log.path().display()),
        });
    }
}

struct Servers<'a> {
    context: &'a TaskContext,
    set: JoinSet<ServerExit>,
    /// To each server's watch: it is up.
    ready_senders: Vec<channel::Sender<Option<Endpoint>>>,
    quit: Stop,
}

impl Servers<'_> {
    async fn run_until_end(
        &mut self,
        planned: &mut [PlannedServer],
        limit: Duration,
        send_ready: Option<tokio::sync::oneshot::Sender<Vec<Endpoint>>>,
    ) -> Result<Done, Failure> {
        let mut shared = Vec::new();
        for (index, server) in planned.iter_mut().enumerate() {
            shared.push(self.start(index, server).await?);
        }
        let stop = &self.context.lease.stop;
        let endpoints = tokio::select! {
            biased;
            () = stop.requested() => return Err(Failure::interrupted("stopped before it was ready")),
            Some(left) = self.set.join_next() => return Err(self.join_failure(planned, left, "before it was ready")),
            endpoints = ready::all(self.context, &shared, limit) => endpoints?,
        };
        for (watch, up) in self.ready_senders.iter().zip(endpoints.clone()) {
            // A server that has ended meanwhile is reported below.
            let _ = watch.send(Some(up));
        }
        if let Some(sender) = send_ready {
            // No receiver is left: then the run is stopping, and reports it.
            let _ = sender.send(endpoints);
        }
        tokio::select! {
            biased;
            () = stop.requested() => Ok(Done::default()),
            Some(left) = self.set.join_next() => Err(self.join_failure(planned, left, "while it was needed")),
        }
    }

    /// Starts a server. What outlives it is written down before it can be there.
    async fn start(&mut self, index: usize, server: &mut PlannedServer) -> Result<Arc<PlannedServer>, Failure> {
        let (task, emit) = (self.context.lease.task.id.clone(), self.context.lease.emit.clone());
        let mut external_resources = stop::mark_shared_memory(&mut server.argv, &self.context.mark);
        external_resources.extend(stop::external_resource(&server.stop_target));
        if matches!(server.stop_target, LaunchWorld::Mpi { .. }) {
            // So that each line shows the rank it comes from.
            server.env.push(("OMPI_MCA_orte_tag_output".to_owned(), "1".into()));
        }
        if let LaunchWorld::Container { program, name } = &server.stop_target {
            refuse_taken(program, name, &server.command(self.context), "give this one another name").await?;
        }
        for resource in &external_resources {
            emit(Event::ExternalResourceStarted { task: task.clone(), resource: resource.clone() });
        }
        let order = server.command(self.context);
        let running = Running::start(order.clone()).map_err(|error| {
            for resource in &external_resources {
                emit(Event::ExternalResourceRemoved { task: task.clone(), resource: resource.clone() });
            }
            self.context.not_started(&server.argv, &error)
        })?;
        emit(Event::ProcessStarted { task: task.clone(), pgid: running.pgid() });
        let server = Arc::new(server.clone());
        let (sender, up) = channel::channel(None);
        self.ready_senders.push(sender);
        let quit = self.quit.clone();
        let life = RunningServer {
            index,
            server: Arc::clone(&server),
            running,
            order,
            external_resources,
            quit,
            ready_endpoint: up,
            task,
            emit,
        };
        self.set.spawn(life.run());
        Ok(server)
    }

    /// Stops every server that is still up, and waits until it is gone. The first one that had ended by itself.
    async fn end(&mut self, planned: &[PlannedServer]) -> Option<ServerExit> {
        self.quit.request();
        let mut by_itself = None;
        while let Some(left) = self.set.join_next().await {
            let Ok(left) = left else { continue };
            if !matches!(left.why, ExitCause::Requested) {
                by_itself = by_itself.or(Some(left));
            } else if left.exit.how == ExitKind::Signal(SIGKILL) && !self.quit.is_hard_requested() {
                let PlannedServer { name, argv, .. } = &planned[left.server];
                let grace = stop::grace(argv).as_secs();
                self.context.lease.notice(format!(
                    "{name} did not exit on request (it has {grace} s while it answers), and was killed"
                ));
            }
        }
        by_itself
    }

    fn join_failure(
        &self,
        planned: &[PlannedServer],
        left: Result<ServerExit, tokio::task::JoinError>,
        when: &str,
    ) -> Failure {
        match left {
            Ok(left) => self.exit_failure(&planned[left.server], &left, when),
            Err(error) => Failure::service(format!("watching a server failed: {error}")),
        }
    }

    fn exit_failure(&self, server: &PlannedServer, left: &ServerExit, when: &str) -> Failure {
        let after = left.after.as_secs_f64();
        match &left.why {
            ExitCause::Requested => Failure::interrupted("stopped"),
            ExitCause::Unexpected => {
                let message = format!("{} ended {} {when}, after {after:.1} s", server.name, ended(left.exit.how));
                exit_failure(self.context, server, message, left.exit.how, left.first_gone)
            }
            // How it ended is our own doing.
            ExitCause::Unhealthy(ill) => {
                let problem = format!("{} was no longer usable {when}, after {after:.1} s: {ill}", server.name);
                exit_failure(self.context, server, problem, ExitKind::Code(1), left.first_gone)
            }
        }
    }
}
