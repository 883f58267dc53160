//! A submission that is right, from logs of real runs; and ways to break it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use regatta::mlperf::SubmissionLayout;
use regatta::rules::Round;
use regatta::spec::TestMode;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

pub(crate) const SYSTEM: &str = "box_h200x8";
pub(crate) const BENCHMARK: &str = "llama2-70b-99.9";
pub(crate) const SCENARIOS: [&str; 3] = ["Offline", "Server", "Interactive"];
pub(crate) const SCORES: &str = "{'rouge1': 44.4542, 'rouge2': 22.0419, 'rougeL': 28.6112, 'rougeLsum': 42.0341, 'gen_len': 29579723, 'gen_num': 24576, 'gen_tok_len': 7225344, 'tokens_per_sample': 294.0}";
pub(crate) const VERIFIED: &str = "First token check pass: True\nEOS check pass: True\nSample length check pass: True\nTEST06 verification complete\n";

fn logs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/mlperf/logs")
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

pub(crate) fn sha1(bytes: &[u8]) -> String {
    format!("{:x}", sha1::Sha1::digest(bytes))
}

pub(crate) fn write(path: impl AsRef<Path>, text: impl AsRef<[u8]>) {
    let path = path.as_ref();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// One line of a detail log.
pub(crate) fn line(key: &str, value: &Value, is_error: bool) -> String {
    let metadata =
        json!({"is_error": is_error, "is_warning": false, "file": "results.cc", "line_no": 1, "pid": 1, "tid": 1});
    let is_last = ["power_", "result_", "early_stopping_", "num_errors"].iter().any(|start| key.starts_with(start));
    let time_ms = if is_last { 700_000.0 } else { 0.5 };
    let line = json!({"key": key, "value": value, "time_ms": time_ms, "namespace": "mlperf::logging", "event_type": "POINT_IN_TIME", "metadata": metadata});
    format!(":::MLLOG {line}\n")
}

/// The detail log of `offline_performance` and its like.
pub(crate) fn detail(name: &str) -> String {
    let keys = fs::read_to_string(logs().join(format!("{name}.keys"))).unwrap();
    let lines: String = keys
        .lines()
        .map(|text| {
            let (key, value) = text.split_once(' ').unwrap();
            line(key, &serde_json::from_str(value).unwrap(), false)
        })
        .collect();
    // Of the files only two, as `logs/server-valid` has them.
    let files = json!({"/loadgen.cc": "86bc3765857092b9d1f380604b101c771679842a", "/results.cc": RESULTS_CC});
    line("loadgen_file_sha1", &files, false) + &lines
}

/// The SHA-1 of results.cc of LoadGen 6.0.17.
pub(crate) const RESULTS_CC: &str = "fde4e173d3ec8461dd439ff0d8e605b52c4becf5";

pub(crate) fn summary(name: &str) -> String {
    fs::read_to_string(logs().join(format!("{name}.summary"))).unwrap()
}

pub(crate) fn user_conf(scenario: &str) -> String {
    let (model, scenario, qps) = match scenario {
        "Offline" => ("llama2-70b", "Offline", 37.2),
        "Server" => ("llama2-70b", "Server", 40.5),
        _ => ("llama2-70b-interactive", "Server", 40.2),
    };
    format!("{model}.{scenario}.target_qps = {qps}\n{model}.{scenario}.min_duration = 600000\n")
}

/// The logs of one run in a folder.
pub(crate) fn run(folder: &Path, scenario: &str, mode: &str) {
    let name = format!("{}_{mode}", scenario.to_lowercase());
    write(folder.join("mlperf_log_detail.txt"), detail(&name));
    write(folder.join("mlperf_log_summary.txt"), summary(&name));
}

/// A run with the settings of another: its logs.
fn copy_logs(from: &Path, to: &Path) {
    for name in ["mlperf_log_detail.txt", "mlperf_log_summary.txt"] {
        write(to.join(name), fs::read(from.join(name)).unwrap());
    }
}

/// The accuracy log of one run, `Server/accuracy`. Each run answers another sample first.
pub(crate) fn answers(run: &str) -> String {
    let sample = first_sample(run);
    format!(
        "[\n{{ \"seq_id\" : 0, \"qsl_idx\" : {sample}, \"data\" : \"0500000009000000\", \"token_count\" : 2 }}\n]\n"
    )
}

fn first_sample(run: &str) -> u32 {
    run.bytes().map(u32::from).sum()
}

pub(crate) fn system_json() -> Value {
    let mut fields = json!({
        "division": "closed", "submitter": "Example", "status": "available", "system_name": SYSTEM, "system_type": "datacenter",
        "number_of_nodes": 1, "accelerators_per_node": 8, "host_processors_per_node": 2,
    });
    for field in regatta::rules::FIELDS.iter() {
        fields.as_object_mut().unwrap().entry(field.name).or_insert_with(|| field.example.into());
    }
    fields
}

pub(crate) fn measurements() -> Value {
    json!({"input_data_types": "int32", "retraining": "No", "starting_weights_filename": "Llama-2-70b-chat-hf", "weight_data_types": "fp8", "weight_transformations": "quantization"})
}

/// What the evaluator of gpt-oss-120b prints of its scores.
const EVALUATED: &str = "Total samples evaluated: 4395\n\nScore:   = 240/8 + 750/5 + 2660/3\n         = 1066.67\nMax:     = 240/8 + 990/5 + 3165/3\n\nFINAL SCORE: 83.13% (1066.67/1283.00)\n";

/// A submission folder.
#[derive(Clone, Debug)]
pub(crate) struct Submission(pub PathBuf);

/// A closed submission to v6.1 with nothing wrong.
pub(crate) fn good(root: &Path) -> Submission {
    kept("", root, fresh)
}

/// Hundreds of mutations begin with a good submission, and it takes longer to make than to judge: each is made once, and written
/// as often as somebody needs it.
fn kept(name: &str, root: &Path, make: impl FnOnce(&Path) -> Submission) -> Submission {
    static MADE: Mutex<BTreeMap<String, NamedFiles>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap();
    let files = made.entry(name.to_owned()).or_insert_with(|| {
        let folder = tempfile::tempdir().unwrap();
        files_below(&make(folder.path()).0)
    });
    for (name, bytes) in &*files {
        write(root.join(name), bytes);
    }
    Submission(root.to_owned())
}

/// Files of a folder, named from there.
pub(crate) type NamedFiles = Vec<(PathBuf, Vec<u8>)>;

pub(crate) fn files_below(folder: &Path) -> NamedFiles {
    let items = walkdir::WalkDir::new(folder).into_iter().flatten().filter(|item| item.file_type().is_file());
    items.map(|item| (item.path().strip_prefix(folder).unwrap().to_owned(), fs::read(item.path()).unwrap())).collect()
}

fn fresh(root: &Path) -> Submission {
    let submitter = root.join("closed/Example");
    write(submitter.join("systems").join(format!("{SYSTEM}.json")), format!("{:#}", system_json()));
    write(submitter.join("src/README.md"), "how it was made\n");
    write(submitter.join("documentation/calibration.md"), "how it was calibrated\n");
    for scenario in SCENARIOS {
        let folder = submitter.join("results").join(SYSTEM).join(BENCHMARK).join(scenario);
        run(&folder.join("performance/run_1"), scenario, "performance");
        run(&folder.join("accuracy"), scenario, "accuracy");
        let answers = answers(&format!("{scenario}/accuracy"));
        write(folder.join("accuracy/mlperf_log_accuracy.json"), &answers);
        // What evaluators print before the scores differs from run to run.
        let scores = format!("{scenario}\n{SCORES}\n\nhash={}\n", sha256(answers.as_bytes()));
        write(folder.join("accuracy/accuracy.txt"), scores);
        write(folder.join("TEST06/verify_accuracy.txt"), VERIFIED);
        write(folder.join("TEST06/accuracy/mlperf_log_accuracy.json"), audit_log(scenario));
        write(folder.join("measurements.json"), format!("{:#}", measurements()));
        write(folder.join("user.conf"), user_conf(scenario));
        write(folder.join("README.md"), "regatta run llama2-70b package=true\n");
    }
    Submission(root.to_owned())
}

/// A detail log with the duration that its schedule has by its own seed. Other logs are left as they are.
pub(crate) fn rescheduled(log: &str) -> String {
    let value = |key: &str| -> Option<Value> {
        let line = log.lines().find(|line| line.contains(&format!("\"key\":\"{key}\"")))?;
        let mut line: Value = serde_json::from_str(line.strip_prefix(":::MLLOG ")?).ok()?;
        Some(line["value"].take())
    };
    let number = |key: &str| value(key)?.as_u64();
    let replaced = || {
        let (seed, queries) = (number("effective_schedule_rng_seed")?, number("generated_query_count")?);
        let rate = value("effective_target_qps")?.as_f64().filter(|_| queries > 1)?;
        let nanoseconds = (regatta::rules::last_arrival(seed, rate, queries) * 1e9).round() as u64;
        let old = log.lines().find(|line| line.contains("\"key\":\"generated_query_duration\""))?;
        Some(log.replace(&format!("{old}\n"), &line("generated_query_duration", &json!(nanoseconds), false)))
    };
    replaced().unwrap_or_else(|| log.to_owned())
}

/// The same for another round: its seeds, its LoadGen, its layout.
pub(crate) fn good_of(round: &Round, root: &Path) -> Submission {
    kept(&round.name, root, |folder| adapted(round, folder))
}

fn adapted(round: &Round, root: &Path) -> Submission {
    let made = fresh(root);
    let (pin, seeds) = (&round.loadgen, &round.loadgen.seeds);
    for scenario in SCENARIOS {
        for run in ["performance/run_1", "accuracy"] {
            let run = format!("{scenario}/{run}");
            let named = [("qsl", seeds.qsl), ("sample_index", seeds.sample_index), ("schedule", seeds.schedule)];
            for (name, seed) in named {
                for kind in ["requested", "effective"] {
                    made.set(&run, &format!("{kind}_{name}_rng_seed"), &json!(seed));
                }
                if run.ends_with("run_1") {
                    made.summary(scenario, &format!("{name}_rng_seed"), &seed.to_string());
                }
            }
            made.set(&run, "loadgen_version", &json!(format!("{} @ 0000000000", pin.version)));
            let log = made.log(&run);
            write(&log, rescheduled(&fs::read_to_string(&log).unwrap()));
        }
    }
    if SubmissionLayout::for_round(&round.name) == SubmissionLayout::Single {
        return made;
    }
    fs::rename(made.at("src"), made.at("code")).unwrap();
    write(made.at("code").join(BENCHMARK).join("README.md"), "how it was made\n");
    let parts = |top: &str, scenario: &str| made.at(top).join(SYSTEM).join(BENCHMARK).join(scenario);
    for scenario in SCENARIOS {
        let names = [
            ("user.conf", "user.conf".to_owned()),
            ("README.md", "README.md".to_owned()),
            ("measurements.json", format!("{SYSTEM}_{scenario}.json")),
        ];
        fs::create_dir_all(parts("measurements", scenario)).unwrap();
        fs::create_dir_all(parts("compliance", scenario)).unwrap();
        for (name, to) in names {
            fs::rename(parts("results", scenario).join(name), parts("measurements", scenario).join(to)).unwrap();
        }
        fs::rename(parts("results", scenario).join("TEST06"), parts("compliance", scenario).join("TEST06")).unwrap();
    }
    made
}

impl Submission {
    /// Below the submitter.
    pub(crate) fn at(&self, below: &str) -> PathBuf {
        let submitter = self.0.join("closed/Example");
        match below.strip_prefix("src") {
            Some(rest) if submitter.join("code").is_dir() => submitter.join(format!("code{rest}")),
            _ => submitter.join(below),
        }
    }

    /// Below the benchmark, where the layout has it.
    pub(crate) fn of(&self, below: &str) -> PathBuf {
        let folder = |top: &str| self.at(top).join(SYSTEM).join(BENCHMARK);
        if self.at("measurements").is_dir()
            && let Some((scenario, name)) = below.split_once('/')
        {
            match name {
                "user.conf" | "README.md" => return folder("measurements").join(below),
                "measurements.json" => {
                    return folder("measurements").join(scenario).join(format!("{SYSTEM}_{scenario}.json"));
                }
                test if test.starts_with("TEST06") => return folder("compliance").join(below),
                _ => {}
            }
        }
        folder("results").join(below)
    }

    pub(crate) fn log(&self, run: &str) -> PathBuf {
        self.of(run).join("mlperf_log_detail.txt")
    }

    /// Gives a key of a log another value; both must be there.
    pub(crate) fn set(&self, run: &str, key: &str, value: &Value) {
        let path = self.log(run);
        let text = fs::read_to_string(&path).unwrap();
        let mut found = false;
        let changed: String = text
            .lines()
            .map(|old| {
                if old.contains(&format!("\"key\":\"{key}\"")) {
                    found = true;
                    line(key, value, false)
                } else {
                    format!("{old}\n")
                }
            })
            .collect();
        assert!(found, "{key} is not in {}", path.display());
        write(path, changed);
    }

    pub(crate) fn number(&self, run: &str, key: &str) -> f64 {
        let text = fs::read_to_string(self.log(run)).unwrap();
        let line = text.lines().find(|line| line.contains(&format!("\"key\":\"{key}\""))).unwrap();
        let line: Value = serde_json::from_str(line.strip_prefix(":::MLLOG ").unwrap()).unwrap();
        line["value"].as_f64().unwrap()
    }

    /// Gives a line of a performance run's summary another value; it must be there.
    pub(crate) fn summary(&self, scenario: &str, name: &str, value: &str) {
        let path = self.of(scenario).join("performance/run_1/mlperf_log_summary.txt");
        let text = fs::read_to_string(&path).unwrap();
        let is_it = |line: &&str| line.split(':').next().is_some_and(|key| key.trim() == name);
        assert!(text.lines().any(|line| is_it(&line)), "{name} is not in {}", path.display());
        let changed =
            text.lines().map(|line| if is_it(&line) { format!("{name} : {value}\n") } else { format!("{line}\n") });
        write(&path, changed.collect::<String>());
    }

    /// Changes a text; what is replaced must be there.
    pub(crate) fn replace(&self, path: &Path, from: &str, to: &str) {
        assert!(path.starts_with(&self.0));
        let text = fs::read_to_string(path).unwrap();
        assert!(text.contains(from), "{from:?} is not in {}", path.display());
        write(path, text.replace(from, to));
    }

    /// Changes a field of a JSON; None takes it out.
    pub(crate) fn field(&self, path: &Path, name: &str, value: Option<Value>) {
        assert!(path.starts_with(&self.0));
        let mut fields: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        match value {
            Some(value) => fields[name] = value,
            None => drop(fields.as_object_mut().unwrap().remove(name).unwrap()),
        }
        write(path, format!("{fields:#}"));
    }

    pub(crate) fn system(&self) -> PathBuf {
        self.at("systems").join(format!("{SYSTEM}.json"))
    }

    /// LoadGen is on another machine.
    pub(crate) fn over_a_network(&self) {
        self.field(&self.system(), "is_network", Some(json!("true")));
        for scenario in SCENARIOS {
            for run in ["performance/run_1", "accuracy"] {
                self.set(&format!("{scenario}/{run}"), "sut_name", &json!("Network SUT"));
            }
        }
    }

    /// What the description of such a system has in addition.
    pub(crate) fn describe_network(&self) {
        for name in [
            "network_type",
            "network_media",
            "network_rate",
            "nic_loadgen",
            "number_nic_loadgen",
            "net_software_stack_loadgen",
            "network_protocol",
            "number_connections",
            "nic_sut",
            "number_nic_sut",
            "net_software_stack_sut",
            "network_topology",
        ] {
            self.field(&self.system(), name, Some(json!("")));
        }
    }

    /// Moves it to another division, after all other changes: [`Self::at`] is in Closed.
    pub(crate) fn submit_to(&self, division: &str) {
        self.field(&self.system(), "division", Some(json!(division)));
        fs::rename(self.0.join("closed"), self.0.join(division)).unwrap();
    }
}

/// When a run began and ended.
fn power_times(log: &Path) -> (jiff::civil::DateTime, jiff::civil::DateTime) {
    let text = fs::read_to_string(log).unwrap();
    let time = |key: &str| {
        let line = text.lines().find(|line| line.contains(&format!("\"key\":\"{key}\""))).unwrap();
        let value: Value = serde_json::from_str(line.strip_prefix(":::MLLOG ").unwrap()).unwrap();
        jiff::civil::DateTime::strptime("%m-%d-%Y %H:%M:%S%.f", value["value"].as_str().unwrap()).unwrap()
    };
    (time("power_begin"), time("power_end"))
}

/// A power meter's log of a run: a sample each second while it lasted, of so many watts.
pub(crate) fn samples(log: &Path, watts: f64) -> String {
    let (begin, end) = power_times(log);
    let mut lines = String::new();
    for second in 0.. {
        let at = begin + jiff::Span::new().milliseconds(500 + 1000 * second);
        if at >= end {
            break;
        }
        // 1 W to and fro.
        let watts = if second % 2 == 0 { watts + 1.0 } else { watts - 1.0 };
        let (volts, factor) = (230.0, 0.98);
        let _ = writeln!(
            lines,
            "Time,{},Watts,{watts:.3},Volts,{volts:.3},Amps,{:.4},PF,{factor:.4},Mark,2026_testing",
            at.strftime("%m-%d-%Y %H:%M:%S.%3f"),
            watts / volts / factor
        );
    }
    lines
}

impl Submission {
    /// Makes it one of gpt-oss-120b, with its own scores, samples and audit tests.
    pub(crate) fn with_reasoning_model(&self) {
        for scenario in SCENARIOS {
            let weights = Some(json!("gpt-oss-120b"));
            self.field(&self.of(scenario).join("measurements.json"), "starting_weights_filename", weights);
        }
        let round = Round::named(if self.is_of_v6_1() { "v6.1" } else { "v6.0" }).unwrap();
        for scenario in SCENARIOS {
            for run in ["performance/run_1", "accuracy"] {
                let run = format!("{scenario}/{run}");
                let samples = if run.ends_with("accuracy") { 4395 } else { 6396 };
                if run.ends_with("run_1") {
                    self.summary(scenario, "performance_sample_count", "6396");
                    self.summary(scenario, "accuracy_sample_count", "4395");
                }
                let issued =
                    if scenario == "Offline" { "generated_samples_per_query" } else { "generated_query_count" };
                if run.ends_with("accuracy") {
                    self.set(&run, issued, &json!(samples));
                }
                self.set(&run, "effective_performance_sample_count", &json!(6396));
                self.set(&run, "qsl_reported_performance_count", &json!(6396));
                self.set(&run, "qsl_reported_total_count", &json!(samples));
                self.set(&run, "effective_accuracy_sample_count", &json!(4395));
                if let Some((ttft, tpot)) = match scenario {
                    "Server" => Some((3_000_000_000_u64, 80_000_000_u64)),
                    "Interactive" => Some((2_000_000_000, 15_000_000)),
                    _ => None,
                } {
                    if run.ends_with("run_1") {
                        self.summary(scenario, "ttft_latency (ns)", &ttft.to_string());
                        self.summary(scenario, "tpot_latency (ns)", &tpot.to_string());
                    }
                    self.set(&run, "requested_server_ttft_latency", &json!(ttft));
                    self.set(&run, "requested_server_tpot_latency", &json!(tpot));
                }
            }
            let text = format!(
                "{scenario}\n{EVALUATED}\nPrinting for submission_checker:\n\n'exact_match': 83.130\n'tokens_per_sample': 5000.0\n\nhash={}\n",
                sha256(answers(&format!("{scenario}/accuracy")).as_bytes())
            );
            write(self.of(&format!("{scenario}/accuracy/accuracy.txt")), text);
            for name in ["user.conf", "README.md"] {
                self.replace(&self.of(&format!("{scenario}/{name}")), "llama2-70b", "gpt-oss-120b");
            }
            fs::remove_dir_all(self.of(&format!("{scenario}/TEST06"))).unwrap();
            for (test, file, text) in [
                (
                    "TEST07",
                    "verify_accuracy.txt",
                    "'exact_match': 62.150\nAccuracy score: 62.15\nAccuracy threshold: 60.698\nAccuracy check pass: True\nTEST PASS\n",
                ),
                (
                    "TEST09",
                    "verify_output_len.txt",
                    "Total samples: 6396\nMean output tokens: 1278.20\nMin output tokens: 602\nMax output tokens: 2914\n\n\
                     Min threshold: 1150.38\nMax threshold: 1406.02\n\nTEST PASS\n",
                ),
            ] {
                let folder = format!("{scenario}/{test}");
                let audit = &round.benchmarks["gpt-oss-120b"].audits
                    [if test == "TEST07" { &TestMode::Test07 } else { &TestMode::Test09 }];
                write(self.of(&format!("{folder}/{file}")), format!("{scenario}\n{text}"));
                let answers = answers(&folder);
                write(self.of(&format!("{folder}/accuracy/mlperf_log_accuracy.json")), &answers);
                write(
                    self.of(&format!("{folder}/accuracy/accuracy.txt")),
                    format!("hash={}\n", sha256(answers.as_bytes())),
                );
                let [from, to] = [scenario, &folder].map(|above| self.of(&format!("{above}/performance/run_1")));
                copy_logs(&from, &to);
                let log = format!("{folder}/performance/run_1");
                let [tokens, samples] = match scenario {
                    "Offline" => ["result_tokens_per_second", "result_samples_per_second"],
                    _ => ["result_completed_tokens_per_second", "result_completed_samples_per_sec"],
                };
                self.set(&log, tokens, &json!(self.number(&log, samples) * 1278.2));
                self.set(&log, "effective_accuracy_log_sampling_target", &json!(audit.sampling_target));
                self.set(&log, "requested_min_query_count", &json!(audit.samples));
            }
        }
        fs::rename(self.of(""), self.of("").with_file_name("gpt-oss-120b")).unwrap();
    }

    /// Makes it one of llama3.1-8b-edge on an edge system, in Offline and SingleStream, without its audit tests.
    pub(crate) fn with_edge_model(&self) {
        self.field(&self.system(), "system_type", Some(json!("edge")));
        fs::remove_dir_all(self.of("Interactive")).unwrap();
        fs::rename(self.of("Server"), self.of("SingleStream")).unwrap();
        let qps = [("Offline", "target_qps = 37.2"), ("SingleStream", "target_latency = 6")];
        for (scenario, setting) in qps {
            fs::remove_dir_all(self.of(&format!("{scenario}/TEST06"))).unwrap();
            let conf =
                format!("llama3_1-8b-edge.{scenario}.{setting}\nllama3_1-8b-edge.{scenario}.min_duration = 600000\n");
            write(self.of(&format!("{scenario}/user.conf")), conf);
            write(self.of(&format!("{scenario}/README.md")), "regatta run llama3.1-8b-edge package=true\n");
            let scores = "{'rouge1': 38.7, 'rouge2': 16.0, 'rougeL': 24.4, 'rougeLsum': 35.8, 'gen_len': 3000000, 'gen_num': 5000}";
            let log = fs::read(self.of(&format!("{scenario}/accuracy/mlperf_log_accuracy.json"))).unwrap();
            let text = format!("{scores}\n\nhash={}\n", sha256(&log));
            write(self.of(&format!("{scenario}/accuracy/accuracy.txt")), text);
        }
        for (run, mode) in [("performance/run_1", "PerformanceOnly"), ("accuracy", "AccuracyOnly")] {
            self.single_stream(&format!("SingleStream/{run}"), mode);
            let run = format!("Offline/{run}");
            for key in
                ["qsl_reported_total_count", "effective_performance_sample_count", "effective_accuracy_sample_count"]
            {
                self.set(&run, key, &json!(5000));
            }
        }
        // An answer has 128 tokens at most.
        self.set("Offline/performance/run_1", "result_tokens_per_second", &json!(3840.0));
        self.summary("Offline", "Tokens per second", "3840.0");
        fs::rename(self.of(""), self.of("").with_file_name("llama3.1-8b-edge")).unwrap();
    }

    /// Puts the logs of a run in SingleStream there, as long and of as many samples as llama3.1-8b-edge has.
    fn single_stream(&self, run: &str, mode: &str) {
        let from = logs().join("single-stream");
        let text = fs::read_to_string(from.join("mlperf_log_detail.txt")).unwrap();
        let lines = text.lines().map(|old| {
            let old: Value = serde_json::from_str(old.strip_prefix(":::MLLOG ").unwrap()).unwrap();
            line(old["key"].as_str().unwrap(), &old["value"], false)
        });
        write(self.log(run), lines.collect::<String>());
        write(self.of(run).join("mlperf_log_summary.txt"), fs::read(from.join("mlperf_log_summary.txt")).unwrap());
        self.set(run, "effective_test_mode", &json!(mode));
        self.set(run, "effective_min_duration_ms", &json!(600_000));
        self.set(run, "generated_query_duration", &json!(602_000_000_000_u64));
        for key in ["qsl_reported_total_count", "effective_performance_sample_count", "effective_accuracy_sample_count"]
        {
            self.set(run, key, &json!(5000));
        }
    }

    fn is_of_v6_1(&self) -> bool {
        let seed = Round::named("v6.1").unwrap().loadgen.seeds.qsl.to_string();
        fs::read_to_string(self.log("Offline/performance/run_1")).unwrap().contains(&seed)
    }

    /// Below the folder of gpt-oss-120b.
    pub(crate) fn of_reasoning(&self, below: &str) -> PathBuf {
        self.at("results").join(SYSTEM).join("gpt-oss-120b").join(below)
    }

    /// Adds a measurement of power to a result.
    pub(crate) fn with_power(&self, scenario: &str) {
        measure_power(&self.of(scenario).join("performance"));
        if self.at("measurements").is_dir() {
            for name in ["analyzer_table.md", "power_settings.md"] {
                write(self.of(&format!("{scenario}/user.conf")).with_file_name(name), "described\n");
            }
        }
    }

    /// Writes the sessions' record of the files as they are.
    pub(crate) fn record_power(&self, scenario: &str) {
        record_power(&self.of(scenario).join("performance"));
    }

    /// Changes one of the sessions of a power measurement.
    pub(crate) fn session(&self, name: &str, change: impl Fn(&mut Value)) {
        self.with_power("Server");
        let path = self.of("Server/performance/power").join(name);
        let mut session: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        change(&mut session);
        write(path, format!("{session:#}"));
    }

    /// Changes the samples of a run, as if the meter had measured that.
    pub(crate) fn sampled(&self, run: &str, change: impl Fn(String) -> String) {
        self.with_power("Server");
        let path = self.of("Server/performance").join(run).join("spl.txt");
        let text = fs::read_to_string(&path).unwrap();
        let changed = change(text.clone());
        assert_ne!(changed, text);
        write(path, changed);
        self.record_power("Server");
    }
}

/// Adds the measurement of power to a folder with the logs of its run in `run_1`.
pub(crate) fn measure_power(above: &Path) {
    copy_logs(&above.join("run_1"), &above.join("ranging"));
    for name in ["ranging", "run_1"] {
        let log = above.join(name).join("mlperf_log_detail.txt");
        write(above.join(name).join("spl.txt"), samples(&log, 4000.0));
    }
    for name in ["client.log", "server.log", "ptd_logs.txt"] {
        write(above.join("power").join(name), "measured\n");
    }
    record_power(above);
}

fn record_power(above: &Path) {
    let mut results = serde_json::Map::new();
    for item in walkdir::WalkDir::new(above).into_iter().flatten().filter(|item| item.file_type().is_file()) {
        let name = item.path().strip_prefix(above).unwrap().display().to_string();
        if !matches!(name.as_str(), "power/client.json" | "power/server.json") {
            results.insert(name, json!(sha1(&fs::read(item.path()).unwrap())));
        }
    }
    let phases = |run: &str| {
        let (begin, end) = power_times(&above.join(run).join("mlperf_log_detail.txt"));
        let at = |time: jiff::civil::DateTime, seconds: f64| {
            let time = time.to_zoned(jiff::tz::TimeZone::UTC).unwrap().timestamp();
            json!([time.as_duration().as_secs_f64() + seconds, 0.0])
        };
        json!([at(begin, -20.0), at(begin, -10.0), at(end, 10.0), at(end, 20.0)])
    };
    let session = json!({
        "version": "1.0", "timezone": 0, "modules": {}, "sources": {}, "messages": [], "session_name": "2026-11-21_19-35-00",
        "uuid": { "client": "56a4d881-4d7c-4a84-a7b8-c40515ad068d", "server": "0b65afba-71db-488c-adae-d14390fa5647" },
        "results": results, "phases": { "ranging": phases("ranging"), "testing": phases("run_1") },
        "ptd_messages": ptd_messages(above),
    });
    for name in ["client.json", "server.json"] {
        write(above.join("power").join(name), format!("{session:#}"));
    }
}

/// The meter's replies after ranging and after testing.
fn ptd_messages(above: &Path) -> Value {
    let replies = ["ranging", "run_1"].map(|run| {
        let text = fs::read_to_string(above.join(run).join("spl.txt")).unwrap_or_default();
        let watts: Vec<f64> = text.lines().filter_map(|line| line.split(',').nth(3)?.parse().ok()).collect();
        let watts: Vec<f64> = watts.into_iter().filter(|watts| *watts > 0.0).collect();
        format!("Watts,{:.6}", watts.iter().sum::<f64>() / watts.len().max(1) as f64)
    });
    let replies = replies.into_iter().chain(["Uncertainty,0.006".to_owned()]);
    replies.map(|reply| json!({ "cmd": "", "reply": reply })).collect()
}

/// Outputs of stages, as `bench`, `score` and `verify` leave them.
pub(crate) struct Runs(pub PathBuf);

impl Runs {
    /// Of all scenarios; `change` may spoil what a run says of itself.
    pub(crate) fn new(root: &Path, change: impl Fn(&mut Value)) -> Self {
        for scenario in SCENARIOS {
            for (name, mode) in [("performance", "performance"), ("accuracy", "accuracy"), ("test06", "performance")] {
                let folder = root.join(scenario.to_lowercase()).join(name);
                run(&folder, scenario, mode);
                write(folder.join("user.conf"), user_conf(scenario));
                let samples = match name {
                    "performance" => "[]\n".to_owned(),
                    "test06" => audit_log(scenario),
                    _ => long_log(scenario),
                };
                write(folder.join("mlperf_log_accuracy.json"), samples);
                let mut test = json!({
                    "round": "v6.1", "benchmark": BENCHMARK, "scenario": scenario.to_lowercase(), "mode": name, "division": "closed",
                    "rehearsal": false, "loadgen_version": "6.0.17", "target_qps": 40.0, "sut_name": "PySUT", "result": "VALID", "errors": 0,
                    "seeds": {"qsl": 2_085_463_073_848_966_840_u64, "sample_index": 2_747_215_439_041_700_203_u64, "schedule": 16_159_082_839_903_944_936_u64},
                    "dataset": {"benchmark": BENCHMARK, "synthetic": false, "samples": 24576, "sha256": "00"},
                });
                change(&mut test);
                write(folder.join("test.json"), format!("{test:#}"));
            }
            let folder = root.join(scenario.to_lowercase());
            let hash = sha256(long_log(scenario).as_bytes());
            write(folder.join("score/accuracy.txt"), format!("{SCORES}\n\nhash={hash}\n"));
            write(folder.join("verify/verify_accuracy.txt"), VERIFIED);
        }
        Self(root.to_owned())
    }

    pub(crate) fn of(&self, scenario: &str, name: &str) -> PathBuf {
        self.0.join(scenario.to_lowercase()).join(name)
    }
}

/// The log of a TEST06 run: answers with their first tokens.
pub(crate) fn audit_log(scenario: &str) -> String {
    let first = first_sample(scenario);
    let answers: Vec<String> = (0..100)
        .map(|n| {
            let sample = first + n;
            let last = 9 + n;
            format!("{{ \"seq_id\" : {n}, \"qsl_idx\" : {sample}, \"data\" : \"05000000{last:02X}000000\", \"token_data\" : \"05000000\", \"token_count\" : 2 }}")
        })
        .collect();
    format!("[\n{}\n]\n", answers.join(",\n"))
}

/// An accuracy log that has to be truncated.
pub(crate) fn long_log(scenario: &str) -> String {
    let first = first_sample(scenario);
    let samples: Vec<String> = (0..400)
        .map(|n| {
            let sample = first + n;
            let last = 9 + n;
            format!(
                "{{ \"seq_id\" : {n}, \"qsl_idx\" : {sample}, \"data\" : \"05000000{:02X}{:02X}0000\", \"token_count\" : 2 }}",
                last % 256,
                last / 256
            )
        })
        .collect();
    format!("[\n{}\n]\n", samples.join(",\n"))
}
