//! Checkpoints: fetched from a hub on this machine that speaks the Hugging Face API, or found in a folder.

mod hub;

use std::fs;

use pretty_assertions::assert_eq;
use sha2::{Digest as _, Sha256};

use crate::world::{World, until};
use hub::{Hub, Trick};

const MANIFEST: &str = "stages:\n  weights:\n    weights: { hf: owner/model, revision: main }\n";
const TOKEN: &str = "hf_verysecrettoken";

fn world(hub: &Hub, manifest: &str) -> World {
    let mut world = World::with(manifest);
    let nowhere = world.path("nowhere");
    world.env("HF_ENDPOINT", hub.url()).env("HF_HOME", &nowhere).env("HF_TOKEN", TOKEN).env("NO_PROXY", "127.0.0.1");
    world
}

fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// A safetensors file of so many bytes of one tensor.
fn shard(bytes: usize) -> Vec<u8> {
    let header = format!(r#"{{"t":{{"dtype":"U8","shape":[{bytes}],"data_offsets":[0,{bytes}]}}}}"#);
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend((0..bytes).map(|n| (n * 7 % 251) as u8));
    file
}

/// A small checkpoint in two shards.
fn checkpoint(hub: &Hub) {
    hub.file("config.json", b"{\"architectures\": []}\n", false);
    hub.file(
        "model.safetensors.index.json",
        br#"{"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}"#,
        false,
    );
    hub.file("model-1.safetensors", &shard(300_000), true);
    hub.file("model-2.safetensors", &shard(1_000), true);
    hub.file("original/params.json", b"{}", false);
}

#[test]
fn a_checkpoint_is_fetched_checked_listed_and_never_fetched_again() {
    let hub = Hub::start();
    checkpoint(&hub);
    let world = world(&hub, MANIFEST);
    let ended = world.good(&["run", "m"]);
    ended.shows("5 files, ").shows("all as they should be");
    for name in ["config.json", "model-1.safetensors", "model-2.safetensors", "original/params.json"] {
        assert_eq!(fs::read(world.path("latest/weights").join(name)).unwrap(), hub.bytes(name), "{name}");
    }
    let list: serde_json::Value = serde_json::from_str(&world.read("latest/weights/weights.json")).unwrap();
    assert_eq!((&list["repository"], &list["commit"]), (&"owner/model".into(), &hub::COMMIT.into()));
    let large = list["files"].as_array().unwrap().iter().find(|file| file["path"] == "model-1.safetensors").unwrap();
    assert_eq!(large["sha256"], sha256(&hub.bytes("model-1.safetensors")));
    // Nothing of ours is left among the files, and the token is nowhere.
    assert!(!world.path("latest/weights/.regatta-weights").exists());
    assert!(hub.tokens().iter().all(|token| token == TOKEN), "{:?}", hub.tokens());
    for item in walkdir::WalkDir::new(world.path("")).into_iter().flatten().filter(|item| item.file_type().is_file()) {
        let text = fs::read(item.path()).unwrap();
        assert!(!String::from_utf8_lossy(&text).contains(TOKEN), "{}", item.path().display());
    }
    assert!(!format!("{}{}", ended.stdout, ended.stderr).contains(TOKEN));

    let requests = hub.requests().len();
    // The hub is not queried: what the revision meant is reported.
    for words in [["run", "m"], ["plan", "m"]] {
        world
            .good(&words)
            .shows("`revision: main` is taken from the cache at commit c0ffee")
            .shows("; `--force weights`");
    }
    // Another token is no other checkpoint.
    let mut world = world;
    world.env("HF_TOKEN", "another");
    world.good(&["run", "m", "--verbose"]).shows("cached");
    assert_eq!(hub.requests().len(), requests, "{:?}", hub.requests());
}

#[test]
fn a_cut_connection_goes_on_where_it_was_cut() {
    let hub = Hub::start();
    checkpoint(&hub);
    hub.play("model-1.safetensors", Trick::CutAt(100_000));
    let world = world(&hub, MANIFEST);
    world.good(&["run", "m"]);
    let gets: Vec<String> = hub.requests().into_iter().filter(|line| line.contains("model-1.safetensors")).collect();
    assert_eq!(gets, ["GET model-1.safetensors", "GET model-1.safetensors from 100000"]);
    assert_eq!(fs::read(world.path("latest/weights/model-1.safetensors")).unwrap(), hub.bytes("model-1.safetensors"));
}

#[test]
fn a_killed_download_goes_on_in_the_next_run() {
    let hub = Hub::start();
    checkpoint(&hub);
    hub.play("model-1.safetensors", Trick::StallAt(100_000));
    let world = world(&hub, MANIFEST);
    let mut child = world.start(&["run", "m"]);
    // What the client has not written down yet could not be gone on with.
    let is_written = || {
        let files = walkdir::WalkDir::new(world.path(".regatta/out")).into_iter().flatten();
        let mut sizes =
            files.filter(|item| item.file_name() == "model-1.safetensors").filter_map(|item| item.metadata().ok());
        sizes.any(|meta| meta.len() == 100_000)
    };
    until("a part to be there", || hub.has_stalled() && hub.sent("original/params.json") && is_written());
    child.kill().expect("kill");
    let _ = child.wait();
    let before = hub.requests().len();
    world.good(&["run", "m"]);
    let again: Vec<String> = hub.requests().split_off(before);
    let of_it: Vec<&String> = again.iter().filter(|line| line.contains("model-1")).collect();
    assert_eq!(of_it, ["GET model-1.safetensors from 100000"], "{again:?}");
}

#[test]
fn a_flipped_byte_is_seen() {
    let hub = Hub::start();
    checkpoint(&hub);
    // Once: fetched again, and nothing more to say.
    hub.play("model-2.safetensors", Trick::Flip { times: 1 });
    world(&hub, MANIFEST).good(&["run", "m"]);
    // Always: told, and only this file is missing afterwards.
    hub.play("model-2.safetensors", Trick::Flip { times: 2 });
    let world = world(&hub, MANIFEST);
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1);
    ended.shows("model-2.safetensors does not match what the hub reports").shows("expected sha256");
    let before = hub.requests().len();
    world.good(&["run", "m"]);
    let again = hub.requests().split_off(before);
    assert!(again.iter().any(|line| line == "GET model-2.safetensors"), "{again:?}");
}

#[test]
fn what_to_do_without_the_right_to_have_it_is_shown() {
    let hub = Hub::start();
    checkpoint(&hub);
    let page = format!("accept the license at {}/owner/model", hub.url());
    hub.refuse(403, "GatedRepo", "Access to model owner/model is restricted");
    let ended = world(&hub, MANIFEST).regatta(&["run", "m"]);
    assert_eq!(ended.code, 1);
    ended.shows(&page).shows("its owner has no access");
    hub.refuse(401, "", "Invalid credentials in Authorization header");
    world(&hub, MANIFEST).regatta(&["run", "m"]).shows("the hub does not accept the token").shows("settings/tokens");
    hub.refuse(401, "GatedRepo", "");
    let mut without = world(&hub, MANIFEST);
    without.env("HF_TOKEN", "");
    without.regatta(&["run", "m"]).shows("but no token is set").shows(&page).shows("set HF_TOKEN");
    hub.refuse(404, "RepoNotFound", "");
    world(&hub, MANIFEST).regatta(&["run", "m"]).shows("not found");
}

#[test]
fn only_what_is_wanted_is_fetched() {
    let hub = Hub::start();
    checkpoint(&hub);
    let some = "stages:\n  weights:\n    weights: { hf: owner/model, include: ['*.json'], exclude: ['original/*'] }\n";
    world(&hub, some).good(&["run", "m"]).shows("2 files");
    assert!(!hub.requests().iter().any(|line| line.contains("safetensors ") || line.contains("original")));
    let half = "stages:\n  weights:\n    weights: { hf: owner/model, exclude: [model-2.safetensors] }\n";
    world(&hub, half).regatta(&["run", "m"]).shows("names model-2.safetensors, which is not there");
    let none = "stages:\n  weights:\n    weights: { hf: owner/model, include: ['*.bin'] }\n";
    world(&hub, none).regatta(&["run", "m"]).shows("none of its files is selected").shows("it has config.json");
}

#[test]
fn a_folder_is_linked_once_it_is_whole() {
    let world = World::with("stages:\n  weights:\n    weights: { path: model }\n");
    let write = |name: &str, bytes: &[u8]| fs::write(world.path("model").join(name), bytes).unwrap();
    fs::create_dir_all(world.path("model/.cache")).unwrap();
    write(".cache/x", b"x");
    write("config.json", b"{}");
    write(
        "model.safetensors.index.json",
        br#"{"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}"#,
    );
    let whole = shard(1_000);
    write("model-1.safetensors", &whole[..900]);
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1);
    // Everything at once.
    ended.shows("names model-2.safetensors, which is not there").shows("model-1.safetensors has 900 bytes, and");
    write("model-1.safetensors", &whole);
    write("model-2.safetensors", &whole);
    world.good(&["run", "m"]).shows("4 files");
    assert_eq!(fs::read(world.path("latest/weights/model-2.safetensors")).unwrap(), whole);
    assert!(world.path("latest/weights/model-2.safetensors").is_symlink());
    let before = world.read("latest/weights/weights.json");
    assert!(before.contains(&sha256(&whole)) && !before.contains(".cache"), "{before}");
    world.good(&["run", "m", "--verbose"]).shows("cached");
    // Other bytes of the same length are other weights.
    let mut other = whole.clone();
    *other.last_mut().unwrap() ^= 1;
    write("model-2.safetensors", &other);
    world.good(&["run", "m"]);
    assert!(world.read("latest/weights/weights.json").contains(&sha256(&other)));
}

#[test]
fn a_folder_has_the_same_digest_wherever_it_is_and_its_links_follow_the_project() {
    let body = "stages:\n  weights:\n    weights: { path: model }\n  size: { shell: \"wc -c < {{ stages.weights.out }}/model.safetensors > out\" }\n";
    let worlds = [World::with(body), World::with(body)];
    for world in &worlds {
        fs::create_dir_all(world.path("model")).unwrap();
        fs::write(world.path("model/config.json"), b"{}").unwrap();
        fs::write(world.path("model/model.safetensors"), shard(1_000)).unwrap();
        world.good(&["run", "m"]);
    }
    assert_eq!(worlds[0].read("regatta.lock"), worlds[1].read("regatta.lock"));
    let now = World::new();
    for name in [".regatta", "latest", "manifests", "model", "regatta.lock"] {
        fs::rename(worlds[0].path(name), now.path(name)).unwrap();
    }
    let moved = now.good(&["run", "m"]);
    moved.shows("where this project was before");
    assert_eq!(moved.ran(), ["weights"]);
    let link = fs::read_link(now.path("latest/weights/model.safetensors")).unwrap();
    assert_eq!(link, fs::canonicalize(now.path("model/model.safetensors")).unwrap());
}

#[test]
fn what_cannot_be_is_said_before_anything_starts() {
    let world = World::with(
        "stages:\n  a: { weights: {} }\n  b: { weights: { hf: x/y, path: z } }\n  c: { weights: { hf: ../x } }\n  d: { weights: { path: m, revision: v1 } }\n  e: { weights: { hf: x/y, include: ['[']  } }\n",
    );
    let ended = world.regatta(&["check", "m"]);
    assert_eq!(ended.code, 2);
    for text in [
        "needs `hf` or `path`",
        "cannot be combined with `hf`",
        "must be the name of a repository",
        "weights.revision` has no effect",
        "is not a glob",
    ] {
        ended.shows(text);
    }
}

#[test]
fn doctor_counts_what_is_still_to_be_fetched() {
    let hub = Hub::start();
    checkpoint(&hub);
    hub.file("original/large.bin", &vec![0; 5_000_000], true);
    let world = world(&hub, MANIFEST);
    let disk = |world: &World| -> serde_json::Value {
        let report: serde_json::Value = serde_json::from_str(&world.good(&["doctor", "m", "--json"]).stdout).unwrap();
        report["findings"].as_array().unwrap().iter().find(|one| one["about"] == "disk").unwrap().clone()
    };
    let finding = disk(&world);
    assert_eq!(finding["needed"], "5.3 MB for weights, at most", "{finding}");
    assert_eq!(finding["by"][0], "weights: owner/model, 5.3 MB");
    world.good(&["run", "m"]);
    assert_eq!(disk(&world)["needed"], serde_json::Value::Null, "they are here");
    // Who does not answer is told with what helps, and is no reason to stop.
    let other = self::world(&hub, MANIFEST);
    hub.refuse(401, "GatedRepo", "");
    let ended = other.good(&["doctor", "m", "--color", "never"]);
    ended.shows("owner/model").shows("size not known").shows("accept the license");
}
