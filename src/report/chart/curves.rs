//! Curves: distributions, what happened in each second, and one number over the measurements of a series.

use super::color;
use super::frame::{Anchor, AxisScale, Frame, SMALL, WIDE, number};
use super::points::{ChartPoint, PointKind};
use crate::styler::cut;

/// Each sample until the time of the next one.
pub(crate) fn held(samples: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let steps = samples.windows(2).flat_map(|pair| [pair[0], (pair[1].0, pair[0].1)]);
    steps.chain(samples.last().copied()).collect()
}

/// At most about five hundred points, ends included: more would only make the file bigger.
pub(crate) fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let every = points.len().div_ceil(500).max(1);
    let mut kept: Vec<_> = points.iter().copied().step_by(every).collect();
    if let Some(last) = points.last().filter(|last| Some(*last) != kept.last()) {
        kept.push(*last);
    }
    kept
}

/// One result's curve.
pub(crate) struct OverlayCurve {
    /// Which result: its place among all.
    pub place: usize,
    pub points: Vec<(f64, f64)>,
}

/// A distribution as a curve: each value, and the percentage of values that are at most as large.
pub(crate) fn cumulative(place: usize, values: impl IntoIterator<Item = f64>) -> OverlayCurve {
    let mut sorted: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let share = |at: usize| (at + 1) as f64 / sorted.len() as f64 * 100.0;
    OverlayCurve { place, points: sorted.iter().enumerate().map(|(at, value)| (*value, share(at))).collect() }
}

/// An upright line in a distribution: its value, its class and its name.
pub(crate) type Mark = (f64, &'static str, String);

/// Distributions over a logarithmic axis, on which body and tail are both to be seen; `title` names the metric, `unit`
/// what is below the axis. `None` where no curve has two values.
pub(crate) fn spread(title: &str, unit: &str, curves: &[OverlayCurve], marks: &[Mark]) -> Option<String> {
    let curves: Vec<&OverlayCurve> = curves.iter().filter(|curve| curve.points.len() > 1).collect();
    let mut values: Vec<f64> = curves.iter().flat_map(|curve| &curve.points).map(|point| point.0).collect();
    values.sort_by(f64::total_cmp);
    let (least, most) = (*values.first()?, *values.last()?);
    // A limit far from all values is in the legend alone rather than pressing them together.
    values.extend(marks.iter().map(|mark| mark.0).filter(|at| (least / 3.0..most * 3.0).contains(at)));
    values.sort_by(f64::total_cmp);
    let across = AxisScale::log_fitting(*values.first()?, *values.last()?);
    let frame = Frame { room: SMALL, across, upright: AxisScale::linear(100.0, 4) };
    let mut picture = frame.draw(title, unit, "");
    for curve in curves {
        let drawn = thinned(&curve.points);
        // It begins on the floor.
        let line = drawn.first().map(|point| (point.0, 0.0)).into_iter().chain(drawn.iter().copied());
        picture.curve(line.map(|(a, b)| (frame.x(a), frame.y(b))), &format!("curve {}", color(curve.place)));
    }
    for (at, class, _) in marks.iter().filter(|mark| frame.across.contains(mark.0)) {
        picture.line((frame.x(*at), frame.y(0.0)), (frame.x(*at), SMALL.top), class);
    }
    picture.legend(marks.iter().map(|(at, class, name)| ((*class).to_owned(), frame.across.label(*at, name))));
    Some(picture.finish())
}

/// What happened over time; the upright axis ends at `top` or above. `None` where no result has two points.
pub(crate) fn course(title: &str, across: &str, top: f64, all: &[OverlayCurve]) -> Option<String> {
    let drawn: Vec<&OverlayCurve> = all.iter().filter(|series| series.points.len() > 1).collect();
    if drawn.is_empty() {
        return None;
    }
    let most = |pick: fn(&(f64, f64)) -> f64| drawn.iter().flat_map(|s| s.points.iter().map(pick)).fold(0.0, f64::max);
    let frame = Frame::of_curves(most(|point| point.0), most(|point| point.1).max(top));
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
            picture.text(SMALL.end(), SMALL.top - 9.0, "tick", Anchor::End, "shaded: partial second");
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
    /// Each at its place in the order of the measurements, from 0; what is written above it are its tags.
    pub points: Vec<ChartPoint>,
    /// The first and the last point of each level, and its mean.
    pub levels: Vec<(usize, usize, f64)>,
    /// The first point of a new level, what to write there, and whether it is better, if that is judged.
    pub changes: Vec<(usize, String, Option<bool>)>,
}

impl TrendPlot<'_> {
    /// `None` without points.
    pub fn draw(&self) -> Option<String> {
        let points = || self.points.iter().filter(|point| point.y.is_finite());
        let values: Vec<f64> = points().map(|point| point.y).collect();
        let count = points().map(|point| point.x as usize + 1).max()?;
        let (across, upright) = (AxisScale::places(count), AxisScale::close(&values, 4));
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
            let at = (x(point.x), y(point.y));
            if point.kind == PointKind::Invalid {
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
    fn body_and_tail_are_on_a_logarithmic_axis_and_limits_are_marked() {
        let values: Vec<f64> = (1..1000).map(f64::from).chain([90_000.0]).collect();
        let mark = |value: f64| (value, "limit", format!("limit {value} ms"));
        let curves = [cumulative(0, values)];
        let picture = spread("TTFT", "ms", &curves, &[mark(450.0), mark(1e9)]).expect("a picture");
        assert!(picture.contains("ms (log scale)") && picture.contains(">100,000</text>"), "{picture}");
        assert!(picture.contains("</svg>limit 450 ms</span>"), "{picture}");
        assert!(picture.contains("</svg>limit 1000000000 ms (beyond this picture)</span>"), "{picture}");
        // Two in the legend, and one line.
        assert_eq!(picture.matches(r#"class="limit""#).count(), 3, "{picture}");
        // Close values have ticks between powers of ten, and a value of 0 has no logarithm.
        let close = spread("TPOT", "ms", &[cumulative(0, [18.8, 19.0, 20.4])], &[]).expect("a picture");
        assert!(close.contains(">19</text>") && close.contains("log scale"), "{close}");
        let zero = spread("TPOT", "ms", &[cumulative(0, [0.0, 19.0])], &[]).expect("a picture");
        assert!(!zero.contains("log scale"), "{zero}");
    }

    #[test]
    fn each_result_has_its_color_and_one_value_is_no_curve() {
        let curves = [cumulative(0, [1.0, 2.0]), cumulative(1, [5.0]), cumulative(9, [1.0, 3.0])];
        let picture = spread("TTFT", "ms", &curves, &[]).expect("two");
        assert!(picture.contains(r#"class="curve c0""#) && picture.contains(r#"class="curve c1""#));
        assert_eq!(picture.matches("<path").count(), 2);
        assert_eq!(spread("TTFT", "ms", &[cumulative(0, [1.0])], &[]), None);
        assert_eq!(course("x", "s", 0.0, &[OverlayCurve { place: 0, points: vec![(0.0, 1.0)] }]), None);
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
        let point = |place: usize| ChartPoint {
            x: place as f64,
            y: if place < 10 { 100.0 } else { 108.0 },
            kind: if place == 3 { PointKind::Invalid } else { PointKind::Valid },
            label: if place == 5 { "v1.2".to_owned() } else { String::new() },
            hint: format!("run {place} <b>"),
            ..ChartPoint::default()
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
