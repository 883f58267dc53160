//! `gpu_clocks:` with a recorded stand-in for nvidia-smi: clocks are locked first, and unlocked at every end of a stage.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::world::{Ended, World, signal, until};

const SMI: &str =
    "#!/bin/sh\necho \"nvidia-smi $*\" >>\"$RECORD\"\ncase \"$*\" in *-lgc*) exit ${LOCK_EXIT:-0};; esac\n";
const SUDO: &str = "#!/bin/sh\necho \"sudo $1\" >>\"$RECORD\"\nshift\nexec \"$@\"\n";

/// One stage with two GPUs that does this.
fn world(clocks: &str, shell: &str) -> World {
    let mut world =
        World::with(&format!("stages:\n  a:\n    gpus: 2\n    gpu_clocks: {clocks}\n    shell: '{shell}'\n"));
    for (name, text) in [("bin/nvidia-smi", SMI), ("bin/sudo", SUDO)] {
        world.file(name, text);
        fs::set_permissions(world.path(name), fs::Permissions::from_mode(0o755)).expect("a program");
    }
    let path = format!("{}:{}", world.path("bin").display(), std::env::var("PATH").expect("PATH"));
    let (record, project) = (world.path("record"), world.path(""));
    world.env("PATH", path).env("RECORD", record).env("W", project);
    world
}

const RUN: [&str; 4] = ["run", "m", "--gpus", "0,3"];
const LOCK: &str = "nvidia-smi -lgc 1410,1410 -i 0,3";
const UNLOCK: &str = "nvidia-smi -rgc -i 0,3";

fn record(world: &World) -> Vec<String> {
    world.read("record").lines().filter(|line| !line.contains("--query")).map(str::to_owned).collect()
}

#[test]
fn clocks_are_locked_before_the_first_process_and_unlocked_at_the_end() {
    let world = world("{ graphics: [1410, 1410] }", "echo stage >>$RECORD");
    let ended = world.good(&RUN);
    ended.shows("clocks of GPU 0,3 are locked to 1410 MHz");
    assert_eq!(record(&world), [LOCK, "stage", UNLOCK]);
    // Another clock is another measurement.
    world.good(&RUN);
    assert_eq!(record(&world).len(), 3, "cached");
    world.manifest(
        "m",
        "stages:\n  a:\n    gpus: 2\n    gpu_clocks: { graphics: [900, 1200] }\n    shell: 'echo stage >>$RECORD'\n",
    );
    world.good(&RUN).shows("are locked to 900 to 1200 MHz");
    assert_eq!(record(&world)[3..], ["nvidia-smi -lgc 900,1200 -i 0,3", "stage", UNLOCK]);
}

#[test]
fn a_failure_an_interruption_and_a_timeout_unlock_them_too() {
    let failing = world("{ graphics: [1410, 1410] }", "exit 3");
    assert_eq!(failing.regatta(&RUN).code, 1);
    assert_eq!(record(&failing), [LOCK, UNLOCK]);

    let waiting = world("{ graphics: [1410, 1410] }", "touch $W/there; exec sleep 1000");
    let child = waiting.start(&RUN);
    waiting.await_file("there");
    signal(&child, "INT");
    assert_ne!(Ended::of(child).code, 0);
    assert_eq!(record(&waiting), [LOCK, UNLOCK]);
}

#[test]
fn the_watchdog_unlocks_what_a_killed_run_had_locked() {
    let world = world("{ graphics: [1410, 1410], sudo: true }", "touch $W/there; exec sleep 1000");
    let mut child = world.start(&RUN);
    world.await_file("there");
    signal(&child, "KILL");
    child.wait().expect("an end");
    until("the clocks to be unlocked", || record(&world).last().is_some_and(|line| line == UNLOCK));
    assert_eq!(record(&world)[..2], ["sudo -n", LOCK]);
    assert_eq!(record(&world)[2], "sudo -n");
}

#[test]
fn a_refusal_is_an_error_before_the_stage_starts() {
    let mut world = world("{ graphics: [1410, 1410] }", "echo stage >>$RECORD");
    world.env("LOCK_EXIT", "4");
    let ended = world.regatta(&RUN);
    assert_eq!(ended.code, 1);
    ended.shows("cannot lock the GPUs' clocks").shows("only root may lock clocks: `gpu_clocks.sudo: true`");
    assert!(!record(&world).contains(&"stage".to_owned()));
    for (clocks, gpus, text) in [
        ("{ graphics: [1500, 1410] }", 2, "must be the least and the greatest clock"),
        ("{ graphics: [1410, 1410] }", 0, "needs GPUs of the stage"),
    ] {
        world.manifest("m", &format!("stages:\n  a: {{ gpus: {gpus}, gpu_clocks: {clocks}, shell: 'true' }}\n"));
        let ended = world.regatta(&["plan", "m"]);
        assert_eq!(ended.code, 2);
        ended.shows(text);
    }
}

#[test]
fn a_whole_gpu_is_leased_and_its_clocks_are_locked_by_its_uuid() {
    const WHOLE: &str = "GPU-8f9b3c5e-2f0a-5b1d-9c3e-1a2b3c4d5e6f";
    let mut world = world("{ graphics: [1410, 1410] }", "echo $CUDA_VISIBLE_DEVICES >>$RECORD");
    let both = format!("{},{WHOLE}", WHOLE.replace("8f", "0a"));
    world.env("CUDA_VISIBLE_DEVICES", &both);
    world.good(&["run", "m"]);
    assert_eq!(
        record(&world),
        [format!("nvidia-smi -lgc 1410,1410 -i {both}"), both.clone(), format!("nvidia-smi -rgc -i {both}")]
    );
    // CUDA takes the first digits, which do not say which GPU of a list it is.
    world.env("CUDA_VISIBLE_DEVICES", "GPU-8f9b");
    let ended = world.regatta(&["run", "m", "--force"]);
    assert_eq!(ended.code, 2);
    ended.shows("CUDA_VISIBLE_DEVICES=GPU-8f9b: `GPU-8f9b` is neither a number nor GPU-<uuid>");
}

#[test]
fn instances_of_a_divided_gpu_are_leased_by_their_uuids_and_keep_their_clocks() {
    const MIG: &str = "MIG-8f9b3c5e-2f0a-5b1d-9c3e-1a2b3c4d5e6f,MIG-0a9b3c5e-2f0a-5b1d-9c3e-1a2b3c4d5e6f";
    let world = World::with("stages:\n  a: { gpus: 2, shell: 'echo $CUDA_VISIBLE_DEVICES >out' }\n");
    world.good(&["run", "m", "--gpus", MIG]);
    let mut seen: Vec<String> = world.read("latest/a/out").trim().split(',').map(str::to_owned).collect();
    seen.sort();
    let mut given: Vec<&str> = MIG.split(',').collect();
    given.sort_unstable();
    assert_eq!(seen, given);
    world.manifest("m", "stages:\n  a: { gpus: 2, gpu_clocks: { graphics: [900, 900] }, shell: 'true' }\n");
    let ended = world.regatta(&["run", "m", "--gpus", MIG]);
    assert_eq!(ended.code, 1);
    ended.shows("the clocks of a MIG instance are those of its whole GPU");
    let wrong = world.regatta(&["run", "m", "--gpus", "MIG-1"]);
    assert_eq!(wrong.code, 2);
    wrong.shows("`MIG-1` is neither a number nor GPU-<uuid> or MIG-<uuid>");
}
