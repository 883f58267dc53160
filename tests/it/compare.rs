//! `regatta compare`: like with like, or the reason why not.

use std::fs;
use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::services;
use crate::world::World;

/// A folder with the golden run, changed: every answer `later` ms later, and what `change` does to the result.
fn result(world: &World, name: &str, later: u64, change: impl FnOnce(&mut Value)) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/results/benchmark");
    let mut result: Value = serde_json::from_str(&fs::read_to_string(golden.join("result.json")).unwrap()).unwrap();
    let mut requests = String::new();
    for line in fs::read_to_string(golden.join("requests.jsonl")).unwrap().lines() {
        let mut record: Value = serde_json::from_str(line).unwrap();
        for stamp in ["t_first", "t_last", "t_end"] {
            record[stamp] = json!(record[stamp].as_u64().unwrap() + later * 1_000_000);
        }
        for chunk in record["timeline"].as_array_mut().unwrap() {
            chunk[0] = json!(chunk[0].as_u64().unwrap() + later * 1_000_000);
        }
        requests.push_str(&record.to_string());
        requests.push('\n');
    }
    for stat in ["mean", "p50", "p90", "p95", "p99"] {
        let ttft = &mut result["latency"]["ttft"][stat];
        *ttft = json!(ttft.as_f64().unwrap() + later as f64);
    }
    change(&mut result);
    world.file(&format!("{name}/result.json"), &result.to_string());
    world.file(&format!("{name}/requests.jsonl"), &requests);
}

fn delta(compared: &Value, metric: &str, stat: &str) -> Value {
    let deltas = compared["comparisons"][0]["deltas"].as_array().expect("deltas");
    let found = deltas.iter().find(|delta| delta["metric"] == metric && delta["stat"] == stat);
    found.unwrap_or_else(|| panic!("no {metric} {stat} in {compared:#}")).clone()
}

fn compared(world: &World, words: &[&str]) -> Value {
    let ended = world.regatta(&[&["compare"], words, &["--json"]].concat());
    serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{}", ended.stderr))
}

#[test]
fn a_slower_server_is_worse_and_fails_the_gate() {
    let world = World::new();
    result(&world, "before", 0, |_| {});
    result(&world, "after", 5, |_| {});
    let found = delta(&compared(&world, &["before", "after"]), "ttft", "mean");
    // One run on each side: the numbers, and no judgement.
    assert_eq!((&found["judgement"], &found["interval"]), (&json!("not_judged"), &Value::Null));
    world.regatta(&["compare", "before", "after"]).shows("one run on each side").shows("--repeat 5");
    let gate = |condition: &str, a: &str, b: &str| world.regatta(&["compare", a, b, "--fail-if", condition]);
    let failed = gate("ttft_p99>5%", "before", "after");
    assert_eq!(failed.code, 7);
    failed.shows("ttft_p99>5% holds for after").shows("one run on a side: this may be chance");
    assert_eq!(gate("ttft_p99>5%", "after", "before").code, 0);
    let wrong = world.regatta(&["compare", "before", "after", "--fail-if", "ttft", "--fail-if", "tpot>a%"]);
    assert_eq!(wrong.code, 2);
    wrong.shows("`ttft` is not a condition").shows("`tpot>a%` is not a condition");
    assert_eq!(gate("nothing_p99>5%", "before", "after").code, 2);
}

/// An INVALID side fails every condition, and every INVALID run is named; numbers that count failures are infinite, and numbers for a condition.
#[test]
fn an_invalid_side_fails_every_gate() {
    let world = World::new();
    let refusing = |result: &mut Value| {
        result["verdict"] = json!("invalid_server");
        result["latency"]["ttft_adjusted"] =
            json!({ "n": 32, "unanswered": 8, "p50": 13.0, "p90": null, "p95": null, "p99": null });
    };
    result(&world, "good", 0, |_| {});
    result(&world, "bad", 0, refusing);
    let gate = |condition: &str, a: &str, b: &str| world.regatta(&["compare", a, b, "--fail-if", condition]);
    let failed = gate("ttft_p99>500%", "good", "bad");
    assert_eq!(failed.code, 7);
    failed
        .shows("--fail-if fails: bad is INVALID(server)")
        .shows("faulty: the server failed requests or contradicted itself");
    assert_eq!(gate("ttft_p99>500%", "bad", "good").code, 7);
    assert_eq!(world.regatta(&["compare", "good", "bad"]).code, 0);
    let infinite = gate("ttft_adjusted_p99>500%", "good", "bad");
    assert_eq!(infinite.code, 7);
    infinite.shows("ttft_adjusted_p99>500% holds for bad: its value is infinite");
    result(&world, "as_good", 0, |_| {});
    assert_eq!(gate("ttft_adjusted_p99>5%", "good", "as_good").code, 0);
    // A number of infinite requests is no difference in chance, also where the verdict is valid.
    result(&world, "valid", 0, |result| {
        refusing(result);
        result["verdict"] = json!("valid");
    });
    assert_eq!(gate("ttft_adjusted_p99>500%", "good", "valid").code, 7);
    for run in 1..=3 {
        result(&world, &format!("side/{run}"), 0, |result| {
            if run != 2 {
                refusing(result);
            }
        });
        result(&world, &format!("plain/{run}"), 0, |_| {});
    }
    let several = gate("ttft_p99>500%", "plain", "side");
    assert_eq!(several.code, 7);
    several
        .shows("--fail-if fails: side is INVALID(server)")
        .shows(" in side/1; side/3: faulty: the server failed requests");
    assert!(several.stdout.contains("B is INVALID(server)"), "{}", several.stdout);
}

/// Every statistic of result.json is a name for a condition.
#[test]
fn a_gate_takes_every_statistic_of_a_result() {
    let world = World::new();
    let set = |max: f64| {
        move |result: &mut Value| {
            result["latency"]["ttft"]["p75"] = json!(15.0);
            result["latency"]["ttft"]["max"] = json!(max);
        }
    };
    result(&world, "a", 0, set(20.0));
    result(&world, "b", 0, set(30.0));
    let gate = |condition: &str| world.regatta(&["compare", "a", "b", "--fail-if", condition]);
    assert_eq!((gate("ttft_p75>1%").code, gate("ttft_max>40%").code, gate("ttft_max>60%").code), (0, 7, 0));
    let missing = world.regatta(&["compare", "a", "b", "--as", "vllm", "--fail-if", "output_tokens<-2%"]);
    assert_eq!(missing.code, 2);
    missing.shows("do not both have that number as vllm").shows("leave out `--as`");
}

/// Three runs a side, by a list, by a folder of results, and by `repeats/`: rows are judged by how runs differ.
#[test]
fn several_runs_of_a_side_are_judged() {
    let world = World::new();
    for (run, later) in [(1, 0), (2, 1), (3, 0)] {
        result(&world, &format!("a{run}"), later, |_| {});
        result(&world, &format!("after/{run}"), later + 12, |_| {});
        result(&world, &format!("set/repeats/0{run}"), later, |_| {});
    }
    result(&world, "set", 0, |_| {});
    let found = compared(&world, &["a1,a2,a3", "after"]);
    let comparison = &found["comparisons"][0];
    assert_eq!((&comparison["a_runs"], &comparison["b_runs"]), (&json!(3), &json!(3)));
    let ttft = delta(&found, "ttft", "p50");
    assert_eq!(ttft["judgement"], "worse", "{ttft}");
    assert!(ttft["interval"]["low"].as_f64().unwrap() > 20.0 && ttft["p"].as_f64().unwrap() < 0.05);
    assert_eq!(delta(&found, "tpot", "p50")["judgement"], "equivalent");
    let back = delta(&compared(&world, &["after", "set"]), "ttft", "p99");
    assert_eq!(back["judgement"], "better", "{back}");
    let wider = compared(&world, &["set", "a1,a2,a3", "--smallest-effect", "30"]);
    assert_eq!(delta(&wider, "ttft", "mean")["judgement"], "equivalent");
    let gate = |condition: &str| world.regatta(&["compare", "set", "after", "--fail-if", condition]).code;
    assert_eq!((gate("ttft_p50 > +20%"), gate("ttft_p50 > +500%")), (7, 0));
    // Results of another load are not runs of the same measurement.
    result(&world, "after/4", 0, |result| result["asked"]["scenario"]["server"]["rate"] = json!(50.0));
    let refused = world.regatta(&["compare", "set", "after"]);
    assert_eq!(refused.code, 2);
    refused.shows("not runs of one measurement").shows("request_rate 40 / 50");
}

/// The numbers of a result with repeats are those of its first run: without the others it is one run.
#[test]
fn a_result_without_its_repeats_is_compared_as_one_run_with_a_warning() {
    let world = World::new();
    let of_three = |result: &mut Value| {
        let run = |n: u64| json!({ "folder": format!("repeats/0{n}"), "seed": n, "verdict": "valid", "started": "" });
        result["repeats"] = json!({ "runs": [run(1), run(2), run(3)], "shown": 1, "over_runs": {
            "ttft_mean": { "unit": "ms", "values": [1.0, 2.0, 3.0], "mean": 2.0, "stddev": 1.0, "low": 0.0, "high": 4.0 },
        } });
    };
    result(&world, "alone", 0, of_three);
    result(&world, "whole", 0, of_three);
    for run in 1..=3 {
        result(&world, &format!("whole/repeats/0{run}"), run, |_| {});
    }
    let missing = "alone is the result of 3 runs, but their folder `repeats` is not next to it";
    let ended = world.regatta(&["compare", "whole", "alone"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    ended.shows(missing).shows("only its first run is compared").shows("copy `repeats` with result.json");
    let first: Value = serde_json::from_str(&world.read("alone/result.json")).unwrap();
    let shown = delta(&compared(&world, &["whole", "alone"]), "ttft", "mean")["b"].clone();
    assert_eq!(shown, first["latency"]["ttft"]["mean"], "the first run, whose requests are there");
    let gate = world.regatta(&["compare", "whole", "alone", "--fail-if", "ttft_p99>5%"]);
    assert_eq!(gate.code, 2, "{gate:?}");
    gate.shows(missing).shows("`--fail-if` needs all runs");
    // So it is in a stage.
    let ended = world.good(&["run", "ratio", "custom=whole", "triton=alone", "rows=Server", "metrics=ttft_mean"]);
    ended.shows("(alone) is the result of 3 runs").shows("only its first run is compared");
    let table: Value = serde_json::from_str(&world.read("latest/ratio/comparison.json")).unwrap();
    assert_eq!(table["rows"][0]["other"], first["latency"]["ttft"]["mean"]);
    // The file in place of its folder is the same result.
    for name in ["whole", "whole/result.json"] {
        let ended = world.regatta(&["compare", name, "whole"]);
        assert!(!ended.stderr.contains("is not next to it"), "{ended:?}");
        assert_eq!(compared(&world, &[name, "whole"])["comparisons"][0]["a_runs"], json!(3));
    }
    // A link to itself cannot be followed, like a result on a filesystem that does not answer: it is not left out.
    std::fs::remove_file(world.path("whole/repeats/02/result.json")).unwrap();
    std::os::unix::fs::symlink("result.json", world.path("whole/repeats/02/result.json")).unwrap();
    let ended = world.regatta(&["compare", "whole", "alone"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows("cannot look at whole/repeats/02/result.json");
}

/// Tasks `load/…` that leave the results in `given/<version>/<n>`.
fn tasks(world: &World, list: &str, command: &str) {
    let given = world.path("given").display().to_string();
    let copy = format!("cp -r {given}/{{{{ version }}}}/{{{{ n }}}}/. .");
    let shell = if command.is_empty() { copy } else { format!("{command}; {copy}") };
    let stage = format!("  load:\n    foreach: {{ n: [{list}] }}\n    shell: \"{shell}\"\n");
    world.manifest("m", &format!("params:\n  version: {{ text: {{}}, default: a }}\nstages:\n{stage}"));
}

/// A project with two runs of two tasks, `week1` and `week2`; in the second, `load/8` is slower.
fn two_weeks() -> World {
    let world = World::new();
    for (place, later) in [("a/4", 0), ("a/8", 3), ("b/4", 0), ("b/8", 9)] {
        result(&world, &format!("given/{place}"), later, |result| {
            let task = place.replace("a/", "load/").replace("b/", "load/");
            result["identity"]["manifest"]["task"] = json!(task);
            // Outputs with the same content are one output.
            let week = if place.starts_with('a') { 1 } else { 2 };
            result["started"] = json!(format!("2026-11-2{week}T10:08:42Z"));
        });
    }
    tasks(&world, "4, 8", "");
    for (version, tag) in [("a", "week1"), ("b", "week2")] {
        world.good(&["run", "m", &format!("version={version}")]);
        world.good(&["tag", tag]);
    }
    world
}

/// Own results enter a table by the links in `latest`.
#[test]
fn results_below_latest_are_compared_in_a_stage() {
    let world = two_weeks();
    let latest = || std::fs::read_link(world.path("latest")).unwrap();
    let before = latest();
    let ratio = |custom: &str| world.regatta(&["run", "ratio", custom, "triton=latest/load/4", "rows=Server"]);
    for (custom, why) in [
        ("custom=latest/load/4,latest/load/8", "the columns do not have the same rows"),
        ("custom=latest/load/5", "latest/load/5 does not exist"),
    ] {
        let ended = ratio(custom);
        assert_ne!(ended.code, 0, "{ended:?}");
        ended.shows(why);
        assert_eq!(latest(), before, "{custom}");
    }
    for counted in ["1 ran", "1 cached"] {
        let ended = ratio("custom=latest/load/4");
        assert_eq!(ended.code, 0, "{ended:?}");
        ended.shows(counted);
        assert!(world.read("latest/ratio/table.txt").contains("Server"));
    }
}

#[test]
fn runs_are_compared_task_by_task() {
    let world = two_weeks();
    let found = compared(&world, &["week1", "week2"]);
    let pairs: Vec<_> = found["comparisons"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["a"].as_str().unwrap(), one["b"].as_str().unwrap(), one["a_runs"].as_u64().unwrap()))
        .collect();
    assert_eq!(pairs, [("week1/load/4", "week2/load/4", 1), ("week1/load/8", "week2/load/8", 1)]);
    let ended = world.good(&["compare", "week1", "week2"]);
    ended.shows("A  week1/load/4").shows("B  week2/load/8");
    let gate = |a: &str, b: &str| world.regatta(&["compare", a, b, "--fail-if", "ttft_mean>5%"]);
    gate("week1", "week2").shows("ttft_mean>5% holds for week2/load/8");
    assert_eq!((gate("week1", "week2").code, gate("week1/load/4", "week2/load/4").code), (7, 0));
    // A task against a run is that task of the run, and a folder of results is read by the tasks that they name.
    for words in [["week1", "load/8"], ["week1/load/8", "latest/load"]] {
        let found = compared(&world, &words);
        let comparisons = found["comparisons"].as_array().unwrap();
        assert_eq!((comparisons.len(), &comparisons[0]["b_runs"]), (1, &json!(1)), "{found}");
    }
    let page = world.regatta(&["compare", "week1", "week2", "--html", "page.html"]);
    assert_eq!(page.code, 2);
    page.shows("a page compares one task").shows("week1/load/4, week1/load/8");
    // A list says itself which results are runs of one measurement.
    let listed = compared(&world, &["week1", "given/a/4,given/b/8"]);
    assert_eq!(listed["comparisons"][0]["b_runs"], json!(2), "{listed}");
    // A task that one side lacks is no task that passed.
    tasks(&world, "4", "");
    world.good(&["run", "m"]);
    let lacking = gate("week2", "load");
    assert_eq!(lacking.code, 7, "{lacking:?}");
    lacking.shows("--fail-if fails: load has no result of load/8");
    // What the first side lacks is nothing to check against, on whichever of the other sides it is.
    let gate =
        |a: &str, b: &str| world.regatta(&["compare", a, b, "given/b/4,given/b/4", "--fail-if", "ttft_mean>500%"]);
    let three = gate("load", "week2");
    assert_eq!(three.code, 0, "{three:?}");
    three.shows("not compared: load has no result of load/8");
    let third = gate("week1", "week2");
    assert_eq!(third.code, 7, "{third:?}");
}

/// A run in which a task was cached has not measured it again.
#[test]
fn a_measurement_against_itself_passes_no_gate() {
    let world = two_weeks();
    world.good(&["run", "m", "version=b"]);
    let warned = world.good(&["compare", "week2/load/8", "load/8"]);
    warned.shows("warning: both sides are the same measurement: week2/load/8 and load/8");
    let gate = world.regatta(&["compare", "week2", "load", "--fail-if", "ttft_mean>5%"]);
    assert_eq!(gate.code, 2, "{gate:?}");
    gate.shows("both sides are the same measurement: week2/load/4 and load/4; week2/load/8 and load/8");
    gate.shows("`--fail-if` has nothing to check");
}

#[test]
fn a_measurement_that_is_named_twice_counts_once() {
    let world = World::new();
    result(&world, "a", 0, |_| {});
    result(&world, "b", 5, |_| {});
    let found = compared(&world, &["a,a,a/result.json", "b,b"]);
    let comparison = &found["comparisons"][0];
    assert_eq!((&comparison["a_runs"], &comparison["b_runs"]), (&json!(1), &json!(1)));
    world.regatta(&["compare", "a,a", "b"]).shows("a is named twice, and counts once");
}

/// Of a measurement in turns the sum has all runs; the tasks of the runs are no further ones.
#[test]
fn runs_in_turns_count_once() {
    let world = World::new();
    for (task, later) in
        [("x@1", 0), ("x@2", 1), ("x", 0), ("x/repeats/01", 0), ("x/repeats/02", 1), ("y@1", 2), ("y@2", 3)]
    {
        result(&world, &format!("load/{task}"), later, |result| {
            let task = task.split("/repeats").next().unwrap();
            result["identity"]["manifest"]["task"] = json!(format!("load/{task}"));
        });
    }
    let found = compared(&world, &["load", "load"]);
    let sides: Vec<_> =
        found["comparisons"].as_array().unwrap().iter().map(|one| (&one["a"], &one["a_runs"])).collect();
    assert_eq!(sides, [(&json!("load/x"), &json!(2)), (&json!("load/y@1,load/y@2"), &json!(2))], "{found}");
}

#[test]
fn a_task_of_an_earlier_run_is_named_with_its_run() {
    let world = two_weeks();
    let several = world.regatta(&["export", "week1", "--as", "vllm"]);
    assert_eq!(several.code, 2);
    several.shows("week1 has several results: load/4, load/8").shows("name one of them: week1/load/4, week1/load/8");
    world.good(&["export", "week1/load/4", "--as", "vllm", "--out", "exported"]);
    let ended = world.good(&["report", "week1/load/8", "--as", "vllm"]);
    assert!(ended.stdout.starts_with("load/8"), "{}", ended.stdout);
    let found = compared(&world, &["week1/load/8", "week2/load/8"]);
    assert!(delta(&found, "ttft", "mean")["percent"].as_f64().unwrap() > 5.0, "{found}");
    let unknown = world.regatta(&["compare", "week1/load/9", "load/8"]);
    assert_eq!(unknown.code, 2);
    unknown.shows("there is no result `week1/load/9`").shows("did you mean `week1/load/");
}

/// An older result does not stand in for one that the last run did not get.
#[test]
fn a_task_is_that_of_the_last_run() {
    let world = two_weeks();
    tasks(&world, "4, 8", "test {{ n }} = 4");
    assert_eq!(world.regatta(&["run", "m", "--keep-going"]).code, 1);
    let words = ["compare", "load/4", "load/8"];
    let failed = world.regatta(&words);
    assert_eq!(failed.code, 2, "{failed:?}");
    failed.shows("the last run has no result of load/8: failed").shows("/load/8` is the result of an earlier run");
    // The link `latest` is the last run, and leads to an older result of this task.
    for name in ["latest/load/8", "latest/load/8/", "latest/load/8/result.json", "./latest/load/8"] {
        let failed = world.regatta(&["compare", "week1/load/8", name, "--fail-if", "ttft_mean>500%"]);
        assert_eq!(failed.code, 2, "{failed:?}");
        failed.shows("the last run has no result of load/8: failed");
    }
    let whole = world.regatta(&["compare", "week2", "latest", "--fail-if", "ttft_mean>500%"]);
    assert_eq!(whole.code, 7, "{whole:?}");
    whole.shows("--fail-if fails: latest has no result of load/8");
    tasks(&world, "4", "");
    world.good(&["run", "m"]);
    let missing = world.good(&words);
    missing.shows("warning: load/8 is from run").shows("the last run does not have it");
    let gated = world.regatta(&[&words[..], &["--fail-if", "ttft_mean>500%"]].concat());
    assert_eq!(gated.code, 2, "{gated:?}");
    gated.shows("name the run, too: `");
    let linked = world.regatta(&["compare", "load/4", "latest/load/8", "--fail-if", "ttft_mean>500%"]);
    assert_eq!(linked.code, 2, "{linked:?}");
    linked.shows("latest/load/8 is from run").shows("/load/8`");
    assert!(!linked.stderr.contains("/latest/load/8`"), "{linked:?}");
    assert_eq!(world.regatta(&["compare", "load/4", "week2/load/8", "--fail-if", "ttft_mean>500%"]).code, 0);
}

/// What a benchmark that is INVALID kept is the task's result, and not the valid one before it.
#[test]
fn an_invalid_task_of_the_last_run_fails_the_gate() {
    let world = World::new();
    let bench = |more: &[&str]| {
        let words = ["bench", "sim:", "--offline", "-n", "8", "--input-tokens", "32", "--output-tokens", "4"];
        world.regatta(&[&words[..], more].concat()).code
    };
    assert!([0, 3, 4].contains(&bench(&[])));
    world.good(&["tag", "before"]);
    assert!([3, 4].contains(&bench(&["--ttft-p99", "0.001ms"])));
    let gate = world.regatta(&["compare", "before", "bench", "--fail-if", "output_tokens<-99%"]);
    assert_eq!(gate.code, 7, "{gate:?}");
    gate.shows("--fail-if fails: bench is LIMIT MISSED");
    for name in ["latest", "latest/bench"] {
        let gate = world.regatta(&["compare", "before", name, "--fail-if", "output_tokens<-99%"]);
        assert_eq!(gate.code, 7, "{gate:?}");
        gate.shows(&format!("--fail-if fails: {name} is LIMIT MISSED"));
    }
}

/// What an INVALID benchmark kept has no link in `latest`, and is the newest result of its task all the same.
#[test]
fn a_task_of_an_earlier_run_is_that_of_the_run_that_is_named() {
    let load = services::bench("offline", 8, ", limits: { ttft_p99: 0.001ms }, preflight: \"off\"");
    let world = services::world(&[]);
    result(&world, "given", 0, |_| {});
    let copy = format!("cp -r {}/. .", world.path("given").display());
    services::change(&world, &[&format!("  measure: {{ shell: '{copy}' }}\n")]);
    world.good(&["run", "m"]);
    services::change(&world, &[&services::scripted(services::SERVE, "ready: { timeout: 1m }"), &load]);
    let invalid = world.regatta(&["run", "m"]);
    assert!([3, 4].contains(&invalid.code), "{invalid:?}");
    services::change(&world, &["  other: { shell: 'true' }\n"]);
    world.good(&["run", "m"]);
    let runs = fs::read_dir(world.path(".regatta/runs")).unwrap();
    let mut runs: Vec<_> = runs.map(|run| run.unwrap().file_name().into_string().unwrap()).collect();
    runs.sort();
    for name in ["measure", "latest/measure"] {
        let shown = world.regatta(&["compare", "given", name]);
        shown.shows(&format!("warning: {name} is from run {}; the last run does not have it", runs[1]));
        assert!(shown.stdout.contains("LIMIT MISSED"), "{shown:?}");
    }
}

#[test]
fn a_gate_has_its_own_bound() {
    let world = World::new();
    for (run, later) in [(1, 0), (2, 1), (3, 0)] {
        result(&world, &format!("a/{run}"), later, |_| {});
        result(&world, &format!("b/{run}"), later + 3 + 2 * run, |_| {});
    }
    let gate = |condition: &str| world.regatta(&["compare", "a", "b", "--fail-if", condition]);
    let holds = gate("ttft_mean>1%");
    assert_eq!(holds.code, 7);
    let bound = |text: &str| {
        let (_, rest) =
            text.split_once("one-sided 95 %, this number alone: at least +").unwrap_or_else(|| panic!("{text}"));
        rest.split_once(" %").unwrap().0.parse::<f64>().unwrap()
    };
    let limit = bound(&holds.stderr);
    assert_eq!(gate(&format!("ttft_mean>{}%", limit - 0.2)).code, 7, "{}", holds.stderr);
    let unshown = gate(&format!("ttft_mean>{}%", limit + 0.2));
    assert_eq!(unshown.code, 0, "{}", holds.stderr);
    unshown.shows("which may be chance (one-sided 95 %");
}

#[test]
fn another_load_is_not_compared_unless_forced() {
    let world = World::new();
    result(&world, "a", 0, |_| {});
    result(&world, "b", 0, |result| result["asked"]["scenario"]["server"]["rate"] = json!(50.0));
    let refused = world.regatta(&["compare", "a", "b"]);
    assert_eq!(refused.code, 2);
    refused.shows("load: request_rate 40 / 50").shows("--force");
    // No tool's definitions make one load of two.
    assert!(!refused.stdout.contains("--as TOOL"), "{}", refused.stdout);
    assert!(delta(&compared(&world, &["a", "b"]), "ttft", "mean")["percent"].is_null());
    let forced = compared(&world, &["a", "b", "--force"]);
    let ttft = delta(&forced, "ttft", "mean");
    assert_eq!((&ttft["percent"], ttft["unlike"].as_array().unwrap().len()), (&json!(0.0), 1));
}

#[test]
fn a_number_that_means_something_else_is_not_subtracted() {
    let world = World::new();
    result(&world, "a", 0, |_| {});
    result(&world, "b", 0, |result| {
        let latency = &mut result["latency"];
        latency["ttft"]["zero_point"] = json!("issue");
        latency["tpot"]["token_source"] = json!("usage");
        latency["e2e"]["window"] = json!("steady: some of it");
        latency["icl"]["percentile_rule"] = json!("another");
    });
    let found = compared(&world, &["a", "b"]);
    let unlike = |metric: &str, stat: &str| delta(&found, metric, stat)["unlike"].to_string();
    assert_eq!(unlike("ttft", "p50"), r#"["zero point: schedule / issue"]"#);
    assert!(
        unlike("tpot", "mean").contains("tokens: the server: output_ids / the server: usage")
            || unlike("tpot", "mean") == "[]"
    );
    assert!(unlike("e2e", "mean").contains("window: "));
    assert_eq!(unlike("icl", "mean"), "[]");
    assert!(unlike("icl", "p99").contains("percentile rule"));
    assert_eq!(unlike("ttft_sent", "mean"), "[]");
    assert_eq!(world.regatta(&["compare", "a", "b", "--fail-if", "ttft_mean>1%"]).code, 2);
}

#[test]
fn our_run_and_another_tools_are_shown_with_one_definition() {
    let world = World::new();
    result(&world, "ours", 0, |_| {});
    world.good(&["export", "ours", "--as", "vllm", "--out", "theirs"]);
    let plain = delta(&compared(&world, &["ours", "theirs"]), "ttft", "mean");
    assert!(plain["unlike"].to_string().contains("zero point: schedule / issue"), "{plain}");
    let same = delta(&compared(&world, &["ours", "theirs", "--as", "vllm"]), "ttft", "mean");
    assert!(same["percent"].as_f64().unwrap().abs() < 1e-6, "{same}");
    // vLLM's file has no schedule, so it cannot be told as LoadGen would.
    let cannot = world.regatta(&["compare", "ours", "theirs", "--as", "loadgen"]);
    assert!(cannot.stdout.contains("requests ") || cannot.stderr.contains("needs the intended arrivals"));
    assert!(!cannot.stdout.contains("TTFT"), "{}", cannot.stdout);
}

#[test]
fn a_result_that_is_not_there_is_reported_with_what_there_is() {
    let world = World::new();
    result(&world, "a", 0, |_| {});
    let missing = world.regatta(&["compare", "a", "no_such_task"]);
    assert_eq!(missing.code, 2);
    missing.shows("there is no result `no_such_task`").shows("hint");
    world.file("broken/result.json", "{");
    let broken = world.regatta(&["compare", "a", "broken"]);
    assert_ne!(broken.code, 0);
    broken.shows("result.json");
}

#[test]
fn a_page_is_written_beside_the_table() {
    let world = World::new();
    result(&world, "before", 0, |_| {});
    result(&world, "after", 5, |_| {});
    let ended = world.regatta(&["compare", "before", "after", "--html", "compared.html"]);
    assert_eq!(ended.code, 0);
    ended.shows("TTFT").shows("compared.html");
    let page = world.read("compared.html");
    assert!(page.contains("B against A") && page.contains("TTFT: cumulative % of requests"));
    let nowhere = world.regatta(&["compare", "before", "after", "--html", "no/such/folder.html"]);
    assert_eq!(nowhere.code, 1);
    nowhere.shows("cannot write no/such/folder.html");
}

#[test]
fn another_way_to_ask_and_retries_make_results_unlike() {
    let world = World::new();
    result(&world, "plain", 0, |_| {});
    result(&world, "shared", 0, |result| result["asked"]["stream"] = json!("shared"));
    result(&world, "again", 0, |result| {
        result["asked"]["retries"] = json!({ "times": 2, "connect": true, "refused": false, "pause_ms": 10.0 });
    });
    world.regatta(&["compare", "plain", "shared"]).shows("load: stream per_request / shared");
    world.regatta(&["compare", "again", "plain"]).shows("load: retries times 2, connect, pause_ms 10 / none");
    let alike = compared(&world, &["again", "again"]);
    assert!(alike["comparisons"][0]["unlike_load"].as_array().unwrap().is_empty(), "{alike}");
}

#[test]
fn simulated_and_real_are_not_judged_against_each_other() {
    let world = World::new();
    result(&world, "sim", 0, |_| {});
    result(&world, "real", 5, |result| {
        let identity = &mut result["identity"];
        identity["simulated"] = json!(false);
        let server = identity["servers"][0].as_object_mut().unwrap();
        server.remove("simulation");
        server.insert("kind".to_owned(), json!("triton"));
        server.insert("version".to_owned(), json!("2.54.0"));
    });
    let comparison = compared(&world, &["sim", "real"]);
    let found = delta(&comparison, "ttft", "mean");
    assert!(found["percent"].is_null() && found["judgement"].is_null(), "{found}");
    assert!(found["unlike"].to_string().contains("SIMULATED / a real server"), "{found}");
    assert_eq!(
        (&comparison["results"][0]["simulated"], &comparison["results"][1]["simulated"]),
        (&json!(true), &json!(false))
    );
    // Who insists gets a percentage, and no judgement.
    let forced = delta(&compared(&world, &["sim", "real", "--force"]), "ttft", "mean");
    assert!(forced["percent"].as_f64().is_some_and(|percent| percent > 0.0), "{forced}");
    assert!(forced["judgement"].is_null(), "{forced}");

    let ended = world.regatta(&["compare", "sim", "real", "--html", "page.html"]);
    ended.shows("VALID WITH WARNINGS SIMULATED").shows("A: SIMULATED, no GPU: regatta-simulator 0.1.0");
    ended.shows("B: triton 2.54.0 (tensorrt_llm, backend tensorrtllm)");
    ended.shows("differs: server: regatta-simulator / triton").shows("differs: server version: 0.1.0 / 2.54.0");
    let page = world.read("page.html").replace("&#x2f;", "/");
    assert!(page.contains("SIMULATED / a real server") && page.contains("server version: 0.1.0 / 2.54.0"));
}

#[test]
fn what_differs_beside_what_was_varied_is_listed() {
    let world = World::new();
    result(&world, "before", 0, |_| {});
    result(&world, "after", 5, |result| {
        let identity = &mut result["identity"];
        identity["manifest"]["parameters"]["requests"] = json!("48");
        identity["manifest"]["dirty"] = json!(true);
        identity["engines"][0]["digest"] = json!("f".repeat(64));
        identity["gpus"] = json!([{"name": "NVIDIA H200", "count": 2, "population": "all", "source": "nvidia-smi"}]);
    });
    let comparison = compared(&world, &["before", "after"]);
    let names: Vec<&str> = comparison["comparisons"][0]["identity"]
        .as_array()
        .unwrap()
        .iter()
        .map(|difference| difference["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["engine", "parameter requests", "uncommitted changes", "GPUs", "GPU population"]);
    // Both are simulated: the difference is a difference.
    assert!(delta(&comparison, "ttft", "mean")["percent"].as_f64().is_some_and(|percent| percent > 0.0));
    let ended = world.regatta(&["compare", "before", "after"]);
    ended.shows("differs: engine: bbbbbbbbbbbb / ffffffffffff").shows("differs: parameter requests: 24 / 48");
    ended.shows("differs: GPUs: not known / 2 × NVIDIA H200");
    // A result that does not say what it measured is not taken for one that does.
    result(&world, "old", 0, |result| drop(result.as_object_mut().unwrap().remove("identity")));
    world.regatta(&["compare", "before", "old"]).shows("B: the file does not say what was measured");
}

#[test]
fn words_of_comparisons_are_explained() {
    let world = World::new();
    world.good(&["explain", "inconclusive"]).shows("cannot tell");
    world.good(&["explain", "unlike"]).shows("not subtracted");
}
