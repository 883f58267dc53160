//! Puts files where the round's layout requires them.

use std::fs;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use serde_json::Value;
use walkdir::WalkDir;

use super::{PackageEntry, PackageRequest, Unpacked};
use crate::layout::{test_folder, verdict_file};
use crate::loadgen::is_simulated;
use crate::submission_check::{POWER_PATHS, describes_power, files};
use crate::{LockedResult, LockedRun, SubmissionLayout, TEST_FILE, TestRecord, truncate_accuracy_log};
use base::files::{read_text, sha256_of_file};
use base::spec::TestMode;
use rules::log::{ACCURACY_FILE, DETAIL_FILE, SUMMARY_FILE};
use rules::with_text_flags;

const CONF: &str = "user.conf";

/// A submitter's folder.
pub(super) struct SubmitterFolder {
    pub root: PathBuf,
    pub layout: SubmissionLayout,
}

impl SubmitterFolder {
    fn at(&self, below: &Path) -> Result<PathBuf, Unpacked> {
        let path = self.root.join(below);
        let folder = path.parent().unwrap_or(&self.root);
        fs::create_dir_all(folder).map_err(|error| Unpacked::Io(folder.to_owned(), error))?;
        Ok(path)
    }

    pub(super) fn text(&self, below: &Path, text: &str) -> Result<(), Unpacked> {
        let path = self.at(below)?;
        fs::write(&path, text).map_err(|error| Unpacked::Io(path, error))
    }

    pub(super) fn json(&self, below: &Path, value: &Value) -> Result<(), Unpacked> {
        self.text(below, &format!("{value:#}\n"))
    }

    /// Copies a file; gives its SHA-256.
    fn file(&self, from: &Path, below: &Path) -> Result<String, Unpacked> {
        let path = self.at(below)?;
        fs::copy(from, &path).map_err(|error| Unpacked::Io(from.to_owned(), error))?;
        sha256_of_file(&path).map_err(|error| Unpacked::Io(path, error))
    }

    /// Copies LoadGen's two logs, and locks them.
    fn logs(&self, from: &Path, below: &Path, run: &mut LockedRun) -> Result<(), Unpacked> {
        for name in [SUMMARY_FILE, DETAIL_FILE] {
            run.files.insert(name.to_owned(), self.file(&from.join(name), &below.join(name))?);
        }
        Ok(())
    }

    /// Copies a log without its middle; gives the SHA-256 of the whole.
    fn log(&self, from: &Path, below: &Path) -> Result<String, Unpacked> {
        let path = self.at(below)?;
        truncate_accuracy_log::truncated(from, &path).map_err(|error| Unpacked::Io(from.to_owned(), error))
    }

    /// Copies the texts about a power meter that lie in a folder.
    pub(super) fn described_power(&self, from: &Path, below: &Path) -> Result<(), Unpacked> {
        for name in files(from).into_iter().filter(|name| describes_power(name)) {
            self.file(&from.join(&name), &below.join(&name))?;
        }
        Ok(())
    }

    /// Copies a folder, without what version control keeps for itself.
    pub(super) fn tree(&self, from: Option<&Path>, below: &str) -> Result<(), Unpacked> {
        let Some(from) = from else { return Ok(()) };
        // Links to folders are left out: `latest/` would bring every output in.
        let walk = WalkDir::new(from).sort_by_file_name().into_iter();
        for item in walk.filter_entry(|item| !matches!(item.file_name().to_str(), Some(".git" | ".regatta"))) {
            let item = item.map_err(|error| Unpacked::Io(from.to_owned(), error.into()))?;
            if item.path().is_file() {
                let name = item.path().strip_prefix(from).unwrap_or(item.path());
                self.file(item.path(), &Path::new(below).join(name))?;
            }
        }
        Ok(())
    }
}

pub(super) type Tests = IndexMap<TestMode, Option<TestRecord>>;

/// Reads what each run was, and looks whether its files are there. All that is wrong goes into `problems`.
pub(super) fn read_tests(order: &PackageRequest, problems: &mut Vec<String>) -> Vec<Tests> {
    order
        .results
        .iter()
        .map(|entry| {
            let name = format!("{} {}", entry.benchmark, entry.scenario.title());
            let mut tests = Tests::new();
            for (mode, folder, files) in runs(entry) {
                let run = format!("{name}: the {} run ({})", test_folder(mode), folder.display());
                let absent: Vec<&str> = files.iter().copied().filter(|file| !folder.join(file).is_file()).collect();
                if !absent.is_empty() {
                    problems.push(format!("{run} has no {}", absent.join(", ")));
                }
                let test = TestRecord::in_folder(folder).unwrap_or_else(|error| {
                    problems.push(format!("{run}: {error}"));
                    None
                });
                match &test {
                    None => problems.push(format!("{run} has no {TEST_FILE} that describes the run")),
                    Some(test) => problems
                        .extend(misplaced(order, entry, mode, test).into_iter().map(|what| format!("{run} {what}"))),
                }
                tests.insert(mode, test);
            }
            if !entry.score.join("accuracy.txt").is_file() {
                problems.push(format!("{name}: {} has no accuracy.txt", entry.score.display()));
            }
            for (mode, folder) in &entry.verified {
                if !folder.join(verdict_file(*mode)).is_file() {
                    problems.push(format!("{name}: {} has no {}", folder.display(), verdict_file(*mode)));
                }
            }
            for mode in entry.audits.keys().filter(|mode| !entry.verified.contains_key(*mode)) {
                problems.push(format!(
                    "{name}: {} was run but not verified; also name its `verify` stage",
                    test_folder(*mode)
                ));
            }
            tests
        })
        .collect()
}

/// A run of an entry: its mode, its folder, and the files that it must have.
fn runs(entry: &PackageEntry) -> Vec<(TestMode, &Path, &'static [&'static str])> {
    const LOGS: &[&str] = &[SUMMARY_FILE, DETAIL_FILE, ACCURACY_FILE];
    let audits = entry.audits.iter().map(|(mode, folder)| (*mode, folder.as_path(), LOGS));
    let performance = (TestMode::Performance, &*entry.performance, &[SUMMARY_FILE, DETAIL_FILE, CONF][..]);
    [performance, (TestMode::Accuracy, &*entry.accuracy, LOGS)].into_iter().chain(audits).collect()
}

/// Why a run may not be packed there.
fn misplaced(order: &PackageRequest, entry: &PackageEntry, mode: TestMode, test: &TestRecord) -> Vec<String> {
    let mut problems = Vec::new();
    let is = (test.round.as_str(), test.benchmark.as_str(), test.scenario, test.mode);
    let measured = entry.copy_of.as_ref().unwrap_or(&entry.benchmark);
    if is != (order.round.name.as_str(), measured.as_str(), entry.scenario, mode) {
        let (scenario, kind) = (test.scenario.title(), test_folder(test.mode));
        problems.push(format!("is of {} {scenario}, {kind}, in {}", test.benchmark, test.round));
    }
    if !order.rehearse {
        let again = "`rehearse: true` under `package` packs it for practice";
        if test.rehearsal {
            problems.push(format!("is a rehearsal with shortened durations; {again}"));
        }
        if test.dataset.synthetic {
            problems.push(format!("is on made-up data; {again}"));
        }
    }
    problems
}

/// Packs one result.
pub(super) fn result(
    to: &SubmitterFolder,
    order: &PackageRequest,
    entry: &PackageEntry,
    tests: Tests,
) -> Result<LockedResult, Unpacked> {
    let (system, scenario) = (order.system.as_str(), entry.scenario.title());
    let folder = to.layout.result(system, &entry.benchmark, scenario);
    let measurements = to.layout.measurements(system, &entry.benchmark, scenario);
    let mut locked = IndexMap::new();
    for (mode, test) in tests {
        let run = match mode {
            TestMode::Performance => performance(to, entry, &folder, &measurements)?,
            TestMode::Accuracy => accuracy(to, entry, &folder)?,
            audit => audited(to, entry, &to.layout.audit(system, &entry.benchmark, scenario, audit), audit)?,
        };
        let (_, from, _) =
            runs(entry).into_iter().find(|(of, ..)| *of == mode).unwrap_or((mode, &entry.performance, &[]));
        let (task, under_test) = super::origins(&order.upstream_tasks, from);
        locked.insert(mode, LockedRun { task, test, under_test, simulated: is_simulated(from), ..run });
    }
    to.json(
        &measurements.join(to.layout.measurements_file(system, scenario)),
        &Value::Object(with_text_flags(&order.measurements)),
    )?;
    to.text(&measurements.join("README.md"), &super::result(order, entry, &locked))?;
    Ok(LockedResult { benchmark: entry.benchmark.clone(), scenario: entry.scenario, runs: locked })
}

fn performance(
    to: &SubmitterFolder,
    entry: &PackageEntry,
    folder: &Path,
    measurements: &Path,
) -> Result<LockedRun, Unpacked> {
    let mut run = LockedRun::default();
    let inside = folder.join("performance/run_1");
    to.logs(&entry.performance, &inside, &mut run)?;
    let log = entry.performance.join(ACCURACY_FILE);
    if log.is_file() {
        run.files.insert(ACCURACY_FILE.to_owned(), to.log(&log, &inside.join(ACCURACY_FILE))?);
    }
    run.files.insert(CONF.to_owned(), to.file(&entry.performance.join(CONF), &measurements.join(CONF))?);
    for name in POWER_PATHS.split(' ').filter(|name| entry.performance.join(name).is_file()) {
        to.file(&entry.performance.join(name), &folder.join("performance").join(name))?;
    }
    Ok(run)
}

fn accuracy(to: &SubmitterFolder, entry: &PackageEntry, folder: &Path) -> Result<LockedRun, Unpacked> {
    let mut run = LockedRun::default();
    let inside = folder.join("accuracy");
    to.logs(&entry.accuracy, &inside, &mut run)?;
    let hash = to.log(&entry.accuracy.join(ACCURACY_FILE), &inside.join(ACCURACY_FILE))?;
    let from = entry.score.join("accuracy.txt");
    let mut text = read_text(&from).map_err(|error| Unpacked::Io(from.clone(), error))?;
    match truncate_accuracy_log::hashes(&text).as_slice() {
        [] => text = format!("{text}\nhash={hash}\n"),
        hashes if hashes.iter().all(|found| *found == hash) => {}
        _ => {
            let (scores, run) = (from.display(), entry.accuracy.display());
            let message = format!("{scores} is not from the accuracy run {run}: the hashes differ");
            return Err(Unpacked::Incomplete { problems: vec![message], snippet: None });
        }
    }
    to.text(&inside.join("accuracy.txt"), &text)?;
    run.files.insert(ACCURACY_FILE.to_owned(), hash);
    Ok(run)
}

/// What each test's own verification leaves: TEST07 and TEST09 with their logs, truncated and hashed, TEST06 with its
/// samples.
fn audited(to: &SubmitterFolder, entry: &PackageEntry, folder: &Path, test: TestMode) -> Result<LockedRun, Unpacked> {
    let mut run = LockedRun::default();
    let Some(from) = entry.audits.get(&test) else { return Ok(run) };
    let inside = folder.join("accuracy");
    let log = from.join(ACCURACY_FILE);
    let hash = if test == TestMode::Test06 {
        to.file(&log, &inside.join(ACCURACY_FILE))?
    } else {
        let hash = to.log(&log, &inside.join(ACCURACY_FILE))?;
        to.text(&inside.join("accuracy.txt"), &format!("hash={hash}\n"))?;
        to.logs(from, &folder.join("performance/run_1"), &mut run)?;
        hash
    };
    run.files.insert(ACCURACY_FILE.to_owned(), hash);
    if let Some(verified) = entry.verified.get(&test) {
        to.file(&verified.join(verdict_file(test)), &folder.join(verdict_file(test)))?;
    }
    Ok(run)
}
