//! Where every event of a run goes.

use std::env;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use parking_lot::Mutex;

use crate::error::CommandError;
use base::event::{Event, RunId, Stop};
use exec::process::WatchdogHandle;
use report::RunState;
use runner::store::{Journal, PathError, ProgressFile, ProjectLock, StateFolder};

/// The journal first, then the watchdog, then the display.
pub(super) struct EventSink {
    inner: Mutex<Inner>,
    printer: Sender<Option<Event>>,
    stop: Stop,
    exe: PathBuf,
    id: RunId,
}

struct Inner {
    journal: Journal,
    progress: ProgressFile,
    watchdog: Option<WatchdogHandle>,
    hold: Option<File>,
    broken: Option<PathError>,
    /// Folded for `--metrics-listen`.
    scraped: Option<Arc<Mutex<RunState>>>,
}

impl EventSink {
    pub fn new(
        home: &StateFolder,
        id: &RunId,
        lock: &ProjectLock,
        printer: Sender<Option<Event>>,
        stop: Stop,
        scraped: Option<Arc<Mutex<RunState>>>,
    ) -> Result<Self, CommandError> {
        let inner = Inner {
            journal: Journal::create(home, id)?,
            progress: ProgressFile::new(home, id),
            watchdog: None,
            hold: Some(lock.share()?),
            broken: None,
            scraped,
        };
        Ok(Self { inner: Mutex::new(inner), printer, stop, exe: env::current_exe()?, id: id.clone() })
    }

    pub fn take(&self, event: &Event) {
        {
            let mut inner = self.inner.lock();
            if let Err(error) = inner.journal.append(event) {
                // What is not journaled must not continue to happen.
                inner.broken.get_or_insert(error);
                self.stop.request();
            }
            inner.progress.take(event);
            if let Some(state) = &inner.scraped {
                state.lock().fold(event);
            }
            if matches!(event, Event::TaskStarted { .. })
                && let Some(hold) = inner.hold.take()
            {
                let printer = self.printer.clone();
                let on_loss = move |text| drop(printer.send(Some(Event::Notice { task: None, text })));
                match WatchdogHandle::start(&self.exe, &self.id, hold, on_loss.clone()) {
                    Ok(watchdog) => inner.watchdog = Some(watchdog),
                    Err(error) => on_loss(format!(
                        "the process that ends everything if this run is killed cannot be started ({error}): \
                         the next run would end what is left"
                    )),
                }
            }
            if let Some(watchdog) = &inner.watchdog {
                watchdog.follow(event);
            }
        }
        let _ = self.printer.send(Some(event.clone()));
    }

    /// Whether the journal could not be written.
    pub fn is_broken(&self) -> bool {
        self.inner.lock().broken.is_some()
    }

    /// The run has ended normally. Returns the error of the journal, if any.
    pub fn finish(&self) -> Option<PathError> {
        let (watchdog, broken) = {
            let mut inner = self.inner.lock();
            inner.hold = None;
            inner.progress.remove();
            (inner.watchdog.take(), inner.broken.take())
        };
        // It may wait for a container program: events go on meanwhile.
        if let Some(watchdog) = watchdog {
            watchdog.finish();
        }
        broken
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use base::event::TaskId;
    use runner::store::LockAttempt;

    #[test]
    fn a_run_without_a_watchdog_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let home = StateFolder::new(folder.path().into(), folder.path().join(".regatta"));
        let id = RunId::new("r");
        let LockAttempt::Acquired(lock) = ProjectLock::try_take(&home, || Ok(id.clone())).unwrap() else { panic!() };
        let (send, receive) = mpsc::channel();
        let Ok(mut sink) = EventSink::new(&home, &id, &lock, send, Stop::new(), None) else { panic!() };
        sink.exe = folder.path().join("absent");
        let task = TaskId::new("a");
        sink.take(&Event::TaskStarted { task, attempt: 1, service: false, reasons: Vec::new(), log: None });
        let Ok(Some(Event::Notice { text, .. })) = receive.recv() else { panic!("no notice") };
        assert!(text.contains("cannot be started"), "{text}");
    }
}
