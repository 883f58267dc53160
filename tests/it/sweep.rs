//! One benchmark at several levels: points in order, each a measurement of its own; cut off and continued; judged.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use regatta::harness::{PointRole, SweepReport, sweep_schema};
use serde_json::Value;

use crate::world::{Ended, World, signal, until};

/// A measurement beside other tests may find that its client was late; a sweep is done all the same, unless every point is.
fn measured(ended: &Ended) {
    assert!([0, 3, 4].contains(&ended.code), "{}\n{}", ended.stdout, ended.stderr);
}

const SHORT: [&str; 4] = ["--input-tokens", "64", "--output-tokens", "8"];

fn bench(world: &World, words: &[&str]) -> Ended {
    let all: Vec<&str> = ["bench", "sim:"].into_iter().chain(words.iter().copied()).chain(SHORT).collect();
    let ended = world.regatta(&all);
    measured(&ended);
    ended
}

fn levels(sweep: &Value) -> Vec<String> {
    let points = sweep["points"].as_array().unwrap_or_else(|| panic!("{sweep:#}"));
    points.iter().map(|point| point["level"].to_string()).collect()
}

#[test]
fn several_levels_are_one_result_in_numeric_order() {
    let world = World::new();
    let ended = bench(&world, &["-c", "10,2,5", "-n", "20", "--json", "--out", "copied"]);
    let sweep: Value = serde_json::from_str(&ended.stdout).unwrap();
    jsonschema::validate(&sweep_schema(), &sweep).unwrap();
    assert_eq!(levels(&sweep), [r#"{"users":2}"#, r#"{"users":5}"#, r#"{"users":10}"#]);
    assert_eq!((&sweep["axis"], &sweep["gpus"]["count"]), (&"concurrency".into(), &1.into()));
    for point in sweep["points"].as_array().unwrap() {
        let folder = world.path("copied").join(point["folder"].as_str().unwrap());
        let result: Value = serde_json::from_slice(&fs::read(folder.join("result.json")).unwrap()).unwrap();
        assert_eq!(result["counts"]["ok"], 20);
        let users = &result["requested"]["scenario"]["concurrency"]["users"];
        assert_eq!(users.as_f64(), point["level"]["users"].as_f64());
        assert_eq!(
            (&result["verdict"], &result["rates"]["output_tokens"]),
            (&point["verdict"], &point["output_tokens_per_s"])
        );
        assert_eq!(result["latency"]["ttft"]["p99"], point["ttft"]["p99"]["value"]);
    }
    let run = &bench(&world, &["-c", "1,2", "-n", "4"]).stdout;
    assert!(run.contains("tok/s"), "{run}");
    assert!(!run.contains("in which requests arrived"), "{run}");
    // More users bring more throughput here, and no point has the prompts of another.
    let of = |key: &str| sweep["points"].as_array().unwrap().iter().map(|point| point[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("seed"), [0, 1, 2]);
    let rates: Vec<f64> = of("output_tokens_per_s").iter().map(|rate| rate.as_f64().unwrap()).collect();
    assert!(rates[0] < rates[2], "{rates:?}");
    assert_eq!(SweepReport::read(&world.path("copied/sweep.json")).unwrap().points.len(), 3);
}

#[test]
fn a_rate_sweep_is_a_table() {
    let world = World::new();
    let ended = bench(&world, &["--rate", "5..20:3", "-n", "15", "--ttft-p99", "1ms"]);
    // The limit is missed everywhere.
    assert_ne!(ended.code, 0, "{ended:?}");
    // A busy machine may add a worse reason.
    let is_row = |line: &&str| ["  LIMIT MISSED", "  OVERLOADED", "  INVALID("].iter().any(|word| line.contains(word));
    let rows: Vec<&str> = ended.stdout.lines().filter(|line| !line.starts_with('✗')).filter(is_row).collect();
    let first: Vec<&str> = rows.iter().filter_map(|row| row.split_whitespace().next()).collect();
    assert_eq!(first, ["5", "10", "20"], "{}", ended.stdout);
    ended.shows("req/s").shows("tok/s/user").shows("TTFT and E2E from schedule").shows("✗ 5 req/s: limits: TTFT p99");
    ended.shows("req/s and tok/s are over the time in which requests arrived");
    let page = world.read("latest/report.html");
    assert!(page.contains("3 levels, 5 … 20 req&#x2f;s · 15 requests each · 64 → 8 tokens"), "{page}");
    world.good(&["runs"]).shows("3 levels, 5 … 20 req/s · 15 requests each");
    let csv = world.good(&["runs", "--csv"]).stdout;
    let points: Vec<&str> = csv.lines().filter(|line| line.contains("/points/")).collect();
    assert!(points.len() == 3 && points.iter().all(|line| line.contains(",true,15,0,")), "{csv}");
    assert!(points[2].contains("· 20 req/s Poisson, scaled ·"), "{csv}");
    // A manifest has the same key.
    let dry = world.good(&["bench", "sim:", "--rate", "5..20:3", "--dry-run"]);
    dry.shows("sweep:").shows("rate: 5..20:3").shows("duration: 30s");
}

#[test]
fn a_sweep_of_lengths_needs_nothing_but_its_levels() {
    let world = World::new();
    let dry = world.good(&["bench", "sim:", "-c", "2", "-n", "10", "--osl", "4", "--dry-run"]).stdout;
    let mut manifest: Value = serde_yaml::from_str(&dry).unwrap();
    let bench = manifest["stages"]["bench"]["bench"].as_object_mut().unwrap();
    bench.remove("input_tokens").unwrap();
    bench.insert("sweep".to_owned(), serde_json::json!({ "input_tokens": [512, 64] }));
    let manifest = serde_yaml::to_string(&manifest).unwrap();
    world.file("m.yaml", &manifest);
    measured(&world.regatta(&["run", "m.yaml"]));
    let sweep: Value = serde_json::from_str(&world.read("latest/bench/sweep.json")).unwrap();
    assert_eq!(levels(&sweep), [r#"{"input_tokens":64}"#, r#"{"input_tokens":512}"#]);
    let again = world.regatta(&["run", "m.yaml"]);
    assert_eq!(again.ran(), Vec::<String>::new(), "a sweep is cached as a whole");
}

#[test]
fn a_sweep_finds_its_levels_between_an_idle_and_a_saturated_server() {
    let world = World::new();
    let ended = bench(&world, &["--sweep=2", "-n", "10", "--json"]);
    let sweep: SweepReport = serde_json::from_str(&ended.stdout).unwrap();
    let roles: Vec<&str> = sweep.points.iter().filter_map(|point| point.role.map(PointRole::as_str)).collect();
    assert_eq!(roles.first(), Some(&"idle"), "{roles:?}");
    assert_eq!(roles.iter().filter(|role| **role == "between").count(), 2, "{roles:?}");
    assert!(roles.last() == Some(&"saturation") && roles.len() >= 5, "{roles:?}");
    let rate = |at: usize| sweep.points[at].requests_per_s.unwrap();
    let offered: Vec<f64> = sweep
        .points
        .iter()
        .filter(|point| point.role.is_some_and(|role| role.as_str() == "between"))
        .filter_map(|point| point.level.number())
        .collect();
    let highest = sweep.points.iter().filter_map(|point| point.requests_per_s).fold(0.0, f64::max);
    assert!(rate(0) < offered[0] && offered[0] < offered[1] && offered[1] < highest, "{offered:?}");
}

#[test]
fn a_sweep_that_was_killed_measures_the_missing_points_only() {
    let world = World::new();
    let words: Vec<&str> = ["bench", "sim:", "-c", "1,2,3,4", "--duration", "1s"].into_iter().chain(SHORT).collect();
    let mut run = world.start(&words);
    let kept = |name: &str| {
        let folders = fs::read_dir(world.path(".regatta/out")).ok()?.flatten();
        // A file that is being written is not kept yet.
        let is_whole = |path: &PathBuf| fs::read(path).is_ok_and(|text| serde_json::from_slice::<Value>(&text).is_ok());
        folders.map(|it| it.path().join("points").join(name).join("result.json")).find(is_whole)
    };
    until("the second point", || kept("02-c2").is_some());
    signal(&run, "KILL");
    run.wait().unwrap();
    let made = |path: &Path| fs::metadata(path).map(|meta| (meta.ino(), meta.mtime_nsec())).unwrap();
    let before = ["01-c1", "02-c2"].map(|name| {
        let path = kept(name).unwrap();
        // One that measured its own client, beside other tests, is rightly measured again.
        let is_kept = !fs::read_to_string(&path).unwrap().contains("\"verdict\": \"invalid_client\"");
        (name, is_kept.then(|| made(&path)))
    });
    let ended = world.regatta(&words);
    measured(&ended);
    let folder = if ended.code == 0 { "latest/bench" } else { ".regatta/failed/bench" };
    for (name, before) in before {
        if let Some(before) = before {
            let now = made(&world.path(format!("{folder}/points/{name}/result.json")));
            assert_eq!(now, before, "{name} was not measured again: {}", ended.stderr);
        }
    }
    let sweep: Value = serde_json::from_str(&world.read(format!("{folder}/sweep.json"))).unwrap();
    assert_eq!(levels(&sweep).len(), 4);
    // One that is finished is measured anew.
    let started = |sweep: &str| -> Value {
        let sweep: Value = serde_json::from_str(sweep).unwrap();
        sweep["points"][0]["started"].clone()
    };
    let third = world.regatta(&words.iter().copied().chain(["--json"]).collect::<Vec<_>>());
    measured(&third);
    assert_ne!(started(&third.stdout), sweep["points"][0]["started"]);
}

#[test]
fn what_a_sweep_contradicts_is_an_error_with_its_place() {
    let world = World::new();
    let check = |keys: &str| {
        world.manifest("m", &format!("stages:\n  load:\n    bench: {{ target: 'localhost:1', stop: {{ requests: 9 }}, input_tokens: {{ fixed: 1 }}, output_tokens: {{ fixed: 1 }}, {keys} }}\n"));
        let ended = world.regatta(&["check", "m"]);
        assert_eq!(ended.code, 2, "{keys}: {ended:?}");
        ended
    };
    check("scenario: offline, sweep: { rate: [1, 2] }").shows("needs the scenario `server`");
    check("scenario: server, rate: 3, sweep: { rate: [1, 2] }").shows("cannot be combined with `rate`");
    check("scenario: concurrency, sweep: { concurrency: [1, 2.5] }").shows("levels must be whole numbers");
    check("scenario: concurrency, concurrency: 3, sweep: { input_tokens: [1, 2] }")
        .shows("cannot be combined with `input_tokens`");
    check("scenario: concurrency, sweep: { concurrency: '8..1' }").shows("a range such as `1..64`");
}

#[test]
fn each_point_is_repeated_and_differences_are_judged_by_the_runs() {
    let world = World::new();
    let ended = bench(&world, &["-c", "1,4", "-n", "8", "--repeat", "3", "--out", "a"]);
    ended.shows("±").shows("mean of up to 3 runs");
    let report = SweepReport::read(&world.path("a/sweep.json")).unwrap();
    let mut seeds = Vec::new();
    for point in &report.points {
        let over = &point.over_runs["output_tokens"];
        assert_eq!((point.runs, over.values.len()), (3, 3));
        assert_eq!(point.output_tokens_per_s, Some(over.values.iter().sum::<f64>() / 3.0));
        let p99 = point.ttft.p99.unwrap();
        assert!(p99.low.unwrap() <= p99.value && p99.value <= p99.high.unwrap(), "{p99:?}");
        let folder = world.path("a").join(&point.folder);
        let values = (1..=3).map(|run| -> Value {
            let text = fs::read_to_string(folder.join(format!("repeats/{run:02}/result.json"))).unwrap();
            serde_json::from_str(&text).unwrap()
        });
        let results: Vec<Value> = values.collect();
        let rates: Vec<Option<f64>> = results.iter().map(|run| run["rates"]["output_tokens"].as_f64()).collect();
        assert_eq!(rates, over.values.iter().copied().map(Some).collect::<Vec<_>>());
        seeds.extend(results.iter().map(|run| run["requested"]["seed"].as_u64().unwrap()));
    }
    assert_eq!(seeds, [0, 1, 2, 3, 4, 5], "no run has the prompts of another");
    // A sweep against itself is no difference, shown by its runs.
    let same = world.good(&["compare", "a", "a", "--json", "--smallest-effect", "99"]).stdout;
    let same: Value = serde_json::from_str(&same).unwrap();
    assert_eq!(same["judged"], true);
    let cell = &same["levels"][0]["points"][1]["output_tokens"];
    assert_eq!((cell["percent"].as_f64(), &cell["judgement"]), (Some(0.0), &"equivalent".into()), "{cell}");
    assert!(cell["interval"]["low"].as_f64() < Some(0.0), "{cell}");
}

#[test]
fn two_sweeps_are_compared_level_by_level_and_not_judged() {
    let world = World::new();
    bench(&world, &["-c", "1,2,4", "-n", "10", "--out", "a"]);
    bench(&world, &["-c", "2,4,8", "-n", "10", "--out", "b"]);
    let ended = world.good(&["compare", "a", "b/sweep.json", "--html", "both.html"]);
    ended.shows("1 user").shows("8 users").shows("B − A").shows("points with one run are not judged");
    let page = world.read("both.html");
    assert!(page.contains("curve c1") && page.contains("Level by level"), "{page}");
    let json: Value = serde_json::from_str(&world.good(&["compare", "a", "b", "--json"]).stdout).unwrap();
    let of: Vec<&str> = json["levels"].as_array().unwrap().iter().map(|row| row["level"].as_str().unwrap()).collect();
    assert_eq!(of, ["1 user", "2 users", "4 users", "8 users"]);
    let both = &json["levels"][1]["points"];
    let rate = |side: usize| both[side]["output_tokens"]["value"].as_f64();
    if let (Some(a), Some(b)) = (rate(0), rate(1)) {
        let percent = both[1]["output_tokens"]["percent"].as_f64().unwrap();
        assert!((percent - (b - a) / a * 100.0).abs() < 1e-6);
    }
    assert_eq!(json["levels"][3]["points"][0], Value::Null, "A has no such level");
    // A folder of outputs whose only measurement is a sweep, such as `latest`.
    bench(&world, &["-c", "1,2", "-n", "10"]).shows("TTFT and E2E from when the user became idle");
    world.good(&["compare", "a", "latest"]).shows("2 users").shows("B − A");
    // So is a run, by its tag or its name.
    world.good(&["tag", "one"]);
    world.good(&["report", "one", "--as", "vllm"]).shows("bench/points/01-");
    let run = world.good(&["runs", "--json"]).stdout;
    let run: Value = serde_json::from_str(&run).unwrap();
    let run = run["runs"][0]["run"].as_str().unwrap_or_else(|| panic!("{run:#}"));
    world.good(&["compare", "a", "one"]).shows("2 users").shows("B − A");
    world.good(&["compare", "one", run]).shows("2 users").shows("B − A");
    // A point is a result like any other, and a sweep is none.
    let point = world.regatta(&["compare", "a", "b/points/01-c2"]);
    assert_eq!(point.code, 2, "{point:?}");
    point.shows("a is a sweep, and b/points/01-c2 is not");
    let gate = world.regatta(&["compare", "a", "b", "--fail-if", "ttft_p99 > +5%"]);
    assert_eq!(gate.code, 2);
    gate.shows("name a result, or a point of each sweep, such as a/points/01-c1, b/points/01-c2");
    let gate = world.regatta(&["compare", "one", "latest", "--fail-if", "ttft_p99 > +5%"]);
    gate.shows("such as one/bench/points/01-c1, latest/bench/points/01-c1");
    world.good(&["compare", "one/bench/points/01-c1", "a/points/01-c1"]);
    world.good(&["compare", "one/bench", "a"]).shows("2 users").shows("B − A");
    let history = world.regatta(&["history"]);
    assert_eq!(history.code, 2);
    history.shows("there are sweeps only (bench)").shows("`regatta compare RUN/TASK RUN/TASK`");
}

#[test]
fn a_sweep_names_the_warnings_of_its_points() {
    let world = World::new();
    let options = ["-c", "1,2", "-n", "8", "--input-tokens", "8", "--output-tokens", "4"];
    let ended = world.good(&[&["bench", "sim:"][..], &options].concat());
    ended.shows("2 of 2 points with warnings: ").shows("samples (2)");
}
