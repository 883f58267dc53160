//! What each action does: one implementation of `Run` for each.
//!
//! A stage gets a [`Lease`] and fills its output folder. It knows nothing of keys, of other
//! tasks or of when it runs.
//!
//! ```text
//!  Action ─→ `Run` of its type ─→ the output folder of its Lease ─→ Done or Failure
//!         └ remote: the same in a Slurm job, or on hosts over ssh
//! ```

mod bench;
mod compare;
pub mod container;
mod engine;
mod git;
mod git_command;
mod gpu_clocks;
mod image;
mod mlperf;
mod remote;
mod repository;
mod serve;
mod shell;
#[cfg(test)]
#[path = "../../tests/bench/simulated_seeds.rs"]
mod simulated_seeds;
pub mod task_context;
mod template;
mod trtllm_bench;
mod weights;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use base::event::{Done, Failure, MovingSource, RunId};
use base::files::Digest;
use bench::identity;
pub use container::{engine_problem, image_id, place_of};
pub use engine::{engine_commands, engine_spec, gpu_timing, twin_serving};
pub use git::source_notice;
use gpu_clocks::LockedClocks;
pub use image::{image_program, resolved};
use plan::manifest::model::{Action, HostOn};
use plan::{Task, read_action};
pub use remote::hosts::{AgentInput, AgentMessage, AgentOrders, query_host, run_agent};
use remote::slurm::SlurmContext;
pub use remote::slurm::{AllocationRun, AttemptClaim, NodeWorkerError, end_abandoned, in_allocation, time_left, work};
use remote::{hosts, slurm};
use runner::store::PathError;
use runner::{Lease, OpenFact, TaskExecutor, no_secret_text, secret_values, within};
pub use serve::previews;
use task_context::TaskContext;
pub use weights::{listed_size, weights_size};

type BoxFuture<'a> = Pin<Box<dyn Future<Output = Result<Done, Failure>> + Send + 'a>>;

/// Performs every kind of task: on this machine, or in a job on another one.
#[derive(Clone, Debug)]
pub struct StageExecutor {
    home: PathBuf,
    run: RunId,
    /// The program of simulated servers and of LoadGen's tests; `None` is this one.
    pub program: Option<PathBuf>,
    cluster: SlurmContext,
    /// Every task runs here, regardless of its stage's `host`: this is the place already, a node of an allocation.
    pub in_place: bool,
    /// Whether programs and servers that a manifest names may be queried for a key; not for a plan, which starts and
    /// queries nothing.
    pub may_query: bool,
    images: Arc<container::Images>,
    /// Stages of which it is noted that a secret has no value, each with the secret.
    missing_secrets: Arc<Mutex<BTreeSet<(String, String)>>>,
}

impl StageExecutor {
    /// `home` is the project's state folder; with `run` it marks every process, so that the next run can find the owner
    /// of a process.
    pub fn new(home: impl Into<PathBuf>, run: RunId) -> Self {
        Self {
            home: home.into(),
            run,
            program: None,
            cluster: SlurmContext::default(),
            in_place: false,
            may_query: true,
            images: Arc::default(),
            missing_secrets: Arc::default(),
        }
    }

    /// Its jobs are those of this manifest.
    #[must_use]
    pub fn of_manifest(self, name: &str) -> Self {
        Self { cluster: SlurmContext::of_manifest(name), ..self }
    }

    /// Does a task on this machine, regardless of its stage's `host`: on a node of a cluster that is so already.
    ///
    /// Its future is moved several times before it begins: it is in a box, and so is what a small command does not
    /// need.
    fn run_locally(&self, lease: Lease) -> BoxFuture<'_> {
        Box::pin(self.perform_action(lease))
    }

    /// Once for each stage, which may have thousands of tasks.
    fn note_missing_secrets(&self, lease: &Lease) {
        for name in &lease.task.secrets {
            if secret_values(name).is_ok_and(|values| values.is_empty())
                && self.missing_secrets.lock().insert((lease.task.stage.clone(), name.clone()))
            {
                let reason = no_secret_text(std::env::var_os(name).as_deref());
                lease.notice(format!("{name} {reason}; the stage lists it under `secrets:` and runs without it"));
            }
        }
    }

    async fn perform_action(&self, lease: Lease) -> Result<Done, Failure> {
        self.note_missing_secrets(&lease);
        let slurm_container = match assigned("host", lease.assignment.host.as_deref())? {
            Some(HostOn::Slurm(slurm)) if slurm.each_node => {
                return Box::pin(hosts::on_each_node(lease, &slurm, &self.home, &self.run)).await;
            }
            Some(HostOn::Slurm(slurm)) => slurm.container,
            Some(HostOn::Ssh(_)) | None => None,
        };
        // In place of the container program that the node does not have.
        let pyxis = if slurm_container.is_none() { Box::pin(container::of_job(&lease)).await? } else { None };
        let is_pyxis = pyxis.is_some();
        let action = read_action(&lease.task.id, &lease.assignment.action)?;
        // Unlocks them when this ends.
        let _clocks = match &lease.task.gpu_clocks {
            Some(clocks) => Some(Box::pin(LockedClocks::lock(&lease, clocks)).await?),
            None => None,
        };
        let mut context = TaskContext::new(lease, &self.home, &self.run)?;
        context.slurm_container = slurm_container.or(pyxis);
        if context.slurm_container.is_some() {
            let Lease { project, out, .. } = &context.lease;
            let problem = [project, out].into_iter().find_map(|path| container::mount_problem(path, true));
            if let Some(problem) = problem {
                return Err(Failure::refused(problem));
            }
        }
        if !is_pyxis {
            context.place =
                Box::pin(container::TaskContainer::find(&context.lease, &context.mark, &self.images)).await?;
        }
        context.other_program.clone_from(&self.program);
        run(action, context).await
    }
}

/// A part of a task's assignment that the plan has as JSON.
fn assigned<T: DeserializeOwned>(part: &str, text: Option<&str>) -> Result<Option<T>, Failure> {
    text.map(serde_json::from_str).transpose().map_err(|error| {
        Failure::refused(format!("its {part} cannot be read: {error}"))
            .hint("this is a bug in Regatta, not in the manifest")
    })
}

/// The code of an action.
trait Run {
    /// The version of its own code, where that code decides what is in the output. Raise it when you change what the
    /// action writes:
    /// then outputs of older programs are made again.
    const FORMAT: Option<u32>;

    /// [`Self::FORMAT`], unless the settings decide it.
    fn format(&self) -> Option<u32> {
        Self::FORMAT
    }

    /// Fills the output folder of the lease.
    async fn run(&self, context: TaskContext) -> Result<Done, Failure>;
}

macro_rules! run_actions {
    ($($(#[doc = $about:literal])* $key:ident: $name:ident($settings:ty),)+) => {
        fn format(action: &Action) -> Option<u32> {
            match action {
                $(Action::$name(settings) => settings.format(),)+
            }
        }

        async fn run(action: Action, context: TaskContext) -> Result<Done, Failure> {
            match action {
                $(Action::$name(settings) => Box::pin(settings.run(context)).await,)+
            }
        }
    };
}
plan::for_each_action!(run_actions);

/// The fact of a task's key that has its locked clocks.
const GPU_CLOCKS: &str = "gpu_clocks";

impl TaskExecutor for StageExecutor {
    fn facts(&self, task: &Task) -> BTreeMap<String, String> {
        let format = task.action().and_then(format).map(|version| ("stage format".to_owned(), version.to_string()));
        let is_lenient = matches!(task.action(), Some(Action::Shell(_))) && !task.strict;
        let strict = is_lenient.then(|| ("strict".to_owned(), "false".to_owned()));
        let confined = task.confine.then(|| ("confine".to_owned(), "true".to_owned()));
        let knows_image = self.may_query || container::open_image(task).is_none();
        let image = knows_image.then(|| container::image_fact(task, &self.images)).flatten();
        let mut facts: BTreeMap<_, _> = format.into_iter().chain(strict).chain(confined).chain(image).collect();
        if self.may_query {
            facts.extend(identity::facts(task));
        }
        facts.extend(task.gpu_clocks.as_ref().map(|clocks| (GPU_CLOCKS.to_owned(), clocks.to_string())));
        facts
    }

    fn open_facts(&self, task: &Task) -> Vec<OpenFact> {
        if self.may_query {
            return Vec::new();
        }
        container::open_image(task).into_iter().chain(identity::open_facts(task)).collect()
    }

    fn unusable_reason(&self, task: &Task, folder: &Path) -> Option<String> {
        // What is on a node is not looked for here.
        let is_here = task.host.is_none() || self.in_place;
        match task.action() {
            Some(Action::Image(image)) if is_here => image::missing_image(image, folder, self.may_query),
            Some(Action::Repository(_)) if is_here => repository::unusable_output(folder, &self.home),
            _ => None,
        }
    }

    fn source_notice(&self, stage: &str, source: &MovingSource) -> Option<String> {
        source_notice(source, stage, self.may_query)
    }

    fn portable_digests(
        &self,
        task: &Task,
        folder: &Path,
        places: &dyn Fn() -> Vec<(PathBuf, String)>,
    ) -> Result<BTreeMap<PathBuf, Digest>, PathError> {
        match task.action() {
            Some(Action::Repository(_)) => repository::portable_configs(folder, places),
            Some(Action::Weights(weights)) if weights.path.is_some() => weights::portable_links(folder),
            _ => Ok(BTreeMap::new()),
        }
    }

    async fn perform(&self, lease: Lease) -> Result<Done, Failure> {
        match assigned("host", lease.assignment.host.as_deref())? {
            Some(HostOn::Ssh(machines)) => Box::pin(hosts::over_ssh(lease, &machines, &self.home, &self.run)).await,
            Some(HostOn::Slurm(slurm)) if !self.in_place => {
                Box::pin(slurm::perform(lease, *slurm, &self.home, &self.cluster)).await
            }
            // On its node already: its time counts from now.
            Some(HostOn::Slurm(_)) => {
                let (limit, stop) = (lease.task.timeout, lease.stop.clone());
                within(limit, &stop, self.run_locally(lease)).await
            }
            None => self.run_locally(lease).await,
        }
    }
}
