//! The official submission checker beside our gate, where somebody has it.
//!
//! ```text
//! MLPERF_INFERENCE=…/inference MLPERF_PYTHON=…/python UPDATE=1 cargo test --test it -- --ignored submission::official
//! ```

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use pretty_assertions::assert_eq;
use regatta::mlperf::Official;

use super::broken::{BROKEN, OFFICIAL};
use super::fixture::good;

/// Its output on a submission. None: there is no checker here.
pub(super) fn ask(root: &Path, round: &str) -> Option<String> {
    let clone = std::env::var_os("MLPERF_INFERENCE")?;
    let python = std::env::var_os("MLPERF_PYTHON").unwrap_or_else(|| "python3".into());
    let ended = Command::new(python)
        .arg(Path::new(&clone).join("tools/submission/submission_checker/main.py"))
        .args(["--version", round, "--csv", "official.csv", "--input", "."])
        .current_dir(root)
        .output()
        .unwrap();
    Some(String::from_utf8_lossy(&ended.stderr).into_owned() + &String::from_utf8_lossy(&ended.stdout))
}

#[test]
#[ignore = "needs a clone of mlcommons/inference, named by MLPERF_INFERENCE"]
fn it_passes_the_good_one_and_says_of_the_broken_ones_what_stands_in_the_table() {
    let folder = tempfile::tempdir().unwrap();
    good(folder.path());
    let said = ask(folder.path(), "v6.1").expect("MLPERF_INFERENCE names a clone of mlcommons/inference");
    assert!(Official::of(&said).passed, "{said}");
    let mut told = String::new();
    for (name, spoil) in BROKEN {
        let folder = tempfile::tempdir().unwrap();
        let submission = good(folder.path());
        spoil(&submission);
        let said = ask(folder.path(), "v6.1").unwrap();
        let official = Official::of(&said);
        let first = official.errors().find(|error| !error.contains("NoResults") && !error.starts_with("SUMMARY"));
        let word = match (official.passed, said.contains("SUMMARY: ")) {
            (true, _) => "passes".to_owned(),
            (_, true) => format!("fails: {}", first.unwrap_or("no reason given").replace("./", "")),
            _ => format!("crashes: {}", said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default()),
        };
        let _ = writeln!(told, "{name} | {}", word.chars().take(160).collect::<String>());
    }
    if std::env::var_os("UPDATE").is_some() {
        fs::write(OFFICIAL, &told).unwrap();
    }
    assert_eq!(told, fs::read_to_string(OFFICIAL).unwrap());
}
