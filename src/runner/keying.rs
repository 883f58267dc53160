//! A task's key, and whether the cache has its output.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::project_folder::{action_without_project, without_project};
use super::task_executor::TaskExecutor;
use crate::store::{
    Digests, InputError, InputState, KEY_VERSION, Lookup, OutputCache, PathError, StateFolder, TaskKey, TaskRecord,
    explain, latest_hint,
};
use base::event::{Endpoint, Failure, FailureKind, GpuId, ReducedSetting};
use base::files::{Digest, read_text};
use plan::{Lifetime, Plan, PlanReference, Task};

/// What a settled task has to offer to those that need it.
#[derive(Clone, Debug)]
pub(super) enum TaskOutput {
    Output(Arc<TaskRecord>),
    /// A service: the digest of its key; endpoints once it is up.
    Service {
        key: Digest,
        endpoints: Vec<Endpoint>,
        /// Leased to it.
        gpus: Vec<GpuId>,
        lowered: Option<ReducedSetting>,
    },
    /// Nothing: it was skipped.
    Nothing,
}

impl TaskOutput {
    pub(super) fn digest(&self) -> Option<Digest> {
        match self {
            Self::Output(record) => Some(record.digest),
            Self::Service { key, .. } => Some(*key),
            Self::Nothing => None,
        }
    }
}

/// A task's key and everything that was looked at for it.
#[derive(Clone, Debug)]
pub(super) struct Keyed {
    pub key: TaskKey,
    pub digest: Digest,
    pub inputs: BTreeMap<String, InputState>,
    /// The digest of the key with the manifest's values, nothing lowered.
    pub base: Digest,
    /// What a retry has lowered for it; part of the key.
    pub lowered: Option<ReducedSetting>,
    /// What it does names the project's folder, which is not in the key.
    pub names_project: bool,
}

/// Inputs that are files of the project or of the machine; those that lie in an upstream output are covered by its
/// digest.
pub(super) fn own_patterns(patterns: &[String]) -> bool {
    !patterns.iter().any(|p| p.contains('⟦'))
}

/// A plan, and where the keys of its tasks and their outputs come from.
#[derive(Debug)]
pub struct KeyContext<'a, W> {
    pub plan: &'a Plan,
    pub work: &'a W,
    pub output_cache: &'a OutputCache,
    pub digests: &'a Digests,
}

impl<W: TaskExecutor> KeyContext<'_, W> {
    /// Works the key out. `upstream` answers for needs with data; their order is the plan's.
    pub(super) fn key_of(
        &self,
        task: &Task,
        mut facts: BTreeMap<String, String>,
        upstream: impl Fn(u32) -> Option<Digest>,
    ) -> Result<Keyed, Failure> {
        let home = self.output_cache.home();
        let mut inputs = BTreeMap::new();
        let mut named = BTreeMap::new();
        for (name, patterns) in &task.inputs {
            if own_patterns(patterns) {
                let state = self.digests.input(home.project(), patterns).map_err(|e| input_failure(name, &e, home))?;
                named.insert(name.clone(), state.digest);
                inputs.insert(name.clone(), state);
            } else {
                named.insert(name.clone(), Digest::hash(patterns.join("\0").as_bytes()));
            }
        }
        // A stage sees how many GPUs it has, and a server is as fast as they are many; which ones they are does not
        // matter.
        if task.gpus > 0 {
            facts.insert("gpus".to_owned(), task.gpus.to_string());
        }
        let (mut action, mut env, mut names_project) = (with_container(task), task.env.clone(), false);
        if let Some(project) = home.project().to_str() {
            for (without, text) in [(action_without_project(&action, project), &mut action)]
                .into_iter()
                .chain(env.values_mut().map(|value| (without_project(value, project), value)))
            {
                if let Some(without) = without {
                    (*text, names_project) = (without, true);
                }
            }
        }
        let mut key = TaskKey {
            version: KEY_VERSION,
            action,
            env,
            secrets: task.secrets.clone(),
            outputs: task.outputs.clone(),
            facts,
            inputs: named,
            upstream: task
                .needs
                .iter()
                .filter(|need| need.data)
                .filter_map(|need| Some((self.plan.tasks[need.task as usize].id.clone(), upstream(need.task)?)))
                .collect(),
        };
        let base = key.digest();
        let may_be_lowered = task.retry.as_ref().is_some_and(|rule| rule.lower.is_some());
        let lowered = if may_be_lowered {
            self.output_cache.reduced_setting(&base).map_err(|e| unreadable_setting(&e))?
        } else {
            None
        };
        let mut digest = base;
        if let Some(lowered) = &lowered {
            key.facts.insert(format!("lowered {}", lowered.setting), lowered.to.to_string());
            digest = key.digest();
        }
        Ok(Keyed { key, digest, inputs, base, lowered, names_project })
    }

    /// What the task's newest output in the cache was made from.
    pub(super) fn last_key(&self, task: &Task) -> Option<TaskKey> {
        self.output_cache.last(&self.plan.name, &task.id)?.parsed_key().ok()
    }

    /// Looks a task's output up. One that names what has gone from the machine is spoiled.
    pub(super) fn look_up(&self, task: &Task, key: &Digest) -> Result<Lookup, PathError> {
        let lookup = match self.repeated(task, key) {
            None => self.output_cache.look_up(key)?,
            Some(newest) => match self.output_cache.last(&self.plan.name, &task.id) {
                Some(own) if own.key == *key && own.folder != newest.folder => self.output_cache.look_at(own)?,
                _ => Lookup::OfRepeated(newest.task.clone()),
            },
        };
        Ok(match lookup {
            Lookup::Hit(record) => match self.work.unusable_reason(task, &self.output_cache.folder(&record)) {
                Some(what) => Lookup::Corrupt(what),
                None => Lookup::Hit(record),
            },
            other => other,
        })
    }

    /// The newest output of a key where another task of the plan made it, which this one repeats: two measurements do
    /// not become one.
    fn repeated(&self, task: &Task, key: &Digest) -> Option<Arc<TaskRecord>> {
        let newest = self.output_cache.newest(key)?;
        if !task.kind.facts().is_repeatable || newest.manifest != self.plan.name || newest.task == task.id {
            return None;
        }
        let maker = self.plan.tasks.iter().find(|other| other.id == newest.task)?;
        task.repeats(maker).then_some(newest)
    }

    /// Whether another task of the plan, which this one repeats, has an output of that key: what other machines have
    /// under the key may be that output, and would count twice.
    pub(super) fn is_made_by_another(&self, task: &Task, key: &Digest) -> bool {
        if !task.kind.facts().is_repeatable || self.output_cache.newest(key).is_none() {
            return false;
        }
        let mut others = self.output_cache.tasks_of_key(&self.plan.name, key);
        others.remove(&task.id);
        let any_is_repeated = || self.plan.tasks.iter().any(|other| others.contains(&other.id) && task.repeats(other));
        self.repeated(task, key).is_some() || !others.is_empty() && any_is_repeated()
    }

    /// Why a task has to run, as text; never empty.
    pub(super) fn reasons(&self, task: &Task, keyed: &Keyed, look: &Lookup, forced: bool) -> Vec<String> {
        if forced {
            return vec!["forced".to_owned()];
        }
        if !task.cache {
            return vec![why_not_cached(task)];
        }
        match look {
            Lookup::Corrupt(what) => return vec![what.clone()],
            Lookup::OfRepeated(other) => {
                return vec![format!("it repeats {other}, and each keeps an output of its own")];
            }
            Lookup::Hit(_) | Lookup::Absent => {}
        }
        let Some(last) = self.output_cache.last(&self.plan.name, &task.id) else {
            return vec!["not in cache".to_owned()];
        };
        let mut reasons_text = last.parsed_key().map(|old| explain(&old, &keyed.key)).unwrap_or_default();
        for need in task.needs.iter().map(|need| &self.plan.tasks[need.task as usize]) {
            // A service has no output; what changed is what it serves.
            if need.lifetime == Lifetime::Service
                && let Some(line) =
                    reasons_text.iter_mut().find(|line| **line == format!("output of {} changed", need.id))
            {
                *line = format!("{} changed", need.id);
            }
        }
        if reasons_text.is_empty() { vec!["its last record cannot be read".to_owned()] } else { reasons_text }
    }
}

fn unreadable_setting(error: &PathError) -> Failure {
    let failure = Failure::new(FailureKind::Files, error.to_string());
    if error.source.kind() != io::ErrorKind::InvalidData {
        return failure;
    }
    failure.hint("remove that file: the stage then begins with the number in the manifest")
}

/// The action, and where it is done, as one JSON object: so that a change of either is reported with its path.
fn with_container(task: &Task) -> String {
    match (&task.container, task.action_text().strip_prefix('{')) {
        // A Triton server's action contains it already.
        (Some(container), Some(rest)) if !task.is_triton_server() => {
            format!("{{\"container\":{},{rest}", container.json())
        }
        _ => task.action_text().to_owned(),
    }
}

fn input_failure(name: &str, e: &InputError, home: &StateFolder) -> Failure {
    const RELATIVE: &str = "paths are relative to the folder that regatta is started in";
    let failure = Failure::new(FailureKind::Files, format!("input {name}: {e}"));
    match e {
        InputError::Missing(path) => failure.hint(latest_hint(home, path).unwrap_or_else(|| RELATIVE.to_owned())),
        InputError::NoMatch(_) => failure.hint(RELATIVE),
        InputError::LfsPointer(_) => failure.hint("`git lfs install && git lfs pull` in its repository fetches it"),
        _ => failure,
    }
}

/// Why a task that is not kept runs again.
fn why_not_cached(task: &Task) -> String {
    match task.external_servers() {
        [server, ..] => format!("{server} is not started by this run, so it is measured again"),
        [] => "cache is false".to_owned(),
    }
}

/// How values are written that replace references.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Quoting {
    AsIs,
    /// They stand inside of JSON's texts.
    Json,
}

/// Replaces references in a text. `made` answers for needs by task id.
pub(super) fn resolve<'a>(
    text: &str,
    quoting: Quoting,
    output_cache: &OutputCache,
    inputs: &BTreeMap<String, Vec<PathBuf>>,
    made: &impl Fn(&str) -> Option<&'a TaskOutput>,
) -> Result<String, Failure> {
    if !text.contains('⟦') {
        return Ok(text.to_owned());
    }
    let quote = |text: String| {
        if quoting == Quoting::Json {
            let quoted = serde_json::Value::String(text).to_string();
            quoted[1..quoted.len() - 1].to_owned()
        } else {
            text
        }
    };
    PlanReference::replace_in(text, |reference| {
        let value = match reference {
            PlanReference::OutputFolder(id) => match made(id.as_str())? {
                TaskOutput::Output(record) => output_cache.folder(record).to_string_lossy().into_owned(),
                _ => return None,
            },
            PlanReference::Image(id) => match made(id.as_str())? {
                TaskOutput::Output(record) => image_in(&output_cache.folder(record))?,
                _ => return None,
            },
            PlanReference::Service(id) => match made(id.as_str())? {
                TaskOutput::Service { endpoints, .. } if !endpoints.is_empty() => Endpoint::list_text(endpoints),
                _ => return None,
            },
            PlanReference::Input(name) => {
                let paths: Vec<_> = inputs.get(name)?.iter().map(|p| p.to_string_lossy()).collect();
                paths.join(" ")
            }
        };
        Some(quote(value))
    })
    .map_err(|what| {
        Failure::new(FailureKind::System, format!("nothing is known of {what} although it should have run"))
    })
}

/// The content of the file `image` in the output of an `image` stage: an id, or `./file` in the same folder.
fn image_in(folder: &Path) -> Option<String> {
    let text = read_text(folder.join("image")).ok()?;
    let image = text.trim();
    Some(match image.strip_prefix("./") {
        Some(file) => folder.join(file).to_string_lossy().into_owned(),
        None => image.to_owned(),
    })
}
