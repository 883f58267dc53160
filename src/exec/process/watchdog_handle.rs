//! The runner's side of its watchdog: starts it, keeps it informed, and starts another one if it ends too early.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;
use rustix::pipe::{PipeFlags, pipe_with};

use super::orphans;
use super::watchdog::{HOME, RUN, TASK};
use base::event::{ExternalResource, RunId};

/// What ends this many watchdogs of one run ends the next one, too.
const MOST_RESTARTS: u32 = 3;

/// The runner's end of the pipe. Dropping it without [`WatchdogHandle::finish`] lets the watchdog end everything.
#[derive(Debug)]
pub struct WatchdogHandle(Arc<Supervised>);

struct Supervised {
    exe: PathBuf,
    run: RunId,
    on_loss: Box<dyn Fn(String) + Send + Sync>,
    state: Mutex<SupervisedState>,
}

struct SupervisedState {
    process: WatchdogProcess,
    /// For the next one: stays open in each watchdog for as long as it lives.
    hold: Option<File>,
    /// What the watchdog has to end if the runner does not.
    groups: BTreeSet<i32>,
    external_resources: BTreeSet<ExternalResource>,
    restarts: u32,
    /// Its end is no loss any more.
    is_ending: bool,
}

struct WatchdogProcess {
    pipe: Option<File>,
    handle: Arc<duct::Handle>,
    pid: i32,
}

impl fmt::Debug for Supervised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Supervised({})", self.run)
    }
}

impl WatchdogHandle {
    /// Starts `exe __watchdog RUN`. `hold` stays open in the watchdog for as long as it lives. `on_loss` gets a sentence for the user
    /// when the watchdog has ended before the run; by then another one has been started, if that was possible.
    pub fn start(
        exe: &Path,
        run: &RunId,
        hold: File,
        on_loss: impl Fn(String) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let process = WatchdogProcess::start(exe, run, &hold)?;
        let state = SupervisedState {
            process,
            hold: Some(hold),
            groups: BTreeSet::new(),
            external_resources: BTreeSet::new(),
            restarts: 0,
            is_ending: false,
        };
        let supervised = Arc::new(Supervised {
            exe: exe.to_owned(),
            run: run.clone(),
            on_loss: Box::new(on_loss),
            state: Mutex::new(state),
        });
        let waiting = Arc::clone(&supervised);
        thread::Builder::new().name("watchdog".to_owned()).spawn(move || waiting.supervise())?;
        Ok(Self(supervised))
    }

    /// This run is responsible for a process group.
    pub fn add(&self, pgid: i32) {
        let mut state = self.0.state.lock();
        state.groups.insert(pgid);
        state.process.order(&format!("+{pgid}\n"));
    }

    /// The group has ended.
    pub fn remove(&self, pgid: i32) {
        let mut state = self.0.state.lock();
        state.groups.remove(&pgid);
        state.process.order(&format!("-{pgid}\n"));
    }

    /// This run is responsible for something that has no process group.
    pub fn register(&self, resource: &ExternalResource) {
        let mut state = self.0.state.lock();
        state.external_resources.insert(resource.clone());
        state.process.order_about('o', resource);
    }

    /// It is gone.
    pub fn deregister(&self, resource: &ExternalResource) {
        let mut state = self.0.state.lock();
        state.external_resources.remove(resource);
        state.process.order_about('x', resource);
    }

    /// The run has ended in order: the watchdog removes what is still registered beside process groups, and goes. Blocks until it is gone.
    pub fn finish(self) {
        let (handle, pid) = {
            let mut state = self.0.state.lock();
            state.is_ending = true;
            state.process.order("bye\n");
            state.process.pipe = None;
            state.hold = None;
            (Arc::clone(&state.process.handle), state.process.pid)
        };
        let _ = handle.wait();
        orphans::remove_awaited(pid);
    }
}

impl Drop for WatchdogHandle {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.is_ending = true;
        state.process.pipe = None;
        state.hold = None;
    }
}

impl Supervised {
    /// Waits for the end of each watchdog, and starts the next one.
    fn supervise(&self) {
        loop {
            let (handle, lost) = {
                let state = self.state.lock();
                (Arc::clone(&state.process.handle), state.process.pid)
            };
            let _ = handle.wait();
            let mut state = self.state.lock();
            if state.is_ending {
                return;
            }
            orphans::remove_awaited(lost);
            let what = format!("process {lost}, which ends everything if this run is killed, has ended");
            let next = match &state.hold {
                Some(hold) if state.restarts < MOST_RESTARTS => WatchdogProcess::start(&self.exe, &self.run, hold),
                _ => Err(io::Error::other("it has ended too often")),
            };
            state.restarts += 1;
            let (text, is_lost) = match next {
                Ok(process) => {
                    state.process = process;
                    state.inform();
                    (format!("{what}; it was started again"), false)
                }
                Err(error) => {
                    let end = "the next run would end what is left";
                    (format!("{what}, and cannot be started again ({error}): {end}"), true)
                }
            };
            // The receiver may be about to use this handle.
            drop(state);
            (self.on_loss)(text);
            if is_lost {
                return;
            }
        }
    }
}

impl SupervisedState {
    /// A new watchdog knows nothing yet.
    fn inform(&mut self) {
        for group in &self.groups {
            self.process.order(&format!("+{group}\n"));
        }
        for thing in &self.external_resources {
            self.process.order_about('o', thing);
        }
    }
}

impl WatchdogProcess {
    fn start(exe: &Path, run: &RunId, hold: &File) -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        let expression = duct::cmd(exe, ["__watchdog", run.as_str()])
            .stdin_file(read)
            .stdout_file(hold.try_clone()?)
            .stderr_null()
            .unchecked()
            .before_spawn(|command| {
                // The marks of an outer run must not make that run's watchdog end this one before it has done its work.
                for name in [HOME, RUN, TASK, orphans::MARK] {
                    command.env_remove(name);
                }
                command.process_group(0);
                Ok(())
            });
        let starting = orphans::starting();
        let handle = expression.start()?;
        let pid = handle.pids().first().map_or(0, |&pid| pid as i32);
        orphans::awaited(pid);
        drop(starting);
        Ok(Self { pipe: Some(File::from(write)), handle: Arc::new(handle), pid })
    }

    /// A watchdog that has just ended takes no order; the next one gets all that still hold.
    fn order(&self, order: &str) {
        if let Some(mut pipe) = self.pipe.as_ref() {
            let _ = pipe.write_all(order.as_bytes());
        }
    }

    fn order_about(&self, order: char, resource: &ExternalResource) {
        if let Ok(text) = serde_json::to_string(resource) {
            self.order(&format!("{order}{text}\n"));
        }
    }
}
