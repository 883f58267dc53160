//! One test: LoadGen on one thread, its reporter on another, the load workers on theirs.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::child::ChildError;
use super::child_protocol::{ChildMessage, LoadgenTest};
use super::ffi::{LoadedLibrary, LoadgenError, LoadgenSettings, Query, Sut, TestDescription};
use super::reporter::{CompletionSender, ReporterOutput, report};
use base::event::Stop;
use harness::{CallInlet, HarnessError, UnjudgedRun};
use rules::MlperfScenario;

/// The interval of the child's progress reports.
const SAY_EVERY: Duration = Duration::from_secs(1);

/// How a test ended.
pub(super) enum TestOutcome {
    Finished(TestParts),
    /// It was stopped; LoadGen still waits.
    Stopped(UnjudgedRun),
}

/// The outcome of a test, from its three threads.
pub(super) struct TestParts {
    pub measured: UnjudgedRun,
    pub reported: ReporterOutput,
}

/// LoadGen's side of the test.
struct LoadgenCallbacks {
    inlet: CallInlet,
}

impl Sut for LoadgenCallbacks {
    fn issue(&self, queries: &[Query]) {
        self.inlet.issue(queries.iter().map(|query| (query.ticket, query.sample)));
    }

    fn load(&self, samples: &[usize]) {
        // A request that cannot be built now fails again when it is sent, and is reported there.
        let _ = self.inlet.load(samples);
    }

    fn unload(&self, samples: &[usize]) {
        self.inlet.unload(samples);
    }
}

/// SIGTERM: no more samples are issued, and the results until then are kept.
async fn stop_on_signal(mut signal: Signal, stop: &Stop) {
    signal.recv().await;
    stop.request();
    std::future::pending::<()>().await;
}

/// Exits without cleanup, which would have to join LoadGen's thread.
pub(super) fn end_at_once() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
}

/// LoadGen on one thread, its reporter on another, the load workers on theirs. All are joined when this returns.
pub(super) fn run_loadgen(
    library: &Arc<LoadedLibrary>,
    settings: LoadgenSettings,
    test: &LoadgenTest,
    samples: &[harness::ExternalSample],
    (total, performance): (u64, u64),
    send: &(dyn Fn(&ChildMessage) + Sync),
) -> Result<TestOutcome, ChildError> {
    let (sender, receiver) = channel();
    let telling = {
        let library = Arc::clone(library);
        let wants_firsts = test.scenario != MlperfScenario::Offline;
        spawn("reporter", move || library.reporter().map(|reporter| report(&receiver, reporter, wants_firsts)))?
    };
    let issuing: Mutex<Option<JoinHandle<Result<(), LoadgenError>>>> = Mutex::new(None);
    let open = |inlet: CallInlet| {
        let names = (test.sut_name.clone(), test.benchmark.clone(), test.out.clone(), test.audit.clone());
        let issue = move || {
            let (sut, samples, out, audit) = &names;
            let test_description = TestDescription { sut, samples, total, performance, out, audit: audit.as_deref() };
            settings.test(&test_description, &LoadgenCallbacks { inlet })
        };
        *issuing.lock() = spawn("loadgen", issue).ok();
    };
    let last = Mutex::new(Instant::now());
    let progress = |far: harness::BenchProgress| {
        let mut last = last.lock();
        if far.issued > 0 && last.elapsed() >= SAY_EVERY {
            *last = Instant::now();
            send(&ChildMessage::Progress { issued: far.issued, ended: far.ended, failed: far.failed });
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(ChildError::Runtime)?;
    let stop = Stop::new();
    let measured = runtime.block_on(async {
        let signals = signal(SignalKind::terminate());
        let signals = signals.map_err(|source| HarnessError::System { what: "no signals".to_owned(), source });
        let stopped = stop_on_signal(signals?, &stop);
        tokio::select! {
            measured = harness::measure_external(&test.spec, samples, Arc::new(CompletionSender(sender)), open, &stop, progress) => measured,
            () = stopped => unreachable!("signals have no end"),
        }
    });
    let measured = match measured {
        Ok(measured) if stop.is_requested() => return Ok(TestOutcome::Stopped(measured)),
        Ok(measured) => measured,
        Err(error) => {
            let is_issuing = issuing.lock().is_some();
            if is_issuing {
                // LoadGen waits for answers that will not arrive, and has no call to report that.
                send(&ChildMessage::Failed { why: error.to_string(), is_refused: false });
                end_at_once();
            }
            return Err(error.into());
        }
    };
    let issued = issuing.into_inner().map(JoinHandle::join);
    let reported = telling.join();
    match issued {
        Some(Ok(Ok(()))) => {}
        Some(Ok(Err(fault))) => return Err(fault.into()),
        Some(Err(_)) | None => return Err(ChildError::LoadgenThread),
    }
    match reported {
        Ok(Some(reported)) => Ok(TestOutcome::Finished(TestParts { measured, reported })),
        _ => Err(ChildError::ReporterThread),
    }
}

fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, ChildError> {
    let builder = thread::Builder::new().name(name.to_owned());
    builder.spawn(work).map_err(|source| ChildError::Spawn { name: name.to_owned(), source })
}
