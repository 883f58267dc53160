//! Measurements over time: what `history` shows of several runs, and runs that have a name.

use std::fs;

use serde_json::Value;

use crate::world::{Ended, World};

/// A measurement beside other tests may find that its client was late; it is a measurement all the same.
fn bench(world: &World, seed: &str) -> Ended {
    let ended = world.regatta(&[
        "bench",
        "sim:",
        "--offline",
        "-n",
        "8",
        "--input-tokens",
        "32",
        "--output-tokens",
        "4",
        "--seed",
        seed,
    ]);
    assert!([0, 3, 4].contains(&ended.code), "{}\n{}", ended.stdout, ended.stderr);
    ended
}

fn points(world: &World, words: &[&str]) -> Vec<Value> {
    let ended = world.regatta(&[&["history", "--json"], words].concat());
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let history: Value = serde_json::from_str(&ended.stdout).unwrap();
    let series = history["series"].as_array().unwrap();
    series.iter().flat_map(|one| one["points"].as_array().unwrap().clone()).collect()
}

#[test]
fn runs_of_one_benchmark_are_a_series_and_a_tag_keeps_what_it_measured() {
    let world = World::new();
    bench(&world, "1");
    let tagged = world.regatta(&["tag", "before-upgrade"]);
    assert!(tagged.stdout.starts_with("before-upgrade: run "), "{}", tagged.stdout);
    bench(&world, "2");
    bench(&world, "3");
    let all = points(&world, &["output_tokens", "ttft_p99"]);
    assert_eq!(all.len(), 3, "{all:#?}");
    assert_eq!(all[0]["tags"], serde_json::json!(["before-upgrade"]));
    let value = &all[2]["values"]["ttft_p99"];
    let latest: Value = serde_json::from_slice(&fs::read(world.path("latest/bench/result.json")).unwrap()).unwrap();
    assert_eq!(value, &latest["latency"]["ttft"]["p99"]);

    // Where a run is named, its tag is as good.
    let compared = world.regatta(&["compare", "before-upgrade", "bench"]);
    assert!(compared.stdout.contains("before-upgrade"), "{}\n{}", compared.stdout, compared.stderr);
    let report = world.good(&["report", "before-upgrade"]).stdout;
    assert!(fs::read(report.trim()).is_ok() && report != world.good(&["report"]).stdout, "{report}");

    let page = world.path("trend.html");
    assert_eq!(world.regatta(&["history", "--html", page.to_str().unwrap()]).code, 0);
    let page = fs::read_to_string(page).unwrap();
    assert_eq!((page.matches("<svg").count(), page.contains("SIMULATED")), (2, true));

    // Three outputs; the newest is the last of its task, and the first has a tag.
    world.good(&["gc", "--keep", "1"]).shows("note: `regatta history` would lose 1 measurement; `regatta tag` keeps");
    assert_eq!(world.regatta(&["gc", "--keep", "1", "--yes"]).code, 0);
    let kept = points(&world, &["output_tokens"]);
    assert_eq!(kept.iter().map(|point| &point["run"]).collect::<Vec<_>>(), [&all[0]["run"], &all[2]["run"]]);
    assert_eq!(world.regatta(&["tag", "before-upgrade", "--remove"]).code, 0);
    assert_eq!(world.regatta(&["gc", "--keep", "1", "--yes"]).code, 0);
    assert_eq!(points(&world, &["output_tokens"]).len(), 1);
}

#[test]
fn a_project_that_was_moved_or_copied_has_its_own_results() {
    let (before, copy, now) = (World::new(), World::new(), World::new());
    bench(&before, "1");
    let all = |world: &World| [".regatta", "latest"].map(|name| world.path(name));
    let copied = std::process::Command::new("cp").arg("-a").args(all(&before)).arg(copy.path("")).status().unwrap();
    assert!(copied.success());
    for (from, to) in all(&before).iter().zip(all(&now)) {
        fs::rename(from, to).unwrap();
    }
    for world in [&copy, &now] {
        assert_eq!(points(world, &["output_tokens"]).len(), 1);
        assert!(world.read("latest/report.html").contains("<svg"));
    }
}

/// A link to itself cannot be followed, not even by root: like a folder of another user.
#[test]
fn results_where_a_project_was_before_it_was_moved_are_left_out() {
    let (before, now) = (World::new(), World::new());
    bench(&before, "1");
    bench(&now, "2");
    let run = fs::read_dir(before.path(".regatta/runs")).unwrap().next().unwrap().unwrap();
    fs::rename(run.path(), now.path(".regatta/runs").join(run.file_name())).unwrap();
    fs::remove_dir_all(before.path(".regatta")).unwrap();
    std::os::unix::fs::symlink(".regatta", before.path(".regatta")).unwrap();
    assert_eq!(points(&now, &["output_tokens"]).len(), 1);
    now.good(&["runs"]);
}

#[test]
fn a_run_that_cannot_be_read_does_not_hide_the_others() {
    let world = World::new();
    bench(&world, "1");
    bench(&world, "2");
    let all = points(&world, &["output_tokens"]);
    let [first, second] = [0, 1].map(|at| all[at]["run"].as_str().unwrap());
    std::os::unix::fs::symlink("tags", world.path(format!(".regatta/runs/{first}/tags"))).unwrap();
    let left = points(&world, &["output_tokens"]);
    assert_eq!(left.iter().map(|point| &point["run"]).collect::<Vec<_>>(), [second]);
    for words in [&["history", "output_tokens"][..], &["runs"]] {
        let ended = world.good(words);
        assert!(ended.stdout.contains(second) && !ended.stdout.contains(first), "{}", ended.stdout);
        let noted = ended.stderr.lines().filter(|line| line.starts_with("left out: cannot read ")).count();
        assert_eq!((noted, ended.stderr.contains(first)), (1, true), "{}", ended.stderr);
    }
}

#[test]
fn a_misspelt_metric_and_an_unknown_run_are_errors_with_a_hint() {
    let world = World::new();
    bench(&world, "1");
    let wrong = world.regatta(&["history", "ttfp_p99"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.stderr.contains("did you mean `ttft_p99`"), "{}", wrong.stderr);
    let unknown = world.regatta(&["tag", "v1", "20200101-000000.000-1"]);
    assert_eq!((unknown.code, unknown.stderr.contains("there is no run")), (2, true), "{}", unknown.stderr);
    assert_eq!(world.regatta(&["tag", "no such", "x"]).code, 2);
    let latest = world.regatta(&["tag", "latest"]);
    assert_eq!(latest.code, 2);
    latest.shows("`latest` cannot be a tag").shows("`latest` is the last run");
}
