//! `stages` and `inputs` as expressions see them. Every access to `stages.x` is remembered: it is an edge.

use std::fmt;
use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{Enumerator, Object};
use parking_lot::Mutex;

use super::PlanReference;
use super::actions::ActionKind;
use super::several_tasks::{SeveralTasks, SeveralTasksProblem};
use crate::manifest::NoValue;
use base::event::TaskId;

/// The part of every stage that references need; shared by all instances.
pub struct Directory {
    pub names: Arc<indexmap::IndexMap<String, KnownStages>>,
}

pub struct KnownStages {
    pub kind: ActionKind,
    pub instances: Vec<KnownInstance>,
}

pub struct KnownInstance {
    /// Index among all instances.
    pub index: usize,
    pub id: TaskId,
    pub coordinates: Vec<(String, Value)>,
    pub skipped: Option<String>,
}

/// What one rendering touched.
#[derive(Default)]
pub struct TouchedReferences(Mutex<Vec<ReferenceAccess>>);

/// One access.
#[derive(Clone)]
pub enum ReferenceAccess {
    /// An edge to this instance.
    Edge(usize),
    /// It is skipped, and this is why.
    Skipped(TaskId, String),
    /// Several tasks, or none, where one has a value.
    Several(SeveralTasksProblem),
    /// These were put into a text.
    PrintedSeveral(SeveralTasksProblem),
}

impl TouchedReferences {
    pub fn take(&self) -> Vec<ReferenceAccess> {
        std::mem::take(&mut *self.0.lock())
    }

    pub fn printed(&self, several: &SeveralTasksProblem) {
        self.add(ReferenceAccess::PrintedSeveral(several.clone()));
    }

    fn add(&self, touched: ReferenceAccess) {
        self.0.lock().push(touched);
    }
}

/// `stages` for one instance.
#[derive(Clone)]
pub struct StageScope {
    pub directory: Arc<Directory>,
    /// Where the instance that looks stands.
    pub coordinates: Arc<Vec<(String, Value)>>,
    pub seen: Arc<TouchedReferences>,
}

impl fmt::Debug for StageScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stages")
    }
}

impl Object for StageScope {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, name: &str) -> Option<Value> {
        let known = self.directory.names.get(name)?;
        if known.kind.facts().is_service {
            return Some(self.pick(name, PlanReference::Service, false));
        }
        let (stages, stage) = (Arc::clone(self), name.to_owned());
        let image = known.kind == ActionKind::Image;
        let (what, names): (_, &'static [&'static str]) =
            if image { ("image", &["image", "out", "outs"]) } else { ("out", &["out", "outs"]) };
        let called = if image { "image" } else { "output folder" };
        Some(Value::from_object(NoValue {
            why: format!("the stage `{name}` is not a value"),
            hint: format!("its {called} is {{{{ stages.{name}.{what} }}}}"),
            names,
            attribute: Box::new(move |attribute| match attribute {
                "image" if image => Some(stages.pick(&stage, PlanReference::Image, false)),
                "out" => Some(stages.pick(&stage, PlanReference::OutputFolder, false)),
                "outs" => Some(stages.pick(&stage, PlanReference::OutputFolder, true)),
                _ => None,
            }),
        }))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.directory.names.keys().map(|name| Value::from(name.as_str())).collect())
    }
}

impl StageScope {
    /// The tasks of a stage that agree with these coordinates, as reference tokens: one, or a list.
    fn pick(&self, name: &str, reference: impl Fn(TaskId) -> PlanReference, always_list: bool) -> Value {
        let Some(known) = self.directory.names.get(name) else { return Value::UNDEFINED };
        let mut matching = known.instances.iter().filter(|one| coordinates_match(&one.coordinates, &self.coordinates));
        let first = matching.next();
        let rest: Vec<&KnownInstance> = matching.collect();
        let mut token = |one: &KnownInstance| {
            if let Some(why) = &one.skipped {
                self.seen.add(ReferenceAccess::Skipped(one.id.clone(), why.clone()));
                return None;
            }
            self.seen.add(ReferenceAccess::Edge(one.index));
            Some(Value::from(reference(one.id.clone()).token()))
        };
        if let (Some(only), true, false) = (first, rest.is_empty(), always_list) {
            return token(only).unwrap_or_else(|| Value::from(()));
        }
        let values: Vec<Value> = first.into_iter().chain(rest.iter().copied()).filter_map(&mut token).collect();
        if always_list {
            return Value::from(values);
        }
        if values.is_empty()
            && let Some((id, why)) = first.and_then(|one| Some((&one.id, one.skipped.as_ref()?)))
        {
            // All are skipped: none for a list of them, which a text cannot hold.
            let problem = SeveralTasksProblem::skipped(id, why);
            return Value::from_object(SeveralTasks { values, problem, seen: Arc::clone(&self.seen) });
        }
        let ids: Vec<&str> = first.into_iter().chain(rest).map(|one| one.id.as_str()).collect();
        let attribute = match reference(TaskId::new("")) {
            PlanReference::Image(_) => ".image",
            PlanReference::Service(_) => "",
            _ => ".out",
        };
        let path = format!("stages.{name}{attribute}");
        let problem = SeveralTasksProblem::new(name, &path, known, &ids, &self.coordinates);
        self.seen.add(ReferenceAccess::Several(problem.clone()));
        Value::from_object(SeveralTasks { values, problem, seen: Arc::clone(&self.seen) })
    }
}

/// Whether two places agree on every `foreach` variable that both have.
pub fn coordinates_match(a: &[(String, Value)], b: &[(String, Value)]) -> bool {
    a.iter().all(|(name, value)| b.iter().all(|(other, theirs)| name != other || value == theirs))
}

/// `inputs` for one stage: a token for each name.
pub fn inputs<'a>(names: impl Iterator<Item = &'a String>) -> Value {
    Value::from_pairs(names.map(|name| (name.clone(), Value::from(PlanReference::Input(name.clone()).token()))))
}
