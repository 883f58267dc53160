//! Broken submissions: each has its own finding, and all but a few are refused. What the official checker says of each stands beside it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use pretty_assertions::assert_eq;
use regatta::mlperf::{
    self, FindingWeight, LockedResult, LockedRun, PackageProvenance, SubmissionCheck, SubmissionLayout,
    SubmissionReport,
};
use regatta::rules::{MlperfScenario, Round};
use serde_json::{Value, json};

use super::fixture::{BENCHMARK, SYSTEM, Submission, detail, good, good_of, line, run, summary, write};
use regatta::spec::TestMode;

type Break = fn(&Submission);

const GOLDEN: &str = "tests/golden/mlperf/broken.txt";
pub(super) const OFFICIAL: &str = "tests/golden/mlperf/official.txt";
const MUTATIONS: &str = "tests/golden/mlperf/mutations.txt";
/// The rounds of the table.
pub(super) const ROUNDS: [&str; 3] = ["v5.1", "v6.0", "v6.1"];
/// In older rounds it is the layout.
pub(super) const OLD_LAYOUT: &str = "layout of v5.1";
/// Benchmarks of the single layout only are in these.
const NEW_BENCHMARK: &str = "gpt-oss-120b ";

/// Whether a round has what a mutation changes.
pub(super) fn is_of(name: &str, round: &str) -> bool {
    !(name == OLD_LAYOUT || name.starts_with(NEW_BENCHMARK))
        || SubmissionLayout::for_round(round) == SubmissionLayout::Single
}

/// What the official checker refuses and the submission check does not.
const KNOWN_HOLES: [&str; 0] = [];

/// Name and what is done to a good submission.
#[rustfmt::skip]
pub(super) const BROKEN: &[(&str, Break)] = &[
    // The official checker's three holes.
    ("Offline run that LoadGen called INVALID", |s| {
        s.set("Offline/performance/run_1", "result_validity", &json!("INVALID"));
        s.set("Offline/performance/run_1", "result_min_duration_met", &json!(false));
        s.replace(&s.of("Offline/performance/run_1/mlperf_log_summary.txt"), "Result is : VALID", "Result is : INVALID");
    }),
    ("17,946 LoadGen errors", |s| {
        let run = "Server/performance/run_1";
        let mut text = fs::read_to_string(s.log(run)).unwrap();
        for _ in 0..17_946 {
            text += &line("error_runtime", &json!("n_tokens argument missing or attempted to record 0 as number of tokens"), true);
        }
        write(s.log(run), text);
        s.set(run, "num_errors", &json!(17_946));
    }),
    ("Interactive folder with Server's limits", |s| {
        run(&s.of("Interactive/performance/run_1"), "Server", "performance");
        write(s.of("Interactive/user.conf"), super::fixture::user_conf("Server"));
    }),
    // LoadGen and its round.
    ("seeds of v6.0", |s| s.set("Server/performance/run_1", "effective_qsl_rng_seed", &json!(2_465_351_861_681_999_779_u64))),
    ("second test of a process: seeds are 0", |s| {
        for key in ["qsl", "sample_index", "schedule"] {
            s.set("Offline/accuracy", &format!("effective_{key}_rng_seed"), &json!(0));
        }
    }),
    ("LoadGen of v5.1", |s| s.set("Server/performance/run_1", "loadgen_version", &json!("5.1.2 @ 0000000000"))),
    ("altered LoadGen", |s| s.set("Server/performance/run_1", "loadgen_git_status_message", &json!(" M loadgen/loadgen.cc"))),
    ("logs of another mode", |s| run(&s.of("Server/accuracy"), "Server", "performance")),
    ("torn log", |s| {
        let text = detail("offline_performance");
        write(s.log("Offline/performance/run_1"), &text[..text.find(":::MLLOG {\"key\":\"power_begin\"").unwrap()]);
    }),
    ("no detail log", |s| fs::remove_file(s.log("Server/performance/run_1")).unwrap()),
    ("a line that is not a log line", |s| {
        let text = fs::read_to_string(s.log("Server/accuracy")).unwrap();
        write(s.log("Server/accuracy"), format!("{text}killed\n"));
    }),
    ("summary of another run", |s| {
        write(s.of("Server/performance/run_1/mlperf_log_summary.txt"), summary("server_performance").replace(": VALID", ": INVALID"));
    }),
    ("VALID and INVALID in one log", |s| {
        let log = s.log("Server/performance/run_1");
        write(&log, fs::read_to_string(&log).unwrap() + &line("result_validity", &json!("INVALID"), false));
    }),
    ("two runs in one log", |s| {
        let log = s.log("Server/performance/run_1");
        write(&log, fs::read_to_string(&log).unwrap() + &detail("interactive_performance"));
    }),
    ("accuracy run of Server in Interactive, too", |s| {
        for name in ["mlperf_log_detail.txt", "mlperf_log_summary.txt", "mlperf_log_accuracy.json", "accuracy.txt"] {
            fs::copy(s.of(&format!("Server/accuracy/{name}")), s.of(&format!("Interactive/accuracy/{name}"))).unwrap();
        }
    }),
    ("answers of TEST06 in two scenarios", |s| {
        let log = "TEST06/accuracy/mlperf_log_accuracy.json";
        fs::copy(s.of(&format!("Interactive/{log}")), s.of(&format!("Server/{log}"))).unwrap();
    }),
    // Rules of a performance run.
    ("99,999 samples in the library", |s| s.set("Offline/performance/run_1", "qsl_reported_total_count", &json!(99_999))),
    ("60 seconds", |s| s.set("Server/performance/run_1", "effective_min_duration_ms", &json!(60_000))),
    ("Offline that lasted 246 seconds", |s| s.set("Offline/performance/run_1", "result_samples_per_second", &json!(100.0))),
    ("1,000 samples in memory", |s| s.set("Server/performance/run_1", "effective_performance_sample_count", &json!(1000))),
    ("10,000 Offline samples", |s| s.set("Offline/performance/run_1", "effective_samples_per_query", &json!(10_000))),
    ("equal issue off", |s| s.set("Offline/performance/run_1", "effective_sample_concatenate_permutation", &json!(false))),
    ("token latencies off", |s| s.set("Offline/performance/run_1", "requested_use_token_latencies", &json!(false))),
    ("TTFT above the limit", |s| s.set("Interactive/performance/run_1", "result_first_token_99.00_percentile_latency_ns", &json!(460_000_000))),
    ("TPOT of -1e18", |s| s.set("Server/performance/run_1", "result_time_per_output_token_99.00_percentile_ns", &json!(-1_000_000_000_000_000_000_i64))),
    ("target_latency of 30 seconds", |s| s.set("Server/performance/run_1", "effective_target_latency_ns", &json!(30_000_000_000_u64))),
    ("Open: target_latency of 50 seconds", |s| {
        s.set("Server/performance/run_1", "effective_target_latency_ns", &json!(50_000_000_000_u64));
        s.submit_to("open");
    }),
    ("Open: TTFT of 9.1 seconds", |s| {
        s.set("Server/performance/run_1", "result_first_token_99.00_percentile_latency_ns", &json!(9_100_000_000_u64));
        s.submit_to("open");
    }),
    ("Open: Interactive with a TTFT of 0.46 seconds", |s| {
        s.set("Interactive/performance/run_1", "result_first_token_99.00_percentile_latency_ns", &json!(460_000_000));
        s.submit_to("open");
    }),
    ("Open: token latencies off", |s| {
        s.set("Offline/performance/run_1", "requested_use_token_latencies", &json!(false));
        s.submit_to("open");
    }),
    ("Open: early stopping not met, yet VALID", |s| {
        s.set("Server/performance/run_1", "early_stopping_met", &json!(false));
        s.submit_to("open");
    }),
    ("90th percentile", |s| s.set("Server/performance/run_1", "effective_target_latency_percentile", &json!(0.9))),
    ("log of an audit as a result", |s| s.set("Server/performance/run_1", "effective_accuracy_log_sampling_target", &json!(100))),
    // Accuracy.
    ("ROUGE-2 too low", |s| s.replace(&s.of("Offline/accuracy/accuracy.txt"), "22.0419", "21.9")),
    ("too many tokens per sample", |s| s.replace(&s.of("Offline/accuracy/accuracy.txt"), "294.0", "324.1")),
    ("no score of ROUGE-L", |s| s.replace(&s.of("Offline/accuracy/accuracy.txt"), "'rougeL'", "'rouge-l'")),
    ("no hash", |s| s.replace(&s.of("Server/accuracy/accuracy.txt"), "hash=", "sha=")),
    ("hash of another log", |s| s.replace(&s.of("Server/accuracy/mlperf_log_accuracy.json"), "05000000", "06000000")),
    ("not truncated", |s| {
        let log = super::fixture::long_log("Server");
        let old = super::fixture::sha256(super::fixture::answers("Server/accuracy").as_bytes());
        s.replace(&s.of("Server/accuracy/accuracy.txt"), &old, &super::fixture::sha256(log.as_bytes()));
        write(s.of("Server/accuracy/mlperf_log_accuracy.json"), log);
    }),
    ("accuracy of 1,000 samples", |s| s.set("Server/accuracy", "effective_accuracy_sample_count", &json!(1000))),
    ("accuracy of another system", |s| s.set("Server/accuracy", "sut_name", &json!("the other box"))),
    // What must be there.
    ("no Offline", |s| fs::remove_dir_all(s.of("Offline")).unwrap()),
    ("Offline alone", |s| ["Server", "Interactive"].iter().for_each(|name| fs::remove_dir_all(s.of(name)).unwrap())),
    ("scenario in lower case", |s| fs::rename(s.of("Offline"), s.of("offline")).unwrap()),
    ("benchmark of another round", |s| fs::rename(s.of(""), s.of("../llama2-70b-99")).unwrap()),
    ("no TEST06", |s| fs::remove_dir_all(s.of("Server/TEST06")).unwrap()),
    ("TEST06 failed", |s| s.replace(&s.of("Server/TEST06/verify_accuracy.txt"), "EOS check pass: True", "EOS check pass: False")),
    ("TEST06 failed, and passed below", |s| {
        let failed = "EOS check pass: False\nEOS check pass: True";
        s.replace(&s.of("Server/TEST06/verify_accuracy.txt"), "EOS check pass: True", failed);
    }),
    ("TEST06 skipped the first token of Server", |s| s.replace(&s.of("Server/TEST06/verify_accuracy.txt"), "First token check pass: True", "First token check pass: Skipped")),
    ("TEST06 without samples", |s| write(s.of("Server/TEST06/accuracy/mlperf_log_accuracy.json"), "")),
    ("no source", |s| fs::remove_dir_all(s.at("src")).unwrap()),
    (OLD_LAYOUT, |s| {
        for scenario in super::fixture::SCENARIOS {
            for name in ["measurements.json", "user.conf", "README.md"] {
                let to = s.at("measurements").join(SYSTEM).join(BENCHMARK).join(scenario).join(name);
                write(&to, fs::read(s.of(scenario).join(name)).unwrap());
                fs::remove_file(s.of(scenario).join(name)).unwrap();
            }
        }
    }),
    // The system and how it was set up.
    ("field cooling missing", |s| s.field(&s.system(), "cooling", None)),
    ("accelerator without a name", |s| s.field(&s.system(), "accelerator_model_name", Some(json!("")))),
    ("cooling to be done", |s| s.field(&s.system(), "cooling", Some(json!("TODO")))),
    ("eight accelerators in words", |s| s.field(&s.system(), "accelerators_per_node", Some(json!("eight")))),
    ("an unknown status", |s| s.field(&s.system(), "status", Some(json!("research")))),
    ("submitter in another case", |s| s.field(&s.system(), "submitter", Some(json!("EXAMPLE")))),
    ("system under another name", |s| fs::rename(s.system(), s.at("systems/box_h200_x8.json")).unwrap()),
    ("closed with is_network in words", |s| s.field(&s.system(), "is_network", Some(json!("false")))),
    ("Network: the fields of a network system are missing", |s| {
        s.over_a_network();
        s.submit_to("network");
    }),
    ("Open: over a network, with LoadGen on the host", |s| {
        s.over_a_network();
        s.describe_network();
        s.set("Server/performance/run_1", "sut_name", &json!("PySUT"));
        s.submit_to("open");
    }),
    ("closed over a network", |s| s.field(&s.system(), "is_network", Some(json!("true")))),
    ("measurements without weight types", |s| s.field(&s.of("Server/measurements.json"), "weight_data_types", Some(json!("")))),
    ("no user.conf", |s| fs::remove_file(s.of("Server/user.conf")).unwrap()),
    ("empty README", |s| write(s.of("Server/README.md"), "")),
    ("user.conf of another run", |s| s.replace(&s.of("Server/user.conf"), "40.5", "60")),
    ("user.conf with its own TTFT", |s| s.replace(&s.of("Server/user.conf"), "min_duration = 600000", "ttft_latency = 5000")),
    ("user.conf with a misspelt key", |s| s.replace(&s.of("Server/user.conf"), "min_duration = 600000", "min_durations = 1200000")),
    ("user.conf for a model that LoadGen does not know", |s| s.replace(&s.of("Server/user.conf"), "llama2-70b.", "llama2-70b-99.9.")),
    // What the logs say twice.
    ("early stopping not met, yet VALID", |s| s.set("Server/performance/run_1", "early_stopping_met", &json!(false))),
    ("early stopping not logged", |s| s.replace(&s.log("Server/performance/run_1"), "\"early_stopping_met\"", "\"early_stopping\"")),
    ("minimum duration not met, yet VALID", |s| s.set("Offline/performance/run_1", "result_min_duration_met", &json!(false))),
    ("minimum of queries not met, yet VALID", |s| s.set("Offline/performance/run_1", "result_min_queries_met", &json!(false))),
    ("constraints not met, yet VALID", |s| s.set("Server/performance/run_1", "result_perf_constraints_met", &json!(false))),
    ("tokens per second tripled", |s| s.set("Server/performance/run_1", "result_completed_tokens_per_second", &json!(35_820.6))),
    ("Offline tokens per second tripled in both logs", |s| {
        s.set("Offline/performance/run_1", "result_tokens_per_second", &json!(33_861.9));
        s.summary("Offline", "Tokens per second", "33861.9");
    }),
    ("Offline samples and tokens per second tripled in both logs", |s| {
        s.set("Offline/performance/run_1", "result_tokens_per_second", &json!(33_861.9));
        s.set("Offline/performance/run_1", "result_samples_per_second", &json!(115.2));
        s.summary("Offline", "Tokens per second", "33861.9");
        s.summary("Offline", "Samples per second", "115.2");
    }),
    ("summary with a higher rate", |s| s.summary("Server", "Completed tokens per second", "35820.6")),
    ("50 queries", |s| s.set("Server/performance/run_1", "result_query_count", &json!(50))),
    ("50 queries in both counts", |s| {
        s.set("Server/performance/run_1", "result_query_count", &json!(50));
        s.set("Server/performance/run_1", "generated_query_count", &json!(50));
    }),
    ("99th percentile below the 90th", |s| s.set("Server/performance/run_1", "result_99.00_percentile_latency_ns", &json!(1000))),
    // Power.
    // The audits of gpt-oss-120b, which the rounds before v6.0 do not have.
    ("gpt-oss-120b without TEST07", |s| {
        s.with_reasoning_model();
        fs::remove_dir_all(s.of_reasoning("Server/TEST07")).unwrap();
    }),
    ("gpt-oss-120b with TEST06 in place of TEST09", |s| {
        s.with_reasoning_model();
        fs::rename(s.of_reasoning("Server/TEST09"), s.of_reasoning("Server/TEST06")).unwrap();
    }),
    ("gpt-oss-120b whose TEST07 failed", |s| {
        s.with_reasoning_model();
        s.replace(&s.of_reasoning("Offline/TEST07/verify_accuracy.txt"), "TEST PASS", "TEST FAIL");
    }),
    ("gpt-oss-120b with an exact match of 50 and TEST PASS", |s| {
        s.with_reasoning_model();
        s.replace(&s.of_reasoning("Offline/TEST07/verify_accuracy.txt"), "62.15", "50.00");
    }),
    ("gpt-oss-120b with TEST07 of 4395 samples", |s| {
        s.with_reasoning_model();
        s.replace(&s.of_reasoning("Server/TEST07/performance/run_1/mlperf_log_detail.txt"), "\"value\":990", "\"value\":4395");
    }),
    ("gpt-oss-120b whose TEST09 was not judged", |s| {
        s.with_reasoning_model();
        s.replace(&s.of_reasoning("Interactive/TEST09/verify_output_len.txt"), "TEST PASS", "TEST NOT JUDGED");
    }),
    ("gpt-oss-120b with answers of 300 tokens and TEST PASS", |s| {
        s.with_reasoning_model();
        s.replace(&s.of_reasoning("Server/TEST09/verify_output_len.txt"), "1278.20", "300.00");
    }),
    ("gpt-oss-120b with TEST09 of 990 samples", |s| {
        s.with_reasoning_model();
        s.replace(&s.of_reasoning("Server/TEST09/verify_output_len.txt"), "6396", "990");
    }),
    ("gpt-oss-120b without verify_output_len.txt", |s| {
        s.with_reasoning_model();
        fs::remove_file(s.of_reasoning("Offline/TEST09/verify_output_len.txt")).unwrap();
    }),
    ("gpt-oss-120b with an exact match of 80", |s| {
        s.with_reasoning_model();
        s.replace(&s.of_reasoning("Offline/accuracy/accuracy.txt"), "83.130", "80.000");
    }),
    ("power without spl.txt, ranging and the meter's log", |s| {
        s.with_power("Server");
        fs::remove_dir_all(s.of("Server/performance/ranging")).unwrap();
        fs::remove_file(s.of("Server/performance/run_1/spl.txt")).unwrap();
        fs::remove_file(s.of("Server/performance/power/ptd_logs.txt")).unwrap();
    }),
    ("power of another time", |s| s.sampled("run_1", |text| text.replace("-2026 ", "-1999 "))),
    ("power of no number", |s| s.sampled("run_1", |text| text.replacen("Watts,4001.000", "Watts,none", 1))),
    ("power without its watts", |s| s.sampled("run_1", |text| text.replacen(",Watts,4001.000,Volts", ",Volts", 1))),
    ("power at no time", |s| s.sampled("run_1", |text| text.replacen("Time,", "Time,x", 1))),
    ("power below nothing", |s| s.sampled("run_1", |text| text.replacen("Watts,4001.000", "Watts,-4001.000", 1))),
    ("power of -1 W while the meter finds its range", |s| s.sampled("ranging", |text| text.replacen("Watts,4001.000", "Watts,-1.000", 1))),
    ("power that is not a number to the meter", |s| s.sampled("run_1", |text| text.replacen("Watts,4001.000", "Watts,nan", 1))),
    ("power without end", |s| s.sampled("run_1", |text| text.replacen("Watts,4001.000", "Watts,inf", 1))),
    ("power of zero for a second", |s| s.sampled("run_1", |text| text.replacen("Watts,4001.000", "Watts,0.000", 1))),
    ("power of the idle half of the run", |s| s.sampled("run_1", |text| {
        let lines: Vec<&str> = text.lines().collect();
        lines[..lines.len() / 2].join("\n") + "\n"
    })),
    ("power halved in watts alone", |s| s.sampled("run_1", |text| text.replace("Watts,4001.000", "Watts,3900.500").replace("Amps,17.7507", "Amps,8.8753"))),
    ("power of testing 10 % below ranging", |s| s.sampled("run_1", |text| text.replace("Watts,4001.000", "Watts,3601.000").replace("Watts,3999.000", "Watts,3599.000"))),
    ("power changed after it was measured", |s| {
        s.with_power("Server");
        s.replace(&s.of("Server/performance/run_1/spl.txt"), "Watts,4001.000", "Watts,3900.000");
    }),
    ("power whose sessions record nothing", |s| {
        s.with_power("Server");
        write(s.of("Server/performance/power/client.json"), "{}");
    }),
    ("power of a log without its times", |s| {
        s.with_power("Server");
        s.set("Server/performance/run_1", "power_begin", &json!("now"));
        let log = fs::read(s.log("Server/performance/run_1")).unwrap();
        for name in ["client.json", "server.json"] {
            let path = s.of("Server/performance/power").join(name);
            let mut session: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            session["results"]["run_1/mlperf_log_detail.txt"] = json!(super::fixture::sha1(&log));
            write(path, format!("{session:#}"));
        }
    }),
    ("power of two sessions", |s| s.session("client.json", |session| session["session_name"] = json!("2026-11-22"))),
    ("power of another client", |s| s.session("client.json", |session| {
        session["uuid"]["client"] = json!("00000000-0000-0000-0000-000000000000");
    })),
    ("power in debug mode", |s| s.session("server.json", |session| session["debug"] = json!(true))),
    ("power whose phase begins elsewhere", |s| s.session("client.json", |session| {
        let begin = session["phases"]["testing"][0][0].as_f64().unwrap();
        session["phases"]["testing"][0][0] = json!(begin - 30.0);
    })),
    ("power of a phase that ended before the run", |s| {
        s.with_power("Server");
        for name in ["client.json", "server.json"] {
            let path = s.of("Server/performance/power").join(name);
            let mut session: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            let end = session["phases"]["testing"][2][0].as_f64().unwrap();
            session["phases"]["testing"][2][0] = json!(end - 60.0);
            write(path, format!("{session:#}"));
        }
    }),
    // TEST06 by its own log.
    ("TEST06 of three answers", |s| {
        let log = super::fixture::audit_log("Server");
        let three: Vec<&str> = log.lines().take(4).collect();
        write(s.of("Server/TEST06/accuracy/mlperf_log_accuracy.json"), format!("{}\n]\n", three.join("\n").trim_end_matches(',')));
    }),
    ("TEST06 with two ends", |s| s.replace(&s.of("Server/TEST06/accuracy/mlperf_log_accuracy.json"), "0500000009000000\", \"token_data\" : \"05000000\", \"token_count\" : 2", "050000000200000002000000\", \"token_data\" : \"05000000\", \"token_count\" : 3")),
    ("TEST06 with wrong counts", |s| s.replace(&s.of("Offline/TEST06/accuracy/mlperf_log_accuracy.json"), "\"token_count\" : 2", "\"token_count\" : 3")),
    ("TEST06 with another first token", |s| s.replace(&s.of("Server/TEST06/accuracy/mlperf_log_accuracy.json"), "\"token_data\" : \"05000000\"", "\"token_data\" : \"06000000\"")),
    // Strays and names.
    ("a misspelt benchmark", |s| fs::rename(s.of(""), s.of("../llama2-70b-99.8")).unwrap()),
    ("a file beside closed/", |s| write(s.0.join("results.csv"), "x\n")),
    ("a submitter without results", |s| write(s.0.join("open/Example/documentation/notes.md"), "x\n")),
    ("a folder of texts below closed/", |s| write(s.0.join("closed/docs/readme.md"), "x\n")),
    ("no calibration", |s| fs::rename(s.at("documentation/calibration.md"), s.at("documentation/bandwidth.md")).unwrap()),
    ("audit.config in the package", |s| write(s.of("Server/performance/run_1/audit.config"), "*.*.mode = 2\n")),
    ("a name with a space", |s| write(s.at("documentation/cali bration.md"), "x\n")),
    ("two names that differ in case", |s| write(s.at("documentation/Calibration.md"), "x\n")),
    // What only regatta.lock knows.
    ("rehearsal", |s| lock(s, |lock| lock["rehearsal"] = json!(true))),
    ("made-up data", |s| lock(s, |lock| {
        let test = json!({
            "round": "v6.1", "benchmark": BENCHMARK, "scenario": "server", "mode": "performance", "division": "closed", "rehearsal": true,
            "loadgen_version": "6.0.17", "target_qps": 40.5, "sut_name": "PySUT", "result": "VALID", "errors": 0,
            "seeds": {"qsl": 1, "sample_index": 2, "schedule": 3},
            "dataset": {"benchmark": BENCHMARK, "synthetic": true, "samples": 256, "sha256": "00"},
        });
        lock["results"][1]["runs"]["performance"]["test"] = test;
    })),
    ("TEST06 that was a rehearsal", |s| lock(s, |lock| {
        let test = json!({
            "round": "v6.1", "benchmark": BENCHMARK, "scenario": "offline", "mode": "test06", "division": "closed", "rehearsal": true,
            "loadgen_version": "6.0.17", "target_qps": 40.5, "sut_name": "PySUT", "result": "VALID", "errors": 0,
            "seeds": {"qsl": 1, "sample_index": 2, "schedule": 3},
            "dataset": {"benchmark": BENCHMARK, "synthetic": false, "samples": 24576, "sha256": "00"},
        });
        lock["results"][0]["runs"]["test06"] = json!({"files": {}, "test": test});
    })),
    ("accuracy of another engine", |s| lock(s, |lock| {
        lock["results"][1]["runs"]["performance"]["under_test"] = json!({"engine": ["aaaaaaaaaaaaaaaa"], "serve": ["cc"]});
        lock["results"][1]["runs"]["accuracy"]["under_test"] = json!({"engine": ["bbbbbbbbbbbbbbbb"], "serve": ["cc"]});
    })),
    ("log changed after it was packed", |s| {
        lock(s, |_| ());
        s.set("Server/performance/run_1", "result_completed_tokens_per_second", &json!(22_940.2));
    }),
    ("result copied in", |s| lock(s, |lock| drop(lock["results"].as_array_mut().unwrap().pop()))),
    ("packed for another round", |s| lock(s, |lock| lock["round"] = json!("v6.0"))),
    // More of each kind.
    ("seeds of v6.0 in the accuracy run", |s| s.set("Server/accuracy", "effective_qsl_rng_seed", &json!(2_465_351_861_681_999_779_u64))),
    ("another sample index seed", |s| s.set("Server/performance/run_1", "effective_sample_index_rng_seed", &json!(5))),
    ("another schedule seed", |s| s.set("Interactive/performance/run_1", "effective_schedule_rng_seed", &json!(5))),
    ("LoadGen without a version", |s| s.replace(&s.log("Server/performance/run_1"), "\"loadgen_version\"", "\"version\"")),
    ("accuracy by another LoadGen", |s| s.set("Server/accuracy", "loadgen_version", &json!("4.0 @ 0000000000"))),
    ("a LoadGen error in the accuracy run", |s| {
        let text = fs::read_to_string(s.log("Server/accuracy")).unwrap();
        write(s.log("Server/accuracy"), text + &line("error_runtime", &json!("Ran out of generated queries"), true));
    }),
    ("log of another scenario", |s| s.set("Server/performance/run_1", "effective_scenario", &json!("Offline"))),
    ("Offline's log in Server's folder", |s| run(&s.of("Server/performance/run_1"), "Offline", "performance")),
    ("performance log of accuracy mode", |s| s.set("Server/performance/run_1", "effective_test_mode", &json!("AccuracyOnly"))),
    ("no summary", |s| fs::remove_file(s.of("Server/performance/run_1/mlperf_log_summary.txt")).unwrap()),
    ("empty summary", |s| write(s.of("Server/performance/run_1/mlperf_log_summary.txt"), "")),
    ("empty detail log", |s| write(s.log("Server/performance/run_1"), "")),
    ("no summary of the accuracy run", |s| fs::remove_file(s.of("Server/accuracy/mlperf_log_summary.txt")).unwrap()),
    ("no detail log of the accuracy run", |s| fs::remove_file(s.log("Server/accuracy")).unwrap()),
    ("detail log under another name", |s| fs::rename(s.log("Offline/performance/run_1"), s.of("Offline/performance/run_1/mlperf_log_detail.txt.bak")).unwrap()),
    ("run_2 alone", |s| fs::rename(s.of("Offline/performance/run_1"), s.of("Offline/performance/run_2")).unwrap()),
    ("no accuracy run", |s| fs::remove_dir_all(s.of("Server/accuracy")).unwrap()),
    ("no performance run", |s| fs::remove_dir_all(s.of("Server/performance")).unwrap()),
    ("TTFT not logged", |s| s.replace(&s.log("Interactive/performance/run_1"), "result_first_token_99.00_percentile_latency_ns", "result_first_token")),
    ("TPOT not logged", |s| s.replace(&s.log("Server/performance/run_1"), "result_time_per_output_token_99.00_percentile_ns", "result_tpot")),
    ("TPOT above the limit", |s| s.set("Interactive/performance/run_1", "result_time_per_output_token_99.00_percentile_ns", &json!(41_000_000))),
    ("TTFT of zero", |s| s.set("Server/performance/run_1", "result_first_token_99.00_percentile_latency_ns", &json!(0))),
    ("five minutes of Offline", |s| s.set("Offline/performance/run_1", "effective_min_duration_ms", &json!(300_000))),
    ("half of the samples in memory", |s| s.set("Offline/performance/run_1", "effective_performance_sample_count", &json!(12_288))),
    ("24,575 Offline samples", |s| s.set("Offline/performance/run_1", "effective_samples_per_query", &json!(24_575))),
    ("median in place of the 99th percentile", |s| s.set("Interactive/performance/run_1", "effective_target_latency_percentile", &json!(0.5))),
    ("no samples per second", |s| s.set("Server/performance/run_1", "result_completed_samples_per_sec", &json!(0.0))),
    ("samples per second doubled", |s| s.set("Server/performance/run_1", "result_completed_samples_per_sec", &json!(81.0))),
    ("twice the rate that was set", |s| s.set("Server/performance/run_1", "effective_target_qps", &json!(81.0))),
    ("verdict not logged", |s| s.replace(&s.log("Server/performance/run_1"), "\"result_validity\"", "\"validity\"")),
    ("Interactive that LoadGen called INVALID", |s| {
        s.set("Interactive/performance/run_1", "result_validity", &json!("INVALID"));
        s.summary("Interactive", "Result is", "INVALID");
    }),
    ("ROUGE-1 too low", |s| s.replace(&s.of("Server/accuracy/accuracy.txt"), "44.4542", "44.3")),
    ("ROUGE-L too low", |s| s.replace(&s.of("Server/accuracy/accuracy.txt"), "28.6112", "28.5")),
    ("too few tokens per sample", |s| s.replace(&s.of("Server/accuracy/accuracy.txt"), "294.0", "264.9")),
    ("no tokens per sample", |s| s.replace(&s.of("Server/accuracy/accuracy.txt"), "'tokens_per_sample'", "'tokens'")),
    ("scores of zero", |s| s.replace(&s.of("Server/accuracy/accuracy.txt"), "44.4542", "0.0")),
    ("empty accuracy.txt", |s| write(s.of("Server/accuracy/accuracy.txt"), "")),
    ("no accuracy.txt", |s| fs::remove_file(s.of("Server/accuracy/accuracy.txt")).unwrap()),
    ("no accuracy log", |s| fs::remove_file(s.of("Server/accuracy/mlperf_log_accuracy.json")).unwrap()),
    ("empty accuracy log", |s| write(s.of("Server/accuracy/mlperf_log_accuracy.json"), "")),
    ("accuracy of one sample less", |s| s.set("Server/accuracy", "effective_accuracy_sample_count", &json!(24_575))),
    ("a blank behind the hash", |s| {
        let path = s.of("Server/accuracy/accuracy.txt");
        let text = fs::read_to_string(&path).unwrap();
        write(path, format!("{} \n", text.trim_end()));
    }),
    ("two hashes", |s| {
        let path = s.of("Server/accuracy/accuracy.txt");
        let text = fs::read_to_string(&path).unwrap();
        write(path, format!("{text}hash={}\n", "0".repeat(64)));
    }),
    ("TEST06 without its outcome", |s| fs::remove_file(s.of("Server/TEST06/verify_accuracy.txt")).unwrap()),
    ("TEST06 with an empty outcome", |s| write(s.of("Server/TEST06/verify_accuracy.txt"), "")),
    ("TEST06 without its log", |s| fs::remove_file(s.of("Server/TEST06/accuracy/mlperf_log_accuracy.json")).unwrap()),
    ("TEST06 with wrong lengths", |s| s.replace(&s.of("Offline/TEST06/verify_accuracy.txt"), "Sample length check pass: True", "Sample length check pass: False")),
    ("TEST06 with wrong first tokens", |s| s.replace(&s.of("Server/TEST06/verify_accuracy.txt"), "First token check pass: True", "First token check pass: False")),
    ("TEST06 without token counts", |s| s.replace(&s.of("Server/TEST06/accuracy/mlperf_log_accuracy.json"), ", \"token_count\" : 2", "")),
    ("no TEST06 of Offline", |s| fs::remove_dir_all(s.of("Offline/TEST06")).unwrap()),
    ("empty source folder", |s| fs::remove_file(s.at("src/README.md")).unwrap()),
    ("no measurements", |s| fs::remove_file(s.of("Server/measurements.json")).unwrap()),
    ("measurements that are no JSON", |s| write(s.of("Server/measurements.json"), "{")),
    ("measurements without retraining", |s| s.field(&s.of("Server/measurements.json"), "retraining", None)),
    ("measurements without the weights' name", |s| s.field(&s.of("Server/measurements.json"), "starting_weights_filename", Some(json!("")))),
    ("measurements without input types", |s| s.field(&s.of("Server/measurements.json"), "input_data_types", None)),
    ("no README", |s| fs::remove_file(s.of("Server/README.md")).unwrap()),
    ("empty user.conf", |s| write(s.of("Server/user.conf"), "")),
    ("system that is not a JSON", |s| write(s.system(), "{")),
    ("system of Open in Closed", |s| s.field(&s.system(), "division", Some(json!("open")))),
    ("system of another submitter", |s| s.field(&s.system(), "submitter", Some(json!("Other")))),
    ("system without a status", |s| s.field(&s.system(), "status", Some(json!("")))),
    ("system of no known type", |s| s.field(&s.system(), "system_type", Some(json!("cloud")))),
    ("system of a type in another case", |s| s.field(&s.system(), "system_type", Some(json!("Datacenter")))),
    ("system of a type in a list", |s| s.field(&s.system(), "system_type", Some(json!(["datacenter"])))),
    ("edge system", |s| s.field(&s.system(), "system_type", Some(json!("edge")))),
    ("submitter that is a number", |s| s.field(&s.system(), "submitter", Some(json!(5)))),
    ("is_network that is a flag", |s| s.field(&s.system(), "is_network", Some(json!(false)))),
    ("no network cards, by a flag", |s| s.field(&s.system(), "host_network_card_count", Some(json!(false)))),
    ("notes in a list", |s| s.field(&s.system(), "sw_notes", Some(json!(["a note"])))),
    ("measurements with retraining as a flag", |s| s.field(&s.of("Server/measurements.json"), "retraining", Some(json!(false)))),
    ("no framework", |s| s.field(&s.system(), "framework", Some(json!("")))),
    ("no operating system", |s| s.field(&s.system(), "operating_system", None)),
    ("no nodes", |s| s.field(&s.system(), "number_of_nodes", Some(json!("")))),
    ("scenario that is none", |s| fs::rename(s.of("Interactive"), s.of("Fast")).unwrap()),
    ("division that is none", |s| fs::rename(s.0.join("closed"), s.0.join("close")).unwrap()),
];

/// Those that MLCommons accepted in published results: a reviewer may object to them.
const FOR_REVIEW: [&str; 30] = [
    "accuracy run of Server in Interactive, too",
    "answers of TEST06 in two scenarios",
    "99,999 samples in the library",
    "Open: Interactive with a TTFT of 0.46 seconds",
    "gpt-oss-120b with TEST07 of 4395 samples",
    "gpt-oss-120b with TEST09 of 990 samples",
    "power of -1 W while the meter finds its range",
    "power of zero for a second",
    "power of the idle half of the run",
    "power halved in watts alone",
    "seeds of v6.0 in the accuracy run",
    "two hashes",
    "TEST06 without its log",
    "a file beside closed/",
    "no calibration",
    "second test of a process: seeds are 0",
    "logs of another mode",
    "equal issue off",
    "hash of another log",
    "accuracy of another system",
    "scenario in lower case",
    "TEST06 without samples",
    "cooling to be done",
    "submitter in another case",
    "user.conf of another run",
    "user.conf with a misspelt key",
    "user.conf for a model that LoadGen does not know",
    "audit.config in the package",
    "a name with a space",
    "two names that differ in case",
];

/// The section of the rules that decides where the verdicts differ: mlcommons/inference_policies `inference_rules.adoc` and
/// `power_measurement.adoc`, mlcommons/policies `submission_rules.adoc`.
fn section(check: SubmissionCheck) -> &'static str {
    match check {
        SubmissionCheck::Counts
        | SubmissionCheck::LogsDisagree
        | SubmissionCheck::Verdict
        | SubmissionCheck::UnreadableLog
        | SubmissionCheck::TornLog
        | SubmissionCheck::NotValid
        | SubmissionCheck::LoadGenErrors
        | SubmissionCheck::LoadGenVersion
        | SubmissionCheck::AlteredLoadGen
        | SubmissionCheck::TestMode
        | SubmissionCheck::WrongRun
        | SubmissionCheck::AccuracySamples
        | SubmissionCheck::Lengths
        | SubmissionCheck::Plausibility
        | SubmissionCheck::Simulated
        | SubmissionCheck::EqualIssue
        | SubmissionCheck::TokenLatencies
        | SubmissionCheck::Witness => "inference_rules, LoadGen Operation",
        SubmissionCheck::Accuracy | SubmissionCheck::MissingScore => "inference_rules, Benchmarks",
        SubmissionCheck::Duration
        | SubmissionCheck::Rehearsal
        | SubmissionCheck::SampleCount
        | SubmissionCheck::OfflineSamples => "inference_rules, Scenarios",
        SubmissionCheck::Latency | SubmissionCheck::LatencyLimits | SubmissionCheck::UserConf => {
            "inference_rules, Constraints for the Closed division"
        }
        SubmissionCheck::Seeds => "inference_rules, Non-determinism is restricted",
        SubmissionCheck::SyntheticData => "inference_rules, Data Sets",
        SubmissionCheck::TwoSystems => "inference_rules, System and framework must be consistent",
        SubmissionCheck::Lock | SubmissionCheck::ChangedFile => "inference_rules, Replicability is mandatory",
        SubmissionCheck::AuditLog
        | SubmissionCheck::AuditSettings
        | SubmissionCheck::TestFailed
        | SubmissionCheck::MissingTest => "submission_rules, Compliance Testing",
        SubmissionCheck::Source => "submission_rules, Source code requirements for replication",
        SubmissionCheck::SystemFields | SubmissionCheck::UnreadableJSON => {
            "submission_rules, <system_desc_id>.json metadata"
        }
        SubmissionCheck::MissingFile
        | SubmissionCheck::EmptyFile
        | SubmissionCheck::Empty
        | SubmissionCheck::Benchmark
        | SubmissionCheck::Layout
        | SubmissionCheck::Scenario
        | SubmissionCheck::Hash
        | SubmissionCheck::NotTruncated
        | SubmissionCheck::SystemName => "submission_rules, Directory structure",
        SubmissionCheck::Power => "power_measurement, LoadGen and Start/End TimeStamps",
        other => panic!("no section of the rules is named for `{other}`"),
    }
}

/// Writes the lock that `pack` would have written, changed.
fn lock(s: &Submission, change: impl Fn(&mut Value)) {
    let scenarios = [MlperfScenario::Offline, MlperfScenario::Server, MlperfScenario::Interactive];
    let results = scenarios.map(|scenario| {
        let runs =
            [(TestMode::Performance, "performance/run_1"), (TestMode::Accuracy, "accuracy")].map(|(mode, folder)| {
                let bytes = fs::read(s.log(&format!("{}/{folder}", scenario.title()))).unwrap();
                let files = BTreeMap::from([("mlperf_log_detail.txt".to_owned(), super::fixture::sha256(&bytes))]);
                (mode, LockedRun { files, ..LockedRun::default() })
            });
        LockedResult { benchmark: BENCHMARK.to_owned(), scenario, runs: runs.into_iter().collect() }
    });
    let lock = PackageProvenance {
        regatta: "0.1.0".to_owned(),
        round: "v6.1".to_owned(),
        division: "closed".to_owned(),
        submitter: "Example".to_owned(),
        system: SYSTEM.to_owned(),
        rehearsal: false,
        results: results.into(),
        stages: Vec::new(),
    };
    let mut lock = serde_json::to_value(lock).unwrap();
    change(&mut lock);
    write(s.at("documentation/regatta.lock"), format!("{lock:#}"));
}

pub(super) fn examine(root: &Path) -> SubmissionReport {
    mlperf::examine(root, &Round::named("v6.1").unwrap())
}

/// What the official checker said of each, as it was asked last: name → its word.
pub(super) fn official() -> BTreeMap<String, String> {
    let text = fs::read_to_string(OFFICIAL).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.split_once(" | "))
        .map(|(name, word)| (name.to_owned(), word.to_owned()))
        .collect()
}

#[test]
fn a_good_submission_passes() {
    let folder = tempfile::tempdir().unwrap();
    let examined = examine(&good(folder.path()).0);
    assert_eq!(examined.findings, []);
    let worth: Vec<String> = examined
        .results
        .iter()
        .map(|seen| {
            format!("{} {} {}", seen.scenario, seen.judged.value.unwrap(), seen.judged.validity.as_deref().unwrap())
        })
        .collect();
    assert_eq!(worth, ["Interactive 11852.2 VALID", "Offline 11287.3 VALID", "Server 11940.2 VALID"]);
    assert_eq!(mlperf::round_of(folder.path()).unwrap().name, "v6.1");
}

/// A folder stands for what cannot be read, and so does text that is no UTF-8.
#[test]
fn a_file_that_cannot_be_read_is_no_missing_one() {
    let folder = tempfile::tempdir().unwrap();
    let submission = good(folder.path());
    let [scores, log] = ["accuracy.txt", "mlperf_log_accuracy.json"].map(|name| format!("/accuracy/{name}"));
    fs::write(submission.of(&format!("Server{scores}")), b"\xff").unwrap();
    fs::write(submission.of("Offline/TEST06/verify_accuracy.txt"), b"\xff").unwrap();
    let instead = submission.of(&format!("Interactive{log}"));
    fs::remove_file(&instead).unwrap();
    fs::create_dir(&instead).unwrap();
    fs::write(instead.join("part"), "x").unwrap();
    let examined = examine(&submission.0);
    for place in
        [format!("Server{scores}"), "Offline/TEST06/verify_accuracy.txt".to_owned(), format!("Interactive{log}")]
    {
        let found: Vec<_> = examined.findings.iter().filter(|finding| finding.place.ends_with(&place)).collect();
        assert!(
            matches!(found[..], [one] if one.check == SubmissionCheck::UnreadableFile && one.what.starts_with("it cannot be read: ")),
            "{place}: {found:#?}"
        );
    }
}

/// 605 samples of 4,001 W and 3,999 W in turn: the mean of the first 605.
#[test]
fn power_is_the_average_while_the_run_lasted() {
    let folder = tempfile::tempdir().unwrap();
    let submission = good(folder.path());
    submission.with_power("Server");
    let examined = examine(&submission.0);
    assert_eq!(examined.findings, []);
    let power = examined.results.iter().find_map(|result| result.power.clone()).unwrap();
    assert_eq!(power.samples, 605);
    assert!((power.watts - (4000.0 + 1.0 / 605.0)).abs() < 1e-6, "{power:?}");
    assert!((power.seconds - 605.128).abs() < 1e-9 && (power.joules - power.watts * 605.128).abs() < 1e-6, "{power:?}");
    assert!((power.per_watt.unwrap() - 11940.2 / power.watts).abs() < 1e-3, "{power:?}");
}

#[test]
fn every_broken_submission_has_its_own_finding() {
    let official = official();
    let mut table = String::from(
        "# What is done to a good submission, what the official checker says of it, and what the submission check says.\n",
    );
    let (mut pass, mut unexpected) = (Vec::new(), Vec::new());
    for (name, spoil) in BROKEN {
        let folder = tempfile::tempdir().unwrap();
        let submission = good(folder.path());
        spoil(&submission);
        let examined = examine(&submission.0);
        if examined.findings.is_empty() {
            pass.push(*name);
        }
        if (examined.refusal_count() == 0) != FOR_REVIEW.contains(name) {
            unexpected.push(*name);
        }
        let _ = writeln!(
            table,
            "\n{name}\n  official: {}",
            official.get(&format!("v6.1 {name}")).map_or("not asked", String::as_str)
        );
        for finding in &examined.findings {
            let word = if finding.weight == FindingWeight::Refused { "refused" } else { "review" };
            let place = finding.place.strip_prefix("closed/Example/").unwrap_or(&finding.place);
            let place = place.replace(&format!("results/{SYSTEM}/{BENCHMARK}/"), "…/");
            let _ = writeln!(
                table,
                "  {word} {}: {place}: {}\n    why: {}\n    do: {}",
                finding.check, finding.what, finding.why, finding.fix
            );
        }
    }
    assert_eq!(
        (pass, unexpected),
        (vec![], vec![]),
        "mutations that pass, and those that are refused or not against FOR_REVIEW"
    );
    if std::env::var_os("UPDATE").is_some() {
        fs::write(GOLDEN, &table).unwrap();
    }
    assert_eq!(table, fs::read_to_string(GOLDEN).unwrap(), "UPDATE=1 writes it anew");
}

/// The same in three rounds: what the official checker says, what the submission check says, and who is right where they differ.
#[test]
fn the_table_of_mutations_has_three_rounds_and_says_who_is_right() {
    let official = official();
    let mut table = String::from("# mutation | round: official checker, submission check, who is right\n");
    let (mut differ, mut worse) = (0, Vec::new());
    for (name, spoil) in BROKEN {
        let _ = writeln!(table, "{name}");
        for round in ROUNDS.map(|round| Round::named(round).unwrap()) {
            if !is_of(name, &round.name) {
                continue;
            }
            let folder = tempfile::tempdir().unwrap();
            let submission = good_of(&round, folder.path());
            spoil(&submission);
            let examined = mlperf::examine(&submission.0, &round);
            let first = examined.findings.first();
            let ours = match first {
                None => "passes".to_owned(),
                Some(finding) if finding.weight == FindingWeight::Refused => format!("refused ({})", finding.check),
                Some(finding) => format!("for review ({})", finding.check),
            };
            let word = official.get(&format!("{} {name}", round.name)).map_or("not asked", String::as_str);
            let word = word.split(':').next().unwrap_or_default();
            let right = match (word, examined.refusal_count() > 0) {
                ("passes", true) => first.map(|finding| format!("ours: {} ({})", finding.why, section(finding.check))),
                ("crashes", true) => first.map(|finding| {
                    format!("ours: a checker that crashes gives no verdict ({})", section(finding.check))
                }),
                ("fails", false) => Some("the official checker".to_owned()),
                ("crashes", false) => Some("neither: a crash is not a verdict".to_owned()),
                _ => None,
            };
            differ += usize::from(right.is_some());
            if word == "fails" && examined.refusal_count() == 0 {
                worse.push(format!("{} {name}", round.name));
            }
            let right = right.map_or_else(String::new, |who| format!(", {who}"));
            let _ = writeln!(table, "  {}: {word}, {ours}{right}", round.name);
        }
    }
    let _ = writeln!(table, "\n{} mutations × {} rounds, {differ} verdicts differ", BROKEN.len(), ROUNDS.len());
    if std::env::var_os("UPDATE").is_some() {
        fs::write(MUTATIONS, &table).unwrap();
    }
    assert_eq!(table, fs::read_to_string(MUTATIONS).unwrap(), "UPDATE=1 writes it anew");
    assert_eq!(worse, KNOWN_HOLES, "what the official checker refuses is refused here");
}

#[test]
fn a_good_submission_of_a_reasoning_model_passes() {
    for round in ["v6.0", "v6.1"].map(|round| Round::named(round).unwrap()) {
        let folder = tempfile::tempdir().unwrap();
        let submission = good_of(&round, folder.path());
        submission.with_reasoning_model();
        let examined = mlperf::examine(&submission.0, &round);
        assert_eq!((examined.refusal_count(), examined.results.len()), (0, 3), "{:#?}", examined.findings);
    }
}

#[test]
fn a_good_submission_of_each_round_passes() {
    for round in ROUNDS.map(|round| Round::named(round).unwrap()) {
        let folder = tempfile::tempdir().unwrap();
        let examined = mlperf::examine(&good_of(&round, folder.path()).0, &round);
        assert_eq!((examined.refusal_count(), examined.results.len()), (0, 3), "{:#?}", examined.findings);
    }
}
