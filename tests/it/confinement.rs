//! `confine: true`: what a stage does not declare, its command cannot read.

use std::fs;
use std::io::Write as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::process::Stdio;

use landlock::{ABI, Access as _, AccessFs, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _};
use pretty_assertions::assert_eq;

use crate::world::{Ended, World};

/// Of this kernel, found out without the program.
fn has_landlock() -> bool {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    ruleset.handle_access(AccessFs::from_all(ABI::V1)).is_ok_and(|ruleset| ruleset.create().is_ok())
}

/// What a kernel without Landlock makes of it: a failure that says so, and nothing ran. Then nothing else can be tested, which is
/// printed beside the results, and is a failure where nothing may be left out.
fn refused_by_kernel(ended: &Ended) -> bool {
    if has_landlock() {
        return false;
    }
    let all = [ended.stdout.as_str(), ended.stderr.as_str()].concat();
    assert_eq!(ended.code, 1, "{all}");
    assert!(all.contains("this kernel has no Landlock") && all.contains("remove `confine: true`"), "{all}");
    assert!(std::env::var_os("CI").is_none(), "this kernel has no Landlock, so `confine: true` cannot be tested");
    // Past the harness, which keeps what a good test prints.
    let _ = writeln!(std::io::stderr(), "NOT TESTED: `confine: true`, because this kernel has no Landlock");
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
         \x20     echo kept > \"$HOME/kept\"; ls \"$HOME\" >/dev/null; echo gone > /dev/null\n\
         \x20     mkdir \"$HOME/closed\"; echo kept > \"$HOME/closed/kept\"; chmod a-w \"$HOME/closed\"\n",
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
fn of_the_devices_those_that_programs_need_are_open_and_no_file_beside_them() {
    let world = world(
        "  a:\n    confine: true\n    outputs: [out]\n    shell: |\n      head -c 3 /dev/zero > zeros; head -c 3 /dev/urandom > random; echo x > /dev/null\n\
         \x20     ls /dev > devices; echo shared > /dev/shm/regatta-$$; cat /dev/shm/regatta-$$ > out; rm /dev/shm/regatta-$$\n",
    );
    let ended = world.regatta(&["run", "m"]);
    if refused_by_kernel(&ended) {
        return;
    }
    assert_eq!(ended.code, 0, "{}\n{}", ended.stdout, ended.stderr);
    assert_eq!(world.read("latest/a/out"), "shared\n");
    // Only root may make a file there; without it, any other device stands for it.
    let own = tempfile::Builder::new().prefix("regatta").tempfile_in("/dev").ok();
    let closed = own.as_ref().map_or(Path::new("/dev/kmsg"), tempfile::NamedTempFile::path);
    if !closed.exists() {
        let _ = writeln!(
            std::io::stderr(),
            "NOT TESTED: devices that are closed to `confine: true`, because this machine has none"
        );
        return;
    }
    world.manifest("m", &format!("stages:\n  a: {{ confine: true, shell: 'head -c 1 {}' }}\n", closed.display()));
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1, "{}\n{}", ended.stdout, ended.stderr);
    ended.shows(&format!("{} is not one of the devices that are open to it", closed.display()));
}

#[test]
fn where_every_confined_command_may_read_a_stage_is_not_confined_in_appearance_only() {
    let stage = "stages:\n  a: { confine: true, outputs: [out], shell: 'echo ran > out' }\n";
    let open = tempfile::Builder::new().prefix("regatta").tempdir_in("/dev/shm").expect("a folder");
    let state = open.path().join("state");
    let world = World::with(stage);
    let ended = world.regatta(&["--home", state.to_str().expect("a path"), "run", "m"]);
    assert_eq!(ended.code, 1, "{}\n{}", ended.stdout, ended.stderr);
    ended.shows(&format!("the state folder, {}, is below /dev", state.display())).shows("remove `confine: true`");

    let project = open.path().join("project");
    fs::create_dir_all(project.join("manifests")).expect("a folder");
    fs::copy(world.path("manifests/m.yaml"), project.join("manifests/m.yaml")).expect("a copy");
    let started =
        world.command(&["run", "m"]).current_dir(&project).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let ended = Ended::of(started.expect("regatta"));
    assert_eq!(ended.code, 1, "{}\n{}", ended.stdout, ended.stderr);
    ended.shows(&format!("the project, {}, is below /dev", project.display()));
    assert!(!project.join("latest/a").exists());
}

#[test]
fn confinement_is_part_of_the_key_and_only_a_shell_can_be_confined() {
    let world = world("  a: { shell: 'echo {{ 1 }}' }\n");
    world.manifest("attached", "stages:\n  a: { confine: true, serve: { attach: { endpoints: 'h:1' } } }\n");
    let ended = world.regatta(&["plan", "attached"]);
    assert_eq!(ended.code, 2);
    ended.shows("`stages.a.confine` has no effect");
    assert_eq!(world.regatta(&["run", "m"]).code, 0);
    let ended = world.regatta(&["run", "m", "stages.a.confine=true"]);
    if refused_by_kernel(&ended) {
        return;
    }
    ended.shows("1 ran");
    let ended = world.regatta(&["run", "m", "stages.a.confine=true"]);
    ended.shows("1 cached");
}

/// What Landlock holds and what it does not, as the manual's table has it. The kernel's own rule decides from when on.
#[test]
fn a_confined_command_reaches_no_process_outside_and_the_manual_names_what_passes() {
    let has_scopes = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .scope(landlock::Scope::Signal | landlock::Scope::AbstractUnixSocket)
        .is_ok_and(|ruleset| ruleset.create().is_ok());
    let mut outside = std::process::Command::new("sleep").arg("1000").spawn().expect("a process outside");
    let name = format!("regatta-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("an address");
    let _listener = UnixListener::bind_addr(&address).expect("an abstract socket");
    let connect = format!("import socket; socket.socket(socket.AF_UNIX).connect(chr(0) + '{name}')");
    let world = World::new();
    let file = world.path("data/other");
    let line = format!(
        "      kill -0 {pid} && echo signal >> all\n      python3 -c \"{connect}\" && echo socket >> all\n\
         \x20     test -s '{file}' && echo stat >> all\n      chmod 600 '{file}' && echo chmod >> all\n\
         \x20     touch -c -d 1970-01-02 '{file}' && echo times >> all\n      cat '{file}' && echo read >> all\n      true\n",
        pid = outside.id(),
        file = file.display(),
    );
    world.file("data/other", "2");
    world.manifest("m", &format!("stages:\n  a:\n    confine: true\n    outputs: [all]\n    shell: |\n{line}"));
    let ended = world.regatta(&["run", "m"]);
    outside.kill().expect("it still runs");
    outside.wait().expect("its end");
    if refused_by_kernel(&ended) {
        return;
    }
    assert_eq!(ended.code, 0, "{}\n{}", ended.stdout, ended.stderr);
    let held = if has_scopes { "" } else { "signal\nsocket\n" };
    assert_eq!(world.read("latest/a/all"), format!("{held}stat\nchmod\ntimes\n"));
}
