//! What every picture over numbers has: a title, an upright axis with its grid, and an axis across with its unit.

use super::svg::{Anchor, SvgCanvas, number, steps};
use crate::terminal::styler::cut;

pub(super) const SIZE: (f64, f64) = (470.0, 240.0);
pub(super) const LEFT: f64 = 52.0;
pub(super) const RIGHT: f64 = 22.0;
pub(super) const TOP: f64 = 40.0;
pub(super) const BOTTOM: f64 = 40.0;

/// As many characters as fit beside each other.
const TITLE: usize = 60;

/// The position of a number in the picture. Both axes begin at 0.
pub(super) struct PlotFrame {
    widest: f64,
    y_axis_ticks: Vec<f64>,
}

impl PlotFrame {
    /// The curves fill the picture across; only the upright axis ends on a round number.
    pub fn new(widest: f64, highest: f64) -> Self {
        Self { widest: if widest > 0.0 { widest } else { 1.0 }, y_axis_ticks: steps(highest, 4) }
    }

    pub const fn widest(&self) -> f64 {
        self.widest
    }

    pub fn x(&self, value: f64) -> f64 {
        LEFT + value / self.widest * (SIZE.0 - LEFT - RIGHT)
    }

    pub fn y(&self, value: f64) -> f64 {
        let highest = self.y_axis_ticks.last().copied().unwrap_or(1.0);
        SIZE.1 - BOTTOM - value / highest * (SIZE.1 - TOP - BOTTOM)
    }

    /// The picture with its axes; `across` is the label below, with its unit.
    pub fn draw(&self, title: &str, across: &str) -> SvgCanvas {
        let mut picture = SvgCanvas::new(SIZE.0, SIZE.1, title);
        picture.text(2.0, 14.0, "title", Anchor::Start, &cut(title, TITLE));
        for value in &self.y_axis_ticks {
            picture.line((LEFT, self.y(*value)), (SIZE.0 - RIGHT, self.y(*value)), "grid");
            picture.text(LEFT - 7.0, self.y(*value) + 4.0, "tick", Anchor::End, &number(*value));
        }
        let floor = self.y(0.0);
        for value in steps(self.widest, 6).into_iter().filter(|value| *value <= self.widest) {
            picture.line((self.x(value), floor), (self.x(value), floor + 4.0), "axis");
            picture.text(self.x(value), floor + 17.0, "tick", Anchor::Middle, &number(value));
        }
        picture.line((LEFT, floor), (SIZE.0 - RIGHT, floor), "axis");
        picture.text(LEFT.midpoint(SIZE.0 - RIGHT), SIZE.1 - 6.0, "tick", Anchor::Middle, across);
        picture
    }
}

/// At most about a thousand points, ends included: more would only make the file bigger.
pub(super) fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let every = points.len().div_ceil(1000).max(1);
    let mut kept: Vec<_> = points.iter().copied().step_by(every).collect();
    if let Some(last) = points.last().filter(|last| Some(*last) != kept.last()) {
        kept.push(*last);
    }
    kept
}
