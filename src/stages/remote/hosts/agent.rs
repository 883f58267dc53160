//! The host's side: does the stage as it would be done at home, and ends it when its run is gone.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::super::RemoteTask;
use super::connection::host_problems;
use crate::StageExecutor;
use base::event::{Done, Endpoint, Event, Failure, RunId, Stop};
use exec::process::{WatchdogHandle, mark_descendants};
use runner::{EventEmitter, isolate_panics};
use triton::SpecProblem;

/// How long servers may drain when no run is left.
const ORPHANED: Duration = Duration::from_secs(2);

/// Sends a message to the run.
pub type AgentSender = Arc<dyn Fn(&AgentMessage) + Send + Sync>;

/// The input of an agent: the run's messages, and the channel for its answers.
pub struct AgentInput {
    pub orders: AgentOrders,
    /// Ends when the connection does.
    pub lines: UnboundedReceiver<String>,
    pub send: AgentSender,
}

/// The whole of an agent. The result of the stage has been sent when it returns.
pub async fn run_agent(input: AgentInput) {
    let AgentInput { orders, mut lines, send } = input;
    let looked = orders.clone();
    let looking = tokio::task::spawn_blocking(move || host_problems(&looked));
    let Ok(problems) = looking.await else { return };
    let is_fine = problems.is_empty();
    send(&AgentMessage::Hello(problems));
    let stop = Stop::new();
    if !is_fine || !wait_for_go(&mut lines, &send).await {
        return send(&AgentMessage::Ended(Box::new(Ok(Done::default()))));
    }
    let watchdog = Arc::new(Mutex::new(start_watchdog(&orders, &send)));
    let emit: EventEmitter = {
        let (send, watchdog) = (Arc::clone(&send), Arc::clone(&watchdog));
        Arc::new(move |event| take(event, &watchdog, &send))
    };
    let how = tokio::select! {
        how = perform(&orders, &stop, emit, &send) => how,
        never = watch(&orders, &mut lines, &stop, &send) => match never {},
    };
    let ended = watchdog.lock().take();
    if let Some(watchdog) = ended {
        watchdog.finish();
    }
    send(&AgentMessage::Ended(Box::new(how)));
}

/// Until then others may still turn out to be unusable.
async fn wait_for_go(lines: &mut UnboundedReceiver<String>, send: &AgentSender) -> bool {
    let mut beat = interval(BEAT_INTERVAL);
    let mut deserted = Instant::now() + DESERTED;
    loop {
        tokio::select! {
            line = lines.recv() => match line.as_deref() {
                Some(GO) => return true,
                Some(BEAT) => deserted = Instant::now() + DESERTED,
                _ => return false,
            },
            _ = beat.tick() => send(&AgentMessage::Beat),
            () = sleep_until(deserted) => return false,
        }
    }
}

/// Ends everything that carries our name, should we be killed.
fn start_watchdog(orders: &AgentOrders, send: &AgentSender) -> Option<WatchdogHandle> {
    let program = std::env::current_exe().ok()?;
    let hold = File::options().write(true).open("/dev/null").ok()?;
    let send = Arc::clone(send);
    let on_loss = move |text| send(&AgentMessage::Event(Event::Notice { task: None, text }));
    let name = RunId::new(orders.name.clone());
    mark_descendants(Path::new(""), &name);
    WatchdogHandle::start(&program, &name, hold, on_loss).ok()
}

/// Its processes concern only this machine; messages for the run are passed on.
fn take(event: Event, watchdog: &Mutex<Option<WatchdogHandle>>, send: &AgentSender) {
    if let Some(watchdog) = &*watchdog.lock() {
        watchdog.follow(&event);
    }
    if matches!(event, Event::Notice { .. } | Event::Progress { .. }) {
        send(&AgentMessage::Event(event));
    }
}

async fn perform(orders: &AgentOrders, stop: &Stop, emit: EventEmitter, send: &AgentSender) -> Result<Done, Failure> {
    let (ready, receiver) = oneshot::channel();
    let lease = orders.work.lease(stop, Some(ready), emit)?;
    let sender = Arc::clone(send);
    tokio::spawn(async move {
        if let Ok(endpoints) = receiver.await {
            sender(&AgentMessage::Ready(endpoints));
        }
    });
    // Its processes are marked with a name of their own: no run that cleans up after itself may take them for its own.
    let stages = StageExecutor::new(&orders.work.out, RunId::new(orders.name.clone()));
    isolate_panics(async move { stages.run_locally(lease).await }).await
}

/// Everything that may end the servers from outside. Never resolves: it pulls `stop`.
async fn watch(
    orders: &AgentOrders,
    lines: &mut UnboundedReceiver<String>,
    stop: &Stop,
    send: &AgentSender,
) -> std::convert::Infallible {
    let mut beat = interval(BEAT_INTERVAL);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut deserted = Instant::now() + DESERTED;
    loop {
        tokio::select! {
            line = lines.recv() => match line.as_deref() {
                Some(STOP) => stop.request(),
                Some(KILL) => stop.now(),
                Some(_) => {}
                None => return stop_after_disconnect(orders, stop, "its connection to the run has ended").await,
            },
            _ = beat.tick() => {
                send(&AgentMessage::Beat);
                continue;
            }
            () = sleep_until(deserted) => {
                let reason = format!("it has heard nothing from the run for {} s", DESERTED.as_secs());
                return stop_after_disconnect(orders, stop, &reason).await;
            }
        }
        deserted = Instant::now() + DESERTED;
    }
}

/// No run is left: the servers have a moment to end, and no longer.
async fn stop_after_disconnect(orders: &AgentOrders, stop: &Stop, why: &str) -> std::convert::Infallible {
    if let Ok(mut log) = File::options().append(true).create(true).open(&orders.work.log) {
        // The log is all that the user will see of it.
        let _ = writeln!(log, "regatta: {why}, so its servers are ended");
    }
    stop.request();
    tokio::time::sleep(ORPHANED).await;
    stop.now();
    std::future::pending().await
}

// Intervals of the heartbeats between a run and its hosts.

/// Interval of each side's heartbeats.
pub(super) const BEAT_INTERVAL: Duration = Duration::from_secs(1);

/// A host that has sent nothing for this long is lost.
pub(super) const SILENT: Duration = Duration::from_secs(5);

/// An agent that has received nothing for this long has lost its run.
pub(super) const DESERTED: Duration = Duration::from_secs(8);

// The protocol between run and agent, a JSON line each.

/// The second line that an agent reads: everything that it needs. The first is its environment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AgentOrders {
    /// `<run>.<task>.<attempt>.<host>`: nothing else has this name, and all its processes carry it.
    pub name: String,
    /// Its folder and its log are of this host alone.
    #[serde(flatten)]
    pub work: RemoteTask,
    /// Programs that must be found there.
    pub programs: Vec<String>,
}

/// A line of an agent's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentMessage {
    /// It is there; what keeps it from starting anything.
    Hello(Vec<SpecProblem>),
    /// It is still there.
    Beat,
    #[serde(alias = "told")]
    Event(Event),
    /// Its servers are up. Names of its machine are those that it has for itself.
    Ready(Vec<Endpoint>),
    /// All has finished there, and nothing runs any more.
    Ended(Box<Result<Done, Failure>>),
}

/// The run's messages after the orders, each a line.
pub const GO: &str = "go";
pub const BEAT: &str = "beat";
pub const STOP: &str = "stop";
pub const KILL: &str = "kill";
