//! How two sections differ, field by field, and how much that matters.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use super::{LockSection, LockedTask};
use crate::cli::LockStrictness;
use base::units::unquoted;
use plan::ActionKind;

/// One field that is not what it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LockDifference {
    pub part: LockPart,
    /// The task of `requested` and `resolved`.
    pub task: Option<String>,
    pub field: String,
    /// `None`: it was not there.
    pub locked: Option<String>,
    /// `None`: it is not there.
    pub now: Option<String>,
    pub weight: DifferenceWeight,
}

/// What differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LockPart {
    /// This program's version.
    Run,
    Parameter,
    Machine,
    Tool,
    /// A stage's request.
    Requested,
    /// The stage's outcome.
    Resolved,
}

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceWeight {
    /// Something else is run.
    Stops,
    /// The same request with another outcome: builds hold times and paths, engines the kernels that were fastest then.
    Reported,
    /// A consequence of what else differs.
    Follows,
}

impl LockStrictness {
    pub const fn stops(self, difference: &LockDifference) -> bool {
        match (self, difference.weight) {
            (Self::Warn, _) | (_, DifferenceWeight::Follows) => false,
            (_, DifferenceWeight::Stops) => true,
            (strictness, DifferenceWeight::Reported) => matches!(strictness, Self::Exact),
        }
    }
}

/// How much of a section there is to compare.
#[derive(Clone, Copy, Debug, Default)]
pub struct LockExtent {
    /// `now` has some of the stages: the others are not missing.
    pub is_part: bool,
    /// `now` has run: `resolved` is compared, too.
    pub has_run: bool,
}

impl LockDifference {
    /// `values`: as locked, and now.
    pub fn new(
        part: LockPart,
        task: Option<&str>,
        field: &str,
        values: [Option<String>; 2],
        weight: DifferenceWeight,
    ) -> Self {
        let ([locked, now], task) = (values, task.map(str::to_owned));
        Self { part, task, field: field.to_owned(), locked, now, weight }
    }

    /// Whether the lock does not hold what differs, and only the key shows it.
    pub fn is_hidden(&self) -> bool {
        self.part == LockPart::Requested && self.field == "key"
    }

    /// What to do about it.
    pub fn advice(&self) -> &'static str {
        let is_image = self.field == "facts.image";
        match self.part {
            LockPart::Run => "install that version of regatta",
            LockPart::Parameter => "give the parameter as it was",
            LockPart::Machine => "run it on a machine like that one, or measure here anyway with `--locked=warn`",
            LockPart::Tool => "install that version, or give the stage a `container` that has it",
            LockPart::Requested if is_image => "fetch the image with that id; `…@sha256:…` pins it",
            LockPart::Requested if self.field.starts_with("inputs") => "restore the locked version of the file",
            LockPart::Requested if self.is_hidden() => {
                "use the locked path or secret: the lock has only a part of an absolute path, and no secrets; or run \
                it without `--locked` if outputs below it are new"
            }
            LockPart::Requested => "undo the change in the manifest",
            LockPart::Resolved if self.weight == DifferenceWeight::Reported => {
                "take the output from a shared store instead of making it again"
            }
            LockPart::Resolved => "make it again with `--force STAGE`; the locked version may no longer be available",
        }
    }
}

/// Everything in which `now` differs from `locked`: parameters, machine, tools, then stage by stage.
pub fn compare(locked: &LockSection, now: &LockSection, extent: LockExtent) -> Vec<LockDifference> {
    let mut differences = Vec::new();
    if locked.regatta != now.regatta {
        let versions = [Some(locked.regatta.clone()), Some(now.regatta.clone())];
        let weight = DifferenceWeight::Reported;
        differences.push(LockDifference::new(LockPart::Run, None, "regatta", versions, weight));
    }
    let texts = [
        (LockPart::Parameter, &locked.params, &now.params),
        (LockPart::Machine, &locked.machine, &now.machine),
        (LockPart::Tool, &locked.tools, &now.tools),
    ];
    for (part, locked, now) in texts {
        for (field, before, after) in pairs(locked, now) {
            let is_left_out = extent.is_part && part != LockPart::Parameter && after.is_none();
            if before == after || is_left_out {
                continue;
            }
            // A fact that the other machine did not record does not prove a difference.
            let weight = if before.is_none() && part != LockPart::Parameter {
                DifferenceWeight::Reported
            } else {
                DifferenceWeight::Stops
            };
            differences.push(LockDifference::new(part, None, field, [before.cloned(), after.cloned()], weight));
        }
    }
    for (task, before, after) in pairs(&locked.stages, &now.stages) {
        match (before, after) {
            (Some(before), Some(after)) => stage(task, before, after, extent, &mut differences),
            (Some(before), None) if !extent.is_part => differences.push(missing_stage(task, Some(before), None)),
            (None, after) => differences.push(missing_stage(task, None, after)),
            _ => {}
        }
    }
    differences
}

/// The outcome of one task, checked against the lock; `now` without the digest of the output is compared without it.
pub fn outcome(task: &str, locked: &LockedTask, now: &BTreeMap<String, Value>) -> Vec<LockDifference> {
    let [before, mut after] = [&locked.resolved, now].map(|resolved| flat("", resolved.iter()));
    let mut before = before;
    for map in [&mut before, &mut after] {
        map.remove("key");
    }
    if !now.contains_key("output") {
        before.remove("output");
    }
    let is_built = locked.requested.get("action").is_some_and(|action| action.pointer("/image/build").is_some());
    let weight = |field: &str| {
        let is_bytes = field == "output" || (locked.kind == ActionKind::Image && is_built);
        // The same image has another name in each registry that it went to.
        if is_bytes || field.starts_with("digests") { DifferenceWeight::Reported } else { DifferenceWeight::Stops }
    };
    different(LockPart::Resolved, task, &before, &after, weight)
}

fn stage(task: &str, locked: &LockedTask, now: &LockedTask, extent: LockExtent, found: &mut Vec<LockDifference>) {
    let first = found.len();
    let flat_of = |entry: &LockedTask| {
        let mut fields = flat("", entry.requested.iter().filter(|(name, _)| *name != "action"));
        fields.extend(entry.requested.get("action").map(|action| flat_value("", action)).unwrap_or_default());
        fields.insert("kind".to_owned(), entry.kind.as_str().to_owned());
        fields
    };
    found.extend(different(LockPart::Requested, task, &flat_of(locked), &flat_of(now), |_| DifferenceWeight::Stops));
    if !extent.has_run {
        return;
    }
    found.extend(outcome(task, locked, &now.resolved));
    let keys = [locked, now].map(|entry| entry.resolved.get("key").and_then(Value::as_str).map(str::to_owned));
    if found.len() == first && keys[0] != keys[1] {
        found.push(LockDifference::new(LockPart::Resolved, Some(task), "key", keys, DifferenceWeight::Follows));
    }
}

fn missing_stage(task: &str, locked: Option<&LockedTask>, now: Option<&LockedTask>) -> LockDifference {
    let describe = |entry: Option<&LockedTask>| entry.map(|entry| format!("a stage ({})", entry.kind.as_str()));
    let stages = [describe(locked), describe(now)];
    LockDifference::new(LockPart::Requested, Some(task), "stage", stages, DifferenceWeight::Stops)
}

fn different(
    part: LockPart,
    task: &str,
    locked: &BTreeMap<String, String>,
    now: &BTreeMap<String, String>,
    weight: impl Fn(&str) -> DifferenceWeight,
) -> Vec<LockDifference> {
    let changed = pairs(locked, now).into_iter().filter(|(_, before, after)| before != after);
    changed
        .map(|(field, before, after)| {
            LockDifference::new(part, Some(task), field, [before.cloned(), after.cloned()], weight(field))
        })
        .collect()
}

/// Every name of either, in order.
fn pairs<'a, V>(
    a: &'a BTreeMap<String, V>,
    b: &'a BTreeMap<String, V>,
) -> Vec<(&'a String, Option<&'a V>, Option<&'a V>)> {
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    names.into_iter().map(|name| (name, a.get(name), b.get(name))).collect()
}

/// Fields by their paths; a list of plain values is one field.
fn flat<'a>(at: &str, fields: impl Iterator<Item = (&'a String, &'a Value)>) -> BTreeMap<String, String> {
    let mut texts = BTreeMap::new();
    for (name, value) in fields {
        let at = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
        texts.extend(flat_value(&at, value));
    }
    texts
}

fn flat_value(at: &str, value: &Value) -> BTreeMap<String, String> {
    let is_plain = |value: &Value| !value.is_array() && !value.is_object();
    match value {
        Value::Object(fields) => flat(at, fields.iter()),
        Value::Array(items) if !items.iter().all(is_plain) => {
            items.iter().enumerate().flat_map(|(n, item)| flat_value(&format!("{at}[{n}]"), item)).collect()
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(unquoted).collect();
            BTreeMap::from([(at.to_owned(), format!("[{}]", items.join(", ")))])
        }
        plain_value => BTreeMap::from([(at.to_owned(), unquoted(plain_value))]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry(kind: ActionKind, requested: &Value, resolved: &Value) -> LockedTask {
        let fields = |value: &Value| {
            value.as_object().unwrap().iter().map(|(name, value)| (name.clone(), value.clone())).collect()
        };
        LockedTask { kind, requested: fields(requested), resolved: fields(resolved) }
    }

    fn section(stages: &[(&str, LockedTask)]) -> LockSection {
        let stages = stages.iter().map(|(name, entry)| ((*name).to_owned(), entry.clone())).collect();
        LockSection { regatta: "1".to_owned(), stages, ..LockSection::default() }
    }

    fn difference_lines(found: &[LockDifference]) -> Vec<String> {
        let side = |side: &Option<String>| side.clone().unwrap_or_else(|| "-".to_owned());
        found
            .iter()
            .map(|one| {
                let task = one.task.clone().unwrap_or_else(|| format!("{:?}", one.part));
                format!("{task} {} {} → {} {:?}", one.field, side(&one.locked), side(&one.now), one.weight)
            })
            .collect()
    }

    #[test]
    fn each_field_is_named_by_its_path() {
        let engine = |batch: u32, image: &str| {
            let engine = json!({"build_flags": {"max_batch_size": batch}, "gpus": [1, 2]});
            let requested = json!({"action": {"engine": engine}, "facts": {"image": image}});
            entry(ActionKind::Engine, &requested, &json!({"key": "k", "output": "o"}))
        };
        let mut locked = section(&[("engine", engine(2048, "sha256:1")), ("old", engine(1, ""))]);
        let mut now = section(&[("engine", engine(1024, "sha256:2")), ("new", engine(1, ""))]);
        locked.params.insert("system".to_owned(), "a".to_owned());
        now.params.insert("system".to_owned(), "b".to_owned());
        locked.tools.insert("nvcc".to_owned(), "12.8".to_owned());
        now.tools.insert("git".to_owned(), "2.39".to_owned());
        "2".clone_into(&mut now.regatta);
        let lines = difference_lines(&compare(&locked, &now, LockExtent::default()));
        assert_eq!(
            lines,
            [
                "Run regatta 1 → 2 Reported",
                "Parameter system a → b Stops",
                "Tool git - → 2.39 Reported",
                "Tool nvcc 12.8 → - Stops",
                "engine engine.build_flags.max_batch_size 2048 → 1024 Stops",
                "engine facts.image sha256:1 → sha256:2 Stops",
                "new stage - → a stage (engine) Stops",
                "old stage a stage (engine) → - Stops",
            ]
        );
        let part = difference_lines(&compare(&locked, &now, LockExtent { is_part: true, has_run: false }));
        assert!(!part.iter().any(|line| line.starts_with("old") || line.starts_with("Tool nvcc")), "{part:?}");
    }

    #[test]
    fn what_cannot_be_repeated_is_reported_and_what_was_named_stops() {
        let git = |commit: &str, output: &str, key: &str| {
            let resolved = json!({"commit": commit, "output": output, "key": key});
            section(&[("clone", entry(ActionKind::Git, &json!({"action": {"git": {"rev": "main"}}}), &resolved))])
        };
        let run = LockExtent { is_part: false, has_run: true };
        let differences = compare(&git("a", "1", "k"), &git("b", "2", "l"), run);
        assert_eq!(difference_lines(&differences), ["clone commit a → b Stops", "clone output 1 → 2 Reported"]);
        let [commit, output] = &differences[..] else { panic!("two") };
        assert!(LockStrictness::Inputs.stops(commit) && !LockStrictness::Inputs.stops(output));
        assert!(LockStrictness::Exact.stops(output) && !LockStrictness::Warn.stops(commit));
        // Another key alone is a consequence of something upstream.
        let differences = compare(&git("a", "1", "k"), &git("a", "1", "l"), run);
        assert_eq!(difference_lines(&differences), ["clone key k → l Follows"]);
        assert_eq!(compare(&git("a", "1", "k"), &git("b", "2", "l"), LockExtent::default()), []);
    }

    #[test]
    fn a_built_image_has_another_id_each_time() {
        let image = |action: &Value, id: &str| {
            let resolved = json!({"id": id, "digests": [format!("r@{id}")]});
            section(&[("image", entry(ActionKind::Image, &json!({"action": {"image": action}}), &resolved))])
        };
        let run = LockExtent { is_part: false, has_run: true };
        let lines = |action: &Value| difference_lines(&compare(&image(action, "1"), &image(action, "2"), run));
        assert_eq!(
            lines(&json!({"build": {"context": "."}})),
            ["image digests [r@1] → [r@2] Reported", "image id 1 → 2 Reported"]
        );
        assert_eq!(lines(&json!({"pull": "r:1"})), ["image digests [r@1] → [r@2] Reported", "image id 1 → 2 Stops"]);
    }
}
