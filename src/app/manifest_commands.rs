//! The commands `check`, `show`, `list` and `schema`.

use super::project::{Project, colored};
use crate::app::error::CommandError;
use crate::app::output::{print, print_error};
use crate::cli::{CheckRequest, CliExit, Global, RunList, SchemaOf, ShowRequest};
use crate::manifest::{catalogue, schema as manifest_schema};
use crate::plan::expand;
use crate::report::{self, Styler};

/// Every error of every manifest; one line for each good one.
pub(super) fn check(global: &Global, request: &CheckRequest) -> Result<CliExit, CommandError> {
    let project = Project::open_current(global)?;
    let mut exit = CliExit::Done;
    for name in &request.manifests {
        let checked = project.manifest(name, &[]).and_then(|manifest| Ok(expand(&manifest)?));
        match checked {
            Ok(plan) => print(&format!("{name}: good, {} tasks\n", plan.tasks.len())),
            Err(CommandError::Manifest(found)) => {
                exit = CliExit::Usage;
                print_error(&found.render(colored(global.color.choice())));
            }
            Err(other) => return Err(other),
        }
    }
    Ok(exit)
}

pub(super) fn show(global: &Global, request: &ShowRequest) -> Result<CliExit, CommandError> {
    let manifest = Project::open_current(global)?.manifest(&request.manifest, &request.settings)?;
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

pub(super) fn list(global: &Global, request: RunList) -> Result<CliExit, CommandError> {
    let project = Project::open_current(global)?;
    let all: Vec<report::ManifestRow> = catalogue(&project.manifests)
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

pub(super) fn schema(which: SchemaOf) -> CliExit {
    let schema = match which {
        SchemaOf::Manifest => manifest_schema(),
        SchemaOf::Result => crate::harness::result_schema(),
        SchemaOf::Sweep => crate::harness::sweep_schema(),
        SchemaOf::Requests => crate::interop::requests_schema(),
    };
    print(&format!("{schema:#}\n"));
    CliExit::Done
}
