//! The connection to one host: the messages in both directions, and how its loss is detected.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{MissedTickBehavior, interval};

use super::heartbeat::{BEAT, SILENT};
use super::spec;
use super::spec::{AgentMessage, AgentOrders, HostProblem};
use crate::event::{Done, Endpoint, Event, Failure, Stop, TaskId};
use crate::exec::process::{How, LineReader, LineWriter, ProcessCommand, ProcessExit, Running, tail};

/// To log in, to load this program, and to look around on a slow filesystem.
const GREETING: Duration = Duration::from_secs(40);
/// How long ssh may take to end after the last message.
const LEAVES: Duration = Duration::from_secs(3);
/// How long a guard may take to kill what it has.
const KILLS: Duration = Duration::from_secs(15);
/// How many of a connection's last lines are kept.
const LAST_WORDS: usize = 20;

/// What a host's link reports to the coordinator.
pub enum HostEvent {
    Hello(Vec<HostProblem>),
    Told(Event),
    Ready(Vec<Endpoint>),
    /// The last: all has finished there.
    Ended(Box<Result<Done, Failure>>),
    /// The last: the state of the host is unknown.
    Lost(HostLost),
}

/// A host that does not respond any more.
#[derive(Clone, Debug)]
pub struct HostLost {
    pub heard: Timestamp,
    pub since: Instant,
    /// How the connection ended, if it did.
    pub how: Option<How>,
    /// The last messages of ssh or srun.
    pub words: Vec<String>,
    /// It had greeted us, so there may be something to end.
    pub was_greeted: bool,
}

/// What the coordinator sends through a link.
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
    /// What the guard's environment has beyond that of a login there: secrets, too.
    pub env: BTreeMap<String, String>,
    /// Of the connection; its log holds its last messages.
    pub command: ProcessCommand,
    pub task: TaskId,
    pub emit: std::sync::Arc<dyn Fn(Event) + Send + Sync>,
    pub heeds: UnboundedReceiver<HostCommand>,
    pub news: UnboundedSender<(usize, HostEvent)>,
}

impl HostConnection {
    pub async fn live(mut self) {
        let words: PathBuf = self.command.log.clone();
        let mut running = match Running::start(self.command.clone()) {
            Ok(running) => running,
            Err(error) => {
                return self.tell(HostEvent::Lost(HostLost::new(None, vec![error.to_string()])));
            }
        };
        let pgid = running.pgid();
        (self.emit)(Event::ProcessStarted { task: self.task.clone(), pgid });
        let ending = self.talk(&mut running).await;
        // A process that is still there sees the end of its standard input.
        let exit = leave(running, &ending).await;
        (self.emit)(Event::ProcessEnded { task: self.task.clone(), pgid });
        let last = match ending {
            Ending::Ended(how) => HostEvent::Ended(how),
            Ending::Lost { heard, since, was_greeted } => {
                let how = exit.filter(|exit| exit.how != How::Stopped).map(|exit| exit.how);
                HostEvent::Lost(HostLost { heard, since, how, words: tail(&words, LAST_WORDS), was_greeted })
            }
        };
        self.tell(last);
    }

    fn tell(&self, news: HostEvent) {
        // A coordinator that is gone has no use for it.
        let _ = self.news.send((self.index, news));
    }

    async fn talk(&mut self, running: &mut Running) -> Ending {
        let mut ear = Ear { heard: Timestamp::now(), since: Instant::now(), was_greeted: false, ended: None };
        let Some((say, mut hear)) = running.talk() else { return ear.lost() };
        let mouth = speak(say);
        let [env, orders] = [serde_json::to_string(&self.env), serde_json::to_string(&self.orders)];
        for line in [env, orders].into_iter().flatten() {
            let _ = mouth.send(line);
        }
        let mut beat = interval(BEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut killed: Option<Instant> = None;
        let (mut is_open, mut is_heeding) = (true, true);
        loop {
            tokio::select! {
                biased;
                _ = running.ended() => {
                    for line in hear.rest() {
                        self.hear(&line, &mut ear);
                    }
                    return ear.ending();
                }
                line = hear.line(), if is_open => match line {
                    Some(line) => self.hear(&line, &mut ear),
                    None => is_open = false,
                },
                order = self.heeds.recv(), if is_heeding => match order {
                    Some(HostCommand::Go) => drop(mouth.send(spec::GO.to_owned())),
                    // Nothing has started there, and nothing will without a command from us.
                    Some(HostCommand::Stop) if !ear.was_greeted => return ear.lost(),
                    Some(HostCommand::Stop) => drop(mouth.send(spec::STOP.to_owned())),
                    killing @ (Some(HostCommand::Kill) | None) => {
                        is_heeding = killing.is_some();
                        killed.get_or_insert_with(Instant::now);
                        let _ = mouth.send(spec::KILL.to_owned());
                    }
                },
                _ = beat.tick() => {
                    let _ = mouth.send(spec::BEAT.to_owned());
                    // The delay may be on our side: read what has arrived before judging.
                    self.listen(&mut hear, &mut ear);
                    let patience = if ear.was_greeted { SILENT } else { GREETING };
                    if ear.since.elapsed() > patience || killed.is_some_and(|at| at.elapsed() > KILLS) {
                        return ear.lost();
                    }
                }
            }
            if ear.ended.is_some() {
                return ear.ending();
            }
        }
    }

    fn listen(&self, hear: &mut LineReader, ear: &mut Ear) {
        for line in hear.rest() {
            self.hear(&line, ear);
        }
    }

    fn hear(&self, line: &str, ear: &mut Ear) {
        // For example a shell's own greeting.
        let Ok(said) = serde_json::from_str::<AgentMessage>(line) else { return };
        (ear.heard, ear.since) = (Timestamp::now(), Instant::now());
        match said {
            AgentMessage::Beat => {}
            AgentMessage::Hello(problems) => {
                ear.was_greeted = true;
                self.tell(HostEvent::Hello(problems));
            }
            AgentMessage::Told(event) => self.tell(HostEvent::Told(event)),
            AgentMessage::Ready(endpoints) => self.tell(HostEvent::Ready(endpoints)),
            AgentMessage::Ended(how) => ear.ended = Some(how),
        }
    }
}

impl HostLost {
    /// A host that never responded.
    pub fn new(how: Option<How>, words: Vec<String>) -> Self {
        Self { heard: Timestamp::now(), since: Instant::now(), how, words, was_greeted: false }
    }
}

/// What was received so far.
struct Ear {
    heard: Timestamp,
    since: Instant,
    was_greeted: bool,
    ended: Option<Box<Result<Done, Failure>>>,
}

impl Ear {
    fn ending(&mut self) -> Ending {
        match self.ended.take() {
            Some(how) => Ending::Ended(how),
            None => self.lost(),
        }
    }

    const fn lost(&self) -> Ending {
        Ending::Lost { heard: self.heard, since: self.since, was_greeted: self.was_greeted }
    }
}

enum Ending {
    Ended(Box<Result<Done, Failure>>),
    Lost { heard: Timestamp, since: Instant, was_greeted: bool },
}

/// Writes lines in a task of its own: a connection that takes none must not keep us from reading. Ends with its sender.
fn speak(mut say: LineWriter) -> UnboundedSender<String> {
    let (send, mut lines) = unbounded_channel::<String>();
    tokio::spawn(async move {
        while let Some(line) = lines.recv().await {
            if say.line(&line).await.is_err() {
                return;
            }
        }
    });
    send
}

/// Lets the connection end by itself where it can. `None`: it had to be ended.
async fn leave(mut running: Running, ending: &Ending) -> Option<ProcessExit> {
    let patience = if matches!(ending, Ending::Ended(_)) { LEAVES } else { Duration::ZERO };
    if tokio::time::timeout(patience, running.ended()).await.is_ok() {
        return Some(running.wait().await);
    }
    running.stop(LEAVES, &Stop::new()).await;
    None
}
