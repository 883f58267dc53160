//! The commands `init`, `list`, `show`, `check` and `schema`.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use crate::cli::{
    CheckFormat, CheckRequest, CliExit, Global, InitRequest, ListRequest, SchemaRequest, ShowRequest, Subject,
};
use crate::console::{print, print_as, print_error};
use crate::error::CommandError;
use crate::expression_guard::expand;
use crate::project::{Project, colored};
use base::diag::{CheckProblem, CheckedManifest, check_github, check_json};
use base::units::counted;
use plan::manifest::{list_manifests, schema as manifest_schema, shipped};
use runner::store::{is_there, write_named};
use serde_json::json;

/// The errors of every manifest; one line for each good one.
pub(super) fn check(global: &Global, request: &CheckRequest) -> Result<CliExit, CommandError> {
    let project = Project::open_current(global)?;
    let (mut checked, mut problems) = (Vec::new(), Vec::new());
    let is_text = request.format == CheckFormat::Text;
    for name in &request.manifests {
        let plan = project.manifest(&Subject::new(name, &request.settings)).and_then(|manifest| Ok(expand(&manifest)?));
        let (is_good, tasks) = match plan {
            Ok(plan) => (true, Some(plan.tasks.len())),
            Err(CommandError::Manifest(found)) => {
                // A parameter that the user must give is not an error of the manifest.
                let is_good = found.missing_parameters().is_some();
                let diagnostics = if is_good { found.as_warnings() } else { found };
                if is_text {
                    print_error(&diagnostics.render(colored(global.color)));
                }
                problems.extend(CheckProblem::list(Some(name), &diagnostics));
                (is_good, None)
            }
            Err(other) => return Err(other),
        };
        match tasks {
            Some(tasks) if is_text => print(&format!("{name}: good, {}\n", counted(tasks, "task"))),
            None if is_text && is_good => {
                print(&format!("{name}: good, but its stages need the values of parameters\n"));
            }
            _ => {}
        }
        checked.push(CheckedManifest { name: name.clone(), is_good, tasks });
    }
    match request.format {
        CheckFormat::Text => {}
        CheckFormat::Json => print(&check_json(&checked, &problems)),
        CheckFormat::Github => print(&check_github(&problems)),
    }
    Ok(if checked.iter().all(|one| one.is_good) { CliExit::Done } else { CliExit::Usage })
}

pub(super) fn show(global: &Global, request: &ShowRequest) -> Result<CliExit, CommandError> {
    let manifest = Project::open_current(global)?.manifest(&request.subject)?;
    let values = manifest.values();
    let json = || json!({ "values": values });
    print_as(global.styler(), request.json, json, |styler| report::value_table(&values, styler));
    Ok(CliExit::Done)
}

pub(super) fn list(global: &Global, request: ListRequest) -> Result<CliExit, CommandError> {
    let project = Project::open_current(global)?;
    let rows: Vec<report::ManifestRow> = list_manifests(&project.manifests)?
        .into_iter()
        .map(|listed| report::ManifestRow {
            name: listed.name,
            path: listed.location,
            about: match listed.broken {
                Some(error) => Some(format!("broken: {error}")),
                None => listed.about,
            },
        })
        .collect();
    let json = || json!({ "manifests": rows });
    print_as(global.styler(), request.json, json, |styler| report::manifest_list(&rows, styler));
    Ok(CliExit::Done)
}

pub(super) fn schema(which: SchemaRequest) -> CliExit {
    let schema = match which {
        SchemaRequest::Manifest => manifest_schema(),
        SchemaRequest::Result => harness::result_schema(),
        SchemaRequest::Sweep => harness::sweep_schema(),
    };
    print(&format!("{schema:#}\n"));
    CliExit::Done
}

/// What a run leaves in a project.
const IGNORED: &[u8] = b".regatta\nlatest\n";

pub(super) fn init(request: &InitRequest) -> Result<CliExit, CommandError> {
    if request.all { everything(&request.folder) } else { example(&request.folder, &request.example) }
}

fn example(folder: &Path, name: &str) -> Result<CliExit, CommandError> {
    let places = [format!("manifests/{name}.yaml"), format!("manifests/{name}/pipeline.yaml")];
    let Some((path, bytes)) = shipped().find(|(path, _)| places.contains(path)) else {
        return Err(CommandError::Usage(format!("there is no shipped manifest `{name}`; `regatta list` lists them")));
    };
    let text = String::from_utf8_lossy(bytes);
    // The schema is not written, so an editor would not find it.
    let text: String = text.split_inclusive('\n').filter(|line| !line.starts_with("# yaml-language-server:")).collect();
    for (path, bytes) in [(path.as_str(), text.as_bytes()), (".gitignore", IGNORED)] {
        let target = folder.join(path);
        let outcome = if write_new(&target, bytes)? { "written" } else { "there already, left alone" };
        print(&format!("{}: {outcome}\n", target.display()));
    }
    let enter = if folder == Path::new(".") { String::new() } else { format!("cd {} && ", folder.display()) };
    print(&format!("next: {enter}regatta run {name}\n"));
    print("      `regatta explain stages.bench` explains keys; `regatta schema > manifest.json` is for editors\n");
    Ok(CliExit::Done)
}

fn everything(folder: &Path) -> Result<CliExit, CommandError> {
    let (mut written, mut kept) = (0, 0);
    for (path, bytes) in shipped() {
        *(if write_new(&folder.join(path), bytes)? { &mut written } else { &mut kept }) += 1;
    }
    let kept = if kept > 0 { format!(", {kept} there already and left alone") } else { String::new() };
    print(&format!("{} written to {}{kept}\n", counted(written, "file"), folder.display()));
    Ok(CliExit::Done)
}

/// Whether it was written: a file that is there stays as it is.
fn write_new(target: &Path, bytes: &[u8]) -> Result<bool, CommandError> {
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
    }
    // Also a link that leads nowhere is there.
    if target.is_symlink() || is_there(target)? {
        return Ok(false);
    }
    write_named(target, bytes)?;
    Ok(true)
}
