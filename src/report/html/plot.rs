//! Curves over numbers: distributions, and samples over time.

use super::plot_frame::{PlotFrame, SIZE, TOP, thinned};
use super::svg::Anchor;

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
    /// The points are samples over time: each value holds until the next, and the area below is filled.
    pub is_sampled: bool,
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
        let frame = PlotFrame::new(most(|point| point.0), self.top.unwrap_or_else(|| most(|point| point.1)));
        let mut picture = frame.draw(self.title, self.across);
        let mut drawn = thinned(&points);
        if self.is_sampled {
            drawn = held(&drawn);
            let first = drawn.first().map(|point| (point.0, 0.0));
            let last = drawn.last().map(|point| (point.0, 0.0));
            let outline = first.into_iter().chain(drawn.iter().copied()).chain(last);
            picture.curve(outline.map(|(a, b)| (frame.x(a), frame.y(b))), "area");
        }
        picture.curve(drawn.iter().map(|&(a, b)| (frame.x(a), frame.y(b))), "curve");
        // Labels stand above the picture, where no curve is; from right to left, so that close ones do not overlap.
        let mut free = SIZE.0 - 2.0;
        // A mark is a rounded number, and may lie just behind the largest value.
        for (value, label) in self.marks.iter().rev().filter(|mark| mark.0 <= frame.widest() * 1.01) {
            let at = frame.x(value.min(frame.widest()));
            picture.line((at, frame.y(0.0)), (at, TOP - 4.0), "mark");
            let half = label.chars().count() as f64 * 3.2;
            let middle = at.min(free - half);
            free = middle - half - 8.0;
            picture.text(middle, TOP - 8.0, "marked", Anchor::Middle, label);
        }
        Some(picture.finish())
    }
}

/// Each sample until the time of the next one.
fn held(samples: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let steps = samples.windows(2).flat_map(|pair| [pair[0], (pair[1].0, pair[0].1)]);
    steps.chain(samples.last().copied()).collect()
}
