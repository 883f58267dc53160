//! One axis of a chart: where a number is on it, and which numbers are written beside it.

use super::svg::{LARGEST, steps};

/// Numbers further apart than this, the largest against the smallest, are drawn on a logarithmic axis.
const WIDE: f64 = 25.0;

/// The scale of an axis, from its first to its last number.
pub(super) enum AxisScale {
    Linear { least: f64, most: f64, ticks: Vec<f64> },
    Log { low: f64, high: f64, ticks: Vec<f64> },
}

impl AxisScale {
    /// From 0 on, ending on a round number.
    pub fn linear(most: f64, count: usize) -> Self {
        let ticks = steps(most, count);
        Self::Linear { least: 0.0, most: ticks.last().copied().unwrap_or(1.0), ticks }
    }

    /// Linear between round numbers around the values, for points whose distance from each other is what matters.
    pub fn close(values: &[f64], count: usize) -> Self {
        let most = drawn(values).fold(0.0, f64::max);
        let least = drawn(values).fold(f64::INFINITY, f64::min).min(most);
        if most - least > LARGEST {
            return Self::linear(most, count);
        }
        let width = steps((most - least).max(most * 0.05), count);
        let step = width.get(1).copied().unwrap_or(1.0);
        let (from, to) = ((least / step).floor() as i64, (most / step).ceil() as i64);
        let ticks: Vec<f64> = (from..=to.max(from + 1)).map(|at| at as f64 * step).collect();
        Self::Linear { least: from as f64 * step, most: to.max(from + 1) as f64 * step, ticks }
    }

    /// Linear from 0, or logarithmic where the values are far apart.
    pub fn fitting(values: &[f64], count: usize) -> Self {
        let most = drawn(values).fold(0.0, f64::max);
        let least = drawn(values).filter(|value| *value >= f64::MIN_POSITIVE).fold(f64::INFINITY, f64::min);
        let is_wide =
            least.is_finite() && most > least * WIDE && values.iter().all(|value| *value >= f64::MIN_POSITIVE);
        if is_wide { Self::log(least, most) } else { Self::linear(most, count) }
    }

    fn log(least: f64, most: f64) -> Self {
        let round = |value: f64, up: bool| {
            let decade = 10f64.powf(value.log10().floor());
            let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * decade);
            let near = if up {
                steps.into_iter().find(|step| *step >= value * 0.999_999)
            } else {
                steps.into_iter().rev().find(|step| *step <= value * 1.000_001)
            };
            near.unwrap_or(value)
        };
        let (low, high) = (round(least, false), round(most, true));
        let decades = (high / low).log10();
        let within = |value: &f64| *value >= low * 0.999_999 && *value <= high * 1.000_001;
        let marks: &[f64] = if decades > 2.5 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let from = low.log10().floor() as i32;
        let to = high.log10().ceil() as i32;
        let ticks = (from..=to).flat_map(|power| marks.iter().map(move |mark| mark * 10f64.powi(power)));
        Self::Log { low, high, ticks: ticks.filter(within).collect() }
    }

    pub fn ticks(&self) -> &[f64] {
        match self {
            Self::Linear { ticks, .. } | Self::Log { ticks, .. } => ticks,
        }
    }

    pub const fn is_log(&self) -> bool {
        matches!(self, Self::Log { .. })
    }

    /// Its place, from 0 to 1; values beyond the ends are at the ends.
    pub fn share(&self, value: f64) -> f64 {
        let share = match self {
            Self::Linear { least, most, .. } => (value - least) / (most - least),
            Self::Log { low, high, .. } => (value.max(*low).ln() - low.ln()) / (high.ln() - low.ln()),
        };
        share.clamp(0.0, 1.0)
    }
}

/// Those that an axis can reach: a number in a result, or a quotient of two, may be as large as any.
fn drawn(values: &[f64]) -> impl Iterator<Item = f64> {
    values.iter().copied().filter(|value| value.abs() <= LARGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_far_apart_are_on_a_logarithmic_axis() {
        let near = AxisScale::fitting(&[10.0, 40.0], 4);
        assert_eq!((near.is_log(), near.ticks()), (false, &[0.0, 10.0, 20.0, 30.0, 40.0][..]));
        let far = AxisScale::fitting(&[21.0, 900.0], 4);
        assert_eq!((far.is_log(), far.ticks()), (true, &[20.0, 50.0, 100.0, 200.0, 500.0, 1000.0][..]));
        assert!((far.share(20.0)).abs() < 1e-9 && (far.share(1000.0) - 1.0).abs() < 1e-9);
        let close = AxisScale::close(&[36.9, 52.7], 4);
        assert_eq!(close.ticks(), [35.0, 40.0, 45.0, 50.0, 55.0]);
        assert!(close.share(35.0).abs() < 1e-9 && (close.share(55.0) - 1.0).abs() < 1e-9);
        assert_eq!(AxisScale::close(&[50.0], 4).ticks().len(), 2, "one value has an axis, too");
        assert!(!AxisScale::fitting(&[0.0, 900.0], 4).is_log(), "0 is on no logarithmic axis");
        let odd =
            [f64::NAN, f64::INFINITY, f64::MIN, f64::MAX, 1.7e308, 1e300, -1e300, -1e299, 5e-324, -5e-324, 0.0, 3.0];
        for values in odd.iter().flat_map(|one| odd.map(|other| [*one, other])) {
            for axis in [AxisScale::fitting(&values, 4), AxisScale::close(&values, 4), AxisScale::linear(values[1], 4)]
            {
                assert!((2..1000).contains(&axis.ticks().len()), "{values:?}: {:?}", axis.ticks());
            }
        }
        let decades = AxisScale::fitting(&[3.0, 40_000.0], 4);
        assert_eq!(decades.ticks(), [10.0, 100.0, 1000.0, 10_000.0]);
    }
}
