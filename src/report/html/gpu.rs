//! What the GPUs did meanwhile: a row for each, energy, and curves over time.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::block::{Block, percent};
use super::metric_row::cell;
use super::plot::Plot;
use super::svg::number;
use harness::gpu::{GpuUsage, GpusUsage};

/// The beginning of a series' key, and its picture's title.
const CURVES: [(&str, &str); 5] = [
    ("power W of ", "Power in W, GPU "),
    ("utilization % of ", "Utilization in %, GPU "),
    ("memory MiB of ", "Memory used in MiB, GPU "),
    ("SM clock MHz of ", "SM clock in MHz, GPU "),
    ("temperature °C of ", "Temperature in °C, GPU "),
];
/// Of each kind.
const PICTURES: usize = 8;

pub(super) fn section(gpus: &GpusUsage) -> Block {
    let mut block = Block {
        title: "GPUs",
        about: about(gpus),
        head: vec![
            "GPU",
            "mean W",
            "max W",
            "energy J",
            "covered s",
            "mean util. %",
            "max util. %",
            "max memory MiB",
            "of MiB",
            "max °C",
            "mean SM MHz",
            "clocks held down by",
        ],
        plots: plots(&gpus.series),
        ..Block::default()
    };
    block.fact("energy, J", gpus.energy_j.map(number), format!("of these GPUs; window: {}", gpus.window));
    block.fact("mean power, W", gpus.mean_power_w.map(number), "sum over these GPUs, the same window");
    block.fact("tokens per joule", Some(cell(gpus.tokens_per_joule)), gpus.tokens_per_joule_is.as_str());
    block.rows = gpus.devices.iter().map(row).collect();
    block
}

fn row(gpu: &GpuUsage) -> Vec<String> {
    let index = gpu.index.map(|index| number(f64::from(index)));
    let name = gpu.name.as_ref().unwrap_or(&gpu.uuid);
    let name: Vec<String> = index.into_iter().chain(Some(name.clone()).filter(|name| !name.is_empty())).collect();
    let mut row = vec![name.join(" ")];
    row.extend(
        [
            gpu.mean_power_w,
            gpu.max_power_w,
            gpu.energy_j,
            Some(gpu.covered_s),
            gpu.mean_utilization_percent,
            gpu.max_utilization_percent,
            gpu.max_memory_used_mib,
            gpu.memory_total_mib,
            gpu.max_temperature_c,
            gpu.mean_sm_clock_mhz,
        ]
        .map(cell),
    );
    row.push(reasons(gpu));
    row
}

/// The source, the devices it covers, and what went wrong.
fn about(gpus: &GpusUsage) -> String {
    let mut about = format!(
        "From {}, every {} s: {}. Energy is the area under the readings of power within the window. They explain the measurement and are no part of it.",
        gpus.source,
        number(gpus.interval_s),
        gpus.population,
    );
    let mut drivers: Vec<&str> = gpus.devices.iter().filter_map(|gpu| gpu.driver.as_deref()).collect();
    drivers.sort_unstable();
    drivers.dedup();
    if !drivers.is_empty() {
        let _ = write!(about, " Driver {}.", drivers.join(", "));
    }
    if gpus.malformed > 0 {
        let first = gpus.first_malformed.as_deref().unwrap_or_default();
        let _ = write!(about, " {} lines were not understood; the first: {first}.", number(gpus.malformed as f64));
    }
    for note in &gpus.notes {
        let _ = write!(about, " {note}.");
    }
    about
}

fn reasons(gpu: &GpuUsage) -> String {
    let Some(reasons) = &gpu.throttle_reasons else { return "n/a".to_owned() };
    let seen: Vec<String> =
        reasons.iter().map(|(name, share)| format!("{} {}", name.replace('_', " "), percent(*share))).collect();
    if seen.is_empty() { "nothing".to_owned() } else { format!("{} of readings", seen.join(", ")) }
}

fn plots(series: &BTreeMap<String, Vec<(f64, f64)>>) -> Vec<String> {
    let mut plots = Vec::new();
    for (key, title) in CURVES {
        let of = series.iter().filter_map(|(name, line)| Some((name.strip_prefix(key)?, line)));
        for (gpu, line) in of.take(PICTURES) {
            // The picture begins with the run.
            let points: Vec<(f64, f64)> = line.iter().copied().filter(|(at, _)| *at >= 0.0).collect();
            let title = format!("{title}{gpu}");
            let top = key.starts_with("utilization").then_some(100.0);
            let across = "seconds from the start";
            plots.extend(Plot { title: &title, across, points: &points, top, marks: &[], is_sampled: true }.draw());
        }
    }
    plots
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_gpu_has_a_row_and_what_it_does_not_tell_is_not_made_up() {
        let gpus = json!({
            "source": "nvidia-smi", "population": "the GPUs leased to the servers under test", "window": "full", "interval_s": 0.5,
            "malformed": 2, "first_malformed": "oops", "notes": ["nvidia-smi ended early"],
            "energy_j": 1050.0, "mean_power_w": 262.5, "tokens_per_joule": 1.9, "tokens_per_joule_is": "tokens / energy",
            "devices": [
                { "index": 0, "uuid": "GPU-a", "name": "NVIDIA H200", "driver": "570.86", "covered_s": 4.0, "energy_j": 1050.0,
                  "mean_power_w": 262.5, "max_power_w": 300.0, "throttle_reasons": { "sw_power_cap": 0.75 } },
                { "index": 1, "uuid": "GPU-b", "driver": "570.86", "covered_s": 0.0, "throttle_reasons": {} },
            ],
            "series": { "power W of 0": [[-1.0, 90.0], [0.5, 100.0], [1.0, 300.0]], "power W of 1": [[0.0, 1.0]] },
        });
        let block = section(&serde_json::from_value(gpus).unwrap());
        for text in [
            "From nvidia-smi, every 0.5 s",
            "Driver 570.86.",
            "2 lines were not understood; the first: oops",
            "ended early",
        ] {
            assert!(block.about.contains(text), "{text}: {}", block.about);
        }
        assert_eq!(block.rows[0][..4], ["0 NVIDIA H200", "262", "300", "1,050"]);
        assert_eq!(block.rows[0].last().map(String::as_str), Some("sw power cap 75 % of readings"));
        assert_eq!((block.rows[1][0].as_str(), block.rows[1][1].as_str()), ("1 GPU-b", "n/a"));
        assert_eq!(block.rows[1].last().map(String::as_str), Some("nothing"));
        assert_eq!(block.facts[2], ["tokens per joule", "1.9", "tokens / energy"]);
        assert!(block.plots.len() == 1 && block.plots[0].contains("Power in W, GPU 0"), "{}", block.plots.len());
    }
}
