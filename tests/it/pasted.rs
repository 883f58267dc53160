//! Every command line of the pages whose work Regatta does, pasted as it stands there: what is printed for it, whether that
//! plans, and what becomes of it on the simulator.
//!
//! The lines are `tests/golden/pasted/*.sh`; the table is `tests/golden/pasted/table.md`. After a change
//! `UPDATE=1 cargo test --test it pasted` writes it anew; read the difference.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::simulator::ground::{Files, Running};
use crate::world::{Ended, World};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/pasted").join(name)
}

/// Of a model that the pages do not have.
fn tokenizer() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/mlperf/tokenizer.json")
}

/// The command lines of a page: continued lines joined, comments and blank lines left out.
pub fn lines(file: &str) -> Vec<String> {
    let text = fs::read_to_string(golden(file)).expect("the page").replace("\\\n", " ");
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let mut all: Vec<String> = Vec::new();
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        // A page that repeats itself is tried once.
        if !all.contains(&line) {
            all.push(line);
        }
    }
    all
}

/// A manifest or a command was printed, without a part of the line's load.
fn is_partly(ended: &Ended) -> bool {
    ended.code == 2 && !ended.stdout.is_empty() && ended.stderr.contains("sends a different load than the line")
}

/// What became of a line.
struct Row {
    line: String,
    /// The first line that is no comment, or the sentence.
    printed: String,
    planned: String,
    ran: String,
}

/// A server of all five models as the pages' benchmarks need it, which stream.
static STREAMING: LazyLock<(Files, Running)> = LazyLock::new(|| server(true));
/// With `decoupled_mode:false`, as the pages' single requests need it.
static WHOLE: LazyLock<(Files, Running)> = LazyLock::new(|| server(false));

fn server(streaming: bool) -> (Files, Running) {
    let files = Files::built(
        streaming,
        &json!({"triton_max_batch_size": 64}),
        &json!({"gather_context_logits": true, "gather_generation_logits": true}),
    );
    let mut options = files.options();
    // A benchmark shows that its words are taken and answered; a single request is also stopped at the page's moment.
    options.speed = if streaming { 4.0 } else { 1.0 };
    options.http = Some("127.0.0.1:0".parse().expect("an address"));
    options.metrics = Some("127.0.0.1:0".parse().expect("an address"));
    let server = Running::start(options);
    (files, server)
}

/// Where a server listens.
pub struct Place {
    pub grpc: String,
    pub http: String,
    pub metrics: String,
}

impl Place {
    fn of(server: &Running) -> Self {
        Self {
            grpc: server.address.to_string(),
            http: server.http.expect("an HTTP port").to_string(),
            metrics: server.metrics.expect("a metrics port").to_string(),
        }
    }

    /// With these addresses and a model that is there in place of the page's.
    fn put_into(&self, text: &str) -> String {
        // Other servers have their metrics on the port of their requests.
        text.replace("triton metrics localhost:8000", "triton metrics localhost:8002")
            .replace("localhost:8001", &self.grpc)
            .replace("localhost:8000", &self.http)
            .replace("127.0.0.1:8000", &self.http)
            .replace("localhost:8002", &self.metrics)
            // Ports of SGLang, Ollama and llama.cpp.
            .replace("127.0.0.1:30000", &self.http)
            .replace("localhost:30000", &self.http)
            .replace("localhost:11434", &self.http)
            .replace("localhost:8080", &self.http)
            .replace("spark:8888", &self.http)
            .replace("model: gpt2", "model: tensorrt_llm_bls")
            .replace("model: inception_graphdef", "model: tensorrt_llm_bls")
            .replace("model: resnet50_libtorch", "model: tensorrt_llm_bls")
    }
}

/// Three records of a data set in the format that a manifest names, at the path that it names; false where the page's format is
/// another one, or the path a value that the page does not have.
fn write_data(world: &World, data: &serde_yaml::Value) -> bool {
    const RECORDS: usize = 3;
    let text = |n: usize| format!("What is machine learning, number {n}?");
    let record = |kind: &str, n: usize| match kind {
        "sharegpt" => {
            json!({"conversations": [{"from": "human", "value": text(n)}, {"from": "gpt", "value": "It is learning by machines from examples."}]})
        }
        "mooncake" => json!({"timestamp": n * 10, "input_length": 32, "output_length": 8, "hash_ids": [n]}),
        // As the page has them.
        "conversations" => json!({"session_id": n, "input_length": 50, "output_length": 10}),
        _ => json!({"prompt": text(n), "timestamp": n * 10}),
    };
    let found = ["sharegpt", "jsonl", "mooncake"].into_iter().find_map(|kind| Some((kind, data.get(kind)?.as_str()?)));
    // perf_analyzer and the backend's tools have files of their own.
    let is_readable =
        |kind: &str, path: &str| kind != "jsonl" || Path::new(path).extension().is_some_and(|suffix| suffix == "jsonl");
    let is_here = |path: &str| !path.contains("{{") && !path.starts_with('/');
    let Some((kind, path)) = found.filter(|(kind, path)| is_readable(kind, path) && is_here(path)) else {
        return false;
    };
    let kind = if path == "inputs.jsonl" { "conversations" } else { kind };
    let records: Vec<_> = (0..RECORDS).map(|n| record(kind, n)).collect();
    let lines: Vec<String> = records.iter().map(ToString::to_string).collect();
    world.file(path, &if kind == "sharegpt" { json!(records).to_string() } else { lines.join("\n") });
    true
}

/// As many requests as show that they are answered, of a model that the simulator has; whether their data is at hand.
fn shortened(world: &World, manifest: &mut serde_yaml::Value) -> bool {
    let mut has_data = true;
    for (_, stage) in manifest["stages"].as_mapping_mut().expect("stages") {
        let bench = &mut stage["bench"];
        let is_trace = bench["scenario"] == "trace";
        if let Some(data) = bench.get_mut("data") {
            has_data &= write_data(world, data);
            // There are only three.
            if !is_trace && let Some(data) = data.as_mapping_mut() {
                data.insert("repeat".into(), true.into());
            }
        }
        if is_trace {
            bench.as_mapping_mut().expect("a benchmark").remove("stop");
        } else {
            bench["stop"] = serde_yaml::from_str("requests: 4").expect("YAML");
        }
        bench["warmup"] = 0.into();
        let is_openai = bench["protocol"].as_str().is_some_and(|protocol| protocol.starts_with("openai"));
        if is_openai {
            bench["model"] = "tensorrt_llm_bls".into();
        }
        // Nor for the history of many turns.
        if bench["sessions"].is_mapping() {
            bench["sessions"]["turns"] = serde_yaml::from_str("fixed: 2").expect("YAML");
        }
        // To find the load at which a server is full takes thousands of users; `it sweep` does it.
        if !bench["sweep"]["auto"].is_null() {
            bench["sweep"] = serde_yaml::from_str("rate: [2, 4]").expect("YAML");
        }
        // The simulator's model holds no more.
        if !bench["sweep"]["input_tokens"].is_null() {
            bench["sweep"]["input_tokens"] = serde_yaml::from_str("[64, 128]").expect("YAML");
        }
        // So many show a long prompt and a long answer.
        if bench["input_tokens"]["uniform"]["max"].as_u64().is_some_and(|tokens| tokens > 512) {
            bench["input_tokens"] = serde_yaml::from_str("uniform: { min: 64, max: 512 }").expect("YAML");
        }
        // The simulator has no adapters.
        if bench["request"]["adapters"].is_mapping() {
            bench["request"]["adapters"] = serde_yaml::from_str("tensorrt_llm_bls: 1").expect("YAML");
        }
        for key in ["input_tokens", "output_tokens"] {
            if ["normal", "lognormal"].iter().any(|law| bench[key][*law]["max"].as_u64().is_some_and(|most| most > 160))
            {
                bench[key] = serde_yaml::from_str("normal: { mean: 64, stddev: 8, min: 32, max: 96 }").expect("YAML");
            }
        }
        for (key, tokens) in [("prefixes", "tokens"), ("input_tokens", "fixed"), ("output_tokens", "fixed")] {
            const MOST: u64 = 128;
            if bench[key].get(tokens).and_then(serde_yaml::Value::as_u64).is_some_and(|tokens| tokens > MOST) {
                bench[key][tokens] = MOST.into();
            }
        }
    }
    has_data
}

fn sentence(ended: &Ended) -> String {
    let text = ended.stdout.lines().chain(ended.stderr.lines()).find(|line| !line.starts_with("# From"));
    let text = text.unwrap_or_default().trim_start_matches("# ");
    if has_no_meaning(ended) { text.trim_start_matches("error: ").to_owned() } else { text.to_owned() }
}

/// Only a sentence was printed: what to do instead.
fn has_no_meaning(ended: &Ended) -> bool {
    const SENTENCES: [&str; 2] = ["cannot translate", "no power meter is read"];
    ended.code == 2 && ended.stdout.is_empty() && SENTENCES.iter().any(|begin| ended.stderr.contains(begin))
}

pub fn is_manifest(printed: &str) -> bool {
    printed.lines().any(|line| line == "regatta: 1")
}

/// Names of the manifest's parameters, each with a value for the plan.
fn parameters(printed: &str) -> Vec<String> {
    let manifest: serde_yaml::Value = serde_yaml::from_str(printed).expect("a manifest");
    let params = manifest.get("params").and_then(|params| params.as_mapping().cloned()).unwrap_or_default();
    let is_number = |name: &str| params[name].get("int").or(params[name].get("number")).is_some();
    let tokenizer = tokenizer().display().to_string();
    let value = |name: &str| match name {
        name if is_number(name) => "3",
        name if name.contains("url") => "http://x:8000",
        "volume" | "pwd" => "/x",
        "tokenizer_path" => &tokenizer,
        _ => ".",
    };
    params.keys().filter_map(|name| name.as_str()).map(|name| format!("{name}={}", value(name))).collect()
}

fn outcome(ended: &Ended) -> String {
    if ended.code == 0 { "yes".to_owned() } else { format!("exit {}: {}", ended.code, sentence(ended)) }
}

/// Whether what was printed is understood as it stands; nothing is started.
fn plan(world: &World, printed: &str) -> String {
    if is_manifest(printed) {
        world.file("manifests/pasted.yaml", printed);
        let params = parameters(printed);
        let words: Vec<&str> = ["plan", "pasted"].into_iter().chain(params.iter().map(String::as_str)).collect();
        return outcome(&world.regatta(&words));
    }
    let mut planned = 0;
    for line in printed.lines().filter(|line| !line.starts_with('#')) {
        let words = shlex::split(line).expect("a line of a shell");
        let begin = words.iter().position(|word| word == "regatta").expect("a command of Regatta");
        let mut command: Vec<String> = words[begin + 1..].iter().take_while(|word| *word != "--").cloned().collect();
        match command[0].as_str() {
            "run" | "serve" => "plan".clone_into(&mut command[0]),
            "bench" => command.push("--dry-run".to_owned()),
            // It is one request, or it fills files: there is no plan of it.
            _ => continue,
        }
        planned += 1;
        let mut process = world.command(&command.iter().map(String::as_str).collect::<Vec<_>>());
        for variable in &words[..begin] {
            let (name, value) = variable.split_once('=').expect("NAME=VALUE");
            process.env(name, value);
        }
        let output = process.output().expect("it starts");
        let ended = Ended {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        };
        if ended.code != 0 {
            return outcome(&ended);
        }
    }
    if planned > 0 { "yes".to_owned() } else { "one command".to_owned() }
}

/// Runs what the simulator can answer; why not, otherwise.
fn run_on_the_simulator(world: &World, printed: &str) -> String {
    let (_, server) = if is_manifest(printed) { &*STREAMING } else { &*WHOLE };
    run(world, printed, &Place::of(server))
}

/// Runs what a server there can answer; why not, otherwise.
pub fn run(world: &World, printed: &str, place: &Place) -> String {
    let text = place.put_into(printed);
    if is_manifest(printed) {
        let mut manifest: serde_yaml::Value = serde_yaml::from_str(&text).expect("a manifest");
        let stages = manifest["stages"].as_mapping().expect("stages");
        let is_bench = |name: &str| name == "bench" || name.starts_with("run_harness");
        if stages.keys().any(|name| !name.as_str().is_some_and(is_bench)) {
            let is_other = ["command", "vllm"]
                .iter()
                .any(|server| stages.values().any(|stage| stage["serve"].get(server).is_some()));
            return if is_other {
                "not here: it starts another engine's server".to_owned()
            } else {
                "not here: it starts programs of TensorRT-LLM; their arguments are held by `it launch`".to_owned()
            };
        }
        // Of a model whose tokenizer is at hand.
        let tokenizer = format!("tokenizer_path={}", tokenizer().display());
        let params = parameters(printed);
        let is_given = params.iter().all(|param| param.starts_with("tokenizer_path="));
        if !is_given || !shortened(world, &mut manifest) {
            return "not here: it names files that the page does not have".to_owned();
        }
        world.file("manifests/pasted.yaml", &serde_yaml::to_string(&manifest).expect("YAML"));
        let given = params.iter().map(|_| tokenizer.as_str());
        let ended = world.regatta(&["run", "pasted", "-q"].into_iter().chain(given).collect::<Vec<_>>());
        // Four requests are no measurement: what counts is that they were sent and answered. These simulators run faster than
        // the clock, which makes their results INVALID(server).
        let shown = format!("{}{}", ended.stdout, ended.stderr);
        let is_of_speed = shown.contains("its time does not follow the clock") && !shown.contains("requests failed");
        let is_answered = [0, 3, 4].contains(&ended.code) || ended.code == 5 && is_of_speed;
        return if is_answered { "4 requests".to_owned() } else { outcome(&ended) };
    }
    let mut ran = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words = shlex::split(line).expect("a line of a shell");
        match words.get(1).map(String::as_str) {
            Some("triton") if line.contains("sampling_param_") => {
                return "not here: the simulator has no model of the LLM API's layout".to_owned();
            }
            Some("triton") if words.get(4).is_some_and(|model| model == "mymodel") => {
                return "not here: it is the page's own model".to_owned();
            }
            Some("triton") if words[2] == "load" => {
                return "not here: the simulator has all of its models always".to_owned();
            }
            Some("triton") => {}
            Some("repository") => {
                return "not here: the page's folder is not there; `it repository` fills one".to_owned();
            }
            _ => return "planned only: `it pipelines` and `it gpt2` run these manifests".to_owned(),
        }
        let words: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        let ended = world.regatta(&words);
        if ended.code != 0 {
            return outcome(&ended);
        }
        ran += 1;
    }
    format!("{ran} of them")
}

fn row(line: &str) -> Row {
    let mut world = World::new();
    // Keys are read from there.
    world.env("API_KEY", "a-key");
    let ended = world.regatta(&["import", "--", line]);
    // It must be quoted as one argument, also where it has no blank in it.
    let command = ended.stdout.lines().find(|line| !line.starts_with('#')).unwrap_or_default();
    let printed = if is_manifest(&ended.stdout) {
        let manifest: serde_yaml::Value = serde_yaml::from_str(&ended.stdout).expect("a manifest");
        let stages = manifest["stages"].as_mapping().expect("stages");
        let names: Vec<&str> = stages.keys().filter_map(|name| name.as_str()).collect();
        format!("manifest: {}", names.join(", "))
    } else if command.is_empty() {
        sentence(&ended)
    } else {
        command.to_owned()
    };
    let nothing = || "–".to_owned();
    let (planned, ran) = match (ended.code, command.is_empty()) {
        (0, false) => (plan(&world, &ended.stdout), run_on_the_simulator(&world, &ended.stdout)),
        (2, false) if is_partly(&ended) => {
            let planned = plan(&world, &ended.stdout);
            assert_eq!(planned, "yes", "{line}");
            let lost = ended.stderr.lines().next().and_then(|error| error.split("than the line, ").nth(1));
            (format!("partly: {}", lost.unwrap_or_default()), nothing())
        }
        _ if has_no_meaning(&ended) => (nothing(), nothing()),
        // Which benchmark and which scenario cannot be guessed.
        (2, _) if printed.contains("placeholder") => (nothing(), nothing()),
        _ => (outcome(&ended), nothing()),
    };
    Row { line: line.to_owned(), printed, planned, ran }
}

fn cell(text: &str) -> String {
    const LONGEST: usize = 180;
    let text = text.replace('|', "\\|");
    if text.chars().count() > LONGEST { format!("{}…", text.chars().take(LONGEST).collect::<String>()) } else { text }
}

/// Tries each line once. Most of the time passes in waiting for answers, so several are tried at once.
fn tried(lines: BTreeSet<String>) -> BTreeMap<String, Row> {
    let left = Mutex::new(lines);
    let rows = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while let Some(line) = { left.lock().expect("no thread failed").pop_first() } {
                    let row = row(&line);
                    rows.lock().expect("no thread failed").insert(line, row);
                }
            });
        }
    });
    rows.into_inner().expect("no thread failed")
}

const PAGES: [&str; 10] = [
    "harness-v4.1.sh",
    "harness-v5.sh",
    "backend.sh",
    "llmb.sh",
    "genai-perf.sh",
    "today.sh",
    "repositories.sh",
    "others.sh",
    "found.sh",
    "tried.sh",
];

/// How many lines there are, and what became of them.
#[derive(Default)]
struct Totals {
    lines: usize,
    /// A manifest or a command of Regatta that plans.
    planned: usize,
    /// One request, or files that are filled: there is no plan of it.
    single: usize,
    /// It plans, without a part of the line's load, which is named.
    partly: usize,
    /// One sentence: why not, and what to do instead.
    sentences: usize,
    /// Run against the simulator.
    ran: usize,
}

impl Totals {
    fn count(&mut self, row: &Row) {
        self.lines += 1;
        match row.planned.as_str() {
            "yes" => self.planned += 1,
            "one command" => self.single += 1,
            "–" => self.sentences += 1,
            planned if planned.starts_with("partly: ") => self.partly += 1,
            _ => {}
        }
        let is_elsewhere = row.ran == "–" || row.ran.starts_with("not here") || row.ran.starts_with("planned only");
        self.ran += usize::from(!is_elsewhere && !row.ran.starts_with("exit"));
    }
}

impl std::fmt::Display for Totals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { lines, planned, single, partly, sentences, ran } = self;
        let dropped = lines - planned - single - partly - sentences;
        writeln!(
            f,
            "| lines | planned | one command | partly | one sentence | none of these | run on the simulator |"
        )?;
        writeln!(f, "| --- | --- | --- | --- | --- | --- | --- |")?;
        writeln!(f, "| {lines} | {planned} | {single} | {partly} | {sentences} | {dropped} | {ran} |")
    }
}

#[test]
fn every_line_of_the_pages_plans_or_says_in_one_sentence_why_not() {
    let mut table = String::from(
        "# Lines of other tools' pages, pasted\n\nWritten by `UPDATE=1 cargo test --test it pasted`. A dash: there is nothing to plan or run.\n",
    );
    let mut faults = Vec::new();
    let mut totals = Totals::default();
    let mut all = String::new();
    let rows = tried(PAGES.into_iter().flat_map(lines).collect());
    for file in PAGES {
        let mut table = String::new();
        table += "\n## ";
        table += file;
        table += "\n\n| line | printed | planned | run |\n| --- | --- | --- | --- |\n";
        for line in lines(file) {
            let row = &rows[&line];
            let is_known = ["yes", "one command", "–"].contains(&row.planned.as_str());
            if !(is_known || row.planned.starts_with("partly: "))
                || row.ran.starts_with("exit")
                || row.printed.is_empty()
            {
                faults.push(format!("{}\n  {}\n  planned: {}\n  run: {}", row.line, row.printed, row.planned, row.ran));
            }
            totals.count(row);
            let cells = [&row.line, &row.printed, &row.planned, &row.ran].map(|text| cell(text));
            writeln!(table, "| `{}` | {} | {} | {} |", cells[0], cells[1], cells[2], cells[3]).expect("a text");
        }
        all += &table;
    }
    write!(table, "\n{totals}{all}").expect("a text");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(golden("table.md"), &table).expect("written");
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
    assert_eq!(fs::read_to_string(golden("table.md")).unwrap_or_default(), table);
}

/// What `tensorrt_llm_triton.sub` starts in each rank.
const RANKS: &str = r#"#!/usr/bin/env bash
TRITONSERVER="/opt/tritonserver/bin/tritonserver"
MODEL_REPO="/triton_model_repo"
${TRITONSERVER} --model-repository=${MODEL_REPO} --disable-auto-complete-config --backend-config=python,shm-region-prefix-name=prefix${SLURM_PROCID}_
"#;

#[test]
fn a_page_is_one_script_and_none_of_its_lines_is_lost() {
    for file in ["harness-v4.1.sh", "backend.sh", "llmb.sh", "genai-perf.sh", "tensorrt_llm_triton.sub"] {
        let world = World::new();
        let ended = world.regatta(&["import", &golden(file).display().to_string()]);
        if file == "tensorrt_llm_triton.sub" {
            // The job's script only calls another one, which the page has elsewhere.
            assert!(has_no_meaning(&ended), "{file}: {}\n{}", ended.stdout, ended.stderr);
            let path = golden(file).display().to_string();
            let both = world.file("tensorrt_llm_triton.sh", RANKS).good(&["import", &path, "tensorrt_llm_triton.sh"]);
            both.shows("world_size: 8").shows("--container-image=triton_trt_llm").shows("gpu_clocks:");
            assert_eq!(plan(&world, &both.stdout), "yes", "{}", both.stdout);
            continue;
        }
        assert_eq!(ended.code, 0, "{file}: {}\n{}", ended.stdout, ended.stderr);
        assert_eq!(plan(&world, &ended.stdout), "yes", "{file}: {}", ended.stdout);
    }
}
