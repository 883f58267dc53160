//! One run is the run of one result, and what goes with a result is of its runs: user.conf, audits, texts, systems.

use std::fs;
use std::path::Path;

use pretty_assertions::assert_eq;
use regatta::mlperf::FindingGrade::{Contradiction, FraudLike, Style};
use regatta::mlperf::{self, FindingWeight, SubmissionCheck, examine};
use regatta::rules::Round;
use serde_json::json;

use super::fixture::{BENCHMARK, SYSTEM, Submission, files_below, good, good_of, line, system_json, write};
use super::witnesses::{Mutation, SERVER, both, load};

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
            let what = what.or_else(|| finding.what.strip_prefix("its hash is that of "));
            let of_result = || finding.what.strip_prefix("its rate and latencies are, to the last digit, those of ");
            let of_text = || finding.what.strip_prefix("but for a hash, it is the text of ");
            let what = what.or_else(of_result).or_else(of_text).unwrap_or_else(|| panic!("{finding:?}")).to_owned();
            (finding.place, what)
        })
        .collect()
}

/// Its answers may be those of the other system in Offline, where the engine is the same; its process and its times may
/// not, nor its answers where requests come one by one.
#[test]
fn a_run_is_not_that_of_two_systems() {
    let folder = tempfile::tempdir().unwrap();
    let submission = good(folder.path());
    let results = submission.at("results");
    copy(&results.join(SYSTEM), &results.join("crate"));
    let mut fields = system_json();
    fields["system_name"] = "crate".into();
    write(submission.at("systems/crate.json"), format!("{fields:#}"));
    let place = |system: &str, file: &str| format!("closed/Example/results/{system}/{BENCHMARK}/{file}");
    let mut found = reused(&submission, "v6.1");
    found.sort_unstable();
    let runs = ["Interactive", "Offline", "Server"]
        .into_iter()
        .flat_map(|scenario| ["accuracy", "performance/run_1"].map(|run| format!("{scenario}/{run}")));
    let logs = runs.map(|run| format!("{run}/mlperf_log_detail.txt"));
    let texts = ["Interactive", "Server"].map(|scenario| format!("{scenario}/accuracy/accuracy.txt"));
    let mut expected: Vec<_> = logs.chain(texts).map(|file| (place("crate", &file), place(SYSTEM, &file))).collect();
    expected.sort_unstable();
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

/// A log of an audit's own run, changed: MLCommons does not look at it, so all of it is for review.
#[test]
fn the_run_of_an_audit_is_a_run_of_the_system() {
    for (key, value, check) in [
        ("effective_schedule_rng_seed", json!(5), SubmissionCheck::Seeds),
        ("sut_name", json!("the other box"), SubmissionCheck::TwoSystems),
        ("effective_test_mode", json!("AccuracyOnly"), SubmissionCheck::TestMode),
        ("effective_scenario", json!("Offline"), SubmissionCheck::Scenario),
        ("power_begin", json!("11-21-2025 19:35:47.856"), SubmissionCheck::TwoSystems),
        ("num_errors", json!(7), SubmissionCheck::LoadGenErrors),
        ("loadgen_version", json!("5.1.2 @ 0000000000"), SubmissionCheck::LoadGenVersion),
        ("loadgen_git_status_message", json!(" M loadgen/loadgen.cc"), SubmissionCheck::AlteredLoadGen),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let submission = good(folder.path());
        submission.with_reasoning_model();
        let log = submission.of_reasoning("Server/TEST09/performance/run_1/mlperf_log_detail.txt");
        let text = fs::read_to_string(&log).unwrap();
        let is_it = |text: &str| text.contains(&format!("\"key\":\"{key}\""));
        assert!(text.lines().any(is_it), "{key}");
        let lines = text.lines().map(|old| if is_it(old) { line(key, &value, false) } else { format!("{old}\n") });
        write(&log, lines.collect::<String>());
        let examined = mlperf::examine(&submission.0, &Round::named("v6.1").unwrap());
        let found: Vec<_> = examined.findings.iter().map(|finding| (finding.weight, finding.check)).collect();
        assert!(found.contains(&(FindingWeight::Review, check)), "{key}: {:#?}", examined.findings);
        assert_eq!(examined.refusal_count(), 0, "{key}: {:#?}", examined.findings);
    }
}

/// What the run used decides. NVIDIA's harness writes `performance_sample_count`, which LoadGen does not read, and leaves
/// the user.conf of an audit, with 92 % of the rate: in half of the published results, and in one of seven.
#[test]
fn user_conf_is_compared_with_what_the_run_used() {
    let server = "*.Server.target_qps = 40.5\n";
    for (scenario, text, objection) in [
        ("Server", "*.Server.performance_sample_count = 24576\n*.Server.target_qps = 40.5\n", None),
        (
            "Server",
            "*.Server.performance_sample_count = 13368\n*.Server.target_qps = 40.5\n",
            Some("but the run used 24576"),
        ),
        ("Server", "*.Server.target_qps = 37.26\n", None),
        ("Server", "*.Server.target_qps = 37\n", Some("it sets target_qps = 37, but the run used 40.5")),
        ("Server", "*.Server.min_duration = 600000\n", Some("needs `target_qps` in Server")),
        ("Offline", "*.Offline.target_qps = 90\n", None),
        ("Offline", "*.Offline.min_duration = 600000\n", None),
        (
            "Server",
            &format!("{server}*.Server.min_duration = 60000\n"),
            Some("it sets min_duration = 60000, but the run used 600000"),
        ),
        (
            "Server",
            &format!("{server}*.Server.performance_sample_count_override = 4395\n"),
            Some("but the run used 24576"),
        ),
        ("Server", &format!("{server}*.Server.min_duratons = 60000\n"), Some("is not a setting")),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let submission = good(folder.path());
        write(submission.of(&format!("{scenario}/user.conf")), text);
        let examined = mlperf::examine(&submission.0, &Round::named("v6.1").unwrap());
        let found: Vec<&str> = examined.findings.iter().map(|finding| finding.what.as_str()).collect();
        match (objection, &found[..]) {
            (None, []) => {}
            (Some(objection), found) if found.iter().any(|found| found.contains(objection)) => {}
            _ => panic!("{text}: {objection:?}, {found:#?}"),
        }
    }
}

/// LoadGen's logger warns of itself in one of seven published results; another warning has its text.
#[test]
fn warnings_of_loadgens_logger_are_not_reported() {
    for (text, reported) in [
        ("CAS failed.", false),
        ("Logging allocation detected: tid: 7 reserved_entries: 9", false),
        ("the clock jumped", true),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let submission = good(folder.path());
        let warning = line("warning_generic_message", &json!(text), false);
        let log = fs::read_to_string(submission.log("Server/performance/run_1")).unwrap();
        write(
            submission.log("Server/performance/run_1"),
            warning.replace("\"is_warning\":false", "\"is_warning\":true") + &log,
        );
        let examined = mlperf::examine(&submission.0, &Round::named("v6.1").unwrap());
        let found: Vec<&str> = examined.findings.iter().map(|finding| finding.what.as_str()).collect();
        let expected = format!("LoadGen warned: {text}");
        assert_eq!(found, if reported { vec![expected.as_str()] } else { vec![] });
    }
}

/// The checkers until v5.1 take nothing but the files of a run beside them.
#[test]
fn a_stray_file_beside_the_logs_is_refused_until_v5_1() {
    for (round, refused) in [("v5.1", true), ("v6.1", false)] {
        for file in ["accuracy/notes.txt", "performance/run_1/mlperf_log_summary.txt.bak"] {
            let (folder, round) = (tempfile::tempdir().unwrap(), Round::named(round).unwrap());
            let submission = good_of(&round, folder.path());
            write(submission.of(&format!("Server/{file}")), "x\n");
            let examined = mlperf::examine(&submission.0, &round);
            let found: Vec<_> = examined.findings.iter().map(|finding| (finding.weight, finding.check)).collect();
            let expected = [(FindingWeight::Refused, SubmissionCheck::StrayFile)];
            assert_eq!(found, if refused { &expected[..] } else { &[] }, "{file}: {:#?}", examined.findings);
        }
    }
}

/// A description copied from another system names that system, and its file does not.
#[test]
fn the_names_of_a_system_and_of_its_file_are_compared_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let submission = good(folder.path());
    let name = "H100-SXM-80GBx8_TRT";
    submission.field(&submission.system(), "system_name", Some(json!("Box (8x B200-SXM-180GB, TensorRT)")));
    submission.field(&submission.system(), "accelerator_model_name", Some(json!("NVIDIA B200-SXM-180GB")));
    fs::rename(submission.system(), submission.at(&format!("systems/{name}.json"))).unwrap();
    fs::rename(submission.at("results").join(SYSTEM), submission.at("results").join(name)).unwrap();
    let examined = mlperf::examine(&submission.0, &Round::named("v6.1").unwrap());
    let found = examined.findings.iter().filter(|finding| finding.check == SubmissionCheck::TwoSystems);
    let found: Vec<&str> = found.map(|finding| finding.what.as_str()).collect();
    assert_eq!(
        found[0],
        "`accelerator_model_name` is NVIDIA B200 SXM 180GB, and the system or its accelerator is named after H100",
        "{found:#?}"
    );
}

#[test]
fn a_test_of_an_invalid_run_is_for_review() {
    for (round, test) in [("v6.0", "TEST09"), ("v6.1", "TEST09"), ("v6.1", "TEST07")] {
        let (folder, round) = (tempfile::tempdir().unwrap(), Round::named(round).unwrap());
        let submission = good_of(&round, folder.path());
        submission.with_reasoning_model();
        let log = submission.of_reasoning(&format!("Server/{test}/performance/run_1/mlperf_log_detail.txt"));
        submission.replace(&log, "\"value\":\"VALID\"", "\"value\":\"INVALID\"");
        let examined = mlperf::examine(&submission.0, &round);
        let is_it = |place: &str| place.contains(&format!("Server/{test}/"));
        let mut found = examined.findings.iter().filter(|finding| is_it(&finding.place));
        assert!(found.any(|finding| finding.check == SubmissionCheck::NotValid), "{:#?}", examined.findings);
    }
}

/// What evaluators and scripts of tests print of gpt-oss-120b: each number changed where another place has it.
#[test]
fn texts_of_a_reasoning_model_agree_with_their_logs_and_with_themselves() {
    let (scores, test07, test09) =
        ("accuracy/accuracy.txt", "TEST07/verify_accuracy.txt", "TEST09/verify_output_len.txt");
    for (file, from, to, check) in [
        (scores, "", "", None),
        (scores, "'exact_match': 83.130", "'exact_match': 84.900", Some(SubmissionCheck::Plausibility)),
        (scores, "= 240/8", "= 120/8", Some(SubmissionCheck::Plausibility)),
        (scores, "FINAL SCORE: 83.13%", "FINAL SCORE: 85.13%", Some(SubmissionCheck::Plausibility)),
        (scores, "evaluated: 4395", "evaluated: 1000", Some(SubmissionCheck::Plausibility)),
        (test07, "threshold: 60.698", "threshold: 55.000", Some(SubmissionCheck::AuditLog)),
        (test07, "score: 62.15", "score: 72.15", Some(SubmissionCheck::AuditLog)),
        (test09, "Max threshold: 1406.02", "Max threshold: 2000.00", Some(SubmissionCheck::AuditLog)),
        (test09, "Max output tokens: 2914", "Max output tokens: 1200", Some(SubmissionCheck::AuditLog)),
        (test09, "Mean output tokens: 1278.20", "Mean output tokens: 1250.00", Some(SubmissionCheck::AuditLog)),
        (test09, "Server\n", "Offline\n", Some(SubmissionCheck::ReusedLog)),
    ] {
        let (folder, round) = (tempfile::tempdir().unwrap(), Round::named("v6.1").unwrap());
        let submission = good_of(&round, folder.path());
        submission.with_reasoning_model();
        submission.replace(&submission.of_reasoning(&format!("Server/{file}")), from, to);
        let examined = mlperf::examine(&submission.0, &round);
        let found: Vec<_> = examined.findings.iter().map(|finding| (finding.weight, finding.check)).collect();
        let expected: Vec<_> = check.map(|check| (FindingWeight::Review, check)).into_iter().collect();
        assert_eq!(found, expected, "{to}: {:#?}", examined.findings);
    }
}

/// LoadGen 4 logs how many samples Offline would have in a performance run: 91 published results of v4.1.
#[test]
fn accuracy_runs_of_loadgen_4_do_not_count_as_a_part() {
    for (version, counted) in [("6.0.17", 1), ("4.1", 0)] {
        let (folder, round) = (tempfile::tempdir().unwrap(), Round::named("v6.1").unwrap());
        let submission = good_of(&round, folder.path());
        submission.set("Offline/accuracy", "generated_samples_per_query", &json!(39_600));
        submission.set("Offline/accuracy", "loadgen_version", &json!(version));
        let examined = mlperf::examine(&submission.0, &round);
        let counts = examined.findings.iter().filter(|finding| finding.check == SubmissionCheck::Counts).count();
        assert_eq!(counts, counted, "{version}: {:#?}", examined.findings);
    }
}

/// The official checkers of v4.1 and v5.1 look in the scenario's folder and in the three above it.
#[test]
fn the_meter_is_described_once_for_all_scenarios() {
    let round = Round::named("v5.1").unwrap();
    for (above, refused) in [("", 0), ("..", 0), ("../..", 0), ("../../..", 0), ("../../../..", 2)] {
        let folder = tempfile::tempdir().unwrap();
        let submission = good_of(&round, folder.path());
        submission.with_power("Server");
        let scenario = submission.of("Server/user.conf").parent().unwrap().to_owned();
        for name in ["analyzer_table.md", "power_settings.md"] {
            fs::rename(scenario.join(name), scenario.join(above).join(name)).unwrap();
        }
        let examined = mlperf::examine(&submission.0, &round);
        assert_eq!(examined.refusal_count(), refused, "{above}: {:#?}", examined.findings);
    }
}

/// They were measured with one revision of the tools; what is empty describes nothing.
#[test]
fn the_sources_of_the_meters_client_and_server_are_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let round = Round::named("v5.1").unwrap();
    let submission = good_of(&round, folder.path());
    submission.with_power("Server");
    let power = submission.of("Server/performance/power");
    submission.session("client.json", |session| session["sources"]["client.py"] = "0".repeat(40).into());
    write(submission.of("Server/user.conf").with_file_name("power_settings.md"), "");
    let examined = mlperf::examine(&submission.0, &round);
    let found: Vec<_> = examined.findings.iter().map(|finding| (finding.weight, finding.what.as_str())).collect();
    assert!(found.contains(&(FindingWeight::Refused, "`sources` differs from that of client.json")), "{found:?}");
    assert!(found.contains(&(FindingWeight::Review, "it is empty")), "{found:?}, {}", power.display());
}

/// Edits of published results that passed without a word when a table of them, made without a look at the checks, was
/// first tried (`tests/bench/published/mutations.py`); witnesses' test examines them with its own.
pub(super) const BLIND: &[Mutation] = &[
    ("a maximum duration of ten minutes", Contradiction, |s| {
        both(s, "Server", "effective_max_duration_ms", "max_duration (ms)", 600_000);
        s.set(SERVER, "requested_max_duration_ms", &json!(600_000));
    }),
    ("two percentiles that are one", FraudLike, |s| {
        let p97 = s.number(SERVER, "result_first_token_97.00_percentile_latency_ns") as u64;
        both(
            s,
            "Server",
            "result_first_token_99.00_percentile_latency_ns",
            "99.00 percentile first token latency (ns)",
            p97,
        );
    }),
    ("a version of another commit than the newest", FraudLike, |s| {
        let commits = "fedcba9876543210fedcba9876543210fedcba98 Increment version";
        let log = fs::read_to_string(s.log(SERVER)).unwrap();
        write(s.log(SERVER), line("loadgen_git_log_message", &json!(commits), false) + &log);
    }),
    ("an accuracy run of another sample library", Contradiction, |s| {
        s.set("Server/accuracy", "qsl_name", &json!("CNN_eval"));
    }),
    ("samples loaded in another order than in the accuracy run", FraudLike, |s| {
        let samples: Vec<u64> = (0..24_576).collect();
        load(s, SERVER, &samples);
        load(s, "Server/accuracy", &samples.into_iter().rev().collect::<Vec<_>>());
    }),
    ("samples loaded that the accuracy run does not log", FraudLike, |s| {
        load(s, SERVER, &(0..24_576).collect::<Vec<_>>());
    }),
    ("ROUGE-1 three points up", FraudLike, |s| {
        s.replace(&s.of("Server/accuracy/accuracy.txt"), "'rouge1': 44.", "'rouge1': 47.");
    }),
    ("13 characters a token", FraudLike, |s| {
        s.replace(&s.of("Server/accuracy/accuracy.txt"), "'gen_len': 2", "'gen_len': 9");
    }),
    ("weights of 8 bits that nothing transformed", Contradiction, |s| {
        for scenario in ["Offline", "Server", "Interactive"] {
            s.field(&s.of(&format!("{scenario}/measurements.json")), "weight_transformations", Some(json!("none")));
        }
    }),
    ("an mlperf.conf with a longer limit", Contradiction, |s| {
        let conf = s.of("Server/user.conf").with_file_name("mlperf.conf");
        write(conf, "llama2-70b.Server.ttft_latency = 2000\nllama2-70b.Server.tpot_latency = 900\n");
    }),
    ("a README of another benchmark", Style, |s| s.replace(&s.of("Server/README.md"), "llama2-70b", "mixtral-8x7b")),
    ("a README to be written", Style, |s| write(s.of("Server/README.md"), "TODO\n")),
    ("a calibration in three words", Style, |s| write(s.at("documentation/calibration.md"), "See the vendor.\n")),
    ("an accelerator of another name than the folder's", Contradiction, |s| {
        s.field(&s.system(), "system_name", Some(json!("Box 8xMI325X")));
        s.field(&s.system(), "accelerator_model_name", Some(json!("AMD Instinct MI210")));
    }),
    ("less memory than the accelerator has by its name", Contradiction, |s| {
        s.field(&s.system(), "accelerator_memory_capacity", Some(json!("80 GB")));
    }),
    ("an amount of memory in words", Style, |s| s.field(&s.system(), "host_memory_capacity", Some(json!("enough")))),
    ("an operating system without a version", Style, |s| {
        s.field(&s.system(), "operating_system", Some(json!("Linux")));
    }),
    ("another average of the meter's than of its samples", Contradiction, |s| {
        s.session("server.json", |session| session["ptd_messages"][1]["reply"] = json!("Watts,3000.000000"));
    }),
    ("an uncertainty of 3 %", Contradiction, |s| {
        s.session("server.json", |session| session["ptd_messages"][2]["reply"] = json!("Uncertainty,0.030000"));
    }),
    ("no replies of the meter", Contradiction, |s| {
        s.session("server.json", |session| session["ptd_messages"] = json!([]));
    }),
    ("a meter's daemon for another meter", Contradiction, |s| {
        s.session("server.json", |session| {
            session["ptd_config"] =
                json!([{ "device_type": 8, "command": ["ptd", "-p", "8888", "48", "/dev/usbtmc0"] }]);
        });
    }),
    ("messages half an hour apart", Contradiction, |s| {
        s.session("client.json", |session| session["messages"] = json!([{ "cmd_time": 1800.0, "reply_time": 1800.1 }]));
        let server = s.of("Server/performance/power/server.json");
        let messages = json!([{ "cmd_time": 0.0, "reply_time": 0.1 }]);
        s.field(&server, "messages", Some(messages));
    }),
];
