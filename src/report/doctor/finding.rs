//! One line of the answer.

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingLevel {
    /// Needed, and there.
    Good,
    /// Needed, and not there.
    Missing,
    /// It may or may not be enough.
    Doubtful,
    /// No requested task needs it.
    Fact,
}

/// What one thing is, which tasks need it, and what helps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DoctorFinding {
    /// `GPUs`, `docker`, `HF_TOKEN`.
    pub about: String,
    pub level: FindingLevel,
    /// What the machine has.
    pub found: String,
    /// What is needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needed: Option<String>,
    /// Tasks that need it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<String>,
    /// The command that helps, or what to do where no command can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl DoctorFinding {
    pub fn fact(about: impl Into<String>, found: impl Into<String>) -> Self {
        Self {
            about: about.into(),
            level: FindingLevel::Fact,
            found: found.into(),
            needed: None,
            by: Vec::new(),
            fix: None,
        }
    }

    /// Needed by the tasks `by`.
    #[must_use]
    pub fn needed(mut self, what: impl Into<String>, by: &[String], level: FindingLevel) -> Self {
        self.needed = Some(what.into());
        self.by = by.to_vec();
        self.level = level;
        self
    }

    /// What helps; kept only where something is missing or doubtful.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        if matches!(self.level, FindingLevel::Missing | FindingLevel::Doubtful) {
            self.fix = Some(fix.into());
        }
        self
    }
}

impl FindingLevel {
    pub const fn of(is_there: bool) -> Self {
        if is_there { Self::Good } else { Self::Missing }
    }
}
