//! Audit tests: those that the round requires are there, and passed.

use std::path::Path;

use super::finding::GateFindings;
use super::gate_check::GateCheck;
use super::tree::{ResultEntry, folders};
use crate::mlperf::audit::{NOT_JUDGED, test06_answers};
use crate::mlperf::layout::{test_folder, verdict_file};
use crate::mlperf::{Benchmark, MlperfScenario};
use crate::spec::TestMode;

/// LoadGen draws the 100 of TEST06 by chance; published logs hold 87 to 108.
const FEWEST_ANSWERS: u64 = 60;

pub(super) fn check(to: &mut GateFindings, entry: &ResultEntry, benchmark: &Benchmark, scenario: MlperfScenario) {
    if !entry.is_closed() {
        return;
    }
    for test in &benchmark.tests {
        let folder = audit_folder(entry, *test);
        if !folder.is_dir() {
            let what = format!("{} is missing", test_folder(*test));
            let why = format!("a closed result of {} has passed it", entry.benchmark);
            let fix = format!(
                "run it (`mode: {0}`), verify it (`mlperf: {{ verify: … }}`), and name both under `audits` and `verified`",
                test_folder(*test).to_lowercase()
            );
            to.refuse(GateCheck::MissingTest, &folder, what, why, fix);
            continue;
        }
        verdict(to, &folder, *test, scenario);
        let log = folder.join("accuracy/mlperf_log_accuracy.json");
        let size = std::fs::metadata(&log).map_or(0, |meta| meta.len());
        if *test == TestMode::Test06 {
            answers(to, &log, benchmark, scenario);
        }
        if size <= 2 {
            let what = if log.is_file() { "it holds no samples" } else { "it is missing" };
            let why = "the verification is of the samples that the test logged";
            to.review(GateCheck::AuditLog, &log, what, why, "run the test with its audit.config and verify it again");
        }
    }
    let above = audit_folder(entry, TestMode::Test06).parent().map(Path::to_owned).unwrap_or_default();
    for name in folders(&above).iter().filter(|name| name.starts_with("TEST")) {
        if !benchmark.tests.iter().any(|test| test_folder(*test) == name) {
            let what = format!("{name} is no test of {}", entry.benchmark);
            to.review(GateCheck::ExtraTest, &above.join(name), what, "it is not examined", "take it out");
        }
    }
}

/// The answers of TEST06, where their log is whole: their number, and what the test looks at.
fn answers(to: &mut GateFindings, at: &Path, benchmark: &Benchmark, scenario: MlperfScenario) {
    let Some(found) = test06_answers(at, scenario, &benchmark.end_ids) else { return };
    let fix = "run the test with its audit.config and verify it again";
    if found.answers > 0 && found.answers < FEWEST_ANSWERS {
        let what = format!("it holds {} answers, about 100 are sampled", found.answers);
        to.refuse(GateCheck::AuditLog, at, what, "the verification is of the samples that the test logged", fix);
    }
    for offence in found.offences {
        let why = "the answers that the test logged show that it failed, whatever verify_accuracy.txt has";
        to.refuse(GateCheck::AuditLog, at, offence, why, fix);
    }
}

fn audit_folder(entry: &ResultEntry, test: TestMode) -> std::path::PathBuf {
    entry.submitter.folder.join(entry.layout.audit(entry.system, entry.benchmark, entry.scenario, test))
}

fn verdict(to: &mut GateFindings, folder: &Path, test: TestMode, scenario: MlperfScenario) {
    let at = folder.join(verdict_file(test));
    let fix = "`mlperf: { verify: … }` writes it from the audit run; if the test fails, its message names the sample";
    let Ok(text) = std::fs::read_to_string(&at) else {
        to.refuse(GateCheck::MissingFile, &at, "it is missing", "it has the result of the test", fix);
        return;
    };
    let has = |line: &str| text.lines().any(|found| found.trim() == line);
    let mut failed: Vec<&str> = Vec::new();
    if test == TestMode::Test06 {
        // Offline logs no first tokens. In the others it must not be skipped.
        let first = has("First token check pass: True")
            || (scenario == MlperfScenario::Offline && has("First token check pass: Skipped"));
        failed.extend((!first).then_some("first token"));
        failed.extend((!has("EOS check pass: True")).then_some("EOS"));
        failed.extend((!has("Sample length check pass: True")).then_some("sample length"));
    } else if !has("TEST PASS") {
        failed.push("TEST PASS");
    }
    if test != TestMode::Test06 && has(&format!("TEST {NOT_JUDGED}")) {
        let what = format!("{} was not judged: its answers are simulated", test_folder(test));
        let why = "a result is valid only with its audit tests, of the real data set";
        to.refuse(GateCheck::TestNotJudged, &at, what, why, "run the test with the data set of the round");
        return;
    }
    if !failed.is_empty() {
        let what = format!("{} did not pass: {}", test_folder(test), failed.join(", "));
        to.refuse(GateCheck::TestFailed, &at, what, "a result is valid only with its audit tests", fix);
    }
}
