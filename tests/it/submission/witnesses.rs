//! Numbers changed where LoadGen writes them twice, and statements that contradict each other: each mutation of a good
//! submission with the grade that a reviewer would give it, in three rounds.
//!
//! The mutations were written from the rules and from what LoadGen logs, not from the checks.

use std::fmt::Write as _;
use std::fs;

use pretty_assertions::assert_eq;
use regatta::mlperf::{self, FindingGrade};
use regatta::rules::Round;
use serde_json::json;

use super::broken::ROUNDS;
use super::fixture::{Submission, audit_log, good, good_of, sha256, summary, write};
use super::reused_logs::BLIND;
use FindingGrade::{Contradiction, FraudLike, Style};

pub(super) const SERVER: &str = "Server/performance/run_1";
const OFFLINE: &str = "Offline/performance/run_1";
const INTERACTIVE: &str = "Interactive/performance/run_1";

pub(super) type Mutation = (&'static str, FindingGrade, fn(&Submission));

/// Sets the tokens per second of a streaming scenario in both logs.
fn tokens(s: &Submission, scenario: &str, value: f64) {
    s.set(&format!("{scenario}/performance/run_1"), "result_completed_tokens_per_second", &json!(value));
    s.summary(scenario, "Completed tokens per second", &format!("{value:.2}"));
}

/// Sets a number of a performance run in both logs.
pub(super) fn both(s: &Submission, scenario: &str, key: &str, name: &str, value: u64) {
    s.set(&format!("{scenario}/performance/run_1"), key, &json!(value));
    s.summary(scenario, name, &value.to_string());
}

/// Keeps the lines of a file before the first that has a text.
fn cut(s: &Submission, below: &str, text: &str) {
    let path = s.of(below);
    let whole = fs::read_to_string(&path).unwrap();
    let end = whole.lines().take_while(|line| !line.contains(text)).map(|line| line.len() + 1).sum::<usize>();
    assert!(end < whole.len(), "{text} is not in {below}");
    write(path, &whole[..end]);
}

/// Puts another accuracy log there, with its hash in the scores.
fn answered(s: &Submission, answers: &[(u64, &str)]) {
    let entry = |(index, (sample, data)): (usize, &(u64, &str))| {
        format!("{{ \"seq_id\" : {index}, \"qsl_idx\" : {sample}, \"data\" : \"{data}\", \"token_count\" : 2 }}")
    };
    let entries: Vec<String> = answers.iter().enumerate().map(entry).collect();
    accuracy_log(s, &format!("[\n{}\n]\n", entries.join(",\n")));
}

fn accuracy_log(s: &Submission, log: &str) {
    let (path, scores) = (s.of("Server/accuracy/mlperf_log_accuracy.json"), s.of("Server/accuracy/accuracy.txt"));
    s.replace(&scores, &sha256(&fs::read(&path).unwrap()), &sha256(log.as_bytes()));
    write(path, log);
}

/// Puts a log of TEST06 there, in which answer number n is to the query and the sample that a function gives for it.
fn audited(s: &Submission, place: fn(u64) -> (u64, u64)) {
    let answer = |n: u64| {
        let (query, sample) = place(n);
        format!(
            "{{ \"seq_id\" : {query}, \"qsl_idx\" : {sample}, \"data\" : \"05000000{:02X}000000\", \
             \"token_data\" : \"05000000\", \"token_count\" : 2 }}",
            9 + n
        )
    };
    let answers: Vec<String> = (0..100).map(answer).collect();
    write(s.of("Server/TEST06/accuracy/mlperf_log_accuracy.json"), format!("[\n{}\n]\n", answers.join(",\n")));
}

/// Puts the samples that LoadGen loaded into a log.
pub(super) fn load(s: &Submission, run: &str, samples: &[u64]) {
    let log = fs::read_to_string(s.log(run)).unwrap();
    write(s.log(run), super::fixture::line("loaded_qsl_set", &json!(samples), false) + &log);
}

/// Truncates the accuracy logs of scenarios, so that their hash is that of a whole that nobody has.
fn name_hash(s: &Submission, hash: &str, scenarios: &[&str]) {
    for scenario in scenarios {
        let path = s.of(&format!("{scenario}/accuracy/mlperf_log_accuracy.json"));
        let log = fs::read_to_string(&path).unwrap();
        s.replace(&s.of(&format!("{scenario}/accuracy/accuracy.txt")), &sha256(log.as_bytes()), hash);
        let (head, tail) = log.split_at(log.find("\n]").unwrap());
        write(&path, format!("{head}\n\n...\n\n{tail}"));
    }
}

/// Writes a field a second time, at the beginning of a JSON object.
fn twice(path: &std::path::Path, field: &str) {
    let text = fs::read_to_string(path).unwrap();
    write(path, text.replacen('{', &format!("{{\n  {field},"), 1));
}

#[rustfmt::skip]
const MUTATIONS: &[Mutation] = &[
    // The number that results are ranked by, and its witnesses.
    ("Server tokens/s +1 % in both logs", FraudLike, |s| tokens(s, "Server", 12_059.6)),
    ("Server tokens/s +3 % in both logs", FraudLike, |s| tokens(s, "Server", 12_298.4)),
    ("Server tokens/s +9.5 % in both logs", FraudLike, |s| tokens(s, "Server", 13_074.5)),
    ("Interactive tokens/s +3 % in both logs", FraudLike, |s| tokens(s, "Interactive", 12_207.8)),
    ("Server tokens/s -5 % in both logs", FraudLike, |s| tokens(s, "Server", 11_343.2)),
    ("Offline tokens/s +3 % in both logs", FraudLike, |s| {
        s.set(OFFLINE, "result_tokens_per_second", &json!(11_625.9));
        s.summary("Offline", "Tokens per second", "11625.9");
    }),
    ("Offline tokens/s +9.5 % in both logs", FraudLike, |s| {
        s.set(OFFLINE, "result_tokens_per_second", &json!(12_359.6));
        s.summary("Offline", "Tokens per second", "12359.6");
    }),
    ("Server tokens/s and its overhead +5 %", FraudLike, |s| {
        tokens(s, "Server", 12_537.2);
        s.set(SERVER, "result_token_throughput_with_loadgen_overhead", &json!(12_599.7));
    }),
    ("Server tokens/s and all its witnesses in the log +5 %", FraudLike, |s| {
        tokens(s, "Server", 12_537.2);
        s.set(SERVER, "result_token_throughput_with_loadgen_overhead", &json!(12_599.7));
        s.set(SERVER, "result_token_throughput", &json!(1.012_95e-7));
    }),
    ("Server tokens/s of the overhead below", FraudLike, |s| s.set(SERVER, "result_token_throughput_with_loadgen_overhead", &json!(11_000.0))),
    ("Server tokens/s higher in the summary by a third of a percent", FraudLike, |s| s.summary("Server", "Completed tokens per second", "11980.21")),
    ("Server samples/s +1.5 % in both logs", FraudLike, |s| {
        s.set(SERVER, "result_completed_samples_per_sec", &json!(41.2205));
        s.summary("Server", "Completed samples per second", "41.22");
    }),
    ("Offline samples/s +3 % in both logs", FraudLike, |s| {
        s.set(OFFLINE, "result_samples_per_second", &json!(39.54));
        s.summary("Offline", "Samples per second", "39.54");
    }),
    ("Server mean of the tokens by another formula", FraudLike, |s| s.set(SERVER, "result_token_throughput", &json!(9.2e-8))),
    ("Server tokens/s that are no number", FraudLike, |s| s.replace(&s.log(SERVER), "\"value\":11940.2", "\"value\":null")),
    ("Server mean of the tokens that is no number", Contradiction, |s| s.set(SERVER, "result_token_throughput", &json!("many"))),
    // Schedule.
    ("scheduled rate 20 % above target_qps in both logs", FraudLike, |s| {
        s.set(SERVER, "result_scheduled_samples_per_sec", &json!(48.6));
        s.summary("Server", "Scheduled samples per second", "48.60");
    }),
    ("scheduled rate 20 % above target_qps, and its duration", FraudLike, |s| {
        s.set(SERVER, "result_scheduled_samples_per_sec", &json!(48.6));
        s.summary("Server", "Scheduled samples per second", "48.60");
        s.set(SERVER, "generated_query_duration", &json!(505_658_000_000_u64));
    }),
    ("queries issued in 700 s", FraudLike, |s| s.set(SERVER, "generated_query_duration", &json!(700_000_000_000_u64))),
    ("another target_qps requested", FraudLike, |s| s.set(SERVER, "requested_server_target_qps", &json!(20.25))),
    ("another target_qps in the summary", FraudLike, |s| s.summary("Server", "target_qps", "20.25")),
    ("one query more counted", FraudLike, |s| s.set(SERVER, "result_query_count", &json!(24_577))),
    // Clocks and dates.
    ("power_end an hour later", FraudLike, |s| s.set(SERVER, "power_end", &json!("11-21-2026 20:45:52.984"))),
    ("power_end after a minute", FraudLike, |s| s.set(SERVER, "power_end", &json!("11-21-2026 19:36:47.856"))),
    ("power_end before power_begin", FraudLike, |s| s.set(OFFLINE, "power_end", &json!("11-21-2026 19:30:00.000"))),
    ("a minute by the clock of the log's lines", FraudLike, |s| s.replace(&s.log(SERVER), "\"time_ms\":700000.0", "\"time_ms\":60000.0")),
    ("Offline of a minute by the clock of the log's lines", FraudLike, |s| s.replace(&s.log(OFFLINE), "\"time_ms\":700000.0", "\"time_ms\":60000.0")),
    ("Offline of another longest latency in both logs", FraudLike, |s| both(s, "Offline", "result_max_latency_ns", "Max latency (ns)", 740_133_171_952)),
    ("a run before its LoadGen was built", FraudLike, |s| s.set(SERVER, "test_datetime", &json!("2026-01-05T10:00:00Z"))),
    ("LoadGen built before its commit", FraudLike, |s| s.set(SERVER, "loadgen_git_commit_date", &json!("2026-09-01T00:00:00Z"))),
    ("power of the week before", FraudLike, |s| {
        s.set(SERVER, "power_begin", &json!("11-14-2026 19:35:47.856"));
        s.set(SERVER, "power_end", &json!("11-14-2026 19:45:52.984"));
    }),
    ("power_begin that is no time", Contradiction, |s| s.set(SERVER, "power_begin", &json!("now"))),
    ("a date that is none", Contradiction, |s| s.set(SERVER, "test_datetime", &json!("yesterday"))),
    // The summary of another run, line by line.
    ("summary with another qsl seed", FraudLike, |s| s.summary("Server", "qsl_rng_seed", "2465351861681999770")),
    ("summary with another sample index seed", FraudLike, |s| s.summary("Offline", "sample_index_rng_seed", "14276810075590677510")),
    ("summary with a schedule seed off by one", FraudLike, |s| s.summary("Interactive", "schedule_rng_seed", "16159082839903944935")),
    ("summary with a shorter min_duration", FraudLike, |s| s.summary("Server", "min_duration (ms)", "60000")),
    ("summary of another system", FraudLike, |s| s.summary("Server", "SUT name", "the other box")),
    ("summary of another mode", FraudLike, |s| s.summary("Server", "Mode", "AccuracyOnly")),
    ("summary of another scenario", FraudLike, |s| s.summary("Server", "Scenario", "Offline")),
    ("summary whose early stopping was not met", FraudLike, |s| s.summary("Server", "Early stopping satisfied", "NO")),
    ("summary whose minimum duration was not met", FraudLike, |s| s.summary("Offline", "Min duration satisfied", "NO")),
    ("summary with a smaller library", FraudLike, |s| s.summary("Server", "performance_sample_count", "1024")),
    ("summary with a lower 99th percentile of TTFT", FraudLike, |s| s.summary("Interactive", "99.00 percentile first token latency (ns)", "46886009")),
    ("summary with a lower 99.9th percentile of TPOT", FraudLike, |s| s.summary("Server", "99.90 percentile time to output token (ns)", "11243160")),
    ("summary with another mean latency", FraudLike, |s| s.summary("Server", "Mean latency (ns)", "3047539264")),
    ("summary with another TTFT limit", FraudLike, |s| s.summary("Interactive", "ttft_latency (ns)", "2000000000")),
    ("summary without its tokens/s", Contradiction, |s| s.replace(&s.of(&format!("{SERVER}/mlperf_log_summary.txt")), "Completed tokens per second", "Completed tokens")),
    ("summary without its seeds", Contradiction, |s| s.replace(&s.of(&format!("{SERVER}/mlperf_log_summary.txt")), "_rng_seed", "_seed")),
    // The detail log against itself.
    ("99th percentile of the latency off by 1 ns", FraudLike, |s| s.set(SERVER, "result_99.00_percentile_latency_ns", &json!(3_344_198_051_u64))),
    ("longest latency below the 99.9th percentile in both logs", FraudLike, |s| both(s, "Server", "result_max_latency_ns", "Max latency (ns)", 3_346_000_000)),
    ("shortest latency above the median in both logs", FraudLike, |s| both(s, "Server", "result_min_latency_ns", "Min latency (ns)", 3_100_000_000)),
    ("mean latency above the longest in both logs", FraudLike, |s| both(s, "Server", "result_mean_latency_ns", "Mean latency (ns)", 3_500_000_000)),
    ("mean latency -5 % in both logs", FraudLike, |s| both(s, "Server", "result_mean_latency_ns", "Mean latency (ns)", 2_895_162_300)),
    ("longest TTFT below the 99.9th percentile in both logs", FraudLike, |s| {
        both(s, "Interactive", "result_first_token_max_latency_ns", "Max First Token latency (ns)", 50_029_874);
    }),
    ("requested seed of another round", FraudLike, |s| s.set(SERVER, "requested_qsl_rng_seed", &json!(2_465_351_861_681_999_778_u64))),
    ("requested scenario of another run", FraudLike, |s| s.set(SERVER, "requested_scenario", &json!("Offline"))),
    ("requested mode of another run", FraudLike, |s| s.set(SERVER, "requested_test_mode", &json!("AccuracyOnly"))),
    ("requested duration of a minute", FraudLike, |s| s.set(SERVER, "requested_min_duration_ms", &json!(60_000))),
    ("effective minimum of queries of another run", FraudLike, |s| s.set(SERVER, "effective_min_query_count", &json!(1))),
    // Logs cut at a line end.
    ("detail log cut before its rates", FraudLike, |s| cut(s, &format!("{SERVER}/mlperf_log_detail.txt"), "\"result_completed_samples_per_sec\"")),
    ("detail log cut before its last line", FraudLike, |s| cut(s, &format!("{SERVER}/mlperf_log_detail.txt"), "\"num_errors\"")),
    ("Offline's detail log cut before its tokens/s", FraudLike, |s| cut(s, &format!("{OFFLINE}/mlperf_log_detail.txt"), "\"result_tokens_per_second\"")),
    ("summary cut before its parameters", FraudLike, |s| cut(s, &format!("{INTERACTIVE}/mlperf_log_summary.txt"), "Test Parameters Used")),
    ("summary cut before its warnings and errors", FraudLike, |s| cut(s, &format!("{SERVER}/mlperf_log_summary.txt"), "No warnings encountered")),
    ("accuracy run's log cut before power_end", FraudLike, |s| cut(s, "Server/accuracy/mlperf_log_detail.txt", "\"power_end\"")),
    // LoadGen's own files.
    ("results.cc altered in the performance run", FraudLike, |s| s.replace(&s.log(SERVER), super::fixture::RESULTS_CC, "00e4e173d3ec8461dd439ff0d8e605b52c4becf5")),
    ("loadgen.cc altered in the accuracy run", FraudLike, |s| s.replace(&s.log("Server/accuracy"), "86bc3765857092b9d1f380604b101c771679842a", "00bc3765857092b9d1f380604b101c771679842a")),
    ("a LoadGen without results.cc in both runs", Contradiction, |s| {
        s.replace(&s.log(SERVER), "/results.cc", "/other.cc");
        s.replace(&s.log("Server/accuracy"), "/results.cc", "/other.cc");
    }),
    // Accuracy.
    ("gen_num of 1000", FraudLike, |s| s.replace(&s.of("Server/accuracy/accuracy.txt"), "'gen_num': 24576", "'gen_num': 1000")),
    ("ROUGE-1 of 444.8", FraudLike, |s| s.replace(&s.of("Offline/accuracy/accuracy.txt"), "44.4542", "444.8")),
    ("ROUGE-1 of 62", FraudLike, |s| s.replace(&s.of("Offline/accuracy/accuracy.txt"), "44.4542", "62.0")),
    ("ROUGE-L above ROUGE-1", FraudLike, |s| s.replace(&s.of("Server/accuracy/accuracy.txt"), "28.6112", "44.6112")),
    ("tokens per sample that are not the tokens by the samples", FraudLike, |s| s.replace(&s.of("Server/accuracy/accuracy.txt"), "294.0", "297.0")),
    ("accuracy answers that are no hexadecimal", Contradiction, |s| answered(s, &[(4, "05000000090000zz")])),
    ("accuracy answer of a sample that is none", FraudLike, |s| answered(s, &[(24_576, "0500000009000000")])),
    ("accuracy answers of one sample twice", FraudLike, |s| answered(s, &[(4, "0500000009000000"), (4, "0500000008000000")])),
    ("accuracy answers that are copies", FraudLike, |s| {
        let copies: Vec<(u64, &str)> = (0..16).map(|sample| (sample, "0500000009000000")).collect();
        answered(s, &copies);
    }),
    ("accuracy log cut at a line end", Contradiction, |s| {
        accuracy_log(s, "[\n{ \"seq_id\" : 0, \"qsl_idx\" : 4, \"data\" : \"0500000009000000\", \"token_count\" : 2 }\n");
    }),
    // TEST06.
    ("TEST06 with a digit that is not hexadecimal", Contradiction, |s| {
        s.replace(&s.of("Server/TEST06/accuracy/mlperf_log_accuracy.json"), "0500000009000000", "050000000900000g");
    }),
    ("TEST06 of 100 copies of one answer", FraudLike, |s| {
        let log = audit_log("Server");
        let copies: String = log.lines().map(|line| match line.find("\"data\"") {
            Some(at) => format!("{}\"data\" : \"0500000009000000\"{}\n", &line[..at], &line[at + 27..]),
            None => format!("{line}\n"),
        }).collect();
        write(s.of("Server/TEST06/accuracy/mlperf_log_accuracy.json"), copies);
    }),
    ("TEST06's log cut at a line end", Contradiction, |s| {
        let path = s.of("Offline/TEST06/accuracy/mlperf_log_accuracy.json");
        let log = fs::read_to_string(&path).unwrap();
        write(path, log.lines().take(90).collect::<Vec<_>>().join("\n") + "\n");
    }),
    // Descriptions.
    ("retraining in Closed", Contradiction, |s| s.field(&s.of("Server/measurements.json"), "retraining", Some(json!("Yes")))),
    ("retraining in Closed, as a flag in a text", Contradiction, |s| s.field(&s.of("Offline/measurements.json"), "retraining", Some(json!("true")))),
    ("weights of int4 in Server and of fp4 in Offline", Contradiction, |s| {
        for (scenario, weights) in [("Server", "int4"), ("Offline", "fp4"), ("Interactive", "int4")] {
            s.field(&s.of(&format!("{scenario}/measurements.json")), "weight_data_types", Some(json!(weights)));
        }
    }),
    ("a key twice in the description of the system", Contradiction, |s| twice(&s.system(), "\"accelerators_per_node\": 4")),
    ("a key twice in the measurements", Contradiction, |s| twice(&s.of("Server/measurements.json"), "\"weight_data_types\": \"bf16\"")),
    ("a binary user.conf", Contradiction, |s| write(s.of("Server/user.conf"), b"\xff\xfe\x00llama2-70b.Server.target_qps = 40.5\n")),
    ("a simulated system", FraudLike, |s| {
        for run in [SERVER, "Server/accuracy"] {
            s.set(run, "sut_name", &json!("SIMULATED PySUT"));
        }
        s.summary("Server", "SUT name", "SIMULATED PySUT");
    }),
    // By the rules and by what LoadGen logs; 24 of these 31 were not found when they were written.
    ("Server at twice its rate, in all numbers of both logs and in user.conf", FraudLike, |s| {
        let numbers: [(&str, &str, f64); 5] = [
            ("result_scheduled_samples_per_sec", "Scheduled samples per second", 81.627),
            ("result_completed_samples_per_sec", "Completed samples per second", 81.2226),
            ("result_completed_tokens_per_second", "Completed tokens per second", 23_880.4),
            ("effective_target_qps", "target_qps", 81.0),
            ("requested_server_target_qps", "target_qps", 81.0),
        ];
        for (key, name, value) in numbers {
            s.set(SERVER, key, &json!(value));
            s.summary("Server", name, &value.to_string());
        }
        s.set(SERVER, "result_token_throughput_with_loadgen_overhead", &json!(23_999.4));
        for key in ["generated_query_count", "result_query_count", "result_overlatency_query_count"] {
            s.set(SERVER, key, &json!(49_152));
        }
        s.replace(&s.of("Server/user.conf"), "= 40.5", "= 81");
    }),
    ("Interactive times per output token halved in both logs", FraudLike, |s| {
        let path = s.log(INTERACTIVE);
        let keys: Vec<(String, u64)> = fs::read_to_string(&path).unwrap().lines().filter_map(|line| {
            let line: serde_json::Value = serde_json::from_str(line.strip_prefix(":::MLLOG ")?).unwrap();
            let key = line["key"].as_str()?;
            let is_it = key.starts_with("result_time_per_output_token_") || key.starts_with("result_time_to_output_token_");
            is_it.then(|| Some((key.to_owned(), line["value"].as_u64()? / 2)))?
        }).collect();
        assert_eq!(keys.len(), 9);
        for (key, value) in keys {
            s.set(INTERACTIVE, &key, &json!(value));
            let rank = key.trim_start_matches("result_time_per_output_token_").trim_end_matches("_percentile_ns");
            let name = match key.rsplit('_').next().unwrap() {
                "min" => "Min Time per Output Token (ns)".to_owned(),
                "max" => "Max Time per Output Token (ns)".to_owned(),
                "mean" => "Mean Time per Output Token (ns)".to_owned(),
                _ => format!("{rank} percentile time to output token (ns)"),
            };
            s.summary("Interactive", &name, &value.to_string());
        }
    }),
    ("mean TTFT below the shortest in both logs", FraudLike, |s| both(s, "Server", "result_first_token_mean_latency_ns", "Mean First Token latency (ns)", 40_741_119)),
    ("shortest latency below the shortest TTFT in both logs", FraudLike, |s| both(s, "Server", "result_min_latency_ns", "Min latency (ns)", 27_501_616)),
    ("power of the year after", FraudLike, |s| {
        s.set(SERVER, "power_begin", &json!("11-21-2027 19:35:47.856"));
        s.set(SERVER, "power_end", &json!("11-21-2027 19:45:52.984"));
    }),
    ("summary with 17 errors", FraudLike, |s| {
        s.replace(&s.of(&format!("{SERVER}/mlperf_log_summary.txt")), "No errors encountered during test.", "17 ERRORS encountered. See detailed log.");
    }),
    ("early stopping of TTFT that failed", FraudLike, |s| s.set(SERVER, "early_stopping_ttft_result", &json!(" * Run unsuccessful."))),
    ("more queries over their latency than queries", FraudLike, |s| s.set(SERVER, "result_overlatency_query_count", &json!(30_000))),
    ("LoadGen built a month apart by two clocks", FraudLike, |s| s.set(SERVER, "loadgen_build_date_local", &json!("2026-06-24T17:39:47.375441"))),
    ("errors counted and none written", Contradiction, |s| s.set(SERVER, "num_errors", &json!(3))),
    ("a library of 1024 samples", FraudLike, |s| s.set(SERVER, "qsl_reported_performance_count", &json!(1024))),
    ("inferred token latencies", Contradiction, |s| {
        let log = fs::read_to_string(s.log(SERVER)).unwrap();
        write(s.log(SERVER), super::fixture::line("requested_infer_token_latencies", &json!(true), false) + &log);
    }),
    ("accuracy answer of another length than its count", FraudLike, |s| {
        accuracy_log(s, "[\n{ \"seq_id\" : 0, \"qsl_idx\" : 4, \"data\" : \"0500000009000000\", \"token_count\" : 200 }\n]\n");
    }),
    ("accuracy answers that are empty", FraudLike, |s| {
        let empty: Vec<(u64, &str)> = (0..16).map(|sample| (sample, "")).collect();
        answered(s, &empty);
    }),
    ("texts of 100 characters in all", FraudLike, |s| s.replace(&s.of("Server/accuracy/accuracy.txt"), "'gen_len': 29579723", "'gen_len': 100")),
    ("ROUGE-2 above ROUGE-1", FraudLike, |s| s.replace(&s.of("Server/accuracy/accuracy.txt"), "22.0419", "45.0419")),
    ("ROUGE-Lsum below ROUGE-L", FraudLike, |s| s.replace(&s.of("Server/accuracy/accuracy.txt"), "42.0341", "24.0341")),
    ("TEST06's log is Interactive's", FraudLike, |s| {
        let log = "TEST06/accuracy/mlperf_log_accuracy.json";
        fs::copy(s.of(&format!("Interactive/{log}")), s.of(&format!("Server/{log}"))).unwrap();
    }),
    ("user.conf of another model", Contradiction, |s| s.replace(&s.of("Server/user.conf"), "llama2-70b.", "mixtral-8x7b.")),
    ("user.conf that sets target_qps twice", Contradiction, |s| {
        s.replace(&s.of("Server/user.conf"), "llama2-70b.Server.target_qps = 40.5\n", "llama2-70b.Server.target_qps = 80\nllama2-70b.Server.target_qps = 40.5\n");
    }),
    ("no nodes", Style, |s| s.field(&s.system(), "number_of_nodes", Some(json!(0)))),
    ("a log of two processes", FraudLike, |s| {
        let text = fs::read_to_string(s.log(SERVER)).unwrap();
        let (first, second) = text.split_at(text.find(":::MLLOG {\"event_type\":\"POINT_IN_TIME\",\"key\":\"power_begin\"").unwrap_or(text.len() / 2));
        write(s.log(SERVER), format!("{first}{}", second.replace("\"pid\":1", "\"pid\":2")));
    }),
    ("accuracy run of half its queries", FraudLike, |s| s.set("Server/accuracy", "generated_query_count", &json!(12_288))),
    ("summary of the performance run in the accuracy run", FraudLike, |s| {
        let name = "mlperf_log_summary.txt";
        fs::copy(s.of(SERVER).join(name), s.of("Server/accuracy").join(name)).unwrap();
    }),
    ("accuracy answers of one query twice", FraudLike, |s| {
        let entry = |sample: u64| format!("{{ \"seq_id\" : 7, \"qsl_idx\" : {sample}, \"data\" : \"05000000{sample:02X}000000\", \"token_count\" : 2 }}");
        accuracy_log(s, &format!("[\n{},\n{}\n]\n", entry(4), entry(5)));
    }),
    ("TEST06 with an answer of 2,000 tokens", FraudLike, |s| {
        let long = "05000000".repeat(2000);
        s.replace(&s.of("Server/TEST06/accuracy/mlperf_log_accuracy.json"), "\"0500000009000000\", \"token_data\" : \"05000000\", \"token_count\" : 2", &format!("\"{long}\", \"token_data\" : \"05000000\", \"token_count\" : 2000"));
    }),
    ("TEST06 with a token that no vocabulary has", FraudLike, |s| {
        s.replace(&s.of("Server/TEST06/accuracy/mlperf_log_accuracy.json"), "\"0500000009000000\"", "\"05000000FFFFFF7F\"");
    }),
    // Written from the rules and the official checker alone, and tried on a published result: 23 of 82 were not found.
    ("longest latency beyond the run in both logs", FraudLike, |s| {
        both(s, "Server", "result_max_latency_ns", "Max latency (ns)", 2_000_000_000_000);
        both(s, "Server", "result_99.90_percentile_latency_ns", "99.90 percentile latency (ns)", 1_900_000_000_000);
    }),
    ("no line of TTFT's early stopping", FraudLike, |s| s.replace(&s.log(SERVER), "early_stopping_ttft_result", "early_stopping_ttft")),
    ("no line of the longest latency in both logs", Contradiction, |s| {
        s.replace(&s.log(SERVER), "\"result_max_latency_ns\"", "\"result_most_latency_ns\"");
        s.replace(&s.of(&format!("{SERVER}/mlperf_log_summary.txt")), "Max latency (ns)", "Most");
    }),
    ("results that are older than the queries", FraudLike, |s| {
        let log = fs::read_to_string(s.log(SERVER)).unwrap();
        let (first, rest) = log.split_at(log.find("\"result_validity\"").unwrap());
        write(s.log(SERVER), format!("{first}{}", rest.replace("\"time_ms\":700000.0", "\"time_ms\":400000.0")));
    }),
    ("a minimum of 270,336 queries in both logs", FraudLike, |s| {
        s.set(SERVER, "requested_min_query_count", &json!(270_336));
        both(s, "Server", "effective_min_query_count", "min_query_count", 270_336);
    }),
    ("a target duration of a minute", FraudLike, |s| s.set(SERVER, "effective_target_duration_ms", &json!(60_000))),
    ("one sample loaded as often as there are samples", FraudLike, |s| load(s, SERVER, &vec![7; 24_576])),
    ("128 samples loaded", FraudLike, |s| load(s, SERVER, &(0..128).collect::<Vec<u64>>())),
    ("a second, lower score", FraudLike, |s| {
        let path = s.of("Server/accuracy/accuracy.txt");
        let scores = fs::read_to_string(&path).unwrap();
        write(path, format!("{scores}\n{}\n", super::fixture::SCORES.replace("44.4542", "40.1")));
    }),
    ("the hash of another scenario", FraudLike, |s| name_hash(s, &sha256(b"another log"), &["Server", "Interactive"])),
    ("the hash of an empty file", FraudLike, |s| name_hash(s, &sha256(b""), &["Server"])),
    ("weights of another model", Contradiction, |s| {
        s.field(&s.of("Server/measurements.json"), "starting_weights_filename", Some(json!("meta-llama/Llama-3.1-8B-Instruct")));
    }),
    ("pruned weights in Closed", Contradiction, |s| {
        s.field(&s.of("Server/measurements.json"), "weight_transformations", Some(json!("2:4 sparsity, then quantization")));
    }),
    ("retraining in Closed, in words", Contradiction, |s| s.field(&s.of("Server/measurements.json"), "retraining", Some(json!("LoRA")))),
    // Written for a published tree of v5.1 (B200, llama2-70b-99.9, and a result with power): 38 of 85 were not found.
    ("TPOT's percentiles lowered by 10 % in both logs", FraudLike, |s| {
        for rank in ["50.00", "90.00", "95.00", "97.00", "99.00", "99.90"] {
            let key = format!("result_time_per_output_token_{rank}_percentile_ns");
            let lower = s.number(INTERACTIVE, &key) * 0.9;
            both(s, "Interactive", &key, &format!("{rank} percentile time to output token (ns)"), lower as u64);
        }
    }),
    ("mean TTFT above its 99th percentile in both logs", FraudLike, |s| {
        let higher = s.number(SERVER, "result_first_token_99.00_percentile_latency_ns") + 1e5;
        both(s, "Server", "result_first_token_mean_latency_ns", "Mean First Token latency (ns)", higher as u64);
    }),
    ("no query that took longer than 0 ns", FraudLike, |s| s.set(SERVER, "result_overlatency_query_count", &json!(0))),
    ("LoadGen built a month later by the local clock", FraudLike, |s| s.set(SERVER, "loadgen_build_date_local", &json!("2026-08-24T17:39:47.375441"))),
    ("answers in the log of a performance run", FraudLike, |s| {
        write(s.of(SERVER).join("mlperf_log_accuracy.json"), super::fixture::answers("Server/accuracy"));
    }),
    ("lines without a process", FraudLike, |s| s.replace(&s.log(SERVER), "\"pid\":1,", "")),
    ("Interactive is Server's run with other limits", FraudLike, |s| {
        let limits = [("requested_server_ttft_latency", "ttft_latency (ns)", 450_000_000_u64), ("requested_server_tpot_latency", "tpot_latency (ns)", 40_000_000)];
        for name in ["mlperf_log_detail.txt", "mlperf_log_summary.txt"] {
            fs::copy(s.of(SERVER).join(name), s.of(INTERACTIVE).join(name)).unwrap();
        }
        for (key, name, limit) in limits {
            both(s, "Interactive", key, name, limit);
        }
        s.replace(&s.of("Interactive/user.conf"), "40.2", "40.5");
    }),
    ("a second run beside run_1", Style, |s| write(s.of("Server/performance/run_2/mlperf_log_summary.txt"), summary("server_performance"))),
    ("an accuracy run with the test_datetime of a year before", FraudLike, |s| s.set("Server/accuracy", "test_datetime", &json!("2025-11-21T10:00:00Z"))),
    ("an accuracy run's summary that is cut", FraudLike, |s| write(s.of("Server/accuracy/mlperf_log_summary.txt"), "\n")),
    ("an accuracy run of a smaller library", FraudLike, |s| s.set("Server/accuracy", "qsl_reported_total_count", &json!(12_288))),
    ("a verification of TEST06 without its last line", Contradiction, |s| s.replace(&s.of("Server/TEST06/verify_accuracy.txt"), "TEST06 verification complete", "")),
    ("retraining N/A", Contradiction, |s| s.field(&s.of("Server/measurements.json"), "retraining", Some(json!("N/A")))),
    ("user.conf with fewer queries than the run", Contradiction, |s| {
        let path = s.of("Server/user.conf");
        let text = fs::read_to_string(&path).unwrap() + "\n*.Server.min_query_count = 10\n";
        write(path, text);
    }),
    ("a table of scores whose total was changed", FraudLike, |s| {
        let path = s.of("Server/accuracy/accuracy.txt");
        let text = fs::read_to_string(&path).unwrap() + "aime25 197 120 8 24.62 82.08%\n";
        write(path, text);
    }),
    ("TEST06 of two answers to one query", FraudLike, |s| audited(s, |n| (n / 2, n))),
    ("TEST06 of one sample", FraudLike, |s| audited(s, |n| (n, 7))),
    ("TEST06 of a sample that the data set does not have", FraudLike, |s| audited(s, |n| (n, if n == 5 { 24_576 } else { n }))),
    ("TEST06 passed, and failed", Contradiction, |s| {
        let path = s.of("Server/TEST06/verify_accuracy.txt");
        write(&path, format!("{}TEST FAIL\n", super::fixture::VERIFIED));
    }),
    ("texts of a character a token", FraudLike, |s| s.replace(&s.of("Server/accuracy/accuracy.txt"), "'gen_len': 29579723", "'gen_len': 7225344")),
    ("distilled weights in Closed", Contradiction, |s| {
        s.field(&s.of("Server/measurements.json"), "weight_transformations", Some(json!("distillation to 13 layers")));
    }),
    ("two nodes under the name of one", Contradiction, |s| {
        s.field(&s.system(), "system_name", Some(json!("BOX_H200-SXM-141GBx8")));
        s.field(&s.system(), "accelerator_memory_capacity", Some(json!("141 GB")));
        s.field(&s.system(), "number_of_nodes", Some(json!(2)));
    }),
    ("an empty calibration.md", Style, |s| write(s.at("documentation/calibration.md"), "")),
    ("source of empty files", Style, |s| {
        for entry in walkdir::WalkDir::new(s.at("src")).into_iter().flatten().filter(|entry| entry.file_type().is_file()) {
            write(entry.path(), "");
        }
    }),
    ("a warning about audit.config", Style, |s| {
        let warning = super::fixture::line("warning_generic_message", &json!("Found Audit Config file (audit.config)."), false);
        let log = fs::read_to_string(s.log(SERVER)).unwrap();
        write(s.log(SERVER), warning.replace("\"is_warning\":false", "\"is_warning\":true") + &log);
    }),
    ("power of every second sample", Contradiction, |s| s.sampled("run_1", |text| {
        text.lines().step_by(2).fold(String::new(), |kept, line| kept + line + "\n")
    })),
    ("ranging in accuracy mode", Contradiction, |s| {
        s.with_power("Server");
        s.set("Server/performance/ranging", "effective_test_mode", &json!("AccuracyOnly"));
        s.record_power("Server");
    }),
    ("ranging with the seeds of no round", Contradiction, |s| {
        s.with_power("Server");
        s.set("Server/performance/ranging", "effective_qsl_rng_seed", &json!(0));
        s.record_power("Server");
    }),
    // Style.
    ("the scores of Offline in Server", FraudLike, |s| {
        let [server, offline] = ["Server", "Offline"].map(|scenario| s.of(&format!("{scenario}/accuracy/accuracy.txt")));
        let [own, copied] = [&server, &offline].map(|path| fs::read_to_string(path).unwrap());
        let hash = |text: &str| text.rsplit_once("hash=").unwrap().1.trim().to_owned();
        write(&server, copied.replace(&hash(&copied), &hash(&own)));
    }),
    ("an accuracy run with the power_begin of a year before", FraudLike, |s| s.set("Server/accuracy", "power_begin", &json!("11-21-2025 19:35:47.856"))),
    ("accelerators of another name", Contradiction, |s| {
        s.field(&s.system(), "system_name", Some(json!("Box (8x H200-SXM-141GB, TensorRT)")));
        s.field(&s.system(), "accelerator_model_name", Some(json!("NVIDIA B200-SXM")));
    }),
    ("accelerators with other memory", Contradiction, |s| {
        s.field(&s.system(), "system_name", Some(json!("BOX_H200-SXM-141GBx8")));
        s.field(&s.system(), "accelerator_memory_capacity", Some(json!("1410 GB")));
    }),
    ("more accelerators than in the name", Contradiction, |s| {
        s.field(&s.system(), "system_name", Some(json!("BOX_H200-SXM-141GBx4")));
        s.field(&s.system(), "accelerator_memory_capacity", Some(json!("141 GB")));
    }),
    ("a name with a space", Style, |s| write(s.at("documentation/cali bration.md"), "x\n")),
    ("cooling to be done", Style, |s| s.field(&s.system(), "cooling", Some(json!("TODO")))),
    ("no README", Style, |s| fs::remove_file(s.of("Server/README.md")).unwrap()),
    ("a file beside closed/", Style, |s| write(s.0.join("results.csv"), "x\n")),
];

/// Mutations that no check finds today, each with the grade that it would have.
#[rustfmt::skip]
const HOLES: &[Mutation] = &[
    ("a backup beside the logs", Style, |s| write(s.of(&format!("{SERVER}/mlperf_log_summary.txt.bak")), "x\n")),
];

/// The gravest grade among the findings of each mutation in each round.
#[test]
fn every_mutation_has_the_grade_that_a_reviewer_would_give_it() {
    let mut wrong = String::new();
    for round in ROUNDS.map(|round| Round::named(round).unwrap()) {
        let folder = tempfile::tempdir().unwrap();
        let examined = mlperf::examine(&good_of(&round, folder.path()).0, &round);
        assert_eq!(examined.findings, [], "{}", round.name);
        for (name, grade, spoil) in MUTATIONS.iter().chain(BLIND) {
            let folder = tempfile::tempdir().unwrap();
            let submission = good_of(&round, folder.path());
            spoil(&submission);
            let examined = mlperf::examine(&submission.0, &round);
            let gravest = examined.findings.iter().min_by_key(|finding| finding.grade);
            if gravest.map(|finding| finding.grade) != Some(*grade) {
                let found = gravest.map_or("nothing".to_owned(), |finding| {
                    format!("{}, {}: {}", finding.grade, finding.check, finding.what)
                });
                let _ = writeln!(wrong, "{} {name}: {grade}, and it is {found}", round.name);
            }
        }
    }
    assert_eq!(wrong, "");
}

/// A hole that is closed belongs into the table.
#[test]
fn the_holes_are_those_that_are_listed() {
    let round = Round::named("v6.1").unwrap();
    for (name, grade, spoil) in HOLES {
        let folder = tempfile::tempdir().unwrap();
        let submission = good_of(&round, folder.path());
        spoil(&submission);
        assert_eq!(mlperf::examine(&submission.0, &round).findings, [], "{name}: {grade}");
    }
}

/// The table is what the issue asks for: mutations × rounds, most of them of the gravest kind.
#[test]
fn the_table_of_mutations_has_all_grades() {
    let count = |grade| MUTATIONS.iter().filter(|(_, of, _)| *of == grade).count();
    assert!(MUTATIONS.len() >= 60 && MUTATIONS.len() * ROUNDS.len() >= 250, "{}", MUTATIONS.len());
    assert!(count(FraudLike) > count(Contradiction) && count(Contradiction) > count(Style) && count(Style) > 0);
}

#[test]
fn numbers_with_a_witness_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let examined = mlperf::examine(&good(folder.path()).0, &Round::named("v6.1").unwrap());
    for result in &examined.results {
        let witnesses = result.witnesses;
        assert!(witnesses.checked >= 40 && witnesses.unreadable == 0, "{} {witnesses:?}", result.scenario);
    }
}

/// One log of another round does not decide for all.
#[test]
fn the_round_is_that_of_most_logs() {
    let folder = tempfile::tempdir().unwrap();
    let submission = good(folder.path());
    submission.set("Interactive/accuracy", "effective_qsl_rng_seed", &json!(2_465_351_861_681_999_779_u64));
    let rounds = mlperf::rounds_of(folder.path());
    let rounds: Vec<(&str, usize)> = rounds.iter().map(|(round, logs)| (round.name.as_str(), *logs)).collect();
    assert_eq!(rounds, [("v6.1", 5), ("v6.0", 1)]);
}

#[test]
fn results_of_other_benchmarks_alone_are_nothing_to_check() {
    let folder = tempfile::tempdir().unwrap();
    let submission = good(folder.path());
    fs::rename(submission.of(""), submission.of("../whisper")).unwrap();
    let examined = mlperf::examine(&submission.0, &Round::named("v6.1").unwrap());
    assert_eq!((examined.findings.as_slice(), examined.has_nothing_to_check()), (&[][..], true));
}
