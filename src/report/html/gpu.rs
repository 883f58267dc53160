//! What the GPUs did meanwhile: a row for each, energy, and curves over time.

use std::fmt::Write as _;

use serde_json::Value;

use super::block::{Block, at, percent, shown, text};
use super::plot::Plot;
use super::svg::number;

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

pub(super) fn read(result: &Value) -> Option<Block> {
    let told = result.get("gpu").filter(|told| told.is_object())?;
    let mut block = Block {
        title: "GPUs",
        about: about(told),
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
        plots: plots(told),
        ..Block::default()
    };
    let window = text(told, "/window").unwrap_or("the run");
    block.fact("energy, J", shown(told, "/energy_j"), format!("of these GPUs; window: {window}"));
    block.fact("mean power, W", shown(told, "/mean_power_w"), "sum over these GPUs, the same window");
    let what = text(told, "/tokens_per_joule_is").unwrap_or_default();
    block.fact("tokens per joule", Some(shown(told, "/tokens_per_joule").unwrap_or_else(|| "n/a".to_owned())), what);
    for gpu in told.get("devices").and_then(Value::as_array).into_iter().flatten() {
        let cell = |path: &str| shown(gpu, path).unwrap_or_else(|| "n/a".to_owned());
        let name = [shown(gpu, "/index"), text(gpu, "/name").or_else(|| text(gpu, "/uuid")).map(str::to_owned)];
        let mut row = vec![name.into_iter().flatten().collect::<Vec<_>>().join(" ")];
        row.extend(
            [
                "/mean_power_w",
                "/max_power_w",
                "/energy_j",
                "/covered_s",
                "/mean_utilization_percent",
                "/max_utilization_percent",
                "/max_memory_used_mib",
                "/memory_total_mib",
                "/max_temperature_c",
                "/mean_sm_clock_mhz",
            ]
            .map(cell),
        );
        row.push(reasons(gpu));
        block.rows.push(row);
    }
    Some(block)
}

/// The source, the devices it covers, and what went wrong.
fn about(told: &Value) -> String {
    let mut about = format!(
        "From {}, every {} s: {}. Energy is the area under the readings of power within the window. They explain the measurement and are no part of it.",
        text(told, "/source").unwrap_or("an unknown source"),
        shown(told, "/interval_s").unwrap_or_default(),
        text(told, "/population").unwrap_or_default(),
    );
    let drivers: Vec<&str> = {
        let devices = told.get("devices").and_then(Value::as_array);
        let mut all: Vec<&str> = devices.into_iter().flatten().filter_map(|gpu| text(gpu, "/driver")).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    if !drivers.is_empty() {
        let _ = write!(about, " Driver {}.", drivers.join(", "));
    }
    if let Some(malformed) = at(told, "/malformed").filter(|malformed| *malformed > 0.0) {
        let first = text(told, "/first_malformed").unwrap_or_default();
        let _ = write!(about, " {} lines were not understood; the first: {first}.", number(malformed));
    }
    for note in told.get("notes").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        let _ = write!(about, " {note}.");
    }
    about
}

fn reasons(gpu: &Value) -> String {
    let Some(reasons) = gpu.get("throttle_reasons").and_then(Value::as_object) else { return "n/a".to_owned() };
    let seen: Vec<String> = reasons
        .iter()
        .filter_map(|(name, share)| Some(format!("{} {}", name.replace('_', " "), percent(share.as_f64()?))))
        .collect();
    if seen.is_empty() { "nothing".to_owned() } else { format!("{} of readings", seen.join(", ")) }
}

fn plots(told: &Value) -> Vec<String> {
    let Some(series) = told.get("series").and_then(Value::as_object) else { return Vec::new() };
    let mut plots = Vec::new();
    for (key, title) in CURVES {
        let of = series.iter().filter_map(|(name, line)| Some((name.strip_prefix(key)?, line)));
        for (gpu, line) in of.take(PICTURES) {
            let points: Vec<(f64, f64)> = line
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|point| Some((point.get(0)?.as_f64()?, point.get(1)?.as_f64()?)))
                // The picture begins with the run.
                .filter(|(at, _)| *at >= 0.0)
                .collect();
            let title = format!("{title}{gpu}");
            let top = key.starts_with("utilization").then_some(100.0);
            let across = "seconds from the start";
            plots.extend(Plot { title: &title, across, points: &points, top, marks: &[], filled: true }.draw());
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
        let block = read(&json!({ "gpu": {
            "source": "nvidia-smi", "population": "the GPUs leased to the servers under test", "window": "full", "interval_s": 0.5,
            "malformed": 2, "first_malformed": "oops", "notes": ["nvidia-smi ended early"],
            "energy_j": 1050.0, "mean_power_w": 262.5, "tokens_per_joule": 1.9, "tokens_per_joule_is": "tokens / energy",
            "devices": [
                { "index": 0, "uuid": "GPU-a", "name": "NVIDIA H200", "driver": "570.86", "covered_s": 4.0, "energy_j": 1050.0,
                  "mean_power_w": 262.5, "max_power_w": 300.0, "throttle_reasons": { "sw_power_cap": 0.75 } },
                { "index": 1, "uuid": "GPU-b", "driver": "570.86", "covered_s": 0.0, "throttle_reasons": {} },
            ],
            "series": { "power W of 0": [[-1.0, 90.0], [0.5, 100.0], [1.0, 300.0]], "power W of 1": [[0.0, 1.0]] },
        }}))
        .expect("a block");
        for said in [
            "From nvidia-smi, every 0.5 s",
            "Driver 570.86.",
            "2 lines were not understood; the first: oops",
            "ended early",
        ] {
            assert!(block.about.contains(said), "{said}: {}", block.about);
        }
        assert_eq!(block.rows[0][..4], ["0 NVIDIA H200", "262", "300", "1,050"]);
        assert_eq!(block.rows[0].last().map(String::as_str), Some("sw power cap 75 % of readings"));
        assert_eq!((block.rows[1][0].as_str(), block.rows[1][1].as_str()), ("1 GPU-b", "n/a"));
        assert_eq!(block.rows[1].last().map(String::as_str), Some("nothing"));
        assert_eq!(block.facts[2], ["tokens per joule", "1.9", "tokens / energy"]);
        assert!(block.plots.len() == 1 && block.plots[0].contains("Power in W, GPU 0"), "{}", block.plots.len());
        assert!(read(&json!({})).is_none());
    }
}
