//! Before a measurement of some length: whether this machine could make the load at all, tried against a server of ours
//! that does no work. The server under test is not asked anything, and all of it is over before the measurement begins.

use std::path::Path;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::errand::Errand;
use crate::event::{Endpoint, Event};
use crate::harness::preflight::{Preflight, Trial, WORTH_IT, expected};
use crate::harness::{self, Spec};
use crate::manifest::model::Preflight as Wanted;
use crate::process::Running;

/// For the server to open its port, and for the trial to end.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(5);
const GRACE: Duration = Duration::from_secs(1);

/// Tries it, where it is asked for or worth it. Whatever keeps it from being tried is a notice.
pub async fn preflight(errand: &Errand, spec: &Spec, wanted: Wanted, program: Option<&Path>) -> Option<Preflight> {
    if wanted == Wanted::Off {
        return None;
    }
    match attempt(errand, spec, wanted == Wanted::On, program).await {
        Ok(told) => {
            for reason in told.iter().flat_map(Preflight::reasons) {
                errand.lease.notice(format!("preflight: {}; it is measured all the same", reason.text));
            }
            told
        }
        Err(why) => {
            if !errand.lease.stop.is_asked() {
                errand.lease.notice(format!("no preflight: {why}"));
            }
            None
        }
    }
}

async fn attempt(
    errand: &Errand,
    spec: &Spec,
    is_asked: bool,
    program: Option<&Path>,
) -> Result<Option<Preflight>, String> {
    let Some(trial) = trial(spec, is_asked).await else {
        return if is_asked {
            Err("offline sends everything at once, so there is no schedule that a client could be late for".to_owned())
        } else {
            Ok(None)
        };
    };
    errand.lease.say("trying the load against a server that does no work", 0, None);
    let mut server = Null::start(errand, &trial, program)?;
    let endpoint = server.endpoint(errand).await?;
    let told = run(errand, &trial, &endpoint).await?;
    let told = if told.outcome == "good" { told } else { told.better(run(errand, &trial, &endpoint).await?) };
    server.end(errand).await;
    Ok(Some(told))
}

/// What is tried; nothing where the measurement is short, or has no schedule. A plan that cannot be made is the
/// measurement's to tell.
async fn trial(spec: &Spec, is_asked: bool) -> Option<Trial> {
    let is_trace = matches!(spec.scenario, harness::Scenario::Trace { .. });
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
        Trial::of(&spec, &schedule).filter(|_| is_asked || is_long)
    });
    planned.await.ok().flatten()
}

async fn run(errand: &Errand, trial: &Trial, endpoint: &Endpoint) -> Result<Preflight, String> {
    let spec = trial.at(endpoint.clone());
    let stop = errand.lease.stop.child();
    let measured = timeout(PATIENCE, Box::pin(harness::run(&spec, &stop, |_| {})));
    let measured = measured.await.map_err(|_| format!("it was not over within {PATIENCE:?}"))?;
    trial.told(&measured.map_err(|error| error.to_string())?)
}

/// The server, as a process of its own. Dropping it ends it.
struct Null {
    running: Option<Running>,
    log: std::path::PathBuf,
    tell: Box<dyn Fn() + Send + Sync>,
}

impl Drop for Null {
    fn drop(&mut self) {
        drop(self.running.take());
        let _ = std::fs::remove_file(&self.log);
        (self.tell)();
    }
}

impl Null {
    fn start(errand: &Errand, trial: &Trial, program: Option<&Path>) -> Result<Self, String> {
        let program = program.map_or_else(std::env::current_exe, |program| Ok(program.to_owned()));
        let program = program.map_err(|error| format!("our own program cannot be found: {error}"))?;
        let pair = |(low, high): (f64, f64)| format!("{low},{high}");
        let words = ["__null-server".to_owned(), pair(trial.first_ms), pair(trial.gap_ms)];
        let log = errand.lease.log.with_extension("null");
        let _ = std::fs::remove_file(&log);
        let argv = std::iter::once(program.into_os_string()).chain(words.map(Into::into)).collect();
        let mut command = errand.command(argv).secrets(Vec::new());
        command.log.clone_from(&log);
        let running = Running::start(command).map_err(|error| error.to_string())?;
        let (task, emit, pgid) = (errand.lease.task.id.clone(), errand.lease.emit.clone(), running.pgid());
        emit(Event::ProcessStarted { task: task.clone(), pgid });
        let tell = Box::new(move || emit(Event::ProcessEnded { task: task.clone(), pgid }));
        Ok(Self { running: Some(running), log, tell })
    }

    /// Where it listens, once it says so.
    async fn endpoint(&mut self, errand: &Errand) -> Result<Endpoint, String> {
        let log = self.log.clone();
        let says = async {
            loop {
                let text = std::fs::read_to_string(&log).unwrap_or_default();
                let port = text.split_once('\n').and_then(|(line, _)| line.strip_prefix("ready grpc=")?.parse().ok());
                if let Some(grpc) = port {
                    return Endpoint { host: "127.0.0.1".to_owned(), grpc, http: None, metrics: None };
                }
                sleep(LOOK).await;
            }
        };
        let Some(running) = self.running.as_mut() else { return Err("it was not started".to_owned()) };
        tokio::select! {
            endpoint = says => Ok(endpoint),
            how = running.ended() => Err(format!("the null server ended at once ({how:?}): {}", running.tail(1).join(""))),
            () = sleep(PATIENCE) => Err(format!("the null server did not open its port within {PATIENCE:?}")),
            () = errand.lease.stop.asked() => Err("stopped".to_owned()),
        }
    }

    async fn end(&mut self, errand: &Errand) {
        if let Some(running) = self.running.take() {
            running.stop(GRACE, &errand.lease.stop).await;
        }
    }
}
