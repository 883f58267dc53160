//! Phase one: which tasks there are. `foreach` makes instances, `when` skips them; no reference is looked at yet.

use std::collections::HashMap;
use std::sync::Arc;

use minijinja::Value;

use super::actions::{Action, ActionKind};
use crate::manifest::{Expressions, FaultyParts, Manifest, MapEntry, Node, NodeValue, Scope, value_of, value_text};
use base::diag::{Diagnostic, Diagnostics};
use base::event::TaskId;
use base::units::unquoted;

/// More tasks than this are an error in a `foreach`.
const MAX_TASKS: usize = 100_000;

/// One task to be.
pub struct Instance {
    pub id: TaskId,
    /// Index of its stage.
    pub stage: usize,
    /// Its place in each `foreach`: the variable and its value.
    pub coordinates: Vec<(String, Value)>,
    pub skipped: Option<String>,
}

/// Every stage with the range of its instances.
pub struct ExpandedStages<'a> {
    pub all: Arc<Vec<Instance>>,
    pub stages: Vec<StageOf<'a>>,
    pub by_name: HashMap<&'a str, usize>,
    /// Those of the manifest, and the stages of which no tasks could be made.
    pub faulty: FaultyParts,
}

/// A stage in its manifest.
pub struct StageOf<'a> {
    pub name: &'a str,
    pub entry: &'a MapEntry,
    pub kind: ActionKind,
    pub instances: std::ops::Range<usize>,
}

/// Makes the instances of all stages, in manifest order.
pub fn instances<'a>(manifest: &'a Manifest, expressions: &Expressions, found: &mut Diagnostics) -> ExpandedStages<'a> {
    // Most stages are one task.
    let stages = manifest.stages.len();
    let mut list = Vec::with_capacity(stages);
    let mut made = ExpandedStages {
        all: Arc::default(),
        stages: Vec::with_capacity(stages),
        by_name: HashMap::with_capacity(stages),
        faulty: manifest.faulty.clone(),
    };
    for (name, entry) in &manifest.stages {
        let begin = list.len();
        let mut stage_errors = Diagnostics::new();
        let mut decisive = ["foreach", "when"].into_iter().filter_map(|key| entry.node.get(key));
        let expansion = if manifest.faulty.unknown_stages.contains(name)
            || decisive.any(|entry| manifest.faulty.affect(&entry.node))
        {
            ForeachExpansion::Invalid
        } else {
            product(manifest, name, entry, expressions, MAX_TASKS.saturating_sub(begin), &mut stage_errors)
        };
        let mut is_known = true;
        let coordinates = match expansion {
            ForeachExpansion::Combinations(coordinates) => coordinates,
            ForeachExpansion::Empty(variable) => {
                // A stage never leaves the plan without a message.
                let skipped = Some(format!("foreach.{variable} is an empty list"));
                let id = TaskId::new(name.clone());
                list.push(Instance { id, stage: made.stages.len(), coordinates: Vec::new(), skipped });
                Vec::new()
            }
            ForeachExpansion::Invalid => {
                is_known = false;
                Vec::new()
            }
        };
        let mut ids: HashMap<TaskId, usize> = HashMap::new();
        for coordinates in coordinates {
            let id = id_of(name, &coordinates);
            let before = stage_errors.len();
            let skipped = when(manifest, name, entry, &coordinates, expressions, &mut stage_errors);
            is_known &= stage_errors.len() == before;
            if !coordinates.is_empty()
                && let Some(first) = ids.insert(id.clone(), list.len())
            {
                let place = entry.node.place(&["foreach"]);
                let collision = Diagnostic::error(format!("two tasks would be called `{id}`"));
                let earlier = &list[first].coordinates;
                stage_errors.push(
                    collision
                        .at(place, "two values here make the same name")
                        .hint(collision_hint(earlier, &coordinates)),
                );
            }
            list.push(Instance { id, stage: made.stages.len(), coordinates, skipped });
        }
        if !is_known {
            list.truncate(begin);
            made.faulty.unknown_stages.insert(name.clone());
        }
        // What is wrong with the form of a `foreach` is reported already.
        if !manifest.faulty.stages.contains(name) {
            found.append(stage_errors);
        }
        made.by_name.insert(name, made.stages.len());
        let instances = begin..list.len();
        made.stages.push(StageOf { name, entry, kind: kind_of(entry), instances });
    }
    made.all = Arc::new(list);
    made
}

/// What to do about two places in a `foreach` that make one name.
fn collision_hint(earlier: &Coordinates, later: &Coordinates) -> String {
    let mut pairs = earlier.iter().zip(later).map(|((_, one), (_, other))| (one, other));
    pairs.find(|(one, other)| one != other).map_or_else(
        || "remove the repeated value".to_owned(),
        |(one, other)| {
            format!(
                "`{one}` and `{other}` are the same in the name of a task: rename one of them, or add a variable \
             that differs"
            )
        },
    )
}

/// A stage without an action is reported by its schema.
fn kind_of(entry: &MapEntry) -> ActionKind {
    let key = Action::KEYS.into_iter().find(|key| entry.node.get(key).is_some());
    key.and_then(ActionKind::with_key).unwrap_or(ActionKind::Shell)
}

type Coordinates = Vec<(String, Value)>;

/// What the lists of a `foreach` come to.
enum ForeachExpansion {
    /// At least one.
    Combinations(Vec<Coordinates>),
    /// The list of this variable has nothing in it.
    Empty(String),
    /// Reported.
    Invalid,
}

fn product(
    manifest: &Manifest,
    stage: &str,
    entry: &MapEntry,
    expressions: &Expressions,
    room: usize,
    found: &mut Diagnostics,
) -> ForeachExpansion {
    let Some(foreach) = entry.node.get("foreach").filter(|foreach| foreach.node.tree != NodeValue::Null) else {
        return ForeachExpansion::Combinations(vec![Vec::new()]);
    };
    let scope = Arc::new(Scope { globals: Arc::clone(&manifest.globals), local: Vec::new() });
    let mut combinations: Vec<Coordinates> = vec![Vec::new()];
    let Some(lists) = foreach.node.map() else {
        let message = format!("`stages.{stage}.foreach` must be a map");
        let hint = "name the variable: `foreach: { x: … }`";
        found.push(Diagnostic::error(message).at(foreach.node.span.first_line(), "this is none").hint(hint));
        return ForeachExpansion::Invalid;
    };
    let mut empty = None;
    for (variable, list) in lists {
        if uses_stages(&list.node, "foreach", expressions, found) {
            return ForeachExpansion::Invalid;
        }
        let before = found.len();
        let rendered = expressions.render(&list.node, &scope, found);
        let path = format!("stages.{stage}.foreach.{variable}");
        let NodeValue::List(items) = &rendered.tree else {
            // What could not be rendered is reported already.
            if found.len() == before && !expressions.budget().is_exceeded() {
                let place = entry.node.place(&["foreach", variable]);
                found.push(Diagnostic::error(format!("`{path}` must be a list")).at(place, "this is not a list"));
            }
            return ForeachExpansion::Invalid;
        };
        let mut values = Vec::new();
        for item in items {
            if matches!(item.tree, NodeValue::List(_) | NodeValue::Map(_) | NodeValue::Null) {
                let message = format!("the values of `{path}` must be texts, numbers or switches");
                found.push(Diagnostic::error(message).at(item.span.first_line(), ""));
                return ForeachExpansion::Invalid;
            }
            if let Some((message, hint)) = item.lost_zeros() {
                let fault = Diagnostic::error(format!("`{path}`: {message}"));
                found.push(fault.at(item.span.clone(), "as a text it has no zero at its end").hint(hint));
                return ForeachExpansion::Invalid;
            }
            values.push(value_of(item));
        }
        if values.is_empty() {
            empty = empty.or_else(|| Some(variable.clone()));
        }
        if combinations.len().saturating_mul(values.len()) > room {
            let message = format!("more than {MAX_TASKS} tasks");
            found.push(Diagnostic::error(message).at(list.key.clone(), "this list makes too many of them"));
            return ForeachExpansion::Invalid;
        }
        combinations = combinations
            .iter()
            .flat_map(|before| {
                values.iter().map(move |value| [&before[..], &[(variable.clone(), value.clone())]].concat())
            })
            .collect();
    }
    empty.map_or(ForeachExpansion::Combinations(combinations), ForeachExpansion::Empty)
}

/// `stage/value/value`, with everything that could trouble a file name replaced.
fn id_of(stage: &str, coordinates: &Coordinates) -> TaskId {
    let mut id = stage.to_owned();
    for (_, value) in coordinates {
        id.push('/');
        let text = value_text(value);
        let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
        let part: String = text.chars().take(80).map(safe).collect();
        let hidden = part.trim_start_matches('.');
        id.push_str(if hidden.is_empty() { "_" } else { hidden });
    }
    TaskId::new(id)
}

/// Why this instance is skipped, if its `when` is false.
fn when(
    manifest: &Manifest,
    stage: &str,
    entry: &MapEntry,
    coordinates: &Coordinates,
    expressions: &Expressions,
    found: &mut Diagnostics,
) -> Option<String> {
    let when = &entry.node.get("when")?.node;
    if uses_stages(when, "when", expressions, found) {
        return None;
    }
    let bare = when.text().map(|text| text.trim().trim_start_matches("{{").trim_end_matches("}}").trim());
    let scope = Arc::new(Scope { globals: Arc::clone(&manifest.globals), local: coordinates.clone() });
    let before = found.len();
    let rendered = expressions.render(when, &scope, found);
    match rendered.tree {
        // `when:` with nothing behind it.
        NodeValue::Null if when.tree == NodeValue::Null => None,
        NodeValue::Bool(true) => None,
        NodeValue::Bool(false) => {
            Some(bare.map_or_else(|| "when is false".to_owned(), |bare| format!("when is false: {bare}")))
        }
        // What could not be rendered is reported already.
        _ if found.len() > before || expressions.budget().is_exceeded() => None,
        _ => {
            let value = unquoted(&rendered.json());
            let found_here = Diagnostic::error(format!("`stages.{stage}.when` must be true or false"));
            let found_here = found_here.at(when.span.first_line(), format!("this is `{value}`"));
            let is_name = |name: &&str| {
                let is_literal = matches!(*name, "none" | "None" | "true" | "True" | "false" | "False");
                let rest = name.strip_prefix(|first: char| first.is_ascii_alphabetic() || first == '_');
                let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_.".contains(&byte);
                !is_literal && rest.is_some_and(|rest| rest.bytes().all(is_part))
            };
            let name = bare.filter(is_name).unwrap_or("x");
            let is_there = format!("test whether it has a value: {{{{ {name} is not none }}}}");
            found.push(found_here.hint(match rendered.tree {
                NodeValue::Null => is_there,
                _ => format!("compare it: {{{{ {name} == \"…\" }}}}, or {is_there}"),
            }));
            None
        }
    }
}

/// Reports a value of a key that needs other stages, which do not exist yet.
fn uses_stages(node: &Node, key: &str, expressions: &Expressions, found: &mut Diagnostics) -> bool {
    match &node.tree {
        NodeValue::Text(text) if text.contains("stages") => {
            let is_used = expressions.names_in(text).iter().any(|used| used == "stages");
            if is_used {
                let early = Diagnostic::error(format!("`stages` cannot be used in `{key}`"));
                let early = early.at(node.span.first_line(), "this is decided before any stage runs");
                found.push(early.hint("use params and vars here"));
            }
            is_used
        }
        NodeValue::List(items) => items.iter().any(|item| uses_stages(item, key, expressions, found)),
        _ => false,
    }
}
