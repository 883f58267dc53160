//! What is in a lock file, and its text: the same content is always the same bytes.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::lockfile::PrivateValues;
use base::files::{Digest, parse_yaml};
use plan::manifest::model::Action;
use plan::{ActionError, ActionKind, Lifetime, Plan, Task, TaskPart, UnwritableAction};
use runner::store::TaskKey;

/// A benchmark's number is part of its environment, and no part of what is measured.
const REPEAT: &str = "REGATTA_REPEAT";
/// How facts of a key begin that a retry has put there.
const LOWERED: &str = "lowered ";

/// All runs of one project.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockFile {
    /// The version of this format.
    pub lock: u32,
    /// By the manifest's name and the parameters that were given: `llama2-70b system=h200-x8`.
    #[serde(default)]
    pub runs: BTreeMap<String, LockSection>,
}

/// The last good run of one manifest with these parameters.
#[base::omit_empty]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockSection {
    /// Version of the program that wrote it.
    pub regatta: String,
    /// All parameters, also those that were not given.
    pub params: BTreeMap<String, String>,
    /// `arch`; with GPUs: `GPUs`, `driver`, `CUDA`.
    pub machine: BTreeMap<String, String>,
    /// Programs that its stages start outside of containers → the version they print.
    pub tools: BTreeMap<String, String>,
    /// By task.
    pub stages: BTreeMap<String, LockedTask>,
}

/// One task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedTask {
    pub kind: ActionKind,
    /// `action`, `env`, `facts`, `inputs`, `needs`, `outputs`, `secrets`: everything that decides its output, but what
    /// its needs made.
    #[serde(alias = "asked")]
    pub requested: BTreeMap<String, Value>,
    /// `key`, `output`, and what the output reports: commits, image ids, weights, versions.
    #[serde(default, alias = "became", skip_serializing_if = "BTreeMap::is_empty")]
    pub resolved: BTreeMap<String, Value>,
}

impl LockedTask {
    /// The request of a task.
    ///
    /// # Errors
    /// The key's action is not JSON: without it the lock would hold for every action.
    pub fn new(plan: &Plan, task: &Task, key: &TaskKey, private: &PrivateValues) -> Result<Self, ActionError> {
        let mut requested: BTreeMap<String, Value> = BTreeMap::new();
        let mut insert = |name: &str, fields: serde_json::Map<String, Value>| {
            if !fields.is_empty() {
                let (is_of_manifest, value) = (name == "action" || name == "env", Value::Object(fields));
                let value = if is_of_manifest { private.manifest_value(value) } else { private.value(value) };
                requested.insert(name.to_owned(), value);
            }
        };
        let texts = |map: &BTreeMap<String, String>, leave: &dyn Fn(&str) -> bool| {
            let kept = map.iter().filter(|(name, _)| !leave(name));
            kept.map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect()
        };
        let action = serde_json::from_str(&key.action);
        if let Value::Object(action) = action.map_err(|source| ActionError::new(task.id.clone(), "action", source))? {
            insert("action", action);
        }
        insert("env", texts(&key.env, &|name| name == REPEAT));
        insert("facts", texts(&key.facts, &|name| name.starts_with(LOWERED)));
        insert("inputs", key.inputs.iter().map(|(name, digest)| (name.clone(), digest.to_string().into())).collect());
        let needs = task.needs.iter().filter(|need| need.data);
        let needs: Vec<String> = needs.map(|need| plan.tasks[need.task as usize].id.to_string()).collect();
        for (name, mut list) in [("needs", needs), ("outputs", key.outputs.clone()), ("secrets", key.secrets.clone())] {
            list.sort();
            if !list.is_empty() {
                requested.insert(name.to_owned(), list.into());
            }
        }
        Ok(Self { kind: task.kind, requested, resolved: BTreeMap::new() })
    }

    /// The key with the settings that a retry had lowered when it was locked. `None` for one of several repeats: their
    /// keys differ.
    pub fn with_locked_settings(&self, key: &TaskKey) -> Option<TaskKey> {
        if key.env.contains_key(REPEAT) {
            return None;
        }
        let mut key = key.clone();
        key.facts.retain(|name, _| !name.starts_with(LOWERED));
        let lowered = self.resolved.iter().filter(|(name, _)| name.starts_with(LOWERED));
        key.facts.extend(lowered.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))));
        Some(key)
    }

    /// With the outcome. `output`: only where making it again can give the same bytes.
    #[must_use]
    pub fn with(mut self, resolved: BTreeMap<String, Value>, key: &TaskKey, output: Option<&Digest>) -> Self {
        let lowered = key.facts.iter().filter(|(name, _)| name.starts_with(LOWERED));
        self.resolved = resolved;
        self.resolved.extend(lowered.map(|(name, value)| (name.clone(), Value::from(value.as_str()))));
        self.resolved.insert("key".to_owned(), key.digest().to_string().into());
        if let Some(output) = output {
            self.resolved.insert("output".to_owned(), output.to_string().into());
        }
        self
    }
}

/// Which tasks of a plan measure something, or are made of a measurement: their outputs are new each time.
pub fn measured(plan: &Plan) -> Vec<bool> {
    let mut measured: Vec<bool> = Vec::with_capacity(plan.tasks.len());
    for task in &plan.tasks {
        let itself = task.kind.facts().measures;
        let by_need = task.needs.iter().filter(|need| need.data).any(|need| {
            let at = need.task as usize;
            measured[at] || plan.tasks[at].lifetime == Lifetime::Service
        });
        measured.push(itself || by_need);
    }
    measured
}

/// The version that is written, and the newest that is understood.
const VERSION: u32 = 1;

const HEAD: &str = "\
# What the last successful runs requested, and what it resolved to. `regatta run` writes this file, `regatta run … \
--locked`
# enforces it, `regatta lock diff` compares it. Commit this file; changes by hand are overwritten.
";

/// Why a text is not a lock file.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockFileError {
    #[error("it has version {0}; this Regatta reads versions up to {VERSION}")]
    Newer(u32),
    #[error("it has conflict markers of an unfinished merge (`<<<<<<<`)")]
    Merge,
    #[error("{0}")]
    Text(String),
}

impl Default for LockFile {
    fn default() -> Self {
        Self { lock: VERSION, runs: BTreeMap::new() }
    }
}

/// The bytes of a lock file.
///
/// # Errors
/// It holds a value that YAML cannot express. No run writes one.
pub fn write(file: &LockFile) -> Result<String, LockFileError> {
    let mut file = file.clone();
    let stages = file.runs.values_mut().flat_map(|section| section.stages.values_mut());
    stages
        .flat_map(|stage| stage.requested.values_mut().chain(stage.resolved.values_mut()))
        .for_each(serde_json::Value::sort_all_objects);
    let text = serde_yaml::to_string(&file).map_err(|error| LockFileError::Text(error.to_string()))?;
    Ok(format!("{HEAD}{text}"))
}

/// Reads a lock file.
///
/// # Errors
/// The text has a newer version or unresolved merge marks, or is not a lock file.
pub fn read(text: &str) -> Result<LockFile, LockFileError> {
    #[derive(serde::Deserialize)]
    struct Version {
        lock: u32,
    }
    if text.lines().any(|line| line.starts_with("<<<<<<< ")) {
        return Err(LockFileError::Merge);
    }
    let read = parse_yaml::<LockFile>(text);
    // One of a newer version may have another form.
    let version = match &read {
        Ok(file) => Some(file.lock),
        Err(_) => parse_yaml::<Version>(text).ok().map(|version| version.lock),
    };
    match (version, read) {
        (Some(version), _) if version > VERSION => Err(LockFileError::Newer(version)),
        (_, read) => read.map_err(|error| LockFileError::Text(error.to_string())),
    }
}

/// Writes into a task's action what its name meant when it was locked. Returns a description; `None`: nothing to do,
/// because it names one thing permanently already, or the lock does not have it.
///
/// # Errors
/// The task's action cannot be written.
pub fn pin(task: &mut Task, entry: &LockedTask) -> Result<Option<String>, UnwritableAction> {
    let Some((action, text)) = task.action().and_then(|action| pinned(action.clone(), entry)) else { return Ok(None) };
    task.action = Some(TaskPart::new(action)?);
    Ok(Some(text))
}

fn pinned(mut action: Action, entry: &LockedTask) -> Option<(Action, String)> {
    let commit = entry.resolved.get("commit").and_then(Value::as_str).map(str::to_owned);
    let (key, requested, meant) = match &mut action {
        Action::Git(git) => ("rev", &mut git.rev, commit?),
        Action::Weights(weights) => ("revision", &mut weights.revision, commit?),
        Action::Image(image) => {
            let name = image.pull.as_mut()?;
            let digest = digest_of(name, entry)?;
            ("pull", name, digest)
        }
        _ => return None,
    };
    if meant == *requested || requested.contains("@sha256:") {
        return None;
    }
    let name = std::mem::replace(requested, meant.clone());
    let text = format!(
        "`{key}: {name}` was {meant} when it was locked; the locked value is used, even if the name now means another"
    );
    Some((action, text))
}

/// `registry/name@sha256:…` of the same registry and name.
fn digest_of(name: &str, entry: &LockedTask) -> Option<String> {
    let last = name.rfind('/').map_or(0, |slash| slash + 1);
    let repository = name[last..].split_once(':').map_or(name, |(before, _)| &name[..last + before.len()]);
    let digests = entry.resolved.get("digests")?.as_array()?;
    let digests = digests.iter().filter_map(Value::as_str);
    digests
        .filter(|digest| {
            let image = digest.split_once('@').map_or(*digest, |(image, _)| image);
            image == repository || image.ends_with(&format!("/{repository}"))
        })
        .map(str::to_owned)
        .next()
}

// Replaces some stages in the text of a lock file without reading the others. Of 10,000 stages, reading and writing
// them all takes 0.8 s and 100 MB; a run in which one of them changed takes a quarter of that
// (`cargo bench --bench graph`).

/// The text with these stages of the run `name` as they are now. Only for a text that [`write()`] wrote: other forms of
/// the same YAML are not understood. `now`: the changed stages, and what the run itself has; what it says of the
/// machine and of tools must be in the text already. `None` where that is not so, or a stage is new: then the whole has
/// to be read and written.
pub fn splice(text: &str, name: &str, now: &LockSection) -> Option<String> {
    let runs = BTreeMap::from([(name.to_owned(), now.clone())]);
    let new = write(&LockFile { runs, ..LockFile::default() }).ok()?;
    let key = new.split_once(RUNS)?.1.lines().next()?;
    let (old_head, old_stages) = section_head(text, key)?;
    let head = read(&format!("lock: 1{RUNS}{key}\n{}", &text[old_head])).ok()?.runs.remove(name)?;
    let is_recorded = |known: &BTreeMap<String, String>, now: &BTreeMap<String, String>| {
        now.iter().all(|(name, value)| known.get(name) == Some(value))
    };
    let is_same_head = head.regatta == now.regatta
        && head.params == now.params
        && is_recorded(&head.machine, &now.machine)
        && is_recorded(&head.tools, &now.tools);
    if !is_same_head {
        return None;
    }
    let mut replaced: HashMap<&str, &str> = HashMap::new();
    for (key, block) in blocks(&new[section_head(&new, key)?.1..]) {
        // A long name is written in another form.
        if !key.ends_with(":\n") {
            return None;
        }
        replaced.insert(key, block);
    }
    let mut out = text[..old_stages].to_owned();
    out.reserve(text.len());
    let mut end = old_stages;
    for (key, block) in blocks(&text[old_stages..]) {
        out.push_str(replaced.remove(key).unwrap_or(block));
        end += block.len();
    }
    out.push_str(&text[end..]);
    replaced.is_empty().then_some(out)
}

const RUNS: &str = "\nruns:\n";

/// Whether a line is indented by this many spaces and no more. The byte after them first: it decides about most lines.
fn is_name(line: &str, indent: usize) -> bool {
    let bytes = line.as_bytes();
    bytes.get(indent).is_some_and(|byte| *byte != b' ') && bytes[..indent].iter().all(|byte| *byte == b' ')
}

/// Whether a line is below the name of a run. Empty lines are in block scalars.
fn is_below_run(line: &str) -> bool {
    line == "\n" || line.starts_with("   ")
}

/// Where the section that begins with the line `key` has its head, and where its stages begin.
fn section_head(text: &str, key: &str) -> Option<(Range<usize>, usize)> {
    let begin = text.find(&format!("\n{key}\n"))? + key.len() + 2;
    let mut at = begin;
    for line in text[begin..].split_inclusive('\n').take_while(|line| is_below_run(line)) {
        let head = begin..at;
        at += line.len();
        if line == "    stages:\n" {
            return Some((head, at));
        }
    }
    None
}

/// Each stage of the run whose stages `text` begins with: the line with its name, and all of its text.
fn blocks(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut lines = rest.split_inclusive('\n');
        let key = lines.next().filter(|line| is_below_run(line))?;
        let more = lines.take_while(|line| is_below_run(line) && !is_name(line, 6));
        let (block, after) = rest.split_at(key.len() + more.map(str::len).sum::<usize>());
        rest = after;
        Some((key, block))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    use crate::lockfile::{LockSection, LockedTask};
    use plan::ActionKind;

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1e12..1e12_f64).prop_map(Value::from),
            ".{0,24}".prop_map(Value::from),
            "[ -~\n\t]{0,60}".prop_map(Value::from),
            prop_oneof!["true", "null", "~", "1e3", "0x1F", "no", "- a", "#", "a: b", "<<", " x", "x ", "\n", "'", "|"]
                .prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[ -~]{0,12}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    fn files() -> impl Strategy<Value = LockFile> {
        let words = || prop::collection::btree_map("[a-zA-Z_. -]{1,12}", ".{0,20}", 0..3);
        let fields = || prop::collection::btree_map("[a-z ]{1,10}", values(), 0..4);
        let kind = prop_oneof![Just(ActionKind::Git), Just(ActionKind::TrtllmBench), Just(ActionKind::Engine)];
        let entry =
            (kind, fields(), fields()).prop_map(|(kind, requested, resolved)| LockedTask { kind, requested, resolved });
        let stages = prop::collection::btree_map("[a-z_/0-9.]{1,16}", entry, 0..4);
        let section =
            ("[0-9.]{1,8}", words(), words(), words(), stages).prop_map(|(regatta, params, machine, tools, stages)| {
                LockSection { regatta, params, machine, tools, stages }
            });
        prop::collection::btree_map("[a-z0-9]{1,9}( [a-z]{1,6}=[!-~]{0,9}){0,2}", section, 0..3)
            .prop_map(|runs| LockFile { runs, ..LockFile::default() })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_written_again_in_the_same_bytes(file in files()) {
            let text = write(&file).unwrap();
            let read = read(&text).unwrap();
            prop_assert_eq!(&read, &file);
            prop_assert_eq!(write(&read).unwrap(), text);
        }
    }

    #[test]
    fn a_person_can_read_it() {
        let entry = LockedTask {
            kind: ActionKind::Git,
            requested: BTreeMap::from([("action".to_owned(), json!({"git": {"url": "https://h/x", "rev": "main"}}))]),
            resolved: BTreeMap::from([("commit".to_owned(), json!("0123"))]),
        };
        let section = LockSection {
            regatta: "0.1.0".to_owned(),
            params: BTreeMap::from([("system".to_owned(), "sim-h200-x1".to_owned())]),
            tools: BTreeMap::from([("git".to_owned(), "git version 2.39.5".to_owned())]),
            stages: BTreeMap::from([("clone".to_owned(), entry)]),
            ..LockSection::default()
        };
        let runs = BTreeMap::from([("m system=sim-h200-x1".to_owned(), section)]);
        let text = write(&LockFile { runs, ..LockFile::default() }).unwrap();
        insta::assert_snapshot!(text.strip_prefix(HEAD).unwrap(), @r"
        lock: 1
        runs:
          m system=sim-h200-x1:
            regatta: 0.1.0
            params:
              system: sim-h200-x1
            tools:
              git: git version 2.39.5
            stages:
              clone:
                kind: git
                requested:
                  action:
                    git:
                      rev: main
                      url: https://h/x
                resolved:
                  commit: '0123'
        ");
    }

    #[test]
    fn what_is_no_lock_file_is_distinguished_from_what_is_newer() {
        assert_eq!(read("lock: 2\nnew: 1\n"), Err(LockFileError::Newer(2)));
        assert_eq!(read("lock: 1\n<<<<<<< HEAD\n"), Err(LockFileError::Merge));
        assert!(matches!(read("regatta: 1\nstages: {}\n"), Err(LockFileError::Text(_))));
        assert!(matches!(read("lock: 1\nrunz: {}\n"), Err(LockFileError::Text(_))));
        assert_eq!(read("lock: 1\n"), Ok(LockFile::default()));
    }

    #[test]
    fn the_keys_of_an_earlier_version_are_read() {
        let text = "lock: 1\nruns:\n  m:\n    manifest: m.yaml\n    stages:\n      s:\n        kind: shell\n        \
            requested:\n          needs: [a]\n        resolved:\n          key: k\n";
        let (now, before) = (read(text), read(&text.replace("requested:", "asked:").replace("resolved:", "became:")));
        assert_eq!(now, before);
    }

    fn pinned(action: &Value, resolved: &Value) -> (Option<String>, Value) {
        let action = TaskPart::from_json(&action.to_string()).unwrap();
        let mut task = Task::new(base::event::TaskId::new("t"), "t".to_owned(), action);
        let resolved =
            resolved.as_object().unwrap().iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let entry = LockedTask { kind: task.kind, requested: BTreeMap::new(), resolved };
        let text = pin(&mut task, &entry).unwrap();
        (text, serde_json::from_str(task.action_text()).unwrap())
    }

    #[test]
    fn a_branch_is_what_it_was() {
        let action = |rev: &str| json!({"git": {"rev": rev, "url": "u"}});
        let (warning, now) = pinned(&action("main"), &json!({"commit": "abc"}));
        assert_eq!((&now["git"]["rev"], &now["git"]["url"]), (&json!("abc"), &json!("u")));
        assert_eq!(
            warning.as_deref(),
            Some(
                "`rev: main` was abc when it was locked; the locked value is used, even if the name now means another"
            )
        );
        assert_eq!(pinned(&action("abc"), &json!({"commit": "abc"})).0, None);
        assert_eq!(pinned(&action("main"), &json!({})).0, None);
        let weights = json!({"weights": {"hf": "a/b", "revision": "main"}});
        assert_eq!(pinned(&weights, &json!({"commit": "c"})).1.pointer("/weights/revision"), Some(&json!("c")));
        assert_eq!(pinned(&json!({"shell": "x"}), &json!({"commit": "c"})).0, None);
    }

    #[test]
    fn an_image_is_fetched_by_the_digest_of_its_own_registry() {
        let action = |name: &str| json!({"image": {"pull": name}});
        let digests = ["other/x@sha256:1", "r.io:5000/nvidia/x@sha256:2", "docker.example/library/y@sha256:3"];
        let resolved = json!({ "digests": digests });
        for (name, meant) in [
            ("r.io:5000/nvidia/x:24.12", "r.io:5000/nvidia/x@sha256:2"),
            ("r.io:5000/nvidia/x", "r.io:5000/nvidia/x@sha256:2"),
            ("y:1", "docker.example/library/y@sha256:3"),
        ] {
            assert_eq!(pinned(&action(name), &resolved).1["image"]["pull"], meant);
        }
        assert_eq!(pinned(&action("z:1"), &resolved).0, None);
        assert_eq!(pinned(&action("y@sha256:9"), &resolved).0, None);
    }

    fn stage(action: &str, output: &str) -> LockedTask {
        LockedTask {
            kind: ActionKind::Shell,
            requested: BTreeMap::from([("action".to_owned(), json!({ "shell": action }))]),
            resolved: BTreeMap::from([("output".to_owned(), Value::from(output))]),
        }
    }

    /// Values that are written in several lines, in quotes, and as what they are not.
    const NASTY: [&str; 6] = ["echo", "a\n\n      s1:\n  m:\nb\n", "    stages:\n", "x: y", "'\"\\", "\n"];

    fn section_with(stages: &[(&str, LockedTask)]) -> LockSection {
        LockSection {
            regatta: "1".to_owned(),
            params: BTreeMap::from([("p".to_owned(), "two\nlines".to_owned())]),
            tools: BTreeMap::from([("sh".to_owned(), "1".to_owned()), ("git".to_owned(), "2".to_owned())]),
            stages: stages.iter().map(|(name, stage)| ((*name).to_owned(), stage.clone())).collect(),
            ..LockSection::default()
        }
    }

    fn file(name: &str, changed: &str, stage_output: &str) -> LockFile {
        let section = |output: &str| {
            let names = ["1", "s1", "s10", "s2/a", "s2/b", "true"];
            let stages: Vec<_> = names.iter().zip(NASTY).map(|(name, text)| (*name, stage(text, output))).collect();
            section_with(&stages)
        };
        let mut runs = BTreeMap::from([
            ("a".to_owned(), section("x")),
            ("m x=1".to_owned(), section("x")),
            ("z".to_owned(), section("x")),
        ]);
        if let Some(entry) = runs.get_mut(name).and_then(|section| section.stages.get_mut(changed)) {
            *entry = stage(&format!("{stage_output}\nnew\n"), stage_output);
        }
        LockFile { runs, ..LockFile::default() }
    }

    #[test]
    fn a_spliced_text_is_the_text_that_is_written_anew() {
        let before = write(&file("", "", "")).unwrap();
        for name in ["a", "m x=1", "z"] {
            for changed in ["1", "s1", "s10", "s2/a", "s2/b", "true"] {
                for output in NASTY {
                    let whole = file(name, changed, output);
                    let entry = whole.runs[name].stages[changed].clone();
                    let mut now = section_with(&[(changed, entry)]);
                    now.tools.remove("git");
                    assert_eq!(splice(&before, name, &now), Some(write(&whole).unwrap()), "{name} {changed}");
                }
            }
        }
    }

    #[test]
    fn what_is_not_there_has_to_be_read_and_written_anew() {
        let before = write(&file("", "", "")).unwrap();
        let now = section_with(&[("s1", stage("a", "b"))]);
        assert!(splice(&before, "a", &now).is_some());
        assert_eq!(splice(&before, "b", &now), None, "no such run");
        assert_eq!(splice(&before, "a", &section_with(&[("new", stage("a", "b"))])), None, "a new stage");
        assert_eq!(splice(&before, "a", &LockSection { regatta: "2".to_owned(), ..now.clone() }), None);
        let tools = BTreeMap::from([("sh".to_owned(), "2".to_owned())]);
        assert_eq!(splice(&before, "a", &LockSection { tools, ..now }), None, "another tool");
        assert_eq!(splice("lock: 1\nruns: {a: {}}\n", "a", &section_with(&[])), None, "not our form");
    }
}
