//! Packages as parts: submission folders, of Regatta or of another tool.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use serde_json::{Map, Value};
use walkdir::WalkDir;

use super::{AssembleRequest, Assembled, ForeignResult};
use crate::layout::{scenario_titled, test_folder, verdict_file};
use crate::submission_check::{DIVISIONS, describes_power, folders};
use crate::{LockedResult, LockedRun, PackageProvenance, REHEARSAL_FILE, SubmissionLayout, truncate_accuracy_log};
use base::diag::{ErrorText, in_file};
use base::files::{read_bytes, read_description, read_text, sha256_of_file};
use base::spec::TestMode;
use rules::Round;
use rules::log::{ACCURACY_FILE, DETAIL_FILE, SUMMARY_FILE};

const LOGS: [&str; 2] = [SUMMARY_FILE, DETAIL_FILE];

/// The folder with the divisions: the part itself, or the package of a project's last run.
pub(super) fn root(part: &Path) -> Assembled<PathBuf> {
    let has_division = |folder: &Path| DIVISIONS.iter().any(|division| folder.join(division).is_dir());
    let package_root = [part.to_owned(), part.join("latest/package")].into_iter().find(|folder| has_division(folder));
    package_root.ok_or_else(|| in_file(part)("it contains neither closed/, open/ or network/ nor latest/package"))
}

/// Adds everything below the divisions of a package.
pub(super) fn add(tree: &mut SubmissionTree, root: &Path, request: &AssembleRequest) -> Assembled {
    for division in DIVISIONS {
        let Ok(items) = std::fs::read_dir(root.join(division)) else { continue };
        for item in items {
            let submitter = item.map_err(in_file(root))?.path();
            if submitter.is_dir() {
                let below = submitter.strip_prefix(root).unwrap_or(&submitter).to_owned();
                submitted(tree, &submitter, &below, request)?;
            }
        }
    }
    Ok(())
}

fn submitted(tree: &mut SubmissionTree, submitter: &Path, below: &Path, request: &AssembleRequest) -> Assembled {
    let locks = PackageProvenance::all(submitter).map_err(in_file(submitter))?;
    for lock in &locks {
        if lock.rehearsal && !request.rehearse {
            tree.problem(format!("{} is a rehearsal; --rehearse assembles it for practice", submitter.display()));
        }
    }
    let systems = folders(&submitter.join("results"));
    let system = systems.first().cloned().unwrap_or_default();
    for system in systems.into_iter().filter(|system| locks.iter().all(|lock| lock.system != *system)) {
        let lock = recorded(tree, submitter, below, system)?;
        tree.lock(below, lock);
    }
    for lock in locks {
        tree.lock(below, lock);
    }
    for item in WalkDir::new(submitter).follow_links(true).sort_by_file_name() {
        let item = item.map_err(in_file(submitter))?;
        if !item.file_type().is_file() {
            continue;
        }
        let inside = item.path().strip_prefix(submitter).unwrap_or(item.path());
        let from = FileSource::Copy(item.path().to_owned());
        let mut parts = inside.components();
        match parts.next().and_then(|first| first.as_os_str().to_str()) {
            Some("documentation") if is_own(inside) => {}
            // One folder of texts is for all of them.
            Some("documentation") if request.documentation.is_some() && !inside.ends_with(REHEARSAL_FILE) => {}
            Some(source) if source == tree.layout.source() => {
                tree.add_beside(&below.join(source), parts.as_path(), &system, from)?;
            }
            _ => tree.add(below.join(inside), from)?,
        }
    }
    Ok(())
}

/// Whether a file of the documentation is a lock, which is written anew.
fn is_own(inside: &Path) -> bool {
    inside.file_name().and_then(|name| name.to_str()).is_some_and(PackageProvenance::is_file_name)
}

/// What is known of a system that another tool packed: its files as they are now.
fn recorded(tree: &SubmissionTree, submitter: &Path, below: &Path, system: String) -> Assembled<PackageProvenance> {
    let mut results = Vec::new();
    for benchmark in folders(&submitter.join("results").join(&system)) {
        for title in folders(&submitter.join("results").join(&system).join(&benchmark)) {
            let Some(scenario) = scenario_titled(&title) else { continue };
            let folder = submitter.join(tree.layout.result(&system, &benchmark, &title));
            let conf = submitter.join(tree.layout.measurements(&system, &benchmark, &title)).join("user.conf");
            let logs = |folder: PathBuf| LOGS.map(|name| folder.join(name));
            let performance = logs(folder.join("performance/run_1")).into_iter().chain([conf]);
            let runs = IndexMap::from([
                (TestMode::Performance, hashed(performance)?),
                (TestMode::Accuracy, hashed(logs(folder.join("accuracy")))?),
            ]);
            results.push(LockedResult { benchmark: benchmark.clone(), scenario, runs });
        }
    }
    Ok(PackageProvenance::of_another_tool(&tree.round.name, below, system, results))
}

/// The hashes of those files that are there.
fn hashed(paths: impl IntoIterator<Item = PathBuf>) -> Assembled<LockedRun> {
    let mut run = LockedRun::default();
    for path in paths.into_iter().filter(|path| path.is_file()) {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        run.files.insert(name, sha256_of_file(&path).map_err(in_file(&path))?);
    }
    Ok(run)
}

/// Puts a folder of texts into the documentation of every submitter.
pub(super) fn documentation(tree: &mut SubmissionTree, folder: &Path) -> Assembled {
    let mut submitters: Vec<PathBuf> = tree.files.keys().map(|path| path.iter().take(2).collect()).collect();
    submitters.dedup();
    for item in WalkDir::new(folder).sort_by_file_name() {
        let item = item.map_err(in_file(folder))?;
        if item.file_type().is_file() {
            let inside = item.path().strip_prefix(folder).unwrap_or(item.path());
            for submitter in &submitters {
                let path = submitter.join("documentation").join(inside);
                tree.add(path, FileSource::Copy(item.path().to_owned()))?;
            }
        }
    }
    Ok(())
}

/// Below a submitter, the folders that have one of each result: results, and in older rounds what lies beside them.
pub(super) fn result_folders(layout: SubmissionLayout) -> &'static [&'static str] {
    match layout {
        SubmissionLayout::Split => &["results", "measurements", "compliance"],
        SubmissionLayout::Single => &["results"],
    }
}

// The tree of a submission before it is written: each path with where its bytes are from.

/// Where the bytes of a file are from.
#[derive(Clone, Debug)]
pub(super) enum FileSource {
    Copy(PathBuf),
    /// An accuracy log, of which a submission has the ends.
    Truncated(PathBuf),
    Text(String),
}

/// `closed/Example`: the folder of a submitter in a division.
pub(super) type SubmitterPath = PathBuf;

/// What a submission will be.
pub(super) struct SubmissionTree {
    pub round: Round,
    pub layout: SubmissionLayout,
    pub files: BTreeMap<PathBuf, FileSource>,
    /// Of each submitter, by system.
    pub locks: BTreeMap<(SubmitterPath, String), PackageProvenance>,
    /// Files of parts that have no place in it.
    pub left_out: Vec<PathBuf>,
    problems: Vec<String>,
}

impl SubmissionTree {
    pub(super) fn new(round: &Round) -> Self {
        Self {
            round: round.clone(),
            layout: SubmissionLayout::for_round(&round.name),
            files: BTreeMap::new(),
            locks: BTreeMap::new(),
            left_out: Vec::new(),
            problems: Vec::new(),
        }
    }

    pub(super) fn problem(&mut self, what: String) {
        self.problems.push(what);
    }

    /// Adds a file; one that another part has, too, must have the same bytes.
    pub(super) fn add(&mut self, path: PathBuf, from: FileSource) -> Assembled {
        match self.files.get(&path) {
            Some(other) if !is_same(other, &from)? => {
                let (one, other) = (place(other), place(&from));
                self.problem(format!("{}: {one} and {other} differ", path.display()));
            }
            Some(_) => {}
            None => drop(self.files.insert(path, from)),
        }
        Ok(())
    }

    /// Whether a file of a part is in it.
    pub(super) fn is_used(&self, from: &Path) -> bool {
        self.files.values().any(|source| match source {
            FileSource::Copy(path) | FileSource::Truncated(path) => path == from,
            FileSource::Text(_) => false,
        })
    }

    /// Whether there is a file below a folder.
    pub(super) fn has_below(&self, folder: &Path) -> bool {
        self.files.range(folder.to_owned()..).next().is_some_and(|(path, _)| path.starts_with(folder))
    }

    /// Adds a file whose name may be taken: then it goes below a folder of the system's name.
    pub(super) fn add_beside(&mut self, above: &Path, name: &Path, system: &str, from: FileSource) -> Assembled {
        let path = above.join(name);
        match self.files.get(&path) {
            Some(other) if !is_same(other, &from)? => self.add(above.join(system).join(name), from),
            _ => self.add(path, from),
        }
    }

    /// What is known of a system's results; several packages of one system are one.
    pub(super) fn lock(&mut self, submitter: &Path, lock: PackageProvenance) {
        let key = (submitter.to_owned(), lock.system.clone());
        match self.locks.get_mut(&key) {
            Some(known) => {
                known.rehearsal |= lock.rehearsal;
                for result in lock.results {
                    if known.result(&result.benchmark, result.scenario).is_none() {
                        known.results.push(result);
                    }
                }
                let others = lock.stages.into_iter().filter(|stage| !known.stages.contains(stage));
                let others: Vec<_> = others.collect();
                known.stages.extend(others);
            }
            None => drop(self.locks.insert(key, lock)),
        }
    }

    /// Writes all of it, unless parts disagree. Gives the files that were left out.
    pub(super) fn write(self, out: &Path) -> Assembled<Vec<PathBuf>> {
        if !self.problems.is_empty() {
            return Err(ErrorText::new(self.problems.join("\n")));
        }
        for (path, from) in &self.files {
            let path = above(out, path)?;
            match from {
                FileSource::Copy(from) => drop(fs::copy(from, &path).map_err(in_file(from))?),
                FileSource::Truncated(from) => {
                    truncate_accuracy_log::truncated(from, &path).map_err(in_file(from))?;
                }
                FileSource::Text(text) => fs::write(&path, text).map_err(in_file(&path))?,
            }
        }
        for ((submitter, system), lock) in &self.locks {
            let alone = self.locks.keys().filter(|(other, _)| other == submitter).count() == 1;
            let name = PackageProvenance::file_name((!alone).then_some(system));
            let path = above(out, &submitter.join("documentation").join(name))?;
            let text = serde_json::to_string_pretty(lock).map_err(in_file(&path))?;
            fs::write(&path, text + "\n").map_err(in_file(&path))?;
        }
        Ok(self.left_out)
    }
}

/// The path in `out`, with the folders above it made.
fn above(out: &Path, path: &Path) -> Assembled<PathBuf> {
    let path = out.join(path);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(in_file(folder))?;
    }
    Ok(path)
}

fn is_same(one: &FileSource, other: &FileSource) -> Assembled<bool> {
    let hash = |path: &PathBuf| sha256_of_file(path).map_err(in_file(path));
    Ok(match (one, other) {
        (FileSource::Copy(one), FileSource::Copy(other))
        | (FileSource::Truncated(one), FileSource::Truncated(other)) => hash(one)? == hash(other)?,
        (FileSource::Text(one), FileSource::Text(other)) => one == other,
        (FileSource::Copy(path), FileSource::Text(text)) | (FileSource::Text(text), FileSource::Copy(path)) => {
            read_bytes(path).map_err(in_file(path))? == text.as_bytes()
        }
        _ => false,
    })
}

fn place(source: &FileSource) -> String {
    match source {
        FileSource::Copy(path) | FileSource::Truncated(path) => path.display().to_string(),
        FileSource::Text(_) => "a text made here".to_owned(),
    }
}

// LoadGen's logs of a result that another harness made, as a part of a submission.

/// Adds the files of one result, where the layout of the round wants them.
pub(super) fn add_foreign_logs(tree: &mut SubmissionTree, logs: &ForeignResult) -> Assembled {
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
fn place_in_tree(inside: &Path, [submitter, result, measurements, audits]: [&Path; 4]) -> Option<PathBuf> {
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
        match place_in_tree(inside, places) {
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
        _ => tree.problem(format!("{} is not of {}: its hash differs", scores.display(), log.display())),
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
