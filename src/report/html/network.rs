//! The plan as a picture: a column for each depth, an arrow for each need.

use std::fmt::Write as _;

use super::svg::{Anchor, SvgCanvas};
use super::timeline::shortened;
use crate::run_state::{RunState, TaskPhase};
use plan::{Lifetime, Plan};

/// Two lines fit: the stage, and which of its tasks.
const HEIGHT: f64 = 38.0;
const GAP: (f64, f64) = (36.0, 10.0);
/// More boxes than this are no picture any more.
const MOST: usize = 80;

/// `None` for an empty plan, and for one too big to be looked at.
pub(super) fn draw(plan: &Plan, run_state: &RunState) -> Option<String> {
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
        let hint = format!("{}: {}", task.id, state.map_or("cached", TaskPhase::as_str));
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
