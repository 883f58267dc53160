//! The run's side: all hosts together, from the first handshake to the end of the last connection.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::agent::{AgentMessage, AgentOrders, DESERTED};
use super::connection::{
    HostCommand, HostConnection, HostEvent, HostLost, connect_problem, failed_host, host_programs, lost_host_failure,
    unusable_hosts,
};
use super::host_place::{HostPlace, HostTransport, reachable_endpoints};
use crate::remote::RemoteTask;
use crate::task_context::TaskContext;
use base::event::{Done, Endpoint, Event, Failure, FailureKind, RunId, Stop};
use exec::process;
use runner::Lease;
use triton::SpecProblem;

/// For one more connection to a host that was lost.
const ONE_MORE: Duration = Duration::from_secs(5);
/// How long servers may drain when another host has failed.
const HURRY: Duration = Duration::from_secs(2);

/// How a host stands.
#[derive(Debug, Default)]
struct Host {
    problems: Option<Vec<SpecProblem>>,
    ready: Option<Vec<Endpoint>>,
    end: Option<HostEnd>,
}

#[derive(Debug)]
enum HostEnd {
    Ended(Box<Result<Done, Failure>>),
    Lost(Box<HostLost>),
}

struct Coordinator<'a> {
    context: &'a TaskContext,
    places: &'a [HostPlace],
    hosts: Vec<Host>,
    commands: Vec<UnboundedSender<HostCommand>>,
    events: UnboundedReceiver<(usize, HostEvent)>,
    connections: JoinSet<()>,
    logs: Vec<PathBuf>,
    names: Vec<String>,
    /// Where the last host that spoke of it stands.
    last_progress: String,
}

/// Does a `serve` stage on all places.
pub async fn perform(mut lease: Lease, places: Vec<HostPlace>, home: &Path, run: &RunId) -> Result<Done, Failure> {
    let send_ready = lease.ready.take();
    let context = TaskContext::new(lease, home, run)?;
    let mut coordinator = Coordinator::start(&context, &places)?;
    let result = coordinator.work(send_ready).await;
    coordinator.end(result.is_err()).await;
    coordinator.recheck_lost_hosts().await;
    result
}

impl<'a> Coordinator<'a> {
    /// Connects to all hosts. Nothing starts there yet.
    fn start(context: &'a TaskContext, places: &'a [HostPlace]) -> Result<Self, Failure> {
        let lease = &context.lease;
        let (sender, news) = unbounded_channel();
        let env: BTreeMap<String, String> =
            lease.task.secrets.iter().filter_map(|name| Some((name.clone(), std::env::var(name).ok()?))).collect();
        let programs = host_programs(lease)?;
        let writes_origins = lease.task.bench().is_some();
        let origins = if writes_origins { (lease.origins)() } else { runner::UpstreamProvenance::default() };
        let mut coordinator = Coordinator {
            context,
            places,
            hosts: places.iter().map(|_| Host::default()).collect(),
            commands: Vec::new(),
            events: news,
            connections: JoinSet::new(),
            logs: Vec::new(),
            names: Vec::new(),
            last_progress: String::new(),
        };
        for (index, place) in places.iter().enumerate() {
            let out = lease.out.join(&place.name);
            let log = lease.log.with_extension(format!("{}.log", place.name));
            std::fs::create_dir_all(&out).map_err(|error| Failure::system(format!("{}: {error}", out.display())))?;
            let name = format!("{}.{}", context.mark, place.name);
            let (order, commands) = unbounded_channel();
            let mut work = RemoteTask::new(lease, origins.clone(), out, log.clone());
            work.assignment.host = Some(r#"{"ssh":[]}"#.to_owned());
            let connection = HostConnection {
                index,
                orders: AgentOrders { name: name.clone(), work, programs: programs.clone() },
                env: env.clone(),
                command: process::ProcessCommand {
                    has_piped_stdio: true,
                    ..command(context, place, &["__host"], &place.name)
                },
                task: lease.task.id.clone(),
                emit: Arc::clone(&lease.emit),
                commands,
                events: sender.clone(),
            };
            coordinator.commands.push(order);
            coordinator.logs.push(log);
            coordinator.names.push(name);
            coordinator.connections.spawn(connection.run());
        }
        Ok(coordinator)
    }

    async fn work(&mut self, send_ready: Option<oneshot::Sender<Vec<Endpoint>>>) -> Result<Done, Failure> {
        self.report_progress();
        self.until(|hosts| hosts.iter().all(|host| host.problems.is_some()), HostFailureTiming::Later).await?;
        self.refuse()?;
        self.order(HostCommand::Go);
        self.until(
            |hosts| hosts.iter().all(|host| host.ready.is_some()),
            HostFailureTiming::AtOnce("before it was ready"),
        )
        .await?;
        let endpoints = self.endpoints().await?;
        if let Some(sender) = send_ready {
            // No receiver is left: then the run is stopping, and reports it.
            let _ = sender.send(endpoints);
        }
        match self.until(|_| false, HostFailureTiming::AtOnce("while it was needed")).await {
            Err(failure) if failure.kind == FailureKind::Interrupted => Ok(Done::default()),
            other => other.map(|()| Done::default()),
        }
    }

    /// Takes news until `enough`. A stop request or a finished host ends it.
    async fn until(&mut self, enough: impl Fn(&[Host]) -> bool, timing: HostFailureTiming) -> Result<(), Failure> {
        while !enough(&self.hosts) {
            tokio::select! {
                biased;
                () = self.context.lease.stop.requested() => {
                    return Err(Failure::interrupted("stopped"));
                }
                news = self.events.recv() => match news {
                    Some((host, news)) => self.take(host, news),
                    None => return Err(Failure::system("watching the hosts failed")),
                },
            }
            if let HostFailureTiming::AtOnce(when) = timing {
                self.check_finished_hosts(when)?;
            }
        }
        Ok(())
    }

    fn take(&mut self, host: usize, news: HostEvent) {
        let name = &self.places[host].name;
        let host_state = &mut self.hosts[host];
        match news {
            HostEvent::Message(message) => match message {
                AgentMessage::Beat => {}
                AgentMessage::Hello(problems) => host_state.problems = Some(problems),
                AgentMessage::Event(Event::Notice { text, .. }) => self.context.lease.notice(format!("{name}: {text}")),
                AgentMessage::Event(Event::Progress { text, .. }) => self.last_progress = format!("{name}: {text}"),
                AgentMessage::Event(event) => (self.context.lease.emit)(event),
                AgentMessage::Ready(endpoints) => host_state.ready = Some(endpoints),
                AgentMessage::Ended(how) => host_state.end = Some(HostEnd::Ended(how)),
            },
            HostEvent::Lost(lost) => {
                // A host without a handshake has a problem, and the others are waited for.
                if !lost.was_greeted {
                    host_state.problems = Some(vec![connect_problem(&self.places[host], &lost)]);
                }
                host_state.end = Some(HostEnd::Lost(Box::new(lost)));
            }
        }
        self.report_progress();
    }

    fn report_progress(&self) {
        let count = |is: fn(&Host) -> bool| self.hosts.iter().filter(|host| is(host)).count();
        let (greeted, ready) = (count(|host| host.problems.is_some()), count(|host| host.ready.is_some()));
        let host_count = self.hosts.len();
        if ready == host_count {
            return;
        }
        let text = match greeted == host_count {
            false => format!("{greeted} of {host_count} hosts have answered"),
            true if self.last_progress.is_empty() => format!("{ready} of {host_count} hosts ready"),
            true => format!("{ready} of {host_count} hosts ready; {}", self.last_progress),
        };
        self.context.lease.report_progress(text, ready as u64, Some(host_count as u64));
    }

    fn refuse(&self) -> Result<(), Failure> {
        let enumerate = self.hosts.iter().enumerate();
        let problems: Vec<(usize, SpecProblem)> = enumerate
            .flat_map(|(host, one)| one.problems.iter().flatten().map(move |problem| (host, problem.clone())))
            .collect();
        if problems.is_empty() { Ok(()) } else { Err(unusable_hosts(self.places, &problems)) }
    }

    /// The first host that has finished although it is needed.
    fn check_finished_hosts(&self, when: &str) -> Result<(), Failure> {
        for (host, one) in self.hosts.iter().enumerate() {
            let place = &self.places[host];
            match &one.end {
                None => {}
                Some(HostEnd::Lost(lost)) => {
                    return Err(lost_host_failure(place, lost, &self.logs[host], when));
                }
                Some(HostEnd::Ended(how)) => {
                    let failure = (**how)
                        .clone()
                        .err()
                        .unwrap_or_else(|| Failure::service(format!("its servers ended {when}")).tail(Vec::new()));
                    return Err(failed_host(place, failure));
                }
            }
        }
        Ok(())
    }

    /// All servers as they are reached from here, in the order of the hosts.
    async fn endpoints(&self) -> Result<Vec<Endpoint>, Failure> {
        let hosts = self.places.iter().zip(&self.hosts);
        let queries = hosts.map(|(place, host)| reachable_endpoints(place, host.ready.clone().unwrap_or_default()));
        let (mut endpoints, mut problems) = (Vec::new(), Vec::new());
        for (host, answer) in join_all(queries).await.into_iter().enumerate() {
            match answer {
                Ok(reachable) => endpoints.extend(reachable),
                Err(problem) => problems.push((host, problem)),
            }
        }
        if problems.is_empty() { Ok(endpoints) } else { Err(unusable_hosts(self.places, &problems)) }
    }

    fn order(&self, order: HostCommand) {
        for connection in &self.commands {
            // One that has ended needs none.
            let _ = connection.send(order);
        }
    }

    /// Stops every host that still responds, and waits until nothing runs there or it is lost. After a failure, what is
    /// in flight is useless, and the stages that need the servers wait for this result.
    async fn end(&mut self, has_failed: bool) {
        self.order(HostCommand::Stop);
        let stop = self.context.lease.stop.clone();
        let enough = async {
            if has_failed && !stop.is_requested() {
                tokio::time::sleep(HURRY).await;
            } else {
                stop.hard_requested().await;
            }
        };
        tokio::pin!(enough);
        let mut killed = false;
        while self.hosts.iter().any(|host| host.end.is_none()) {
            tokio::select! {
                biased;
                () = &mut enough, if !killed => {
                    killed = true;
                    self.order(HostCommand::Kill);
                }
                news = self.events.recv() => match news {
                    Some((host, news)) => self.take(host, news),
                    None => break,
                },
            }
        }
        while self.connections.join_next().await.is_some() {}
    }

    /// Tries every lost host once more, and reports what is known of it. If no message came through until now, none
    /// will come.
    async fn recheck_lost_hosts(&self) {
        let mut queries = JoinSet::new();
        for (host, one) in self.hosts.iter().enumerate() {
            let Some(HostEnd::Lost(lost)) = &one.end else { continue };
            if lost.was_greeted {
                let place = &self.places[host];
                let log_name = format!("{}.again", place.name);
                let command = command(self.context, place, &["__watchdog", &self.names[host]], &log_name);
                let may_answer = lost.how.is_some() && matches!(place.transport, HostTransport::Ssh { .. });
                queries.spawn(async move { (host, may_answer && is_ended(command).await) });
            }
        }
        while let Some(answer) = queries.join_next().await {
            let Ok((host, is_ended)) = answer else { continue };
            let name = &self.places[host].name;
            let seconds = DESERTED.as_secs();
            let text = if is_ended {
                format!("{name}: reached once more; nothing of this stage is left running there")
            } else {
                format!(
                    "{name}: unreachable, so the state of its servers is unknown; if the machine runs, they exit \
                        {seconds} s after the last message from this run"
                )
            };
            self.context.lease.notice(text);
        }
    }
}

/// Whether a finished host is a failure at once, or only after the others have answered.
#[derive(Clone, Copy)]
enum HostFailureTiming {
    AtOnce(&'static str),
    Later,
}

/// A connection to a place. Its output outside the protocol goes into a log of its own, which is not the servers'.
fn command(context: &TaskContext, place: &HostPlace, words: &[&str], of: &str) -> process::ProcessCommand {
    let mut command = context.command(place.argv(words));
    // Variables for the servers are not passed to ssh.
    command.env.retain(|(name, _)| [process::HOME, process::RUN, process::TASK].contains(&name.as_str()));
    command.log = context.lease.log.with_extension(format!("{of}.connection"));
    command
}

async fn is_ended(command: process::ProcessCommand) -> bool {
    let answer = tokio::time::timeout(ONE_MORE, process::run(command, &Stop::new(), |_| {})).await;
    matches!(answer, Ok(Ok(exit)) if exit.how.is_success())
}
