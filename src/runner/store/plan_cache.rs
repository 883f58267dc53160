//! Manifests compiled to plans, and what to look at to know that nothing has to run.
//!
//! Parsing the YAML of 10,000 stages takes longer than all the rest of a run in which nothing has changed. So a plan is
//! kept beside the state, with what it was made from; it is only a cache, and anything odd about it means "make it
//! again".

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use super::durable::{PathError, create_folder, is_there};
use super::sealed::parallel_map;
use super::{FileStamp, StateFolder, sealed};
use base::event::{MovingSource, TaskId};
use base::files::{Digest, Hasher, read_bytes};
use plan::Plan;

/// Names one way to compile: the binary, the project's folder, the manifest's name as typed and the parameters as
/// typed; and one way to run that plan: the selection and the lock file.
#[derive(Clone, Debug)]
pub struct CompilerId {
    plan: Digest,
    run: Digest,
    folder: PathBuf,
}

/// What a plan was made from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanSources {
    /// Files that were read: absolute path, and the digest of the text.
    pub sources: Vec<(PathBuf, Digest)>,
    /// Files that would have been read first, had they been there.
    pub absent: Vec<PathBuf>,
    /// Environment variables that the plan reads.
    pub env: Vec<(String, Option<String>)>,
}

/// [`PlanSources`] as they are kept. Two processes may compile one plan from different texts at once: a plan is used
/// only with the sources that it was made from.
#[derive(Serialize, Deserialize)]
struct KeptSources {
    plan: Digest,
    sources: PlanSources,
}

/// What a wholly successful run looked at. If all of it is unchanged, the next run is a no-op; otherwise tasks with
/// nothing changed need not be looked at again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NoOpConditions {
    /// Of the compiled plan that it belongs to.
    pub plan: Digest,
    /// The events that report it, one JSON object a line: those that a run that looks at every task would emit.
    pub events: String,
    /// What no task has alone: the link to the outputs, the lock file.
    pub shared: WatchedPaths,
    /// Kept beside the rest, one by one.
    #[serde(skip)]
    pub tasks: Vec<WatchedTask>,
    /// Sources of outputs that can be others by now although nothing has changed here.
    pub sources: Vec<CachedSource>,
}

/// The source of a task's output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CachedSource {
    pub task: TaskId,
    pub stage: String,
    pub source: Box<MovingSource>,
}

/// Files, folders and links, and how they looked.
pub type WatchedPaths = Vec<(PathBuf, FileStamp)>;

/// What a task's key and output depend on beside its upstream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WatchedTask {
    /// Index in the plan.
    pub task: u32,
    /// `None`: it has none, or its key does not decide it alone.
    pub output: Option<WatchedOutput>,
    /// Its inputs, its output, its link in `latest`.
    pub look_at: WatchedPaths,
}

/// An output as its record had it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WatchedOutput {
    pub key: Digest,
    /// Of the folder's content.
    pub digest: Digest,
    /// Name of the folder under `out/`.
    pub folder: String,
}

impl CompilerId {
    /// `words`: all arguments of the command line that decide the plan.
    pub fn new(home: &StateFolder, words: &[&str]) -> Self {
        let mut h = Hasher::new();
        h.field(env!("CARGO_PKG_VERSION").as_bytes());
        // A new build of this program may read a manifest differently.
        if let Some(stamp) = std::env::current_exe().ok().and_then(|exe| FileStamp::through_links(&exe).ok()) {
            h.field(&stamp.mtime.to_le_bytes()).field(&stamp.size.to_le_bytes());
        }
        // Another project with this state folder, or a copy of this project, has another manifest of that name.
        h.field(home.project().as_os_str().as_bytes());
        for word in words {
            h.field(word.as_bytes());
        }
        let plan = h.finish();
        Self { plan, run: plan, folder: home.plans() }
    }

    /// One way to run the plan. `words`: the selection and the lock file.
    #[must_use]
    pub fn for_run(&self, words: &[String]) -> Self {
        let mut h = Hasher::new();
        h.field(self.plan.bytes());
        for word in words {
            h.field(word.as_bytes());
        }
        Self { run: h.finish(), ..self.clone() }
    }

    fn path(&self, suffix: &str) -> PathBuf {
        let id = if suffix == "rest" { &self.run } else { &self.plan };
        self.folder.join(format!("{}.{suffix}", id.short()))
    }

    /// The digest of the compiled plan, if everything it was made from is still the same. `env` answers for environment
    /// variables.
    pub fn fresh_plan(&self, env: impl Fn(&str) -> Option<String>) -> Option<Digest> {
        let KeptSources { plan, sources: origins } = sealed::read(&self.path("from"))?;
        let is_fresh = origins.env.iter().all(|(name, value)| env(name) == *value)
            && origins.absent.iter().all(|path| is_there(path).is_ok_and(|there| !there))
            && origins
                .sources
                .iter()
                .all(|(path, digest)| read_bytes(path).is_ok_and(|bytes| Digest::hash(&bytes) == *digest));
        is_fresh.then_some(plan)
    }

    /// The plan of that digest, unless another one was kept since.
    pub fn plan(&self, digest: &Digest) -> Option<Plan> {
        let (plan, tasks) = sealed::read_list_with(digest, &self.path("plan"), |task| task)?;
        Some(Plan { tasks, ..plan })
    }

    /// Returns the plan's digest. The origins are written last: a plan without them is not used.
    pub fn keep_plan(&self, origins: PlanSources, plan: &Plan) -> Result<Digest, PathError> {
        let _ = fs::remove_file(self.path("from"));
        self.drop_rest();
        create_folder(&self.folder)?;
        let digest = sealed::write_list(&self.path("plan"), &plan.without_tasks(), plan.tasks.iter())?;
        sealed::write(&self.path("from"), &KeptSources { plan: digest, sources: origins })?;
        Ok(digest)
    }

    /// What the last wholly successful run of the plan of that digest left to look at.
    pub fn no_op_conditions(&self, plan: Digest) -> Option<NoOpConditions> {
        let (kept, tasks): (NoOpConditions, _) = sealed::read_list(&self.path("rest"), |task| task)?;
        (kept.plan == plan).then_some(NoOpConditions { tasks, ..kept })
    }

    pub fn write_no_op_conditions(&self, rest: &NoOpConditions) -> Result<(), PathError> {
        create_folder(&self.folder)?;
        sealed::write_list(&self.path("rest"), rest, rest.tasks.iter()).map(drop)
    }

    pub fn drop_rest(&self) {
        let _ = fs::remove_file(self.path("rest"));
    }

    /// Removes all that is kept: the manifest is gone.
    pub fn drop_all(&self) {
        let _ = ["from", "rest", "plan"].map(|suffix| fs::remove_file(self.path(suffix)));
    }
}

impl NoOpConditions {
    /// Whether everything is as it was. Stops at the first difference. Inputs come first: mostly it is one of them that
    /// has changed, and a run looks at all outputs again once it has the project's lock.
    pub fn is_unchanged(&self) -> bool {
        let are_same = |part: fn(&WatchedTask) -> &[(PathBuf, FileStamp)]| {
            let differs = AtomicBool::new(false);
            parallel_map(&self.tasks, min_tasks_per_thread(&self.tasks), |task| {
                if !differs.load(Ordering::Relaxed) && !is_same(part(task)) {
                    differs.store(true, Ordering::Relaxed);
                }
            });
            !differs.into_inner()
        };
        self.is_shared_unchanged()
            && are_same(|task| task.look_at.split_at(task.inputs()).0)
            && are_same(|task| task.look_at.split_at(task.inputs()).1)
    }

    /// Like `is_unchanged`, of what no task has alone.
    pub fn is_shared_unchanged(&self) -> bool {
        is_same(&self.shared)
    }
}

impl WatchedTask {
    /// For each of them, whether everything looks as it did.
    pub fn unchanged(tasks: &[Self]) -> Vec<bool> {
        parallel_map(tasks, min_tasks_per_thread(tasks), |task| is_same(&task.look_at))
    }

    /// How many of the paths are before those of its output.
    fn inputs(&self) -> usize {
        let folder = self.output.as_ref().map(|output| output.folder.as_str());
        let is_output = |(path, _): &(PathBuf, FileStamp)| folder.is_some_and(|folder| path.ends_with(folder));
        self.look_at.iter().position(is_output).unwrap_or_default()
    }
}

/// This many tasks of these have 200 paths: starting a thread takes as long as that many `stat` calls.
fn min_tasks_per_thread(tasks: &[WatchedTask]) -> usize {
    const PATHS: usize = 200;
    let path_count: usize = tasks.iter().map(|task| task.look_at.len()).sum();
    PATHS * tasks.len() / path_count.max(1)
}

fn is_same(paths: &[(PathBuf, FileStamp)]) -> bool {
    paths.iter().all(|(path, stamp)| {
        let now = if stamp.is_link() { FileStamp::of_path(path) } else { FileStamp::through_links(path) };
        now.is_ok_and(|now| now == *stamp)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_of_another_text_is_not_used_with_these_sources() {
        let folder = tempfile::tempdir().unwrap();
        let home = StateFolder::new(folder.path().to_owned(), folder.path().join(".regatta"));
        let compiler = CompilerId::new(&home, &["m"]);
        let manifest = folder.path().join("m.yaml");
        let sources_of = |text: &str| {
            fs::write(&manifest, text).unwrap();
            PlanSources { sources: vec![(manifest.clone(), Digest::hash(text.as_bytes()))], ..PlanSources::default() }
        };
        let named = |name: &str| Plan { name: name.to_owned(), ..Plan::default() };
        let [a, b] = ["a", "b"].map(|text| (sources_of(text), named(text)));
        compiler.keep_plan(a.0.clone(), &a.1).unwrap();
        let sources = fs::read(compiler.path("from")).unwrap();
        // Two at once: the plan is that of the second, the sources are those of the first.
        compiler.keep_plan(b.0, &b.1).unwrap();
        fs::write(compiler.path("from"), sources).unwrap();
        assert_eq!(compiler.fresh_plan(|_| None), None, "the text is the second one");
        sources_of("a");
        let fresh = compiler.fresh_plan(|_| None).unwrap();
        assert_eq!(compiler.plan(&fresh).map(|plan| plan.name), None);
        assert_eq!(compiler.keep_plan(a.0, &a.1).unwrap(), fresh);
        assert_eq!(compiler.plan(&fresh).map(|plan| plan.name), Some("a".to_owned()));
    }
}
