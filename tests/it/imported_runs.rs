//! Runs of other tools are told apart by what their files state. A table of formats × differences between runs: no run is lost, none
//! is averaged with one that is unlike it, and each figure is found again, whatever the order of the files.

use std::fs;
use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;
use regatta::harness::SweepReport;
use regatta::interop::{ImportSource, ImportedSweep, LocatedRun, import_runs, import_sweep};
use serde_json::{Value, json};

use crate::world::World;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Load {
    Rate(f64),
    Users(u32),
    AllAtOnce,
}

/// A run as a tool may have measured it.
#[derive(Clone, Copy, Debug)]
struct Run {
    load: Load,
    model: &'static str,
    server: &'static str,
    scenario: &'static str,
    input: u32,
    output: u32,
    /// What tells its figures apart: requests per second.
    achieved: f64,
}

const BASE: Run =
    Run { load: Load::Rate(4.0), model: "m", server: "a", scenario: "Server", input: 128, output: 64, achieved: 3.5 };

/// A format: the text of one run, or `None` where the format does not state what the run is; and how runs come into one file.
struct Format {
    name: &'static str,
    file: &'static str,
    write: fn(&Run) -> Option<String>,
    joined: Option<fn(&[String]) -> String>,
}

fn lines(texts: &[String]) -> String {
    texts.join("\n")
}

/// The entries of a list in each file, in one file.
fn list_of(texts: &[String], key: &str) -> String {
    let mut files: Vec<Value> = texts.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
    let entries: Vec<Value> = files.iter().map(|file| file[key][0].clone()).collect();
    files[0][key] = json!(entries);
    files[0].to_string()
}

const REQUESTS: u32 = 200;

#[expect(clippy::unnecessary_wraps, reason = "of the table's writers some have no form for a run")]
fn vllm(run: &Run) -> Option<String> {
    let (rate, users) = match run.load {
        Load::Rate(rate) => (json!(rate), Value::Null),
        Load::Users(users) => (json!("inf"), json!(users)),
        Load::AllAtOnce => (json!("inf"), Value::Null),
    };
    let object = json!({ "date": format!("2026-{}", run.achieved), "backend": run.server, "label": null, "model_id": run.model,
        "num_prompts": REQUESTS, "request_rate": rate, "burstiness": 1.0, "max_concurrency": users, "duration": 60.0,
        "completed": REQUESTS, "failed": 0, "total_input_tokens": REQUESTS * run.input,
        "total_output_tokens": REQUESTS * run.output, "request_throughput": run.achieved,
        "output_throughput": run.achieved * 64.0, "mean_ttft_ms": 50.0, "median_ttft_ms": 49.0, "mean_tpot_ms": 10.0,
        "mean_e2el_ms": 500.0 });
    Some(object.to_string())
}

#[expect(clippy::unnecessary_wraps, reason = "of the table's writers some have no form for a run")]
fn sglang(run: &Run) -> Option<String> {
    let (rate, users) = match run.load {
        Load::Rate(rate) => (rate.to_string(), "null".to_owned()),
        Load::Users(users) => ("Infinity".to_owned(), users.to_string()),
        Load::AllAtOnce => ("Infinity".to_owned(), "null".to_owned()),
    };
    let backend = format!("vllm-{}", run.server);
    let Run { model, input, output, achieved, .. } = run;
    Some(format!(
        "{{\"backend\": \"{backend}\", \"dataset_name\": \"random\", \"request_rate\": {rate}, \"max_concurrency\": {users}, \
         \"random_input_len\": {input}, \"random_output_len\": {output}, \"server_info\": {{\"model_path\": \"{model}\"}}, \
         \"completed\": {REQUESTS}, \"duration\": 9.0, \"total_input_tokens\": {}, \"total_output_tokens\": {}, \
         \"request_throughput\": {achieved}, \"output_throughput\": 9.0, \"mean_ttft_ms\": 50.0, \"mean_tpot_ms\": 10.0, \
         \"mean_e2e_latency_ms\": 250.0, \"accept_length\": NaN}}",
        REQUESTS * input,
        REQUESTS * output,
    ))
}

fn printed(run: &Run, is_sglang: bool) -> String {
    let (rate, users) = match run.load {
        Load::Rate(rate) => (rate.to_string(), "None".to_owned()),
        Load::Users(users) => ("inf".to_owned(), users.to_string()),
        Load::AllAtOnce => ("inf".to_owned(), "None".to_owned()),
    };
    let e2e = if is_sglang { "E2E Latency" } else { "E2EL" };
    format!(
        "[INFO] Namespace(backend='{}', model='{}', port=8000)\nTraffic request rate: {rate}\nMaximum request concurrency: {users}\n\
         ============ Serving Benchmark Result ============\nSuccessful requests:   {REQUESTS}\n\
         Total input tokens:    {}\nTotal generated tokens:  {}\nRequest throughput (req/s):  {}\n\
         Output token throughput (tok/s):  99.0\nMean {e2e} (ms):   250.0\nMean TTFT (ms):    50.0\n{}\n",
        run.server,
        run.model,
        REQUESTS * run.input,
        REQUESTS * run.output,
        run.achieved,
        "=".repeat(50)
    )
}

fn genai(run: &Run, mut config: Value) -> String {
    for (key, value) in [("request_throughput", run.achieved), ("request_count", f64::from(REQUESTS))] {
        config[key] = json!({ "unit": "", "avg": value });
    }
    config["request_latency"] = json!({ "unit": "ms", "avg": 500.0, "p50": 490.0 });
    config.to_string()
}

fn genai_perf(run: &Run) -> Option<String> {
    let stimulus = match run.load {
        Load::Rate(rate) => json!({ "request_rate": rate }),
        Load::Users(users) => json!({ "concurrency": users }),
        Load::AllAtOnce => return None,
    };
    let config = json!({ "input_config": { "model_names": [run.model], "endpoint": { "url": run.server }, "perf_analyzer": { "stimulus": stimulus },
        "input": { "synthetic_tokens": { "mean": run.input }, "output_tokens": { "mean": run.output } } } });
    Some(genai(run, config))
}

fn aiperf(run: &Run) -> Option<String> {
    let phase = match run.load {
        Load::Rate(rate) => json!({ "name": "profiling", "type": "poisson", "rate": rate }),
        Load::Users(users) => json!({ "name": "profiling", "type": "concurrency", "concurrency": users }),
        Load::AllAtOnce => return None,
    };
    let config = json!({ "schema_version": "1.0", "aiperf_version": "0.13.0", "input_config": {
        "models": { "items": [{ "name": run.model }] }, "endpoint": { "urls": [run.server], "type": "chat" },
        "datasets": [{ "prompts": { "isl": { "mean": run.input }, "osl": { "mean": run.output } } }],
        "phases": [{ "name": "warmup", "concurrency": 1 }, phase] } });
    Some(genai(run, config))
}

#[expect(clippy::unnecessary_wraps, reason = "of the table's writers some have no form for a run")]
fn guidellm(run: &Run) -> Option<String> {
    let strategy = match run.load {
        Load::Rate(rate) => json!({ "type_": "constant", "rate": rate }),
        Load::Users(users) => json!({ "type_": "concurrent", "streams": users }),
        Load::AllAtOnce => json!({ "type_": "throughput", "max_concurrency": null }),
    };
    let mean = |value: f64| json!({ "successful": { "count": REQUESTS, "mean": value, "total_sum": value } });
    let sum = |tokens: u32| json!({ "successful": { "total_sum": REQUESTS * tokens } });
    let file = json!({ "metadata": { "guidellm_version": "0.8.1" },
        "config": { "spec": { "backend": { "model": run.model, "target": run.server } } },
        "benchmarks": [{ "config": { "strategy": strategy }, "duration": 60.0, "metrics": {
            "request_totals": { "successful": REQUESTS, "errored": 0 }, "requests_per_second": mean(run.achieved),
            "output_tokens_per_second": mean(9.0), "prompt_token_count": sum(run.input),
            "output_token_count": sum(run.output), "request_latency": mean(0.5),
            "time_to_first_token_ms": mean(50.0), "inter_token_latency_ms": mean(10.0) } }] });
    Some(file.to_string())
}

/// Neither the report of trtllm-bench nor its overview states the load, only the mean number of requests in flight.
fn in_flight(run: &Run) -> Option<f64> {
    match run.load {
        Load::Users(users) => Some(f64::from(users) * 0.97),
        Load::Rate(rate) if Load::Rate(rate) == BASE.load => Some(rate),
        _ => None,
    }
}

fn trtllm_report(run: &Run) -> Option<String> {
    let file = json!({ "engine": { "model": run.model, "version": "1.2", "backend": run.server },
        "request_info": { "num_requests": REQUESTS, "avg_num_concurrent_requests": in_flight(run)?,
            "avg_input_length": run.input, "avg_output_length": run.output },
        "performance": { "total_latency_ms": 1000.0, "request_throughput_req_s": run.achieved,
            "system_output_throughput_tok_s": 9.0, "request_latency_percentiles_ms": { "average": 600.0 } } });
    Some(file.to_string())
}

fn trtllm_overview(run: &Run) -> Option<String> {
    Some(format!(
        "[08/01/2026-10:00:00] [TRT-LLM] [I]\nModel:\t{}\nQuantization:\t{}\nNumber of requests:   {REQUESTS}\n\
         Number of concurrent requests:  {}\nAverage Input Length (tokens): {}\nAverage Output Length (tokens): {}\n\
         = PERFORMANCE OVERVIEW\nRequest Throughput (req/sec):   {}\nTotal Latency (ms):  9.5\n\
         Average request latency (ms):  600.5\n",
        run.model,
        run.server,
        in_flight(run)?,
        run.input,
        run.output,
        run.achieved
    ))
}

fn loadgen(run: &Run) -> Option<String> {
    let target = match (run.scenario, run.load) {
        ("Server", Load::Rate(rate)) => rate,
        ("Offline", Load::AllAtOnce) => run.achieved * 10.0,
        _ => return None,
    };
    if (run.model, run.input, run.output) != (BASE.model, BASE.input, BASE.output) {
        return None;
    }
    let rate = if run.scenario == "Offline" { "Samples per second" } else { "Completed samples per second    " };
    let line = "=".repeat(48);
    Some(format!(
        "{line}\nMLPerf Results Summary\n{line}\nSUT name : {}\nScenario : {}\nMode     : PerformanceOnly\n{rate}: {}\n\
         Result is : VALID\n\nTest Parameters Used\n{line}\ntarget_qps : {target}\nmin_duration (ms): 600000\n",
        run.server, run.scenario, run.achieved
    ))
}

/// Its rate is that of its requests: as many in a second.
fn perf_analyzer(run: &Run) -> Option<String> {
    let (mode, value) = match run.load {
        Load::Rate(rate) => ("request_rate", rate),
        Load::Users(users) => ("concurrency", f64::from(users)),
        Load::AllAtOnce => return None,
    };
    let is_stated = |run: &Run| (run.model, run.server, run.input, run.output);
    if is_stated(run) != is_stated(&BASE) {
        return None;
    }
    let end = (2e9 / run.achieved) as u64;
    let requests = json!([
        { "timestamp": 1_000_000_000_u64, "response_timestamps": [1_010_000_000_u64] },
        { "timestamp": 1_000_000_001_u64, "response_timestamps": [1_000_000_000 + end] },
    ]);
    let experiment = json!({ "experiment": { "mode": mode, "value": value }, "requests": requests });
    Some(json!({ "experiments": [experiment], "version": "2.60" }).to_string())
}

const FORMATS: [Format; 11] = [
    Format { name: "vLLM", file: "json", write: vllm, joined: Some(lines) },
    Format { name: "SGLang", file: "jsonl", write: sglang, joined: Some(lines) },
    Format { name: "vLLM, printed", file: "log", write: |run| Some(printed(run, false)), joined: Some(lines) },
    Format { name: "SGLang, printed", file: "log", write: |run| Some(printed(run, true)), joined: Some(lines) },
    Format { name: "GenAI-Perf", file: "json", write: genai_perf, joined: None },
    Format { name: "AIPerf", file: "json", write: aiperf, joined: None },
    Format { name: "GuideLLM", file: "json", write: guidellm, joined: Some(|texts| list_of(texts, "benchmarks")) },
    Format { name: "trtllm-bench report", file: "json", write: trtllm_report, joined: None },
    Format { name: "trtllm-bench overview", file: "log", write: trtllm_overview, joined: Some(lines) },
    Format { name: "LoadGen", file: "txt", write: loadgen, joined: None },
    Format {
        name: "perf_analyzer",
        file: "json",
        write: perf_analyzer,
        joined: Some(|texts| list_of(texts, "experiments")),
    },
];

/// Runs, how many points they are, and what the levels are where all formats call them the same.
struct Case {
    name: &'static str,
    runs: Vec<Run>,
    points: usize,
    levels: Option<&'static [&'static str]>,
    /// Of formats that state this in one file for all of its runs.
    is_of_file: bool,
}

fn cases() -> Vec<Case> {
    let at = |load: Load, achieved: f64| Run { load, achieved, ..BASE };
    let other = |run: Run| Run { achieved: 7.25, ..run };
    let case =
        |name, runs: &[Run], points, levels| Case { name, runs: runs.to_vec(), points, levels, is_of_file: false };
    let of_file = |case: Case| Case { is_of_file: true, ..case };
    let (rate, users) =
        (|rate, achieved| at(Load::Rate(rate), achieved), |users, achieved| at(Load::Users(users), achieved));
    let offline = |achieved| Run { scenario: "Offline", ..at(Load::AllAtOnce, achieved) };
    vec![
        case("the same", &[BASE, other(BASE), Run { achieved: 3.25, ..BASE }], 1, None),
        case(
            "the rate",
            &[rate(1.0, 1.0), rate(4.0, 3.5), rate(16.0, 9.0)],
            3,
            Some(&["1 req/s", "4 req/s", "16 req/s"]),
        ),
        case(
            "the rate, and repeats",
            &[rate(4.0, 3.5), rate(1.0, 1.0), rate(4.0, 3.75)],
            2,
            Some(&["1 req/s", "4 req/s"]),
        ),
        case("users", &[users(2, 1.0), users(8, 3.5)], 2, None),
        case(
            "all at once among rates",
            &[rate(1.0, 1.0), at(Load::AllAtOnce, 9.0), rate(4.0, 3.5)],
            3,
            Some(&["1 req/s", "4 req/s", "all at once"]),
        ),
        case(
            "all at once among users",
            &[users(8, 3.5), at(Load::AllAtOnce, 9.0)],
            2,
            Some(&["8 users", "all at once"]),
        ),
        case("users and a rate", &[users(8, 3.5), rate(4.0, 9.0)], 2, None),
        of_file(case("the model", &[BASE, other(Run { model: "n", ..BASE })], 2, Some(&["model=m", "model=n"]))),
        of_file(case("the server or backend", &[BASE, other(Run { server: "b", ..BASE })], 2, None)),
        case(
            "prompts",
            &[BASE, other(Run { input: 1024, ..BASE })],
            2,
            Some(&["128 input tokens", "1024 input tokens"]),
        ),
        case(
            "answers",
            &[BASE, other(Run { output: 256, ..BASE })],
            2,
            Some(&["64 output tokens", "256 output tokens"]),
        ),
        case("the scenario", &[BASE, offline(7.25)], 2, None),
        case("the target of Offline", &[offline(7.25), offline(3.5)], 1, None),
        of_file(case("the model and the rate", &[rate(1.0, 1.0), Run { model: "n", ..rate(4.0, 3.5) }], 2, None)),
        case(
            "prompts and the rate",
            &[rate(1.0, 1.0), Run { input: 1024, ..rate(4.0, 3.5) }, Run { input: 1024, ..rate(1.0, 0.5) }],
            3,
            None,
        ),
        of_file(case(
            "the model, repeated",
            &[BASE, Run { model: "n", ..other(BASE) }, Run { achieved: 3.75, ..BASE }],
            2,
            Some(&["model=m", "model=n"]),
        )),
    ]
}

fn source(name: &str, text: &str) -> ImportSource {
    ImportSource { name: name.to_owned(), text: text.to_owned() }
}

fn swept(sources: &[ImportSource]) -> ImportedSweep {
    let runs = import_runs("runs", sources).unwrap_or_else(|error| panic!("{error}"));
    let located = |(file, run)| LocatedRun { place: Path::new("out").join::<String>(file), run };
    import_sweep("runs", runs.into_iter().map(located).collect()).unwrap_or_else(|error| panic!("{error}"))
}

/// The points with the figures of their runs.
fn accounted(sweep: &ImportedSweep) -> Vec<(String, Vec<String>)> {
    let points = sweep.report.points.iter().map(|point| {
        let mut figures: Vec<String> = sweep
            .results
            .iter()
            // The first run of several is in both folders.
            .filter(|(folder, _)| folder.starts_with(&point.folder) && (point.runs == 1 || *folder != point.folder))
            .map(|(_, run)| format!("{:.2}", run.result.rates["requests_full"]))
            .collect();
        figures.sort();
        assert_eq!(figures.len() as u64, point.runs, "{}", point.level);
        (point.level.to_string(), figures)
    });
    points.collect()
}

#[test]
fn no_run_is_lost_or_averaged_with_another_in_any_format() {
    let mut tried = 0;
    for case in cases() {
        let mut figures: Vec<String> = case.runs.iter().map(|run| format!("{:.2}", run.achieved)).collect();
        figures.sort();
        for format in &FORMATS {
            let Some(texts) = case.runs.iter().map(format.write).collect::<Option<Vec<String>>>() else { continue };
            // Names count where the files state no load, as trtllm-bench's do.
            let states_load = !format.name.starts_with("trtllm-bench");
            let begins = if states_load { "r" } else { "x" };
            let file = |(n, text): (usize, &String)| source(&format!("{begins}{n}.{}", format.file), text);
            let files: Vec<ImportSource> = texts.iter().enumerate().map(file).collect();
            let reversed: Vec<ImportSource> = files.iter().rev().cloned().collect();
            let renamed =
                |source: &ImportSource| ImportSource { name: format!("same.{}", format.file), ..source.clone() };
            let of_one_name: Vec<ImportSource> = files.iter().map(renamed).collect();
            let mut layouts = vec![("one name", of_one_name)];
            // They would make points of repeats.
            if states_load || case.points == case.runs.len() {
                layouts.extend([("files", files), ("files in the other order", reversed)]);
            }
            if let Some(join) = format.joined.filter(|_| !(case.is_of_file && format.name == "GuideLLM")) {
                layouts.push(("one file", vec![source(&format!("same.{}", format.file), &join(&texts))]));
            }
            let mut first = None;
            for (layout, sources) in layouts {
                let title = format!("{} differs, {}, {layout}", case.name, format.name);
                let points = accounted(&swept(&sources));
                assert_eq!(points.len(), case.points, "{title}: {points:?}");
                let mut all: Vec<String> = points.iter().flat_map(|(_, figures)| figures.clone()).collect();
                all.sort();
                assert_eq!(all, figures, "{title}: {points:?}");
                let levels: Vec<&str> = points.iter().map(|(level, _)| level.as_str()).collect();
                if let Some(expected) = case.levels.filter(|_| states_load) {
                    assert_eq!(levels, expected, "{title}");
                }
                assert_eq!(*first.get_or_insert_with(|| points.clone()), points, "{title}: the order or layout counts");
                tried += 1;
            }
        }
    }
    assert!(tried > 350, "only {tried} were tried");
}

#[test]
fn names_of_files_count_only_where_files_state_nothing() {
    // Repeats at 4 req/s, whose names look like rates.
    let same: Vec<ImportSource> = (1..4)
        .map(|n| source(&format!("r{n}.json"), &vllm(&Run { achieved: f64::from(n), ..BASE }).unwrap()))
        .collect();
    let points = accounted(&swept(&same));
    assert_eq!(points, [("4 req/s".to_owned(), vec!["1.00".to_owned(), "2.00".to_owned(), "3.00".to_owned()])]);
    // trtllm-bench states no load: names without one are points, too, since nothing tells that they are repeats.
    let run = |name: &str| source(name, &trtllm_report(&BASE).unwrap());
    let levels = |names: [&str; 2]| {
        let points = accounted(&swept(&names.map(run)));
        points.into_iter().map(|(level, _)| level).collect::<Vec<_>>()
    };
    assert_eq!(levels(["c16.json", "c4.json"]), ["4 users", "16 users"]);
    assert_eq!(levels(["before.json", "after.json"]), ["run=after", "run=before"]);
}

#[test]
fn records_belong_to_the_numbers_that_are_called_like_them_and_others_are_runs() {
    let numbers = |users: u32| genai_perf(&Run { load: Load::Users(users), ..BASE }).unwrap();
    let records =
        |users: u32, achieved: f64| perf_analyzer(&Run { load: Load::Users(users), achieved, ..BASE }).unwrap();
    let sources = [
        source("a.json", &records(1, 1.0)),
        source("a1.json", &records(2, 2.0)),
        source("a1_genai_perf.json", &numbers(2)),
        source("a_genai_perf.json", &numbers(1)),
        source("b.json", &records(4, 4.0)),
    ];
    let runs = import_runs("runs", &sources).unwrap();
    let from: Vec<Vec<String>> = runs.into_iter().map(|(_, run)| run.result.imported.from).collect();
    assert_eq!(from, [vec!["a1_genai_perf.json", "a1.json"], vec!["a_genai_perf.json", "a.json"], vec!["b.json"]]);
}

#[test]
fn tools_that_differ_are_both_named() {
    let other = sglang(&BASE).unwrap().replace("vllm-a", "sglang");
    let sources = [source("s.jsonl", &[sglang(&BASE).unwrap(), other].join("\n"))];
    let error = import_runs("s.jsonl", &sources).unwrap_err().to_string();
    assert!(error.contains("s.jsonl (SGLang bench_serving JSON by sglang)"), "{error}");
    assert!(error.contains("by sglang-native)"), "{error}");
}

/// Results below the folder of an import, by what was achieved.
fn figures(folder: &Path) -> Vec<f64> {
    let results =
        walkdir::WalkDir::new(folder).into_iter().flatten().filter(|entry| entry.file_name() == "result.json");
    let figure = |path: &Path| -> Option<f64> {
        let result: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        result["rates"]["requests_full"].as_f64()
    };
    let mut all: Vec<f64> = results.filter_map(|entry| figure(entry.path())).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    all
}

/// The levels and runs of what was imported.
fn imported(world: &World, paths: &[&str]) -> Vec<(String, u64)> {
    let _ = fs::remove_dir_all(world.path("o"));
    let line: Vec<&str> = ["import"].into_iter().chain(paths.iter().copied()).chain(["--out", "o"]).collect();
    world.good(&line);
    let report = SweepReport::read(&world.path("o/sweep.json")).unwrap();
    report.points.iter().map(|point| (point.level.to_string(), point.runs)).collect()
}

#[test]
fn a_file_files_and_a_folder_are_the_same_runs() {
    let world = World::new();
    let runs = [
        Run { load: Load::Rate(1.0), achieved: 1.0, ..BASE },
        BASE,
        Run { load: Load::AllAtOnce, achieved: 9.0, ..BASE },
    ];
    let texts: Vec<String> = runs.iter().map(|run| vllm(run).unwrap()).collect();
    world.file("all.json", &texts.join("\n"));
    for (n, text) in texts.iter().enumerate() {
        world.file(&format!("files/r{n}.json"), text);
        world.file(&format!("folders/run_{n}/result.json"), text);
        world.file(&format!("printed/r{n}.log"), &printed(&runs[n], false));
    }
    world.file("folders/run_3/result.json", &vllm(&Run { achieved: 1.25, ..runs[0] }).unwrap());
    let points = |runs: u64| [("1 req/s".to_owned(), runs), ("4 req/s".to_owned(), 1), ("all at once".to_owned(), 1)];
    for paths in [&["all.json"][..], &["files"], &["files/r2.json", "files/r0.json", "files/r1.json"], &["printed"]] {
        assert_eq!(imported(&world, paths), points(1), "{paths:?}");
        assert_eq!(figures(&world.path("o")), [1.0, 3.5, 9.0], "{paths:?}");
    }
    let knee = SweepReport::read(&world.path("o/sweep.json")).unwrap().knee;
    assert!(knee.is_some(), "all at once is a load");
    assert_eq!(imported(&world, &["folders"]), points(2), "folders that are numbered hold repeats");
    // A file that is no result is named, and the others are imported.
    world.file("files/notes.json", "{\"by\": \"hand\"}");
    let noted = world.good(&["import", "files/r0.json", "files/notes.json", "--out", "one"]);
    noted.shows("note: left out, because they are not results of runs: files/notes.json");
    // Of other folders of the same identity nothing tells whether they are repeats.
    world.file("fp8/r.json", &texts[1]).file("bf16/r.json", &texts[1]);
    let refused = world.regatta(&["import", "fp8", "bf16", "--out", "two"]);
    assert_eq!(refused.code, 2);
    refused.shows("at the same level, 4 req/s: fp8/r.json and bf16/r.json").shows("compare the sweeps");
}

/// The folder of a system in a submission, and two systems.
#[test]
fn scenarios_of_loadgen_are_no_curve_and_targets_of_offline_are_no_load() {
    let world = World::new();
    let log = |world: &World, folder: &str, run: Run| {
        world.file(&format!("{folder}/mlperf_log_summary.txt"), &loadgen(&run).unwrap());
    };
    let offline = |achieved: f64| Run { scenario: "Offline", load: Load::AllAtOnce, achieved, ..BASE };
    log(&world, "sys/Offline/performance/run_1", offline(120.5));
    log(&world, "sys/Server/performance/run_1", Run { load: Load::Rate(99.0), achieved: 98.5, ..BASE });
    let points = imported(&world, &["sys"]);
    let levels: Vec<&str> = points.iter().map(|(level, _)| level.as_str()).collect();
    assert_eq!(levels, ["run=scenario=Offline, all at once", "run=scenario=Server, 99 req/s"]);
    assert_eq!(figures(&world.path("o")), [98.5, 120.5]);
    let sweep: Value = serde_json::from_str(&world.read("o/sweep.json")).unwrap();
    assert_eq!(sweep["imported"]["title"], "MLPerf LoadGen, Offline; MLPerf LoadGen, Server");
    assert_eq!(sweep["points"][0]["offered_per_s"], Value::Null, "Offline has no arrival rate: {sweep}");
    // The logs do not name the benchmark; the folders of a submission do.
    for (benchmark, rate) in [("llama2-70b-99", 99.0), ("mixtral-8x7b", 50.0)] {
        log(&world, &format!("two/{benchmark}/Server/performance/run_1"), Run { load: Load::Rate(rate), ..BASE });
    }
    let levels: Vec<String> = imported(&world, &["two"]).into_iter().map(|(level, _)| level).collect();
    assert_eq!(levels, ["run=benchmark=llama2-70b-99, 99 req/s", "run=benchmark=mixtral-8x7b, 50 req/s"]);
    // Named files of several folders are several runs, both logs of a folder one.
    let summaries =
        ["Offline", "Server"].map(|scenario| format!("sys/{scenario}/performance/run_1/mlperf_log_summary.txt"));
    assert_eq!(imported(&world, &[&summaries[0], &summaries[1]]).len(), 2);

    log(&world, "a", offline(120.5));
    log(&world, "b", Run { server: "b", ..offline(241.0) });
    assert_ne!(world.read("a/mlperf_log_summary.txt"), world.read("b/mlperf_log_summary.txt").replace("241", "120.5"));
    let compared = world.good(&["compare", "a", "b", "--json"]);
    let json: Value = serde_json::from_str(&compared.stdout).unwrap();
    assert!(!compared.stdout.contains("load:"), "{json:#}");
    world.copy("manifests");
    world.good(&["run", "ratio", "custom=a", "triton=b", "rows=Offline", "metrics=requests_full", "published=false"]);
    let table = world.read("latest/ratio/table.txt");
    assert!(table.contains("200.00 %"), "{table}");
    // Of Server the target is the load.
    for (folder, rate) in [("c", 50.0), ("d", 99.0)] {
        log(&world, folder, Run { load: Load::Rate(rate), ..BASE });
    }
    let unlike = world.regatta(&["compare", "c", "d"]);
    unlike.shows("target_qps 50 / 99");
}

#[test]
fn files_with_command_lines_and_printed_tables_get_an_answer() {
    let world = World::new();
    world.file("job.yaml", "apiVersion: batch/v1\nkind: Job\nspec:\n  template: {}\n");
    let refused = world.regatta(&["import", "job.yaml"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    refused.shows("a Kubernetes manifest").shows("`command:`").shows("regatta import -- ");
    for (file, text, kind, instead) in [
        (
            "user.conf",
            "*.Server.target_qps = 10\n",
            "a file of LoadGen's settings (user.conf",
            "`regatta mlperf check`",
        ),
        ("m.yaml", "regatta: 1\nstages: {}\n", "a manifest of Regatta", "`regatta run m.yaml`"),
        (
            "extra.yml",
            "cuda_graph_config:\n  max_batch_size: 8\n",
            "a file of options of TensorRT-LLM",
            "--extra_llm_api_options extra.yml`",
        ),
        (
            "pa.log",
            "*** Measurement Settings ***\n",
            "what perf_analyzer printed",
            "`--profile-export-file EXPORT.json`",
        ),
        ("lb.json", "[{\"n_gen\": 128, \"avg_ts\": 118.9}]", "a result of llama-bench", "`regatta bench --serve"),
    ] {
        world.file(file, text);
        let refused = world.regatta(&["import", file]);
        assert_eq!(refused.code, 2, "{refused:?}");
        refused.shows(&format!("{file} is {kind}")).shows(instead);
    }
    // Lines of a tool are read, whatever the name of their file is.
    world.file("job.pbs", "#PBS -l select=1\nvllm bench serve --model m\n");
    world.good(&["import", "job.pbs"]).shows("from a line of vllm bench serve");
    world.file("notes.txt", "vllm was fast today\n");
    let unknown = world.regatta(&["import", "notes.txt"]);
    assert_eq!(unknown.code, 2);
    unknown.shows("is not in a known result format").shows("`regatta import -- LINE`").shows("--save-result");
    world.file("v.log", &printed(&BASE, false));
    world.good(&["import", "v.log", "--out", "v"]);
    let result: Value = serde_json::from_str(&world.read("v/result.json")).unwrap();
    assert_eq!(result["latency"]["ttft"]["mean"], 50.0);
    assert_eq!(result["requested"]["request_rate"], 4.0);
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/sweeps/vllm.json");
    let saved = World::new();
    saved.good(&["import", &golden.to_string_lossy(), "--out", "v"]);
    let json: Value = serde_json::from_str(&saved.read("v/result.json")).unwrap();
    assert_eq!(result["latency"]["ttft"]["definition"], json["latency"]["ttft"]["definition"]);
    // Beside results that are read, those that are not are named.
    saved.file("d/serve.json", &fs::read_to_string(&golden).unwrap());
    saved.file("d/throughput.json", "{\"elapsed_time\": 1.0, \"tokens_per_second\": 5.0}");
    let imported = saved.good(&["import", "d", "--out", "w"]);
    imported.shows("d/throughput.json (a result of vllm bench throughput or latency)");
}
