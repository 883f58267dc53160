//! What stands in an action's text for something that is only known when the task starts.

use std::fmt::Write as _;

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
        let mut found = Vec::new();
        let mut rest = text;
        while let Some((_, after)) = rest.split_once(OPEN) {
            let Some((inner, tail)) = after.split_once(CLOSE) else { break };
            found.extend(Self::parse(inner));
            rest = tail;
        }
        found
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
