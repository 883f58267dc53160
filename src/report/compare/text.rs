//! How a comparison looks.

use std::fmt::Write as _;

use serde_json::{Value, json as value};

use super::fail_condition::has_one_definition;
use super::{ComparedResult, Comparison, Delta, FOUND_RATE, Judgement, RunSet};
use crate::terminal::percent::signed_percent;
use crate::terminal::styler::{Styler, TextRole, clean, table};
use base::event::Verdict;
use base::units::counted;

/// The rows that a reader looks for; JSON has all.
const SHOWN: [&str; 4] = ["", "mean", "p50", "p99"];

pub fn text(sets: &[RunSet], comparisons: &[Comparison], paint: Styler) -> String {
    let mut out = String::new();
    let rows: Vec<_> = sets
        .iter()
        .enumerate()
        .map(|(n, set)| {
            let sheet = set.worst();
            let runs = match set.runs().len() {
                1 => String::new(),
                runs => format!(", {runs} runs"),
            };
            vec![
                (TextRole::Strong, letter(n)),
                (TextRole::Name, clean(&set.name)),
                (verdict_role(sheet.verdict), sheet.verdict_word()),
                (TextRole::Quiet, format!("as {}{runs}", sheet.tool.title())),
            ]
        })
        .collect();
    out.push_str(&table(paint, "", &rows));
    for line in identity_lines(sets) {
        let _ = writeln!(out, "{}", paint.tone(TextRole::Quiet, clean(&line)));
    }
    for doubt in doubts(sets) {
        let _ = writeln!(out, "{}", paint.tone(TextRole::Warning, doubt));
    }
    for (n, comparison) in comparisons.iter().enumerate() {
        one(comparison, &letter(n + 1), paint, &mut out);
    }
    out
}

const fn verdict_role(verdict: Option<Verdict>) -> TextRole {
    match verdict {
        Some(Verdict::Valid) => TextRole::Good,
        Some(Verdict::ValidWithWarnings) => TextRole::Warning,
        Some(_) => TextRole::Bad,
        None => TextRole::Quiet,
    }
}

/// Warnings for results that are no measurements of a server.
pub(crate) fn doubts(sets: &[RunSet]) -> Vec<String> {
    let of_set = |(n, set)| invalid_runs(set).into_iter().map(move |line| format!("{} is {line}", letter(n)));
    sets.iter().enumerate().flat_map(of_set).collect()
}

/// A line for each INVALID verdict of a side: `INVALID(server) in after/1; after/3: why`.
pub fn invalid_runs(set: &RunSet) -> Vec<String> {
    let reasons = [
        (Verdict::InvalidServer, "the server gave errors, and those requests are in no latency"),
        (Verdict::InvalidClient, "its numbers are as much the client's as the server's"),
        (Verdict::InvalidLoad, "the load was not reached, or a limit missed"),
    ];
    let line = |(verdict, why): (Verdict, &str)| {
        let runs: Vec<_> = set.runs().iter().filter(|run| run.verdict == Some(verdict)).collect();
        let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
        let which = if set.runs().len() > 1 { format!(" in {}", clean(&names.join("; "))) } else { String::new() };
        Some(format!("{}{which}: {why}", runs.first()?.verdict_word()))
    };
    reasons.into_iter().filter_map(line).collect()
}

/// `A`, `B`, …: how a result is called in a table.
pub(crate) fn letter(n: usize) -> String {
    u8::try_from(n).ok().filter(|n| *n < 26).map_or_else(|| n.to_string(), |n| char::from(b'A' + n).to_string())
}

/// A line for each result that states what was measured, and one for all that do not.
pub(crate) fn identity_lines(sets: &[RunSet]) -> Vec<String> {
    let known = |(n, set): (usize, &RunSet)| Some(format!("{}: {}", letter(n), set.first().identity.as_ref()?.line()));
    let mut lines: Vec<String> = sets.iter().enumerate().filter_map(known).collect();
    let unknown: Vec<String> =
        sets.iter().enumerate().filter(|(_, set)| set.first().identity.is_none()).map(|(n, _)| letter(n)).collect();
    if !unknown.is_empty() {
        lines.push(format!("what was measured is not known of {}: no identity in the file", unknown.join(", ")));
    }
    lines
}

fn one(comparison: &Comparison, b: &str, styler: Styler, out: &mut String) {
    let heads = ["", "", "A", b, "difference", "95 % interval", ""];
    let mut rows = vec![heads.map(|head| (TextRole::Quiet, head.to_owned())).to_vec()];
    let mut reasons: Vec<String> = Vec::new();
    for delta in comparison.deltas.iter().filter(|delta| SHOWN.contains(&delta.stat)) {
        let bounds = comparison.found_rates.filter(|_| delta.metric == FOUND_RATE);
        let or_more =
            bounds.map_or([""; 2], |rates| rates.map(|rate| if rate.is_lower_bound { " or more" } else { "" }));
        rows.push(row(delta, or_more, &mut reasons));
    }
    if rows.len() == 1 {
        let _ = writeln!(out, "\nA and {b} have no number in common");
        return;
    }
    out.push('\n');
    if comparison.is_judged() && comparison.has_any() {
        let _ = writeln!(out, "A and {b}, {}", clean(&comparison.pairing.describe()));
    }
    out.push_str(&table(styler, "", &rows));
    for line in method(comparison) {
        let _ = writeln!(out, "{}", styler.tone(TextRole::Quiet, line));
    }
    for difference in &comparison.identity {
        let _ =
            writeln!(out, "{}", styler.tone(TextRole::Quiet, clean(&format!("differs: {}", difference.describe()))));
    }
    for note in &comparison.notes {
        let _ = writeln!(out, "{}", styler.tone(TextRole::Quiet, clean(note)));
    }
    for (n, reason) in reasons.iter().enumerate() {
        let _ = writeln!(out, "{} {}", styler.tone(TextRole::Warning, format!("≠{}", n + 1)), clean(reason));
    }
    let unlike: Vec<&Vec<String>> =
        comparison.deltas.iter().filter(|delta| delta.percent.is_none()).map(|delta| &delta.unlike).collect();
    if unlike.iter().any(|unlike| !unlike.is_empty()) {
        let one_definition = if unlike.iter().any(|unlike| has_one_definition(unlike)) {
            "`--as TOOL` computes both with one definition where both have records of each request, "
        } else {
            ""
        };
        let hint = format!("unlike numbers are not subtracted: {one_definition}`--force` subtracts anyway");
        let _ = writeln!(out, "{}", styler.tone(TextRole::Quiet, hint));
    }
}

/// What the judgements rest on, or what they would need.
pub(crate) fn method(comparison: &Comparison) -> Vec<String> {
    let mut lines = Vec::new();
    if comparison.has_any() {
        lines.push(if let Some(why) = &comparison.too_few_plans {
            format!("no row is judged: {why}")
        } else if comparison.is_judged() {
            let (differences, test) = if comparison.pairing.is_paired() {
                (", differences are geometric means of the pairs' ratios", "paired t test")
            } else {
                ("", "Welch")
            };
            format!(
                "means over {}{differences}; better or worse: shown at 95 % over all rows together ({test}, Holm) and at \
                 least {} %; equivalent: shown to differ by less; intervals are of one row each",
                run_counts(comparison),
                comparison.smallest_effect
            )
        } else {
            let which = match (comparison.a_runs, comparison.b_runs) {
                (1, 1) => "one run on each side",
                _ => "one run on one side",
            };
            let rows = if comparison.found_rates.is_some() { "no other row" } else { "no row" };
            let advice = if comparison.found_rates.is_some() { "" } else { "; measure each side 5 times (`--repeat 5`)" };
            format!(
                "{which}: two runs of the same server differ, too, and by how much is not known, so {rows} is judged{advice}"
            )
        });
    }
    if let Some([a, b]) = &comparison.found_rates {
        lines.push(format!(
            "{FOUND_RATE}: {} / {} requests/s, with the 95 % interval of each search; two that overlap may have found the same \
             rate. The other rows are those of a probe at the rate that each found",
            a.describe(),
            b.describe()
        ));
    }
    if comparison.same_plan && !comparison.pairing.is_paired() {
        lines.push("both sides had the same arrivals and prompts".to_owned());
    }
    lines
}

/// `5 and 5 runs`; where several runs had one plan `10 runs of 5 plans and 5 runs of 5 plans`, which count as that many.
pub fn run_counts(comparison: &Comparison) -> String {
    let sides = [(comparison.a_runs, comparison.a_plans), (comparison.b_runs, comparison.b_plans)];
    if sides.iter().all(|(runs, plans)| plans.is_none_or(|plans| plans == *runs)) {
        return format!("{} and {} runs", comparison.a_runs, comparison.b_runs);
    }
    let side = |(runs, plans): (usize, Option<usize>)| {
        plans.map_or_else(
            || counted(runs, "run"),
            |plans| format!("{} of {}", counted(runs, "run"), counted(plans, "plan")),
        )
    };
    let [a, b] = sides.map(side);
    let count = if comparison.pairing.has_means() {
        ", where runs with the same arrivals and prompts count as one"
    } else {
        ""
    };
    format!("{a} and {b}{count}")
}

/// `better`, `cannot tell, 9 runs could`; nothing where one run shows nothing.
pub(crate) fn judgement_text(delta: &Delta) -> String {
    match (delta.judgement, delta.runs_needed) {
        (None | Some(Judgement::NotJudged), _) => String::new(),
        (Some(Judgement::CannotTell), Some(runs)) => {
            format!("{}, {runs} runs each could", Judgement::CannotTell.as_text())
        }
        (Some(judged), _) => judged.as_text().to_owned(),
    }
}

/// `or_more`: behind the number of each side.
fn row(delta: &Delta, or_more: [&str; 2], reasons: &mut Vec<String>) -> Vec<(TextRole, String)> {
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
        Some(Judgement::Better) => (TextRole::Good, judgement_text(delta)),
        Some(Judgement::Worse) => (TextRole::Bad, judgement_text(delta)),
        Some(_) => (TextRole::Quiet, judgement_text(delta)),
        None if delta.unlike.is_empty() => (TextRole::Quiet, "no percentage of 0".to_owned()),
        None => (TextRole::Warning, "unlike".to_owned()),
    };
    vec![
        (TextRole::Name, delta.metric.clone()),
        (TextRole::Plain, format!("{} {}", delta.stat, delta.unit).trim().to_owned()),
        (TextRole::Plain, format!("{}{}", number(delta.a), or_more[0])),
        (TextRole::Plain, format!("{}{}", number(delta.b), or_more[1])),
        (TextRole::Plain, delta.percent.map_or_else(String::new, |percent| format!("{} %", signed_percent(percent)))),
        (
            TextRole::Quiet,
            delta
                .interval
                .map_or_else(String::new, |it| format!("{} … {} %", signed_percent(it.low), signed_percent(it.high))),
        ),
        (tone, [vec![word], marks].concat().join(" ").trim().to_owned()),
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

pub fn json(sets: &[RunSet], comparisons: &[Comparison]) -> Value {
    let verdict =
        |sheet: &ComparedResult| sheet.verdict.map_or_else(|| value!("not_judged"), |verdict| value!(verdict));
    let results: Vec<Value> = sets
        .iter()
        .map(|set| {
            let meanings: serde_json::Map<String, Value> = set
                .first()
                .measures
                .iter()
                .map(|measure| (measure.key.clone(), value!({ "unit": measure.unit, "meaning": measure.meaning })))
                .collect();
            let runs: Vec<Value> = set
                .runs()
                .iter()
                .map(|run| value!({ "name": run.name, "verdict": verdict(run), "identity": run.identity }))
                .collect();
            value!({
                "name": set.name, "verdict": verdict(set.worst()), "as": set.first().tool.name(),
                "simulated": set.first().identity.as_ref().map(|identity| identity.simulated), "runs": runs,
                "metrics": meanings,
            })
        })
        .collect();
    value!({ "results": results, "comparisons": comparisons })
}
