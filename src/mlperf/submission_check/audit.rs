//! Audit tests: those that the round requires are there, and passed.

use std::collections::BTreeSet;
use std::path::Path;

use super::accuracy::{implausible, miscounted, numbers};
use super::checks::{Refused, Review, SubmissionCheck, SubmissionFindings, finding, findings};
use super::consistency::mean_tokens;
use super::loadgen;
use super::tree::{ResultEntry, Submitter, SystemEntry, folders};
use crate::audit::{AuditOutputs, NOT_JUDGED};
use crate::layout::{test_folder, verdict_file};
use crate::provenance::shortened;
use crate::truncate_accuracy_log::is_truncated;
use crate::{LockedResult, LockedRun, PACKAGE_LOCK_FILE, PackageProvenance, TestRecord};
use base::files::{read_text, sha256_of_file};
use base::spec::TestMode;
use rules::log::{ACCURACY_FILE, AnswerLog, DETAIL_FILE, Detail};
use rules::{Audit, Benchmark, MlperfScenario, Round};

/// LoadGen draws the 100 of TEST06 by chance; published logs hold 87 to 108.
const FEWEST_ANSWERS: u64 = 60;

pub(super) fn check(to: &mut SubmissionFindings, entry: &ResultEntry, performance: Option<&Detail>) {
    if !entry.is_closed() {
        return;
    }
    let (benchmark, scenario) = (entry.table, entry.titled);
    for test in &benchmark.tests {
        let folder = entry.audit(*test);
        if !folder.is_dir() {
            let finding = format!("{} is missing", test_folder(*test));
            let fix = format!(
                "run it (`mode: {0}`), verify it (`mlperf: {{ verify: … }}`), and name both under `audits` and \
                 `verified`",
                test_folder(*test).to_lowercase()
            );
            finding!(to; Refused, MissingTest, &folder, finding,
                format!("a closed result of {} has passed it", entry.benchmark), fix);
            continue;
        }
        verdict(to, &folder, *test, scenario);
        let run = loadgen::other_run(to, &folder.join("performance/run_1"), entry, performance);
        if let Some(audit) = benchmark.audits.get(test) {
            values(to, &folder, *test, audit, run.as_ref().and_then(|run| mean_tokens(run, scenario)));
            if let Some(run) = &run {
                settings(to, &folder, *test, audit, [run, performance.unwrap_or(run)]);
            }
            let log = folder.join("performance/run_1").join(DETAIL_FILE);
            findings! { to;
                Review, MissingFile, &log, run.is_none().then_some("there is no readable log of the test's run"),
                    "its settings and its result are in its logs", "pack the logs of the test's run";
            }
        }
        let log = folder.join("accuracy/mlperf_log_accuracy.json");
        let size = std::fs::metadata(&log).map_or(0, |meta| meta.len());
        if *test == TestMode::Test06 && size > 2 {
            test06(to, &log, benchmark, scenario);
        }
        findings! { to;
            Review, AuditLog, &log,
                (size <= 2).then(|| if log.is_file() { "it holds no samples" } else { "it is missing" }),
                "the verification must cover the samples that the test logged",
                "run the test with its audit.config and verify it again";
        }
    }
    let above = entry.audit(TestMode::Test06).parent().map(Path::to_owned).unwrap_or_default();
    let is_extra = |name: &&String| {
        name.starts_with("TEST") && benchmark.tests.iter().all(|test| test_folder(*test) != name.as_str())
    };
    for name in folders(&above).iter().filter(is_extra) {
        finding!(to; Review, ExtraTest, &above.join(name), format!("{name} is not a test of {}", entry.benchmark),
            "it is not examined", "remove it");
    }
}

/// The numbers in the verification of TEST07 and TEST09, against their bounds and each other: `TEST PASS` is only a
/// line below them. `mean`: tokens of an answer by the log of the test's run.
fn values(to: &mut SubmissionFindings, folder: &Path, test: TestMode, audit: &Audit, mean: Option<f64>) {
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
    let printed: Vec<f64> = names.iter().flat_map(|name| numbers(&text, name)).collect();
    let outside = printed.iter().find_map(|value| Some((value, bounds.broken_by(*value)?)));
    let first = |name: &str| numbers(&text, name).first().copied();
    let threshold =
        [("Accuracy threshold:", bounds.min), ("Min threshold:", bounds.min), ("Max threshold:", bounds.max)]
            .into_iter()
            .find_map(|(name, bound)| Some((name, first(name)?, bound?)).filter(|(_, a, b)| (a - b).abs() > 0.006));
    // Both are printed of one score.
    let scores = printed.iter().zip(printed.iter().skip(1)).find(|(one, other)| (*one - *other).abs() > 0.011);
    let lengths = [first("Min output tokens:"), printed.first().copied(), first("Max output tokens:")];
    let lengths: Vec<f64> = lengths.into_iter().flatten().collect();
    // Published ones agree within 0.02 %.
    let mean = mean.filter(|_| test == TestMode::Test09).zip(printed.first());
    let mean = mean.filter(|(logged, printed)| (logged / *printed - 1.0).abs() > 0.002);
    let total = first("Total samples:")
        .or_else(|| first("Total samples evaluated:"))
        .filter(|total| *total < audit.samples as f64);
    let (rule, fix) = ("the script of the test writes it from the test's answers", "run the test and verify it again");
    findings! { to;
        Refused, TestFailed, &at,
            outside.map(|(value, bound)| format!("it has TEST PASS and {finding} of {value}; {bound}")),
            "the bound decides whether the test passes", fix;
        Review, AuditLog, &at,
            total.map(|total| format!("it covers {total} samples, but the test has {}", audit.samples)),
            "a part of the answers shows less than all of them",
            "run the test with its own audit.config and data set, and verify it again";
        Review, AuditLog, &at,
            threshold.map(|(name, printed, bound)| format!("`{name}` is {printed}, the round has {bound}")), rule, fix;
        Review, AuditLog, &at, text.lines().find_map(miscounted), rule, fix;
        Review, AuditLog, &at, scores.map(|(one, other)| format!("its scores are {one} and {other}")), rule, fix;
        Review, AuditLog, &at,
            lengths.windows(2).find(|pair| pair[0] > pair[1])
                .map(|_| format!("its least, mean and longest length are {lengths:?} tokens")), rule, fix;
        Review, AuditLog, &at,
            mean.map(|(logged, printed)| {
                format!("its mean is {printed} tokens, the rates of the test's run give {logged:.2}")
            }), rule, fix;
    }
}

/// Whether LoadGen worked with the audit.config of this test. A published result has those of TEST07 and TEST09
/// exchanged.
fn settings(to: &mut SubmissionFindings, folder: &Path, test: TestMode, audit: &Audit, runs: [&Detail; 2]) {
    let detail = runs[0];
    let rates =
        runs.map(|run| run.number("effective_target_qps").filter(|_| run.text("effective_scenario") == Some("Server")));
    let rates = rates[0].zip(rates[1]).filter(|(rate, of_result)| !(0.8..1.25).contains(&(rate / of_result)));
    let (at, name) = (folder.join("performance/run_1").join(DETAIL_FILE), test_folder(test));
    let other = |key: &str, value: u64| {
        let logged = detail.count(key).filter(|logged| *logged != value)?;
        Some(format!("`{key}` is {logged}, and {name} has {value}"))
    };
    let (rule, fix) =
        ("the test's audit.config was not in effect", "run the test with its own audit.config, and verify it again");
    findings! { to;
        Review, NotValid, &at,
            detail.result().filter(|result| *result != "VALID")
                .map(|result| format!("LoadGen reports {result} for the run of {name}")),
            "a test is a performance run, with the limits of the result's scenario",
            "run the test again with the settings of the result, and verify it again";
        Review, AuditLog, &at, other("effective_accuracy_log_sampling_target", audit.sampling_target), rule, fix;
        Review, AuditLog, &at, other("requested_min_query_count", audit.samples), rule, fix;
        // In 77 of 80 published audits the rate is 0.83 to 1 of the result's.
        Review, AuditLog, &at,
            rates.map(|(rate, of_result)| format!("`effective_target_qps` is {rate}, that of the result {of_result}")),
            "the test runs with the settings of the result", "run the test again, and verify it again";
    }
}

/// Verifies the logged answers of TEST06 again, and their number.
fn test06(to: &mut SubmissionFindings, at: &Path, benchmark: &Benchmark, scenario: MlperfScenario) {
    let fix = "run the test with its audit.config and verify it again";
    let Ok(log) = AnswerLog::open(at) else { return };
    let answers = match AuditOutputs::collect(log, scenario, &benchmark.end_ids) {
        Ok(answers) => answers,
        // Published results have a truncated log here.
        Err(error) => {
            let is_cut = is_truncated(at).unwrap_or_default();
            let reason = if is_cut { "the log is truncated".to_owned() } else { error.to_string() };
            return finding!(to; Review, Unreadable, at, format!("its answers cannot be verified again: {reason}"),
                "the verification must cover the samples that the test logged", fix);
        }
    };
    implausible(to, at, [answers.answers as usize, answers.different.len()], answers.largest);
    let most = benchmark.max_output_tokens as usize;
    let [samples, queries] = [&answers.samples, &answers.queries].map(|numbers| numbers.len() as u64);
    let count = answers.answers;
    findings! { to;
        // LoadGen draws them by chance; published logs have two samples twice at most.
        Review, SampleIndex, at,
            answers.samples.last().filter(|last| **last >= benchmark.dataset_samples)
                .map(|last| format!("it has an answer to sample {last} of a data set of {}", benchmark.dataset_samples))
                .or((samples * 2 < count).then(|| format!("its {count} answers are to {samples} of the samples")))
                .or((queries < count).then(|| format!("its {count} answers belong to only {queries} queries"))),
            "LoadGen draws the samples of the test from the whole data set, and counts them from 0", fix;
        Review, Lengths, at,
            (answers.longest > most + most / 50)
                .then(|| format!("an answer has {} tokens, at most {most} are requested", answers.longest)),
            "the test runs with the settings of the result", fix;
        Refused, AuditLog, at,
            (1..FEWEST_ANSWERS).contains(&answers.answers)
                .then(|| format!("it holds only {} answers; about 100 are expected", answers.answers)),
            "the verification must cover the samples that the test logged", fix;
    }
    for offence in answers.first_offences {
        finding!(to; Refused, AuditLog, at, offence,
            "the answers that the test logged show that it failed, whatever verify_accuracy.txt has", fix);
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
        findings! { to;
            // The official checker does not look for it; all 935 published ones have it.
            Review, TestFailed, &at,
                (failed.is_empty() && !has("TEST06 verification complete"))
                    .then_some("it has no line `TEST06 verification complete`"),
                "the script of the test ends with it where all checks passed", fix;
        }
    } else if !has("TEST PASS") || has("TEST FAIL") {
        failed.push("TEST PASS");
    }
    if test != TestMode::Test06 && has(&format!("TEST {NOT_JUDGED}")) {
        finding!(to; Refused, TestNotJudged, &at,
            format!("{} was not judged: its answers are simulated", test_folder(test)),
            "a result is valid only with its audit tests, of the real data set",
            "run the test with the data set of the round");
        return;
    }
    // No published verification has the word.
    failed.extend((failed.is_empty() && text.contains("FAIL")).then_some("a line with FAIL"));
    failed.extend((failed.is_empty() && text.contains("check pass: False")).then_some("one of its checks"));
    if !failed.is_empty() {
        finding!(to; Refused, TestFailed, &at, format!("{} did not pass: {}", test_folder(test), failed.join(", ")),
            "a result is valid only with its audit tests", fix);
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
            finding!(to; Refused, Lock, &documentation.join(PACKAGE_LOCK_FILE), format!("it cannot be read: {error}"),
                "it records where the files are from", "pack again");
            return Vec::new();
        }
    };
    for lock in &locks {
        let name = PackageProvenance::file_name((locks.len() > 1).then_some(&lock.system));
        one_lock(to, &documentation.join(name), lock, submitter, round);
    }
    let has_none = |system: &&SystemEntry| locks.iter().all(|lock| lock.system != system.name);
    for system in submitter.systems.iter().filter(|system| !locks.is_empty() && has_none(system)) {
        finding!(to; Refused, Lock, &submitter.folder.join("results").join(&system.name),
            format!("regatta.lock has no entry for the system {}", system.name),
            "a system that was copied in has no provenance", "`regatta mlperf assemble`");
    }
    locks
}

fn one_lock(to: &mut SubmissionFindings, at: &Path, lock: &PackageProvenance, submitter: &Submitter, round: &Round) {
    if lock.rehearsal {
        finding!(to; Refused, Rehearsal, at, "this package is a rehearsal",
            "durations were shortened, or its data is synthetic", "take `rehearse` out of the manifest and run again");
    }
    for (name, locked, found) in [("round", &lock.round, &round.name), ("submitter", &lock.submitter, &submitter.name)]
    {
        if locked != found {
            finding!(to; Refused, Lock, at, format!("it was packed for {name} {locked}, and is checked for {found}"),
                "what was packed is what is submitted", "pack again; files must not be moved by hand");
        }
    }
}

/// Checks one result against the lock.
pub(super) fn check_package_lock(to: &mut SubmissionFindings, entry: &ResultEntry, lock: &PackageProvenance) {
    let Some(result) = lock.result(entry.benchmark, entry.titled) else {
        finding!(to; Refused, Lock, &entry.folder(),
            format!("regatta.lock has no entry for {} {}", entry.benchmark, entry.scenario),
            "a result that was copied in has no provenance", "name it under `results` and pack again");
        return;
    };
    for (mode, run) in &result.runs {
        check_test_record(to, entry, *mode, run);
    }
    one_system(to, entry, result);
    for (mode, folder) in [(TestMode::Performance, entry.performance()), (TestMode::Accuracy, entry.accuracy())] {
        let Some(run) = result.runs.get(&mode) else { continue };
        // Of a truncated log the lock has the hash of the whole.
        for (name, hash) in run.files.iter().filter(|(name, _)| *name != ACCURACY_FILE) {
            let path = if name == "user.conf" { entry.measurements().join(name) } else { folder.join(name) };
            if path.is_file() && sha256_of_file(&path).is_ok_and(|found| found != *hash) {
                finding!(to; Refused, ChangedFile, &path, "it was changed after it was packed",
                    "logs are submitted as LoadGen wrote them; regatta.lock has the hash of what was packed",
                    "pack again");
            }
        }
    }
}

fn check_test_record(to: &mut SubmissionFindings, entry: &ResultEntry, mode: TestMode, run: &LockedRun) {
    let Some(test) = &run.test else { return };
    let at = match mode {
        TestMode::Performance => entry.performance(),
        TestMode::Accuracy => entry.accuracy(),
        test => entry.audit(test),
    };
    let name = test_folder(mode);
    if test.rehearsal {
        finding!(to; Refused, Rehearsal, &at, format!("the {name} run was a rehearsal: its durations were shortened"),
            "every test lasts at least 600 s", "take `rehearse` out of the manifest and run again");
    }
    if test.dataset.synthetic {
        finding!(to; Refused, SyntheticData, &at,
            format!("the {name} run used synthetic data ({} samples)", test.dataset.samples),
            "a result is measured on the benchmark's data set",
            "`mlperf: { dataset: { from: … } }` reads the benchmark's own");
    }
    // A result for 99.9 % is one for 99 %, too.
    let high = test.benchmark.strip_suffix(".9").filter(|low| *low == entry.benchmark && low.ends_with("-99"));
    let benchmark = high.unwrap_or(&test.benchmark);
    let is = (test.round.as_str(), benchmark, test.scenario, test.mode);
    if is != (entry.round.name.as_str(), entry.benchmark, entry.titled, mode) {
        let TestRecord { round, benchmark, scenario, mode, .. } = test;
        let was = format!("{} of {benchmark} {} in {round}", test_folder(*mode), scenario.title());
        finding!(to; Refused, WrongRun, &at, format!("the run packed as {name} was {was}"),
            format!("here belongs {name} of {} {} in {}", entry.benchmark, entry.titled.title(), entry.round.name),
            "name the right stage under `results`");
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
                let [a, b] = [a, b].map(|digests| {
                    digests.filter(|some| !some.is_empty()).map_or_else(|| "none".to_owned(), shortened)
                });
                let name = test_folder(*mode);
                finding!(to; Refused, TwoSystems, &entry.folder(),
                    format!("the {name} run had another `{kind}` ({b}) than the performance run ({a})"),
                    "all runs of a result must use one system: the same engine, configuration and server",
                    "let both stages name the same upstream stages, and run again");
            }
        }
    }
}
