//! Everything that was requested, in the usual order of a diagnosis.

use std::path::Path;

use super::needs::Needs;
use super::{checkpoint_disk, containers, gpus, hosts, limits, secrets, served_models, store_keys, tools};
use base::files::read_text;
use report::{DoctorFinding, FindingLevel};
use runner::store::StateFolder;

/// Checks this machine for what is needed; `None`: facts only. `home` has the base of relative paths, and where outputs go.
/// Blocks until every program has answered or has timed out.
pub fn examine(needs: Option<&Needs>, home: &StateFolder) -> Vec<DoctorFinding> {
    let (project, state) = (home.project(), home.state());
    let has_needs = needs.is_some();
    let mut needs = needs.cloned().unwrap_or_default();
    let unknown = checkpoint_disk::sized(&mut needs, &home.latest());
    let served = served_models::examine(&mut needs, project);
    let needs = &needs;
    let (pretty, os) = os();
    let mut all = vec![DoctorFinding::fact("system", pretty)];
    all.extend(gpus::examine(needs));
    all.extend(containers::examine(needs, &os));
    if has_needs {
        all.extend(needs.programs.iter().filter(|(program, _)| !needs.containers.contains_key(*program)).map(
            |(program, by)| {
                let path =
                    if program.contains('/') { project.join(program).display().to_string() } else { program.clone() };
                tools::find(&path, by, &os)
            },
        ));
        all.extend(served);
        all.extend(slurm(needs));
        all.extend(hosts::examine(needs, project));
        all.extend(needs.files.iter().filter_map(|(path, by)| file(path, by, project)));
    } else {
        all.extend(tools::USUAL.iter().map(|tool| tools::find(tool, &[], &os)));
    }
    all.extend(limits::examine(needs, state));
    all.extend(unknown);
    all.extend(secrets::examine(needs));
    all.extend(store_keys::examine());
    all
}

/// Its display name, and the distribution family.
fn os() -> (String, String) {
    let text = read_text("/etc/os-release").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.unwrap_or_default().trim_matches('"').to_owned()
    };
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
    let found = job.as_ref().map_or_else(|| "not in an allocation".to_owned(), |job| format!("in job {job}"));
    let level = FindingLevel::of(job.is_some());
    Some(
        DoctorFinding::fact("Slurm", found)
            .needed("an allocation", &needs.slurm, level)
            .fix(format!("salloc --gpus={} --exclusive regatta run …", needs.gpus.max(1))),
    )
}

/// Only what is missing is shown.
fn file(path: &str, by: &[String], project: &Path) -> Option<DoctorFinding> {
    if project.join(path).exists() {
        return None;
    }
    let fix = "name the right path, or fetch it first";
    let fix = if plan::manifest::is_shipped(path) { "regatta init ." } else { fix };
    Some(DoctorFinding::fact(path, "not there").needed("an input", by, FindingLevel::Missing).fix(fix))
}
