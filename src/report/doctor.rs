//! What a machine has and lacks: the output of `regatta doctor`.

use crate::document::{Cell, Table};
use crate::styler::{Styler, TextRole, clean};
use base::units::counted;
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::Write as _;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingLevel {
    /// Needed, and there.
    Good,
    /// Needed, and not there.
    Missing,
    /// It may or may not be enough.
    Doubtful,
    /// No requested task needs it.
    #[default]
    Fact,
}

/// What one thing is, which tasks need it, and what helps.
#[base::omit_empty]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DoctorFinding {
    /// `GPUs`, `docker`, `HF_TOKEN`.
    pub about: String,
    pub level: FindingLevel,
    /// What the machine has.
    pub found: String,
    /// What is needed.
    pub needed: Option<String>,
    /// Tasks that need it.
    pub by: Vec<String>,
    /// The command that helps, or what to do where no command can.
    pub fix: Option<String>,
}

impl DoctorFinding {
    pub fn fact(about: impl Into<String>, found: impl Into<String>) -> Self {
        Self { about: about.into(), found: found.into(), ..Self::default() }
    }

    /// Needed by the tasks `by`; without any it stays a fact.
    #[must_use]
    pub fn needed(mut self, what: impl Into<String>, by: &[String], level: FindingLevel) -> Self {
        if by.is_empty() {
            return self;
        }
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

/// A longer list of tasks is cut.
const NAMED: usize = 2;

/// A line for each thing; below what is missing, what helps.
pub fn doctor_text(findings: &[DoctorFinding], paint: Styler) -> String {
    let rows = Table::list([], findings.iter().map(row)).row_texts(paint);
    let mut out = String::new();
    for (row, finding) in rows.into_iter().zip(findings) {
        out.push_str(&row);
        if let Some(fix) = &finding.fix {
            let _ = writeln!(out, "  {} {}", paint.tone(TextRole::Quiet, "try"), clean(fix));
        }
    }
    let count = |level: FindingLevel| findings.iter().filter(|finding| finding.level == level).count();
    let (missing, doubtful) = (count(FindingLevel::Missing), count(FindingLevel::Doubtful));
    let _ = match (missing, doubtful, count(FindingLevel::Good)) {
        (0, 0, 0) => writeln!(out, "\nfacts only; `regatta doctor MANIFEST` checks them against a manifest"),
        (0, 0, good) => {
            writeln!(out, "\n{}", paint.tone(TextRole::Good, format!("all {good} requirements are met")))
        }
        (0, n, _) => {
            writeln!(out, "\n{}", paint.tone(TextRole::Warning, format!("nothing is missing, {n} may not suffice")))
        }
        (n, _, _) => writeln!(out, "\n{}", paint.tone(TextRole::Bad, format!("{} missing", counted(n, "item")))),
    };
    out
}

fn row(finding: &DoctorFinding) -> [Cell; 5] {
    let (role, mark) = match finding.level {
        FindingLevel::Good => (TextRole::Good, "✓"),
        FindingLevel::Missing => (TextRole::Bad, "✗"),
        FindingLevel::Doubtful => (TextRole::Warning, "!"),
        FindingLevel::Fact => (TextRole::Quiet, "·"),
    };
    let needed = finding.needed.as_ref().map_or_else(String::new, |needed| format!("needs {needed}"));
    let mut by = finding.by.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    if finding.by.len() > NAMED {
        let _ = write!(by, " and {} more", finding.by.len() - NAMED);
    }
    [Cell::new(role, mark), Cell::name(&finding.about), (&finding.found).into(), needed.into(), Cell::quiet(by)]
}

/// All of it.
pub fn doctor_json(findings: &[DoctorFinding]) -> Value {
    let missing = findings.iter().filter(|finding| finding.level == FindingLevel::Missing).count();
    json!({ "missing": missing, "findings": findings })
}
