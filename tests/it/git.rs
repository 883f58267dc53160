//! Clones at a revision.

use std::fs;
use std::path::Path;
use std::process::Command;

use regatta::event::FailureKind;
use serde_json::json;
use tempfile::TempDir;

use crate::stages::Bench;

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
async fn a_tag_a_branch_and_a_commit_are_found() {
    let origin = Origin::new();
    let commit = origin.git(&["rev-parse", "v1"]);
    let url = format!("file://{}", origin.path().display());
    for (rev, text) in [("v1", "one\n"), ("main", "two\n"), (commit.as_str(), "one\n"), (&commit[..8], "one\n")] {
        let bench = Bench::new();
        bench.perform(&json!({"git": {"url": url, "rev": rev}})).await.unwrap();
        assert_eq!(bench.out("file"), text, "{rev}");
        assert_eq!(bench.notices().len(), usize::from(rev == "main"), "only a branch moves");
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
    let failure = bench.perform(&json!({"git": {"url": "/no/such/repository", "rev": "v1"}})).await.unwrap_err();
    assert!(failure.tail.iter().any(|line| line.contains("/no/such/repository")), "{:?}", failure.tail);
}
