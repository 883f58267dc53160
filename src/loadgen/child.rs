//! The child process: one job, then its end.

use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::ffi::{Fault, Library, Query, Settings, Sut, Told};
use super::job::{Job, Line, Probe, Probed, Test};
use super::reporter::{Mouth, Reported, report};
use super::said::Said;
use super::{beside, samples};
use crate::event::Stop;
use crate::harness::{self, HarnessError, Inlet, Loadgen, Measured, Reason, Reporting, Severity};
use crate::mlperf::{Benchmark, Division, Mode, Round, Scenario, TEST_FILE, TestTold, conf};

/// How often the child says how far it is.
const SAY_EVERY: Duration = Duration::from_secs(1);

/// Why a job could not be done.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// What was asked for does not fit.
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Loadgen(#[from] Fault),
    #[error(transparent)]
    Harness(#[from] HarnessError),
    #[error("{0}")]
    System(String),
}

impl Trouble {
    pub const fn is_refused(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Harness(HarnessError::Spec(_) | HarnessError::Data { .. }))
    }
}

/// Does what the job file says. `say` gets each line for whoever started this process.
pub fn perform(job: &Path, say: &(dyn Fn(&Line) + Sync)) -> Result<(), Trouble> {
    let text = std::fs::read(job).map_err(|error| Trouble::System(format!("{}: {error}", job.display())))?;
    match serde_json::from_slice(&text) {
        Ok(Job::Probe(probe)) => {
            say(&Line::Probed(probed(&probe)?));
            Ok(())
        }
        Ok(Job::Test(test)) => test_once(&test, say),
        Err(error) => Err(Trouble::System(format!("{}: {error}", job.display()))),
    }
}

fn probed(probe: &Probe) -> Result<Probed, Trouble> {
    let library = Arc::new(Library::open(&probe.library)?);
    let settings = library.settings(Scenario::Server, false, &probe.user_conf, "llama2-70b")?;
    Ok(Probed { version: library.version(), revision: library.revision(), seeds: settings.seeds() })
}

/// What came of a test, from its three threads.
struct Came {
    measured: Measured,
    reported: Reported,
}

fn test_once(test: &Test, say: &(dyn Fn(&Line) + Sync)) -> Result<(), Trouble> {
    let round =
        Round::named(&test.round).ok_or_else(|| Trouble::Refused(format!("no round is called {}", test.round)))?;
    let benchmark = round.benchmarks.get(&test.benchmark);
    let benchmark =
        benchmark.ok_or_else(|| Trouble::Refused(format!("{} has no benchmark {}", round.name, test.benchmark)))?;
    say(&Line::Phase("reading the data set".to_owned()));
    let most = benchmark.max_output_tokens(test.mode);
    let samples = samples::read(&test.samples, most, test.dataset.synthetic).map_err(Trouble::System)?;
    let library = Arc::new(Library::open(&test.library)?);
    let is_accuracy = test.mode == Mode::Accuracy;
    let model = benchmark.loadgen_model(test.scenario);
    let settings = library.settings(test.scenario, is_accuracy, &test.user_conf, &model)?;
    let probed = Probed { version: library.version(), revision: library.revision(), seeds: settings.seeds() };
    let mut faults = probed.mismatches(&round);
    faults.extend(unheeded(&settings, test, benchmark)?);
    if !faults.is_empty() {
        return Err(Trouble::Refused(faults.join("; ")));
    }
    say(&Line::Phase("connecting".to_owned()));
    let total = samples.len() as u64;
    let performance = test.rehearsal.unwrap_or(benchmark.performance_samples).min(total);
    let mut came = race(&library, settings, test, &samples, (total, performance), say)?;
    say(&Line::Phase("writing results".to_owned()));
    let said = Said::read(&test.out).map_err(Trouble::System)?;
    let told = Loadgen {
        version: probed.version.clone(),
        revision: probed.revision,
        round: round.name.clone(),
        benchmark: test.benchmark.clone(),
        scenario: test.scenario.title().to_owned(),
        mode: format!("{:?}", test.mode).to_lowercase(),
        rehearsal: test.rehearsal.is_some(),
        result: said.result(),
        why: said.why.clone(),
        errors: said.errors(),
        first_errors: said.first_errors.clone(),
        headline: beside::headline(&said, test.scenario),
        metrics: if test.mode == Mode::Accuracy {
            Vec::new()
        } else {
            beside::numbers(&said, test.scenario, &came.measured, &came.reported)
        },
        reporting: came.reported.reporting,
    };
    let reasons = reasons(&told, test.mode);
    came.measured.loadgen_said(told.clone(), reasons);
    let told = TestTold {
        round: round.name.clone(),
        benchmark: test.benchmark.clone(),
        scenario: test.scenario,
        mode: test.mode,
        division: test.division,
        rehearsal: test.rehearsal.is_some(),
        loadgen_version: probed.version,
        seeds: probed.seeds,
        dataset: test.dataset.clone(),
        target_qps: test.target_qps,
        sut_name: test.sut_name.clone(),
        result: told.result,
        errors: told.errors,
    };
    let text = serde_json::to_vec_pretty(&told).unwrap_or_default();
    let path = test.out.join(TEST_FILE);
    std::fs::write(&path, text).map_err(|error| Trouble::System(format!("{}: {error}", path.display())))?;
    // LoadGen opens it whether it traces or not.
    let trace = test.out.join("mlperf_log_trace.json");
    if trace.metadata().is_ok_and(|meta| meta.len() == 0) {
        let _ = std::fs::remove_file(trace);
    }
    harness::write(&test.out, &came.measured)?;
    say(&Line::Done);
    Ok(())
}

impl Probed {
    /// In what the library is not the round's, each in a sentence.
    pub fn mismatches(&self, round: &Round) -> Vec<String> {
        let mut found = Vec::new();
        let pin = &round.loadgen;
        if !pin.accepted.contains(&self.version) {
            let accepted = pin.accepted.join(" or ");
            found.push(format!("the library is LoadGen {}, and round {} takes {accepted}", self.version, round.name));
        }
        let seeds = [
            ("qsl_rng_seed", self.seeds.qsl, pin.seeds.qsl),
            ("sample_index_rng_seed", self.seeds.sample_index, pin.seeds.sample_index),
            ("schedule_rng_seed", self.seeds.schedule, pin.seeds.schedule),
        ];
        for (name, is, should) in seeds.into_iter().filter(|(_, is, should)| is != should) {
            found.push(format!("the library's {name} is {is}, and round {} has {should}", round.name));
        }
        found
    }
}

/// What LoadGen took otherwise than the table has it: it ignores models and keys that it does not know without a word.
fn unheeded(settings: &Settings, test: &Test, benchmark: &Benchmark) -> Result<Vec<String>, Fault> {
    let mut found = Vec::new();
    let mut hold = |keys: &[&str], key: &'static str, should: f64| {
        let is = settings.number(key)?;
        let is_own = keys.iter().any(|key| test.user_keys.iter().any(|own| own == key));
        if !is_own && (is - should).abs() > 1e-9 * should.abs() {
            let model = benchmark.loadgen_model(test.scenario);
            found.push(format!("for model {model} LoadGen has {key} {is}, and the round's table says {should}"));
        }
        Ok::<_, Fault>(())
    };
    hold(&["use_token_latencies"], "use_token_latencies", 1.0)?;
    if let (Scenario::Server | Scenario::Interactive, Some(latency)) =
        (test.scenario, benchmark.latency.get(&test.scenario))
    {
        hold(&["ttft_latency"], "server_ttft_latency", latency.ttft_ms * 1e6)?;
        hold(&["tpot_latency"], "server_tpot_latency", latency.tpot_ms * 1e6)?;
    }
    match (test.scenario, test.target_qps) {
        (Scenario::Server | Scenario::Interactive, Some(qps)) => hold(&[], "server_target_qps", qps)?,
        (Scenario::Offline, Some(qps)) => hold(&[], "offline_expected_qps", qps)?,
        _ => {}
    }
    let samples = test.rehearsal.unwrap_or(benchmark.performance_samples);
    hold(&["performance_sample_count_override"], "performance_sample_count_override", samples as f64)?;
    let duration = if test.rehearsal.is_some() { conf::REHEARSAL_DURATION_MS } else { conf::MIN_DURATION_MS };
    hold(&["min_duration"], "min_duration_ms", duration as f64)?;
    Ok(found)
}

/// LoadGen's side of the test.
struct Called {
    inlet: Inlet,
}

impl Sut for Called {
    fn issue(&self, queries: &[Query]) {
        self.inlet.issue(queries.iter().map(|query| (query.ticket, query.sample)));
    }

    fn load(&self, samples: &[usize]) {
        // What cannot be made now fails again where it is sent, and is told there.
        let _ = self.inlet.load(samples);
    }

    fn unload(&self, samples: &[usize]) {
        self.inlet.unload(samples);
    }
}

/// LoadGen on one thread, its reporter on another, the load workers on theirs. All are joined when this returns.
fn race(
    library: &Arc<Library>,
    settings: Settings,
    test: &Test,
    samples: &[harness::Sample],
    (total, performance): (u64, u64),
    say: &(dyn Fn(&Line) + Sync),
) -> Result<Came, Trouble> {
    let (mouth, heard) = channel();
    let telling = {
        let library = Arc::clone(library);
        let wants_firsts = test.scenario != Scenario::Offline;
        spawn("reporter", move || library.reporter().map(|reporter| report(&heard, reporter, wants_firsts)))?
    };
    let issuing: Mutex<Option<JoinHandle<Result<(), Fault>>>> = Mutex::new(None);
    let open = |inlet: Inlet| {
        let names = (test.sut_name.clone(), test.benchmark.clone(), test.out.clone(), test.audit.clone());
        let issue = move || {
            let (sut, samples, out, audit) = &names;
            let told = Told { sut, samples, total, performance, out, audit: audit.as_deref() };
            settings.test(&told, &Called { inlet })
        };
        *issuing.lock().unwrap_or_else(PoisonError::into_inner) = spawn("loadgen", issue).ok();
    };
    let last = Mutex::new(Instant::now());
    let progress = |far: harness::Progress| {
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        if far.issued > 0 && last.elapsed() >= SAY_EVERY {
            *last = Instant::now();
            say(&Line::Progress { issued: far.issued, ended: far.ended, failed: far.failed });
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Trouble::System(format!("no runtime: {error}")))?;
    let stop = Stop::new();
    let measured =
        runtime.block_on(harness::run_outside(&test.spec, samples, Arc::new(Mouth(mouth)), open, &stop, progress));
    let measured = match measured {
        Ok(measured) => measured,
        Err(error) => {
            let is_issuing = issuing.lock().unwrap_or_else(PoisonError::into_inner).is_some();
            if is_issuing {
                // LoadGen waits for answers that will not come, and has no way to be told so.
                say(&Line::Failed { why: error.to_string(), is_refused: false });
                let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
            }
            return Err(error.into());
        }
    };
    let issued = issuing.into_inner().unwrap_or_else(PoisonError::into_inner).map(JoinHandle::join);
    let reported = telling.join();
    match issued {
        Some(Ok(Ok(()))) => {}
        Some(Ok(Err(fault))) => return Err(fault.into()),
        Some(Err(_)) | None => return Err(Trouble::System("LoadGen's thread ended before its test".to_owned())),
    }
    match reported {
        Ok(Some(reported)) => Ok(Came { measured, reported }),
        _ => Err(Trouble::System("the reporter's thread ended before the test".to_owned())),
    }
}

fn spawn<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>, Trouble> {
    let builder = thread::Builder::new().name(name.to_owned());
    builder.spawn(work).map_err(|error| Trouble::System(format!("no thread for {name}: {error}")))
}

/// What speaks against the run because of what LoadGen said.
fn reasons(told: &Loadgen, mode: Mode) -> Vec<Reason> {
    let mut found = Vec::new();
    let mut add = |severity: Severity, text: String| {
        found.push(Reason { check: "loadgen".to_owned(), severity, text });
    };
    match told.result.as_deref() {
        Some("VALID") => {}
        // An audit is about answers: TEST06 sends 100 queries, too few for LoadGen to call any Server run valid.
        Some(result) if mode != Mode::Performance => {
            let why = told.why.join(" ");
            add(
                Severity::Warning,
                format!("LoadGen says {result} of an audit, which is not judged by its speed: {why}"),
            );
        }
        Some(result) => add(Severity::InvalidLoad, format!("LoadGen says {result}: {}", told.why.join(" "))),
        None if mode == Mode::Accuracy => {}
        None => add(Severity::InvalidLoad, "LoadGen gave no result".to_owned()),
    }
    if told.errors > 0 {
        let Reporting { too_short, failed, .. } = told.reporting;
        let mut causes = Vec::new();
        if too_short > 0 {
            causes.push(format!("{too_short} answers had fewer than two tokens"));
        }
        if failed > 0 {
            causes.push(format!("{failed} requests failed"));
        }
        let causes = if causes.is_empty() { String::new() } else { format!(" ({})", causes.join(", ")) };
        let first = told.first_errors.join("; ");
        add(Severity::InvalidLoad, format!("LoadGen logged {} errors{causes}; the first: {first}", told.errors));
    }
    found
}

impl Test {
    /// Whether its result may be handed in, as far as this test knows.
    pub fn is_submittable(&self) -> bool {
        self.rehearsal.is_none() && !self.dataset.synthetic && self.division == Division::Closed
    }
}
