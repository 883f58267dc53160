//! The frozen graph: tasks in an order in which they could run one after the other.
//!
//! A task that is held with its plan: the tasks of a large plan take too much memory to be copied.
//!
//! `--until` and `--only`: which tasks of a plan are wanted.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::actions::Action;
use crate::manifest::model::{Bench, Container, HostOn, Mlperf, Serve};
use crate::{ActionKind, PlanReference, TaskPart};
use base::diag::{Diagnostic, Diagnostics, did_you_mean};
use base::event::{Endpoint, TaskId};
use base::files::{Digest, Hasher};
use base::spec::GpuClocks;
use base::units::unquoted;

/// Everything a run needs to know of a manifest. Serializable without loss (postcard), so that a fast no-op need not
/// parse YAML.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The manifest's name.
    pub name: String,
    /// What `regatta run` was given for it: a name or a path. Empty: nothing was.
    pub manifest: String,
    /// The files that the manifest was read from, in the order of reading: path, or `shipped:path`, and digest.
    pub sources: Vec<(String, Digest)>,
    /// The parameters as they were understood, for display: name → text.
    pub params: BTreeMap<String, String>,
    /// Those of them that a variable of the environment decided: name → variable.
    pub of_environment: BTreeMap<String, String>,
    /// Parameters that have their default, given or not.
    pub at_default: BTreeSet<String>,
    /// Each option of the command line, and the stages that read what it sets.
    pub given: BTreeMap<String, BTreeSet<String>>,
    /// Topological: `needs` point to earlier tasks only.
    pub tasks: Vec<Task>,
}

impl Plan {
    /// A copy without tasks.
    #[must_use]
    pub fn without_tasks(&self) -> Self {
        let Self { name, manifest, sources, params, of_environment, at_default, given, tasks: _ } = self;
        Self {
            name: name.clone(),
            manifest: manifest.clone(),
            sources: sources.clone(),
            params: params.clone(),
            of_environment: of_environment.clone(),
            at_default: at_default.clone(),
            given: given.clone(),
            tasks: Vec::new(),
        }
    }

    /// BLAKE3 of the digests of all files that the manifest was read from.
    pub fn manifest_digest(&self) -> Option<Digest> {
        let mut hasher = Hasher::new();
        for (_, digest) in &self.sources {
            hasher.field(digest.bytes());
        }
        (!self.sources.is_empty()).then(|| hasher.finish())
    }

    /// In the form in which it is kept.
    pub fn to_bytes(&self) -> Result<Vec<u8>, UnreadablePlan> {
        Ok(postcard::to_stdvec(self)?)
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<Self, UnreadablePlan> {
        Ok(postcard::from_bytes(bytes)?)
    }

    /// For each task whether it is wanted. `until`: these and all they need; `only`: just these; neither: all.
    /// A name is a stage (all its tasks) or one task.
    ///
    /// # Errors
    /// Every name that is neither, with a suggestion.
    pub fn select(&self, until: &[String], only: &[String]) -> Result<Vec<bool>, Diagnostics> {
        let mut faults = Diagnostics::new();
        let mut wanted = vec![until.is_empty() && only.is_empty(); self.tasks.len()];
        for name in until.iter().chain(only) {
            let mut any = false;
            for (task, wanted) in self.tasks.iter().zip(&mut wanted) {
                if task.stage == *name || task.id.as_str() == name {
                    *wanted = true;
                    any = true;
                }
            }
            if !any {
                let mut names: Vec<&str> = self.tasks.iter().map(|task| task.stage.as_str()).collect();
                names.dedup();
                names.extend(self.tasks.iter().map(|task| task.id.as_str()).filter(|id| id.contains('/')));
                let unknown = Diagnostic::error(format!("there is no stage or task `{name}`"));
                faults.push(unknown.maybe_hint(did_you_mean(name, names.iter().copied())));
            }
        }
        if only.is_empty() {
            // Needs point backwards, so one sweep from the end reaches everything.
            for at in (0..self.tasks.len()).rev() {
                if wanted.get(at) == Some(&true) {
                    for need in self.tasks.get(at).into_iter().flat_map(|task| &task.needs) {
                        if let Some(wanted) = wanted.get_mut(need.task as usize) {
                            *wanted = true;
                        }
                    }
                }
            }
        }
        faults.or(wanted)
    }

    /// The `KEY=VALUE` arguments that make this plan again, wherever they are typed: those of the command line, and the
    /// values that the environment decided.
    pub fn settings(&self) -> Vec<String> {
        let mut list: Vec<String> = self.given.keys().cloned().collect();
        for name in self.of_environment.keys() {
            let start = format!("{name}=");
            if let Some(value) = self.params.get(name).filter(|_| !list.iter().any(|word| word.starts_with(&start))) {
                list.push(format!("{start}{}", argument(value)));
            }
        }
        list
    }

    /// Command-line options that change nothing for the chosen tasks, a sentence for each.
    pub fn idle(&self, chosen: &[bool]) -> Vec<String> {
        let at_work = |stage: &String| {
            self.tasks
                .iter()
                .zip(chosen)
                .any(|(task, chosen)| *chosen && task.skipped.is_none() && task.stage == *stage)
        };
        self.given
            .iter()
            .filter(|(_, users)| !users.is_empty() && !users.iter().any(at_work))
            .map(|(word, users)| {
                let users: Vec<&str> = users.iter().map(String::as_str).collect();
                let (names, are) = (users.join(", "), if users.len() == 1 { "is" } else { "are" });
                format!("{word} has no effect: only {names} would use it, and {are} skipped or not selected")
            })
            .collect()
    }
}

/// A plan could not be copied through its bytes: a fault of this program.
#[derive(Debug, thiserror::Error)]
#[error("the plan cannot be kept: {0}")]
pub struct UnreadablePlan(#[from] postcard::Error);

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub id: TaskId,
    /// The stage it came from.
    pub stage: String,
    /// The values that a `foreach` gives it, by variable. A list, because it is small in every task.
    #[serde(default)]
    pub foreach: Vec<(String, String)>,
    pub about: Option<String>,
    pub lifetime: Lifetime,
    /// Set when its `when` is false, or something it cannot do without is skipped: why.
    pub skipped: Option<String>,
    pub kind: ActionKind,
    /// With [`super::PlanReference`] tokens in it. A skipped task has none.
    #[serde(with = "optional_part")]
    pub action: Option<TaskPart<Action>>,
    /// Where its programs run; with tokens, too.
    pub container: Option<TaskPart<Container>>,
    pub needs: Vec<Need>,
    /// Name → paths or globs, as written: relative ones are relative to the project folder. May hold `⟦out:…⟧` tokens.
    pub inputs: BTreeMap<String, Vec<String>>,
    /// Inputs that the project does not have, as written, and the copies of this program's own files that are read
    /// instead.
    #[serde(default)]
    pub shipped: BTreeMap<String, PathBuf>,
    /// Files that must be in the output folder at the end.
    pub outputs: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub secrets: Vec<String>,
    /// Where it runs when that is not here. No part of the key.
    pub host: Option<TaskPart<HostOn>>,
    pub gpus: u32,
    /// What the clocks of its GPUs are locked to while it runs. Part of the key.
    pub gpu_clocks: Option<GpuClocks>,
    /// `-j` slots; `None` takes all of them.
    pub cpus: Option<u32>,
    pub timeout: Option<Duration>,
    pub retry: Option<Box<RetryRule>>,
    /// false: never taken from the store.
    pub cache: bool,
    /// The endpoints that it uses and that the run does not start. With `cache`, what they are is part of the key.
    pub external: Option<TaskPart<Vec<Endpoint>>>,
    /// false: kept from stores that machines share. No part of the key.
    pub share: bool,
    pub resume: bool,
    /// false: a shell text runs without `-e`, `-u` and `pipefail`. Part of the key of a shell stage.
    pub strict: bool,
    /// Its command may read what the stage declares, and system folders, and nothing else. Part of the key of a shell
    /// stage.
    #[serde(default)]
    pub confine: bool,
}

impl Task {
    /// A step that requests nothing, takes all slots and is kept: what is true of every task but its name.
    pub const fn minimal(id: TaskId, stage: String, kind: ActionKind) -> Self {
        Self {
            id,
            stage,
            foreach: Vec::new(),
            about: None,
            lifetime: Lifetime::Step,
            skipped: None,
            kind,
            action: None,
            container: None,
            needs: Vec::new(),
            inputs: BTreeMap::new(),
            shipped: BTreeMap::new(),
            outputs: Vec::new(),
            env: BTreeMap::new(),
            secrets: Vec::new(),
            host: None,
            gpus: 0,
            gpu_clocks: None,
            cpus: None,
            timeout: None,
            retry: None,
            cache: true,
            external: None,
            share: true,
            resume: false,
            strict: true,
            confine: false,
        }
    }

    /// [`Self::minimal`] with an action.
    pub fn new(id: TaskId, stage: String, action: TaskPart<Action>) -> Self {
        let kind = action.kind();
        Self { action: Some(action), ..Self::minimal(id, stage, kind) }
    }

    /// Its action as canonical JSON.
    pub fn action_text(&self) -> &str {
        self.action.as_ref().map_or("{}", TaskPart::json)
    }

    /// What it does; references are still symbolic. A skipped task does nothing.
    pub fn action(&self) -> Option<&Action> {
        self.action.as_deref()
    }

    /// Its settings, if it is a benchmark that is not skipped.
    pub fn bench(&self) -> Option<&Bench> {
        if let Action::Bench(bench) = self.action()? { Some(bench) } else { None }
    }

    /// Its settings, if it starts servers and is not skipped.
    pub fn serve(&self) -> Option<&Serve> {
        if let Action::Serve(serve) = self.action()? { Some(serve) } else { None }
    }

    /// Whether it compiles LoadGen: of MLPerf's stages the one that measures nothing and is not made of measurements.
    pub fn is_loadgen_library(&self) -> bool {
        matches!(self.action(), Some(Action::Mlperf(Mlperf::Loadgen(_))))
    }

    /// Whether it starts a Triton server.
    pub fn is_triton_server(&self) -> bool {
        matches!(self.serve(), Some(Serve::Triton(_)))
    }

    /// Servers that it uses and that the run does not start; empty for most tasks.
    pub fn external_servers(&self) -> &[Endpoint] {
        self.external.as_ref().map_or(&[], |servers| servers)
    }

    /// How often it is submitted again when it has lost its machine.
    pub fn resubmit(&self) -> u32 {
        match self.host.as_deref() {
            Some(HostOn::Slurm(slurm)) => slurm.resubmit,
            Some(HostOn::Ssh(_)) | None => 0,
        }
    }

    /// Whether looking at files can decide that its output still holds: none shows whether an image is still there, or
    /// a server still the same.
    pub fn is_decided_by_files(&self) -> bool {
        self.container.is_none() && self.kind.facts().is_files && self.external.is_none()
    }

    /// Whether it repeats the other one on purpose: the same measurement or the same command, of its own or of an equal
    /// server's.
    pub fn repeats(&self, other: &Self) -> bool {
        let without_names = |text: &str| PlanReference::replace_in(text, |_| Some(String::new()));
        let values = |task: &Self| {
            let inputs = task.inputs.values().flatten().map(String::as_str);
            let parts = std::iter::once(task.action_text()).chain(task.container.as_ref().map(TaskPart::json));
            let texts = parts.chain(inputs).chain(task.env.values().map(String::as_str));
            texts.map(|text| without_names(text).ok()).collect::<Option<Vec<_>>>()
        };
        let is_same_action = self.kind.facts().is_repeatable && self.kind == other.kind;
        is_same_action && self.id != other.id && values(self) == values(other)
    }
}

/// An action in a plan's bytes: its JSON, or an empty text without an action.
mod optional_part {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::task_part::{TaskPart, TaskPartValue};

    #[expect(clippy::ref_option, reason = "serde gives it so")]
    pub fn serialize<T, S: Serializer>(part: &Option<TaskPart<T>>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(part.as_ref().map_or("", TaskPart::json))
    }

    pub fn deserialize<'de, T: TaskPartValue, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<TaskPart<T>>, D::Error> {
        let json = String::deserialize(deserializer)?;
        (!json.is_empty()).then(|| TaskPart::from_json(&json)).transpose().map_err(D::Error::custom)
    }
}

/// An edge to an earlier task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Need {
    /// Index in [`Plan::tasks`].
    pub task: u32,
    /// false for `needs:` (order only): then the key does not depend on its output.
    pub data: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lifetime {
    /// Runs to its end and leaves an output folder.
    Step,
    /// Is kept up while a dependent runs.
    Service,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RetryRule {
    pub times: u32,
    pub delay: Duration,
    /// Only when memory ran out.
    pub on_oom: bool,
    pub lower: Option<OomReductionRule>,
}

/// The number that is lowered before each further attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OomReductionRule {
    #[serde(alias = "knob")]
    pub setting: String,
    pub by: f64,
    /// Not below this; `None`: half of the first value.
    pub to: Option<f64>,
}

impl OomReductionRule {
    /// The next value below `now`; `first` is the manifest's. `None` at the end.
    pub fn next(&self, first: f64, now: f64) -> Option<f64> {
        let least = self.to.unwrap_or(first / 2.0);
        // Steps of 0.05 must not end in 0.7999999.
        let next = ((now - self.by).max(least) * 1e6).round() / 1e6;
        (next < now && next > 0.0).then_some(next)
    }
}

/// One task of a plan. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SharedTask {
    plan: Arc<Plan>,
    /// In [`Plan::tasks`].
    index: usize,
}

impl SharedTask {
    /// # Panics
    /// The plan has no such task.
    pub fn new(plan: &Arc<Plan>, index: usize) -> Self {
        assert!(index < plan.tasks.len(), "the plan has {} tasks, and none of index {index}", plan.tasks.len());
        Self { plan: Arc::clone(plan), index }
    }
}

impl Deref for SharedTask {
    type Target = Task;

    fn deref(&self) -> &Task {
        &self.plan.tasks[self.index]
    }
}

/// A task that came from elsewhere, without its plan.
impl From<Task> for SharedTask {
    fn from(task: Task) -> Self {
        Self { plan: Arc::new(Plan { tasks: vec![task], ..Plan::default() }), index: 0 }
    }
}

/// A value for display as it is typed: a list is `a,b`.
fn argument(shown: &str) -> String {
    let items: Option<Vec<serde_json::Value>> = serde_json::from_str(shown).ok();
    let Some(items) = items else { return shown.to_owned() };
    let texts: Vec<String> = items.iter().map(unquoted).collect();
    texts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_of_a_program_that_wrote_less_is_read() {
        let task = Task::minimal(TaskId::new("a"), "a".to_owned(), ActionKind::Shell);
        let mut written = serde_json::to_value(&task).unwrap();
        for name in ["foreach", "shipped", "gpu_clocks", "confine"] {
            written.as_object_mut().unwrap().remove(name).unwrap();
        }
        assert_eq!(serde_json::from_value::<Task>(written).unwrap(), task);
    }

    #[test]
    fn steps_lead_down_to_the_end_and_not_beyond() {
        let steps = |by: f64, to: Option<f64>, first: f64| {
            let lowering = OomReductionRule { setting: "x".to_owned(), by, to };
            std::iter::successors(Some(first), |now| lowering.next(first, *now)).collect::<Vec<_>>()
        };
        assert_eq!(steps(0.05, Some(0.78), 0.95), [0.95, 0.9, 0.85, 0.8, 0.78]);
        assert_eq!(steps(0.3, None, 0.9), [0.9, 0.6, 0.45]);
        assert_eq!(steps(1024.0, Some(2048.0), 4096.0), [4096.0, 3072.0, 2048.0]);
        assert_eq!(steps(0.5, Some(0.0), 0.4), [0.4]);
    }
}
