//! `confine: true`: what a stage does not declare, its command cannot read.

use pretty_assertions::assert_eq;

use crate::world::{Ended, World};

/// What a kernel without Landlock makes of it: a failure that says so, and nothing ran.
fn refused_by_kernel(ended: &Ended) -> bool {
    let all = [ended.stdout.as_str(), ended.stderr.as_str()].concat();
    if !all.contains("this kernel has no Landlock") {
        return false;
    }
    assert_eq!(ended.code, 1, "{all}");
    assert!(all.contains("remove `confine: true`"), "{all}");
    true
}

fn world(stages: &str) -> World {
    let world = World::with(&format!("stages:\n{stages}"));
    world.file("data/declared", "1").file("data/other", "2").file("tool.sh", "#!/bin/sh\necho ran\n");
    world
}

#[test]
fn a_confined_command_reads_what_its_stage_declares_and_writes_its_output() {
    let world = world(
        "  first: { shell: 'echo made > made' }\n  second:\n    confine: true\n    inputs: { x: data/declared }\n    outputs: [all]\n\
         \x20   shell: |\n      cat {{ inputs.x }} {{ stages.first.out }}/made > all\n      t=$(mktemp); echo scratch > \"$t\"; cat \"$t\" >> all\n\
         \x20     echo kept > \"$HOME/kept\"; ls \"$HOME\" >/dev/null; echo gone > /dev/null\n",
    );
    let ended = world.regatta(&["run", "m"]);
    if refused_by_kernel(&ended) {
        return;
    }
    assert_eq!(ended.code, 0, "{}\n{}", ended.stdout, ended.stderr);
    assert_eq!(world.read("latest/second/all"), "1made\nscratch\n");
    let left: Vec<_> = walkdir::WalkDir::new(world.path(".regatta/runs")).into_iter().flatten().collect();
    assert!(!left.iter().any(|entry| entry.file_name().to_string_lossy().ends_with(".scratch")), "{left:?}");
}

#[test]
fn what_a_confined_command_reads_without_declaring_it_is_an_error_that_names_it() {
    for (name, line) in [
        ("other", "cat '{project}/data/other'"),
        ("declared", "cat ../../../data/declared '{project}/data/declared'"),
        ("tool.sh", "/bin/sh '{project}/tool.sh'"),
    ] {
        let world = World::new();
        let line = line.replace("{project}", world.path("").to_str().expect("a path").trim_end_matches('/'));
        world.file("data/declared", "1").file("data/other", "2").file("tool.sh", "#!/bin/sh\necho ran\n");
        world.manifest("m", &format!("stages:\n  a: {{ confine: true, shell: \"{line}\" }}\n"));
        let ended = world.regatta(&["run", "m"]);
        if refused_by_kernel(&ended) {
            return;
        }
        assert_eq!(ended.code, 1, "{}\n{}", ended.stdout, ended.stderr);
        ended
            .shows("it is confined, and ")
            .shows(&format!("{name} is not declared"))
            .shows("declare it under `inputs:`");
    }
}

#[test]
fn a_link_in_a_declared_folder_opens_nothing_else() {
    let world = world("  a: { confine: true, inputs: { x: data }, shell: 'cat {{ inputs.x }}/../tool.sh' }\n");
    let ended = world.regatta(&["run", "m"]);
    if refused_by_kernel(&ended) {
        return;
    }
    assert_eq!(ended.code, 1, "{}\n{}", ended.stdout, ended.stderr);
    ended.shows("Permission denied");
}

#[test]
fn confinement_is_part_of_the_key_and_only_a_shell_can_be_confined() {
    let world = world("  a: { shell: 'echo {{ 1 }}' }\n");
    assert_eq!(world.regatta(&["run", "m"]).code, 0);
    let ended = world.regatta(&["run", "m", "stages.a.confine=true"]);
    if refused_by_kernel(&ended) {
        return;
    }
    ended.shows("1 ran");
    let ended = world.regatta(&["run", "m", "stages.a.confine=true"]);
    ended.shows("1 cached");
    world.manifest("m", "stages:\n  a: { confine: true, serve: { attach: { endpoints: 'h:1' } } }\n");
    let ended = world.regatta(&["plan", "m"]);
    assert_eq!(ended.code, 2);
    ended.shows("`stages.a.confine` has no effect");
}
