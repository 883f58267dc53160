//! One attempt at a stage as a job: what belongs to it, and how it is submitted.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use super::batch_script;
use super::commands::{Environment, QueueView, Submission};
use super::context::SlurmContext;
use super::job_protocol::JobSpec;
use super::node_resources::OnNode;
use exec::process::shown;
use runner::Lease;
use runner::store::JobFolder;

/// How often the folder is looked at, where few jobs are followed.
pub const FOLDER_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// So many jobs are few. With more of them each is looked at less often, so that a shared filesystem has the same load.
const FEW: usize = 16;
const LONGEST_POLL_INTERVAL: Duration = Duration::from_secs(10);

/// How often each folder is looked at, of so many jobs.
pub fn folder_poll_interval(jobs: usize) -> Duration {
    let times = u32::try_from(jobs.div_ceil(FEW).max(1)).unwrap_or(u32::MAX);
    FOLDER_POLL_INTERVAL.saturating_mul(times).min(LONGEST_POLL_INTERVAL)
}

/// One attempt at a stage.
pub struct JobAttempt<'a> {
    pub lease: &'a Lease,
    pub cluster: &'a SlurmContext,
    pub folder: JobFolder,
    pub spec: JobSpec,
    pub env: Environment,
    pub view: watch::Receiver<QueueView>,
    pub on_node: OnNode,
    /// Its end has been seen, whatever it was: the folder has no use any more.
    pub settled: AtomicBool,
}

impl JobAttempt<'_> {
    /// Its end was seen, or there is none: nothing of it is to be looked for again.
    pub fn mark_ended(&self) {
        self.settled.store(true, Ordering::Relaxed);
    }

    pub fn submission(&self) -> Submission {
        Submission {
            name: self.spec.name.clone(),
            folder: self.folder.path().to_owned(),
            script: self.folder.script(),
            output: self.output(),
            array: self.spec.element.map(|element| (element.to_string(), None)),
            warn_s: self.spec.slurm.warn.time().as_secs().clamp(1, 65_535),
            flags: batch_script::flags(&self.spec.slurm, self.spec.task.gpus),
            env: self.env.clone(),
        }
    }

    /// What the batch system and the script print.
    pub fn output(&self) -> PathBuf {
        match self.spec.element {
            Some(element) => self.folder.arrays().output(&self.spec.name, element),
            None => self.folder.output(),
        }
    }
}

/// The submission as it could be typed.
pub fn submission_command(submission: &Submission) -> String {
    let mut argv = vec![std::ffi::OsString::from("sbatch")];
    argv.extend(submission.sbatch_argv());
    shown(&argv, &[], &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_jobs_are_looked_at_less_often() {
        let interval = |jobs: usize| folder_poll_interval(jobs).as_millis();
        assert_eq!([interval(0), interval(16), interval(40), interval(100_000)], [500, 500, 1500, 10_000]);
    }
}
