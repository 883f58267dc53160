//! The connection to one host: the messages in both directions, and how its loss is detected.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{MissedTickBehavior, interval};

use super::agent::{AgentMessage, AgentOrders, BEAT, BEAT_INTERVAL, GO, KILL, SILENT, STOP};
use super::host_place::HostPlace;
use crate::remote::ssh::{NO_FOLDER, NO_FOLDER_TEXT, NO_PROGRAM, explain_error};
use base::event::{Done, Event, Failure, Stop, TaskId};
use exec::process::{self, ExitKind, LineReader, LineWriter, ProcessCommand, ProcessExit, Running, tail};
use plan::manifest::model::{Action, Serve};
use plan::{ActionError, read_action};
use runner::{EventEmitter, Lease};
use triton::SpecProblem;

/// To log in, to load this program, and to look around on a slow filesystem.
const HANDSHAKE: Duration = Duration::from_secs(40);
/// How long ssh may take to end after the last message.
const LEAVES: Duration = Duration::from_secs(3);
/// How long an agent may take to kill what it has.
const KILLS: Duration = Duration::from_secs(15);
/// How many of a connection's last lines are kept.
const LAST_WORDS: usize = 20;

/// What a host's connection reports to the coordinator.
pub enum HostEvent {
    /// Any message but a beat. `Ended` is the last one.
    Message(AgentMessage),
    /// The last, without `Ended`: the state of the host is unknown.
    Lost(HostLost),
}

/// A host that does not respond any more.
#[derive(Clone, Debug)]
pub struct HostLost {
    pub last_message_at: Timestamp,
    pub since: Instant,
    /// How the connection ended, if it did.
    pub how: Option<ExitKind>,
    /// The last messages of ssh or srun.
    pub last_lines: Vec<String>,
    /// It had greeted us, so there may be something to end.
    pub was_greeted: bool,
}

/// What the coordinator sends through a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostCommand {
    Go,
    Stop,
    Kill,
}

pub struct HostConnection {
    /// Which host.
    pub index: usize,
    pub orders: AgentOrders,
    /// What the agent's environment has beyond that of a login there: secrets, too.
    pub env: BTreeMap<String, String>,
    /// Of the connection; its log holds its last messages.
    pub command: ProcessCommand,
    pub task: TaskId,
    pub emit: EventEmitter,
    pub commands: UnboundedReceiver<HostCommand>,
    pub events: UnboundedSender<(usize, HostEvent)>,
}

impl HostConnection {
    pub async fn run(mut self) {
        let words: PathBuf = self.command.log.clone();
        let mut running = match Running::start(self.command.clone()) {
            Ok(running) => running,
            Err(error) => {
                return self.send_event(HostEvent::Lost(HostLost::new(None, vec![error.to_string()])));
            }
        };
        let pgid = running.pgid();
        (self.emit)(Event::ProcessStarted { task: self.task.clone(), pgid });
        let received = self.exchange_lines(&mut running).await;
        // A process that is still there sees the end of its standard input.
        let exit = close(running, received.ended.is_some()).await;
        (self.emit)(Event::ProcessEnded { task: self.task.clone(), pgid });
        let last = match received.ended {
            Some(how) => HostEvent::Message(AgentMessage::Ended(how)),
            None => HostEvent::Lost(HostLost {
                how: exit.filter(|exit| exit.how != ExitKind::Stopped).map(|exit| exit.how),
                last_lines: tail(&words, LAST_WORDS),
                ..received.lost
            }),
        };
        self.send_event(last);
    }

    fn send_event(&self, news: HostEvent) {
        // A coordinator that is gone has no use for it.
        let _ = self.events.send((self.index, news));
    }

    /// Until all has finished there, or the host is lost.
    async fn exchange_lines(&mut self, running: &mut Running) -> ReceivedState {
        let mut received = ReceivedState { lost: HostLost::new(None, Vec::new()), ended: None };
        let Some((writer, mut reader)) = running.take_pipes() else { return received };
        let outgoing = spawn_writer(writer);
        let [env, orders] = [serde_json::to_string(&self.env), serde_json::to_string(&self.orders)];
        for line in [env, orders].into_iter().flatten() {
            let _ = outgoing.send(line);
        }
        let mut beat = interval(BEAT_INTERVAL);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut killed: Option<Instant> = None;
        let (mut is_open, mut has_commands) = (true, true);
        loop {
            tokio::select! {
                biased;
                _ = running.ended() => {
                    self.drain_lines(&mut reader, &mut received);
                    return received;
                }
                line = reader.line(), if is_open => match line {
                    Some(line) => self.handle_line(&line, &mut received),
                    None => is_open = false,
                },
                order = self.commands.recv(), if has_commands => match order {
                    Some(HostCommand::Go) => drop(outgoing.send(GO.to_owned())),
                    // Nothing has started there, and nothing will without a command from us.
                    Some(HostCommand::Stop) if !received.lost.was_greeted => return received,
                    Some(HostCommand::Stop) => drop(outgoing.send(STOP.to_owned())),
                    killing @ (Some(HostCommand::Kill) | None) => {
                        has_commands = killing.is_some();
                        killed.get_or_insert_with(Instant::now);
                        let _ = outgoing.send(KILL.to_owned());
                    }
                },
                _ = beat.tick() => {
                    let _ = outgoing.send(BEAT.to_owned());
                    // The delay may be on our side: read what has arrived before judging.
                    self.drain_lines(&mut reader, &mut received);
                    let patience = if received.lost.was_greeted { SILENT } else { HANDSHAKE };
                    if received.lost.since.elapsed() > patience || killed.is_some_and(|at| at.elapsed() > KILLS) {
                        return received;
                    }
                }
            }
            if received.ended.is_some() {
                return received;
            }
        }
    }

    fn drain_lines(&self, reader: &mut LineReader, received: &mut ReceivedState) {
        for line in reader.rest() {
            self.handle_line(&line, received);
        }
    }

    fn handle_line(&self, line: &str, received: &mut ReceivedState) {
        // For example a shell's own greeting.
        let Ok(message) = serde_json::from_str::<AgentMessage>(line) else { return };
        (received.lost.last_message_at, received.lost.since) = (Timestamp::now(), Instant::now());
        match message {
            AgentMessage::Beat => {}
            AgentMessage::Ended(how) => received.ended = Some(how),
            message => {
                received.lost.was_greeted |= matches!(message, AgentMessage::Hello(_));
                self.send_event(HostEvent::Message(message));
            }
        }
    }
}

impl HostLost {
    /// A host that never responded.
    pub fn new(how: Option<ExitKind>, words: Vec<String>) -> Self {
        Self { last_message_at: Timestamp::now(), since: Instant::now(), how, last_lines: words, was_greeted: false }
    }
}

/// What was received so far.
struct ReceivedState {
    /// As the host stands if nothing more comes.
    lost: HostLost,
    ended: Option<Box<Result<Done, Failure>>>,
}

/// Writes lines in a task of its own: a connection that takes none must not keep us from reading. Ends with its sender.
fn spawn_writer(mut writer: LineWriter) -> UnboundedSender<String> {
    let (send, mut lines) = unbounded_channel::<String>();
    tokio::spawn(async move {
        while let Some(line) = lines.recv().await {
            if writer.line(&line).await.is_err() {
                return;
            }
        }
    });
    send
}

/// Lets the connection end by itself where it can. `None`: it had to be ended.
async fn close(mut running: Running, has_finished: bool) -> Option<ProcessExit> {
    let patience = if has_finished { LEAVES } else { Duration::ZERO };
    if tokio::time::timeout(patience, running.ended()).await.is_ok() {
        return Some(running.wait().await);
    }
    running.stop(LEAVES, &Stop::new()).await;
    None
}

// Messages for the user when a host cannot be used, fails, or is lost.

/// How many of the last lines of a host's log are shown.
const TAIL: usize = 15;

/// Everything that is wrong with any host, at once.
pub fn unusable_hosts(places: &[HostPlace], problems: &[(usize, SpecProblem)]) -> Failure {
    let mut hosts: Vec<usize> = problems.iter().map(|(host, _)| *host).collect();
    hosts.dedup();
    let message = match (hosts.as_slice(), places.len()) {
        ([host], 1) => format!("host {} cannot be used", places[*host].name),
        (hosts, all) => format!("{} of {all} hosts cannot be used", hosts.len()),
    };
    let lines = problems.iter().map(|(host, problem)| format!("{}: {}", places[*host].name, problem.line()));
    let lines: Vec<String> = lines.collect();
    Failure::service(message).cause(lines.join("\n"))
}

/// Why a host never greeted us.
pub fn connect_problem(place: &HostPlace, lost: &HostLost) -> SpecProblem {
    let text = lost.last_lines.join("\n");
    let last = lost.last_lines.iter().rev().find(|line| !line.trim().is_empty()).map(|line| line.trim().to_owned());
    if lost.how == Some(ExitKind::Code(NO_FOLDER)) && text.contains(NO_FOLDER_TEXT) {
        let message = last.unwrap_or_else(|| "there is no project folder".to_owned());
        return SpecProblem::new(
            message,
            "the project folder must be at the same place there, on a filesystem that all hosts share",
        );
    }
    if lost.how == Some(ExitKind::Code(NO_PROGRAM)) {
        let message = last.unwrap_or_else(|| "this program is missing there".to_owned());
        return SpecProblem::new(message, "`program` of the host sets the path of this program there");
    }
    if let Some((what, hint)) = place.ssh().and_then(|ssh| explain_error(ssh, &text)) {
        let last = last.map(|last| format!(": {last}")).unwrap_or_default();
        return SpecProblem::new(format!("{what}{last}"), &hint);
    }
    let ended = match lost.how {
        None => "it did not answer in time".to_owned(),
        Some(ExitKind::Code(code)) => format!("the connection ended with exit code {code}"),
        Some(_) => "the connection was ended".to_owned(),
    };
    SpecProblem::new(last.map_or_else(|| ended.clone(), |last| format!("{ended}: {last}")), "")
}

/// The failure of a stage whose host stopped responding.
pub fn lost_host_failure(place: &HostPlace, lost: &HostLost, log: &Path, when: &str) -> Failure {
    let text = lost.last_lines.join("\n");
    let explanation = place.ssh().and_then(|ssh| explain_error(ssh, &text));
    let since = lost.last_message_at.strftime("%H:%M:%S UTC");
    let message = format!(
        "connection to host {} was lost {when}: last message at {since}, {:.1} s ago",
        place.name,
        lost.since.elapsed().as_secs_f64()
    );
    let mut failure = Failure::service(message).tail(last_lines(log));
    failure.log = Some(log.to_owned());
    let last = lost.last_lines.iter().rev().find(|line| !line.trim().is_empty());
    failure = match (&explanation, last) {
        (Some((message, _)), Some(last)) => failure.cause(format!("{message}: {}", last.trim())),
        (None, Some(last)) => failure.cause(last.trim().to_owned()),
        (_, None) => failure.cause("its connection broke, or the machine is down: no messages arrive any more"),
    };
    match explanation {
        Some((_, hint)) => failure.hint(hint),
        None => failure,
    }
}

/// A host's servers failed, as the host itself reports it.
pub fn failed_host(place: &HostPlace, failure: Failure) -> Failure {
    Failure { what: format!("host {}: {}", place.name, failure.what), ..failure }
}

/// Of all logs of a host's servers: that of the first, unless only others have content.
fn last_lines(log: &Path) -> Vec<String> {
    let own_lines = process::tail(log, TAIL);
    if !own_lines.is_empty() {
        return own_lines;
    }
    (0..)
        .map(|index| log.with_extension(format!("{index}.log")))
        .take_while(|log| log.exists())
        .find_map(|log| {
            let lines = process::tail(&log, TAIL);
            (!lines.is_empty()).then_some(lines)
        })
        .unwrap_or_default()
}

// Requirements of a host: looked at by the agent, before anything starts anywhere.

/// A folder that was made a moment ago may be hidden from here for this long, by what a network filesystem remembers.
const LATENCY: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(200);

/// The programs that a stage's servers need where they run; what is in a container is the container's.
pub fn host_programs(lease: &Lease) -> Result<Vec<String>, ActionError> {
    if lease.assignment.container.is_some() {
        return Ok(Vec::new());
    }
    Ok(match read_action(&lease.task.id, &lease.assignment.action)? {
        Action::Serve(Serve::Triton(server)) if server.container.is_none() => vec![server.program.clone()],
        Action::Serve(Serve::TrtllmServe(server)) => vec![server.program.clone()],
        Action::Serve(Serve::Vllm(server)) => server.program.first().cloned().into_iter().collect(),
        Action::Serve(Serve::Command(server)) => server.words.first().cloned().into_iter().collect(),
        _ => Vec::new(),
    })
}

/// Everything that is wrong with this machine. May wait for a slow network filesystem.
pub fn host_problems(orders: &AgentOrders) -> Vec<SpecProblem> {
    let mut problems = Vec::new();
    if !appears(&orders.work.out) {
        let message = format!("{} is not the project folder of this run", orders.work.project.display());
        return vec![SpecProblem::new(
            message,
            "the project folder must exist there at the same path, on a filesystem that all hosts share",
        )];
    }
    let test = orders.work.out.join(".writable");
    if let Err(error) = fs::write(&test, "").and_then(|()| fs::remove_file(&test)) {
        let message = format!("{} cannot be written: {error}", orders.work.out.display());
        problems
            .push(SpecProblem::new(message, "the user of the ssh login needs write permission in the project folder"));
    }
    for program in &orders.programs {
        let mut look = ProcessCommand::new([program.clone()], &orders.work.out, &orders.work.log);
        if let Some(path) = orders.work.assignment.env.get("PATH") {
            look = look.set("PATH", path);
        }
        let is_path = program.contains('/');
        if !look.is_found() || (is_path && !orders.work.out.join(program).exists()) {
            let within = if is_path { String::new() } else { " in its PATH".to_owned() };
            let hint = "install it there, or name it by its whole path; a shell that is not a login shell has a \
                shorter PATH, and `env: { PATH: … }` of the stage sets it";
            problems.push(SpecProblem::new(format!("there is no `{program}`{within}"), hint));
        }
    }
    problems
}

fn appears(folder: &Path) -> bool {
    let since = Instant::now();
    loop {
        // Reading the parent makes a network filesystem look again.
        let _ = folder.parent().map(fs::read_dir);
        if folder.is_dir() {
            return true;
        }
        if since.elapsed() > LATENCY {
            return false;
        }
        std::thread::sleep(LOOK);
    }
}
