//! When each task ran: a bar per task, from the start of the run to its end.

use super::svg::{Anchor, SvgCanvas, number, steps};
use crate::run_state::{RunState, TaskPhase, TaskState};
use crate::terminal::styler::duration_text;

const WIDTH: f64 = 960.0;
const ROW: f64 = 24.0;
const TOP: f64 = 26.0;
/// A picture with more rows than this is not readable; the longest tasks are kept.
const ROWS: usize = 60;

/// The picture, and how many shorter tasks it leaves out. `None` where no task has a time.
pub(super) fn draw(run_state: &RunState) -> Option<(String, usize)> {
    let mut rows: Vec<(String, &TaskState, f64, f64)> = run_state
        .tasks
        .iter()
        .filter_map(|(task, entry)| {
            let from = entry.started?;
            let to = entry.ended.or_else(|| Some(from + entry.seconds?)).unwrap_or(from);
            Some((task.to_string(), entry, from, to.max(from)))
        })
        .collect();
    let all = rows.len();
    if all == 0 {
        return None;
    }
    if all > ROWS {
        rows.sort_by(|a, b| (b.3 - b.2).total_cmp(&(a.3 - a.2)));
        rows.truncate(ROWS);
    }
    rows.sort_by(|a, b| a.2.total_cmp(&b.2).then(a.0.cmp(&b.0)));

    let most = rows.iter().map(|row| row.3).fold(1e-3, f64::max);
    let (unit, scale) = if most >= 7200.0 {
        ("h", 3600.0)
    } else if most >= 180.0 {
        ("min", 60.0)
    } else {
        ("s", 1.0)
    };
    let ticks = steps(most / scale, 8);
    let longest = rows.iter().map(|row| row.0.chars().count()).max().unwrap_or(0);
    let left = (longest as f64 * 7.0 + 16.0).clamp(80.0, 320.0);
    let right = 78.0;
    let end = ticks.last().copied().unwrap_or(1.0).min(most / scale * 1.02).max(most / scale) * scale;
    let x = |seconds: f64| left + seconds / end * (WIDTH - left - right);
    let height = TOP + rows.len() as f64 * ROW + 6.0;

    let mut picture = SvgCanvas::new(WIDTH, height, "timeline of the tasks");
    for tick in ticks.iter().filter(|tick| **tick * scale <= end) {
        let at = x(tick * scale);
        picture.line((at, TOP - 4.0), (at, height - 4.0), "grid");
        picture.text(at, TOP - 10.0, "tick", Anchor::Middle, &format!("{} {unit}", number(*tick)));
    }
    for (row, (name, entry, from, to)) in rows.iter().enumerate() {
        let y = TOP + row as f64 * ROW;
        picture.text(left - 10.0, y + 15.5, "name", Anchor::End, &shortened(name, 44));
        let took = duration_text(entry.seconds.unwrap_or(to - from));
        let hint = format!("{name}: {} for {took}, from {}", entry.state.as_str(), duration_text(*from));
        let wide = (x(*to) - x(*from)).max(2.0);
        picture.rect((x(*from), y + 4.0), (wide, ROW - 8.0), class(entry), &hint);
        if let Some(ready) = entry.ready.filter(|ready| *ready < to - from) {
            // Until it was ready, a service was only starting.
            picture.rect((x(*from), y + 4.0), ((x(from + ready) - x(*from)).max(1.0), ROW - 8.0), "starting", &hint);
        }
        picture.text(x(*from) + wide + 6.0, y + 15.5, "took", Anchor::Start, &took);
    }
    Some((picture.finish(), all - rows.len()))
}

const fn class(entry: &TaskState) -> &'static str {
    match entry.state {
        TaskPhase::Failed => "failed",
        _ if entry.service => "service",
        _ => "ran",
    }
}

/// Keeps both ends of a long name: they distinguish it from its neighbors.
pub(super) fn shortened(name: &str, most: usize) -> String {
    let chars: Vec<char> = name.chars().collect();
    if chars.len() <= most {
        return name.to_owned();
    }
    let half = (most - 1) / 2;
    chars[..half].iter().chain(['…'].iter()).chain(&chars[chars.len() - half..]).collect()
}
