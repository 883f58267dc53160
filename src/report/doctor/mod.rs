//! Text output of what a machine has and lacks: `regatta doctor`.

mod finding;

use std::fmt::Write as _;

use serde_json::json;

use crate::terminal::styler::{Styler, TextRole, clean, table};
use base::units::counted;
pub use finding::{DoctorFinding, FindingLevel};

/// A longer list of tasks is cut.
const NAMED: usize = 2;

/// A line for each thing; below what is missing, what helps.
pub fn doctor_text(findings: &[DoctorFinding], paint: Styler) -> String {
    let rows: Vec<_> = findings.iter().map(row).collect();
    let lines = table(paint, "", &rows);
    let mut out = String::new();
    for (line, finding) in lines.lines().zip(findings) {
        let _ = writeln!(out, "{}", line.trim_end());
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

fn row(finding: &DoctorFinding) -> Vec<(TextRole, String)> {
    let (tone, mark) = match finding.level {
        FindingLevel::Good => (TextRole::Good, "✓"),
        FindingLevel::Missing => (TextRole::Bad, "✗"),
        FindingLevel::Doubtful => (TextRole::Warning, "!"),
        FindingLevel::Fact => (TextRole::Quiet, "·"),
    };
    let needed = finding.needed.as_ref().map_or_else(String::new, |needed| format!("needs {}", clean(needed)));
    let mut by = finding.by.iter().take(NAMED).map(|task| clean(task)).collect::<Vec<_>>().join(", ");
    if finding.by.len() > NAMED {
        let _ = write!(by, " and {} more", finding.by.len() - NAMED);
    }
    vec![
        (tone, mark.to_owned()),
        (TextRole::Name, clean(&finding.about)),
        (TextRole::Plain, clean(&finding.found)),
        (TextRole::Plain, needed),
        (TextRole::Quiet, by),
    ]
}

/// All of it.
pub fn doctor_json(findings: &[DoctorFinding]) -> String {
    let missing = findings.iter().filter(|finding| finding.level == FindingLevel::Missing).count();
    format!("{:#}\n", json!({ "missing": missing, "findings": findings }))
}
