//! Before a longer measurement: whether this machine can produce the load at all, tried against a local server that
//! does no work. The server under test gets no request, the trial is finished before the measurement begins, and
//! dropping the process of the local server ends it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::task_context::TaskContext;
use base::diag::ErrorText;
use base::event::{Endpoint, Event};
use base::files::{read_bytes, read_text};
use exec::process::{ExitKind, FollowedLog, Running, SpawnError};
use harness::BenchSpec;
use harness::preflight::{PreflightResult, PreflightTrial, WORTH_IT, expected};
use plan::manifest::model::Preflight as Wanted;

/// For the server to open its port, and for the trial to end.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(5);
const GRACE: Duration = Duration::from_secs(1);

/// Runs the trial if it is requested or worthwhile. Anything that prevents it is a notice.
pub async fn preflight(context: &TaskContext, spec: &BenchSpec, wanted: Wanted) -> Option<PreflightResult> {
    if wanted == Wanted::Off {
        return None;
    }
    match attempt(context, spec, wanted == Wanted::On).await {
        Ok(result) => {
            for reason in result.iter().flat_map(PreflightResult::reasons) {
                context.lease.notice(format!("preflight: {}; it is measured anyway", reason.text));
            }
            result
        }
        Err(why) => {
            if !context.lease.stop.is_requested() {
                context.lease.notice(format!("no preflight: {why}"));
            }
            None
        }
    }
}

async fn attempt(
    context: &TaskContext,
    spec: &BenchSpec,
    is_asked: bool,
) -> Result<Option<PreflightResult>, ErrorText> {
    let Some(trial) = trial(spec, is_asked).await else {
        let offline = "offline sends everything at once, so there is no schedule that a client could be late for";
        return if is_asked { Err(ErrorText::new(offline)) } else { Ok(None) };
    };
    context.lease.report_progress("trying the load against a server that does no work", 0, None);
    let mut server = start(context, &trial)?;
    let endpoint = endpoint(context, &mut server).await?;
    let preflight_result = run(context, &trial, &endpoint).await?;
    let result = if preflight_result.reasons().is_empty() {
        preflight_result
    } else {
        preflight_result.better(run(context, &trial, &endpoint).await?)
    };
    // Gone before the measurement begins.
    server.stop(context, GRACE).await;
    Ok(Some(result))
}

/// What is tried; nothing where the measurement is short, or has no schedule. If no plan can be made, the
/// measurement reports it.
async fn trial(spec: &BenchSpec, is_asked: bool) -> Option<PreflightTrial> {
    let is_trace = matches!(spec.scenario, harness::LoadPattern::Trace { .. });
    let is_long = expected(spec).is_some_and(|time| time >= WORTH_IT);
    // How long a trace is, and any load from data, is in the files.
    let has_unknown_end = is_trace || spec.content.data.is_some() && spec.scenario.is_open_loop();
    if !is_asked && !is_long && !has_unknown_end {
        return None;
    }
    let spec = spec.clone();
    let planned = tokio::task::spawn_blocking(move || {
        let schedule = harness::plan(&spec).ok()?;
        let last = schedule.requests.iter().map(|request| request.at_ns).max().unwrap_or(0);
        let is_long = is_long || u128::from(last) >= WORTH_IT.as_nanos();
        PreflightTrial::new(&spec, &schedule).filter(|_| is_asked || is_long)
    });
    planned.await.ok().flatten()
}

async fn run(context: &TaskContext, trial: &PreflightTrial, endpoint: &Endpoint) -> Result<PreflightResult, ErrorText> {
    let spec = trial.at(endpoint.clone());
    let stop = context.lease.stop.child();
    let measured = timeout(TRIAL_TIMEOUT, Box::pin(harness::run(&spec, &stop, |_| {})));
    let late = |_| ErrorText::new(format_args!("it did not finish within {TRIAL_TIMEOUT:?}"));
    let measured = measured.await.map_err(late)?.map_err(ErrorText::new)?;
    trial.evaluate(&measured)
}

/// The server, as a process of its own.
fn start(context: &TaskContext, trial: &PreflightTrial) -> Result<Sidecar, ErrorText> {
    let program = context.program().map_err(|failure| ErrorText::new(failure.what))?;
    let pair = |(low, high): (f64, f64)| format!("{low},{high}");
    let argv =
        vec![program.display().to_string(), "__null-server".to_owned(), pair(trial.first_ms), pair(trial.gap_ms)];
    Sidecar::start(context, argv, &[], "null").map_err(ErrorText::new)
}

/// The server's endpoint, once it reports it.
async fn endpoint(context: &TaskContext, server: &mut Sidecar) -> Result<Endpoint, ErrorText> {
    let file = server.file().to_owned();
    let read_endpoint = async {
        loop {
            let text = read_text(&file).unwrap_or_default();
            let port = text.split_once('\n').and_then(|(line, _)| line.strip_prefix("ready grpc=")?.parse().ok());
            if let Some(grpc) = port {
                return Endpoint::new("127.0.0.1", grpc);
            }
            sleep(LOOK).await;
        }
    };
    let how = tokio::select! {
        endpoint = read_endpoint => return Ok(endpoint),
        how = server.ended() => how,
        () = sleep(TRIAL_TIMEOUT) => {
            let text = format!("the null server did not open its port within {TRIAL_TIMEOUT:?}");
            return Err(ErrorText::new(text));
        }
        () = context.lease.stop.requested() => return Err(ErrorText::new("stopped")),
    };
    let unreadable = |error| ErrorText::new(format_args!("cannot read the output of the null server: {error}"));
    let written = server.written().map_err(unreadable)?;
    Err(ErrorText::new(format_args!("the null server ended at once ({how:?}): {}", written.trim())))
}

/// A process beside a task. Its start and end are reported to whatever cleans up after a killed run.
pub struct Sidecar {
    running: Option<Running>,
    /// All that it writes; gone with it.
    file: PathBuf,
    counted: CountedLines,
    ended: Box<dyn Fn() + Send + Sync>,
}

/// A file whose lines are counted.
struct CountedLines {
    file: FollowedLog,
    lines: usize,
}

impl CountedLines {
    fn update(&mut self) -> io::Result<usize> {
        let Self { file, lines } = self;
        file.read_lines(b"\n", |_| {
            *lines += 1;
            Ok(())
        })?;
        Ok(*lines)
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        drop(self.running.take());
        let _ = std::fs::remove_file(&self.file);
        (self.ended)();
    }
}

impl Sidecar {
    /// Starts a command in the task's environment plus these variables. `name` distinguishes its log file from those of
    /// others.
    pub fn start(
        context: &TaskContext,
        argv: Vec<String>,
        env: &[(&str, &str)],
        name: &str,
    ) -> Result<Self, SpawnError> {
        let file = context.lease.log.with_extension(name);
        let _ = std::fs::remove_file(&file);
        // Written directly to the file: the command has no secrets, and nothing would forward its output.
        let mut command = context.command(argv.into_iter().map(Into::into).collect());
        command.secrets.clear();
        for (name, value) in env {
            command = command.set(*name, *value);
        }
        command.log.clone_from(&file);
        let running = Running::start(command)?;
        let (task, emit, pgid) = (context.lease.task.id.clone(), context.lease.emit.clone(), running.pgid());
        emit(Event::ProcessStarted { task: task.clone(), pgid });
        let ended = Box::new(move || emit(Event::ProcessEnded { task: task.clone(), pgid }));
        let counted = CountedLines { file: FollowedLog::new(&file, 0), lines: 0 };
        Ok(Self { running: Some(running), file, counted, ended })
    }

    pub fn file(&self) -> &Path {
        &self.file
    }

    /// What it has written so far.
    pub fn written(&self) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&read_bytes(&self.file)?).into_owned())
    }

    /// How many whole lines it has written so far. Reads only what came since the last call.
    pub fn count_lines(&mut self) -> io::Result<usize> {
        self.counted.update()
    }

    pub fn seconds(&self) -> f64 {
        self.running.as_ref().map_or(0.0, Running::seconds)
    }

    /// Resolves when the process ends by itself. Can be dropped and awaited again.
    pub async fn ended(&mut self) -> ExitKind {
        match &mut self.running {
            Some(running) => running.ended().await,
            None => ExitKind::Stopped,
        }
    }

    /// Ends it; what it wrote can still be read. Its own end, if it came first.
    pub async fn stop(&mut self, context: &TaskContext, grace: Duration) -> ExitKind {
        match self.running.take() {
            Some(running) => running.stop(grace, &context.lease.stop).await.how,
            None => ExitKind::Stopped,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn lines_are_counted_as_they_come() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut counted = CountedLines { file: FollowedLog::new(file.path(), 0), lines: 0 };
        for (text, lines) in [("", 0), ("a\nb", 1), ("c\n", 2), ("", 2), ("\n\nd", 4)] {
            file.write_all(text.as_bytes()).unwrap();
            assert_eq!(counted.update().unwrap(), lines, "{text:?}");
        }
    }
}
