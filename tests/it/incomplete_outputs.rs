//! What must not be taken for done, and links that must say what is true.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use pretty_assertions::assert_eq;

use crate::world::World;

#[test]
fn another_number_of_gpus_is_another_task() {
    let manifest = |gpus: u32| format!("stages:\n  a: {{ gpus: {gpus}, shell: 'echo $CUDA_VISIBLE_DEVICES > out' }}\n");
    let world = World::with(&manifest(1));
    world.good(&["run", "m", "--gpus", "0,1"]);
    assert_eq!(world.read("latest/a/out"), "0\n");
    world.manifest("m", &manifest(2));
    world.good(&["run", "m", "--gpus", "0,1"]);
    assert_eq!(world.read("latest/a/out"), "0,1\n");
}

#[test]
fn a_template_that_was_edited_is_rendered_again() {
    let world = World::with("stages:\n  a: { template: { from: t, with: { x: 1 } } }\n");
    world.file("t/f.j2", "old {{ x }}\n");
    world.good(&["run", "m"]);
    world.file("t/f.j2", "new {{ x }}\n");
    assert_eq!(world.good(&["run", "m"]).ran(), ["a"]);
    assert_eq!(world.read("latest/a/f"), "new 1\n");
    world.file("t/g", "more\n");
    assert_eq!(world.good(&["run", "m"]).ran(), ["a"]);
    assert!(world.good(&["run", "m"]).ran().is_empty());
}

#[test]
fn a_stage_may_become_many_and_one_again() {
    let one = "stages:\n  a: { shell: 'echo one > out' }\n";
    let many = "stages:\n  a: { foreach: { n: [x, y] }, shell: 'echo {{ n }} > out' }\n";
    let world = World::with(one);
    world.good(&["run", "m"]);
    world.manifest("m", many);
    world.good(&["run", "m"]);
    assert_eq!((world.read("latest/a/x/out"), world.read("latest/a/y/out")), ("x\n".into(), "y\n".into()));
    world.manifest("m", one);
    assert!(world.good(&["run", "m"]).ran().is_empty(), "its output was not touched");
    assert_eq!(world.read("latest/a/out"), "one\n");
}

#[test]
fn the_links_are_those_of_the_last_run_even_when_nothing_had_to_run() {
    let world = World::with("params:\n  n: { int: {}, default: 1 }\nstages:\n  a: { shell: 'echo {{ n }} > out' }\n");
    for n in ["n=1", "n=2", "n=1", "n=2"] {
        world.good(&["run", "m", n]);
        assert_eq!(world.read("latest/a/out"), format!("{}\n", &n[2..]));
    }
    fs::remove_dir_all(world.path("latest")).unwrap();
    world.good(&["run", "m", "n=2"]);
    assert_eq!(world.read("latest/a/out"), "2\n");
}

#[test]
fn two_stages_that_do_the_same_do_not_keep_their_work_in_one_folder() {
    let stage = r#"{ resume: true, shell: 'mkdir here && touch "$W/$$.up"; n=0; while [ $(ls "$W" | grep -c up$) -lt 2 ]; do n=$((n+1)); [ $n -lt 500 ] || exit 9; sleep 0.02; done; echo >> lines' }"#;
    let mut world = World::with(&format!("stages:\n  a: {stage}\n  b: {stage}\n"));
    let folder = world.path("");
    world.env("W", folder);
    assert_eq!(world.good(&["run", "m", "-j2"]).ran(), ["a", "b"]);
    assert_eq!((world.read("latest/a/lines"), world.read("latest/b/lines")), ("\n".into(), "\n".into()));
}

#[test]
fn a_file_name_may_be_any_bytes() {
    let world = World::with(
        "stages:\n  a: { shell: 'touch \"$(printf \"n\\\\303\\\\374\\\\\\\\x\")\"; echo > out' }\n  b: { shell: 'ls {{ stages.a.out }} > out' }\n",
    );
    assert_eq!(world.good(&["run", "m"]).ran(), ["a", "b"]);
    assert!(world.good(&["run", "m"]).ran().is_empty());
    let odd = std::ffi::OsStr::from_bytes(b"n\xc3\xfc\\x");
    fs::write(world.path("latest/a").join(odd), "tampered").unwrap();
    assert_eq!(world.good(&["run", "m"]).ran(), ["a"]);
}

#[test]
fn clean_takes_nothing_that_is_not_of_regatta() {
    let world = World::with("stages:\n  a: { shell: 'echo > out' }\n");
    world.file("latest/weights/of-a-person", "precious");
    world.good(&["run", "m"]);
    world.good(&["clean", "--yes"]);
    assert!(!world.path(".regatta").exists() && !world.path("latest/a").is_symlink());
    assert_eq!(world.read("latest/weights/of-a-person"), "precious");
}

#[test]
fn an_engine_that_is_named_by_its_path_is_an_input_of_what_serves_it() {
    let world = World::new();
    world.good(&["run", "quickstart", "scenarios=offline", "--until", "generate_engines"]);
    let engine = world.path("engine");
    let built = fs::canonicalize(world.path("latest/generate_engines")).unwrap();
    assert!(std::process::Command::new("cp").arg("-r").args([&built, &engine]).status().unwrap().success());
    let reuse = format!("engine_dir={}", engine.display());
    let words = ["run", "quickstart", "scenarios=offline", &reuse, "--until", "generate_triton_config"];
    assert_eq!(world.good(&words).ran(), ["generate_triton_config/offline"], "nothing is cloned or built for it");
    assert!(world.good(&words).ran().is_empty());
    let config = fs::read_to_string(engine.join("config.json")).unwrap();
    fs::write(engine.join("config.json"), config.replace("\"max_batch_size\": 24", "\"max_batch_size\": 16")).unwrap();
    assert_eq!(world.good(&words).ran(), ["generate_triton_config/offline"]);
}
