//! Audit tests: those that the round requires are there, and passed.

use std::collections::BTreeSet;
use std::path::Path;

use super::checks::{SubmissionCheck, SubmissionFindings};
use super::tree::{ResultEntry, Submitter, SystemEntry, folders};
use crate::audit::{NOT_JUDGED, test06_answers};
use crate::layout::{test_folder, verdict_file};
use crate::{LockedResult, LockedRun, PACKAGE_LOCK_FILE, PackageProvenance};
use base::files::{read_text, sha256_of_file};
use base::spec::TestMode;
use rules::log::{ACCURACY_FILE, DETAIL_FILE, Detail};
use rules::{Audit, Benchmark, MlperfScenario, Round};

/// LoadGen draws the 100 of TEST06 by chance; published logs hold 87 to 108.
const FEWEST_ANSWERS: u64 = 60;

pub(super) fn check(to: &mut SubmissionFindings, entry: &ResultEntry, benchmark: &Benchmark, scenario: MlperfScenario) {
    if !entry.is_closed() {
        return;
    }
    for test in &benchmark.tests {
        let folder = entry.audit(*test);
        if !folder.is_dir() {
            let finding = format!("{} is missing", test_folder(*test));
            let fix = format!(
                "run it (`mode: {0}`), verify it (`mlperf: {{ verify: … }}`), and name both under `audits` and \
                 `verified`",
                test_folder(*test).to_lowercase()
            );
            to.refuse(SubmissionCheck::MissingTest, &folder, finding)
                .rule(format!("a closed result of {} has passed it", entry.benchmark))
                .fix(fix);
            continue;
        }
        verdict(to, &folder, *test, scenario);
        if let Some(audit) = benchmark.audits.get(test) {
            values(to, &folder, *test, audit);
            settings(to, &folder, *test, audit);
        }
        let log = folder.join("accuracy/mlperf_log_accuracy.json");
        let size = std::fs::metadata(&log).map_or(0, |meta| meta.len());
        if *test == TestMode::Test06 {
            answers(to, &log, benchmark, scenario);
        }
        if size <= 2 {
            let finding = if log.is_file() { "it holds no samples" } else { "it is missing" };
            to.review(SubmissionCheck::AuditLog, &log, finding)
                .rule("the verification is of the samples that the test logged")
                .fix("run the test with its audit.config and verify it again");
        }
    }
    let above = entry.audit(TestMode::Test06).parent().map(Path::to_owned).unwrap_or_default();
    for name in folders(&above).iter().filter(|name| name.starts_with("TEST")) {
        if !benchmark.tests.iter().any(|test| test_folder(*test) == name) {
            let finding = format!("{name} is not a test of {}", entry.benchmark);
            to.review(SubmissionCheck::ExtraTest, &above.join(name), finding)
                .rule("it is not examined")
                .fix("take it out");
        }
    }
}

/// The numbers in the verification of TEST07 and TEST09, against their bounds: `TEST PASS` is only a line below them.
fn values(to: &mut SubmissionFindings, folder: &Path, test: TestMode, audit: &Audit) {
    let at = folder.join(verdict_file(test));
    let Ok(text) = read_text(&at) else { return };
    if !text.lines().any(|line| line.trim() == "TEST PASS") {
        return;
    }
    let (names, finding, bounds): (&[&str], _, _) = match test {
        TestMode::Test07 => (&["'exact_match':", "Accuracy score:"], "an exact match", audit.exact_match),
        _ => (&["Mean output tokens:"], "a mean length", audit.output_tokens),
    };
    let bounds = bounds.unwrap_or_default();
    let printed = names.iter().flat_map(|name| numbers(&text, name));
    let outside = printed
        .into_iter()
        .find(|value| bounds.min.is_some_and(|min| *value < min) || bounds.max.is_some_and(|max| *value > max));
    if let Some(value) = outside {
        let allowed = match (bounds.min, bounds.max) {
            (Some(min), Some(max)) => format!("from {min} to {max}"),
            (Some(min), None) => format!("at least {min}"),
            (None, max) => format!("at most {}", max.unwrap_or_default()),
        };
        let finding = format!("it has TEST PASS and {finding} of {value}, which has to be {allowed}");
        to.refuse(SubmissionCheck::TestFailed, &at, finding)
            .rule("the bound decides whether the test passes")
            .fix("run the test and verify it again");
    }
    let total = numbers(&text, "Total samples:").into_iter().next();
    if let Some(total) = total.filter(|total| *total < audit.samples as f64) {
        let finding = format!("it is of {total} samples, and the test has {}", audit.samples);
        to.review(SubmissionCheck::AuditLog, &at, finding)
            .rule("a part of the answers shows less than all of them")
            .fix("run the test with its own audit.config and data set, and verify it again");
    }
}

/// The numbers that follow a name.
fn numbers(text: &str, name: &str) -> Vec<f64> {
    let after = text.match_indices(name).map(|(at, _)| text[at + name.len()..].trim_start());
    let digits = |rest: &str| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        rest[..end].parse().ok()
    };
    after.filter_map(digits).collect()
}

/// Whether LoadGen worked with the audit.config of this test. A published result has those of TEST07 and TEST09
/// exchanged.
fn settings(to: &mut SubmissionFindings, folder: &Path, test: TestMode, audit: &Audit) {
    let run = folder.join("performance/run_1");
    let Ok(detail) = Detail::read_folder(&run) else { return };
    let needed = [
        ("effective_accuracy_log_sampling_target", audit.sampling_target),
        ("requested_min_query_count", audit.samples),
    ];
    for (key, value) in needed {
        if let Some(found) = detail.count(key).filter(|found| *found != value) {
            let finding = format!("`{key}` is {found}, and {} has {value}", test_folder(test));
            to.review(SubmissionCheck::AuditLog, &run.join(DETAIL_FILE), finding)
                .rule("audit.config of the test was not in force")
                .fix("run the test with its own audit.config, and verify it again");
        }
    }
}

/// The answers of TEST06, where their log is whole: their number, and what the test looks at.
fn answers(to: &mut SubmissionFindings, at: &Path, benchmark: &Benchmark, scenario: MlperfScenario) {
    let Some(found) = test06_answers(at, scenario, &benchmark.end_ids) else { return };
    let fix = "run the test with its audit.config and verify it again";
    if found.answers > 0 && found.answers < FEWEST_ANSWERS {
        let finding = format!("it holds {} answers, about 100 are sampled", found.answers);
        to.refuse(SubmissionCheck::AuditLog, at, finding)
            .rule("the verification is of the samples that the test logged")
            .fix(fix);
    }
    for offence in found.offences {
        to.refuse(SubmissionCheck::AuditLog, at, offence)
            .rule("the answers that the test logged show that it failed, whatever verify_accuracy.txt has")
            .fix(fix);
    }
}

fn verdict(to: &mut SubmissionFindings, folder: &Path, test: TestMode, scenario: MlperfScenario) {
    let at = folder.join(verdict_file(test));
    let fix = "`mlperf: { verify: … }` writes it from the audit run; if the test fails, its message names the sample";
    let text = match read_text(&at) {
        Ok(text) => text,
        Err(error) => return to.refuse_unread(&at, &error, "it has the result of the test", fix),
    };
    let has = |line: &str| text.lines().any(|found| found.trim() == line);
    let mut failed: Vec<&str> = Vec::new();
    if test == TestMode::Test06 {
        // The script of the test writes each line once; of two verifications in one file both count.
        let outcomes = |name: &str| {
            let verdicts = text.lines().filter_map(|line| line.trim().strip_prefix(name));
            verdicts.map(str::trim).collect::<BTreeSet<_>>()
        };
        let passed = |name: &str| outcomes(name) == BTreeSet::from(["True"]);
        let first = "First token check pass:";
        // Offline logs no first tokens. In the others it must not be skipped.
        let is_skipped = scenario == MlperfScenario::Offline && outcomes(first) == BTreeSet::from(["Skipped"]);
        failed.extend((!passed(first) && !is_skipped).then_some("first token"));
        failed.extend((!passed("EOS check pass:")).then_some("EOS"));
        failed.extend((!passed("Sample length check pass:")).then_some("sample length"));
    } else if !has("TEST PASS") || has("TEST FAIL") {
        failed.push("TEST PASS");
    }
    if test != TestMode::Test06 && has(&format!("TEST {NOT_JUDGED}")) {
        let finding = format!("{} was not judged: its answers are simulated", test_folder(test));
        to.refuse(SubmissionCheck::TestNotJudged, &at, finding)
            .rule("a result is valid only with its audit tests, of the real data set")
            .fix("run the test with the data set of the round");
        return;
    }
    if !failed.is_empty() {
        let finding = format!("{} did not pass: {}", test_folder(test), failed.join(", "));
        to.refuse(SubmissionCheck::TestFailed, &at, finding)
            .rule("a result is valid only with its audit tests")
            .fix(fix);
    }
}

// Checks a package against its `regatta.lock`: a rehearsal, synthetic data, runs of two systems, files changed later.

/// The locks of a submitter, one for each system; reports those of another round or of a rehearsal, and systems without
/// one.
pub(super) fn read(to: &mut SubmissionFindings, submitter: &Submitter, round: &Round) -> Vec<PackageProvenance> {
    let documentation = submitter.folder.join("documentation");
    let locks = match PackageProvenance::all(&submitter.folder) {
        Ok(locks) => locks,
        Err(error) => {
            to.refuse(
                SubmissionCheck::Lock,
                &documentation.join(PACKAGE_LOCK_FILE),
                format!("it cannot be read: {error}"),
            )
            .rule("it records where the files are from")
            .fix("pack again");
            return Vec::new();
        }
    };
    for lock in &locks {
        let name = PackageProvenance::file_name((locks.len() > 1).then_some(&lock.system));
        one_lock(to, &documentation.join(name), lock, submitter, round);
    }
    let has_none = |system: &&SystemEntry| locks.iter().all(|lock| lock.system != system.name);
    for system in submitter.systems.iter().filter(|system| !locks.is_empty() && has_none(system)) {
        let finding = format!("regatta.lock knows nothing of the system {}", system.name);
        to.refuse(SubmissionCheck::Lock, &submitter.folder.join("results").join(&system.name), finding)
            .rule("a system that was copied in has no provenance")
            .fix("`regatta mlperf assemble`");
    }
    locks
}

fn one_lock(to: &mut SubmissionFindings, at: &Path, lock: &PackageProvenance, submitter: &Submitter, round: &Round) {
    if lock.rehearsal {
        let finding = "this package is a rehearsal";
        to.refuse(SubmissionCheck::Rehearsal, at, finding)
            .rule("durations were shortened, or its data is synthetic")
            .fix("take `rehearse` out of the manifest and run again");
    }
    for (name, locked, found) in [("round", &lock.round, &round.name), ("submitter", &lock.submitter, &submitter.name)]
    {
        if locked != found {
            let finding = format!("it was packed for {name} {locked}, and is checked for {found}");
            to.refuse(SubmissionCheck::Lock, at, finding)
                .rule("what was packed is what is submitted")
                .fix("pack again; files must not be moved by hand");
        }
    }
}

/// Checks one result against the lock.
pub(super) fn check_package_lock(
    to: &mut SubmissionFindings,
    entry: &ResultEntry,
    scenario: MlperfScenario,
    round: &Round,
    lock: &PackageProvenance,
) {
    let Some(result) = lock.result(entry.benchmark, scenario) else {
        let finding = format!("regatta.lock knows nothing of {} {}", entry.benchmark, entry.scenario);
        to.refuse(SubmissionCheck::Lock, &entry.folder(), finding)
            .rule("a result that was copied in has no provenance")
            .fix("name it under `results` and pack again");
        return;
    };
    for (mode, run) in &result.runs {
        check_test_record(to, entry, scenario, round, *mode, run);
    }
    one_system(to, entry, result);
    for (mode, folder) in [(TestMode::Performance, entry.performance()), (TestMode::Accuracy, entry.accuracy())] {
        let Some(run) = result.runs.get(&mode) else { continue };
        // Of a truncated log the lock has the hash of the whole.
        for (name, hash) in run.files.iter().filter(|(name, _)| *name != ACCURACY_FILE) {
            let path = if name == "user.conf" { entry.measurements().join(name) } else { folder.join(name) };
            if path.is_file() && sha256_of_file(&path).is_ok_and(|found| found != *hash) {
                to.refuse(SubmissionCheck::ChangedFile, &path, "it was changed after it was packed")
                    .rule("logs are submitted as LoadGen wrote them; regatta.lock has the hash of what was packed")
                    .fix("pack again");
            }
        }
    }
}

fn check_test_record(
    to: &mut SubmissionFindings,
    entry: &ResultEntry,
    scenario: MlperfScenario,
    round: &Round,
    mode: TestMode,
    run: &LockedRun,
) {
    let Some(test) = &run.test else { return };
    let at = match mode {
        TestMode::Performance => entry.performance(),
        TestMode::Accuracy => entry.accuracy(),
        test => entry.audit(test),
    };
    let name = test_folder(mode);
    if test.rehearsal {
        let finding = format!("the {name} run was a rehearsal: its durations were shortened");
        to.refuse(SubmissionCheck::Rehearsal, &at, finding)
            .rule("every test lasts at least 600 s")
            .fix("take `rehearse` out of the manifest and run again");
    }
    if test.dataset.synthetic {
        let finding = format!("the {name} run was on made-up data ({} samples)", test.dataset.samples);
        to.refuse(SubmissionCheck::SyntheticData, &at, finding)
            .rule("a result is measured on the benchmark's data set")
            .fix("`mlperf: { dataset: { from: … } }` reads the benchmark's own");
    }
    // A result for 99.9 % is one for 99 %, too.
    let high = test.benchmark.strip_suffix(".9").filter(|low| *low == entry.benchmark && low.ends_with("-99"));
    let benchmark = high.unwrap_or(&test.benchmark);
    let is = (test.round.as_str(), benchmark, test.scenario, test.mode);
    if is != (round.name.as_str(), entry.benchmark, scenario, mode) {
        let finding = format!(
            "the run packed as {name} was {} of {} {} in {}",
            test_folder(test.mode),
            test.benchmark,
            test.scenario.title(),
            test.round
        );
        to.refuse(SubmissionCheck::WrongRun, &at, finding)
            .rule(format!("here belongs {name} of {} {} in {}", entry.benchmark, scenario.title(), round.name))
            .fix("name the right stage under `results`");
    }
}

/// Performance, accuracy and audits are of the same engine, configuration and server.
fn one_system(to: &mut SubmissionFindings, entry: &ResultEntry, result: &LockedResult) {
    let Some(first) = result.runs.get(&TestMode::Performance) else { return };
    for (mode, run) in result.runs.iter().filter(|(mode, _)| **mode != TestMode::Performance) {
        let kinds: BTreeSet<&String> = first.under_test.keys().chain(run.under_test.keys()).collect();
        for kind in kinds {
            let (a, b) = (first.under_test.get(kind), run.under_test.get(kind));
            if a != b {
                let short = |digests: Option<&BTreeSet<String>>| {
                    let digests: Vec<&str> =
                        digests.into_iter().flatten().map(|digest| digest.get(..12).unwrap_or(digest)).collect();
                    if digests.is_empty() { "none".to_owned() } else { digests.join(", ") }
                };
                let finding = format!(
                    "the {} run had another `{kind}` ({}) than the performance run ({})",
                    test_folder(*mode),
                    short(b),
                    short(a)
                );
                to.refuse(SubmissionCheck::TwoSystems, &entry.folder(), finding)
                    .rule("all runs of a result are of one system: the same engine, configuration and server")
                    .fix("let both stages name the same upstream stages, and run again");
            }
        }
    }
}
