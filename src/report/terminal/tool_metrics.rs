//! Regatta's metrics beside those of other tools, from the same requests.

use super::styler::{Styler, TextRole, clean, table};
use interop::{CompatRow, MetricStats, Tool};

/// The rows of several tools as a table for a terminal.
pub fn tool_metrics(rows: &[CompatRow], paint: Styler) -> String {
    let number = |value: Option<f64>| value.map_or_else(|| "n/a".to_owned(), |value| format!("{value:.2}"));
    let cell = |stat: Option<MetricStats>, pick: fn(&MetricStats) -> Option<f64>| match stat {
        Some(stat) => number(pick(&stat)),
        None => "–".to_owned(),
    };
    let imported_from = rows.iter().map(|row| row.measured_by.as_str()).find(|tool| *tool != Tool::Regatta.name());
    let heads = match imported_from {
        None => ["", "", "ours mean", "p99", "theirs mean", "p99", "n", "what they mean"],
        Some(_) => {
            ["", "", "by Regatta's rule: mean", "p99", "by the tool's rule: mean", "p99", "n", "the tool's rule"]
        }
    };
    let mut lines = vec![heads.map(|head| (TextRole::Quiet, head.to_owned())).to_vec()];
    for row in rows {
        let meaning = match (&row.formula, &row.note) {
            (Some(formula), Some(note)) => format!("{formula}; {note}"),
            (Some(text), None) | (None, Some(text)) => text.clone(),
            (None, None) => String::new(),
        };
        lines.push(vec![
            (TextRole::Name, row.tool.to_owned()),
            (TextRole::Strong, format!("{} {}", row.word, if row.unit == "ms" { "ms" } else { "" }).trim().to_owned()),
            (TextRole::Plain, cell(row.ours, |stat| stat.mean)),
            (TextRole::Plain, if row.unit == "ms" { cell(row.ours, |stat| stat.p99) } else { String::new() }),
            (TextRole::Plain, cell(row.theirs, |stat| stat.mean)),
            (TextRole::Plain, if row.unit == "ms" { cell(row.theirs, |stat| stat.p99) } else { String::new() }),
            (
                TextRole::Plain,
                row.theirs.filter(|_| row.unit == "ms").map_or_else(String::new, |stat| stat.n.to_string()),
            ),
            (TextRole::Quiet, clean(&meaning)),
        ]);
    }
    let table = table(paint, "", &lines);
    match imported_from {
        None => table,
        Some(tool) => format!("measured by {}, not by Regatta\n{table}", clean(tool)),
    }
}
