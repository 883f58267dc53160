//! The lock file of a project: written after a successful run, enforced with `--locked`, shown and compared.

mod current;
mod hidden_differences;
mod locked_file;
mod namesakes;
mod verify;
mod write;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::cli::{CliExit, Global, KeyValueArg, LockRequest, Select};
use crate::console::print;
use crate::error::CommandError;
use crate::lockfile::render;
use crate::lockfile::{DifferenceWeight, LockDifference, LockExtent, LockFile, LockPart, LockSection, compare};
use crate::project::{Project, options};
use base::diag::ErrorText;
use base::units::counted;
use locked_file::{locked_at, open, section_of};
use report::Styler;
use runner::store::OutputCache;
pub use verify::{LockReport, enforce};
pub use write::{FinishedRun, write};

pub fn lock(global: &Global, request: &LockRequest) -> Result<CliExit, CommandError> {
    let styler = Styler::chosen(global.color.choice());
    match request {
        LockRequest::Show { file, json } => {
            let file = open(file)?;
            print(&if *json { render::show_json(&file) } else { render::show(&file, styler) });
            Ok(CliExit::Done)
        }
        LockRequest::Diff { a, b, settings, json } => {
            let old = open(a)?;
            let (found, sides, is_now) = match locked_at(b)? {
                Some(_) if !settings.is_empty() => {
                    let what = format!("{b} is a lock file, and has no parameters to give");
                    return Err(CommandError::usage(
                        ErrorText::new(what).hint(format!("`{b}#MANIFEST KEY=VALUE` is one of its runs")),
                    ));
                }
                Some(new) => {
                    (compare_files(&old, &new, a.contains('#') && b.contains('#')), [a.as_str(), b.as_str()], false)
                }
                None => (since(global, &old, a, b, settings)?, ["locked", "now"], true),
            };
            print(&if *json {
                render::differences_json(&found)
            } else {
                format_differences(&found, sides, is_now, styler)
            });
            Ok(if found.values().all(Vec::is_empty) { CliExit::Done } else { CliExit::Failed })
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
        let _ = write!(out, "{run}\n{}", render::differences(found, sides, styler));
        if is_now {
            out.push_str(&render::advice(found, styler));
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
            (before, after) => vec![missing_section(before, after)],
        };
        (name.clone(), found)
    };
    old.runs.keys().chain(new.runs.keys()).map(one).collect()
}

fn missing_section(before: Option<&LockSection>, after: Option<&LockSection>) -> LockDifference {
    let there = |section: Option<&LockSection>| section.map(|section| counted(section.stages.len(), "task"));
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
    settings: &[KeyValueArg],
) -> Result<BTreeMap<String, Vec<LockDifference>>, CommandError> {
    let project = Project::open_current(global)?;
    let select = Select::default();
    let compiler = project.compiler(manifest, settings);
    let plan = project.plan(manifest, settings, &select, &compiler, false)?;
    let options = options(&plan, &select)?;
    let name = current::name(&project, &plan, settings);
    let section = section_of(old, &name, file)?;
    let keys = current::keys(&project, &plan, &options, &OutputCache::open(&project.home)?);
    let found = current::predicted_differences(section, &project, &plan, &options, &keys)?;
    Ok(BTreeMap::from([(name, found)]))
}
