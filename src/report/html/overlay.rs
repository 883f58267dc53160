//! Several results in one picture: how they are spread, and what happened over time.

use super::plot_frame::{PlotFrame, RIGHT, SIZE, TOP, thinned};
use super::svg::{Anchor, number};

/// As many have a color of their own; more begin again.
const COLORS: usize = 8;
/// A tail beyond the p99 of all that is longer than this, against it, would press the rest flat.
const TAIL: f64 = 1.6;

/// One result's curve.
pub(super) struct OverlayCurve {
    /// Which result: its place among all.
    pub place: usize,
    pub points: Vec<(f64, f64)>,
}

/// The class that gives the curve of a result, and its sample in a legend, their color.
pub(super) fn color(place: usize) -> String {
    format!("c{}", place % COLORS)
}

/// The share of values at most as large, in percent; `title` names the metric, `unit` what is below the axis.
/// `None` where no result has two values.
pub(super) fn spread(title: &str, unit: &str, all: &[(usize, Vec<f64>)]) -> Option<String> {
    let mut curves: Vec<OverlayCurve> = Vec::new();
    let (mut widest, mut p99) = (0.0_f64, 0.0_f64);
    for (place, values) in all {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let (Some(last), true) = (sorted.last().copied(), n > 1) else { continue };
        widest = widest.max(last);
        p99 = p99.max(sorted[n * 99 / 100]);
        let points = sorted.iter().enumerate().map(|(at, value)| (*value, (at + 1) as f64 / n as f64 * 100.0));
        curves.push(OverlayCurve { place: *place, points: points.collect() });
    }
    if curves.is_empty() {
        return None;
    }
    let end = if widest > p99 * TAIL && p99 > 0.0 { p99 * 1.2 } else { widest };
    let frame = PlotFrame::new(end, 100.0);
    let mut picture = frame.draw(title, unit);
    for curve in &curves {
        let drawn = thinned(&curve.points);
        // It begins on the floor, and ends at the edge where its tail is longer than the picture.
        let first = drawn.first().map(|point| (point.0, 0.0));
        let inside: Vec<(f64, f64)> =
            first.into_iter().chain(drawn.iter().copied()).take_while(|point| point.0 <= end).collect();
        let beyond = drawn.len() + 1 > inside.len();
        let edge = inside.last().filter(|_| beyond).map(|last| (end, last.1));
        let line = inside.iter().copied().chain(edge).map(|(a, b)| (frame.x(a), frame.y(b)));
        picture.curve(line, &format!("curve {}", color(curve.place)));
    }
    if end < widest {
        let text = format!("the tail continues to {}", number(widest));
        picture.text(SIZE.0 - RIGHT, TOP - 8.0, "tick", Anchor::End, &text);
    }
    Some(picture.finish())
}

/// What happened over time. `None` where no result has two points.
pub(super) fn course(title: &str, across: &str, all: &[OverlayCurve]) -> Option<String> {
    let drawn: Vec<&OverlayCurve> = all.iter().filter(|series| series.points.len() > 1).collect();
    if drawn.is_empty() {
        return None;
    }
    let most = |pick: fn(&(f64, f64)) -> f64| drawn.iter().flat_map(|s| s.points.iter().map(pick)).fold(0.0, f64::max);
    let frame = PlotFrame::new(most(|point| point.0), most(|point| point.1));
    let mut picture = frame.draw(title, across);
    for series in drawn {
        let line = thinned(&series.points).into_iter().map(|(a, b)| (frame.x(a), frame.y(b)));
        picture.curve(line, &format!("curve {}", color(series.place)));
    }
    Some(picture.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_tail_is_cut_and_said() {
        let mut values: Vec<f64> = (0..1000).map(f64::from).collect();
        let whole = spread("TTFT", "ms", &[(0, values.clone())]).expect("a picture");
        assert!(!whole.contains("the tail continues"));
        values.push(90_000.0);
        let cut = spread("TTFT", "ms", &[(0, values)]).expect("a picture");
        assert!(cut.contains("the tail continues to 90,000"), "{cut}");
    }

    #[test]
    fn each_result_has_its_color_and_one_value_is_no_curve() {
        let picture = spread("TTFT", "ms", &[(0, vec![1.0, 2.0]), (1, vec![5.0]), (9, vec![1.0, 3.0])]).expect("two");
        assert!(picture.contains(r#"class="curve c0""#) && picture.contains(r#"class="curve c1""#));
        assert_eq!(picture.matches("<path").count(), 2);
        assert_eq!(spread("TTFT", "ms", &[(0, vec![1.0])]), None);
        assert_eq!(course("x", "s", &[OverlayCurve { place: 0, points: vec![(0.0, 1.0)] }]), None);
    }
}
