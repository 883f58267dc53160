//! What happened in each second: a step for each, with its value to read, and the last one marked where it is not whole. What was
//! looked at when each second began is no step: a line joins the values.

use super::plot_frame::{PlotFrame, SIZE, TOP};
use super::svg::{Anchor, number};

/// More steps than this have no value to read: the file would grow, and a step would be thinner than a pixel.
const READABLE: usize = 240;
/// Times above this are in minutes.
const MINUTES: f64 = 600.0;

/// Values of seconds.
pub(super) struct StepPlot<'a> {
    pub title: &'a str,
    /// The second and its value. Seconds that are missing have none.
    pub seconds: &'a [(f64, f64)],
    /// When the measurement ended, s.
    pub end: f64,
    pub kind: SecondValue,
}

/// What the value of a second is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SecondValue {
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
        let known: Vec<(f64, f64)> =
            self.seconds.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
        let (last, highest) = (known.last()?.0, known.iter().map(|point| point.1).fold(0.0, f64::max));
        if known.len() < 2 {
            return None;
        }
        let end = if self.end > last && self.end < last + 1.0 { self.end } else { last + 1.0 };
        let (unit, scale) = if end > MINUTES { ("minutes", 60.0) } else { ("seconds", 1.0) };
        let frame = PlotFrame::new(end / scale, highest);
        let mut picture = frame.draw(self.title, &format!("{unit} from the start"));
        let steps = binned(&known, end, self.kind);
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
            let hint = format!("the last {} s are no whole second", number(step.to - step.from));
            picture.rect((x(step.from), TOP), ((x(step.to) - x(step.from)).max(1.5), floor - TOP), "partial", &hint);
            picture.text(SIZE.0 - 22.0, TOP - 8.0, "tick", Anchor::End, "shaded: no whole second");
        }
        if known.len() <= READABLE {
            for step in &steps {
                let at = if self.kind == SecondValue::AtStart { "at " } else { "" };
                let hint = format!("{at}second {}: {}", number(step.from), number(step.value));
                picture.rect((x(step.from), TOP), ((x(step.to) - x(step.from)).max(1.0), floor - TOP), "hover", &hint);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(seconds: &[(f64, f64)], end: f64, kind: SecondValue) -> String {
        StepPlot { title: "Tokens", seconds, end, kind }.draw().expect("two seconds")
    }

    #[test]
    fn a_second_is_a_step_and_a_part_of_one_is_marked() {
        let seconds = [(0.0, 10.0), (1.0, 12.0), (2.0, 4.0)];
        let picture = plot(&seconds, 2.4, SecondValue::Sum);
        assert!(picture.contains("the last 0.4 s are no whole second"), "{picture}");
        assert!(picture.contains("<title>second 1: 12</title>"));
        assert!(!plot(&seconds, 3.0, SecondValue::Sum).contains("no whole second"));
        assert!(!plot(&seconds, 2.4, SecondValue::Mean).contains("no whole second"), "a level is no sum");
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
}
