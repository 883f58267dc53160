//! The host's side: does the stage as it would be done at home, and ends it when its run is gone.

use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::super::slurm::devices;
use super::agent_protocol::{AgentMessage, AgentOrders, BEAT, GO, KILL, STOP};
use super::handshake;
use super::heartbeat;
use crate::StageExecutor;
use base::event::{Done, Event, Failure, RunId, Stop};
use exec::process::WatchdogHandle;
use runner::{Lease, isolate_panics};

/// How long servers may drain when no run is left.
const ORPHANED: Duration = Duration::from_secs(2);

/// The input of an agent: the run's messages, and the channel for its answers.
pub struct AgentInput {
    pub orders: AgentOrders,
    /// Ends when the connection does.
    pub lines: UnboundedReceiver<String>,
    pub send: Arc<dyn Fn(&AgentMessage) + Send + Sync>,
}

/// The whole of an agent. The result of the stage has been sent when it returns.
pub async fn run_agent(input: AgentInput) {
    let AgentInput { orders, mut lines, send } = input;
    let looked = orders.clone();
    let looking = tokio::task::spawn_blocking(move || handshake::problems(&looked));
    let Ok(problems) = looking.await else { return };
    let is_fine = problems.is_empty();
    send(&AgentMessage::Hello(problems));
    let stop = Stop::new();
    if !is_fine || !wait_for_go(&mut lines, &send).await {
        return send(&AgentMessage::Ended(Box::new(Ok(Done::default()))));
    }
    let watchdog = Arc::new(Mutex::new(start_watchdog(&orders, &send)));
    let emit: Arc<dyn Fn(Event) + Send + Sync> = {
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
async fn wait_for_go(lines: &mut UnboundedReceiver<String>, send: &Arc<dyn Fn(&AgentMessage) + Send + Sync>) -> bool {
    let mut beat = interval(heartbeat::BEAT);
    let mut deserted = Instant::now() + heartbeat::DESERTED;
    loop {
        tokio::select! {
            line = lines.recv() => match line.as_deref() {
                Some(GO) => return true,
                Some(BEAT) => deserted = Instant::now() + heartbeat::DESERTED,
                _ => return false,
            },
            _ = beat.tick() => send(&AgentMessage::Beat),
            () = sleep_until(deserted) => return false,
        }
    }
}

/// Ends everything that carries our name, should we be killed.
fn start_watchdog(orders: &AgentOrders, send: &Arc<dyn Fn(&AgentMessage) + Send + Sync>) -> Option<WatchdogHandle> {
    let program = std::env::current_exe().ok()?;
    let hold = File::options().write(true).open("/dev/null").ok()?;
    let send = Arc::clone(send);
    let on_loss = move |text| send(&AgentMessage::Event(Event::Notice { task: None, text }));
    WatchdogHandle::start(&program, &RunId::new(orders.name.clone()), hold, on_loss).ok()
}

/// Its processes concern only this machine; messages for the run are passed on.
fn take(event: Event, watchdog: &Mutex<Option<WatchdogHandle>>, send: &Arc<dyn Fn(&AgentMessage) + Send + Sync>) {
    if let Some(watchdog) = &*watchdog.lock() {
        match &event {
            Event::ProcessStarted { pgid, .. } => watchdog.add(*pgid),
            Event::ProcessEnded { pgid, .. } => watchdog.remove(*pgid),
            Event::ExternalResourceStarted { resource, .. } => watchdog.register(resource),
            Event::ExternalResourceRemoved { resource, .. } => watchdog.deregister(resource),
            _ => {}
        }
    }
    if matches!(event, Event::Notice { .. } | Event::Progress { .. }) {
        send(&AgentMessage::Event(event));
    }
}

async fn perform(
    orders: &AgentOrders,
    stop: &Stop,
    emit: Arc<dyn Fn(Event) + Send + Sync>,
    send: &Arc<dyn Fn(&AgentMessage) + Send + Sync>,
) -> Result<Done, Failure> {
    let (ready, receiver) = oneshot::channel();
    let origins = orders.origins.clone();
    let lease = Lease {
        task: orders.task.clone().into(),
        attempt: orders.attempt,
        assignment: orders.assignment.clone(),
        out: orders.out.clone(),
        log: orders.log.clone(),
        project: orders.project.clone(),
        gpus: devices(orders.task.gpus, std::env::var("CUDA_VISIBLE_DEVICES").ok().as_deref())?,
        lowered: orders.lowered.clone(),
        batch_slot: None,
        stop: stop.clone(),
        ready: Some(ready),
        emit,
        origins: Arc::new(move || origins.clone()),
    };
    let sender = Arc::clone(send);
    tokio::spawn(async move {
        if let Ok(endpoints) = receiver.await {
            sender(&AgentMessage::Ready(endpoints));
        }
    });
    // Its processes are marked with a name of their own: no run that cleans up after itself may take them for its own.
    let stages = StageExecutor::new(&orders.out, RunId::new(orders.name.clone()));
    isolate_panics(async move { stages.run_locally(lease).await }).await
}

/// Everything that may end the servers from outside. Never resolves: it pulls `stop`.
async fn watch(
    orders: &AgentOrders,
    lines: &mut UnboundedReceiver<String>,
    stop: &Stop,
    send: &Arc<dyn Fn(&AgentMessage) + Send + Sync>,
) -> std::convert::Infallible {
    let mut beat = interval(heartbeat::BEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut deserted = Instant::now() + heartbeat::DESERTED;
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
                let why = format!("it has heard nothing of the run for {} s", heartbeat::DESERTED.as_secs());
                return stop_after_disconnect(orders, stop, &why).await;
            }
        }
        deserted = Instant::now() + heartbeat::DESERTED;
    }
}

/// No run is left: the servers have a moment to end, and no longer.
async fn stop_after_disconnect(orders: &AgentOrders, stop: &Stop, why: &str) -> std::convert::Infallible {
    if let Ok(mut log) = File::options().append(true).create(true).open(&orders.log) {
        // The log is all that the user will see of it.
        let _ = writeln!(log, "regatta: {why}, so its servers are ended");
    }
    stop.request();
    tokio::time::sleep(ORPHANED).await;
    stop.now();
    std::future::pending().await
}
