//! Clones at a revision.

use std::fs;
use std::path::Path;
use std::process::Command;

use regatta::event::FailureKind;
use serde_json::json;
use tempfile::TempDir;

use crate::stages::Bench;
use crate::world::{Ended, World};

/// A repository with the tag `v1`, the branches `main` and `side`, and a conflict between `side` and `main`.
struct Origin(TempDir);

impl Origin {
    fn new() -> Self {
        let origin = Self(tempfile::tempdir().unwrap());
        origin.git(&["init", "-q", "-b", "main", "."]);
        origin.commit("file", "one\n");
        origin.git(&["tag", "v1"]);
        origin.git(&["checkout", "-q", "-b", "side"]);
        origin.commit("extra", "extra\n");
        origin.commit("file", "side\n");
        origin.git(&["checkout", "-q", "main"]);
        origin.commit("file", "two\n");
        origin
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn git(&self, words: &[&str]) -> String {
        let output = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"])
            .args(words)
            .current_dir(self.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn commit(&self, file: &str, text: &str) {
        fs::write(self.path().join(file), text).unwrap();
        self.git(&["add", file]);
        self.git(&["commit", "-q", "-m", file]);
    }
}

#[tokio::test]
async fn a_url_that_looks_like_an_option_runs_nothing() {
    let origin = Origin::new();
    let proof = origin.path().join("proof");
    for key in ["url", "rev"] {
        let bench = Bench::new();
        let mut git = json!({"url": origin.path(), "rev": "main"});
        git[key] = format!("--upload-pack=touch {}", proof.display()).into();
        let failure = bench.perform(&json!({ "git": git })).await.unwrap_err();
        assert!(failure.what.ends_with("is not a URL, a revision or a commit"), "{}", failure.what);
        assert!(!proof.exists());
    }
}

#[tokio::test]
async fn a_tag_a_branch_and_a_commit_are_found() {
    let origin = Origin::new();
    let commit = origin.git(&["rev-parse", "v1"]);
    let url = format!("file://{}", origin.path().display());
    for (rev, text) in [("v1", "one\n"), ("main", "two\n"), (commit.as_str(), "one\n"), (&commit[..8], "one\n")] {
        let bench = Bench::new();
        bench.perform(&json!({"git": {"url": url, "rev": rev}})).await.unwrap();
        assert_eq!(bench.out("file"), text, "{rev}");
        assert_eq!(bench.notices(), Vec::<String>::new(), "what was just cloned is not stale");
        assert_eq!(bench.out(".regatta-revision").trim(), origin.git(&["rev-parse", rev]));
    }
}

#[tokio::test]
async fn cherry_picks_give_the_same_commit_every_time() {
    let origin = Origin::new();
    let pick = origin.git(&["rev-parse", "side~1"]);
    let mut heads = Vec::new();
    for _ in 0..2 {
        let bench = Bench::new();
        bench.perform(&json!({"git": {"url": origin.path(), "rev": "v1", "cherry_picks": [pick]}})).await.unwrap();
        assert_eq!((bench.out("file"), bench.out("extra")), ("one\n".to_owned(), "extra\n".to_owned()));
        heads.push(bench.out(".regatta-revision"));
    }
    assert_eq!(heads[0], heads[1]);
}

#[tokio::test]
async fn a_conflict_names_its_files() {
    let origin = Origin::new();
    let commit = origin.git(&["rev-parse", "main"]);
    let bench = Bench::new();
    let pick = json!({"url": origin.path(), "commit": origin.git(&["rev-parse", "side"])});
    let failure = bench
        .perform(&json!({"git": {"url": origin.path(), "rev": commit, "cherry_picks": [pick]}}))
        .await
        .unwrap_err();
    assert!(failure.what.ends_with("cannot be applied: conflicts in file"), "{}", failure.what);
}

#[tokio::test]
async fn submodules_are_fetched() {
    let inner = Origin::new();
    let outer = Origin::new();
    outer.git(&["submodule", "--quiet", "add", &inner.path().display().to_string(), "inner"]);
    outer.git(&["commit", "-q", "-m", "inner"]);
    let bench = Bench::new();
    bench.perform(&json!({"git": {"url": outer.path(), "rev": "main", "submodules": true}})).await.unwrap();
    assert_eq!(bench.out("inner/file"), "two\n");
    assert_eq!(bench.notices(), Vec::<String>::new());
    let without = Bench::new();
    without.perform(&json!({"git": {"url": outer.path(), "rev": "main"}})).await.unwrap();
    assert!(without.notices().iter().any(|notice| notice.contains("`submodules: true` fetches them")));
}

#[tokio::test]
async fn a_second_try_continues_in_the_same_folder() {
    let origin = Origin::new();
    let bench = Bench::new();
    let action = json!({"git": {"url": origin.path(), "rev": origin.git(&["rev-parse", "v1"])}});
    bench.perform(&action).await.unwrap();
    // What a killed try may leave: a changed file, a stray file, a lock.
    fs::write(bench.path("out/file"), "half").unwrap();
    fs::write(bench.path("out/stray"), "").unwrap();
    fs::write(bench.path("out/.git/index.lock"), "").unwrap();
    // Nothing needs to be fetched again, so the origin may be gone.
    drop(origin);
    bench.perform(&action).await.unwrap();
    assert_eq!(bench.out("file"), "one\n");
    assert!(!bench.path("out/stray").exists());
}

#[tokio::test]
async fn what_is_not_there_is_named() {
    let origin = Origin::new();
    let bench = Bench::new();
    let failure = bench.perform(&json!({"git": {"url": origin.path(), "rev": "v9"}})).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Refused);
    assert!(failure.what.starts_with("there is no tag, branch or commit `v9` in /"), "{}", failure.what);
    let failure = bench.perform(&json!({"git": {"url": origin.path(), "rev": "deadbeef"}})).await.unwrap_err();
    assert!(failure.what.starts_with("there is no commit `deadbeef` in /"), "{}", failure.what);
    let failure = bench.perform(&json!({"git": {"url": "/no/such/repository", "rev": "v1"}})).await.unwrap_err();
    assert!(failure.tail.iter().any(|line| line.contains("/no/such/repository")), "{:?}", failure.tail);
}

/// A project with a clone of `rev` and a stage that reads it.
fn cloned(origin: &Origin, rev: &str) -> World {
    let world = World::new();
    clone_of(&world, origin, rev);
    world
}

fn clone_of(world: &World, origin: &Origin, rev: &str) {
    let url = format!("file://{}", origin.path().display());
    let stage = format!("  src: {{ git: {{ url: \"{url}\", rev: {rev} }} }}\n");
    world.manifest("m", &format!("stages:\n{stage}  use: {{ shell: 'cp {{{{ stages.src.out }}}}/file .' }}\n"));
}

/// What was reported of the clone.
fn of_source(ended: &Ended) -> Vec<String> {
    let lines = ended.stdout.lines().chain(ended.stderr.lines());
    lines.filter_map(|line| Some(line[line.find(" is taken from the cache")?..].to_owned())).collect()
}

fn short(origin: &Origin, rev: &str) -> String {
    origin.git(&["rev-parse", rev])[..12].to_owned()
}

#[test]
fn every_run_and_plan_reports_which_commit_of_a_branch_is_cached() {
    let origin = Origin::new();
    let world = cloned(&origin, "main");
    assert_eq!(of_source(&world.good(&["run", "m"])), Vec::<String>::new(), "it was just cloned");
    let old = short(&origin, "main");
    let cached = format!(" is taken from the cache at commit {old}");
    // A run with nothing to do, one with something, and a plan of each.
    let runs: [&[&str]; 3] = [&["run", "m"], &["run", "m", "--force", "use"], &["run", "m"]];
    let plans: [&[&str]; 2] = [&["plan", "m"], &["plan", "m", "--force", "use"]];
    let all_report = |words: &[&[&str]], rest: &str| {
        for words in words {
            assert_eq!(of_source(&world.good(words)), [format!("{cached}{rest}")], "{words:?}");
        }
    };
    all_report(&runs, ", as it is in the remote");
    all_report(&plans, "; `--force src` fetches it again");
    origin.commit("file", "three\n");
    let new = short(&origin, "main");
    all_report(&runs, &format!(", and has moved to {new} in the remote; `--force src` fetches it"));
    all_report(&plans, "; `--force src` fetches it again");
    world.good(&["run", "m", "--force", "src"]);
    assert_eq!(world.read("latest/use/file"), "three\n");
    assert_eq!(
        of_source(&world.good(&["run", "m"])),
        [format!(" is taken from the cache at commit {new}, as it is in the remote")]
    );
    origin.git(&["checkout", "-q", "--detach"]);
    origin.git(&["branch", "-q", "-D", "main"]);
    assert_eq!(of_source(&world.good(&["run", "m"])).len(), 1);
    world.good(&["run", "m"]).shows("and the remote no longer has it");
    // No network: the run goes on.
    drop(origin);
    world.good(&["run", "m"]).shows("; the remote did not answer; `--force src` fetches it again");
}

#[test]
fn a_tag_is_reported_where_it_moved_and_a_commit_never() {
    let origin = Origin::new();
    origin.git(&["tag", "-a", "-m", "annotated", "v2", "main"]);
    let world = World::new();
    for tag in ["v1", "v2"] {
        clone_of(&world, &origin, tag);
        world.good(&["run", "m"]);
        let old = short(&origin, &format!("{tag}^{{commit}}"));
        for words in [["run", "m"], ["plan", "m"]] {
            assert_eq!(of_source(&world.good(&words)), Vec::<String>::new(), "{tag}: it has not moved");
        }
        origin.git(&["tag", "-f", "-a", "-m", "moved", tag, "side"]);
        let new = short(&origin, "side");
        for words in [&["run", "m"][..], &["run", "m", "--force", "use"], &["run", "m"]] {
            let rest = format!(", and has moved to {new} in the remote; `--force src` fetches it");
            assert_eq!(
                of_source(&world.good(words)),
                [format!(" is taken from the cache at commit {old}{rest}")],
                "{tag}"
            );
        }
    }
    clone_of(&world, &origin, &origin.git(&["rev-parse", "main"]));
    // The same files as `v2` had: the output of that is kept, and what it was made from is not what this one is made from.
    world.good(&["run", "m"]);
    origin.commit("file", "three\n");
    for words in [["run", "m"], ["plan", "m"]] {
        assert_eq!(of_source(&world.good(&words)), Vec::<String>::new());
    }
    clone_of(&world, &origin, "v1");
    drop(origin);
    assert_eq!(of_source(&world.good(&["run", "m"])), Vec::<String>::new(), "no network, nothing to report of a tag");
}
