//! Curves over numbers: distributions, and what happened over time.

use super::svg::{Anchor, Picture, number, steps};
use crate::report::paint::cut;

const SIZE: (f64, f64) = (470.0, 240.0);
const LEFT: f64 = 52.0;
const RIGHT: f64 = 22.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 40.0;

/// As many characters as stand beside each other.
const TITLE: usize = 66;

/// What is drawn, in the units it is shown in.
pub(super) struct Plot<'a> {
    pub title: &'a str,
    /// Below the axis, with its unit.
    pub across: &'a str,
    pub points: &'a [(f64, f64)],
    /// Where the upright axis ends; `None` takes the largest value.
    pub top: Option<f64>,
    /// Upright marks across the picture: where, and what to write there.
    pub marks: &'a [(f64, String)],
    /// Fill below the curve.
    pub filled: bool,
}

impl Plot<'_> {
    /// `None` where there are fewer than two points.
    pub fn draw(&self) -> Option<String> {
        let points: Vec<(f64, f64)> =
            self.points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
        if points.len() < 2 {
            return None;
        }
        let most = |pick: fn(&(f64, f64)) -> f64| points.iter().map(pick).fold(0.0, f64::max);
        let across = steps(most(|point| point.0), 6);
        let upright = steps(self.top.unwrap_or_else(|| most(|point| point.1)), 4);
        // The curve fills the picture; only the upright axis ends on a round number.
        let widest = most(|point| point.0);
        let ends = (if widest > 0.0 { widest } else { 1.0 }, upright.last().copied().unwrap_or(1.0));
        let x = |value: f64| LEFT + value / ends.0 * (SIZE.0 - LEFT - RIGHT);
        let y = |value: f64| SIZE.1 - BOTTOM - value / ends.1 * (SIZE.1 - TOP - BOTTOM);

        let mut picture = Picture::new(SIZE.0, SIZE.1, self.title);
        picture.text(2.0, 14.0, "title", Anchor::Start, &cut(self.title, TITLE));
        for value in &upright {
            picture.line((LEFT, y(*value)), (SIZE.0 - RIGHT, y(*value)), "grid");
            picture.text(LEFT - 7.0, y(*value) + 4.0, "tick", Anchor::End, &number(*value));
        }
        for value in across.iter().filter(|value| **value <= ends.0) {
            picture.line((x(*value), y(0.0)), (x(*value), y(0.0) + 4.0), "axis");
            picture.text(x(*value), y(0.0) + 17.0, "tick", Anchor::Middle, &number(*value));
        }
        picture.line((LEFT, y(0.0)), (SIZE.0 - RIGHT, y(0.0)), "axis");
        picture.text(LEFT.midpoint(SIZE.0 - RIGHT), SIZE.1 - 6.0, "tick", Anchor::Middle, self.across);
        let drawn = thinned(&points);
        if self.filled {
            let first = drawn.first().map(|point| (point.0, 0.0));
            let last = drawn.last().map(|point| (point.0, 0.0));
            let outline = first.into_iter().chain(drawn.iter().copied()).chain(last);
            picture.curve(outline.map(|(a, b)| (x(a), y(b))), "area");
        }
        picture.curve(drawn.iter().map(|&(a, b)| (x(a), y(b))), "curve");
        // Labels stand above the picture, where no curve is; from right to left, so that close ones make room.
        let mut free = SIZE.0 - 2.0;
        // A mark is a rounded number, and may lie just behind the largest value.
        for (value, label) in self.marks.iter().rev().filter(|mark| mark.0 <= ends.0 * 1.01) {
            let at = x(value.min(ends.0));
            picture.line((at, y(0.0)), (at, TOP - 4.0), "mark");
            let half = label.chars().count() as f64 * 3.2;
            let middle = at.min(free - half);
            free = middle - half - 8.0;
            picture.text(middle, TOP - 8.0, "marked", Anchor::Middle, label);
        }
        Some(picture.finish())
    }
}

/// At most about a thousand points, ends included: more would only make the file bigger.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let every = points.len().div_ceil(1000).max(1);
    let mut kept: Vec<_> = points.iter().copied().step_by(every).collect();
    if let Some(last) = points.last().filter(|last| Some(*last) != kept.last()) {
        kept.push(*last);
    }
    kept
}
