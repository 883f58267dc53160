//! Systems on the edge, whose language model has SingleStream and Offline.

use std::fs;
use std::path::PathBuf;

use pretty_assertions::assert_eq;
use regatta::mlperf::{self, FindingWeight, SubmissionCheck, SubmissionReport};
use regatta::rules::{MlperfScenario, Round};

use super::fixture::{SYSTEM, Submission, good};

/// A good submission to v6.1, changed.
fn on_the_edge(change: impl Fn(&Submission)) -> SubmissionReport {
    let folder = tempfile::tempdir().unwrap();
    let submission = good(folder.path());
    submission.with_edge_model();
    change(&submission);
    mlperf::examine(&submission.0, &Round::named("v6.1").unwrap())
}

/// The folder of llama3.1-8b-edge.
fn folder(submission: &Submission) -> PathBuf {
    submission.at("results").join(SYSTEM).join("llama3.1-8b-edge")
}

/// What the official checker prints: 1357.55 `Latency (ms)` for 1357552837 ns at the 90th percentile.
#[test]
fn the_result_of_single_stream_is_the_90th_percentile_in_milliseconds() {
    let examined = on_the_edge(|_| ());
    assert_eq!(examined.refusal_count(), 0, "{:#?}", examined.findings);
    let single = examined.results.iter().find(|result| result.scenario == "SingleStream").unwrap();
    assert_eq!((single.judged.value, single.judged.unit.as_str()), (Some(5.940_357), "ms"));
    let logs = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/mlperf/logs/single-stream");
    let of = |benchmark: &str| mlperf::run_value(logs.as_ref(), benchmark, MlperfScenario::SingleStream).unwrap().value;
    assert_eq!((of("llama3.1-8b-edge"), of("llama2-70b-99")), (Some(5.940_357), Some(3.494_869)));
}

/// The rules let an edge system infer Offline from SingleStream, in copies of its folders.
#[test]
fn offline_inferred_from_single_stream_is_a_result_of_an_edge_system() {
    let infer = |s: &Submission| {
        for name in ["performance/run_1", "accuracy", "user.conf"] {
            let [from, to] = ["SingleStream", "Offline"].map(|scenario| folder(s).join(scenario).join(name));
            if from.is_file() {
                fs::copy(from, to).unwrap();
                continue;
            }
            for log in ["mlperf_log_detail.txt", "mlperf_log_summary.txt"] {
                fs::copy(from.join(log), to.join(log)).unwrap();
            }
        }
    };
    let examined = on_the_edge(infer);
    assert_eq!(examined.refusal_count(), 0, "{:#?}", examined.findings);
    assert!(
        !examined.findings.iter().any(|finding| finding.check == SubmissionCheck::ReusedLog),
        "{:#?}",
        examined.findings
    );
    let offline = examined.results.iter().find(|result| result.scenario == "Offline").unwrap();
    let judged = &offline.judged;
    assert_eq!((judged.value, judged.unit.as_str(), judged.inferred), (Some(218.471), "samples/s", true));
    let text = regatta::report::mlperf::examined(&examined, false).terminal(regatta::report::Styler::OFF);
    assert!(text.contains("218.47 samples/s  VALID INFERRED"), "{text}");
    assert!(!examined.results.iter().any(|result| result.scenario == "SingleStream" && result.judged.inferred));

    let examined = on_the_edge(|s| {
        infer(s);
        s.field(&s.system(), "system_type", Some("datacenter".into()));
    });
    let refused =
        |check: SubmissionCheck| examined.with_weight(FindingWeight::Refused).any(|finding| finding.check == check);
    assert!(refused(SubmissionCheck::Scenario), "{:#?}", examined.findings);
}

#[test]
fn a_benchmark_of_the_edge_is_none_of_a_datacenter_system() {
    for (system_type, refused) in [("datacenter", 1), ("edge", 0), ("datacenter,edge", 0)] {
        let examined = on_the_edge(|s| s.field(&s.system(), "system_type", Some(system_type.into())));
        assert_eq!(examined.refusal_count(), refused, "{system_type}: {:#?}", examined.findings);
        let what = "`system_type` is datacenter, and llama3.1-8b-edge is for edge systems";
        assert!(
            examined.with_weight(FindingWeight::Refused).all(|finding| finding.what == what),
            "{:#?}",
            examined.findings
        );
    }
}
