//! Curves: distributions, what happened in each second, and one number over the measurements of a series.

use super::color;
use super::frame::{Anchor, AxisScale, Frame, SMALL, WIDE, number};
use crate::styler::cut;

/// One curve over numbers, in the units it is shown in.
pub(crate) struct Plot<'a> {
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
        let widest = most(|point| point.0);
        let frame = Frame::of_curves(widest, self.top.unwrap_or_else(|| most(|point| point.1)));
        let mut picture = frame.draw(self.title, self.across, "");
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
        let mut free = SMALL.size.0 - 2.0;
        // A mark is a rounded number, and may lie just beyond the largest value.
        for (value, label) in self.marks.iter().rev().filter(|mark| mark.0 <= widest * 1.01) {
            let at = frame.x(*value);
            picture.line((at, frame.y(0.0)), (at, SMALL.top - 4.0), "mark");
            let half = label.chars().count() as f64 * 3.2;
            let middle = at.min(free - half);
            free = middle - half - 8.0;
            picture.text(middle, SMALL.top - 8.0, "marked", Anchor::Middle, label);
        }
        Some(picture.finish())
    }
}

/// Each sample until the time of the next one.
fn held(samples: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let steps = samples.windows(2).flat_map(|pair| [pair[0], (pair[1].0, pair[0].1)]);
    steps.chain(samples.last().copied()).collect()
}

/// At most about a thousand points, ends included: more would only make the file bigger.
pub(crate) fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let every = points.len().div_ceil(1000).max(1);
    let mut kept: Vec<_> = points.iter().copied().step_by(every).collect();
    if let Some(last) = points.last().filter(|last| Some(*last) != kept.last()) {
        kept.push(*last);
    }
    kept
}

/// A tail beyond the p99 of all that is longer than this, against it, would press the rest flat.
const TAIL: f64 = 1.6;

/// One result's curve.
pub(crate) struct OverlayCurve {
    /// Which result: its place among all.
    pub place: usize,
    pub points: Vec<(f64, f64)>,
}

/// The share of values at most as large, in percent; `title` names the metric, `unit` what is below the axis.
/// `None` where no result has two values.
pub(crate) fn spread(title: &str, unit: &str, all: &[(usize, Vec<f64>)]) -> Option<String> {
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
    let frame = Frame::of_curves(end, 100.0);
    let mut picture = frame.draw(title, unit, "");
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
        picture.text(SMALL.end(), SMALL.top - 8.0, "tick", Anchor::End, &text);
    }
    Some(picture.finish())
}

/// What happened over time. `None` where no result has two points.
pub(crate) fn course(title: &str, across: &str, all: &[OverlayCurve]) -> Option<String> {
    let drawn: Vec<&OverlayCurve> = all.iter().filter(|series| series.points.len() > 1).collect();
    if drawn.is_empty() {
        return None;
    }
    let most = |pick: fn(&(f64, f64)) -> f64| drawn.iter().flat_map(|s| s.points.iter().map(pick)).fold(0.0, f64::max);
    let frame = Frame::of_curves(most(|point| point.0), most(|point| point.1));
    let mut picture = frame.draw(title, across, "");
    for series in drawn {
        let line = thinned(&series.points).into_iter().map(|(a, b)| (frame.x(a), frame.y(b)));
        picture.curve(line, &format!("curve {}", color(series.place)));
    }
    Some(picture.finish())
}

/// More steps than this have no value to read: the file would grow, and a step would be thinner than a pixel.
const READABLE: usize = 240;
/// Times above this are in minutes.
const MINUTES: f64 = 600.0;

/// Values of seconds.
pub(crate) struct StepPlot<'a> {
    pub title: &'a str,
    /// The second and its value. Seconds that are missing have none.
    pub seconds: &'a [(f64, f64)],
    /// When the measurement ended, s.
    pub end: f64,
    pub kind: SecondValue,
}

/// What the value of a second is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SecondValue {
    /// A count of what happened in it: a second that is not whole has less.
    Sum,
    /// A mean over it.
    Mean,
    /// The most at any time in it.
    Most,
    /// As it was when the second began.
    AtStart,
}

impl StepPlot<'_> {
    /// `None` below two values.
    pub fn draw(&self) -> Option<String> {
        let points: Vec<(f64, f64)> =
            self.seconds.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
        let (last, highest) = (points.last()?.0, points.iter().map(|point| point.1).fold(0.0, f64::max));
        if points.len() < 2 {
            return None;
        }
        let end = if self.end > last && self.end < last + 1.0 { self.end } else { last + 1.0 };
        let (unit, scale) = if end > MINUTES { ("minutes", 60.0) } else { ("seconds", 1.0) };
        let frame = Frame::of_curves(end / scale, highest);
        let mut picture = frame.draw(self.title, &format!("{unit} from the start"), "");
        let steps = binned(&points, end, self.kind);
        let (x, y) = (|at: f64| frame.x(at / scale), |value: f64| frame.y(value));
        let floor = y(0.0);
        for run in steps.chunk_by(|a, b| (a.to - b.from).abs() < 1e-9) {
            let corners = |step: &Step| match self.kind {
                SecondValue::AtStart => vec![(x(step.from), y(step.value))],
                SecondValue::Sum | SecondValue::Mean | SecondValue::Most => {
                    vec![(x(step.from), y(step.value)), (x(step.to), y(step.value))]
                }
            };
            let outline: Vec<(f64, f64)> = run.iter().flat_map(corners).collect();
            let (Some(first), Some(end)) = (outline.first(), outline.last()) else { continue };
            let around = [(first.0, floor)].into_iter().chain(outline.iter().copied()).chain([(end.0, floor)]);
            picture.curve(around, "area");
            picture.curve(outline, "curve");
        }
        if let Some(step) = steps.last().filter(|step| self.kind == SecondValue::Sum && step.to - step.from < 0.999) {
            let hint = format!("the last {} s are a partial second", number(step.to - step.from));
            picture.rect(
                (x(step.from), SMALL.top),
                ((x(step.to) - x(step.from)).max(1.5), floor - SMALL.top),
                "partial",
                &hint,
            );
            picture.text(SMALL.end(), SMALL.top - 8.0, "tick", Anchor::End, "shaded: partial second");
        }
        if points.len() <= READABLE {
            for step in &steps {
                let at = if self.kind == SecondValue::AtStart { "at " } else { "" };
                let hint = format!("{at}second {}: {}", number(step.from), number(step.value));
                picture.rect(
                    (x(step.from), SMALL.top),
                    ((x(step.to) - x(step.from)).max(1.0), floor - SMALL.top),
                    "hover",
                    &hint,
                );
            }
        }
        Some(picture.finish())
    }
}

struct Step {
    from: f64,
    to: f64,
    value: f64,
}

/// At most about a thousand steps: of more seconds, the mean, or the most, of as many as one step has.
fn binned(seconds: &[(f64, f64)], end: f64, kind: SecondValue) -> Vec<Step> {
    let every = seconds.len().div_ceil(1000).max(1);
    let bins = seconds.chunks(every).filter_map(|bin| {
        let (first, last) = (bin.first()?, bin.last()?);
        let values = bin.iter().map(|second| second.1);
        let value = match kind {
            SecondValue::Most => values.fold(0.0, f64::max),
            SecondValue::Sum | SecondValue::Mean | SecondValue::AtStart => values.sum::<f64>() / bin.len() as f64,
        };
        Some(Step { from: first.0, to: (last.0 + 1.0).min(end), value })
    });
    bins.collect()
}

/// One number over the measurements of a series, in the unit that it is shown in: a dot for each, the mean of each
/// level, and where the level changes.
pub(crate) struct TrendPlot<'a> {
    pub title: &'a str,
    pub points: Vec<TrendPoint>,
    /// The first and the last point of each level, and its mean.
    pub levels: Vec<(usize, usize, f64)>,
    /// The first point of a new level, what to write there, and whether it is better, if that is judged.
    pub changes: Vec<(usize, String, Option<bool>)>,
}

/// One measurement.
pub(crate) struct TrendPoint {
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
    /// `None` without points.
    pub fn draw(&self) -> Option<String> {
        let points = || self.points.iter().filter(|point| point.value.is_finite());
        let most = points().map(|point| point.place).max()?;
        let values: Vec<f64> = points().map(|point| point.value).collect();
        let (across, upright) = (AxisScale::places(most + 1), AxisScale::close(&values, 4));
        let frame = Frame { room: WIDE, across, upright };
        let mut picture = frame.draw(self.title, "measurement, by its start", "");
        // Places begin at 0, and are numbered from 1.
        let (x, y, floor) = (|place: f64| frame.x(place + 1.0), |value: f64| frame.y(value), WIDE.floor());
        for (place, text, is_better) in &self.changes {
            let at = x(*place as f64 - 0.5);
            picture.line((at, WIDE.top - 6.0), (at, floor), "mark");
            let class = match is_better {
                Some(true) => "held",
                Some(false) => "missed",
                None => "tick",
            };
            picture.text(at, WIDE.top - 12.0, class, Anchor::Middle, text);
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

    fn plot(seconds: &[(f64, f64)], end: f64, kind: SecondValue) -> String {
        StepPlot { title: "Tokens", seconds, end, kind }.draw().expect("two seconds")
    }

    #[test]
    fn a_second_is_a_step_and_a_part_of_one_is_marked() {
        let seconds = [(0.0, 10.0), (1.0, 12.0), (2.0, 4.0)];
        let picture = plot(&seconds, 2.4, SecondValue::Sum);
        assert!(picture.contains("the last 0.4 s are a partial second"), "{picture}");
        assert!(picture.contains("<title>second 1: 12</title>"));
        assert!(!plot(&seconds, 3.0, SecondValue::Sum).contains("partial second"));
        assert!(!plot(&seconds, 2.4, SecondValue::Mean).contains("partial second"), "a level is not a sum");
        // A second without a value is a gap, not a line across it.
        assert_eq!(
            plot(&[(0.0, 1.0), (1.0, 1.0), (5.0, 1.0)], 6.0, SecondValue::Mean).matches("class=\"curve\"").count(),
            2
        );
    }

    /// 320 requests that are sent at once are not in flight when the first second begins, and are during most of it.
    #[test]
    fn what_was_when_a_second_began_does_not_hold_for_that_second() {
        let seconds = [(0.0, 0.0), (1.0, 320.0), (2.0, 300.0)];
        let curve = |kind| {
            let picture = plot(&seconds, 3.0, kind);
            let (before, _) = picture.split_once("\" class=\"curve\"").unwrap();
            before.rsplit_once("d=\"").unwrap().1.matches(['M', 'L']).count()
        };
        assert_eq!((curve(SecondValue::AtStart), curve(SecondValue::Mean)), (3, 6));
        assert!(plot(&seconds, 3.0, SecondValue::AtStart).contains("<title>at second 1: 320</title>"));
        // The most in each second is a step, and of a long run no mean.
        assert_eq!(curve(SecondValue::Most), 6);
        let peaks: Vec<(f64, f64)> = (0..2_000).map(|at| (f64::from(at), f64::from(60 * (at % 2)))).collect();
        assert!(binned(&peaks, 2_000.0, SecondValue::Most).iter().all(|step| step.value > 59.0));
    }

    #[test]
    fn a_long_run_is_in_minutes_and_stays_small() {
        let seconds: Vec<(f64, f64)> = (0..20_000).map(|second| (f64::from(second), 7.0)).collect();
        let picture = plot(&seconds, 20_000.0, SecondValue::Sum);
        assert!(picture.contains("minutes from the start") && picture.len() < 60_000, "{}", picture.len());
    }

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
