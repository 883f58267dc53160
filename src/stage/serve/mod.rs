//! `serve:` — servers with a lifetime: started, waited for, watched, and stopped for certain.

pub mod attach;
mod attached;
mod facts;
mod launch;
mod plan;
mod preview;
mod ready;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::errand::Errand;
use crate::event::{Done, Endpoint, Event, Failure, FailureKind, Stop};
use crate::manifest::duration;
use crate::manifest::model::Serve;
use crate::process::{self, Exit, How, Running};
use plan::Planned;
pub use preview::{Launch, Preview, previews};

/// Triton lets what is in flight finish for 30 s (`--exit-timeout-secs`) before it leaves by itself.
const GRACE: Duration = Duration::from_secs(35);
/// signal(7)
const SIGKILL: i32 = 9;
/// How many of the last lines a failure shows.
const TAIL: usize = 20;

pub async fn perform(mut errand: Errand, serve: &Serve, program: Option<&Path>) -> Result<Done, Failure> {
    if let Some(attach) = attached::asked_for(serve) {
        return attached::perform(&mut errand, &attach).await;
    }
    let ready = match serve {
        Serve::Simulator(server) => &server.ready,
        Serve::Triton(server) => &server.ready,
        Serve::Command(server) => &server.ready,
        Serve::Attach(server) => &server.ready,
    };
    let limit = duration(&ready.timeout).map_err(|what| Failure::new(FailureKind::Refused, what))?;
    let planned = plan::plan(&errand, serve, program)?;
    let send_ready = errand.lease.ready.take();
    let mut servers = Servers { errand: &errand, set: JoinSet::new(), quit: errand.lease.stop.child() };
    let begun = Instant::now();
    let result = servers.live(&planned, limit, send_ready).await;
    // Whoever was dead already when it was asked to stop has not done its duty.
    match (result, servers.end().await) {
        (Ok(_), Some(left)) => Err(servers.death(&planned, Ok(left), "while it was needed", begun)),
        (result, _) => result,
    }
}

/// How one server left.
struct Left {
    server: usize,
    exit: Exit,
    /// Because we asked.
    asked: bool,
}

struct Servers<'a> {
    errand: &'a Errand,
    set: JoinSet<Left>,
    quit: Stop,
}

impl Servers<'_> {
    async fn live(
        &mut self,
        planned: &[Planned],
        limit: Duration,
        send_ready: Option<tokio::sync::oneshot::Sender<Vec<Endpoint>>>,
    ) -> Result<Done, Failure> {
        let begun = Instant::now();
        for (index, server) in planned.iter().enumerate() {
            self.start(index, server)?;
        }
        let stop = &self.errand.lease.stop;
        let endpoints = tokio::select! {
            biased;
            () = stop.asked() => return Err(Failure::new(FailureKind::Interrupted, "stopped before it was ready")),
            Some(left) = self.set.join_next() => return Err(self.death(planned, left, "before it was ready", begun)),
            endpoints = ready::all(self.errand, planned, limit) => endpoints?,
        };
        if let Some(sender) = send_ready {
            // Nobody listens any more: then the run is stopping, and says so.
            let _ = sender.send(endpoints);
        }
        tokio::select! {
            biased;
            () = stop.asked() => Ok(Done::default()),
            Some(left) = self.set.join_next() => Err(self.death(planned, left, "while it was needed", begun)),
        }
    }

    fn start(&mut self, index: usize, server: &Planned) -> Result<(), Failure> {
        let running = Running::start(server.command(self.errand))
            .map_err(|error| self.errand.not_started(&server.argv, &error))?;
        let (task, emit) = (self.errand.lease.task.id.clone(), self.errand.lease.emit.clone());
        let pgid = running.pgid();
        emit(Event::ProcessStarted { task: task.clone(), pgid });
        let quit = self.quit.clone();
        self.set.spawn(async move {
            let mut running = running;
            let asked = tokio::select! {
                biased;
                _ = running.ended() => false,
                () = quit.asked() => true,
            };
            let exit = if asked { running.stop(GRACE, &quit).await } else { running.wait().await };
            emit(Event::ProcessEnded { task, pgid });
            Left { server: index, exit, asked }
        });
        Ok(())
    }

    /// Stops every server that is still up, and waits until it is gone. The first one that had ended by itself.
    async fn end(&mut self) -> Option<Left> {
        self.quit.gently();
        let mut by_itself = None;
        while let Some(left) = self.set.join_next().await {
            let Ok(left) = left else { continue };
            if !left.asked {
                by_itself = by_itself.or(Some(left));
            } else if left.exit.how == How::Signal(SIGKILL) && !self.quit.is_now() {
                self.errand.lease.notice(format!("it did not end within {GRACE:?} of being asked to, and was killed"));
            }
        }
        by_itself
    }

    fn death(
        &self,
        planned: &[Planned],
        left: Result<Left, tokio::task::JoinError>,
        when: &str,
        begun: Instant,
    ) -> Failure {
        let left = match left {
            Ok(left) => left,
            Err(error) => return Failure::new(FailureKind::Service, format!("watching a server failed: {error}")),
        };
        if left.asked {
            return Failure::new(FailureKind::Interrupted, "stopped");
        }
        let server = &planned[left.server];
        let how = match left.exit.how {
            How::Code(code) => format!("with exit code {code}"),
            How::Signal(signal) => format!("by signal {signal}"),
            How::Stopped => "stopped".to_owned(),
        };
        let what = format!("{} ended {how} {when}, after {:.1} s", server.name, begun.elapsed().as_secs_f64());
        died(self.errand, server, what, left.exit.how)
    }
}

/// A failure of one server, with the last lines of its own log and what they usually mean.
fn died(errand: &Errand, server: &Planned, what: String, how: How) -> Failure {
    let mut failure = errand.failure(FailureKind::Service, what, &server.argv);
    failure.tail = process::tail(&server.log, TAIL).iter().map(|line| errand.redacted(line)).collect();
    failure.log = Some(server.log.clone());
    // A server that leaves with code 0 while it is needed has failed all the same.
    let how = if how == How::Code(0) { How::Code(1) } else { how };
    if let Some(diagnosis) = process::diagnose(&failure.tail, how) {
        failure = failure.cause(diagnosis.cause).hint(diagnosis.hint);
    }
    failure
}

/// One log for each server; the task's own when there is only one.
fn log_of(errand: &Errand, index: usize, servers: usize) -> PathBuf {
    if servers == 1 { errand.lease.log.clone() } else { errand.lease.log.with_extension(format!("{index}.log")) }
}

fn words<const N: usize>(words: [&str; N]) -> Vec<OsString> {
    words.map(OsString::from).to_vec()
}
