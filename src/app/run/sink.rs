//! Where every event of a run goes.

use std::env;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use parking_lot::Mutex;

use crate::app::error::CommandError;
use crate::event::{Event, RunId, Stop};
use crate::exec::process::WatchdogHandle;
use crate::report::RunState;
use crate::runner::store::{Journal, PathError, ProgressFile, ProjectLock, StateFolder};

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
        teller: Sender<Option<Event>>,
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
        Ok(Self { inner: Mutex::new(inner), printer: teller, stop, exe: env::current_exe()?, id: id.clone() })
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
            match event {
                Event::TaskStarted { .. } => {
                    if let Some(hold) = inner.hold.take() {
                        let printer = self.printer.clone();
                        let on_loss = move |text| drop(printer.send(Some(Event::Notice { task: None, text })));
                        inner.watchdog = WatchdogHandle::start(&self.exe, &self.id, hold, on_loss).ok();
                    }
                }
                Event::ProcessStarted { pgid, .. } => {
                    if let Some(warden) = &inner.watchdog {
                        warden.add(*pgid);
                    }
                }
                Event::ProcessEnded { pgid, .. } => {
                    if let Some(warden) = &inner.watchdog {
                        warden.remove(*pgid);
                    }
                }
                Event::OutlivingStarted { outliving, .. } => {
                    if let Some(warden) = &inner.watchdog {
                        warden.register(outliving);
                    }
                }
                Event::OutlivingRemoved { outliving, .. } => {
                    if let Some(warden) = &inner.watchdog {
                        warden.deregister(outliving);
                    }
                }
                _ => {}
            }
        }
        let _ = self.printer.send(Some(event.clone()));
    }

    /// The run has ended normally. Returns the error of the journal, if any.
    pub fn finish(&self) -> Option<PathError> {
        let mut inner = self.inner.lock();
        inner.hold = None;
        inner.progress.remove();
        if let Some(warden) = inner.watchdog.take() {
            warden.finish();
        }
        inner.broken.take()
    }
}
