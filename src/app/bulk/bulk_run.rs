//! The runs of a list.

use base::units::shell_word;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::cli::KeyValueArg;

/// The runs of a file, and the parts of it without a meaning here.
pub struct BulkFile {
    pub items: Vec<BulkRun>,
    pub notes: Vec<String>,
}

/// The arguments of `regatta run`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkRun {
    pub manifest: String,
    pub settings: Vec<KeyValueArg>,
    /// Keys of those settings that it has from the whole list.
    pub list_keys: BTreeSet<String>,
    /// Variables that its parameters read.
    pub env: BTreeMap<String, String>,
    /// From 1.
    pub repeat: u32,
}

impl BulkRun {
    /// The number of repeats of a run.
    pub fn repeated(self, repeats: u32) -> impl Iterator<Item = Self> {
        (1..=repeats).map(move |repeat| Self { repeat, ..self.clone() })
    }

    /// With settings that take precedence over its own.
    #[must_use]
    pub fn with(mut self, over: &[KeyValueArg]) -> Self {
        self.settings.retain(|own| over.iter().all(|one| one.key != own.key));
        self.settings.extend(over.iter().cloned());
        self
    }

    pub fn is_repeat_of(&self, other: &Self) -> bool {
        self.manifest == other.manifest && self.settings == other.settings && self.env == other.env
    }

    /// The command without its repeat: the common part of its repeats.
    pub fn first(&self) -> String {
        Self { repeat: 1, ..self.clone() }.to_string()
    }
}

/// As it could be typed.
impl fmt::Display for BulkRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.env {
            write!(f, "{name}={} ", shell_word(value))?;
        }
        write!(f, "regatta run {}", shell_word(&self.manifest))?;
        for setting in &self.settings {
            write!(f, " {}", shell_word(&format!("{}={}", setting.key, setting.value)))?;
        }
        if self.repeat > 1 {
            write!(f, " --repeat-number {}", self.repeat)?;
        }
        Ok(())
    }
}
