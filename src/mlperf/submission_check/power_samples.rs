//! Samples of a power meter (`spl.txt`), and their average over the time of a run by the method of the official checker.

use jiff::civil::DateTime;

/// How LoadGen and the power meter's log write a time.
const TIME: &str = "%m-%d-%Y %H:%M:%S%.f";

/// Between which times of its log a run is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PowerWindow {
    pub begin: DateTime,
    pub end: DateTime,
}

impl PowerWindow {
    /// None: one of them is no time.
    pub(super) fn of(begin: &str, end: &str) -> Option<Self> {
        let window = Self { begin: time(begin)?, end: time(end)? };
        (window.begin < window.end).then_some(window)
    }

    /// Begin and end in seconds since 1970, where they are of UTC.
    pub(super) fn since_epoch(self) -> Option<(f64, f64)> {
        let seconds =
            |time: DateTime| Some(time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_duration().as_secs_f64());
        Some((seconds(self.begin)?, seconds(self.end)?))
    }

    pub(super) fn seconds(self) -> f64 {
        seconds_between(self.begin, self.end)
    }
}

/// One line `Time,<when>,Watts,<watts>,Volts,<volts>,Amps,<amps>,PF,<power factor>,Mark,<mark>`. A meter of several channels sums
/// their watts, and adds `Ch1,Watts,<watts>,Volts,<volts>,Amps,<amps>,PF,<power factor>,Ch2,…`: its volts and amperes are means.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PowerSample {
    at: DateTime,
    watts: f64,
    /// Volts × amperes × power factor, where the line has them all.
    product: Option<f64>,
}

/// A line that the official checker cannot read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {fault}")]
pub(super) struct BadSample {
    pub line: usize,
    pub fault: SampleFault,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SampleFault {
    #[error("`{0}` is no time, MM-DD-YYYY HH:MM:SS.fff")]
    Time(String),
    #[error("`{0}` is where `Watts` is due")]
    Field(String),
    #[error("`{0}` is no number of watts")]
    Watts(String),
}

/// What the samples within a window are worth.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PowerAverage {
    /// Samples that count: above 0 W.
    pub samples: u64,
    /// Samples within the window that the average leaves out.
    pub left_out: u64,
    /// The first value that no meter can measure.
    pub impossible: Option<String>,
    /// The mean of the samples that count.
    pub watts: f64,
    /// Mean × window, as the official checker computes energy.
    pub joules: f64,
    /// The same, each sample for the time until the next one.
    pub integrated_joules: f64,
    /// The longest time within the window without a sample.
    pub longest_gap: f64,
    /// The largest deviation of watts from volts × amperes × power factor, as a share.
    pub product_deviation: f64,
}

impl PowerAverage {
    /// Of a whole spl.txt.
    pub(super) fn of(text: &str, window: PowerWindow) -> Result<Self, BadSample> {
        let mut average = Self::default();
        let mut sum = 0.0;
        let mut last: Option<(DateTime, f64)> = None;
        for (index, line) in text.lines().enumerate() {
            if !line.starts_with("Time") {
                continue;
            }
            let sample = PowerSample::parse(line).map_err(|fault| BadSample { line: index + 1, fault })?;
            if !(window.begin < sample.at && sample.at < window.end) {
                continue;
            }
            if !sample.watts.is_finite() || sample.watts < 0.0 {
                average.impossible.get_or_insert(format!("line {}: {} W", index + 1, sample.watts));
            }
            let since = last.map_or(window.begin, |(at, _)| at);
            let passed = seconds_between(since, sample.at);
            average.longest_gap = average.longest_gap.max(passed);
            // Before the first sample there is no other to go by.
            average.integrated_joules += last.map_or(sample.watts, |(_, watts)| watts) * passed;
            last = Some((sample.at, sample.watts));
            if sample.watts > 0.0 {
                average.samples += 1;
                sum += sample.watts;
                if let Some(product) = sample.product {
                    let deviation = (product / sample.watts - 1.0).abs();
                    average.product_deviation = average.product_deviation.max(deviation);
                }
            } else {
                average.left_out += 1;
            }
        }
        if let Some((at, watts)) = last {
            let rest = seconds_between(at, window.end);
            average.longest_gap = average.longest_gap.max(rest);
            average.integrated_joules += watts * rest;
        }
        if average.samples > 0 {
            average.watts = sum / average.samples as f64;
            average.joules = average.watts * window.seconds();
        }
        Ok(average)
    }
}

impl PowerSample {
    fn parse(line: &str) -> Result<Self, SampleFault> {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let field = |index: usize| fields.get(index).copied().unwrap_or_default();
        let number = |index: usize| field(index).parse::<f64>().ok();
        let at = time(field(1)).ok_or_else(|| SampleFault::Time(field(1).to_owned()))?;
        if field(2) != "Watts" {
            return Err(SampleFault::Field(field(2).to_owned()));
        }
        let watts = number(3).ok_or_else(|| SampleFault::Watts(field(3).to_owned()))?;
        // Where the names `Watts` are: of the line, or of its channels.
        let names = if fields.get(12) == Some(&"Ch1") { (13..fields.len()).step_by(9).collect() } else { vec![2] };
        let product = |name: usize| match (number(name + 3), number(name + 5), number(name + 7)) {
            (Some(volts), Some(amps), Some(factor)) if volts > 0.0 && amps > 0.0 && factor > 0.0 => {
                Some(volts * amps * factor)
            }
            _ => None,
        };
        let product = names.into_iter().map(product).sum();
        Ok(Self { at, watts, product })
    }
}

fn time(text: &str) -> Option<DateTime> {
    DateTime::strptime(TIME, text.trim()).ok()
}

fn seconds_between(from: DateTime, to: DateTime) -> f64 {
    to.duration_since(from).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::{PowerAverage, PowerWindow};

    fn window() -> PowerWindow {
        PowerWindow::of("08-24-2023 10:15:00.000", "08-24-2023 10:15:04.000").unwrap()
    }

    /// As PTDaemon writes them, with a line that is no sample.
    const TEXT: &str = "Time,08-24-2023 10:14:59.500,Watts,9.0,Volts,228.5,Amps,0.05,PF,0.78,Mark,idle\n\
        Starting untimed measurement\n\
        Time,08-24-2023 10:15:00.500,Watts,22.9,Volts,228.57,Amps,0.1279,PF,0.7808,Mark,x_testing\n\
        Time,08-24-2023 10:15:01.500,Watts,23.1,Volts,228.57,Amps,0.1290,PF,0.7808,Mark,x_testing\n\
        Time,08-24-2023 10:15:02.500,Watts,0,Volts,228.57,Amps,0.0,PF,0.0,Mark,x_testing\n\
        Time,08-24-2023 10:15:03.500,Watts,23.0,Volts,228.57,Amps,0.1285,PF,0.7808,Mark,x_testing\n\
        Time,08-24-2023 10:15:04.000,Watts,50.0,Volts,228.57,Amps,0.2,PF,0.78,Mark,x_testing\n";

    #[test]
    fn the_average_is_of_positive_samples_strictly_within_the_window() {
        let average = PowerAverage::of(TEXT, window()).unwrap();
        assert_eq!((average.samples, average.left_out), (3, 1));
        assert!((average.watts - 23.0).abs() < 1e-9, "{average:?}");
        assert!((average.joules - 92.0).abs() < 1e-9, "{average:?}");
        // 0.5 s and 1 s at 22.9 W, 1 s at 23.1 W, 1 s at 0 W, 0.5 s at 23 W.
        assert!((average.integrated_joules - (1.5 * 22.9 + 23.1 + 11.5)).abs() < 1e-9, "{average:?}");
        assert!((average.longest_gap - 1.0).abs() < 1e-9 && average.product_deviation < 0.01, "{average:?}");
    }

    /// Of a published result for v5.1.
    #[test]
    fn the_products_of_channels_are_summed() {
        let line = "Time,08-24-2023 10:15:00.507,Watts,2884.000000,Volts,211.026667,Amps,4.640333,PF,0.982045,Mark,a_testing,\
            Ch1,Watts,976.000000,Volts,210.390000,Amps,4.715000,PF,0.984200,Ch2,Watts,956.000000,Volts,211.370000,Amps,4.613000,PF,0.980900,\
            Ch3,Watts,952.000000,Volts,211.320000,Amps,4.593000,PF,0.981100\n";
        let average = PowerAverage::of(line, window()).unwrap();
        assert!(average.product_deviation < 0.001, "{average:?}");
        let average = PowerAverage::of(&line.replace("Watts,2884", "Watts,1884"), window()).unwrap();
        assert!(average.product_deviation > 0.5, "{average:?}");
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named() {
        let of = |line: &str| PowerAverage::of(&format!("{TEXT}{line}\n"), window()).unwrap_err().to_string();
        assert_eq!(of("Time,08-24-2023 10:15:03.600,Watts,none"), "line 8: `none` is no number of watts");
        assert_eq!(of("Time,08-24-2023 10:15:03.600"), "line 8: `` is where `Watts` is due");
        assert_eq!(of("Time,08-24-2023 10:15:03.600,Volts,230.0"), "line 8: `Volts` is where `Watts` is due");
        assert_eq!(of("Time,08-24-2023 10:15:03.600,Watts"), "line 8: `` is no number of watts");
        assert_eq!(of("Time,yesterday,Watts,1.0"), "line 8: `yesterday` is no time, MM-DD-YYYY HH:MM:SS.fff");
    }

    #[test]
    fn no_meter_measures_less_than_nothing() {
        for watts in ["-1.5", "nan", "inf"] {
            let text = format!("{TEXT}Time,08-24-2023 10:15:03.600,Watts,{watts}\n");
            assert!(PowerAverage::of(&text, window()).unwrap().impossible.unwrap().starts_with("line 8: "), "{watts}");
        }
        assert_eq!(PowerAverage::of(TEXT, window()).unwrap().impossible, None);
    }

    #[test]
    fn a_window_that_ends_before_it_begins_is_none() {
        assert_eq!(PowerWindow::of("08-24-2023 10:15:04.000", "08-24-2023 10:15:00.000"), None);
    }
}
