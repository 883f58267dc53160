//! 95 % intervals of a result's latencies, from its one run; and for those without, the reason.

use std::fmt::Write as _;

use harness::{ConfidenceInterval, Metric};

pub fn text(rows: &[(&str, &Metric)]) -> String {
    let intervals = |metric: &Metric| {
        [metric.mean_interval, metric.p50_interval, metric.p90_interval, metric.p99_interval]
            .map(|it| it.and_then(shown))
    };
    let with: Vec<_> = rows
        .iter()
        .map(|(name, metric)| (*name, intervals(metric)))
        .filter(|(_, intervals)| intervals.iter().any(Option::is_some))
        .collect();
    let mut text = String::new();
    if !with.is_empty() {
        let title = "95 % intervals";
        let width = with.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).max(title.len());
        let _ = write!(text, "{title:<width$}");
        for column in ["avg", "p50", "p90", "p99"] {
            let _ = write!(text, " {column:>19}");
        }
        text.push('\n');
        for (name, intervals) in with {
            let _ = write!(text, "{name:<width$}");
            for interval in intervals {
                let _ = write!(text, " {:>19}", interval.unwrap_or_else(|| "–".to_owned()));
            }
            text.push('\n');
        }
        text.push_str("of this run alone: where each number would be if the run had continued for ever; `--repeat 5` shows how much runs differ\n");
    }
    text + &reasons(rows)
}

fn shown(ConfidenceInterval { low, high }: ConfidenceInterval) -> Option<String> {
    Some(format!("{:.2} … {:.2}", low?, high?))
}

/// Each distinct reason once, with the rows that have it.
fn reasons(rows: &[(&str, &Metric)]) -> String {
    let mut known: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, metric) in rows {
        let Some(why) = metric.no_interval.as_deref() else { continue };
        let name = name.trim().trim_end_matches(" (ms)");
        match known.iter_mut().find(|(same, _)| *same == why) {
            Some((_, names)) => names.push(name),
            None => known.push((why, vec![name])),
        }
    }
    let all = rows.iter().filter(|(_, metric)| metric.n > 0).count();
    known.into_iter().fold(String::new(), |mut text, (why, names)| {
        let of = if names.len() == all { String::new() } else { format!(" of {}", names.join(", ")) };
        let _ = writeln!(text, "No 95 % interval{of} from this run for {why}");
        text
    })
}
