//! `{{ stages.x.out }}` where several tasks of `x` fit, or none: a list for loops, `join` and `[0]`. In a text it would be printed with
//! brackets, and a mistyped `foreach` value would be an empty one, so it is an error there.

use std::fmt;
use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{Enumerator, Object, ObjectRepr};

use super::expression_names::{KnownStages, TouchedReferences};
use crate::manifest::value_text;
use base::event::TaskId;

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
    /// `path`: what the expression looks at, `stages.x.out`. `matching`: the ids of those that fit the `foreach` values here.
    pub fn new(
        name: &str,
        path: &str,
        known: &KnownStages,
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
            let is_shared = |variable: &str| {
                known.instances.iter().any(|one| one.coordinates.iter().any(|(own, _)| own == variable))
            };
            let here = coordinates.iter().filter(|(variable, _)| is_shared(variable));
            let here: Vec<String> =
                here.map(|(variable, value)| format!("{variable} = {}", value_text(value))).collect();
            let mut ids = known.instances.iter().map(|one| one.id.as_str());
            return Self {
                message: format!("`{path}`: no task of `{name}` has {}", here.join(", ")),
                label: format!("there is {}", of_several(&mut ids, known.instances.len())),
                hint: format!("add the value to the `foreach` of `{name}`, or name the variable here otherwise"),
                is_empty: true,
            };
        }
        let hint = if known.kind.facts().is_service {
            format!("give this stage the same `foreach`, or choose one: {{{{ {path}[0] }}}}")
        } else {
            format!(
                "give this stage the same `foreach`, choose one, {{{{ {path}[0] }}}}, or use all: {{{{ {path} | join(' ') }}}}, as a list: {{{{ {path} | tojson }}}}"
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
