//! The findings of the gate: what, where, why, and what to do.

use std::path::Path;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingWeight {
    /// It cannot be submitted like this.
    Refused,
    /// It can; a reviewer may ask.
    Warning,
}

/// One thing that is wrong with a submission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateFinding {
    pub weight: FindingWeight,
    /// A short name of the check, for scripts: `seeds`.
    pub check: String,
    /// The file or folder, below the submission.
    pub place: String,
    pub what: String,
    /// The rule.
    pub why: String,
    /// What to do.
    pub fix: String,
}

/// Collects findings about places below one folder.
#[derive(Debug)]
pub(super) struct GateFindings<'a> {
    root: &'a Path,
    pub all: Vec<GateFinding>,
}

impl<'a> GateFindings<'a> {
    pub(super) const fn new(root: &'a Path) -> Self {
        Self { root, all: Vec::new() }
    }

    pub(super) fn refuse(
        &mut self,
        check: &str,
        place: &Path,
        what: impl Into<String>,
        why: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.add(FindingWeight::Refused, check, place, what.into(), why.into(), fix.into());
    }

    pub(super) fn warn(
        &mut self,
        check: &str,
        place: &Path,
        what: impl Into<String>,
        why: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.add(FindingWeight::Warning, check, place, what.into(), why.into(), fix.into());
    }

    fn add(&mut self, weight: FindingWeight, check: &str, place: &Path, what: String, why: String, fix: String) {
        let place = place.strip_prefix(self.root).unwrap_or(place).display().to_string();
        let place = if place.is_empty() { ".".to_owned() } else { place };
        self.all.push(GateFinding { weight, check: check.to_owned(), place, what, why, fix });
    }
}
