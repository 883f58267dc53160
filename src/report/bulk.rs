//! The table at the end of a list of runs, and what their repeats show together.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::terminal::styler::{Styler, TextRole, clean, cut, duration_text, table};
use base::units::counted;

/// One run of the list.
#[derive(Clone, Debug, PartialEq)]
pub struct BulkRow {
    /// The command.
    pub run: String,
    /// The command of its first repeat.
    pub first_repeat: String,
    /// `ran`, `cached`, `failed`, `interrupted`, `not run`.
    pub outcome: &'static str,
    /// Its exit code; none where it was not run.
    pub exit: Option<u8>,
    pub reason: Option<String>,
    /// Of each benchmark: task and line, and below it its warnings without the task.
    pub headlines: Vec<(String, String)>,
    /// Of each benchmark: output tokens per second, as its result has them.
    pub rates: BTreeMap<String, f64>,
    pub seconds: Option<f64>,
}

/// A cause is cut after this many characters; the output of the run itself has it in full.
const WIDEST: usize = 160;

pub fn bulk_table(ended: &[BulkRow], paint: Styler) -> String {
    let mut out = String::from("\n");
    let mut rows = Vec::new();
    for (index, one) in ended.iter().enumerate() {
        let tone = match one.outcome {
            "ran" | "cached" => TextRole::Good,
            "failed" => TextRole::Bad,
            _ => TextRole::Warning,
        };
        rows.push(vec![
            (TextRole::Quiet, (index + 1).to_string()),
            (tone, one.outcome.to_owned()),
            (TextRole::Plain, one.exit.map_or_else(|| "–".to_owned(), |exit| format!("exit {exit}"))),
            (TextRole::Quiet, one.seconds.map(duration_text).unwrap_or_default()),
            (TextRole::Name, clean(&one.run)),
        ]);
    }
    let lines = table(paint, "", &rows);
    for (line, one) in lines.lines().zip(ended) {
        let _ = writeln!(out, "{line}");
        let rows: Vec<_> = one
            .headlines
            .iter()
            .map(|(task, line)| vec![(TextRole::Quiet, clean(task)), (TextRole::Plain, clean(line))])
            .collect();
        out.push_str(&table(paint, "   ", &rows));
        if let Some(why) = &one.reason {
            let _ = writeln!(out, "   {}", paint.tone(TextRole::Bad, cut(why, WIDEST)));
        }
    }
    out.push_str(&spreads(ended, paint));
    let done = ended.iter().filter(|one| one.exit == Some(0)).count();
    let _ = writeln!(out, "{done} of {} done", counted(ended.len(), "run"));
    if done < ended.len() {
        out.push_str("the same command continues with the unfinished runs\n");
    }
    out
}

/// Mean and range of what repeats measured.
fn spreads(ended: &[BulkRow], paint: Styler) -> String {
    let mut of: Vec<(&str, Vec<&BulkRow>)> = Vec::new();
    for one in ended.iter().filter(|one| one.exit == Some(0)) {
        match of.iter_mut().find(|(run, _)| *run == one.first_repeat) {
            Some((_, all)) => all.push(one),
            None => of.push((&one.first_repeat, vec![one])),
        }
    }
    let mut out = String::new();
    for (run, all) in of.iter().filter(|(_, all)| all.len() > 1) {
        let _ = writeln!(out, "{} repeats of {}", all.len(), paint.tone(TextRole::Name, clean(run)));
        let mut rows = Vec::new();
        for task in all[0].rates.keys() {
            let rates: Vec<f64> = all.iter().filter_map(|one| one.rates.get(task).copied()).collect();
            let mean = rates.iter().sum::<f64>() / rates.len() as f64;
            let (low, high) =
                rates.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), rate| (low.min(*rate), high.max(*rate)));
            let text =
                format!("output tok/s: mean {mean:.1}, {low:.1} to {high:.1} (n={}, one of each run)", rates.len());
            rows.push(vec![(TextRole::Quiet, clean(task)), (TextRole::Plain, text)]);
        }
        out.push_str(&table(paint, "   ", &rows));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_lists_every_run_and_groups_repeats() {
        let ran = |repeat: u32, rate: f64| BulkRow {
            run: if repeat > 1 {
                format!("regatta run m --repeat-number {repeat}")
            } else {
                "regatta run m".to_owned()
            },
            first_repeat: "regatta run m".to_owned(),
            outcome: if repeat > 1 { "ran" } else { "cached" },
            exit: Some(0),
            reason: None,
            headlines: vec![("bench/a".to_owned(), "VALID  1,204 tok/s".to_owned())],
            rates: BTreeMap::from([("bench/a".to_owned(), rate)]),
            seconds: Some(f64::from(repeat)),
        };
        let failed = BulkRow {
            run: "regatta run n".to_owned(),
            first_repeat: "regatta run n".to_owned(),
            outcome: "failed",
            exit: Some(1),
            reason: Some("build: exit code 7".to_owned()),
            headlines: Vec::new(),
            rates: BTreeMap::new(),
            seconds: Some(0.5),
        };
        let not_run = BulkRow { outcome: "not run", exit: None, reason: None, seconds: None, ..failed.clone() };
        insta::assert_snapshot!(bulk_table(&[ran(1, 100.0), failed, ran(2, 104.0), not_run], Styler::OFF), @r"

        1  cached   exit 0  1.0 s   regatta run m
           bench/a  VALID  1,204 tok/s
        2  failed   exit 1  500 ms  regatta run n
           build: exit code 7
        3  ran      exit 0  2.0 s   regatta run m --repeat-number 2
           bench/a  VALID  1,204 tok/s
        4  not run  –               regatta run n
        2 repeats of regatta run m
           bench/a  output tok/s: mean 102.0, 100.0 to 104.0 (n=2, one of each run)
        2 of 4 runs done
        the same command continues with the unfinished runs
        ");
    }
}
