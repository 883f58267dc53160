//! Against audit runs of LoadGen 6.0.17 (`tests/golden/mlperf/logs/test06-*`), whole and spoilt.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::{DatasetRecord, TEST_FILE, TestRecord};
use super::{AuditVerification, Test07Score, verify};
use base::event::Failure;
use base::spec::{Division, TestMode};
use rules::log::{ACCURACY_FILE, DETAIL_FILE};
use rules::{MlperfScenario, ResolvedTest, TestRequest};

fn found(benchmark: &str) -> ResolvedTest {
    let none = indexmap::IndexMap::new();
    let request = TestRequest {
        round: "v6.1",
        benchmark,
        scenario: MlperfScenario::Server,
        mode: TestMode::Test06,
        division: Division::Closed,
        rehearsal: true,
        target_qps: None,
        user_conf: &none,
        dataset_samples: None,
    };
    request.find().unwrap()
}

fn test_record(benchmark: &str, scenario: MlperfScenario, mode: TestMode) -> TestRecord {
    TestRecord {
        round: "v6.1".to_owned(),
        benchmark: benchmark.to_owned(),
        scenario,
        mode,
        division: Division::Closed,
        rehearsal: true,
        loadgen_version: "6.0.17".to_owned(),
        seeds: found(benchmark).round.loadgen.seeds,
        dataset: DatasetRecord { benchmark: benchmark.to_owned(), synthetic: true, samples: 48, sha256: String::new() },
        target_qps: Some(100.0),
        sut_name: String::new(),
        result: Some("INVALID".to_owned()),
        errors: 0,
    }
}

/// A recorded run with its test.json, and its logs changed.
fn run(name: &str, test_record: &TestRecord, change: impl Fn(&str, String) -> String) -> tempfile::TempDir {
    let from: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/mlperf/logs").join(name);
    let folder = tempfile::tempdir().unwrap();
    for file in [ACCURACY_FILE, DETAIL_FILE] {
        let text = fs::read_to_string(from.join(file)).unwrap();
        fs::write(folder.path().join(file), change(file, text)).unwrap();
    }
    fs::write(folder.path().join(TEST_FILE), serde_json::to_vec(test_record).unwrap()).unwrap();
    folder
}

fn test06(scenario: MlperfScenario, change: impl Fn(&str, String) -> String) -> AuditVerification {
    let benchmark = "llama2-70b-99.9";
    let name = if scenario == MlperfScenario::Offline { "test06-offline" } else { "test06-server" };
    let folder = run(name, &test_record(benchmark, scenario, TestMode::Test06), change);
    let test = found(benchmark);
    verify(folder.path(), &test, benchmark, &test.benchmark.end_ids, None).unwrap()
}

/// Changes the n-th answer of the accuracy log.
fn answer(at: usize, from: &'static str, to: impl Fn(&str) -> String) -> impl Fn(&str, String) -> String {
    move |file, text| {
        if file != ACCURACY_FILE {
            return text;
        }
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let line = lines[at + 1].clone();
        let mark = format!("\"{from}\" : ");
        let start = line.find(&mark).unwrap() + mark.len();
        let end = line[start..].find([',', ' ']).unwrap() + start;
        lines[at + 1] = format!("{}{}{}", &line[..start], to(&line[start..end]), &line[end..]);
        lines.join("\n")
    }
}

#[test]
fn test06_passes_what_loadgen_logged() {
    let server = test06(MlperfScenario::Server, |_, text| text);
    assert_eq!(server.wrong, Vec::<String>::new());
    assert_eq!(server.headline, "TEST06 passes: 100 answers looked at");
    assert_eq!(
        (server.file, server.text.as_str()),
        (
            "verify_accuracy.txt",
            "First token check pass: True\nEOS check pass: True\nSample length check pass: True\nTEST06 verification \
             complete\n"
        )
    );
    let offline = test06(MlperfScenario::Offline, |_, text| text);
    assert!(offline.wrong.is_empty() && offline.text.starts_with("First token check pass: Skipped\n"), "{offline:?}");
}

#[test]
fn test06_names_the_samples_that_offend() {
    let first = test06(MlperfScenario::Server, answer(3, "token_data", |_| "\"01000000\"".to_owned()));
    assert!(first.text.starts_with("First token check pass: False\n") && first.text.ends_with("verification failed\n"));
    assert_eq!(first.wrong.len(), 1);
    assert!(
        first.wrong[0].starts_with("sample 38 (query 3): [1] was reported first, but the answer begins with ["),
        "{first:?}"
    );
    let ends = test06(
        MlperfScenario::Server,
        answer(0, "data", |hex| format!("{}0200000002000000\"", &hex[..hex.len() - 17])),
    );
    assert!(ends.text.contains("EOS check pass: False\n"), "{ends:?}");
    assert!(ends.wrong[0].contains("sample 4 (query 0): ends with 2 end-of-sequence tokens"), "{ends:?}");
    let length = test06(
        MlperfScenario::Offline,
        answer(1, "token_count", |count| format!("{}", count.parse::<u64>().unwrap() + 1)),
    );
    assert!(length.text.contains("Sample length check pass: False\n"), "{length:?}");
    let verification = test06(MlperfScenario::Server, |file, text| {
        if file == ACCURACY_FILE { text.replace("\"token_count\" : ", "\"token_count\" : 9") } else { text }
    });
    assert_eq!((verification.wrong.len(), verification.wrong[5].as_str()), (6, "and 95 more"));
}

#[test]
fn test06_wants_all_answers_and_its_own_settings() {
    let few =
        test06(MlperfScenario::Server, |file, text| if file == ACCURACY_FILE { "[\n]\n".to_owned() } else { text });
    assert_eq!(few.wrong, ["the log holds 0 answers; the test logs 100"]);
    assert!(few.text.ends_with("TEST06 verification failed\n"));
    let plain = test06(MlperfScenario::Server, |file, text| {
        let sampling = "accuracy_log_sampling_target\", \"value\": 100";
        if file == DETAIL_FILE { text.replace(sampling, "accuracy_log_sampling_target\", \"value\": 0") } else { text }
    });
    assert_eq!(plain.wrong, ["audit.config was not in effect: `accuracy_log_sampling_target` is 0, not 100"]);
}

fn gpt(mode: TestMode, exact_match: Option<f64>) -> Result<AuditVerification, Failure> {
    let benchmark = "gpt-oss-120b";
    let test = found(benchmark);
    let mut record = test_record(benchmark, MlperfScenario::Offline, mode);
    (record.rehearsal, record.dataset.synthetic) = (false, false);
    let folder = run("test06-offline", &record, |_, text| text);
    verify(folder.path(), &test, benchmark, &[], exact_match.map(Test07Score::ExactMatch))
}

/// The same run as a rehearsal on synthetic data, with the settings of the test.
fn rehearsed(mode: TestMode, score: Test07Score, answers: &'static str) -> AuditVerification {
    let benchmark = "gpt-oss-120b";
    let record = test_record(benchmark, MlperfScenario::Offline, mode);
    let folder = run("test06-offline", &record, |file, text| {
        let target = if mode == TestMode::Test07 { 990 } else { 10_000 };
        let set = |text: String, key: &str, value: &str| {
            let lines = text.lines().map(|line| match line.find("\"value\": ") {
                Some(at) if line.contains(&format!("\"{key}\"")) => {
                    let end = line[at..].find(", ").unwrap() + at;
                    format!("{}\"value\": {value}{}\n", &line[..at], &line[end..])
                }
                _ => format!("{line}\n"),
            });
            lines.collect::<String>()
        };
        match file {
            ACCURACY_FILE if !answers.is_empty() => answers.to_owned(),
            ACCURACY_FILE => text,
            _ => {
                let text = set(text, "effective_accuracy_log_sampling_target", &target.to_string());
                let text = set(text, "requested_min_query_count", "100");
                let text = set(text, "effective_performance_sample_count", "100");
                set(text, "effective_performance_issue_unique", "true")
            }
        }
    });
    verify(folder.path(), &found(benchmark), benchmark, &[], Some(score)).unwrap()
}

#[test]
fn synthetic_data_neither_passes_nor_fails_test07_and_test09() {
    for score in [Test07Score::ExactMatch(99.0), Test07Score::ExactMatch(1.5), Test07Score::Unscored] {
        let test07 = rehearsed(TestMode::Test07, score, "");
        assert_eq!(test07.wrong, Vec::<String>::new());
        assert!(
            test07.text.contains("Accuracy check pass: Not judged\nSIMULATED, not judged: exact match, "),
            "{test07:?}"
        );
        assert!(test07.text.ends_with("\nTEST NOT JUDGED\n") && !test07.text.contains("PASS"), "{test07:?}");
        assert!(test07.headline.starts_with("TEST07 is NOT JUDGED, SIMULATED: exact match "), "{test07:?}");
    }
    let test09 = rehearsed(TestMode::Test09, Test07Score::Unscored, "");
    assert_eq!(test09.wrong, Vec::<String>::new());
    assert!(
        test09.text.ends_with("\nTEST NOT JUDGED\n") && test09.text.contains("Min check pass: Not judged\n"),
        "{test09:?}"
    );
    // What is not a matter of the data fails.
    let empty = rehearsed(TestMode::Test09, Test07Score::Unscored, "[\n]\n");
    assert_eq!(empty.wrong, ["there is no answer", "the log holds 0 answers; the test logs 100"]);
    assert!(empty.text.ends_with("\nTEST FAIL\n"), "{empty:?}");
}

#[test]
fn test07_holds_the_exact_match_against_its_bound() {
    let good = gpt(TestMode::Test07, Some(62.15)).unwrap();
    assert!(
        good.text.starts_with("'exact_match': 62.15\n") && good.text.contains("Accuracy check pass: True\n"),
        "{good:?}"
    );
    // The recorded run is not one of TEST07: the audit reports that and does not pass.
    assert!(
        good.text.ends_with("TEST FAIL\n")
            && good.wrong.iter().any(|wrong| wrong.contains("100 answers; the test logs 990")),
        "{good:?}"
    );
    let bad = gpt(TestMode::Test07, Some(60.697)).unwrap();
    assert!(bad.wrong.contains(&"exact match is 60.697, less than 60.698".to_owned()), "{bad:?}");
    assert!(gpt(TestMode::Test07, None).unwrap_err().what.contains("needs the exact match"));
}

#[test]
fn test09_holds_the_mean_length_against_its_bounds() {
    let short = gpt(TestMode::Test09, None).unwrap();
    assert_eq!(short.file, "verify_output_len.txt");
    assert!(short.wrong[short.wrong.len() - 2].starts_with("answers have 4."), "{short:?}");
    assert!(
        short.text.contains("Min check pass: False\n") && short.text.contains("Max check pass: True\n"),
        "{short:?}"
    );
    assert!(short.text.ends_with("\nTEST FAIL\n"));
}

#[test]
fn lengths_within_their_bounds_pass() {
    use super::AnswerLengths;
    use rules::Accuracy;
    let answer =
        |bytes: usize| Ok(rules::log::LoggedAnswer { data: vec![1; bytes], ..rules::log::LoggedAnswer::default() });
    let lengths = AnswerLengths::measure([answer(8), answer(16)].into_iter()).unwrap();
    let bounds = Accuracy { min: Some(2.5), max: Some(3.0) };
    assert_eq!((lengths.mean(), lengths.mean_violation(bounds)), (Some(3.0), None));
    assert!(lengths.text(bounds, "", "PASS", true).ends_with("Max check pass: True\n\nTEST PASS\n"));
    assert!(lengths.text(bounds, "", "PASS", true).contains("Std deviation: 1.00\n"));
    assert!(lengths.mean_violation(Accuracy { min: None, max: Some(2.9) }).unwrap().contains("the most is 2.9"));
    assert!(AnswerLengths::measure(std::iter::empty()).unwrap().mean_violation(bounds).is_some());
}

#[test]
fn only_audit_runs_are_verified() {
    let benchmark = "llama2-70b-99.9";
    let folder =
        run("server-valid", &test_record(benchmark, MlperfScenario::Server, TestMode::Performance), |_, text| text);
    let error = verify(folder.path(), &found(benchmark), benchmark, &[2], None).unwrap_err();
    assert!(error.what.ends_with("is a performance run, not an audit test"), "{error:?}");
    let missing = tempfile::tempdir().unwrap();
    assert!(verify(missing.path(), &found(benchmark), benchmark, &[2], None).unwrap_err().what.contains("test.json"));
}
