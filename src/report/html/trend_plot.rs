//! One number over the measurements of a series: a dot for each, the mean of each level, and where the level changes.

use super::axis::AxisScale;
use super::svg::{Anchor, SvgCanvas, number};
use crate::terminal::styler::cut;

const SIZE: (f64, f64) = (560.0, 300.0);
const LEFT: f64 = 62.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 54.0;
const BOTTOM: f64 = 44.0;

/// What is drawn, in the unit that it is shown in.
pub(super) struct TrendPlot<'a> {
    pub title: &'a str,
    pub points: Vec<TrendPoint>,
    /// The first and the last point of each level, and its mean.
    pub levels: Vec<(usize, usize, f64)>,
    /// The first point of a new level, what to write there, and whether it is better, if that is judged.
    pub changes: Vec<(usize, String, Option<bool>)>,
}

/// One measurement.
pub(super) struct TrendPoint {
    /// In the order of the measurements, from 0.
    pub place: usize,
    pub value: f64,
    /// Not a measurement of the server: shown, and in no level.
    pub is_invalid: bool,
    /// Its tags, written above it.
    pub label: String,
    /// The text that shows when the pointer rests on it.
    pub hint: String,
}

impl TrendPlot<'_> {
    /// `None` where there is no point.
    pub fn draw(&self) -> Option<String> {
        let points = || self.points.iter().filter(|point| point.value.is_finite());
        let most = points().map(|point| point.place).max()?;
        let values: Vec<f64> = points().map(|point| point.value).collect();
        let upright = AxisScale::close(&values, 4);
        let x = |place: f64| LEFT + (place + 0.5) / (most as f64 + 1.0) * (SIZE.0 - LEFT - RIGHT);
        let floor = SIZE.1 - BOTTOM;
        let y = |value: f64| floor - upright.share(value) * (floor - TOP);
        let mut picture = SvgCanvas::new(SIZE.0, SIZE.1, self.title);
        picture.text(2.0, 14.0, "title", Anchor::Start, &cut(self.title, 80));
        for value in upright.ticks() {
            picture.line((LEFT, y(*value)), (SIZE.0 - RIGHT, y(*value)), "grid");
            picture.text(LEFT - 7.0, y(*value) + 4.0, "tick", Anchor::End, &number(*value));
        }
        picture.line((LEFT, floor), (SIZE.0 - RIGHT, floor), "axis");
        let step = (most / 10).max(1);
        for place in (0..=most).step_by(step) {
            picture.text(x(place as f64), floor + 17.0, "tick", Anchor::Middle, &(place + 1).to_string());
        }
        let middle = LEFT.midpoint(SIZE.0 - RIGHT);
        picture.text(middle, SIZE.1 - 7.0, "tick", Anchor::Middle, "measurement, by its start");
        for (place, text, is_better) in &self.changes {
            let at = x(*place as f64 - 0.5);
            picture.line((at, TOP - 6.0), (at, floor), "mark");
            let class = match is_better {
                Some(true) => "held",
                Some(false) => "missed",
                None => "tick",
            };
            picture.text(at, TOP - 12.0, class, Anchor::Middle, text);
        }
        for (from, to, mean) in &self.levels {
            picture.line((x(*from as f64 - 0.4), y(*mean)), (x(*to as f64 + 0.4), y(*mean)), "curve c0");
        }
        for point in points() {
            let at = (x(point.place as f64), y(point.value));
            if point.is_invalid {
                picture.cross(at, 4.5, "invalid", &point.hint);
            } else {
                picture.circle(at, 3.5, "dot c0", &point.hint);
            }
            if !point.label.is_empty() {
                // At the foot, where no dot is.
                picture.line((at.0, floor - 14.0), (at.0, floor), "mark");
                picture.text(at.0 - 4.0, floor - 4.0, "tick", Anchor::End, &cut(&point.label, 24));
            }
        }
        Some(picture.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_changes_and_invalid_points_are_drawn() {
        let point = |place: usize| TrendPoint {
            place,
            value: if place < 10 { 100.0 } else { 108.0 },
            is_invalid: place == 3,
            label: if place == 5 { "v1.2".to_owned() } else { String::new() },
            hint: format!("run {place} <b>"),
        };
        let plot = TrendPlot {
            title: "ttft_p99, ms",
            points: (0..20).map(point).collect(),
            levels: vec![(0, 9, 100.0), (10, 19, 108.0)],
            changes: vec![(10, "+8.0 %".to_owned(), Some(false))],
        };
        let picture = plot.draw().expect("points");
        assert_eq!((picture.matches("curve c0").count(), picture.matches("invalid").count()), (2, 1), "{picture}");
        assert!(
            picture.contains(">v1.2<") && picture.contains(">+8.0 %<") && picture.contains("&lt;b&gt;"),
            "{picture}"
        );
        assert_eq!(TrendPlot { points: Vec::new(), ..plot }.draw(), None);
    }
}
