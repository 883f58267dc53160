//! Systems on the edge, whose language model has SingleStream and Offline.

use pretty_assertions::assert_eq;
use regatta::mlperf::{self, MlperfScenario, Round, SubmissionReport};

use super::fixture::{Submission, good};

/// A good submission to v6.1, changed.
fn on_the_edge(change: impl Fn(&Submission)) -> SubmissionReport {
    let folder = tempfile::tempdir().unwrap();
    let submission = good(folder.path());
    submission.with_edge_model();
    change(&submission);
    mlperf::examine(&submission.0, &Round::named("v6.1").unwrap())
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
