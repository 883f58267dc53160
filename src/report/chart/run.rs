//! Pictures of a run: when each task ran, a bar for each; what became of the first requests of a benchmark; and the
//! plan, a column for each depth and an arrow for each need.

use super::frame::{Anchor, AxisScale, Frame, Room, SMALL, SvgCanvas, number, steps};
use crate::run_state::{RunState, TaskPhase, TaskState};
use crate::styler::duration_text;
use harness::RequestRecord;
use plan::{Lifetime, Plan};
use std::fmt::Write as _;

/// The name of a task, and its bar below.
const ROW: f64 = 34.0;
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
    // In percent of the width; the last tick keeps room for its text.
    let x = |seconds: f64| seconds / most * 97.0;
    let height = TOP + rows.len() as f64 * ROW + 6.0;

    let mut picture = SvgCanvas::fluid(height, "timeline of the tasks");
    for tick in ticks.iter().filter(|tick| **tick * scale <= most) {
        let (at, anchor) = (x(tick * scale), if *tick > 0.0 { Anchor::Middle } else { Anchor::Start });
        picture.line((at, TOP - 4.0), (at, height - 4.0), "grid");
        picture.text(at, TOP - 10.0, "tick", anchor, &format!("{} {unit}", number(*tick)));
    }
    for (row, (name, entry, from, to)) in rows.iter().enumerate() {
        let y = TOP + row as f64 * ROW;
        let took = duration_text(entry.seconds.unwrap_or(to - from));
        let hint = format!("{name}: {} for {took}, from {}", entry.state.as_str(), duration_text(*from));
        picture.text(0.0, y + 14.0, "name halo", Anchor::Start, &format!("{} · {took}", shortened(name, 36)));
        let bar = (y + 20.0, 10.0);
        let wide = (x(*to) - x(*from)).max(0.4);
        picture.rect((x(*from), bar.0), (wide, bar.1), class(entry), &hint);
        if let Some(ready) = entry.ready.filter(|ready| *ready < to - from) {
            // Until it was ready, a service was only starting.
            picture.rect((x(*from), bar.0), ((x(from + ready) - x(*from)).max(0.2), bar.1), "starting", &hint);
        }
    }
    Some((picture.finish(), count - rows.len()))
}

/// When a part of a request began and ended, ns; none where it has no such part.
type PartOfRequest = fn(&RequestRecord) -> Option<(u64, u64)>;

/// The parts with their classes and names.
const REQUEST_PARTS: [(&str, &str, PartOfRequest); 4] = [
    ("waiting", "due, not sent yet", |request| Some((request.t_sched, request.t_issue))),
    ("prefill", "sent, no token yet: queue and prefill", |request| {
        request.is_ok().then(|| (request.t_issue, request.t_first.unwrap_or(request.t_end)))
    }),
    ("decode", "first to last token: decode", |request| {
        request.t_first.filter(|_| request.is_ok()).map(|first| (first, request.t_last.unwrap_or(request.t_end)))
    }),
    ("failed", "failed", |request| (!request.is_ok()).then_some((request.t_issue, request.t_end))),
];

/// A part of each request that is wide enough to be seen, as a path; `pitch`: from one request to the next.
fn bars(frame: &Frame, records: &[RequestRecord], pitch: f64, part: PartOfRequest) -> String {
    let bar = |(row, request): (usize, &RequestRecord)| {
        let [from, to] = part(request).map(|(from, to)| [from, to].map(|ns| frame.x(seconds(ns))))?;
        let (top, wide, high) = (SMALL.top + row as f64 * pitch, to - from, pitch * 0.8);
        (wide >= 0.1).then(|| format!("M{from:.1} {top:.1}h{wide:.1}v{high:.1}h-{wide:.1}z"))
    };
    records.iter().enumerate().filter_map(bar).collect()
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// A line for each of the first requests, in the order of their schedule; `total`: how many the benchmark has.
/// `None` below two.
pub(crate) fn requests(records: &[RequestRecord], total: u64) -> Option<String> {
    if records.len() < 2 {
        return None;
    }
    let pitch = (320.0 / records.len() as f64).clamp(1.6, 9.0);
    let size = (SMALL.size.0, SMALL.top + pitch * records.len() as f64 + SMALL.bottom);
    let across = AxisScale::filled(records.iter().map(|request| seconds(request.t_end)).fold(0.0, f64::max));
    let rows = AxisScale::Linear { least: 0.0, most: 1.0, ticks: Vec::new() };
    let frame = Frame { room: Room { size, left: 12.0, ..SMALL }, across, upright: rows };
    let which = if records.len() as u64 == total { "all" } else { "the first" };
    let title = format!("Requests by schedule, a line for each: {which} {} of {}", records.len(), number(total as f64));
    let mut picture = frame.draw(&title, "seconds from the start", "");
    let parts = REQUEST_PARTS.map(|(class, name, part)| (class, name, bars(&frame, records, pitch, part)));
    let drawn = || parts.iter().filter(|(.., bars)| !bars.is_empty());
    drawn().for_each(|(class, _, bars)| picture.path(bars, class));
    picture.legend(drawn().map(|(class, name, _)| (format!("curve {class}"), (*name).to_owned())));
    Some(picture.finish())
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
    let mut picture = SvgCanvas::new(width, height, "graph of the tasks");
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
