//! The reference of the manifest language: `explain KEY`, the generated page, and its examples.

use std::fs;
use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;
use regatta::manifest::ManifestKey;
use regatta::manifest::model::Action;
use serde_json::Value;

use crate::world::World;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/manual")
}

#[test]
fn the_reference_in_the_manual_is_generated_from_the_types() {
    let (path, page) = (folder().join("reference/keys.md"), ManifestKey::root().page());
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &page).expect("the page is written");
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, page, "run `UPDATE=1 cargo test --test it reference` and read what changed");
}

#[test]
fn every_action_has_an_example_that_checks_and_plans() {
    let root = ManifestKey::root();
    let stages = root.find("stages").expect("stages");
    let world = World::new();
    for action in Action::KEYS {
        let key = root.find(&format!("stages.{action}")).expect(action);
        assert!(key.is_action() && stages.keys.iter().any(|one| one.path == key.path), "{action}");
        let example =
            key.example().unwrap_or_else(|| panic!("tests/manual/reference/examples/{action}.yaml is missing"));
        world.file(&format!("manifests/{action}.yaml"), example);
        world.good(&["check", action]);
        let plan: Value = serde_json::from_str(&world.good(&["plan", action, "--json"]).stdout).expect("JSON");
        let tasks = plan["tasks"].as_array().expect("tasks");
        assert!(!tasks.is_empty() && example.contains(&format!("    {action}:")), "{action}: {plan:#}");
    }
    assert_eq!(fs::read_dir(folder().join("reference/examples")).expect("examples").count(), Action::KEYS.len());
}

#[test]
fn a_key_is_explained_with_type_default_values_and_the_keys_below() {
    let world = World::new();
    let explained = |topic: &str| world.good(&["explain", topic]).stdout;
    let target = explained("stages.bench.target");
    assert!(target.starts_with("stages.bench.target: text\n"), "{target}");
    assert!(target.contains("required    yes") && target.contains("expression  allowed"), "{target}");
    // As in a manifest, with the stage's name; and without `stages`.
    assert_eq!(explained("stages.benchmark.bench.target"), target);
    assert_eq!(explained("bench.target"), target);
    let bench = explained("stages.bench");
    for text in ["scenario", "required", "[60s]", "Example\n  regatta: 1\n  name: bench\n"] {
        assert!(bench.contains(text), "{text} is not in\n{bench}");
    }
    let scenario = explained("stages.bench.scenario");
    assert!(scenario.contains("Values\n  offline ") && scenario.contains("single_stream"), "{scenario}");
    let serve = explained("serve");
    assert!(serve.contains("One of\n  simulator") && serve.contains("trtllm_serve"), "{serve}");
    assert!(explained("stages").contains("Actions\n") && explained("params.rate.number").contains("params.number"));
    assert!(explained("lag").contains("`queue_client`") && explained("core_wait").contains("1 % of the time"));
    let key: Value = serde_json::from_str(&world.good(&["explain", "bench.repeat", "--json"]).stdout).expect("JSON");
    assert_eq!((&key["path"], &key["types"][0]), (&"stages.bench.repeat".into(), &"integer 1–1000".into()));
}

#[test]
fn an_unknown_topic_has_a_hint_over_metrics_and_keys() {
    let world = World::new();
    for (topic, hint) in [
        ("tttft", "did you mean `ttft`?"),
        ("stages.bench.tarfet", "did you mean `stages.bench.target`?"),
        ("stages.bnech.target", "did you mean `stages.bench.target`?"),
        ("bench.tarfet", "did you mean `bench.target`?"),
        ("max_in_flight", "there is: `stages.bench.max_in_flight`"),
        ("stages.shel", "did you mean `stages.shell`?"),
        ("xyzzy", "`regatta explain` lists the metrics"),
    ] {
        let ended = world.regatta(&["explain", topic]);
        assert_eq!(ended.code, 2, "{ended:?}");
        ended.shows(&format!("no metric or key is called `{topic}`")).shows(hint);
    }
}

/// Every key has a place of its own, and a text where its name does not say everything.
#[test]
fn every_key_is_in_the_reference_once() {
    let root = ManifestKey::root();
    let mut paths: Vec<&str> = root.all().iter().map(|key| key.path.as_str()).collect();
    let all = paths.len();
    paths.sort_unstable();
    paths.dedup();
    assert_eq!(paths.len(), all);
    assert!(all > 300, "{all}");
    for key in root.all() {
        assert!(!key.types.is_empty(), "{} has no type", key.path);
        assert!(
            key.path.is_empty() || root.find(&key.path).is_some_and(|found| found.path == key.path),
            "{}",
            key.path
        );
    }
}
