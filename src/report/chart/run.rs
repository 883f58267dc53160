//! Pictures of a run: when each task ran, a bar for each; and the plan, a column for each depth and an arrow for each
//! need.

use super::frame::{Anchor, SvgCanvas, number, steps};
use crate::run_state::{RunState, TaskPhase, TaskState};
use crate::styler::duration_text;
use plan::{Lifetime, Plan};
use std::fmt::Write as _;

const WIDTH: f64 = 960.0;
const ROW: f64 = 24.0;
const TOP: f64 = 26.0;
/// A picture with more rows than this is not readable; the longest tasks are kept.
const ROWS: usize = 60;

/// The picture, and how many shorter tasks it leaves out. `None` where no task has a time.
pub(crate) fn timeline(run_state: &RunState) -> Option<(String, usize)> {
    let mut rows: Vec<(String, &TaskState, f64, f64)> = run_state
        .tasks
        .iter()
        .filter_map(|(task, entry)| {
            let from = entry.started?;
            let to = entry.ended.or_else(|| Some(from + entry.seconds?)).unwrap_or(from);
            Some((task.to_string(), entry, from, to.max(from)))
        })
        .collect();
    let count = rows.len();
    if count == 0 {
        return None;
    }
    if count > ROWS {
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
    Some((picture.finish(), count - rows.len()))
}

const fn class(entry: &TaskState) -> &'static str {
    match entry.state {
        TaskPhase::Failed => "failed",
        _ if entry.service => "service",
        _ => "ran",
    }
}

/// Keeps both ends of a long name: they distinguish it from its neighbors.
fn shortened(name: &str, most: usize) -> String {
    let chars: Vec<char> = name.chars().collect();
    if chars.len() <= most {
        return name.to_owned();
    }
    let half = (most - 1) / 2;
    chars[..half].iter().chain(['…'].iter()).chain(&chars[chars.len() - half..]).collect()
}

/// Two lines fit: the stage, and which of its tasks.
const HEIGHT: f64 = 38.0;
const GAP: (f64, f64) = (36.0, 10.0);
/// More boxes than this are no picture any more.
const MOST: usize = 80;

/// `None` for an empty plan, and for one too big to be looked at.
pub(crate) fn network(plan: &Plan, run_state: &RunState) -> Option<String> {
    if plan.tasks.is_empty() || plan.tasks.len() > MOST {
        return None;
    }
    let mut depths: Vec<usize> = Vec::with_capacity(plan.tasks.len());
    let mut heights: Vec<usize> = Vec::new();
    let mut places = Vec::with_capacity(plan.tasks.len());
    for task in &plan.tasks {
        // `needs` point to earlier tasks only, so their depths are known.
        let depth =
            task.needs.iter().filter_map(|need| depths.get(need.task as usize)).map(|d| d + 1).max().unwrap_or(0);
        depths.push(depth);
        heights.resize(heights.len().max(depth + 1), 0);
        places.push((depth, heights[depth]));
        heights[depth] += 1;
    }
    let tallest = heights.iter().copied().max().unwrap_or(1);
    // A column is as wide as its longest line, so that a long chain can still be read.
    let mut widths = vec![70.0; heights.len()];
    for (task, depth) in plan.tasks.iter().zip(&depths) {
        let (stage, which) = lines(task.id.as_str());
        let longest = stage.chars().count().max(which.chars().count());
        widths[*depth] = f64::max(widths[*depth], longest as f64 * 6.7 + 18.0);
    }
    let left = |column: usize| 4.0 + widths[..column].iter().map(|wide| wide + GAP.0).sum::<f64>();
    let corner = |(column, row): (usize, usize)| {
        // Short columns are in the middle, so that arrows stay short.
        let offset = (tallest - heights[column]) as f64 / 2.0;
        (left(column), 4.0 + (row as f64 + offset) * (HEIGHT + GAP.1))
    };
    let width = 4.0 + left(heights.len()) - GAP.0;
    let height = 8.0 + tallest as f64 * (HEIGHT + GAP.1) - GAP.1;
    let mut picture = SvgCanvas::new(width.max(960.0), height, "graph of the tasks");
    for (at, task) in plan.tasks.iter().enumerate() {
        let (x, y) = corner(places[at]);
        for need in &task.needs {
            let Some(place) = places.get(need.task as usize) else { continue };
            let (from_x, from_y) = corner(*place);
            let (x1, y1, x2, y2) = (from_x + widths[place.0], from_y + HEIGHT / 2.0, x, y + HEIGHT / 2.0);
            let bend = (x2 - x1) / 2.0;
            let mut d = String::new();
            let _ = write!(d, "M{x1:.1} {y1:.1}C{:.1} {y1:.1} {:.1} {y2:.1} {x2:.1} {y2:.1}", x1 + bend, x2 - bend);
            picture.path(&d, if need.data { "edge" } else { "edge order" });
        }
    }
    for (at, task) in plan.tasks.iter().enumerate() {
        let (x, y) = corner(places[at]);
        let state = run_state.tasks.get(&task.id).map(|entry| entry.state);
        let mut class = match state {
            Some(TaskPhase::Ran | TaskPhase::Running | TaskPhase::Serving | TaskPhase::Retrying) => {
                "node ran".to_owned()
            }
            Some(TaskPhase::Failed) => "node failed".to_owned(),
            Some(TaskPhase::Skipped | TaskPhase::Cancelled) => "node idle".to_owned(),
            Some(TaskPhase::Cached) | None => "node cached".to_owned(),
        };
        if task.lifetime == Lifetime::Service {
            class.push_str(" service");
        }
        let hint = format!("{}: {}", task.id, state.map_or("cached", |state| state.as_str()));
        let wide = widths[places[at].0];
        picture.rect((x, y), (wide, HEIGHT), &class, &hint);
        let (stage, which) = lines(task.id.as_str());
        let first = if which.is_empty() { y + 23.0 } else { y + 16.0 };
        picture.text(x + wide / 2.0, first, "label", Anchor::Middle, &stage);
        if !which.is_empty() {
            picture.text(x + wide / 2.0, y + 30.0, "tick", Anchor::Middle, &which);
        }
    }
    Some(picture.finish())
}

/// The stage, and which of its tasks; the second is empty for a stage with one.
fn lines(task: &str) -> (String, String) {
    let (stage, which) = task.split_once('/').unwrap_or((task, ""));
    (shortened(stage, 26), shortened(which, 26))
}
