//! One test: LoadGen on one thread, its reporter on another, each load worker on its own.

use std::fmt::Display;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::child::{ChildError, ChildMessage, LoadgenTest};
use super::ffi::{LoadedLibrary, LoadgenError, LoadgenSettings, Query, Sut, TestDescription};
use super::reporter::{CompletionSender, ReporterOutput, report};
use base::diag::{ErrorText, in_file};
use base::event::Stop;
use base::files::{RecordLines, open_regular};
use harness::{CallInlet, ExternalSample, HarnessError, UnjudgedRun};
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

/// LoadGen on one thread, its reporter on another, each load worker on its own. All are joined when this returns.
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
    let progress = |progress: harness::BenchProgress| {
        let (mut last, far) = (last.lock(), progress.so_far);
        if far.issued > 0 && last.elapsed() >= SAY_EVERY {
            *last = Instant::now();
            send(&ChildMessage::Progress { issued: far.issued, ended: far.ended, failed: far.failed });
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| ErrorText::new(format_args!("no runtime: {error}")))?;
    let stop = Stop::new();
    let measured = runtime.block_on(async {
        let signals = signal(SignalKind::terminate());
        let signals = signals.map_err(|source| HarnessError::System { what: "no signals".to_owned(), source });
        let stopped = stop_on_signal(signals?, &stop);
        let observer = Arc::new(CompletionSender(sender));
        tokio::select! {
            measured = harness::measure_external(&test.spec, samples, observer, open, &stop, progress) => measured,
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
        Some(Ok(Err(fault))) => return Err(ErrorText::new(fault).into()),
        Some(Err(_)) | None => return Err(ErrorText::new("LoadGen's thread ended before its test").into()),
    }
    match reported {
        Ok(Some(reported)) => Ok(TestOutcome::Finished(TestParts { measured, reported })),
        _ => Err(ErrorText::new("the reporter's thread ended before the test").into()),
    }
}

fn spawn<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>, ErrorText> {
    let builder = thread::Builder::new().name(name.to_owned());
    builder.spawn(work).map_err(|error| ErrorText::new(format_args!("no thread for {name}: {error}")))
}

// An instant that is comparable between two processes of one machine.

/// ns of `CLOCK_MONOTONIC`, by which `Instant` counts. Steps of the wall clock cannot enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MonotonicTime(u64);

impl MonotonicTime {
    pub fn from_instant(instant: Instant) -> Self {
        let ago = u64::try_from(instant.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Self(now().saturating_sub(ago))
    }

    /// None: before this machine counts.
    pub fn instant(self) -> Option<Instant> {
        Instant::now().checked_sub(Duration::from_nanos(now().saturating_sub(self.0)))
    }
}

fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

// `dataset.jsonl`: one sample a line, in the order of LoadGen's indices.

#[derive(Deserialize)]
struct Line {
    input_ids: Vec<i32>,
    /// Of synthetic samples: where a model would end its answer.
    output_tokens: Option<u32>,
    #[serde(default)]
    reference: String,
}

impl Line {
    /// The most tokens in its answer. Real models end their answers themselves; for synthetic samples the reference
    /// sets the length: it has a word for each token.
    fn output_len(&self, most: u32, is_synthetic: bool) -> u32 {
        let words = || self.reference.split_whitespace().count() as u32;
        let wanted = self.output_tokens.or_else(|| is_synthetic.then(words).filter(|words| *words > 0));
        // LoadGen cannot count an answer of one token.
        wanted.unwrap_or(most).clamp(2, most.max(2))
    }
}

/// Reads all samples; answers have at most `most` tokens.
pub fn read(path: &Path, most: u32, is_synthetic: bool) -> Result<Vec<ExternalSample>, ErrorText> {
    let unreadable = in_file(path);
    let (file, _) = open_regular(path).map_err(unreadable)?;
    let mut samples = Vec::new();
    let mut lines = RecordLines::new(BufReader::with_capacity(1 << 20, file));
    while let Some((line, text)) = lines.next_line().map_err(unreadable)? {
        let wrong = |problem: &dyn Display| in_file(path)(format!("line {line}: {problem}"));
        let sample: Line = serde_json::from_slice(text).map_err(|error| wrong(&error))?;
        if sample.input_ids.is_empty() {
            return Err(wrong(&"a sample without `input_ids`"));
        }
        let output_len = sample.output_len(most, is_synthetic);
        samples.push(ExternalSample { prompt: sample.input_ids.into(), output_len });
    }
    if samples.is_empty() { Err(in_file(path)("it has no samples")) } else { Ok(samples) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_comes_back() {
        let then = Instant::now().checked_sub(Duration::from_mins(1)).unwrap();
        let back = MonotonicTime::from_instant(then).instant().unwrap();
        let apart = back.max(then).duration_since(back.min(then));
        assert!(apart < Duration::from_secs(30), "{apart:?}");
    }

    #[test]
    fn samples_are_read_and_mistakes_have_their_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dataset.jsonl");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read(&path, 1024, true)
        };
        let good = read(
            "{\"input_ids\":[5,6],\"output_tokens\":1}\n{\"id\":1,\"input_ids\":[7],\"reference\":\"a b \
            c\"}\n{\"input_ids\":[8]}\n",
        )
        .unwrap();
        assert_eq!(
            good.iter().map(|s| (s.prompt.to_vec(), s.output_len)).collect::<Vec<_>>(),
            [(vec![5, 6], 2), (vec![7], 3), (vec![8], 1024)]
        );
        assert!(
            read("{\"input_ids\":[5]}\n{}\n").unwrap_err().to_string().contains("line 2: missing field `input_ids`")
        );
        assert!(read("{\"input_ids\":[]}\n").unwrap_err().to_string().contains("line 1: a sample without"));
        assert!(read("").unwrap_err().to_string().contains("no samples"));
    }
}
