//! The connection to one host: the messages in both directions, and how its loss is detected.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{MissedTickBehavior, interval};

use super::agent_protocol;
use super::agent_protocol::{AgentMessage, AgentOrders, HostProblem};
use super::heartbeat::{BEAT, SILENT};
use base::event::{Done, Endpoint, Event, Failure, Stop, TaskId};
use exec::process::{ExitKind, LineReader, LineWriter, ProcessCommand, ProcessExit, Running, tail};

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
    Hello(Vec<HostProblem>),
    Event(Event),
    Ready(Vec<Endpoint>),
    /// The last: all has finished there.
    Ended(Box<Result<Done, Failure>>),
    /// The last: the state of the host is unknown.
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
    pub emit: std::sync::Arc<dyn Fn(Event) + Send + Sync>,
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
        let ending = self.exchange_lines(&mut running).await;
        // A process that is still there sees the end of its standard input.
        let exit = close(running, &ending).await;
        (self.emit)(Event::ProcessEnded { task: self.task.clone(), pgid });
        let last = match ending {
            ConnectionEnd::Ended(how) => HostEvent::Ended(how),
            ConnectionEnd::Lost { last_message_at, since, was_greeted } => {
                let how = exit.filter(|exit| exit.how != ExitKind::Stopped).map(|exit| exit.how);
                HostEvent::Lost(HostLost {
                    last_message_at,
                    since,
                    how,
                    last_lines: tail(&words, LAST_WORDS),
                    was_greeted,
                })
            }
        };
        self.send_event(last);
    }

    fn send_event(&self, news: HostEvent) {
        // A coordinator that is gone has no use for it.
        let _ = self.events.send((self.index, news));
    }

    async fn exchange_lines(&mut self, running: &mut Running) -> ConnectionEnd {
        let mut received_state = ReceivedState {
            last_message_at: Timestamp::now(),
            since: Instant::now(),
            has_handshake: false,
            ended: None,
        };
        let Some((writer, mut reader)) = running.take_pipes() else { return received_state.lost() };
        let outgoing = spawn_writer(writer);
        let [env, orders] = [serde_json::to_string(&self.env), serde_json::to_string(&self.orders)];
        for line in [env, orders].into_iter().flatten() {
            let _ = outgoing.send(line);
        }
        let mut beat = interval(BEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut killed: Option<Instant> = None;
        let (mut is_open, mut has_commands) = (true, true);
        loop {
            tokio::select! {
                biased;
                _ = running.ended() => {
                    for line in reader.rest() {
                        self.handle_line(&line, &mut received_state);
                    }
                    return received_state.ending();
                }
                line = reader.line(), if is_open => match line {
                    Some(line) => self.handle_line(&line, &mut received_state),
                    None => is_open = false,
                },
                order = self.commands.recv(), if has_commands => match order {
                    Some(HostCommand::Go) => drop(outgoing.send(agent_protocol::GO.to_owned())),
                    // Nothing has started there, and nothing will without a command from us.
                    Some(HostCommand::Stop) if !received_state.has_handshake => return received_state.lost(),
                    Some(HostCommand::Stop) => drop(outgoing.send(agent_protocol::STOP.to_owned())),
                    killing @ (Some(HostCommand::Kill) | None) => {
                        has_commands = killing.is_some();
                        killed.get_or_insert_with(Instant::now);
                        let _ = outgoing.send(agent_protocol::KILL.to_owned());
                    }
                },
                _ = beat.tick() => {
                    let _ = outgoing.send(agent_protocol::BEAT.to_owned());
                    // The delay may be on our side: read what has arrived before judging.
                    self.drain_lines(&mut reader, &mut received_state);
                    let patience = if received_state.has_handshake { SILENT } else { HANDSHAKE };
                    if received_state.since.elapsed() > patience || killed.is_some_and(|at| at.elapsed() > KILLS) {
                        return received_state.lost();
                    }
                }
            }
            if received_state.ended.is_some() {
                return received_state.ending();
            }
        }
    }

    fn drain_lines(&self, reader: &mut LineReader, received_state: &mut ReceivedState) {
        for line in reader.rest() {
            self.handle_line(&line, received_state);
        }
    }

    fn handle_line(&self, line: &str, received_state: &mut ReceivedState) {
        // For example a shell's own greeting.
        let Ok(message) = serde_json::from_str::<AgentMessage>(line) else { return };
        (received_state.last_message_at, received_state.since) = (Timestamp::now(), Instant::now());
        match message {
            AgentMessage::Beat => {}
            AgentMessage::Hello(problems) => {
                received_state.has_handshake = true;
                self.send_event(HostEvent::Hello(problems));
            }
            AgentMessage::Event(event) => self.send_event(HostEvent::Event(event)),
            AgentMessage::Ready(endpoints) => self.send_event(HostEvent::Ready(endpoints)),
            AgentMessage::Ended(how) => received_state.ended = Some(how),
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
    last_message_at: Timestamp,
    since: Instant,
    has_handshake: bool,
    ended: Option<Box<Result<Done, Failure>>>,
}

impl ReceivedState {
    fn ending(&mut self) -> ConnectionEnd {
        match self.ended.take() {
            Some(how) => ConnectionEnd::Ended(how),
            None => self.lost(),
        }
    }

    const fn lost(&self) -> ConnectionEnd {
        ConnectionEnd::Lost {
            last_message_at: self.last_message_at,
            since: self.since,
            was_greeted: self.has_handshake,
        }
    }
}

enum ConnectionEnd {
    Ended(Box<Result<Done, Failure>>),
    Lost { last_message_at: Timestamp, since: Instant, was_greeted: bool },
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
async fn close(mut running: Running, ending: &ConnectionEnd) -> Option<ProcessExit> {
    let patience = if matches!(ending, ConnectionEnd::Ended(_)) { LEAVES } else { Duration::ZERO };
    if tokio::time::timeout(patience, running.ended()).await.is_ok() {
        return Some(running.wait().await);
    }
    running.stop(LEAVES, &Stop::new()).await;
    None
}
