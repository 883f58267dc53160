//! `regatta doctor`: what this machine has, what a manifest needs of it, and what to do about the difference.

use crate::cli::{CliExit, DoctorRequest, Force, Global, Select};
use crate::console::print;
use crate::doctor::{examine, needs};
use crate::error::CommandError;
use crate::project::Project;
use report::FindingLevel;
use report::Styler;

/// Exit 1 if something that the manifest needs is missing.
pub fn doctor(global: &Global, request: &DoctorRequest) -> Result<CliExit, CommandError> {
    let project = Project::open_current(global)?;
    let folder = project.home.project();
    let needed = match &request.manifest {
        None => None,
        Some(manifest) => {
            let select = Select { force: Force::Nothing, ..Select::default() };
            let compiler = project.compiler(manifest, &request.settings);
            Some(needs(&project.plan(manifest, &request.settings, &select, &compiler, false)?, folder)?)
        }
    };
    let findings = examine(needed.as_ref(), &project.home);
    print(&if request.json {
        report::doctor_json(&findings)
    } else {
        report::doctor_text(&findings, Styler::chosen(global.color.choice()))
    });
    let is_missing = findings.iter().any(|finding| finding.level == FindingLevel::Missing);
    Ok(if is_missing { CliExit::Failed } else { CliExit::Done })
}
