//! LoadGen's logs of a result that another harness made, as a part of a submission.

use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::packages::{FileSource, SubmissionTree};
use super::{Assembled, ForeignResult};
use crate::layout::{scenario_titled, test_folder, verdict_file};
use crate::submission_check::describes_power;
use crate::{LockedResult, LockedRun, PackageProvenance, SubmissionLayout, truncate_accuracy_log};
use base::diag::in_file;
use base::files::{read_description, read_text, sha256_of_file};
use base::spec::TestMode;
use rules::log::{ACCURACY_FILE, DETAIL_FILE, SUMMARY_FILE};

/// Adds the files of one result, where the layout of the round wants them.
pub(super) fn add(tree: &mut SubmissionTree, logs: &ForeignResult) -> Assembled {
    let fields = json(&logs.system)?;
    let text_field = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (division, submitter) = (text_field("division"), text_field("submitter"));
    let system = logs.system.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if division.is_empty() || submitter.is_empty() {
        tree.problem(format!("{}: `division` and `submitter` must be in it", logs.system.display()));
        return Ok(());
    }
    let Some(scenario) = scenario_titled(&logs.scenario) else {
        tree.problem(format!("{}: `{}` is not a scenario", logs.folder.display(), logs.scenario));
        return Ok(());
    };
    if logs.folder.join(DETAIL_FILE).is_file() {
        let at = logs.folder.display();
        let message =
            "the logs of the performance run belong into performance/run_1/, those of the accuracy run into accuracy/";
        tree.problem(format!("{at}: found {DETAIL_FILE} in it: {message}"));
        return Ok(());
    }
    let below = Path::new(&division).join(&submitter);
    let (layout, title) = (tree.layout, scenario.title());
    let result = below.join(layout.result(&system, &logs.benchmark, title));
    let measurements = below.join(layout.measurements(&system, &logs.benchmark, title));
    tree.add(below.join("systems").join(format!("{system}.json")), FileSource::Copy(logs.system.clone()))?;
    let mut runs = IndexMap::new();

    let performance = [logs.folder.join("performance/run_1"), logs.folder.join("performance")];
    let performance = performance.iter().find(|folder| folder.join(DETAIL_FILE).is_file()).unwrap_or(&performance[0]);
    let mut run = LockedRun::default();
    logs_copied(tree, &mut run, performance, &result.join("performance/run_1"))?;
    copied(tree, &mut run, logs.folder.join("user.conf"), measurements.join("user.conf"))?;
    runs.insert(TestMode::Performance, run);
    runs.insert(TestMode::Accuracy, accuracy(tree, &logs.folder.join("accuracy"), &result.join("accuracy"))?);

    let tests = tree.round.benchmarks.get(&logs.benchmark).map(|benchmark| benchmark.tests.clone()).unwrap_or_default();
    for test in tests {
        let from = logs.folder.join(test_folder(test));
        // Open has no audit tests.
        if division == "open" && !from.is_dir() {
            continue;
        }
        let to = below.join(layout.audit(&system, &logs.benchmark, title, test));
        runs.insert(test, audit(tree, test, &from, &to)?);
    }

    let from = [logs.folder.join("measurements.json"), logs.folder.join(layout.measurements_file(&system, title))];
    let from = from.into_iter().find(|path| path.is_file()).unwrap_or_else(|| logs.folder.join("measurements.json"));
    let mut none = LockedRun::default();
    copied(tree, &mut none, from, measurements.join(layout.measurements_file(&system, title)))?;
    let readme = logs.folder.join("README.md");
    let readme = if readme.is_file() {
        FileSource::Copy(readme)
    } else {
        FileSource::Text(format!("# {} {title} on {system}\n\nMade by another harness than Regatta.\n", logs.benchmark))
    };
    tree.add(measurements.join("README.md"), readme)?;
    let audits = below.join(layout.audit(&system, &logs.benchmark, title, TestMode::Test06));
    let audits = audits.parent().unwrap_or(&result);
    add_rest(tree, &logs.folder, &system, [&below, &result, &measurements, audits])?;
    let source_folder = below.join(layout.source()).join(&logs.benchmark);
    if layout == SubmissionLayout::Split && !tree.has_below(&source_folder) {
        // Until v5.1 each benchmark has a folder of its own there.
        tree.add(
            source_folder.join("README.md"),
            FileSource::Text("Made by another harness than Regatta.\n".to_owned()),
        )?;
    }
    let results = vec![LockedResult { benchmark: logs.benchmark.clone(), scenario, runs }];
    let lock = PackageProvenance::of_another_tool(&tree.round.name, &below, system, results);
    tree.lock(&below, lock);
    Ok(())
}

/// Where another file of the logs belongs: what measured power, and what the rules do not ask for. None: nowhere.
/// The folders are those of the submitter, the result, its measurements and its audits.
fn place(inside: &Path, [submitter, result, measurements, audits]: [&Path; 4]) -> Option<PathBuf> {
    let mut parts = inside.iter();
    let first = parts.next()?.to_str()?;
    let second = parts.next().and_then(|part| part.to_str());
    Some(match first {
        "performance" if matches!(second, Some("run_1" | "power" | "ranging")) => result.join(inside),
        "performance" => result.join("performance/run_1").join(inside.strip_prefix(first).ok()?),
        "power" | "ranging" => result.join("performance").join(inside),
        "accuracy" => result.join(inside),
        "documentation" => submitter.join(inside),
        "calibration.md" => submitter.join("documentation").join(inside),
        "mlperf.conf" => measurements.join(inside),
        name if describes_power(name) => measurements.join(inside),
        test if test.starts_with("TEST") => audits.join(inside),
        _ => return None,
    })
}

/// Adds every file of the logs that is not there yet, and notes those that have no place in a submission.
fn add_rest(tree: &mut SubmissionTree, folder: &Path, system: &str, places: [&Path; 4]) -> Assembled {
    for item in walkdir::WalkDir::new(folder).sort_by_file_name().into_iter().flatten() {
        let from = item.path();
        if !item.file_type().is_file() || tree.is_used(from) {
            continue;
        }
        let inside = from.strip_prefix(folder).unwrap_or(from);
        if let Ok(inside) = inside.strip_prefix(tree.layout.source()) {
            let above = places[0].join(tree.layout.source());
            tree.add_beside(&above, inside, system, FileSource::Copy(from.to_owned()))?;
            continue;
        }
        match place(inside, places) {
            Some(to) if tree.files.contains_key(&to) => {}
            Some(to) if item.file_name() == ACCURACY_FILE => tree.add(to, FileSource::Truncated(from.to_owned()))?,
            Some(to) => tree.add(to, FileSource::Copy(from.to_owned()))?,
            None => tree.left_out.push(from.to_owned()),
        }
    }
    Ok(())
}

/// Adds a file that must be there, with its hash.
fn copied(tree: &mut SubmissionTree, run: &mut LockedRun, from: PathBuf, to: PathBuf) -> Assembled {
    if !from.is_file() {
        tree.problem(format!("{} is missing", from.display()));
        return Ok(());
    }
    let name = to.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    run.files.insert(name, sha256_of_file(&from).map_err(in_file(&from))?);
    tree.add(to, FileSource::Copy(from))
}

/// Adds LoadGen's two logs of a run.
fn logs_copied(tree: &mut SubmissionTree, run: &mut LockedRun, from: &Path, to: &Path) -> Assembled {
    [SUMMARY_FILE, DETAIL_FILE].into_iter().try_for_each(|name| copied(tree, run, from.join(name), to.join(name)))
}

/// The accuracy run: its log truncated, with the hash of the whole in the scores.
fn accuracy(tree: &mut SubmissionTree, from: &Path, to: &Path) -> Assembled<LockedRun> {
    let mut run = LockedRun::default();
    logs_copied(tree, &mut run, from, to)?;
    let (log, scores) = (from.join(ACCURACY_FILE), from.join("accuracy.txt"));
    for path in [&log, &scores] {
        if !path.is_file() {
            tree.problem(format!("{} is missing", path.display()));
        }
    }
    if !log.is_file() || !scores.is_file() {
        return Ok(run);
    }
    let hash = sha256_of_file(&log).map_err(in_file(&log))?;
    let mut text = read_text(&scores).map_err(in_file(&scores))?;
    let is_truncated = truncate_accuracy_log::is_truncated(&log).map_err(in_file(&log))?;
    match truncate_accuracy_log::hashes(&text).as_slice() {
        [] => text = format!("{}\n\nhash={hash}\n", text.trim_end()),
        // For a log that is truncated already, the scores have the hash of the whole log.
        hashes if is_truncated || hashes.contains(&hash.as_str()) => {}
        _ => tree.problem(format!("{} does not belong to {}: its hash differs", scores.display(), log.display())),
    }
    tree.add(to.join("accuracy.txt"), FileSource::Text(text))?;
    tree.add(to.join(ACCURACY_FILE), if is_truncated { FileSource::Copy(log) } else { FileSource::Truncated(log) })?;
    Ok(run)
}

/// An audit as the official verification leaves it: its outcome, and the log with the answers where there is one.
fn audit(tree: &mut SubmissionTree, test: TestMode, from: &Path, to: &Path) -> Assembled<LockedRun> {
    let mut run = LockedRun::default();
    copied(tree, &mut run, from.join(verdict_file(test)), to.join(verdict_file(test)))?;
    let log = [from.join("accuracy").join(ACCURACY_FILE), from.join(ACCURACY_FILE)];
    if let Some(log) = log.into_iter().find(|path| path.is_file()) {
        copied(tree, &mut run, log, to.join("accuracy").join(ACCURACY_FILE))?;
    }
    if test != TestMode::Test06 {
        copied(tree, &mut run, from.join("accuracy/accuracy.txt"), to.join("accuracy/accuracy.txt"))?;
        logs_copied(tree, &mut run, &from.join("performance/run_1"), &to.join("performance/run_1"))?;
    }
    Ok(run)
}

fn json(path: &Path) -> Assembled<Map<String, Value>> {
    let read = read_description(path).map_err(in_file(path));
    let fields = read.and_then(|text| serde_json::from_str(&text).map_err(in_file(path)));
    let hint = "`--logs SYSTEM.json:BENCHMARK:SCENARIO=FOLDER`: the description of the system comes first";
    fields.map_err(|error| error.hint(hint))
}
