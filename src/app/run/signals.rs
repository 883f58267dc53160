//! What the first Ctrl-C does, and what another one does.

use std::sync::Arc;
use std::{io, thread};

use futures_util::future::OptionFuture;
use parking_lot::Mutex;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::CliExit;
use crate::console::print_error;
use base::event::{Event, Stop};
use base::files::read_text;

/// The requests to stop (SIGINT, SIGTERM, SIGHUP) of one command, for all its runs: one that comes between two of them,
/// or while the next one is prepared, ends that.
#[derive(Clone, Default)]
pub struct StopSignals {
    stop: Stop,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    /// The handlers stay until the process ends.
    are_installed: bool,
    /// Of the run that is in progress.
    answer: Option<Answer>,
}

/// What a run does about a signal.
struct Answer {
    /// About the first one; returns the event to report. Usually [`interrupt`].
    first: Box<dyn Fn(&Stop) -> Event + Send>,
    send: Box<dyn Fn(Event) + Send>,
}

/// Until it is dropped, a run answers the signals.
pub(super) struct Attached<'a>(&'a StopSignals);

impl Drop for Attached<'_> {
    fn drop(&mut self) {
        self.0.shared.lock().answer = None;
    }
}

impl StopSignals {
    /// Nothing is handled before the first run: until then a signal ends the process.
    pub fn new() -> Self {
        Self::default()
    }

    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// From now on a signal does this. Once: `first`. Twice: kill what runs. A third time: exit; the watchdog ends the
    /// rest. On a thread of its own, so that it takes effect while the loop reads something large or waits for the
    /// lock.
    pub(super) fn answer(
        &self,
        first: impl Fn(&Stop) -> Event + Send + 'static,
        send: impl Fn(Event) + Send + 'static,
    ) -> io::Result<Attached<'_>> {
        let mut shared = self.shared.lock();
        shared.answer = Some(Answer { first: Box::new(first), send: Box::new(send) });
        let attached = Attached(self);
        let are_installed = shared.are_installed;
        // It is taken again where `attached` ends because of an error.
        drop(shared);
        if !are_installed {
            self.install()?;
            self.shared.lock().are_installed = true;
        }
        Ok(attached)
    }

    fn install(&self) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        // A command that `nohup` started is to outlive its terminal.
        let is_hangup_ignored =
            ignored_signals().is_some_and(|mask| mask & (1 << (SignalKind::hangup().as_raw_value() - 1)) != 0);
        let (int, term, hup) = {
            let _inside = runtime.enter();
            let hangup = || signal(SignalKind::hangup());
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?, (!is_hangup_ignored).then(hangup))
        };
        let streams = (int, term, hup.transpose()?);
        let signals = self.clone();
        let handle = move || runtime.block_on(signals.handle(streams));
        thread::Builder::new().name("signals".to_owned()).spawn(handle).map(drop)
    }

    async fn handle(self, streams: (Signal, Signal, Option<Signal>)) {
        let (mut int, mut term, mut hup) = streams;
        for count in 1.. {
            tokio::select! {
                _ = int.recv() => {}
                _ = term.recv() => {}
                Some(_) = OptionFuture::from(hup.as_mut().map(Signal::recv)) => {}
            }
            self.act(count);
        }
    }

    /// About the signal with this number.
    fn act(&self, count: u32) {
        let shared = self.shared.lock();
        match (&shared.answer, count) {
            (Some(run), 1) => (run.send)((run.first)(&self.stop)),
            (Some(run), 2) => {
                self.stop.now();
                (run.send)(stopping("killing what runs"));
            }
            (None, 1) => {
                self.stop.request();
                print_event(&stopping("interrupted; Ctrl-C again exits at once"));
            }
            _ => exit_interrupted(),
        }
    }
}

/// The signals that this process ignores, as the kernel shows them: bit 0 is number 1.
fn ignored_signals() -> Option<u64> {
    let status = read_text("/proc/self/status").ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

/// Stops starting, and ends what runs.
pub(super) fn interrupt(stop: &Stop) -> Event {
    stop.request();
    stopping("interrupted; Ctrl-C again kills what is still running")
}

fn stopping(why: &str) -> Event {
    Event::Stopping { why: why.to_owned() }
}

/// Where no display of a run shows it.
pub(super) fn print_event(event: &Event) {
    match event {
        Event::Notice { text, .. } => print_error(&format!("! {text}\n")),
        Event::Stopping { why } => print_error(&format!("! stopping: {why}\n")),
        _ => {}
    }
}

#[expect(clippy::exit, reason = "third request to stop: exiting now; the watchdog ends the remaining processes")]
fn exit_interrupted() -> ! {
    std::process::exit(i32::from(CliExit::Interrupted.code()))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn one_stop_is_that_of_all_runs_and_of_what_is_between_them() {
        let signals = StopSignals::new();
        let (send, receive) = channel();
        let attached = |signals: &StopSignals| {
            let send = send.clone();
            signals.shared.lock().answer =
                Some(Answer { first: Box::new(interrupt), send: Box::new(move |event| send.send(event).unwrap()) });
        };
        // The first run ends before the signal comes, and does not answer for the second one.
        attached(&signals);
        drop(Attached(&signals));
        signals.act(1);
        assert!(receive.try_recv().is_err());
        assert!(signals.stop().is_requested() && !signals.stop().is_hard_requested());
        attached(&signals);
        signals.act(2);
        assert_eq!(receive.recv().unwrap(), stopping("killing what runs"));
        assert!(signals.stop().is_hard_requested());
    }
}
