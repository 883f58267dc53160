//! Attempts at a stage with stand-ins for Slurm's programs. Time is that of the runtime, so that tests need not wait.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::Mutex;

use super::allocation::OnNode;
use super::commands::{Environment, at_clusters};
use super::job_files::write_job_spec;
use super::run_attempt::JobAttempt;
use super::submission::SlurmContext;
use base::event::{Event, Stop, TaskId};
use base::files::read_text;
use plan::manifest::model::Slurm;
use plan::{ActionKind, Lifetime, Task};
use runner::store::JobFolder;
use runner::{Lease, ResolvedTask, UpstreamProvenance};

/// In the queue while there is a file `job`, in the state that it contains.
const SQUEUE: &str = r#"[ ! -e "$W/job" ] || echo "7|$(cat "$W/job")|None|n1|$(cat "$W/name")""#;
const SBATCH: &str = r#"echo RUNNING > "$W/job"; echo 7"#;
const SCANCEL: &str = r#"rm -f "$W/job""#;

/// One project whose jobs these programs take.
pub struct StandIn {
    folder: tempfile::TempDir,
    pub stop: Stop,
    notices: Arc<Mutex<Vec<String>>>,
    pub cluster: SlurmContext,
}

impl StandIn {
    /// `programs`: shell scripts in the place of the usual ones; the folder is `$W`.
    pub fn new(programs: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        fs::create_dir(&bin).unwrap();
        let usual = [("sbatch", SBATCH), ("squeue", SQUEUE), ("scancel", SCANCEL), ("scontrol", "")];
        for (name, text) in usual.iter().chain(programs) {
            let text = format!("#!/bin/sh\necho \"{name} $*\" >> \"$W/calls\"\n{text}\n");
            fs::write(bin.join(name), text).unwrap();
            fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self { folder, stop: Stop::new(), notices: Arc::default(), cluster: SlurmContext::default() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The calls of one program.
    pub fn calls(&self, program: &str) -> Vec<String> {
        let calls = read_text(self.path("calls")).unwrap_or_default();
        calls.lines().filter(|line| line.split(' ').next() == Some(program)).map(str::to_owned).collect()
    }

    pub fn notices(&self) -> Vec<String> {
        self.notices.lock().clone()
    }

    pub fn environment(&self) -> Environment {
        let path = format!("{}:/usr/bin:/bin", self.path("bin").display());
        [("PATH".into(), path.into()), ("W".into(), self.path("").into())].into_iter().collect()
    }

    pub fn lease(&self, lifetime: Lifetime) -> Lease {
        let notices = Arc::clone(&self.notices);
        let task = Task::minimal(TaskId::new("it"), "it".to_owned(), ActionKind::Shell);
        let task = Task { lifetime, ..task };
        Lease {
            task: task.into(),
            attempt: 1,
            assignment: ResolvedTask::default(),
            out: self.path("state/out/0123-0"),
            log: self.path("log"),
            project: self.path("."),
            gpus: Vec::new(),
            lowered: None,
            batch_slot: None,
            stop: self.stop.clone(),
            ready: None,
            emit: Arc::new(move |event| {
                if let Event::Notice { text, .. } = event {
                    notices.lock().push(text);
                }
            }),
            origins: Arc::new(UpstreamProvenance::default),
        }
    }

    pub async fn attempt<'a>(&'a self, lease: &'a Lease, slurm: Slurm) -> JobAttempt<'a> {
        let folder = JobFolder::for_output(&self.path("state"), &lease.out);
        let spec = write_job_spec(lease, slurm, None, &folder, None, "m").await.unwrap();
        fs::write(self.path("name"), &spec.name).unwrap();
        let env = at_clusters(self.environment(), &spec.slurm.args);
        JobAttempt {
            lease,
            cluster: &self.cluster,
            folder,
            spec,
            view: self.cluster.queue.subscribe(&env, Duration::from_secs(1)),
            env,
            on_node: OnNode::default(),
            settled: AtomicBool::new(false),
        }
    }
}
