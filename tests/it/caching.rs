//! Nothing old is passed off as new: what is measured again, what a kept measurement says of itself, and whose last run a reason is
//! about.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::process::Stdio;

use pretty_assertions::assert_eq;
use regatta::sim::SimOptions;
use serde_json::json;

use crate::simulator::ground::{Files, Running};
use crate::world::{Ended, World, signal, until};

/// A server at an address (port 0: a free one), in real time: a result of another speed is not valid and so not kept.
fn serve_at(files: &Files, address: SocketAddr) -> Running {
    Running::start(SimOptions { grpc: address, speed: 1.0, ..files.options() })
}

fn start(files: &Files) -> Running {
    serve_at(files, SocketAddr::from(([127, 0, 0, 1], 0)))
}

fn measure(target: &str, more: &str) -> String {
    format!(
        "stages:\n  measure:{more}\n    bench: {{ target: \"{target}\", scenario: concurrency, concurrency: 2, stop: {{ requests: 40 }}, input_tokens: {{ fixed: 16 }}, output_tokens: {{ fixed: 8 }}, vocab_size: 1000 }}\n"
    )
}

#[test]
fn servers_that_the_run_does_not_start_are_measured_again() {
    let files = Files::new(true, &json!({}));
    let server = start(&files);
    let world = World::with(&measure(&server.address.to_string(), ""));
    assert_eq!(world.good(&["run", "m"]).ran(), ["measure"]);
    let again = world.good(&["run", "m"]);
    assert_eq!(again.ran(), ["measure"]);
    again.shows(&format!("{} is not started by this run, so it is measured again", server.address));
    assert_eq!(world.will_run(&[]), ["measure"]);
}

#[test]
fn what_uses_an_attached_server_runs_again() {
    let files = Files::new(true, &json!({}));
    let server = start(&files);
    let world = World::with(&format!(
        "stages:\n  server: {{ serve: {{ attach: {{ endpoints: \"{}\" }} }} }}\n  use: {{ shell: \"echo {{{{ stages.server }}}} > at\" }}\n  other: {{ shell: \"echo x > out\" }}\n",
        server.address
    ));
    assert_eq!(world.good(&["run", "m"]).ran(), ["other", "use"]);
    assert_eq!(world.good(&["run", "m"]).ran(), ["use"]);
    assert_eq!(world.read("latest/use/at"), format!("{}\n", server.address));
}

#[test]
fn a_kept_measurement_says_its_age_and_its_servers_and_ends_with_them() {
    let files = Files::new(true, &json!({}));
    let server = start(&files);
    let address = server.address;
    let world = World::with(&measure(&address.to_string(), "\n    cache: true"));
    assert_eq!(world.good(&["run", "m"]).ran(), ["measure"]);

    let kept = world.good(&["run", "m"]);
    assert!(kept.ran().is_empty(), "{}", kept.stdout);
    kept.shows("measure: measured ").shows(" ago in run ").shows(&format!(" on {address} (")).shows("tensorrt_llm)");
    // A plan queries no server, so it takes this one to be as it was.
    let condition = format!("if {address} is still the same server (a run checks this)");
    world.good(&["plan", "m"]).shows(&format!(" on {address} (")).shows(&condition);

    drop(server);
    let smaller = Files::new(true, &json!({ "triton_max_batch_size": 16 }));
    let _server = serve_at(&smaller, address);
    world.good(&["plan", "m"]).shows(&condition);
    assert_eq!(world.good(&["run", "m"]).ran(), ["measure"]);
}

const ONE: &str = "regatta: 1\nname: one\nstages:\n  engine: { shell: \"echo one > out\" }\n  use: { shell: \"cat {{ stages.engine.out }}/out > out\" }\n";

#[test]
fn a_reason_is_about_the_last_run_of_the_same_manifest() {
    let world = World::new();
    world.file("manifests/one.yaml", ONE);
    world.file("manifests/two.yaml", &ONE.replace("name: one", "name: two").replace("echo one", "echo two; echo 2"));
    world.good(&["run", "one"]);
    world.good(&["plan", "two"]).shows("not in cache");
    world.good(&["run", "two"]);
    world.file("manifests/one.yaml", &ONE.replace("echo one", "echo eins"));
    world.good(&["plan", "one"]).shows("shell: echo one > out → echo eins > out");
}

#[test]
fn a_reason_is_there_also_where_another_manifest_made_the_output() {
    let world = World::new();
    world.file("manifests/one.yaml", ONE);
    world.file("manifests/two.yaml", &ONE.replace("name: one", "name: two"));
    assert_eq!(world.good(&["run", "one"]).ran(), ["engine", "use"]);
    assert!(world.good(&["run", "two"]).ran().is_empty(), "it has the same keys");
    world.file("manifests/two.yaml", &ONE.replace("name: one", "name: two").replace("echo one", "echo deux"));
    world.good(&["plan", "two"]).shows("shell: echo one > out → echo deux > out");
}

#[test]
fn a_reason_is_there_also_where_tasks_share_an_output() {
    let manifest = |files: &str| {
        format!(
            "stages:\n  make: {{ foreach: {{ x: [a, b] }}, template: {{ from: files, with: {{ what: {files} }} }} }}\n"
        )
    };
    let world = World::new();
    world.file("files/t.j2", "{{ what }}");
    world.manifest("m", &manifest("one"));
    world.good(&["run", "m"]);
    world.manifest("m", &manifest("two"));
    let planned = world.good(&["plan", "m"]);
    assert_eq!(planned.stdout.matches("template.with.what: one → two").count(), 2, "{}", planned.stdout);
}

/// Two runs of the same that are compared must not be one: whatever ends first, and whatever else changes in the manifest.
#[test]
fn what_is_repeated_in_a_manifest_keeps_an_output_of_its_own() {
    const UUID: &str = "cat /proc/sys/kernel/random/uuid > out";
    let stages = |names: &[&str]| {
        let stage = |name: &&str| {
            let needs = if *name == "again" { "needs: [one], " } else { "" };
            format!("  {name}: {{ {needs}shell: {UUID} }}\n")
        };
        names.iter().map(stage).fold("stages:\n".to_owned(), |text, stage| text + &stage)
    };
    let world = World::new();
    world.manifest("m", &stages(&["one", "again", "beside"]));
    let made = || ["one", "again", "beside"].map(|name| world.read(format!("latest/{name}/out")));
    let ran = world.good(&["run", "m"]).ran();
    assert_eq!(BTreeSet::from_iter(ran), ["again", "beside", "one"].map(str::to_owned).into());
    let first = made();
    assert_eq!(BTreeSet::from(first.clone()).len(), 3);
    world.manifest("m", &(stages(&["one", "again", "beside"]) + "  other: { shell: 'true' }\n"));
    assert_eq!(world.good(&["run", "m"]).ran(), ["other"]);
    world.good(&["gc", "--yes"]);
    world.manifest("m", &stages(&["one", "again", "beside", "more"]));
    world.good(&["plan", "m"]).shows("run     more").shows("it repeats ");
    assert_eq!(world.good(&["run", "m"]).ran(), ["more"]);
    assert_eq!(made(), first);
    // Under another name it is the same, where nothing in the manifest is repeated.
    world.manifest("n", &stages(&["one"]));
    world.good(&["run", "n"]);
    world.manifest("n", &stages(&["uno"]));
    assert!(world.good(&["run", "n"]).ran().is_empty());
}

#[test]
fn two_manifests_in_one_folder_keep_their_own_latest() {
    let world = World::new();
    world.file("manifests/one.yaml", ONE);
    world.file("manifests/two.yaml", &ONE.replace("name: one", "name: two").replace("echo one", "echo two"));
    world.good(&["run", "one"]);
    assert_eq!(world.read("latest/use/out"), "one\n");
    world.good(&["run", "two"]);
    assert_eq!(world.read("latest/use/out"), "two\n");
    assert_eq!(world.read(".regatta/by-manifest/one/use/out"), "one\n");
    // Nothing runs, and `latest` shows the manifest that was asked for.
    assert!(world.good(&["run", "one"]).ran().is_empty());
    assert_eq!(world.read("latest/use/out"), "one\n");
    assert_eq!(world.read(".regatta/by-manifest/two/use/out"), "two\n");
    assert!(world.read("latest/report.html").contains("one"));
}

#[test]
fn a_shell_text_is_strict_and_can_be_told_not_to_be() {
    let world = World::with("stages:\n  a: { shell: \"false\\ntouch out\" }\n");
    assert_eq!(world.regatta(&["run", "m"]).code, 1);
    world.manifest("m", "stages:\n  a: { shell: \"echo $NO_SUCH_VARIABLE > out\" }\n");
    world.regatta(&["run", "m"]).shows("NO_SUCH_VARIABLE");
    world.manifest("m", "stages:\n  a: { strict: false, shell: \"false\\necho \\\"$NO_SUCH_VARIABLE\\\" > out\" }\n");
    assert_eq!(world.good(&["run", "m"]).ran(), ["a"]);
    world.manifest("m", "stages:\n  a: { shell: \"false\\necho \\\"$NO_SUCH_VARIABLE\\\" > out\" }\n");
    world.good(&["plan", "m"]).shows("strict: was false");
}

#[test]
fn the_language_and_the_zone_of_the_session_reach_no_stage() {
    let text =
        "  a: { shell: 'echo $LC_ALL $TZ > out' }\n  b: { env: { TZ: Asia/Tokyo }, shell: 'echo $LC_ALL $TZ > out' }\n";
    let mut world = World::with(&format!("stages:\n{text}"));
    world.env("LC_ALL", "de_DE.UTF-8").env("TZ", "Europe/Berlin");
    world.good(&["run", "m"]);
    assert_eq!(world.read("latest/a/out"), "C.UTF-8 UTC\n");
    assert_eq!(world.read("latest/b/out"), "C.UTF-8 Asia/Tokyo\n");
}

#[test]
fn a_pointer_of_git_lfs_as_an_input_fails_its_stage_with_a_cure() {
    let world = World::with("stages:\n  a: { inputs: { w: w.bin }, shell: 'cp {{ inputs.w }} out' }\n");
    world.file("w.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n");
    world.regatta(&["run", "m"]).shows("w.bin is a Git LFS pointer").shows("git lfs pull");
}

#[test]
fn a_failure_inside_a_pipe_counts_where_the_shell_can_tell() {
    let world = World::with("stages:\n  a: { shell: \"false | cat > out\" }\n");
    let can = std::process::Command::new("/bin/sh").args(["-c", "(set -o pipefail) 2>/dev/null"]).status().unwrap();
    assert_eq!(world.regatta(&["run", "m"]).code, i32::from(can.success()));
}

/// What the last run looked at shortens a plan and changes no decision of it.
#[test]
fn a_plan_that_looks_only_where_it_must_decides_as_one_that_looks_at_everything() {
    let world = World::with(
        "stages:\n  a: { inputs: { f: a.txt }, shell: \"cp {{ inputs.f }} out\" }\n  b: { inputs: { f: b.txt }, shell: \"cp {{ inputs.f }} out\" }\n  c: { shell: \"cat {{ stages.a.out }}/out {{ stages.b.out }}/out > out\" }\n  d: { shell: \"cat {{ stages.b.out }}/out > out\" }\n  e: { when: false, shell: \"true\" }\n",
    );
    world.file("a.txt", "a\n").file("b.txt", "b\n");
    // Stamps of files that were written just now are not trusted. A file's ctime counts too, and nothing but time makes it older.
    std::thread::sleep(std::time::Duration::from_millis(50));
    world.good(&["run", "m"]);
    let both = |what: &str| {
        let quick = world.good(&["plan", "m"]).stdout;
        let plans = world.path(".regatta/plans");
        for file in std::fs::read_dir(&plans).unwrap().map(|item| item.unwrap().path()) {
            if file.extension().is_some_and(|kind| kind == "rest") {
                std::fs::rename(&file, file.with_extension("away")).unwrap();
            }
        }
        let thorough = world.good(&["plan", "m"]).stdout;
        for file in std::fs::read_dir(&plans).unwrap().map(|item| item.unwrap().path()) {
            if file.extension().is_some_and(|kind| kind == "away") {
                std::fs::rename(&file, file.with_extension("rest")).unwrap();
            }
        }
        assert_eq!(quick, thorough, "{what}");
        world.will_run(&[])
    };
    let is_kept =
        |item: std::io::Result<std::fs::DirEntry>| item.unwrap().path().extension().is_some_and(|kind| kind == "rest");
    assert!(world.path(".regatta/plans").read_dir().unwrap().any(is_kept), "the run left what to look at");
    assert_eq!(both("nothing changed"), [""; 0]);
    world.file("b.txt", "b\n");
    assert_eq!(both("the same content again"), [""; 0]);
    world.file("b.txt", "other\n");
    assert_eq!(both("an input changed"), ["b", "c", "d"]);
    world.file("b.txt", "b\n");
    world.file("latest/a/out", "altered\n");
    assert_eq!(both("an output was altered"), ["a", "c"]);
}

/// The manifest is changed and compiled while a run of it is under way.
#[test]
fn the_only_file_of_a_glob_under_another_name_is_another_input() {
    let world =
        World::with("stages: { name: { inputs: { d: \"data/*.txt\" }, shell: \"basename '{{ inputs.d }}' > out\" } }");
    world.file("data/a.txt", "x");
    world.good(&["run", "m"]);
    fs::rename(world.path("data/a.txt"), world.path("data/b.txt")).unwrap();
    world.good(&["plan", "m"]).shows("input d changed");
    world.good(&["run", "m"]);
    assert_eq!(world.read("latest/name/out"), "b.txt\n");
}

#[test]
fn a_run_of_the_old_text_does_not_stand_for_the_new_one() {
    let manifest = |word: &str| {
        format!(
            "stages:\n  one: {{ shell: 'touch \"$W/begun\"; while [ ! -e \"$W/gate\" ]; do sleep 0.02; done; echo {word} > out' }}\n"
        )
    };
    let mut world = World::with(&manifest("old"));
    let folder = world.path("");
    world.env("W", folder);
    let first = world.start(&["run", "m"]);
    world.await_file("begun");
    world.manifest("m", &manifest("new"));
    let out = fs::File::create(world.path("second.txt")).unwrap();
    let second = world.command(&["run", "m"]).stdout(out).stderr(Stdio::piped()).spawn().unwrap();
    until("the second run to wait", || world.read("second.txt").contains("waiting"));
    signal(&second, "INT");
    assert_eq!(Ended::of(second).code, 130);
    world.file("gate", "");
    assert_eq!(Ended::of(first).code, 0);
    assert_eq!(world.good(&["run", "m"]).ran(), ["one"]);
    assert_eq!(world.read("latest/one/out"), "new\n");
}

#[test]
fn a_model_repository_is_made_again_where_its_project_was_moved() {
    let (before, now) = (World::new(), World::new());
    let bench = |world: &World, seed: &str| {
        let load = ["--offline", "-n", "8", "--input-tokens", "32", "--output-tokens", "4", "--seed", seed];
        let ended = world.regatta(&[&["-v", "bench", "sim:"], &load[..]].concat());
        // A measurement beside other tests may find that its client was late.
        assert!([0, 3, 4].contains(&ended.code), "{ended:?}");
        ended
    };
    bench(&before, "1");
    fs::rename(before.path(".regatta"), now.path(".regatta")).unwrap();
    let moved = bench(&now, "2");
    moved.shows("where this project was before");
    let has_made = |ended: &Ended, task: &str| ended.ran().iter().any(|ran| ran == task);
    assert!(has_made(&moved, "repository") && !has_made(&moved, "engine"), "{moved:?}");
    assert!(!has_made(&bench(&now, "3"), "repository"), "once");
}

#[test]
fn the_folder_of_the_project_is_in_no_key_and_an_output_that_names_it_is_of_its_place() {
    let body = "params: { model: { about: A, path: required } }\nstages:\n  read: { shell: \"cat '{{ model }}/f' > out\" }\n  name: { shell: \"echo '{{ model }}' > out\" }\n";
    let worlds = [World::with(body), World::with(body)];
    for world in &worlds {
        world.file("models/x/f", "x\n").good(&["run", "m", "model=models/x"]);
    }
    let keys = |world: &World| {
        let lock: serde_json::Value = serde_yaml::from_str(&world.read("regatta.lock")).unwrap();
        let run = lock["runs"].as_object().unwrap().values().next().unwrap();
        let stages = &run["stages"];
        ["read", "name"].map(|stage| stages[stage]["resolved"]["key"].to_string())
    };
    assert_eq!(keys(&worlds[0]), keys(&worlds[1]));
    let now = World::new();
    for name in [".regatta", "latest", "manifests", "models"] {
        fs::rename(worlds[0].path(name), now.path(name)).unwrap();
    }
    let moved = now.good(&["run", "m", "model=models/x"]);
    moved.shows("its output contains the path ").shows(", where this project was before");
    assert_eq!(moved.ran(), ["name"]);
    assert_eq!(now.read("latest/name/out"), format!("{}\n", now.path("models/x").display()));
}

/// The first run without a lock file, and the first plan of some stages, need no record of what an earlier run found unchanged.
#[test]
fn what_a_run_of_all_stages_looked_at_serves_other_ways_to_run_them() {
    let world = World::with(
        "stages:\n  a: { inputs: { f: a.txt }, shell: \"cp {{ inputs.f }} out\" }\n  b: { shell: \"cp {{ stages.a.out }}/out out\" }\n  c: { shell: \"cp {{ stages.b.out }}/out out\" }\n",
    );
    world.file("a.txt", "a\n");
    // Stamps of files that were written just now are not trusted.
    std::thread::sleep(std::time::Duration::from_millis(50));
    world.good(&["run", "m"]);
    let [records, away] = ["records", "away"].map(|name| world.path(".regatta").join(name));
    std::fs::rename(&records, &away).unwrap();
    world.good(&["run", "m", "--no-lock"]).shows("3 cached");
    world.good(&["plan", "m", "--until", "b"]).shows("2 tasks: 0 to run, 2 cached");
    world.good(&["plan", "m", "--only", "c"]).shows("3 tasks: 0 to run, 3 cached");
    std::fs::rename(&away, &records).unwrap();
    assert!(world.good(&["run", "m", "--until", "b"]).ran().is_empty());
    // What was looked at without a lock file says nothing about one.
    world.file("a.txt", "other\n");
    let before = world.read("regatta.lock");
    assert_eq!(world.good(&["run", "m", "--no-lock"]).ran(), ["a", "b", "c"]);
    assert_eq!(world.read("regatta.lock"), before);
    assert!(world.good(&["run", "m"]).ran().is_empty());
    assert_ne!(world.read("regatta.lock"), before);
}

#[test]
fn where_nothing_has_run_there_is_nothing_to_remove() {
    let world = World::new();
    for words in [&["gc"][..], &["gc", "--yes"]] {
        world.good(words).shows("nothing to remove");
    }
    assert!(!world.path(".regatta").exists());
}

#[test]
fn a_project_runs_its_own_manifest_where_it_was_copied_or_shares_its_state() {
    let version = |number: u32| format!("stages:\n  a: {{ shell: 'echo version {number} > out' }}\n");
    let (one, copy, two) = (World::with(&version(1)), World::new(), World::with(&version(2)));
    one.good(&["run", "m"]);
    let all = format!("{}/.", one.path("").display());
    assert!(std::process::Command::new("cp").args(["-a", &all]).arg(copy.path("")).status().unwrap().success());
    copy.manifest("m", &version(2));
    assert_eq!(copy.good(&["run", "m"]).ran(), ["a"]);
    assert_eq!(copy.read("latest/a/out"), "version 2\n");
    let state = World::new();
    let home = state.path("state").display().to_string();
    for (world, out) in [(&one, "version 1\n"), (&two, "version 2\n")] {
        assert_eq!(world.good(&["run", "m", "--home", &home]).ran(), ["a"]);
        assert_eq!(state.read("state/latest/a/out"), out);
        assert!(world.good(&["run", "m", "--home", &home]).ran().is_empty());
    }
}

#[test]
fn a_run_from_the_cache_has_the_report_of_the_run_that_it_repeats() {
    let world = World::new();
    world.manifest("good", "stages: { s: { shell: 'echo hi > $OUT/x', outputs: [x] } }\n");
    world.manifest("bad", "stages: { s: { shell: 'false' } }\n");
    let report = || fs::canonicalize(world.good(&["report"]).stdout.trim()).expect("a page");
    world.good(&["run", "good"]);
    let page = report();
    world.regatta(&["run", "bad"]);
    assert_ne!(report(), page);
    world.good(&["run", "good"]).shows("1 cached");
    assert_eq!(report(), page);
    world.regatta(&["report", "none"]).shows("run none has no report").shows("runs of this folder: ");
}

/// snakemake/snakemake#2011, nextflow-io/nextflow#1334: an output is kept although a script that it was made with changed.
#[test]
fn a_cached_output_names_what_it_was_made_from_that_is_in_no_key_and_changed() {
    let mut world = World::new();
    let script = world.path("s.sh");
    world.file("s.sh", "echo one");
    world.manifest("m", &format!("stages:\n  use: {{ shell: \"sh {} $LEVEL > out\" }}\n", script.display()));
    world.env("LEVEL", "1");
    world.good(&["run", "m"]).shows("s.sh is not under its `inputs:`").shows("$LEVEL is read from the environment");
    let kept = world.good(&["run", "m"]);
    assert!(kept.ran().is_empty() && !kept.stdout.contains("does not declare"), "{}", kept.stdout);
    world.file("s.sh", "echo two");
    let changed = format!("although {} changed, which it does not declare; `--force use` runs it", script.display());
    for words in [["plan", "m"], ["run", "m"]] {
        world.good(&words).shows(&changed);
    }
    world.env("LEVEL", "2");
    world.good(&["run", "m"]).shows("s.sh, $LEVEL changed");
    world.good(&["run", "m", "--force", "use"]);
    assert!(!world.good(&["run", "m"]).stdout.contains("does not declare"));
}
