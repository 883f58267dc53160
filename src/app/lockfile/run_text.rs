//! What of a lock file is written, by reference: the stages of a large plan take many times the memory of their text, so each is made
//! when it is written, and forgotten then.

use std::collections::BTreeMap;

use serde::ser::{Error as _, SerializeMap as _};
use serde::{Serialize, Serializer};

use super::{LockSection, LockedTask};
use plan::ActionError;

/// A [`super::LockFile`].
#[derive(Serialize)]
pub(super) struct FileText<'a> {
    pub lock: u32,
    pub runs: BTreeMap<&'a str, RunText<'a>>,
}

/// A [`LockSection`].
#[derive(Serialize)]
pub struct RunText<'a> {
    regatta: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    params: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    machine: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tools: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "StageTexts::is_empty")]
    stages: StageTexts<'a>,
}

/// Makes the stage at a place that the caller has given it. Several are made at once.
type MakeStage<'a> = &'a (dyn Fn(usize) -> Result<LockedTask, ActionError> + Sync);

/// By name.
struct StageTexts<'a>(BTreeMap<&'a str, StageText<'a>>);

enum StageText<'a> {
    There(&'a LockedTask),
    Made(usize, MakeStage<'a>),
}

impl<'a> RunText<'a> {
    pub fn of(section: &'a LockSection) -> Self {
        let by_name = section.stages.iter().map(|(name, stage)| (name.as_str(), StageText::There(stage)));
        Self {
            regatta: &section.regatta,
            params: &section.params,
            machine: &section.machine,
            tools: &section.tools,
            stages: StageTexts(by_name.collect()),
        }
    }

    /// With these stages, by name and place, instead of those with the same names.
    #[must_use]
    pub fn with_made(mut self, places: impl Iterator<Item = (&'a str, usize)>, make: MakeStage<'a>) -> Self {
        self.stages.0.extend(places.map(|(name, place)| (name, StageText::Made(place, make))));
        self
    }

    /// Itself with its first `count` stages, and runs that have nothing but stages: as many of the others each, in their order.
    pub fn in_parts(mut self, count: usize) -> (Self, Vec<Self>) {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        let mut rest = std::mem::take(&mut self.stages.0).into_iter().peekable();
        self.stages.0.extend(rest.by_ref().take(count));
        let mut parts = Vec::new();
        while rest.peek().is_some() {
            let stages = StageTexts(rest.by_ref().take(count).collect());
            parts.push(Self { regatta: "", params: &NONE, machine: &NONE, tools: &NONE, stages });
        }
        (self, parts)
    }
}

impl StageTexts<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl StageText<'_> {
    fn stage(&self) -> Result<LockedTask, ActionError> {
        let mut stage = match self {
            Self::There(stage) => (*stage).clone(),
            Self::Made(place, make) => make(*place)?,
        };
        stage.requested.values_mut().chain(stage.resolved.values_mut()).for_each(serde_json::Value::sort_all_objects);
        Ok(stage)
    }
}

impl Serialize for StageTexts<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (name, text) in &self.0 {
            map.serialize_entry(name, &text.stage().map_err(S::Error::custom)?)?;
        }
        map.end()
    }
}
