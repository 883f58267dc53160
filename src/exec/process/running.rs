//! A command that runs.
//!
//! Waiting costs no thread: the kernel's handle for the process (`pidfd`) becomes readable when it ends. Output goes
//! straight into the log file, unless there are secrets or copies of it; then it comes through a pipe that is read
//! here. The end of that pipe is never awaited, because a background process may hold it open.

use std::fs::File;
use std::io::{IsTerminal as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

use duct::Handle;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{DumpableBehavior, Pid, PidfdFlags, Signal, pidfd_open, set_dumpable_behavior};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe::Receiver;

use super::command::{ExitKind, ProcessCommand, ProcessExit, SpawnError};
use super::private_values::Redactor;
use super::process_ref::ProcessGroup;
use super::query::{LineReader, LineWriter};
use super::{log, orphans};
use base::event::Stop;

/// The variable with the key that signs outputs. Where it has the text of a key, not a path, commands do not get it.
pub const SIGN_KEY_VARIABLE: &str = "REGATTA_SIGN_KEY";

/// Whether this process was given the text of a key.
pub(super) fn has_key_text() -> bool {
    std::env::var_os(SIGN_KEY_VARIABLE).is_some_and(|text| text.to_string_lossy().contains("PRIVATE KEY"))
}

/// Takes the environment and the memory of this process out of reach for other processes of the same user if it was
/// given the text of a key: `/proc/$PPID/environ` would show a stage what its own environment does not have. Of no
/// use against root, and against the shell that set the variable.
pub fn protect_key_text() {
    if has_key_text() {
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}

/// How long a process that a command left behind may take to end after TERM.
const LEFTOVER_GRACE: Duration = Duration::from_secs(1);
/// How much is read from a pipe after all known processes have ended (bytes): a writer that escaped us must not hold
/// us.
const LAST_WORDS: usize = 1 << 20;
const CHUNK: usize = 16 * 1024;

/// Runs a command to its end: its own, or the one that `stop` requests.
pub async fn run(command: ProcessCommand, stop: &Stop, on_group: impl FnOnce(i32)) -> Result<ProcessExit, SpawnError> {
    if stop.is_requested() {
        return Ok(ProcessExit { how: ExitKind::Stopped, seconds: 0.0, leftovers: Vec::new() });
    }
    let grace = command.grace;
    let mut running = Running::start(command)?;
    on_group(running.pgid());
    let is_stop_requested = tokio::select! {
        biased;
        _ = running.ended() => false,
        () = stop.requested() => true,
    };
    if is_stop_requested {
        let exit = running.stop(grace, stop).await;
        Ok(ProcessExit { how: ExitKind::Stopped, ..exit })
    } else {
        Ok(running.wait().await)
    }
}

/// A process group that we started. Dropping it kills the group.
#[derive(Debug)]
pub struct Running {
    child: Child,
    pidfd: AsyncFd<OwnedFd>,
    group: ProcessGroup,
    started: Instant,
    pump: Option<Pump>,
    /// Of its standard error, where that has a file of its own.
    error_pump: Option<Pump>,
    pipes: Option<(LineWriter, LineReader)>,
    log: Arc<PathBuf>,
    ended: Option<ExitKind>,
}

impl Running {
    /// Starts a command. Must be called within a tokio runtime.
    pub fn start(command: ProcessCommand) -> Result<Self, SpawnError> {
        let program = command.program()?;
        let log = File::options().append(true).create(true).open(&command.log);
        let log = log.map_err(|source| SpawnError::Log { log: command.log.clone(), source })?;
        let other = |source| SpawnError::Other { program: program.display().to_string(), source };
        let pumped = |log: File, copy: Option<File>| {
            let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
            Ok::<_, io::Error>((File::from(write), Some(Pump::new(read, log, copy, &command.secrets)?)))
        };
        let create =
            |path: &PathBuf| File::create(path).map_err(|source| SpawnError::Log { log: path.clone(), source });
        let (errors, error_pump, copy) = match &command.copies {
            Some(copies) => {
                let log = log.try_clone().map_err(other)?;
                let (errors, pump) = pumped(log, Some(create(&copies.stderr)?)).map_err(other)?;
                (Some(errors), pump, Some(create(&copies.stdout)?))
            }
            None => (None, None, None),
        };
        let (output, pump) = if command.secrets.is_empty() && copy.is_none() {
            (log, None)
        } else {
            pumped(log, copy).map_err(other)?
        };
        let answer = match &command.answer {
            Some(path) => Some(create(path)?),
            None => None,
        };
        let (ends, pipes) = if command.has_piped_stdio { open_pipes().map_err(other)? } else { (None, None) };
        let mark = orphans::fresh_mark();
        let both = |output: File| Ok::<_, io::Error>((Stdio::from(output.try_clone()?), Stdio::from(output)));
        let (stdin, (stdout, stderr)) = match (ends, answer) {
            (Some((stdin, stdout)), _) => (stdin.into(), (stdout.into(), output.into())),
            (None, Some(answer)) => (Stdio::null(), (answer.into(), output.into())),
            (None, None) if command.inherits_stdio => {
                let stdin = if io::stdin().is_terminal() { Stdio::null() } else { Stdio::inherit() };
                (stdin, (Stdio::inherit(), Stdio::inherit()))
            }
            (None, None) => match errors {
                Some(errors) => (Stdio::null(), (output.into(), errors.into())),
                None => (Stdio::null(), both(output).map_err(other)?),
            },
        };
        // `duct` copies the environment twice more, and that copy is most of the work of starting a command.
        #[expect(clippy::disallowed_methods, reason = "this is the place where programs are started")]
        let mut to_start = Command::new(&program);
        to_start.args(&command.argv[1..]).current_dir(&command.dir).stdin(stdin).stdout(stdout).stderr(stderr);
        if has_key_text() {
            to_start.env_remove(SIGN_KEY_VARIABLE);
        }
        for (name, value) in &command.env {
            match value {
                Some(value) => to_start.env(name, value),
                None => to_start.env_remove(name),
            };
        }
        // No `pre_exec` ever: it would make every start a fork of the whole runner.
        to_start.env(orphans::MARK, &mark).process_group(0);
        let started = Instant::now();
        let starting = orphans::starting();
        let begun = match &command.confinement {
            Some(confinement) => confinement.run_in(|| to_start.spawn())?,
            None => to_start.spawn(),
        };
        // It holds our ends of what the child writes to.
        drop(to_start);
        let mut child = begun.map_err(|source| SpawnError::explain(&program, &command.dir, source))?;
        let raw = child.id().cast_signed();
        orphans::awaited(raw);
        drop(starting);
        let watched = Pid::from_raw(raw).ok_or_else(|| io::Error::other("it has no process id")).and_then(|group| {
            let pidfd = pidfd_open(group, PidfdFlags::NONBLOCK)?;
            Ok((group, watch(pidfd)?))
        });
        match watched {
            Ok((group, pidfd)) => {
                let (group, log) = (ProcessGroup { group, mark }, log::bounded(command.log));
                Ok(Self { child, pidfd, group, started, pump, error_pump, pipes, log, ended: None })
            }
            Err(source) => {
                let _ = child.kill();
                let _ = child.wait();
                orphans::remove_awaited(raw);
                Err(other(source))
            }
        }
    }

    /// The process group, which is also the process id of its first process.
    pub fn pgid(&self) -> i32 {
        Pid::as_raw(Some(self.group.group))
    }

    /// Both ends of the pipes, once, with a command that [`ProcessCommand::has_piped_stdio`].
    pub fn take_pipes(&mut self) -> Option<(LineWriter, LineReader)> {
        self.pipes.take()
    }

    pub fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// The last lines of its log.
    pub fn tail(&self, n: usize) -> Vec<String> {
        log::tail(&self.log, n)
    }

    /// Resolves when the first process has ended; moves its output on meanwhile. Can be dropped and awaited again.
    pub async fn ended(&mut self) -> ExitKind {
        loop {
            if let Some(how) = self.ended {
                return how;
            }
            let [pumping, pumping_errors] =
                [&self.pump, &self.error_pump].map(|pump| pump.as_ref().is_some_and(|pump| pump.open));
            let readable = tokio::select! {
                biased;
                guard = self.pidfd.readable() => {
                    if let Ok(mut guard) = guard {
                        guard.clear_ready();
                    } else {
                        // The runtime is going away: there will be no wake-up.
                        self.group.signal(Signal::KILL);
                        let _ = self.child.wait();
                    }
                    true
                }
                () = step(&mut self.pump), if pumping => false,
                () = step(&mut self.error_pump), if pumping_errors => false,
            };
            if readable {
                match self.child.try_wait() {
                    Ok(Some(status)) => self.note(status),
                    Ok(None) => {}
                    // Another waiter took the exit status (ECHILD). It has ended; a success is not known.
                    Err(_) => self.note(ExitStatus::from_raw(1 << 8)),
                }
            }
        }
    }

    fn note(&mut self, status: ExitStatus) {
        orphans::remove_awaited(self.pgid());
        self.ended = Some(match (status.code(), status.signal()) {
            (Some(code), _) => ExitKind::Code(code),
            (None, Some(signal)) => ExitKind::Signal(signal),
            (None, None) => ExitKind::Code(1),
        });
    }

    /// Waits for the end, then ends all processes that it left behind.
    pub async fn wait(mut self) -> ProcessExit {
        let how = self.ended().await;
        let seconds = self.seconds();
        let leftovers = self.group.end(LEFTOVER_GRACE).await;
        self.drain_output();
        ProcessExit { how, seconds, leftovers }
    }

    /// TERM to the group, KILL after the grace, or at once when `stop` requests that. `ProcessExit::how` is its own
    /// end.
    pub async fn stop(mut self, grace: Duration, stop: &Stop) -> ProcessExit {
        let deadline = tokio::time::Instant::now() + grace;
        if !stop.is_hard_requested() && self.ended.is_none() {
            self.group.signal(Signal::TERM);
            tokio::select! {
                biased;
                _ = self.ended() => {}
                () = stop.hard_requested() => {}
                () = tokio::time::sleep_until(deadline) => {}
            }
        }
        if self.ended.is_none() {
            self.group.signal(Signal::KILL);
        }
        let how = self.ended().await;
        let seconds = self.seconds();
        // Others of the group got TERM too and have the rest of the grace.
        let rest = deadline.saturating_duration_since(tokio::time::Instant::now());
        tokio::select! {
            _ = self.group.end(rest) => {}
            () = stop.hard_requested() => { self.group.end(Duration::ZERO).await; }
        }
        self.drain_output();
        ProcessExit { how, seconds, leftovers: Vec::new() }
    }

    fn drain_output(&mut self) {
        for mut pump in [self.pump.take(), self.error_pump.take()].into_iter().flatten() {
            pump.drain();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.group.signal(Signal::KILL);
            orphans::remove_awaited(self.pgid());
        }
        self.drain_output();
    }
}

/// The command's standard input and output, and our ends of them.
type StdioPipes = (Option<(File, File)>, Option<(LineWriter, LineReader)>);

fn open_pipes() -> io::Result<StdioPipes> {
    let (stdin, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    let (reader, stdout) = pipe_with(PipeFlags::CLOEXEC)?;
    Ok((Some((File::from(stdin), File::from(stdout))), Some((LineWriter::new(writer)?, LineReader::new(reader)?))))
}

#[expect(deprecated, reason = "its successor is an unsafe function; an `OwnedFd` keeps the promise that it wants")]
fn watch(pidfd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(pidfd, Interest::READABLE)
}

async fn step(pump: &mut Option<Pump>) {
    match pump {
        Some(pump) => pump.step().await,
        None => std::future::pending().await,
    }
}

/// Moves output from a pipe to the log, without the secrets.
#[derive(Debug)]
struct Pump {
    pipe: Receiver,
    log: File,
    /// A file that gets the same.
    copy: Option<File>,
    redactor: Redactor,
    /// Here and not in the futures, which would carry it along wherever they move.
    buffer: Vec<u8>,
    open: bool,
}

impl Pump {
    fn new(read: OwnedFd, log: File, copy: Option<File>, secrets: &[String]) -> io::Result<Self> {
        Ok(Self {
            pipe: Receiver::from_owned_fd(read)?,
            log,
            copy,
            redactor: Redactor::new(secrets),
            buffer: vec![0; CHUNK],
            open: true,
        })
    }

    async fn step(&mut self) {
        match self.pipe.readable().await.and_then(|()| self.pipe.try_read(&mut self.buffer)) {
            Ok(0) => self.open = false,
            Ok(n) => self.write(n),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.open = false,
        }
    }

    /// Moves the first `n` bytes of the buffer on.
    fn write(&mut self, n: usize) {
        let bytes = self.redactor.push(self.buffer.get(..n).unwrap_or_default());
        self.put(&bytes);
    }

    /// A full disk must not stop the command from being waited for; it shows where the stage's result is kept.
    fn put(&mut self, bytes: &[u8]) {
        for file in std::iter::once(&mut self.log).chain(&mut self.copy) {
            let _ = file.write_all(bytes);
        }
    }

    /// What is in the pipe now. Bypasses the runtime, which may not have noticed yet that there is something.
    fn drain(&mut self) {
        let mut moved = 0;
        while self.open && moved < LAST_WORDS {
            match rustix::io::read(&self.pipe, &mut self.buffer[..]) {
                Ok(n) if n > 0 => {
                    moved += n;
                    self.write(n);
                }
                Err(rustix::io::Errno::INTR) => {}
                _ => break,
            }
        }
        let rest = self.redactor.finish();
        self.put(&rest);
    }
}

// Waits for a program that `duct` started, for a limited time.
//
// Not by `wait_timeout` of `duct`: it installs a handler of SIGCHLD that stays for good, and from then on the end of
// each command would wake up the main thread.

/// Its end and what it wrote; `None` if it still runs after `limit`, or if what it left behind holds its output open.
pub fn wait_within(handle: &Handle, limit: Duration) -> io::Result<Option<Output>> {
    /// From the end of the process to the end of its output.
    const PAUSE: Duration = Duration::from_millis(1);
    let begun = Instant::now();
    let left = || limit.saturating_sub(begun.elapsed());
    for pid in handle.pids() {
        await_end(pid.cast_signed(), left);
    }
    loop {
        let rest = left();
        if let Some(output) = handle.try_wait()? {
            return Ok(Some(output.clone()));
        }
        if rest.is_zero() {
            return Ok(None);
        }
        thread::sleep(PAUSE.min(rest));
    }
}

/// Blocks until a child has ended or no time is left. The caller looks which of them it was, and what an error here
/// means.
fn await_end(pid: i32, left: impl Fn() -> Duration) {
    let Some(Ok(handle)) = Pid::from_raw(pid).map(|pid| pidfd_open(pid, PidfdFlags::empty())) else { return };
    loop {
        let Ok(rest) = Timespec::try_from(left()) else { return };
        match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&rest)) {
            Err(rustix::io::Errno::INTR) => {}
            _ => return,
        }
    }
}
