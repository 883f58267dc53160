//! The child process: its orders, then its end.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ffi::{LoadedLibrary, LoadgenError, LoadgenSettings};
use super::test_run::{MonotonicTime, TestOutcome, TestParts, end_at_once, run_loadgen};
use super::{reporter, test_run};
use crate::{DatasetRecord, TEST_FILE, TestRecord};
use base::diag::{ErrorText, in_file};
use base::files::read_bytes;
use base::spec::{Division, MIN_DURATION_MS, TestMode};
use harness::{BenchSpec, HarnessError, LoadgenResult, ReportingDelay, UnjudgedRun};
use rules::log::{DETAIL_FILE, Detail};
use rules::{Benchmark, MlperfScenario, Round, Seeds, conf};

/// The most errors of LoadGen in a result.
const SHOWN: usize = 5;

/// Why the orders could not be carried out.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct ChildError {
    error: ErrorText,
    /// The request does not fit.
    pub is_refused: bool,
}

impl ChildError {
    fn refused(text: impl Display) -> Self {
        Self { error: ErrorText::new(text), is_refused: true }
    }
}

impl From<ErrorText> for ChildError {
    fn from(error: ErrorText) -> Self {
        Self { error, is_refused: false }
    }
}

impl From<LoadgenError> for ChildError {
    fn from(error: LoadgenError) -> Self {
        ErrorText::new(error).into()
    }
}

impl From<HarnessError> for ChildError {
    fn from(error: HarnessError) -> Self {
        let is_refused = matches!(error, HarnessError::Spec(_) | HarnessError::Data { .. });
        Self { is_refused, ..ErrorText::new(error).into() }
    }
}

/// Carries out the file of orders. `send` gets each line for the process that started this one.
pub fn perform(orders: &Path, send: &(dyn Fn(&ChildMessage) + Sync)) -> Result<(), ChildError> {
    let text = read_bytes(orders).map_err(in_file(orders))?;
    match serde_json::from_slice(&text) {
        Ok(ChildOrders::Probe(probe)) => {
            send(&ChildMessage::Probed(probed(&probe)?));
            Ok(())
        }
        Ok(ChildOrders::Test(test)) => test_once(&test, send),
        Err(error) => Err(in_file(orders)(error).into()),
    }
}

fn probed(probe: &LibraryProbe) -> Result<LibraryFacts, ChildError> {
    let library = Arc::new(LoadedLibrary::open(&probe.library)?);
    let settings = library.settings(MlperfScenario::Server, false, &probe.user_conf, "llama2-70b")?;
    Ok(LibraryFacts { version: library.version(), revision: library.revision(), seeds: settings.seeds() })
}

fn test_once(test: &LoadgenTest, send: &(dyn Fn(&ChildMessage) + Sync)) -> Result<(), ChildError> {
    let round = Round::named(&test.round)
        .ok_or_else(|| ChildError::refused(format_args!("no round is called {}", test.round)))?;
    let benchmark = round.benchmarks.get(&test.benchmark);
    let missing = || ChildError::refused(format_args!("{} has no benchmark {}", round.name, test.benchmark));
    let benchmark = benchmark.ok_or_else(missing)?;
    send(&ChildMessage::Phase("reading the data set".to_owned()));
    let most = benchmark.max_output_tokens(test.mode);
    let samples = test_run::read(&test.samples, most, test.dataset.synthetic)?;
    let library = Arc::new(LoadedLibrary::open(&test.library)?);
    let is_accuracy = test.mode == TestMode::Accuracy;
    let model = benchmark.loadgen_model(test.scenario);
    let settings = library.settings(test.scenario, is_accuracy, &test.user_conf, &model)?;
    let probed = LibraryFacts { version: library.version(), revision: library.revision(), seeds: settings.seeds() };
    let mut faults = probed.mismatches(&round);
    faults.extend(ignored_settings(&settings, test, benchmark)?);
    if !faults.is_empty() {
        return Err(ChildError::refused(faults.join("; ")));
    }
    send(&ChildMessage::Phase("connecting".to_owned()));
    let total = samples.len() as u64;
    let performance = test.rehearsal.unwrap_or(benchmark.performance_samples).min(total);
    let ran = run_loadgen(&library, settings, test, &samples, (total, performance), send)?;
    send(&ChildMessage::Phase("writing results".to_owned()));
    let about = TestContext { round: &round, probed, test };
    match ran {
        TestOutcome::Finished(came) => about.run_test(came, send),
        TestOutcome::Stopped(measured) => {
            about.cut(measured, send)?;
            // LoadGen waits for answers that will not arrive, and has no call to report that.
            end_at_once();
            Ok(())
        }
    }
}

/// The context of a test.
struct TestContext<'a> {
    round: &'a Round,
    probed: LibraryFacts,
    test: &'a LoadgenTest,
}

impl TestContext<'_> {
    fn run_test(
        &self,
        TestParts { mut measured, reported }: TestParts,
        send: &(dyn Fn(&ChildMessage) + Sync),
    ) -> Result<(), ChildError> {
        let test = self.test;
        let detail = Detail::read_folder(&test.out).map_err(in_file(&test.out.join(DETAIL_FILE)))?;
        let metrics = match test.mode {
            TestMode::Accuracy => Vec::new(),
            _ => reporter::compare_percentiles(&detail, test.scenario, &measured, &reported),
        };
        let loadgen_result = LoadgenResult { metrics, reporting: reported.reporting, ..self.loadgen_result(&detail) };
        let (result, errors) = (loadgen_result.result.clone(), loadgen_result.errors);
        measured.loadgen_reported(loadgen_result);
        // LoadGen opens it whether it traces or not.
        let trace = test.out.join("mlperf_log_trace.json");
        if trace.metadata().is_ok_and(|meta| meta.len() == 0) {
            let _ = std::fs::remove_file(trace);
        }
        send(&ChildMessage::Zero(MonotonicTime::from_instant(measured.zero())));
        harness::write(&test.out, &measured.judge())?;
        // The last file: if it exists, the test is complete.
        let text = serde_json::to_vec_pretty(&self.test_record(result, errors)).unwrap_or_default();
        let path = test.out.join(TEST_FILE);
        std::fs::write(&path, text).map_err(in_file(&path))?;
        send(&ChildMessage::Done);
        Ok(())
    }

    /// The result of a stopped test: its records until then.
    fn cut(&self, mut measured: UnjudgedRun, send: &(dyn Fn(&ChildMessage) + Sync)) -> Result<(), ChildError> {
        let loadgen_result = self.loadgen_result(&Detail::read_folder(&self.test.out).unwrap_or_default());
        measured.loadgen_reported(loadgen_result);
        send(&ChildMessage::Zero(MonotonicTime::from_instant(measured.zero())));
        harness::write(&self.test.out, &measured.judge())?;
        send(&ChildMessage::Done);
        Ok(())
    }

    /// LoadGen's report, for the result.
    fn loadgen_result(&self, detail: &Detail) -> LoadgenResult {
        let test = self.test;
        LoadgenResult {
            version: self.probed.version.clone(),
            revision: self.probed.revision.clone(),
            round: self.round.name.clone(),
            benchmark: test.benchmark.clone(),
            scenario: test.scenario.title().to_owned(),
            mode: format!("{:?}", test.mode).to_lowercase(),
            rehearsal: test.rehearsal.is_some(),
            result: detail.result().map(str::to_owned),
            why: detail.invalid_reasons(),
            errors: detail.all_errors(),
            first_errors: detail.first_errors.iter().take(SHOWN).map(ToString::to_string).collect(),
            headline: reporter::headline(detail, test.scenario),
            metrics: Vec::new(),
            reporting: ReportingDelay::default(),
        }
    }

    fn test_record(&self, result: Option<String>, errors: u64) -> TestRecord {
        let test = self.test;
        TestRecord {
            round: self.round.name.clone(),
            benchmark: test.benchmark.clone(),
            scenario: test.scenario,
            mode: test.mode,
            division: test.division,
            rehearsal: test.rehearsal.is_some(),
            loadgen_version: self.probed.version.clone(),
            seeds: self.probed.seeds,
            dataset: test.dataset.clone(),
            target_qps: test.target_qps,
            sut_name: test.sut_name.clone(),
            result,
            errors,
        }
    }
}

impl LibraryFacts {
    /// Where the library differs from the round's, each in a sentence.
    pub fn mismatches(&self, round: &Round) -> Vec<String> {
        let mut mismatches = Vec::new();
        let pin = &round.loadgen;
        if !pin.accepted.contains(&self.version) {
            let accepted = pin.accepted.join(" or ");
            mismatches
                .push(format!("the library is LoadGen {}, but round {} accepts {accepted}", self.version, round.name));
        }
        let seeds = self.seeds.named().into_iter().zip(pin.seeds.named());
        for ((name, is), (_, should)) in seeds.filter(|(is, should)| is != should) {
            mismatches.push(format!("the library's {name}_rng_seed is {is}, and round {} has {should}", round.name));
        }
        mismatches
    }
}

/// Settings where LoadGen differs from the table: it silently ignores models and keys that it does not know.
fn ignored_settings(
    settings: &LoadgenSettings,
    test: &LoadgenTest,
    benchmark: &Benchmark,
) -> Result<Vec<String>, LoadgenError> {
    let is_server = test.scenario.loadgen() == "Server";
    let latency = benchmark.latency.get(&test.scenario).filter(|_| is_server);
    let qps = |is_in_force: bool| test.target_qps.filter(|_| is_in_force);
    let samples = test.rehearsal.unwrap_or(benchmark.performance_samples);
    let duration = if test.rehearsal.is_some() { conf::REHEARSAL_DURATION_MS } else { MIN_DURATION_MS };
    let mut ignored = Vec::new();
    // The key of user.conf that may set it, LoadGen's own name, and the table's value.
    for (own, key, should) in [
        ("use_token_latencies", "use_token_latencies", Some(1.0)),
        ("ttft_latency", "server_ttft_latency", latency.map(|limits| limits.ttft_ms * 1e6)),
        ("tpot_latency", "server_tpot_latency", latency.map(|limits| limits.tpot_ms * 1e6)),
        ("", "server_target_qps", qps(is_server)),
        ("", "offline_expected_qps", qps(test.scenario == MlperfScenario::Offline)),
        ("performance_sample_count_override", "performance_sample_count_override", Some(samples as f64)),
        ("min_duration", "min_duration_ms", Some(duration as f64)),
    ] {
        let Some(should) = should.filter(|_| test.user_keys.iter().all(|key| key != own)) else { continue };
        let is = settings.number(key)?;
        if (is - should).abs() > 1e-9 * should.abs() {
            let model = benchmark.loadgen_model(test.scenario);
            ignored.push(format!("for model {model} LoadGen has {key} {is}, but the round's table has {should}"));
        }
    }
    Ok(ignored)
}

// The orders of the child process, and its standard output: one line of JSON for each message.

/// The file with which the child is started.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildOrders {
    Probe(LibraryProbe),
    Test(Box<LoadgenTest>),
}

/// Report which library this is.
#[derive(Debug, Serialize, Deserialize)]
pub struct LibraryProbe {
    pub library: PathBuf,
    /// An empty user.conf, for LoadGen to read its built-in one.
    pub user_conf: PathBuf,
}

/// A library's description of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibraryFacts {
    pub version: String,
    pub revision: String,
    pub seeds: Seeds,
}

/// One LoadGen test.
#[derive(Debug, Serialize, Deserialize)]
pub struct LoadgenTest {
    pub library: PathBuf,
    /// `dataset.jsonl`
    pub samples: PathBuf,
    pub dataset: DatasetRecord,
    /// Logs and results go here.
    pub out: PathBuf,
    /// The servers and the requests. Its scenario is `External`.
    pub spec: BenchSpec,
    pub round: String,
    pub benchmark: String,
    pub scenario: MlperfScenario,
    pub mode: TestMode,
    pub division: Division,
    /// For a rehearsal: how many samples it draws from.
    pub rehearsal: Option<u64>,
    pub target_qps: Option<f64>,
    pub user_conf: PathBuf,
    /// Keys that this user.conf sets: the table's values are not expected for them.
    pub user_keys: Vec<String>,
    pub audit: Option<PathBuf>,
    pub sut_name: String,
}

/// A message of the child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildMessage {
    /// The current phase.
    Phase(String),
    /// Samples issued, answered, failed so far.
    Progress {
        issued: u64,
        ended: u64,
        failed: u64,
    },
    Probed(LibraryFacts),
    /// When the first sample was issued: all stamps in the files count from it.
    Zero(MonotonicTime),
    /// The test has finished, and its files are written.
    Done,
    /// The test could not run. `is_refused`: because of the request itself.
    Failed {
        why: String,
        is_refused: bool,
    },
}
