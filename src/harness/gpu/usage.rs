//! Readings summed up over the run's window.

use std::collections::BTreeMap;

use crate::gpu::{GpuReading, GpuTrace, GpuUsage, GpusUsage};
use base::units::counted;
use triton::thinned;

/// If telemetry covers less than this share of the window, its energy does not represent the run.
const COVERED: f64 = 0.9;

/// NVML's reasons, by bit.
const REASONS: [&str; 9] = [
    "gpu_idle",
    "applications_clocks_setting",
    "sw_power_cap",
    "hw_slowdown",
    "sync_boost",
    "sw_thermal_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "display_clock_setting",
];

/// Sums the readings up: `usage` has what they are of. Output tokens are those of successful requests, per second of
/// the window, with their source.
pub fn summarize(trace: &GpuTrace, usage: GpusUsage, tokens_per_s: Option<f64>, token_source: &str) -> GpusUsage {
    let window_s = usage.window_s;
    let devices: Vec<GpuUsage> = (0..trace.gpus.len()).map(|gpu| device(trace, gpu, window_s)).collect();
    let total =
        |of: fn(&GpuUsage) -> Option<f64>| devices.iter().map(of).sum::<Option<f64>>().filter(|_| !devices.is_empty());
    let (energy_j, mean_power_w) = (total(|gpu| gpu.energy_j), total(|gpu| gpu.mean_power_w));
    let covered = devices.iter().map(|gpu| gpu.covered_s).fold(f64::INFINITY, f64::min);
    let (tokens_per_joule, tokens_per_joule_is) = match (tokens_per_s, mean_power_w) {
        (_, None) => (None, "absent: not every GPU reported its power during the window".to_owned()),
        (None, _) => (None, "absent: there are no tokens".to_owned()),
        _ if covered < COVERED * window_s => {
            (None, format!("absent: power is known for {covered:.1} s of the window's {window_s:.1} s only"))
        }
        (_, Some(power)) if power <= 0.0 => (None, "absent: the GPUs report a power of 0".to_owned()),
        (Some(tokens), Some(power)) => {
            let definition = format!(
                "output tokens of successful requests (tokens from {token_source}) / (mean power of these {} × \
                 window); the GPUs alone, without the rest of the machine",
                counted(devices.len(), "GPU"),
            );
            (Some(tokens / power), definition)
        }
    };
    GpusUsage {
        readings: trace.readings.len() as u64,
        series: series(trace),
        devices,
        energy_j,
        mean_power_w,
        tokens_per_joule,
        tokens_per_joule_is,
        ..usage
    }
}

fn readings_of(trace: &GpuTrace, gpu: usize) -> impl Iterator<Item = &GpuReading> {
    trace.readings.iter().filter(move |reading| reading.gpu == gpu)
}

fn device(trace: &GpuTrace, gpu: usize, window_s: f64) -> GpuUsage {
    let inside: Vec<&GpuReading> =
        readings_of(trace, gpu).filter(|reading| (0.0..=window_s).contains(&reading.at_s)).collect();
    let values = |field: fn(&GpuReading) -> Option<f64>| {
        inside.iter().filter_map(|reading| field(reading)).collect::<Vec<f64>>()
    };
    let mean = |values: &[f64]| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let most = |values: &[f64]| values.iter().copied().max_by(f64::total_cmp);
    let utilization = values(|reading| reading.utilization_percent);
    let clock = values(|reading| reading.sm_clock_mhz);
    let power = Power::from_readings(
        readings_of(trace, gpu).filter_map(|reading| Some((reading.at_s, reading.power_w?))),
        window_s,
    );
    GpuUsage {
        device: trace.gpus[gpu].clone(),
        readings: inside.len() as u64,
        covered_s: power.covered_s,
        longest_gap_s: power.longest_gap_s,
        energy_j: power.energy_j,
        mean_power_w: power.energy_j.map(|energy| energy / power.covered_s),
        max_power_w: most(&values(|reading| reading.power_w)),
        mean_utilization_percent: mean(&utilization),
        max_utilization_percent: most(&utilization),
        max_memory_used_mib: most(&values(|reading| reading.memory_used_mib)),
        max_temperature_c: most(&values(|reading| reading.temperature_c)),
        mean_sm_clock_mhz: mean(&clock),
        min_sm_clock_mhz: clock.iter().copied().min_by(f64::total_cmp),
        mean_memory_clock_mhz: mean(&values(|reading| reading.memory_clock_mhz)),
        throttle_reasons: reasons(&inside),
    }
}

/// The area under readings of power, from 0 to the window's end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Power {
    energy_j: Option<f64>,
    covered_s: f64,
    longest_gap_s: Option<f64>,
}

impl Power {
    fn from_readings(points: impl Iterator<Item = (f64, f64)>, window_s: f64) -> Self {
        let mut points: Vec<(f64, f64)> = points.collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut power = Self::default();
        for pair in points.windows(2) {
            let ((from, low), (to, high)) = (pair[0], pair[1]);
            let (begin, end) = (from.max(0.0), to.min(window_s));
            if end <= begin {
                continue;
            }
            let at = |time: f64| low + (high - low) * (time - from) / (to - from);
            let area = at(begin).midpoint(at(end)) * (end - begin);
            power.energy_j = Some(power.energy_j.unwrap_or(0.0) + area);
            power.covered_s += end - begin;
            power.longest_gap_s = Some(power.longest_gap_s.unwrap_or(0.0).max(to - from));
        }
        power
    }
}

fn reasons(inside: &[&GpuReading]) -> Option<BTreeMap<String, f64>> {
    let masks: Vec<u64> = inside.iter().filter_map(|reading| reading.throttle_mask).collect();
    if masks.is_empty() {
        return None;
    }
    let seen = (0..u64::BITS).filter_map(|bit| {
        let times = masks.iter().filter(|mask| *mask >> bit & 1 == 1).count();
        let name = REASONS.get(bit as usize).map_or_else(|| format!("bit {bit}"), |name| (*name).to_owned());
        (times > 0).then(|| (name, times as f64 / masks.len() as f64))
    });
    Some(seen.collect())
}

type Field = fn(&GpuReading) -> Option<f64>;

/// The series of each GPU that are worth a plot.
fn series(trace: &GpuTrace) -> BTreeMap<String, Vec<(f64, f64)>> {
    let fields: [(&str, Field); 5] = [
        ("power W", |reading| reading.power_w),
        ("utilization %", |reading| reading.utilization_percent),
        ("memory MiB", |reading| reading.memory_used_mib),
        ("SM clock MHz", |reading| reading.sm_clock_mhz),
        ("temperature °C", |reading| reading.temperature_c),
    ];
    let mut lines = BTreeMap::new();
    for (gpu, identity) in trace.gpus.iter().enumerate() {
        let device = identity.index.map_or_else(|| identity.uuid.clone(), |index| index.to_string());
        for (name, field) in fields {
            let line: Vec<(f64, f64)> =
                readings_of(trace, gpu).filter_map(|reading| Some((reading.at_s, field(reading)?))).collect();
            if line.len() > 1 {
                lines.insert(format!("{name} of {device}"), thinned(&line));
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::GpuDevice;
    use super::*;

    fn reading(gpu: usize, at_s: f64, power_w: Option<f64>) -> GpuReading {
        GpuReading { at_s, gpu, power_w, ..GpuReading::default() }
    }

    fn trace(gpus: usize, readings: Vec<GpuReading>) -> GpuTrace {
        let identity = |index| GpuDevice { index: Some(index), uuid: format!("GPU-{index}"), ..GpuDevice::default() };
        GpuTrace { gpus: (0..gpus as u32).map(identity).collect(), readings }
    }

    fn summed(trace: &GpuTrace, window_s: f64, tokens_per_s: f64) -> GpusUsage {
        summarize(trace, GpusUsage { window_s, ..GpusUsage::default() }, Some(tokens_per_s), "output_ids")
    }

    /// 100 W, rising to 300 W within the first second after the start, falling behind the end.
    #[test]
    fn energy_is_the_area_under_power_within_the_window() {
        let at = [(-1.0, 100.0), (0.0, 100.0), (1.0, 300.0), (3.0, 300.0), (5.0, 100.0)];
        let readings = at.into_iter().map(|(at, watts)| reading(0, at, Some(watts))).collect();
        let gpus = summed(&trace(1, readings), 4.0, 500.0);
        let gpu = &gpus.devices[0];
        // 200 + 600, and of the last piece the first half: from 300 to 200 W.
        assert_eq!((gpu.energy_j, gpu.covered_s, gpu.longest_gap_s), (Some(1050.0), 4.0, Some(2.0)));
        assert_eq!((gpu.mean_power_w, gpu.max_power_w, gpu.readings), (Some(262.5), Some(300.0), 3));
        assert_eq!((gpus.energy_j, gpus.mean_power_w), (Some(1050.0), Some(262.5)));
        assert_eq!(gpus.tokens_per_joule, Some(500.0 / 262.5));
        assert!(gpus.tokens_per_joule_is.contains("tokens from output_ids"), "{}", gpus.tokens_per_joule_is);
        assert_eq!(gpus.series["power W of 0"].len(), 5);
    }

    #[test]
    fn the_ends_of_the_window_are_interpolated_between_readings() {
        let readings = vec![reading(0, -0.5, Some(0.0)), reading(0, 1.5, Some(200.0))];
        let gpus = summed(&trace(1, readings), 1.0, 1.0);
        // From 50 W at the start to 150 W one second later; no reading is in between.
        let gpu = &gpus.devices[0];
        assert_eq!((gpu.energy_j, gpu.readings, gpu.max_power_w), (Some(100.0), 0, None));
    }

    #[test]
    fn a_gpu_that_does_not_tell_its_power_makes_no_sum() {
        let readings = vec![
            reading(0, 0.0, Some(100.0)),
            reading(0, 1.0, Some(100.0)),
            reading(1, 0.0, None),
            reading(1, 1.0, None),
        ];
        let gpus = summed(&trace(2, readings), 1.0, 1.0);
        assert_eq!((gpus.devices[0].energy_j, gpus.devices[1].energy_j), (Some(100.0), None));
        assert_eq!((gpus.energy_j, gpus.tokens_per_joule), (None, None));
        assert!(gpus.tokens_per_joule_is.contains("not every GPU reported its power"));
        assert_eq!(summed(&trace(0, Vec::new()), 1.0, 1.0).energy_j, None);
    }

    #[test]
    fn a_reading_without_power_is_bridged_and_the_gap_is_reported() {
        let readings = vec![reading(0, 0.0, Some(100.0)), reading(0, 1.0, None), reading(0, 2.0, Some(300.0))];
        let gpu = &summed(&trace(1, readings), 2.0, 1.0).devices[0];
        assert_eq!((gpu.energy_j, gpu.longest_gap_s), (Some(400.0), Some(2.0)));
    }

    #[test]
    fn power_of_half_the_window_is_not_that_of_the_run() {
        let readings = vec![reading(0, 0.0, Some(100.0)), reading(0, 5.0, Some(100.0))];
        let gpus = summed(&trace(1, readings), 10.0, 1.0);
        assert_eq!((gpus.energy_j, gpus.devices[0].covered_s), (Some(500.0), 5.0));
        assert_eq!(gpus.tokens_per_joule, None);
        assert_eq!(gpus.tokens_per_joule_is, "absent: power is known for 5.0 s of the window's 10.0 s only");
    }

    #[test]
    fn what_held_the_clocks_down_is_named_with_how_often_it_was_seen() {
        let mask = |at_s, mask| GpuReading { at_s, throttle_mask: Some(mask), ..GpuReading::default() };
        // The first one is before the start.
        let readings = vec![mask(-1.0, 0x40), mask(0.0, 0x4), mask(1.0, 0x4), mask(2.0, 0x0), mask(3.0, 0x8004)];
        let gpu = &summed(&trace(1, readings), 4.0, 1.0).devices[0];
        let seen = BTreeMap::from([("sw_power_cap".to_owned(), 0.75), ("bit 15".to_owned(), 0.25)]);
        assert_eq!(gpu.throttle_reasons, Some(seen));
        let silent = &summed(&trace(1, vec![reading(0, 0.0, None)]), 4.0, 1.0).devices[0];
        assert_eq!(silent.throttle_reasons, None);
    }

    #[test]
    fn the_lines_contain_the_readings_only() {
        let mut readings = vec![reading(0, -0.5, Some(77.0)), reading(0, 0.5, None)];
        readings[1].throttle_mask = Some(1);
        let lines: Vec<String> = trace(1, readings).lines().collect();
        assert_eq!(
            lines,
            [
                r#"{"uuid":"GPU-0","index":0,"at_s":-0.5,"power_w":77.0}"#,
                r#"{"uuid":"GPU-0","index":0,"at_s":0.5,"throttle_mask":1}"#
            ]
        );
    }
}
