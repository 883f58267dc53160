//! `--locked`: compares everything that is known before anything starts; the rest when it is known.

use std::path::Path;

use anyhow::Context as _;

use super::current;
use super::locked_file::{section_of, unreadable};
use super::namesakes::namesakes;
use crate::cli::{self, LockMode, LockStrictness};
use crate::error::CommandError;
use crate::lockfile::render;
use crate::lockfile::{LockDifference, LockSection, LockedTask, Strictness, outcome, pin, read};
use crate::project::Project;
use base::diag::ErrorText;
use base::event::{Failure, FailureKind, TaskId};
use base::files::read_text;
use plan::{Plan, UnwritableAction};
use report::Styler;
use runner::store::{Lookup, OutputCache};
use runner::{OutputCheck, RunOptions, TaskRole};
use stages::resolved;

/// What to report about a run that holds to a lock file.
#[derive(Debug, Default)]
pub struct LockReport {
    pub messages: Vec<(Option<TaskId>, String)>,
}

/// Compares, and then makes plan and options hold to the lock.
///
/// # Errors
/// Every difference from the lock; or there is no such lock.
pub fn enforce(
    project: &Project,
    request: &cli::RunRequest,
    plan: &mut Plan,
    options: &mut RunOptions,
    paint: Styler,
) -> Result<LockReport, CommandError> {
    let LockMode::Verify(file, held) = &request.locking else { return Ok(LockReport::default()) };
    let strictness = match held {
        LockStrictness::Warn => Strictness::Warn,
        LockStrictness::Inputs => Strictness::Inputs,
        LockStrictness::Exact => Strictness::Exact,
    };
    let shown = file.display().to_string();
    let run = current::name(project, plan, &request.settings);
    let section = locked(project, file, &run)?;
    let output_cache = OutputCache::open(&project.home)?;
    let state = project.home.state();
    std::fs::create_dir_all(state).with_context(|| format!("cannot create {}", state.display()))?;
    let keys = current::keys(project, plan, options, &output_cache);
    let found = current::predicted_differences(&section, project, plan, options, &keys)?;
    let stops = found.iter().filter(|one| strictness.stops(one)).count();
    if stops > 0 {
        let things = if stops == 1 { "1 entry does".to_owned() } else { format!("{stops} entries do") };
        let table = render::differences(&found, ["locked", "now"], paint) + &render::advice(&found, paint);
        let rest = "without --locked it runs as it is now, and rewrites the lock";
        let has_other_stages = found.iter().any(|one| one.task.is_some() && one.field == "stage");
        let others = if has_other_stages { namesakes(project, plan) } else { Vec::new() };
        let shares =
            |other: &String| format!("  hint: {other} has the same name, and its runs replace the same entry\n");
        let shared = others.iter().map(shares).collect::<Vec<_>>().concat();
        return Err(CommandError::Differs(format!(
            "error: {things} not match {shown} for `{run}`; nothing was started\n{table}{shared}  hint: {rest}\n"
        )));
    }
    let mut holding = LockReport::default();
    for one in &found {
        let place = one.task.as_deref().map_or_else(String::new, |task| format!("{task}: "));
        let why = if one.is_hidden() {
            " (a path or a secret that the lock does not hold, or other outputs below it)"
        } else {
            ""
        };
        holding.messages.push((None, format!("differs from {shown}: {place}{}{why}", render::line(one))));
    }
    pins(plan, options, &section, keys, &output_cache, &mut holding).map_err(anyhow::Error::from)?;
    options.output_check = output_check(section, strictness, shown);
    Ok(holding)
}

fn locked(project: &Project, file: &Path, run: &str) -> Result<LockSection, CommandError> {
    let shown = file.display().to_string();
    let text = read_text(project.home.project().join(file)).map_err(|error| {
        let hint = "a run without --locked that ends well writes it; `--lock FILE` names another";
        CommandError::usage(ErrorText::new(format!("{shown} cannot be read: {error}")).hint(hint))
    })?;
    let all = read(&text).map_err(|why| unreadable(&shown, &why))?;
    section_of(&all, run, &shown).cloned()
}

/// Pins names that mean something else by now to what they meant. Cached outputs that match already stay as they are.
fn pins(
    plan: &mut Plan,
    options: &RunOptions,
    section: &LockSection,
    keys: current::Keys,
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
            holding.messages.push((Some(task.id.clone()), text));
        }
    }
    Ok(())
}

fn output_check(section: LockSection, strictness: Strictness, file: String) -> OutputCheck {
    OutputCheck::new(move |task, folder, output| {
        let Some(entry) = section.stages.get(task.id.as_str()) else { return Ok(Vec::new()) };
        let mut now = resolved(task, folder);
        if entry.resolved.contains_key("output") {
            now.insert("output".to_owned(), output.to_string().into());
        }
        let (stops, reported): (Vec<LockDifference>, Vec<LockDifference>) =
            outcome(task.id.as_str(), entry, &now).into_iter().partition(|one| strictness.stops(one));
        match stops.first() {
            None => Ok(reported.iter().map(|one| format!("differs from {file}: {}", render::line(one))).collect()),
            Some(first) => Err(failure(entry, first, &stops, &file)),
        }
    })
}

fn failure(entry: &LockedTask, first: &LockDifference, stops: &[LockDifference], file: &str) -> Failure {
    let lines: Vec<String> = stops.iter().map(render::line).collect();
    let what = format!("it does not match {file}: {}", lines.join("; "));
    let kind = serde_json::json!(entry.kind).as_str().unwrap_or_default().to_owned();
    Failure::new(FailureKind::Differs, what)
        .hint(format!("{} ({kind}); or `--locked=warn`, which reports it and continues", first.advice()))
}
