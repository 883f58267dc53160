//! A task's key, and whether the cache has its output.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use serde_json::Value;

use super::task_executor::TaskExecutor;
use crate::store::{
    Digests, InputError, InputState, KEY_VERSION, ListedFolder, Lookup, OutputCache, PathError, StateFolder, TaskKey,
    TaskRecord, explain, latest_hint, leads_out,
};
use base::event::{Endpoint, Failure, FailureKind, GpuId, ReducedSetting};
use base::files::{Digest, SYSTEM_FOLDERS, read_text};
use base::units::{plain_path, replace_folder};
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

// The project's folder in what a task does. A key does not have it: it differs from machine to machine. What it leads
// to is an input of a typed action; of a `shell` stage only what its `inputs:` name.

/// What stands for it in a key.
pub(super) const PROJECT: &str = "⟦project⟧";

/// A text of a key without the folder; `None`: it does not name it.
pub(super) fn without_project(text: &str, project: &str) -> Option<String> {
    replace_folder(text, project, PROJECT)
}

/// The same of an action. Only one with the folder in it is parsed.
pub(super) fn action_without_project(action: &str, project: &str) -> Option<String> {
    if !action.contains(project) {
        return None;
    }
    let mut action = serde_json::from_str(action).ok()?;
    remove_project(&mut action, project).then(|| action.to_string())
}

fn remove_project(value: &mut Value, project: &str) -> bool {
    let remove = |any, value: &mut Value| remove_project(value, project) || any;
    match value {
        Value::String(text) => without_project(text, project).map(|without| *text = without).is_some(),
        Value::Array(items) => items.iter_mut().fold(false, remove),
        Value::Object(fields) => fields.values_mut().fold(false, remove),
        _ => false,
    }
}

// Links in an output that lead outside it, to something that the task's key does not cover.

/// One text about all of them. `known`: paths that the task's key covers, and outputs; evaluated only if a link
/// leads outside.
pub(super) fn outside_links_notice(
    listed: &ListedFolder,
    known: impl FnOnce() -> Vec<PathBuf>,
) -> Result<Option<String>, PathError> {
    let links = listed.links()?;
    let by_path = links.iter().map(|(path, target)| (path.as_path(), target.as_path())).collect();
    let mut outside = links.iter().filter(|(path, target)| leads_out(path, target, &by_path)).peekable();
    if outside.peek().is_none() {
        return Ok(None);
    }
    let system = SYSTEM_FOLDERS.iter().chain(&["/dev"]).map(PathBuf::from);
    let keyed_paths: HashSet<PathBuf> = known()
        .into_iter()
        .chain([listed.folder().to_owned()])
        .chain(system)
        .flat_map(|path| [fs::canonicalize(&path).ok(), Some(path)])
        .flatten()
        .collect();
    let is_known = |place: &Path| place.ancestors().any(|above| keyed_paths.contains(above));
    let mut unknown = outside.filter(|(path, target)| {
        let path = listed.folder().join(path);
        // What a link in an earlier output leads to was named when that was made.
        let target = plain_path(&path.parent().unwrap_or(&path).join(target));
        !is_known(&target) && !fs::canonicalize(&path).is_ok_and(|end| is_known(&end))
    });
    let Some((path, target)) = unknown.next() else { return Ok(None) };
    let others = match unknown.count() {
        0 => String::new(),
        1 => " (and 1 more such link)".to_owned(),
        n => format!(" (and {n} more such links)"),
    };
    Ok(Some(format!(
        "{} is a link out of its output, to {}{others}: what is there is not part of the output, and a change of it \
         goes unnoticed; copy \
         it, or declare it under `inputs:`",
        path.display(),
        target.display()
    )))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::super::store::list_folder;
    use super::*;

    #[test]
    fn an_action_is_the_same_in_each_project() {
        let shown = |project: &str| {
            let action = serde_json::json!({
                "shell": format!("cd '{project}/data'\n{project}/bin/x /opt{project}"),
                "container": {"volumes": [format!("{project}:/work"), 1]},
            });
            action_without_project(&action.to_string(), project)
        };
        let without = |above: &str| {
            let shell = format!(r#""shell":"cd '⟦project⟧/data'\n⟦project⟧/bin/x /opt{above}""#);
            Some(format!("{{{shell},\"container\":{{\"volumes\":[\"⟦project⟧:/work\",1]}}}}"))
        };
        assert_eq!(shown("/home/me/project"), without("/home/me/project"));
        assert_eq!(shown("/srv"), without("/srv"));
        assert_eq!(action_without_project(r#"{"shell":"ls /opt/srv"}"#, "/srv"), None);
    }

    #[test]
    fn a_link_to_what_no_key_has_is_named_with_its_target() {
        let place = tempfile::tempdir().unwrap();
        let (out, set, input) = (place.path().join("out"), place.path().join("set"), place.path().join("input"));
        for folder in [&out.join("a"), &set, &input] {
            fs::create_dir_all(folder).unwrap();
        }
        let text = || outside_links_notice(&list_folder(&out).unwrap(), || vec![input.clone()]).unwrap();
        symlink("a", out.join("inside")).unwrap();
        symlink(out.join("a"), out.join("inside-as-well")).unwrap();
        symlink(input.join("x"), out.join("declared")).unwrap();
        symlink("../input", out.join("declared-from-here")).unwrap();
        symlink("/usr/bin/python3", out.join("python")).unwrap();
        assert_eq!(text(), None);
        symlink(&set, out.join("data")).unwrap();
        let notice_text = text().unwrap();
        assert!(
            notice_text.starts_with(&format!("data is a link out of its output, to {}: what", set.display())),
            "{notice_text}"
        );
        symlink("../set", out.join("relative")).unwrap();
        symlink(place.path().join("gone"), out.join("leads-nowhere")).unwrap();
        symlink(input.join("../set"), out.join("by-the-input")).unwrap();
        assert!(text().unwrap().contains("(and 3 more such links)"));
    }
}
