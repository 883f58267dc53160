//! The commands `check`, `show`, `list` and `schema`.

use super::expression_guard::expand;
use super::project::{Project, colored};
use crate::cli::{CheckFormat, CheckRequest, CliExit, Global, ListRequest, SchemaRequest, ShowRequest};
use crate::console::{print, print_error};
use crate::error::CommandError;
use base::diag::{CheckProblem, CheckedManifest, check_github, check_json, check_sarif};
use base::units::counted;
use plan::manifest::{list_manifests, schema as manifest_schema};
use report::Styler;

/// The errors of every manifest; one line for each good one.
pub(super) fn check(global: &Global, request: &CheckRequest) -> Result<CliExit, CommandError> {
    let project = Project::open_current(global)?;
    let (mut checked, mut problems) = (Vec::new(), Vec::new());
    let is_text = request.format == CheckFormat::Text;
    for name in &request.manifests {
        let plan = project.manifest(name, &request.settings).and_then(|manifest| Ok(expand(&manifest)?));
        let (is_good, tasks) = match plan {
            Ok(plan) => (true, Some(plan.tasks.len())),
            Err(CommandError::Manifest(found)) => {
                // What a user must give is no error of the manifest.
                let is_good = found.only_misses_parameters();
                let found = if is_good { found.as_warnings() } else { found };
                if is_text {
                    print_error(&found.render(colored(global.color.choice())));
                }
                problems.extend(CheckProblem::list(name, &found));
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
        CheckFormat::Sarif => print(&check_sarif(&problems)),
    }
    Ok(if checked.iter().all(|one| one.is_good) { CliExit::Done } else { CliExit::Usage })
}

pub(super) fn show(global: &Global, request: &ShowRequest) -> Result<CliExit, CommandError> {
    let manifest = Project::open_current(global)?.manifest(&request.subject.manifest, &request.subject.settings)?;
    let values: Vec<report::ValueRow> = manifest
        .values()
        .into_iter()
        .map(|shown| report::ValueRow { path: shown.path, value: shown.value, from: shown.origin })
        .collect();
    print(&if request.json {
        format!("{:#}\n", serde_json::json!({ "values": values }))
    } else {
        report::value_table(&values, Styler::chosen(global.color.choice()))
    });
    Ok(CliExit::Done)
}

pub(super) fn list(global: &Global, request: ListRequest) -> Result<CliExit, CommandError> {
    let project = Project::open_current(global)?;
    let all: Vec<report::ManifestRow> = list_manifests(&project.manifests)?
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
    print(&if request.json {
        report::manifest_list_json(&all)
    } else {
        report::manifest_list(&all, Styler::chosen(global.color.choice()))
    });
    Ok(CliExit::Done)
}

pub(super) fn schema(which: SchemaRequest) -> CliExit {
    let schema = match which {
        SchemaRequest::Manifest => manifest_schema(),
        SchemaRequest::Result => harness::result_schema(),
        SchemaRequest::Sweep => harness::sweep_schema(),
        SchemaRequest::Requests => interop::requests_schema(),
    };
    print(&format!("{schema:#}\n"));
    CliExit::Done
}
