//! Lines of NVIDIA's MLPerf pages, pasted as they stand there: each becomes a command that plans, or one sentence that says why
//! it cannot be translated.
//!
//! `tests/golden/translate/harness.lines` has the lines, `harness.printed` what is printed for each and whether it plans. After a
//! change `UPDATE=1 cargo test --test it harness_lines` writes what is printed now; read the difference.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use pretty_assertions::assert_eq;

use crate::world::World;

/// A machine with these GPUs, as `nvidia-smi` prints them.
fn machine(gpus: &str) -> World {
    let mut world = World::new();
    world.file("bin/nvidia-smi", &format!("#!/bin/sh\nprintf '{gpus}'\n[ -n '{gpus}' ]\n"));
    fs::set_permissions(world.path("bin/nvidia-smi"), fs::Permissions::from_mode(0o755)).expect("a program");
    let path = format!("{}:{}", world.path("bin").display(), std::env::var("PATH").unwrap_or_default());
    world.env("PATH", path);
    world.file("engine/config.json", "{}");
    world
}

/// The arguments of `regatta plan` for a printed line of `regatta run`.
fn plan_of(printed: &str) -> Option<Vec<String>> {
    let line = printed.lines().find(|line| line.starts_with("regatta run "))?;
    let line = line.split(" && ").next().unwrap_or_default();
    let mut words = shlex::split(line).expect("a line of a shell");
    words.remove(0);
    "plan".clone_into(&mut words[0]);
    if let Some(at) = words.iter().position(|word| word == "--gpus") {
        words.drain(at..at + 2);
    }
    Some(words)
}

#[test]
fn every_line_of_the_pages_plans_or_says_why_not() {
    let world = machine("");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/translate");
    let mut printed = String::new();
    for line in fs::read_to_string(folder.join("harness.lines")).expect("the lines").lines() {
        let ended = world.regatta(&["import", "--", line]);
        let _ = write!(printed, "$ {line}\n{}{}", ended.stdout, ended.stderr);
        if ended.code == 0 {
            let words = plan_of(&ended.stdout).unwrap_or_else(|| panic!("{line}: {ended:?}"));
            let plan = world.good(&words.iter().map(String::as_str).collect::<Vec<_>>());
            let count = plan.stdout.lines().find(|line| line.contains(" to run, ")).unwrap_or_default();
            let _ = writeln!(printed, "→ {count}");
        } else {
            assert_eq!(ended.code, 2, "{line}: {ended:?}");
        }
        printed.push('\n');
    }
    let golden = folder.join("harness.printed");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&golden, &printed).expect("written");
    }
    assert_eq!(fs::read_to_string(golden).unwrap_or_default(), printed);
}

#[test]
fn the_machines_own_system_is_chosen() {
    let world = machine("0, NVIDIA H200, 143771, 570.86.10, 9.0\\n1, NVIDIA H200, 143771, 570.86.10, 9.0\\n");
    let line = "make run_harness RUN_ARGS=\"--benchmarks=llama2 --scenarios=Offline\"";
    let ended = world.good(&["import", "--", line]);
    ended.shows("system=h200-x2: this machine has 2 × NVIDIA H200");
    ended.shows("regatta run llama2-70b system=h200-x2 scenarios=offline accuracy=99 loadgen=true round=v6.0 --until run_harness");
}
