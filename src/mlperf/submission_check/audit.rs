//! Audit tests: those that the round requires are there, and passed.

use std::collections::BTreeSet;
use std::path::Path;

use super::checks::SubmissionCheck;
use super::finding::SubmissionFindings;
use super::tree::{ResultEntry, folders};
use crate::audit::{NOT_JUDGED, test06_answers};
use crate::layout::{test_folder, verdict_file};
use base::files::read_text;
use base::spec::TestMode;
use rules::log::{DETAIL_FILE, Detail};
use rules::{Audit, Benchmark, MlperfScenario};

/// LoadGen draws the 100 of TEST06 by chance; published logs hold 87 to 108.
const FEWEST_ANSWERS: u64 = 60;

pub(super) fn check(to: &mut SubmissionFindings, entry: &ResultEntry, benchmark: &Benchmark, scenario: MlperfScenario) {
    if !entry.is_closed() {
        return;
    }
    for test in &benchmark.tests {
        let folder = entry.audit(*test);
        if !folder.is_dir() {
            let what = format!("{} is missing", test_folder(*test));
            let why = format!("a closed result of {} has passed it", entry.benchmark);
            let fix = format!(
                "run it (`mode: {0}`), verify it (`mlperf: {{ verify: … }}`), and name both under `audits` and `verified`",
                test_folder(*test).to_lowercase()
            );
            to.refuse(SubmissionCheck::MissingTest, &folder, what, why, fix);
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
            let what = if log.is_file() { "it holds no samples" } else { "it is missing" };
            let why = "the verification is of the samples that the test logged";
            to.review(
                SubmissionCheck::AuditLog,
                &log,
                what,
                why,
                "run the test with its audit.config and verify it again",
            );
        }
    }
    let above = entry.audit(TestMode::Test06).parent().map(Path::to_owned).unwrap_or_default();
    for name in folders(&above).iter().filter(|name| name.starts_with("TEST")) {
        if !benchmark.tests.iter().any(|test| test_folder(*test) == name) {
            let what = format!("{name} is no test of {}", entry.benchmark);
            to.review(SubmissionCheck::ExtraTest, &above.join(name), what, "it is not examined", "take it out");
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
    let (names, what, bounds): (&[&str], _, _) = match test {
        TestMode::Test07 => (&["'exact_match':", "Accuracy score:"], "an exact match", audit.exact_match),
        _ => (&["Mean output tokens:"], "a mean length", audit.output_tokens),
    };
    let bounds = bounds.unwrap_or_default();
    let found = names.iter().flat_map(|name| numbers(&text, name));
    let outside = found
        .into_iter()
        .find(|value| bounds.min.is_some_and(|min| *value < min) || bounds.max.is_some_and(|max| *value > max));
    if let Some(value) = outside {
        let allowed = match (bounds.min, bounds.max) {
            (Some(min), Some(max)) => format!("from {min} to {max}"),
            (Some(min), None) => format!("at least {min}"),
            (None, max) => format!("at most {}", max.unwrap_or_default()),
        };
        let what = format!("it has TEST PASS and {what} of {value}, which has to be {allowed}");
        let fix = "run the test and verify it again";
        to.refuse(SubmissionCheck::TestFailed, &at, what, "the bound decides whether the test passes", fix);
    }
    let total = numbers(&text, "Total samples:").into_iter().next();
    if let Some(total) = total.filter(|total| *total < audit.samples as f64) {
        let what = format!("it is of {total} samples, and the test has {}", audit.samples);
        let fix = "run the test with its own audit.config and data set, and verify it again";
        to.review(SubmissionCheck::AuditLog, &at, what, "a part of the answers shows less than all of them", fix);
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

/// Whether LoadGen worked with the audit.config of this test. A published result has those of TEST07 and TEST09 exchanged.
fn settings(to: &mut SubmissionFindings, folder: &Path, test: TestMode, audit: &Audit) {
    let run = folder.join("performance/run_1");
    let Ok(detail) = Detail::of(&run) else { return };
    let needed = [
        ("effective_accuracy_log_sampling_target", audit.sampling_target),
        ("requested_min_query_count", audit.samples),
    ];
    for (key, value) in needed {
        if let Some(found) = detail.count(key).filter(|found| *found != value) {
            let what = format!("`{key}` is {found}, and {} has {value}", test_folder(test));
            let fix = "run the test with its own audit.config, and verify it again";
            to.review(
                SubmissionCheck::AuditLog,
                &run.join(DETAIL_FILE),
                what,
                "audit.config of the test was not in force",
                fix,
            );
        }
    }
}

/// The answers of TEST06, where their log is whole: their number, and what the test looks at.
fn answers(to: &mut SubmissionFindings, at: &Path, benchmark: &Benchmark, scenario: MlperfScenario) {
    let Some(found) = test06_answers(at, scenario, &benchmark.end_ids) else { return };
    let fix = "run the test with its audit.config and verify it again";
    if found.answers > 0 && found.answers < FEWEST_ANSWERS {
        let what = format!("it holds {} answers, about 100 are sampled", found.answers);
        to.refuse(SubmissionCheck::AuditLog, at, what, "the verification is of the samples that the test logged", fix);
    }
    for offence in found.offences {
        let why = "the answers that the test logged show that it failed, whatever verify_accuracy.txt has";
        to.refuse(SubmissionCheck::AuditLog, at, offence, why, fix);
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
            let found = text.lines().filter_map(|line| line.trim().strip_prefix(name));
            found.map(str::trim).collect::<BTreeSet<_>>()
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
        let what = format!("{} was not judged: its answers are simulated", test_folder(test));
        let why = "a result is valid only with its audit tests, of the real data set";
        to.refuse(SubmissionCheck::TestNotJudged, &at, what, why, "run the test with the data set of the round");
        return;
    }
    if !failed.is_empty() {
        let what = format!("{} did not pass: {}", test_folder(test), failed.join(", "));
        to.refuse(SubmissionCheck::TestFailed, &at, what, "a result is valid only with its audit tests", fix);
    }
}
