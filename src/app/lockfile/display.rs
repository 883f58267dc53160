//! Text output for lock files: what is in one, and how two differ.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::lockfile::{DifferenceWeight, LockDifference, LockFile, LockPart, LockSection, LockedTask};
use base::units::counted;
use report::{Block, Cell, Document, Section, Styler, Table, TextRole, clean};

/// A longer value is cut in a table; JSON has all of it.
const WIDEST: usize = 48;
/// Of a commit or a digest.
const SHORT: usize = 12;

/// A table by stage. `sides`: what to call the two.
pub fn differences(found: &[LockDifference], sides: [&str; 2], styler: Styler) -> String {
    let mut before = String::new();
    let row = |one: &LockDifference| {
        let place = place(one);
        let (locked, now) = cell_pair(one.locked.as_deref(), one.now.as_deref());
        let role = if one.weight == DifferenceWeight::Stops { TextRole::Warning } else { TextRole::Quiet };
        let shown = if place == before { "" } else { place.as_str() };
        let row = [Cell::name(shown), (&one.field).into(), locked.into(), Cell::new(role, now)];
        before = place;
        row
    };
    Table::list(["", "", sides[0], sides[1]], found.iter().map(row)).terminal(styler, "  ")
}

/// What to do about them, each advice once.
pub fn advice(found: &[LockDifference], paint: Styler) -> String {
    let mut out = String::new();
    let mut lines: BTreeSet<&str> = BTreeSet::new();
    for one in found.iter().filter(|one| one.weight != DifferenceWeight::Follows) {
        if lines.insert(one.advice()) {
            let _ = writeln!(out, "  {} {}: {}", paint.tone(TextRole::Quiet, "try"), short_place(one), one.advice());
        }
    }
    out
}

/// `engine.build_flags.max_batch_size: 2048 → 1024`
pub fn line(one: &LockDifference) -> String {
    let (locked, now) = cell_pair(one.locked.as_deref(), one.now.as_deref());
    format!("{}: {locked} → {now}", one.field)
}

/// By run: `{"same": false, "runs": {"m": [{"part", "task", "field", "locked", "now", "weight"}]}}`.
pub fn differences_json(runs: &BTreeMap<String, Vec<LockDifference>>) -> Value {
    let same = runs.values().all(Vec::is_empty);
    json!({ "same": same, "runs": runs })
}

/// What is in a lock file, run by run.
pub fn show(file: &LockFile) -> Document {
    let section = |(name, section): (&String, &LockSection)| {
        let lists = [("params", &section.params), ("machine", &section.machine), ("tools", &section.tools)];
        let rows = lists.into_iter().flat_map(|(word, fields)| {
            let words = std::iter::once(word).chain(std::iter::repeat(""));
            words.zip(fields).map(|(word, (field, value))| [Cell::quiet(word), Cell::name(field), cut(value).into()])
        });
        let stages = section
            .stages
            .iter()
            .map(|(task, entry)| [Cell::name(task), Cell::quiet(entry.kind.as_str()), resolved(entry).into()]);
        let about = format!("{}, regatta {}", counted(section.stages.len(), "task"), section.regatta);
        Section { about, ..Section::new(name) }.with([Block::list(rows), Block::list(stages)])
    };
    Document::of_sections(file.runs.iter().map(section))
}

/// `commit 0123456789ab, output 89abcdef0123`: what was named first, digests after.
fn resolved(entry: &LockedTask) -> String {
    let mut parts: Vec<String> = Vec::new();
    for (name, value) in entry.resolved.iter().filter(|(name, _)| *name != "key" && *name != "output") {
        match value {
            Value::Object(fields) => parts.push(counted(fields.len(), name.strip_suffix('s').unwrap_or(name))),
            Value::Array(_) => {}
            Value::String(text) => parts.push(format!("{} {}", clean(name), brief(text))),
            other => parts.push(format!("{} {other}", clean(name))),
        }
    }
    for name in ["output", "key"] {
        let hex = entry.resolved.get(name).and_then(Value::as_str);
        if let Some(hex) = hex.filter(|_| name == "output" || !entry.resolved.contains_key("output")) {
            parts.push(format!("{name} {}", brief(hex)));
        }
    }
    parts.join(", ")
}

/// A commit or a digest by its first digits, all else as it is.
fn brief(text: &str) -> String {
    let (kind, hex) = text.split_once(':').unwrap_or(("", text));
    let is_digest = hex.len() >= 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    match (is_digest, kind) {
        (false, _) => clean(text),
        (true, "") => hex[..SHORT].to_owned(),
        (true, kind) => format!("{kind}:{}", &hex[..SHORT]),
    }
}

fn place(one: &LockDifference) -> String {
    one.task.as_deref().map_or_else(|| word(one.part).to_owned(), clean)
}

const fn word(part: LockPart) -> &'static str {
    match part {
        LockPart::Run => "program",
        LockPart::Parameter => "parameters",
        LockPart::Machine => "machine",
        LockPart::Tool => "tools",
        LockPart::Requested => "requested",
        LockPart::Resolved => "resolved",
    }
}

fn short_place(one: &LockDifference) -> String {
    format!("{} {}", place(one), clean(&one.field)).trim_end().to_owned()
}

/// Two values for a table: of texts with several lines the first line that differs, of digests the beginning.
fn cell_pair(locked: Option<&str>, now: Option<&str>) -> (String, String) {
    let shown = |text: Option<&str>| text.map_or_else(|| "–".to_owned(), |text| cut(&brief(text)));
    if let (Some(a), Some(b)) = (locked, now) {
        if a.contains('\n') || b.contains('\n') {
            let at = a.lines().zip(b.lines()).position(|(a, b)| a != b);
            let at = at.unwrap_or_else(|| a.lines().count().min(b.lines().count()));
            let line = |text: &str| {
                let line = text.lines().nth(at).map_or_else(|| "(ends)".to_owned(), |line| cut(line.trim()));
                format!("line {}: {line}", at + 1)
            };
            return (line(a), line(b));
        }
        // An equal beginning of long values shows no difference.
        if a.chars().count().max(b.chars().count()) > WIDEST && shown(Some(a)) == shown(Some(b)) {
            let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
            let rest = |text: &str| format!("…{}", cut(&text.chars().skip(same.saturating_sub(8)).collect::<String>()));
            return (rest(a), rest(b));
        }
    }
    (shown(locked), shown(now))
}

fn cut(text: &str) -> String {
    report::cut(text, WIDEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(part: LockPart, task: Option<&str>, field: &str, locked: Option<&str>, now: Option<&str>) -> LockDifference {
        let text = |text: Option<&str>| text.map(str::to_owned);
        let (task, field, weight) = (text(task), field.to_owned(), DifferenceWeight::Stops);
        LockDifference { part, task, field, locked: text(locked), now: text(now), weight }
    }

    #[test]
    fn a_table_by_stage_says_what_to_do() {
        let rows = [
            one(LockPart::Tool, None, "nvcc", Some("12.8"), Some("12.4")),
            one(LockPart::Requested, Some("engine"), "engine.build_flags.max_batch_size", Some("2048"), Some("1024")),
            one(LockPart::Requested, Some("engine"), "shell", Some("a\nb\n"), Some("a\nc\n")),
            one(
                LockPart::Resolved,
                Some("clone"),
                "commit",
                Some("0123456789abcdef0123456789abcdef01234567"),
                Some("fedcba9876543210fedcba9876543210fedcba98"),
            ),
            one(LockPart::Requested, Some("new"), "stage", None, Some("a stage (git)")),
        ];
        let text = differences(&rows, ["locked", "now"], Styler::OFF) + &advice(&rows, Styler::OFF);
        insta::assert_snapshot!(text, @r"
                                                     locked        now
          tools   nvcc                               12.8          12.4
          engine  engine.build_flags.max_batch_size  2048          1024
                  shell                              line 2: b     line 2: c
          clone   commit                             0123456789ab  fedcba987654
          new     stage                              –             a stage (git)
          try tools nvcc: install that version, or give the stage a `container` that has it
          try engine engine.build_flags.max_batch_size: undo the change in the manifest
          try clone commit: make it again with `--force STAGE`; the locked version may no longer be available
        ");
    }

    #[test]
    fn long_values_show_where_they_part() {
        let same = "x".repeat(60);
        let (a, b) = cell_pair(Some(&format!("{same}one")), Some(&format!("{same}two")));
        assert_eq!((a.as_str(), b.as_str()), ("…xxxxxxxxone", "…xxxxxxxxtwo"));
    }
}
