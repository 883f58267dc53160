//! What stands in an action's text for something that is only known when the task starts.
//!
//! `stages` and `inputs` as expressions see them. Every access to `stages.x` is remembered: it is an edge.
//!
//! `{{ stages.x.out }}` where several tasks of `x` fit, or none: a list for loops, `join` and `[0]`. In a text it
//! would be printed with brackets, and a mistyped `foreach` value would be an empty one, so it is an error there.

use std::fmt::{self, Write as _};
use std::ops::Range;
use std::sync::Arc;

use indexmap::IndexMap;
use minijinja::Value;
use minijinja::value::{Enumerator, Object, ObjectRepr};
use parking_lot::Mutex;

use crate::actions::ActionKind;
use crate::instance::Instance;
use crate::manifest::{NoValue, value_text};
use base::event::TaskId;

/// A symbolic value inside an action: an output folder, a service's endpoints, an input's path, or an image.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PlanReference {
    /// `{{ stages.x.out }}`: the output folder of a task.
    OutputFolder(TaskId),
    /// `{{ stages.x }}` of a `serve` stage: its endpoints, `host:port,port|host:port`.
    Service(TaskId),
    /// `{{ inputs.x }}`: the absolute path of the task's own input.
    Input(String),
    /// `{{ stages.x.image }}` of an `image` stage: the image's id, or its file.
    Image(TaskId),
}

const OPEN: char = '⟦';
const CLOSE: char = '⟧';

/// A reference that has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnknownReference(pub String);

impl PlanReference {
    /// The text that stands for it: `⟦out:run_harness/server⟧`.
    pub fn token(&self) -> String {
        match self {
            Self::OutputFolder(task) => format!("{OPEN}out:{task}{CLOSE}"),
            Self::Service(task) => format!("{OPEN}service:{task}{CLOSE}"),
            Self::Input(name) => format!("{OPEN}input:{name}{CLOSE}"),
            Self::Image(task) => format!("{OPEN}image:{task}{CLOSE}"),
        }
    }

    fn parse(inner: &str) -> Option<Self> {
        let (kind, name) = inner.split_once(':')?;
        match kind {
            "out" => Some(Self::OutputFolder(TaskId::new(name))),
            "service" => Some(Self::Service(TaskId::new(name))),
            "input" => Some(Self::Input(name.to_owned())),
            "image" => Some(Self::Image(TaskId::new(name))),
            _ => None,
        }
    }

    /// All references in a text, in order.
    pub fn all_in(text: &str) -> Vec<Self> {
        let mut matches = Vec::new();
        let mut rest = text;
        while let Some((_, after)) = rest.split_once(OPEN) {
            let Some((inner, tail)) = after.split_once(CLOSE) else { break };
            matches.extend(Self::parse(inner));
            rest = tail;
        }
        matches
    }

    /// The text with every reference replaced. A reference that `value` does not know is an error naming it.
    pub fn replace_in(text: &str, mut value: impl FnMut(&Self) -> Option<String>) -> Result<String, UnknownReference> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(OPEN) {
            out.push_str(before);
            let Some((inner, tail)) = after.split_once(CLOSE) else {
                out.push(OPEN);
                rest = after;
                continue;
            };
            match Self::parse(inner) {
                Some(reference) => match value(&reference) {
                    Some(text) => out.push_str(&text),
                    None => return Err(UnknownReference(inner.to_owned())),
                },
                None => {
                    let _ = write!(out, "{OPEN}{inner}{CLOSE}");
                }
            }
            rest = tail;
        }
        out.push_str(rest);
        Ok(out)
    }
}

/// The part of every stage that references need; shared by all instances.
pub struct Directory {
    /// By name: the action, and where its instances are among all.
    pub stages: IndexMap<String, (ActionKind, Range<usize>)>,
    pub instances: Arc<Vec<Instance>>,
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
        let (kind, _) = self.directory.stages.get(name)?;
        if kind.facts().is_service {
            return Some(self.pick(name, PlanReference::Service, false));
        }
        let (stages, stage) = (Arc::clone(self), name.to_owned());
        let image = *kind == ActionKind::Image;
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
        Enumerator::Values(self.directory.stages.keys().map(|name| Value::from(name.as_str())).collect())
    }
}

impl StageScope {
    /// The tasks of a stage that agree with these coordinates, as reference tokens: one, or a list.
    fn pick(&self, name: &str, reference: impl Fn(TaskId) -> PlanReference, always_list: bool) -> Value {
        let Some((kind, range)) = self.directory.stages.get(name) else { return Value::UNDEFINED };
        let instances = &self.directory.instances[range.clone()];
        let is_match = |(_, one): &(usize, &Instance)| coordinates_match(&one.coordinates, &self.coordinates);
        let mut matching = range.clone().zip(instances).filter(is_match);
        let first = matching.next();
        let rest: Vec<(usize, &Instance)> = matching.collect();
        let mut token = |(index, one): (usize, &Instance)| {
            if let Some(why) = &one.skipped {
                self.seen.add(ReferenceAccess::Skipped(one.id.clone(), why.clone()));
                return None;
            }
            self.seen.add(ReferenceAccess::Edge(index));
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
            && let Some((id, why)) = first.and_then(|(_, one)| Some((&one.id, one.skipped.as_ref()?)))
        {
            // All are skipped: none for a list of them, which a text cannot hold.
            let problem = SeveralTasksProblem::skipped(id, why);
            return Value::from_object(SeveralTasks { values, problem, seen: Arc::clone(&self.seen) });
        }
        let ids: Vec<&str> = first.into_iter().chain(rest).map(|(_, one)| one.id.as_str()).collect();
        let attribute = match reference(TaskId::new("")) {
            PlanReference::Image(_) => ".image",
            PlanReference::Service(_) => "",
            _ => ".out",
        };
        let path = format!("stages.{name}{attribute}");
        let problem = SeveralTasksProblem::new(name, &path, (*kind, instances), &ids, &self.coordinates);
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

/// The values of these tasks.
pub struct SeveralTasks {
    pub values: Vec<Value>,
    pub problem: SeveralTasksProblem,
    /// Is told that it was put into a text.
    pub seen: Arc<TouchedReferences>,
}

/// Why these tasks cannot stand for one.
#[derive(Clone, Debug)]
pub struct SeveralTasksProblem {
    pub message: String,
    pub label: String,
    pub hint: String,
    /// No task has these `foreach` values, so that an empty list is a mistake, too.
    pub is_empty: bool,
}

impl SeveralTasksProblem {
    /// `path`: what the expression looks at, `stages.x.out`. `matching`: the ids of those that fit the `foreach` values
    /// here.
    pub fn new(
        name: &str,
        path: &str,
        (kind, instances): (ActionKind, &[Instance]),
        matching: &[&str],
        coordinates: &[(String, Value)],
    ) -> Self {
        /// More ids are not shown.
        const SHOWN: usize = 6;
        let of_several = |ids: &mut dyn Iterator<Item = &str>, count: usize| {
            let shown: Vec<String> = ids.take(SHOWN).map(|id| format!("`{id}`")).collect();
            format!("{}{}", shown.join(", "), if count > SHOWN { ", …" } else { "" })
        };
        if matching.is_empty() {
            let is_shared =
                |variable: &str| instances.iter().any(|one| one.coordinates.iter().any(|(own, _)| own == variable));
            let here = coordinates.iter().filter(|(variable, _)| is_shared(variable));
            let here: Vec<String> =
                here.map(|(variable, value)| format!("{variable} = {}", value_text(value))).collect();
            let mut ids = instances.iter().map(|one| one.id.as_str());
            return Self {
                message: format!("`{path}`: no task of `{name}` has {}", here.join(", ")),
                label: format!("there is {}", of_several(&mut ids, instances.len())),
                hint: format!("add the value to the `foreach` of `{name}`, or name the variable here otherwise"),
                is_empty: true,
            };
        }
        let hint = if kind.facts().is_service {
            format!("give this stage the same `foreach`, or choose one: {{{{ {path}[0] }}}}")
        } else {
            format!(
                "give this stage the same `foreach`, choose one, {{{{ {path}[0] }}}}, or use all: {{{{ {path} | \
                 join(' ') }}}}, as a list: {{{{ {path} | tojson }}}}"
            )
        };
        Self {
            message: format!("`{path}` is not one value: `{name}` has {} tasks here", matching.len()),
            label: of_several(&mut matching.iter().copied(), matching.len()),
            hint,
            is_empty: false,
        }
    }

    /// A skipped task that has no value.
    pub fn skipped(id: &TaskId, why: &str) -> Self {
        Self {
            message: format!("`{id}` is skipped, but this stage cannot do without it"),
            label: why.to_owned(),
            hint: "skip this stage too with the same `when`, or choose another value: {{ other or stages.x.out }}"
                .to_owned(),
            is_empty: false,
        }
    }
}

impl fmt::Debug for SeveralTasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.values).finish()
    }
}

impl Object for SeveralTasks {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.values.get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.values.len())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.seen.printed(&self.problem);
        fmt::Debug::fmt(self, f)
    }
}
