//! The lock file of a project: written after a successful run, enforced with `--locked`, shown and compared.

mod current;
mod locked_file;
mod verify;
mod write;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::app::error::CommandError;
use crate::app::lockfile::shown;
use crate::app::lockfile::{DifferenceWeight, LockDifference, LockExtent, LockFile, LockPart, LockSection, compare};
use crate::app::output::say;
use crate::app::project::{Project, gpus_here, options};
use crate::cli::{CliExit, GivenSetting, Global, LockAction, Select};
use crate::report::Styler;
use crate::runner::store::OutputCache;
use locked_file::{locked_at, open, section_of};
pub use verify::{LockReport, hold};
pub use write::write;

pub fn lock(global: &Global, request: &LockAction) -> Result<CliExit, CommandError> {
    let paint = Styler::chosen(global.color.choice());
    match request {
        LockAction::Show { file, json } => {
            let file = open(file)?;
            say(&if *json { shown::show_json(&file) } else { shown::show(&file, paint) });
            Ok(CliExit::Done)
        }
        LockAction::Diff { a, b, settings, json } => {
            let old = open(a)?;
            let (found, sides, is_now) = match locked_at(b)? {
                Some(_) if !settings.is_empty() => {
                    let what = format!("{b} is a lock file, and has no parameters to give");
                    return Err(CommandError::Usage(format!(
                        "{what}\n  hint: `{b}#MANIFEST KEY=VALUE` is one of its runs"
                    )));
                }
                Some(new) => (between(&old, &new, a.contains('#') && b.contains('#')), [a.as_str(), b.as_str()], false),
                None => (since(global, &old, a, b, settings)?, ["locked", "now"], true),
            };
            say(&if *json { shown::differences_json(&found) } else { told(&found, sides, is_now, paint) });
            Ok(if found.values().all(Vec::is_empty) { CliExit::Done } else { CliExit::Failed })
        }
    }
}

/// `is_now`: the difference can be resolved.
fn told(found: &BTreeMap<String, Vec<LockDifference>>, sides: [&str; 2], is_now: bool, paint: Styler) -> String {
    let mut out = String::new();
    for (run, found) in found.iter().filter(|(_, found)| !found.is_empty()) {
        let _ = write!(out, "{run}\n{}", shown::differences(found, sides, paint));
        if is_now {
            out.push_str(&shown::advice(found, paint));
        }
    }
    let same = found.values().filter(|found| found.is_empty()).count();
    if same > 0 {
        let _ = writeln!(out, "{same} run{} the same", if same == 1 { " is" } else { "s are" });
    }
    out
}

/// Run by run, by their names; with `chosen`, one of each side whatever their names are.
fn between(old: &LockFile, new: &LockFile, chosen: bool) -> BTreeMap<String, Vec<LockDifference>> {
    let all = LockExtent { is_part: false, has_run: true };
    if let (true, Some((a, before)), Some((b, after))) =
        (chosen, old.runs.first_key_value(), new.runs.first_key_value())
    {
        let name = if a == b { a.clone() } else { format!("{a} | {b}") };
        return BTreeMap::from([(name, compare(before, after, all))]);
    }
    let one = |name: &String| {
        let found = match (old.runs.get(name), new.runs.get(name)) {
            (Some(before), Some(after)) => compare(before, after, all),
            (before, after) => vec![lone(before, after)],
        };
        (name.clone(), found)
    };
    old.runs.keys().chain(new.runs.keys()).map(one).collect()
}

fn lone(before: Option<&LockSection>, after: Option<&LockSection>) -> LockDifference {
    let there = |section: Option<&LockSection>| section.map(|section| format!("{} tasks", section.stages.len()));
    let (locked, now) = (there(before), there(after));
    LockDifference {
        part: LockPart::Run,
        task: None,
        field: "run".to_owned(),
        locked,
        now,
        weight: DifferenceWeight::Stops,
    }
}

/// What a run would be now, checked against what is locked of it.
fn since(
    global: &Global,
    old: &LockFile,
    file: &str,
    manifest: &str,
    settings: &[GivenSetting],
) -> Result<BTreeMap<String, Vec<LockDifference>>, CommandError> {
    let project = Project::here(global)?;
    let select = Select::default();
    let compiler = project.compiler(manifest, settings, &select);
    let plan = project.plan(manifest, settings, &select, &compiler, false)?;
    let options = options(&plan, &select, 1, gpus_here(), false)?;
    let name = current::name(&project, &plan, settings);
    let section = section_of(old, &name, file)?;
    let keys = current::keys(&project, &plan, &options, &OutputCache::open(&project.home)?);
    let found = current::foreseen(section, &project, &plan, &options, &keys)?;
    Ok(BTreeMap::from([(name, found)]))
}
