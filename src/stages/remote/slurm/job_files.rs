//! Everything a job needs is written before it is submitted, so that a later reader finds all of it.

use std::path::{Path, PathBuf};

use tokio::task::spawn_blocking;

use super::batch_script;
use super::commands::{at_clusters, environment, has_many_clusters, max_array_size};
use super::context::SlurmContext;
use super::job_protocol::JobSpec;
use plan::manifest::model::Slurm;
use runner::store::{JobFolder, PathError, WithPath as _};
use runner::{BatchSlot, Lease, UpstreamProvenance};

/// The array's name and its place there, for a task of a batch; `None` where it is a job of its own.
pub async fn place(
    lease: &Lease,
    slurm: &Slurm,
    batch_slot: Option<&BatchSlot>,
    folder: &JobFolder,
    cluster: &SlurmContext,
) -> Option<(String, u32)> {
    let batch_slot = batch_slot?;
    let env = at_clusters(environment(std::env::vars_os(), None), &slurm.args);
    // An element is cancelled by its number.
    if has_many_clusters(&env) {
        return None;
    }
    let most = *cluster.max_array_size.get_or_init(|| max_array_size(&env)).await;
    let (array, element) = (batch_slot.ix().checked_div(most)?, batch_slot.ix() % most);
    let salt = format!("{} {} {array}", folder.arrays().folder().display(), batch_slot.name());
    Some((batch_script::name(&lease.task.stage, &salt), element))
}

/// The attempt's own log, beside that of its task: both names in one, unless a filesystem takes no name of that length.
fn own_log(log: &Path, attempt: &str) -> PathBuf {
    const LONGEST_NAME: usize = 255;
    let both = log.with_extension(format!("{attempt}.log"));
    let is_short = both.file_name().is_none_or(|name| name.len() <= LONGEST_NAME);
    if is_short { both } else { log.with_file_name(format!("{attempt}.log")) }
}

/// Everything that the job needs to know.
pub async fn write_job_spec(
    lease: &Lease,
    slurm: Slurm,
    words: Option<Vec<String>>,
    folder: &JobFolder,
    place: Option<(String, u32)>,
    manifest: &str,
) -> Result<JobSpec, PathError> {
    let salt = format!("{} {:?} {}", lease.out.display(), std::time::SystemTime::now(), std::process::id());
    // Only a package records its origins, and computing them reads many records.
    let writes_them = lease.task.kind.facts().writes_provenance;
    let origins = if writes_them { (lease.origins)() } else { UpstreamProvenance::default() };
    let own = lease.out.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (name, element) = match place {
        Some((name, element)) => (name, Some(element)),
        None => (batch_script::name(&lease.task.id.file_name(), &salt), None),
    };
    let spec = JobSpec {
        task: (*lease.task).clone(),
        name,
        element,
        attempt: lease.attempt,
        assignment: lease.assignment.clone(),
        lowered: lease.lowered.clone(),
        out: lease.out.clone(),
        log: own_log(&lease.log, &own),
        project: lease.project.clone(),
        manifest: manifest.to_owned(),
        origins,
        slurm,
        words,
    };
    let program = batch_script::program(&spec.slurm, &spec.project).at("find", Path::new("this program"))?;
    let comment = format!("{} of {}", spec.task.id, spec.project.display());
    let script = element.is_none().then(|| batch_script::script(&program, folder.path(), &comment));
    let folder = folder.clone();
    // It waits for the disk, and a thousand elements of an array do so at once.
    let written = spawn_blocking(move || folder.write(&spec, script.as_deref()).map(|()| spec)).await;
    written.at("write", Path::new("job.json")).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_of_a_task_is_no_part_of_the_log_of_an_attempt() {
        let log = |name: &str| own_log(Path::new(&format!("/runs/1/{name}.log")), "0123456789abcdef-0");
        assert_eq!(log("it"), Path::new("/runs/1/it.0123456789abcdef-0.log"));
        assert_eq!(log(&"x".repeat(240)), Path::new("/runs/1/0123456789abcdef-0.log"));
    }
}
