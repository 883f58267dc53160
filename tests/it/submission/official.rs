//! The official submission checker beside our submission check, where somebody has it.
//!
//! ```text
//! MLPERF_INFERENCE=…/inference MLPERF_PYTHON=…/python UPDATE=1 cargo test --test it -- --ignored submission::official
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pretty_assertions::assert_eq;
use regatta::mlperf::{self, Official};
use regatta::rules::Round;

use super::broken::{BROKEN, OFFICIAL, ROUNDS, is_of};
use super::fixture::{good_of, write};
use crate::loadgen;
use crate::world::World;

/// The revision whose checker judged each round: the last one before its results were published.
const REVISIONS: [(&str, &str); 3] =
    [("v5.1", "v5.1.1"), ("v6.0", "175ea7ba24a826946458f72ec4a2221215f52802"), ("v6.1", "b66003e1")];

/// Where the checker is since v6.0, and before.
const CHECKERS: [&str; 2] = ["tools/submission/submission_checker/main.py", "tools/submission/submission_checker.py"];

/// The checker of a round, written out of the clone. None: there is no clone here.
pub(super) fn checker(round: &str, to: &Path) -> Option<PathBuf> {
    let clone = std::env::var_os("MLPERF_INFERENCE")?;
    let (_, revision) = REVISIONS.into_iter().find(|(name, _)| *name == round)?;
    let git = |arguments: &[&str]| {
        let ended = Command::new("git").arg("-C").arg(&clone).args(arguments).output().unwrap();
        assert!(ended.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&ended.stderr));
        ended.stdout
    };
    let names = git(&["ls-tree", "-r", "--name-only", revision, "tools/submission"]);
    let names = String::from_utf8(names).unwrap();
    let is_code = |name: &&str| {
        Path::new(name).extension().is_some_and(|kind| kind == "py") && !name.contains("directory_structure_samples")
    };
    for name in names.lines().filter(is_code) {
        write(to.join(name), git(&["cat-file", "blob", &format!("{revision}:{name}")]));
    }
    CHECKERS.iter().map(|name| to.join(name)).find(|path| path.is_file())
}

/// What a checker prints of a submission.
fn printed(checker: &Path, root: &Path, round: &str) -> String {
    let table = tempfile::tempdir().unwrap();
    printed_with(checker, root, round, &table.path().join("official.csv"), &[])
}

/// The same with more arguments, and the table of results at `csv`.
fn printed_with(checker: &Path, root: &Path, round: &str, csv: &Path, more: &[&str]) -> String {
    let python = std::env::var_os("MLPERF_PYTHON").unwrap_or_else(|| "python3".into());
    let ended = Command::new(python)
        .arg(checker)
        .args(["--version", round, "--input", ".", "--csv"])
        .arg(csv)
        .args(more)
        // Else the order of its sets, and so of its messages, is another each time.
        .env("PYTHONHASHSEED", "0")
        .current_dir(root)
        .output()
        .unwrap();
    String::from_utf8_lossy(&ended.stderr).into_owned() + &String::from_utf8_lossy(&ended.stdout)
}

/// The output of a round's checker on a submission. None: there is no checker here.
pub(super) fn check(root: &Path, round: &str) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    checker(round, folder.path()).map(|checker| printed(&checker, root, round))
}

/// The same without the Power WG's own checker, which wants the sessions of a real meter.
pub(super) fn check_without_power_rules(root: &Path, round: &str) -> Option<String> {
    let (folder, table) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let csv = table.path().join("official.csv");
    checker(round, folder.path()).map(|checker| printed_with(&checker, root, round, &csv, &["--skip-power-check"]))
}

/// Of each mutation in one round.
fn words(round: &Round) -> String {
    let folder = tempfile::tempdir().unwrap();
    let checker = checker(&round.name, folder.path()).expect("MLPERF_INFERENCE names a clone of mlcommons/inference");
    let whole = tempfile::tempdir().unwrap();
    let output = printed(&checker, good_of(round, whole.path()).0.as_path(), &round.name);
    assert!(Official::parse(&output).passed, "{}: {output}", round.name);
    let mut lines = String::new();
    for (name, spoil) in BROKEN.iter().filter(|(name, _)| is_of(name, &round.name)) {
        let folder = tempfile::tempdir().unwrap();
        let submission = good_of(round, folder.path());
        spoil(&submission);
        // The Power WG's own checker wants the sessions of a real meter.
        let more: &[&str] = if name.starts_with("power") { &["--skip-power-check"] } else { &[] };
        let table = tempfile::tempdir().unwrap();
        let output = printed_with(&checker, folder.path(), &round.name, &table.path().join("official.csv"), more);
        let official = Official::parse(&output);
        let first = official.errors().find(|error| !error.contains("NoResults") && !error.starts_with("SUMMARY"));
        let word = match (official.passed, output.contains("SUMMARY: ")) {
            (true, _) => "passes".to_owned(),
            (_, true) => format!("fails: {}", first.unwrap_or("no reason given").replace("./", "")),
            _ => format!("crashes: {}", output.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default()),
        };
        let _ = writeln!(lines, "{} {name} | {}", round.name, word.chars().take(160).collect::<String>());
    }
    lines
}

#[test]
#[ignore = "needs a clone of mlcommons/inference, named by MLPERF_INFERENCE"]
fn it_passes_the_good_one_and_says_of_the_broken_ones_what_stands_in_the_table() {
    let rounds = ROUNDS.map(|round| Round::named(round).unwrap());
    let table: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = rounds.iter().map(|round| scope.spawn(|| words(round))).collect();
        threads.into_iter().map(|round| round.join().unwrap()).collect()
    });
    let table = table.concat();
    if std::env::var_os("UPDATE").is_some() {
        fs::write(OFFICIAL, &table).unwrap();
    }
    assert_eq!(table, fs::read_to_string(OFFICIAL).unwrap());
}

/// The watts of a result with power are those in the official checker's table.
#[test]
#[ignore = "needs a clone of mlcommons/inference, named by MLPERF_INFERENCE"]
fn the_average_power_is_that_of_the_official_checker() {
    for round in ROUNDS.map(|round| Round::named(round).unwrap()) {
        let to = tempfile::tempdir().unwrap();
        let checker = checker(&round.name, to.path()).expect("MLPERF_INFERENCE names a clone of mlcommons/inference");
        let folder = tempfile::tempdir().unwrap();
        let submission = good_of(&round, folder.path());
        submission.sampled("run_1", |text| text.replacen("Watts,4001.000", "Watts,0.000", 100));
        let csv = to.path().join("official.csv");
        let output = printed_with(&checker, folder.path(), &round.name, &csv, &["--skip-power-check"]);
        assert!(Official::parse(&output).passed, "{}: {output}", round.name);
        let examined = mlperf::examine(folder.path(), &round);
        let watts = examined.results.iter().find_map(|result| result.power.as_ref()).unwrap().watts;
        let table = fs::read_to_string(&csv).unwrap();
        let is_it =
            |field: &str| field.trim_matches('"').parse::<f64>().is_ok_and(|number| (number - watts).abs() < 1e-6);
        assert!(table.split([',', '\n']).any(is_it), "{}: {watts} is not in\n{table}", round.name);
    }
}

/// The golden table of what the official checkers refuse of a package that the shipped flow made on the simulator.
const REHEARSED: &str = "tests/golden/mlperf/official-rehearsal.txt";

/// What made-up data and shortened runs lead to, as the checkers print it. Nothing else of a package may be refused.
const OF_A_REHEARSAL: [(&str, &str); 10] = [
    ("performance_sample_count, found", "the data set is made up, of fewer samples"),
    ("Required minimum samples per query not met", "the data set is made up, of fewer samples"),
    ("Test duration less than 600s", "the run is shortened"),
    ("accurcy run does not cover all dataset", "the data set is made up, of fewer samples"),
    ("needs to be", "the data set is made up, of fewer samples"),
    ("accuracy not valid", "follows from the others"),
    ("has issues", "follows from the others"),
    ("not met", "answers to made-up samples"),
    ("does not have all required scenarios", "follows from the others"),
    ("Checks failed for", "follows from the others"),
];

/// A literal copy of a package that `regatta run llama2-70b package=true` made, without anything beside `closed/`: the checker of each round
/// refuses what is made up, and nothing else.
#[test]
#[ignore = "needs a clone of mlcommons/inference, named by MLPERF_INFERENCE, and MLPerf's LoadGen: pip, g++ and the network"]
fn of_a_package_of_the_shipped_flow_it_refuses_only_what_is_made_up() {
    let mut table =
        String::from("# What the official checker of each round refuses of a rehearsed package, how often, and why.\n");
    // One round of each layout.
    for round in ["v5.1", "v6.1"] {
        let mut world = World::new();
        world.env("REGATTA_STORE", loadgen::store());
        let of_round = format!("round={round}");
        let arguments = ["run", "llama2-70b", "package=true", "--rehearse", "scenarios=offline,interactive", &of_round];
        let short = ["samples=128", "duration=2s", "target_qps=40", "offline_expected_qps=40", "documentation=texts"];
        world.file("texts/calibration.md", "nothing is calibrated: simulated\n");
        world.good(&[&arguments[..], &short].concat());
        let clean = tempfile::tempdir().unwrap();
        for item in walkdir::WalkDir::new(world.path("latest/package/closed")).into_iter().flatten() {
            if item.file_type().is_file() {
                let below = item.path().strip_prefix(world.path("latest/package")).unwrap();
                write(clean.path().join(below), fs::read(item.path()).unwrap());
            }
        }
        let output = check(clean.path(), round).expect("MLPERF_INFERENCE names a clone of mlcommons/inference");
        let official = Official::parse(&output);
        assert!(output.contains("SUMMARY: ") && !official.passed, "{round}: {output}");
        let mut counts: BTreeMap<(&str, &str), u32> = BTreeMap::new();
        let mut others = Vec::new();
        for error in official.errors().filter(|error| !error.contains("NoResults") && !error.starts_with("SUMMARY")) {
            match OF_A_REHEARSAL.iter().find(|(text, _)| error.contains(text)) {
                Some(reason) => *counts.entry(*reason).or_default() += 1,
                None => others.push(error.to_owned()),
            }
        }
        assert_eq!(others, Vec::<String>::new(), "{round}: {output}");
        for ((text, why), count) in counts {
            let _ = writeln!(table, "{round} {count} × {text} | {why}");
        }
    }
    if std::env::var_os("UPDATE").is_some() {
        fs::write(REHEARSED, &table).unwrap();
    }
    assert_eq!(table, fs::read_to_string(REHEARSED).unwrap());
}

/// Regatta's own reports beside the divisions are no reason for it to refuse a package.
#[test]
#[ignore = "needs a clone of mlcommons/inference, named by MLPERF_INFERENCE"]
fn our_reports_beside_the_divisions_do_not_disturb_it() {
    for round in ROUNDS.map(|round| Round::named(round).unwrap()) {
        let folder = tempfile::tempdir().unwrap();
        let submission = good_of(&round, folder.path());
        write(submission.0.join(regatta::mlperf::REPORT_FOLDER).join("package.json"), "{}\n");
        write(submission.0.join(regatta::mlperf::REPORT_FOLDER).join("official.log"), "SUMMARY\n");
        let output = check(folder.path(), &round.name).expect("MLPERF_INFERENCE names a clone of mlcommons/inference");
        assert!(Official::parse(&output).passed, "{}: {output}", round.name);
        assert_eq!(mlperf::examine(folder.path(), &round).refusal_count(), 0);
    }
}
