//! `regatta lock`, and the lock file of a run: enforced with `--locked`, shown and compared.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;

use crate::cli::{self, CliExit, Global, LockMode, LockRequest, LockStrictness, Select, Subject};
use crate::console::print_as;
use crate::error::CommandError;
use crate::lockfile::{
    DifferenceWeight, LockDifference, LockExtent, LockFile, LockFileError, LockPart, LockSection, LockedTask, compare,
    display, outcome, pin, read, run_section,
};
use crate::project::{Project, options};
use base::diag::ErrorText;
use base::event::{Failure, FailureKind, TaskId};
use base::files::{metadata_if_there, read_document};
use base::units::counted;
use plan::{Lifetime, Plan, Task, UnwritableAction};
use report::Styler;
use runner::store::{Lookup, OutputCache, TaskKey};
use runner::{OutputCheck, RunOptions, TaskRole};
use stages::resolved;

pub fn lock(global: &Global, request: &LockRequest) -> Result<CliExit, CommandError> {
    let styler = global.styler();
    match request {
        LockRequest::Show { file, json } => {
            let file = open(file)?;
            print_as(styler, *json, || &file, |styler| display::show(&file).terminal(styler));
            Ok(CliExit::Done)
        }
        LockRequest::Diff { a, b, settings, json } => {
            let old = open(a)?;
            let (differences, sides, is_now) = match locked_at(b)? {
                Some(_) if !settings.is_empty() => {
                    let message = format!("{b} is a lock file, and has no parameters to give");
                    return Err(CommandError::hinted(message, format!("`{b}#MANIFEST KEY=VALUE` is one of its runs")));
                }
                Some(new) => {
                    (compare_files(&old, &new, a.contains('#') && b.contains('#')), [a.as_str(), b.as_str()], false)
                }
                None => (since(global, &old, a, &Subject::new(b, settings))?, ["locked", "now"], true),
            };
            let as_json = || display::differences_json(&differences);
            print_as(styler, *json, as_json, |styler| format_differences(&differences, sides, is_now, styler));
            Ok(if differences.values().all(Vec::is_empty) { CliExit::Done } else { CliExit::Failed })
        }
    }
}

/// `is_now`: the difference can be resolved.
fn format_differences(
    found: &BTreeMap<String, Vec<LockDifference>>,
    sides: [&str; 2],
    is_now: bool,
    styler: Styler,
) -> String {
    let mut out = String::new();
    for (run, found) in found.iter().filter(|(_, found)| !found.is_empty()) {
        let _ = write!(out, "{run}\n{}", display::differences(found, sides, styler));
        if is_now {
            out.push_str(&display::advice(found, styler));
        }
    }
    let same = found.values().filter(|found| found.is_empty()).count();
    if same > 0 {
        let _ = writeln!(out, "{same} run{} the same", if same == 1 { " is" } else { "s are" });
    }
    out
}

/// Run by run, by their names; with `chosen`, one of each side whatever their names are.
fn compare_files(old: &LockFile, new: &LockFile, chosen: bool) -> BTreeMap<String, Vec<LockDifference>> {
    let whole = LockExtent { is_part: false, has_run: true };
    if let (true, Some((a, before)), Some((b, after))) =
        (chosen, old.runs.first_key_value(), new.runs.first_key_value())
    {
        let name = if a == b { a.clone() } else { format!("{a} | {b}") };
        return BTreeMap::from([(name, compare(before, after, whole))]);
    }
    let compared = |name: &String| {
        let differences = match (old.runs.get(name), new.runs.get(name)) {
            (Some(before), Some(after)) => compare(before, after, whole),
            (before, after) => vec![missing_section(before, after)],
        };
        (name.clone(), differences)
    };
    old.runs.keys().chain(new.runs.keys()).map(compared).collect()
}

fn missing_section(before: Option<&LockSection>, after: Option<&LockSection>) -> LockDifference {
    let there = |section: Option<&LockSection>| section.map(|section| counted(section.stages.len(), "task"));
    LockDifference::new(LockPart::Run, None, "run", [there(before), there(after)], DifferenceWeight::Stops)
}

/// Compares the current plan of a run with its lock.
fn since(
    global: &Global,
    old: &LockFile,
    file: &str,
    subject: &Subject,
) -> Result<BTreeMap<String, Vec<LockDifference>>, CommandError> {
    let project = Project::open_current(global)?;
    let select = Select::default();
    let plan = project.plan(subject, &select)?;
    let options = options(&plan, &select)?;
    let name = run_section::name(&project, &plan, &subject.settings);
    let section = section_of(old, &name, file)?;
    let keys = run_section::keys(&project, &plan, &options, &OutputCache::open(&project.home)?);
    let differences = run_section::predicted_differences(section, &project, &plan, &options, &keys)?;
    Ok(BTreeMap::from([(name, differences)]))
}

/// One run of a lock file; else lists the existing ones.
pub(super) fn section_of<'a>(file: &'a LockFile, run: &str, path: &str) -> Result<&'a LockSection, CommandError> {
    file.runs.get(run).ok_or_else(|| {
        let runs: Vec<&str> = file.runs.keys().map(String::as_str).collect();
        let runs = if runs.is_empty() { "it has none".to_owned() } else { format!("it has: {}", runs.join("; ")) };
        let error = ErrorText::new(format!("error: {path} has no run `{run}`\n  {runs}"));
        CommandError::Differs(format!("{}\n", error.hint("the same command without --locked writes it after success")))
    })
}

/// A lock file that must exist; with `#RUN`, that run alone.
pub(super) fn open(word: &str) -> Result<LockFile, CommandError> {
    locked_at(word)?.ok_or_else(|| {
        let path = word.split('#').next().unwrap_or(word);
        let problem = match metadata_if_there(Path::new(path)) {
            Ok(Some(_)) => "is not a lock file",
            Ok(None) => "is not there",
            Err(error) => return anyhow::anyhow!("cannot read {path}: {error}").into(),
        };
        CommandError::hinted(format!("{path} {problem}"), "`regatta run MANIFEST` writes one when it succeeds")
    })
}

/// `None`: there is nothing there, or something else.
pub(super) fn locked_at(word: &str) -> Result<Option<LockFile>, CommandError> {
    let (path, run) = word.split_once('#').map_or((word, None), |(path, run)| (path, Some(run)));
    let Ok(text) = read_document(path) else { return Ok(None) };
    let mut file = match read(&text) {
        Ok(file) => file,
        Err(LockFileError::Text(_)) if !text.lines().any(|line| line.starts_with("lock:")) => return Ok(None),
        Err(why) => return Err(unreadable(path, &why)),
    };
    if let Some(run) = run {
        let section = section_of(&file, run, path)?.clone();
        file.runs = BTreeMap::from([(run.to_owned(), section)]);
    }
    Ok(Some(file))
}

pub(super) fn unreadable(path: &str, error: &LockFileError) -> CommandError {
    let hint = match error {
        LockFileError::Newer(_) => "install a newer regatta",
        LockFileError::Merge => "take either side, or remove the file; a successful run rewrites its own part",
        LockFileError::Text(_) => {
            "take it from version control, or remove it; a successful run writes its own entry again"
        }
    };
    CommandError::hinted(format!("{path} cannot be read: {error}"), hint)
}

/// Messages about a run with a lock file, each with its task if it concerns one.
pub type LockReport = Vec<(Option<TaskId>, String)>;

/// Compares, and then makes plan and options hold to the lock.
///
/// # Errors
/// The lock does not exist, or the plan differs from it: every difference is named.
pub fn enforce(
    project: &Project,
    request: &cli::RunRequest,
    plan: &mut Plan,
    options: &mut RunOptions,
    paint: Styler,
) -> Result<LockReport, CommandError> {
    let LockMode::Verify(file, strictness) = request.mode.locking.mode() else { return Ok(LockReport::default()) };
    let shown = file.display().to_string();
    let run = run_section::name(project, plan, &request.subject.settings);
    let section = locked(project, &file, &run)?;
    let output_cache = OutputCache::open(&project.home)?;
    let state = project.home.state();
    std::fs::create_dir_all(state).with_context(|| format!("cannot create {}", state.display()))?;
    let keys = run_section::keys(project, plan, options, &output_cache);
    let differences = run_section::predicted_differences(&section, project, plan, options, &keys)?;
    let stops = differences.iter().filter(|difference| strictness.stops(difference)).count();
    if stops > 0 {
        let things = if stops == 1 { "1 entry does".to_owned() } else { format!("{stops} entries do") };
        let table =
            display::differences(&differences, ["locked", "now"], paint) + &display::advice(&differences, paint);
        let is_other_stage = |difference: &LockDifference| difference.task.is_some() && difference.field == "stage";
        let has_other_stages = differences.iter().any(is_other_stage);
        let others = if has_other_stages { run_section::namesakes(project, plan) } else { Vec::new() };
        let error = ErrorText::new(format!(
            "error: {things} not match {shown} for `{run}`; nothing was started\n{}",
            table.trim_end_matches('\n')
        ));
        let shares = |other: &String| format!("{other} has the same name, and its runs replace the same entry");
        let error = others.iter().map(shares).fold(error, ErrorText::hint);
        return Err(CommandError::Differs(format!(
            "{}\n",
            error.hint("without --locked it runs as it is now, and rewrites the lock")
        )));
    }
    let mut holding = LockReport::default();
    for difference in &differences {
        let place = difference.task.as_deref().map_or_else(String::new, |task| format!("{task}: "));
        let reason = if difference.is_hidden() {
            " (a path or a secret that the lock does not hold, or other outputs below it)"
        } else {
            ""
        };
        holding.push((None, format!("differs from {shown}: {place}{}{reason}", display::line(difference))));
    }
    pins(plan, options, &section, keys, &output_cache, &mut holding).map_err(anyhow::Error::from)?;
    options.output_check = output_check(section, strictness, shown);
    Ok(holding)
}

fn locked(project: &Project, file: &Path, run: &str) -> Result<LockSection, CommandError> {
    let shown = file.display().to_string();
    let text = read_document(project.home.project().join(file)).map_err(|error| {
        let hint = "a successful run without --locked writes it; `--lock FILE` names another";
        CommandError::hinted(format!("{shown} cannot be read: {error}"), hint)
    })?;
    let lock_file = read(&text).map_err(|error| unreadable(&shown, &error))?;
    section_of(&lock_file, run, &shown).cloned()
}

/// Pins names that mean something else by now to what they meant. Cached outputs that match already stay as they are.
fn pins(
    plan: &mut Plan,
    options: &RunOptions,
    section: &LockSection,
    keys: run_section::Keys,
    output_cache: &OutputCache,
    holding: &mut LockReport,
) -> Result<(), UnwritableAction> {
    for (ix, key) in keys.into_iter().enumerate().filter(|(ix, _)| options.roles[*ix] == TaskRole::Run) {
        let task = &mut plan.tasks[ix];
        let (Some(Ok(key)), Some(entry)) = (key, section.stages.get(task.id.as_str())) else { continue };
        if let Ok(Lookup::Hit(record)) = output_cache.look_up(&key.digest())
            && outcome(task.id.as_str(), entry, &resolved(task, &output_cache.folder(&record))).is_empty()
        {
            continue;
        }
        if let Some(text) = pin(task, entry)? {
            holding.push((Some(task.id.clone()), text));
        }
    }
    Ok(())
}

fn output_check(section: LockSection, strictness: LockStrictness, file: String) -> OutputCheck {
    OutputCheck::new(move |task, folder, output| {
        let Some(entry) = section.stages.get(task.id.as_str()) else { return Ok(Vec::new()) };
        let mut now = resolved(task, folder);
        if entry.resolved.contains_key("output") {
            now.insert("output".to_owned(), output.to_string().into());
        }
        let (stops, reported): (Vec<LockDifference>, Vec<LockDifference>) =
            outcome(task.id.as_str(), entry, &now).into_iter().partition(|one| strictness.stops(one));
        match stops.first() {
            None => Ok(reported.iter().map(|one| format!("differs from {file}: {}", display::line(one))).collect()),
            Some(first) => Err(failure(entry, first, &stops, &file)),
        }
    })
}

fn failure(entry: &LockedTask, first: &LockDifference, stops: &[LockDifference], file: &str) -> Failure {
    let lines: Vec<String> = stops.iter().map(display::line).collect();
    let problem = format!("it does not match {file}: {}", lines.join("; "));
    let kind = entry.kind.as_str();
    Failure::new(FailureKind::Differs, problem)
        .hint(format!("{} ({kind}); or `--locked=warn`, which reports it and continues", first.advice()))
}

/// `found`: the differences that the file shows. Keys of another version of the program are not compared.
pub(super) fn hidden_differences(
    locked: &LockSection,
    plan: &Plan,
    keys: &[Option<Result<TaskKey, Failure>>],
    found: &[LockDifference],
) -> Vec<LockDifference> {
    if locked.regatta != env!("CARGO_PKG_VERSION") {
        return Vec::new();
    }
    let shows_one = |task: &Task| found.iter().any(|one| one.task.as_deref() == Some(task.id.as_str()));
    let hidden = plan.tasks.iter().zip(keys).filter(|(task, _)| !shows_one(task));
    hidden
        .filter_map(|(task, key)| {
            let entry = locked.stages.get(task.id.as_str())?;
            let before = entry.resolved.get("key")?.as_str()?.to_owned();
            let now = with_locked_upstream(locked, entry, plan, task, key.as_ref()?.as_ref().ok()?)?;
            let now = now.digest().to_string();
            let (part, weight) = (LockPart::Requested, DifferenceWeight::Reported);
            let task = Some(task.id.as_str());
            (before != now).then(|| LockDifference::new(part, task, "key", [Some(before), Some(now)], weight))
        })
        .collect()
}

/// The key that the task would have if its upstream outputs equalled the locked ones. `None` if the lock does not
/// record one of them: a measurement, or one of several repeats.
fn with_locked_upstream(
    locked: &LockSection,
    entry: &LockedTask,
    plan: &Plan,
    task: &Task,
    key: &TaskKey,
) -> Option<TaskKey> {
    let mut key = entry.with_locked_settings(key)?;
    for need in task.needs.iter().filter(|need| need.data) {
        let upstream = &plan.tasks[need.task as usize];
        if upstream.skipped.is_some() {
            continue;
        }
        let field = if upstream.lifetime == Lifetime::Service { "key" } else { "output" };
        let digest = locked.stages.get(upstream.id.as_str())?.resolved.get(field)?.as_str()?.parse().ok()?;
        key.upstream.insert(upstream.id.clone(), digest);
    }
    Some(key)
}
