//! What a plan needs of a machine, what the machine has, and what to do about the difference.
//!
//! ```text
//!  Plan ─needs→ Needs ─┐
//!                      ├─examine→ DoctorFinding, … ─→ report
//!  the machine ────────┘
//! ```
//!
//! [`needs()`] is pure: it reads what the planned tasks will start. [`examine()`] queries the machine, with short calls
//! of programs that are there anyway (`nvidia-smi`, `docker version`, …), and changes nothing. A secret is only "set"
//! or "not set".

mod machine;
mod needs;
mod programs;

pub use machine::{machine, names as gpu_names, nvidia_smi, versions};
pub use needs::{needs, needs_of_tasks};

use std::path::Path;

use crate::cli::{CliExit, DoctorRequest, Global, Select, Subject};
use crate::console::print_as;
use crate::doctor::needs::Needs;
use crate::error::CommandError;
use crate::project::Project;
use base::files::read_text;
use base::units::os_release_field;
use report::{DoctorFinding, FindingLevel};
use runner::store::StateFolder;

/// Exit 1 if something that the manifest needs is missing.
pub fn doctor(global: &Global, request: &DoctorRequest) -> Result<CliExit, CommandError> {
    let project = Project::open_current(global)?;
    let folder = project.home.project();
    let needed = match &request.manifest {
        None => None,
        Some(manifest) => {
            let subject = Subject::new(manifest, &request.settings);
            Some(needs(&project.plan(&subject, &Select::default())?, folder)?)
        }
    };
    let findings = examine(needed.as_ref(), &project.home);
    print_as(
        global.styler(),
        request.json,
        || report::doctor_json(&findings),
        |styler| report::doctor_text(&findings, styler),
    );
    let is_missing = findings.iter().any(|finding| finding.level == FindingLevel::Missing);
    Ok(if is_missing { CliExit::Failed } else { CliExit::Done })
}

/// Checks this machine for what is needed; `None`: facts only. `home` has the base of relative paths, and where outputs
/// go. Blocks until every program has answered or has timed out.
pub fn examine(needs: Option<&Needs>, home: &StateFolder) -> Vec<DoctorFinding> {
    let (project, state) = (home.project(), home.state());
    let has_needs = needs.is_some();
    let mut needs = needs.cloned().unwrap_or_default();
    let unknown = machine::sized(&mut needs, &home.latest());
    let served = needs::model_findings(&mut needs, project);
    let needs = &needs;
    let (pretty, os) = os();
    let mut findings = vec![DoctorFinding::fact("system", pretty)];
    findings.extend(machine::gpu_findings(needs));
    findings.extend(programs::container_findings(needs, &os));
    if has_needs {
        findings.extend(needs.programs.iter().filter(|(program, _)| !needs.containers.contains_key(*program)).map(
            |(program, by)| {
                let path =
                    if program.contains('/') { project.join(program).display().to_string() } else { program.clone() };
                programs::find(&path, by, &os)
            },
        ));
        findings.extend(served);
        findings.extend(slurm(needs));
        findings.extend(needs::host_findings(needs, project));
        findings.extend(needs.files.iter().filter_map(|(path, by)| file(path, by, project)));
    } else {
        findings.extend(programs::USUAL.iter().map(|tool| programs::find(tool, &[], &os)));
    }
    findings.extend(machine::limit_findings(needs, state));
    findings.extend(unknown);
    findings.extend(needs::secret_findings(needs));
    findings.extend(needs::sign_key().into_iter().chain(needs::trusted_keys()));
    findings
}

/// Its display name, and the distribution family.
fn os() -> (String, String) {
    let text = read_text("/etc/os-release").unwrap_or_default();
    let field = |name: &str| os_release_field(&text, name).to_owned();
    let kernel = rustix::system::uname();
    let release = kernel.release().to_string_lossy().into_owned();
    let machine = kernel.machine().to_string_lossy().into_owned();
    let pretty = match field("PRETTY_NAME") {
        name if name.is_empty() => "Linux".to_owned(),
        name => name,
    };
    (format!("{pretty}, kernel {release}, {machine}"), format!("{} {}", field("ID"), field("ID_LIKE")))
}

/// `srun` starts ranks inside an allocation only.
fn slurm(needs: &Needs) -> Option<DoctorFinding> {
    if needs.slurm.is_empty() {
        return None;
    }
    let job = std::env::var("SLURM_JOB_ID").ok();
    let allocation = job.as_ref().map_or_else(|| "not in an allocation".to_owned(), |job| format!("in job {job}"));
    let level = FindingLevel::of(job.is_some());
    Some(
        DoctorFinding::fact("Slurm", allocation)
            .needed("an allocation", &needs.slurm, level)
            .fix(format!("salloc --gpus={} --exclusive regatta run …", needs.gpus.max(1))),
    )
}

/// A finding only if the file is missing.
fn file(path: &str, by: &[String], project: &Path) -> Option<DoctorFinding> {
    if project.join(path).exists() {
        return None;
    }
    let fix = "name the right path, or fetch it first";
    let fix = if plan::manifest::is_shipped(path) { "regatta init ." } else { fix };
    Some(DoctorFinding::fact(path, "not there").needed("an input", by, FindingLevel::Missing).fix(fix))
}
