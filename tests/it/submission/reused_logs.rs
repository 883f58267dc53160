//! One run is the run of one result.

use std::path::Path;

use pretty_assertions::assert_eq;
use regatta::mlperf::{FindingWeight, SubmissionCheck, examine};
use regatta::rules::Round;

use super::fixture::{BENCHMARK, SYSTEM, Submission, files_below, good, good_of, system_json, write};

fn copy(from: &Path, to: &Path) {
    for (name, bytes) in files_below(from) {
        write(to.join(name), bytes);
    }
}

/// Place and what is said of it, of each log that is another's.
fn reused(submission: &Submission, round: &str) -> Vec<(String, String)> {
    let examined = examine(&submission.0, &Round::named(round).unwrap());
    let found = examined.findings.into_iter().filter(|finding| finding.check == SubmissionCheck::ReusedLog);
    found
        .map(|finding| {
            assert_eq!(finding.weight, FindingWeight::Review);
            let what = finding.what.strip_prefix("it is, byte for byte, ");
            let what = what.or_else(|| finding.what.strip_prefix("its hash is that of ")).unwrap().to_owned();
            (finding.place, what)
        })
        .collect()
}

/// Its answers may be those of the other system, where the engine is the same; its process and its times may not.
#[test]
fn a_run_is_not_that_of_two_systems() {
    let folder = tempfile::tempdir().unwrap();
    let submission = good(folder.path());
    let results = submission.at("results");
    copy(&results.join(SYSTEM), &results.join("crate"));
    let mut fields = system_json();
    fields["system_name"] = "crate".into();
    write(submission.at("systems/crate.json"), format!("{fields:#}"));
    let log =
        |system: &str, run: &str| format!("closed/Example/results/{system}/{BENCHMARK}/{run}/mlperf_log_detail.txt");
    let mut found = reused(&submission, "v6.1");
    found.sort_unstable();
    let runs = ["Interactive", "Offline", "Server"]
        .into_iter()
        .flat_map(|scenario| ["accuracy", "performance/run_1"].map(|run| format!("{scenario}/{run}")));
    let expected: Vec<_> = runs.map(|run| (log("crate", &run), log(SYSTEM, &run))).collect();
    assert_eq!(found, expected);
}

/// A result for 99.9 % is one for 99 %, too; that of another benchmark is not.
#[test]
fn a_run_may_be_that_of_two_accuracy_targets() {
    let round = Round::named("v5.1").unwrap();
    for (benchmark, count) in [("llama2-70b-99", 0), ("mixtral-8x7b", 15)] {
        let folder = tempfile::tempdir().unwrap();
        let submission = good_of(&round, folder.path());
        for part in ["results", "compliance", "measurements"] {
            let system = submission.at(part).join(SYSTEM);
            copy(&system.join(BENCHMARK), &system.join(benchmark));
        }
        assert_eq!(reused(&submission, "v5.1").len(), count, "{benchmark}");
    }
}
