//! What a plan would do, and why: the answer of `regatta plan`.

use std::fmt::Write as _;
use std::io;

use serde::{Serialize, Serializer};

use super::estimate::BenchEstimate;
use crate::terminal::styler::{Styler, TextRole, clean, table};
use base::event::TaskId;
use base::units::counted;

/// One task, decided but not done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DecisionRow {
    pub id: TaskId,
    pub stage: String,
    pub decision: DecisionKind,
    /// Why it would run, or is skipped; empty for a cached one.
    pub reasons: Vec<String>,
    /// What a benchmark measures, where that is more than one measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<String>,
    /// What a benchmark is expected to take, by the twin of its servers.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "estimate_json")]
    pub estimate: Option<BenchEstimate>,
}

#[allow(clippy::ref_option, reason = "serde gives a reference")]
fn estimate_json<S: Serializer>(estimate: &Option<BenchEstimate>, to: S) -> Result<S::Ok, S::Error> {
    estimate.as_ref().map(BenchEstimate::json).serialize(to)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionKind {
    Run,
    Cached,
    Skipped,
}

impl DecisionKind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Cached => "cached",
            Self::Skipped => "skipped",
        }
    }
}

/// One line per task, further reasons below it, and a count at the end. Tasks of one stage that are skipped for the same
/// reason are one line: `triton (2)`.
pub fn decisions_text(decisions: &[DecisionRow], paint: Styler) -> String {
    let are_alike = |one: &DecisionRow, next: &DecisionRow| {
        one.decision == DecisionKind::Skipped
            && next.decision == DecisionKind::Skipped
            && (&one.stage, &one.reasons) == (&next.stage, &next.reasons)
    };
    let mut rows = Vec::new();
    for alike in decisions.chunk_by(are_alike) {
        let DecisionRow { id, stage, decision, reasons, cost, estimate } = &alike[0];
        let estimate = estimate.as_ref().map(BenchEstimate::to_string);
        let cost = cost.iter().chain(&estimate).filter(|_| *decision == DecisionKind::Run);
        let name = if alike.len() == 1 { id.to_string() } else { format!("{stage} ({})", alike.len()) };
        let tone = match decision {
            DecisionKind::Run => TextRole::Good,
            DecisionKind::Cached | DecisionKind::Skipped => TextRole::Quiet,
        };
        let mut reasons = reasons.iter().chain(cost).map(|reason| (TextRole::Plain, clean(reason)));
        let first = reasons.next().unwrap_or((TextRole::Plain, String::new()));
        rows.push(vec![(tone, decision.as_str().to_owned()), (TextRole::Name, name), first]);
        rows.extend(
            reasons.map(|reason| vec![(TextRole::Plain, String::new()), (TextRole::Plain, String::new()), reason]),
        );
    }
    let mut out = table(paint, "", &rows);
    let count = |choice| decisions.iter().filter(|decision| decision.decision == choice).count();
    let [run, cached, skipped] = [DecisionKind::Run, DecisionKind::Cached, DecisionKind::Skipped].map(count);
    let _ = writeln!(out, "{}: {run} to run, {cached} cached, {skipped} skipped", counted(decisions.len(), "task"));
    out
}

/// `{"tasks":[{"id","stage","decision","reasons":[…]}]}`, indented, with a newline at the end.
///
/// # Errors
/// What `to` refuses.
pub fn write_decisions_json(decisions: &[DecisionRow], to: &mut impl io::Write) -> io::Result<()> {
    #[derive(Serialize)]
    struct Answer<'a> {
        tasks: &'a [DecisionRow],
    }
    // Through no `Value` and no text: a plan may have many tasks.
    serde_json::to_writer_pretty(&mut *to, &Answer { tasks: decisions })?;
    to.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decisions() -> Vec<DecisionRow> {
        let decision = |id: &str, decision, reasons: &[&str]| DecisionRow {
            id: TaskId::new(id),
            stage: id.split('/').next().unwrap_or_default().to_owned(),
            decision,
            reasons: reasons.iter().map(ToString::to_string).collect(),
            cost: None,
            estimate: None,
        };
        vec![
            decision("engine", DecisionKind::Cached, &[]),
            decision("repository/server", DecisionKind::Run, &["action.servers: 1 → 2", "input `weights` changed"]),
            decision("smoke", DecisionKind::Skipped, &["`when` is false"]),
        ]
    }

    #[test]
    fn instances_that_are_skipped_alike_are_one_line() {
        let skipped = |id: &str, why: &str| DecisionRow {
            id: TaskId::new(id),
            stage: id.split('/').next().unwrap_or_default().to_owned(),
            decision: DecisionKind::Skipped,
            reasons: vec![why.to_owned()],
            cost: None,
            estimate: None,
        };
        let all = [skipped("a/x", "no"), skipped("a/y", "no"), skipped("a/z", "other"), skipped("b", "other")];
        insta::assert_snapshot!(decisions_text(&all, Styler::OFF), @r"
        skipped  a (2)  no
        skipped  a/z    other
        skipped  b      other
        4 tasks: 0 to run, 0 cached, 4 skipped
        ");
    }

    #[test]
    fn a_person_reads_every_reason() {
        insta::assert_snapshot!(decisions_text(&decisions(), Styler::OFF), @r"
        cached   engine
        run      repository/server  action.servers: 1 → 2
                                    input `weights` changed
        skipped  smoke              `when` is false
        3 tasks: 1 to run, 1 cached, 1 skipped
        ");
    }

    #[test]
    fn a_program_reads_the_same() {
        let mut json = Vec::new();
        write_decisions_json(&decisions(), &mut json).unwrap();
        insta::assert_snapshot!(String::from_utf8(json).unwrap(), @r#"
        {
          "tasks": [
            {
              "id": "engine",
              "stage": "engine",
              "decision": "cached",
              "reasons": []
            },
            {
              "id": "repository/server",
              "stage": "repository",
              "decision": "run",
              "reasons": [
                "action.servers: 1 → 2",
                "input `weights` changed"
              ]
            },
            {
              "id": "smoke",
              "stage": "smoke",
              "decision": "skipped",
              "reasons": [
                "`when` is false"
              ]
            }
          ]
        }
        "#);
    }
}
