//! What a plan would do, and why: the answer of `regatta plan`.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::json;

use super::paint::{Paint, Tone, clean, counted, table};
use crate::event::TaskId;

/// One task, decided but not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    pub id: TaskId,
    pub stage: String,
    pub decision: Choice,
    /// Why it would run, or is skipped; empty for a cached one.
    pub reasons: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    Run,
    Cached,
    Skipped,
}

impl Choice {
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
pub fn text(decisions: &[Decision], paint: Paint) -> String {
    let are_alike = |one: &Decision, next: &Decision| {
        one.decision == Choice::Skipped
            && next.decision == Choice::Skipped
            && (&one.stage, &one.reasons) == (&next.stage, &next.reasons)
    };
    let mut rows = Vec::new();
    for alike in decisions.chunk_by(are_alike) {
        let Decision { id, stage, decision, reasons } = &alike[0];
        let name = if alike.len() == 1 { id.to_string() } else { format!("{stage} ({})", alike.len()) };
        let tone = match decision {
            Choice::Run => Tone::Good,
            Choice::Cached | Choice::Skipped => Tone::Quiet,
        };
        let mut reasons = reasons.iter().map(|reason| (Tone::Plain, clean(reason)));
        let first = reasons.next().unwrap_or((Tone::Plain, String::new()));
        rows.push(vec![(tone, decision.as_str().to_owned()), (Tone::Name, name), first]);
        rows.extend(reasons.map(|reason| vec![(Tone::Plain, String::new()), (Tone::Plain, String::new()), reason]));
    }
    let mut out = table(paint, "", &rows);
    let count = |choice| decisions.iter().filter(|decision| decision.decision == choice).count();
    let [run, cached, skipped] = [Choice::Run, Choice::Cached, Choice::Skipped].map(count);
    let _ = writeln!(out, "{}: {run} to run, {cached} cached, {skipped} skipped", counted(decisions.len(), "task"));
    out
}

/// `{"tasks":[{"id","stage","decision","reasons":[…]}]}`, indented, with a newline at the end.
pub fn json(decisions: &[Decision]) -> String {
    format!("{:#}\n", json!({ "tasks": decisions }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decisions() -> Vec<Decision> {
        let decision = |id: &str, decision, reasons: &[&str]| Decision {
            id: TaskId::new(id),
            stage: id.split('/').next().unwrap_or_default().to_owned(),
            decision,
            reasons: reasons.iter().map(ToString::to_string).collect(),
        };
        vec![
            decision("engine", Choice::Cached, &[]),
            decision("repository/server", Choice::Run, &["action.servers: 1 → 2", "input `weights` changed"]),
            decision("smoke", Choice::Skipped, &["`when` is false"]),
        ]
    }

    #[test]
    fn instances_that_are_skipped_alike_are_one_line() {
        let skipped = |id: &str, why: &str| Decision {
            id: TaskId::new(id),
            stage: id.split('/').next().unwrap_or_default().to_owned(),
            decision: Choice::Skipped,
            reasons: vec![why.to_owned()],
        };
        let all = [skipped("a/x", "no"), skipped("a/y", "no"), skipped("a/z", "other"), skipped("b", "other")];
        insta::assert_snapshot!(text(&all, Paint::OFF), @r"
        skipped  a (2)  no
        skipped  a/z    other
        skipped  b      other
        4 tasks: 0 to run, 0 cached, 4 skipped
        ");
    }

    #[test]
    fn a_person_reads_every_reason() {
        insta::assert_snapshot!(text(&decisions(), Paint::OFF), @r"
        cached   engine
        run      repository/server  action.servers: 1 → 2
                                    input `weights` changed
        skipped  smoke              `when` is false
        3 tasks: 1 to run, 1 cached, 1 skipped
        ");
    }

    #[test]
    fn a_program_reads_the_same() {
        insta::assert_snapshot!(json(&decisions()), @r#"
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
