//! `repeat:` — one measurement several times: every run is kept, and the result has means and intervals over them.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::campaign::no_process_left;
use crate::openai::script::{Do, Scripted, good};
use crate::services::{SERVE, bench, scripted, world};
use crate::world::{Ended, World, signal, until};

fn read(world: &crate::world::World, path: &str) -> Value {
    serde_json::from_str(&world.read(path)).expect("JSON")
}

#[test]
fn runs_have_seeds_of_their_own_and_are_summed_up() {
    let load = bench("server", 24, ", rate: 60, seed: 7, repeat: 3, preflight: \"off\"");
    let world = world(&[&scripted(SERVE, "ready: { timeout: 1m }"), &load]);
    // A loaded machine may be late at sending: what the runs say then is INVALID(client), and is kept all the same.
    let ended = world.regatta(&["run", "m"]);
    assert!(matches!(ended.code, 0 | 3 | 4), "{}\n{}", ended.stdout, ended.stderr);
    let folder = if ended.code == 0 { "latest/measure" } else { ".regatta/failed/measure" };
    ended.shows("SIMULATED  3 runs").shows("95 % interval over runs");
    let whole = read(&world, &format!("{folder}/result.json"));
    let runs: Vec<Value> = (1..=3).map(|run| read(&world, &format!("{folder}/repeats/0{run}/result.json"))).collect();
    let seeds: Vec<&Value> = runs.iter().map(|run| &run["requested"]["seed"]).collect();
    assert_eq!(seeds, [&json!(7), &json!(8), &json!(9)]);
    assert!(runs[0]["schedule_digest"] != runs[1]["schedule_digest"], "other seeds are other arrivals");
    for run in 1..=3 {
        let lines = world.read(format!("{folder}/repeats/0{run}/requests.jsonl")).lines().count();
        assert_eq!(lines, 24);
    }
    assert_eq!(whole["latency"], runs[0]["latency"], "the other numbers are those of the first run");
    assert_eq!(whole["repeats"]["shown"], 1);
    let over = &whole["repeats"]["over_runs"]["ttft_p50"];
    let values: Vec<f64> = runs.iter().map(|run| run["latency"]["ttft"]["p50"].as_f64().unwrap()).collect();
    assert_eq!(over["values"], json!(values));
    let mean = values.iter().sum::<f64>() / 3.0;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 2.0;
    // Student's t for two degrees of freedom and 97.5 %: 4.3027, from any table.
    let half = 4.3027 * (variance / 3.0).sqrt();
    assert!((over["mean"].as_f64().unwrap() - mean).abs() < 1e-9);
    assert!((over["high"].as_f64().unwrap() - mean - half).abs() < 1e-3 * half.max(1e-6), "{over}");
    // The same folder is a side of a comparison with three runs.
    let compared = world.regatta(&["compare", folder, folder, "--json"]);
    let compared: Value = serde_json::from_str(&compared.stdout).expect("JSON");
    assert_eq!(
        (&compared["comparisons"][0]["a_runs"], &compared["comparisons"][0]["same_plan"]),
        (&json!(3), &json!(true))
    );
    no_process_left(&world);
}

/// A server for each of two variants, and a measurement of each that takes half a second.
fn variants() -> World {
    let server =
        scripted(SERVE, "ready: { timeout: 1m }").replace("    serve:", "    foreach: { variant: [a, b] }\n    serve:");
    let load = bench("server", 24, ", rate: 60, seed: 7, preflight: \"off\"")
        .replace("    bench:", "    foreach: { variant: [a, b] }\n    bench:");
    world(&[&server, &load])
}

/// A loaded machine may be late at sending: what the runs say then is INVALID(client), and they are kept all the same.
fn ended_well(ended: &Ended) {
    assert!(matches!(ended.code, 0 | 3 | 4), "{}\n{}", ended.stdout, ended.stderr);
}

#[test]
fn variants_take_turns_and_more_runs_are_added_to_those_that_are_there() {
    let world = variants();
    ended_well(&world.regatta(&["run", "m", "--repeat", "2", "--keep-going"]));
    let started = |run: &str| read(&world, &format!("latest/measure/{run}/result.json"))["started"].clone();
    let turns = ["a@1", "b@1", "a@2", "b@2"].map(|run| started(run).as_str().unwrap().to_owned());
    assert!(turns.is_sorted(), "{turns:?}");
    let seeds: Vec<Value> = ["a@1", "b@1", "a@2", "b@2"]
        .map(|run| read(&world, &format!("latest/measure/{run}/result.json"))["requested"]["seed"].clone())
        .into();
    assert_eq!(seeds, [json!(7), json!(7), json!(8), json!(8)], "variants have the same arrivals");
    let compared = world.regatta(&["compare", "latest/measure/a@1", "latest/measure/b@1"]);
    compared.shows("differs: foreach variant: a / b");
    let planned = world.decisions(&["--repeat", "3"]);
    let runs = planned.iter().filter(|(id, decision)| id.contains('@') && decision == "run");
    assert_eq!(runs.map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["measure/a@3", "measure/b@3"]);
    let ended = world.regatta(&["run", "m", "--repeat", "3", "--keep-going"]);
    ended_well(&ended);
    let folder = if ended.code == 0 { "latest/measure/a" } else { ".regatta/failed/measure/a" };
    if world.path(folder).exists() {
        let whole = read(&world, &format!("{folder}/result.json"));
        let runs = whole["repeats"]["runs"].as_array().unwrap();
        assert_eq!(runs.iter().map(|run| run["seed"].as_u64().unwrap()).collect::<Vec<_>>(), [7, 8, 9]);
        assert_eq!(read(&world, &format!("{folder}/repeats/02/result.json"))["requested"]["seed"], 8);
    }
    no_process_left(&world);
}

#[test]
fn a_run_of_variants_that_was_cut_off_goes_on_with_the_next_turn() {
    let world = variants();
    let run = world.start(&["run", "m", "--repeat", "2", "--keep-going"]);
    until("the first turn of both", || world.path("latest/measure/b@1/result.json").exists());
    signal(&run, "INT");
    let cut = Ended::of(run);
    assert_eq!(cut.code, 130, "{cut:?}");
    let ended = world.regatta(&["run", "m", "--repeat", "2", "--keep-going"]);
    ended_well(&ended);
    let ran = ended.ran();
    assert!(ran.iter().any(|task| task == "measure/b@2"), "{ran:?}");
    assert!(!ran.iter().any(|task| task.ends_with("@1")), "{ran:?}");
    no_process_left(&world);
}

#[test]
fn repeats_that_were_cut_off_are_not_made_again() {
    let world =
        world(&[&scripted(SERVE, "ready: { timeout: 1m }"), &bench("server", 24, ", rate: 60, preflight: \"off\"")]);
    let run = world.start(&["run", "m", "--repeat", "4"]);
    let kept = |number: u32| {
        let folders = fs::read_dir(world.path(".regatta/out")).ok()?.flatten();
        folders.map(|it| it.path().join(format!("repeats/0{number}/result.json"))).find(|path| path.exists())
    };
    until("the second run", || kept(2).is_some());
    signal(&run, "INT");
    let cut = Ended::of(run);
    assert_eq!(cut.code, 130, "{cut:?}");
    let made = |path: &Path| fs::metadata(path).map(|meta| (meta.ino(), meta.mtime_nsec())).unwrap();
    let before = [1, 2].map(|number| {
        let path = kept(number).unwrap();
        // One that measured its own client, beside other tests, is rightly measured again.
        let is_kept = !fs::read_to_string(&path).unwrap().contains("\"verdict\": \"invalid_client\"");
        is_kept.then(|| made(&path))
    });
    let ended = world.regatta(&["run", "m", "--repeat", "4"]);
    ended_well(&ended);
    let folder = if ended.code == 0 { "latest/measure" } else { ".regatta/failed/measure" };
    assert_eq!(read(&world, &format!("{folder}/result.json"))["repeats"]["runs"].as_array().unwrap().len(), 4);
    for (number, before) in (1..).zip(before) {
        if let Some(before) = before {
            let now = made(&world.path(format!("{folder}/repeats/0{number}/result.json")));
            assert_eq!(now, before, "run {number} was not measured again");
        }
    }
    no_process_left(&world);
}

/// Starts three runs of a measurement and interrupts the second.
fn cut_off_in_the_second(world: &World) {
    let run = world.start(&["run", "m"]);
    let is_first_kept = || {
        let folders = fs::read_dir(world.path(".regatta/out")).into_iter().flatten().flatten();
        folders.into_iter().any(|folder| folder.path().join("repeats/01/result.json").exists())
    };
    until("the first run", is_first_kept);
    signal(&run, "INT");
    let cut = Ended::of(run);
    assert_eq!(cut.code, 130, "{cut:?}");
}

#[test]
fn force_measures_also_those_again_that_were_finished_before_it_was_cut_off() {
    let world = world(&[
        &scripted(SERVE, "ready: { timeout: 1m }"),
        &bench("server", 24, ", rate: 30, repeat: 3, preflight: \"off\""),
    ]);
    cut_off_in_the_second(&world);
    let begun = std::time::SystemTime::now();
    let ended = world.regatta(&["run", "m", "--force", "measure"]);
    ended_well(&ended);
    let folder = if ended.code == 0 { "latest/measure" } else { ".regatta/failed/measure" };
    for number in 1..=3 {
        let result = fs::metadata(world.path(format!("{folder}/repeats/0{number}/result.json"))).unwrap();
        assert!(result.modified().unwrap() > begun, "run {number} was measured again");
    }
    no_process_left(&world);
}

#[test]
fn repeats_on_a_server_that_does_not_report_its_start_are_all_made_again() {
    let server = Scripted::start(|_| vec![Do::Send(good())]);
    let world = World::with(&format!(
        "stages:\n  measure:\n    bench: {{ target: \"openai://{}\", model: m, scenario: concurrency, concurrency: 1, stop: {{ duration: 2s }}, input_tokens: {{ fixed: 8 }}, output_tokens: {{ fixed: 4 }}, repeat: 3, preflight: \"off\" }}\n",
        server.address
    ));
    cut_off_in_the_second(&world);
    let ended = world.regatta(&["run", "m"]);
    ended_well(&ended);
    ended.shows("1 finished measurement is repeated: the server does not report when it started");
}

#[test]
fn what_cannot_be_repeated_says_how_it_is_measured_once_more() {
    let world = World::with("stages:\n  a: { shell: 'true' }\n");
    let ended = world.regatta(&["run", "m", "--repeat", "2"]);
    assert_eq!(ended.code, 2);
    ended.shows("no benchmark of this plan can be repeated").shows("--repeat-number 2");
}

#[test]
fn a_search_and_loadgen_are_not_repeated() {
    let world = crate::world::World::with(
        "stages:\n  a:\n    bench: { target: 'localhost:1', scenario: server, search: { low: 1, high: 9 }, repeat: 2, \
         limits: { ttft_p99: 1s }, stop: { requests: 9 }, input_tokens: { fixed: 1 }, output_tokens: { fixed: 1 } }\n",
    );
    let ended = world.regatta(&["check", "m"]);
    assert_eq!(ended.code, 2);
    ended.shows("cannot be combined with `search`");
}

#[test]
fn one_line_repeats_too() {
    let world = crate::world::World::new();
    world.good(&["bench", "sim:", "--repeat", "4", "--dry-run"]).shows("repeat: 4");
    assert_eq!(world.regatta(&["bench", "sim:", "--repeat", "0"]).code, 2);
}
