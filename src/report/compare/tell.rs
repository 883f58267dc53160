//! How a comparison looks.

use std::fmt::Write as _;

use serde_json::{Value, json as value};

use super::{Comparison, Delta, Judgement, Sheet};
use crate::event::Verdict;
use crate::report::paint::{Paint, Tone, clean, table};

/// The rows that a reader looks for; JSON has all.
const SHOWN: [&str; 4] = ["", "mean", "p50", "p99"];

pub fn text(sheets: &[Sheet], comparisons: &[Comparison], paint: Paint) -> String {
    let mut out = String::new();
    let rows: Vec<_> = sheets
        .iter()
        .enumerate()
        .map(|(n, sheet)| {
            vec![
                (Tone::Strong, letter(n)),
                (Tone::Name, clean(&sheet.name)),
                (tone_of(sheet.verdict), sheet.verdict_word().to_owned()),
                (Tone::Quiet, format!("as {}", sheet.tool.title())),
            ]
        })
        .collect();
    out.push_str(&table(paint, "", &rows));
    for doubt in doubts(sheets) {
        let _ = writeln!(out, "{}", paint.tone(Tone::Odd, doubt));
    }
    for (n, comparison) in comparisons.iter().enumerate() {
        one(comparison, &letter(n + 1), paint, &mut out);
    }
    out
}

const fn tone_of(verdict: Option<Verdict>) -> Tone {
    match verdict {
        Some(Verdict::Valid) => Tone::Good,
        Some(Verdict::ValidWithWarnings) => Tone::Odd,
        Some(_) => Tone::Bad,
        None => Tone::Quiet,
    }
}

/// What a reader must know of results that are no measurements of a server.
pub(in crate::report) fn doubts(sheets: &[Sheet]) -> Vec<String> {
    let doubt = |(n, sheet): (usize, &Sheet)| {
        let why = match sheet.verdict? {
            Verdict::InvalidClient => "its numbers are as much the client's as the server's",
            Verdict::InvalidLoad => "the load was not reached, or a limit missed",
            Verdict::InvalidServer => "the server gave errors, and those requests are in no latency",
            Verdict::Valid | Verdict::ValidWithWarnings => return None,
        };
        Some(format!("{} is {}: {why}", letter(n), sheet.verdict_word()))
    };
    sheets.iter().enumerate().filter_map(doubt).collect()
}

/// `A`, `B`, …: how a result is called in a table.
pub(in crate::report) fn letter(n: usize) -> String {
    u8::try_from(n).ok().filter(|n| *n < 26).map_or_else(|| n.to_string(), |n| char::from(b'A' + n).to_string())
}

fn one(comparison: &Comparison, b: &str, paint: Paint, out: &mut String) {
    let heads = ["", "", "A", b, "difference", "95 % interval", ""];
    let mut rows = vec![heads.map(|head| (Tone::Quiet, head.to_owned())).to_vec()];
    let mut reasons: Vec<String> = Vec::new();
    for delta in comparison.deltas.iter().filter(|delta| SHOWN.contains(&delta.stat)) {
        rows.push(row(delta, &mut reasons));
    }
    if rows.len() == 1 {
        let _ = writeln!(out, "\nA and {b} have no number in common");
        return;
    }
    out.push('\n');
    out.push_str(&table(paint, "", &rows));
    if comparison.paired {
        let _ =
            writeln!(out, "{}", paint.tone(Tone::Quiet, "same arrivals and prompts: requests compared one with one"));
    }
    for note in &comparison.notes {
        let _ = writeln!(out, "{}", paint.tone(Tone::Quiet, clean(note)));
    }
    for (n, reason) in reasons.iter().enumerate() {
        let _ = writeln!(out, "{} {}", paint.tone(Tone::Odd, format!("≠{}", n + 1)), clean(reason));
    }
    if comparison.deltas.iter().any(|delta| delta.percent.is_none() && !delta.unlike.is_empty()) {
        let hint = "unlike numbers are not subtracted: `--as TOOL` tells both with one definition where requests are known one by one, `--force` subtracts all the same";
        let _ = writeln!(out, "{}", paint.tone(Tone::Quiet, hint));
    }
}

fn row(delta: &Delta, reasons: &mut Vec<String>) -> Vec<(Tone, String)> {
    let marks: Vec<String> = delta
        .unlike
        .iter()
        .map(|reason| {
            let place = reasons.iter().position(|known| known == reason).unwrap_or_else(|| {
                reasons.push(reason.clone());
                reasons.len() - 1
            });
            format!("≠{}", place + 1)
        })
        .collect();
    let (tone, word) = match delta.judgement {
        Some(Judgement::Better) => (Tone::Good, Judgement::Better.words()),
        Some(Judgement::Worse) => (Tone::Bad, Judgement::Worse.words()),
        Some(other) => (Tone::Quiet, other.words()),
        None if delta.unlike.is_empty() => (Tone::Quiet, "no percentage of 0"),
        None => (Tone::Odd, "unlike"),
    };
    vec![
        (Tone::Name, delta.metric.clone()),
        (Tone::Plain, format!("{} {}", delta.stat, delta.unit).trim().to_owned()),
        (Tone::Plain, number(delta.a)),
        (Tone::Plain, number(delta.b)),
        (Tone::Plain, delta.percent.map_or_else(String::new, |percent| format!("{percent:+.1} %"))),
        (Tone::Quiet, delta.interval.map_or_else(String::new, |it| format!("{:+.1} … {:+.1} %", it.low, it.high))),
        (tone, [vec![word.to_owned()], marks].concat().join(" ")),
    ]
}

fn number(value: Option<f64>) -> String {
    match value {
        None => "n/a".to_owned(),
        Some(value) if value.abs() >= 1000.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 1.0 => format!("{value:.2}"),
        Some(value) => format!("{value:.4}"),
    }
}

pub fn json(sheets: &[Sheet], comparisons: &[Comparison]) -> Value {
    let results: Vec<Value> = sheets
        .iter()
        .map(|sheet| {
            let meanings: serde_json::Map<String, Value> = sheet
                .measures
                .iter()
                .map(|measure| (measure.key.clone(), value!({ "unit": measure.unit, "meaning": measure.meaning })))
                .collect();
            value!({ "name": sheet.name, "verdict": sheet.verdict.map_or_else(|| value!("not_judged"), |verdict| value!(verdict)), "as": sheet.tool.name(), "metrics": meanings })
        })
        .collect();
    value!({ "results": results, "comparisons": comparisons })
}
