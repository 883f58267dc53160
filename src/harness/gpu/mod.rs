//! What the GPUs of the servers did during the measurement: power, energy, utilization, memory, clocks. Pure.
//!
//! Other modules run `nvidia-smi` or poll a server's `/metrics`; this one defines the queries, parses the output, and
//! computes the figures. A field that a GPU does not report (`[N/A]`, `[Not Supported]`) is absent, never 0. Triton
//! reads its figures from DCGM, and identifies GPUs by UUID.

mod nvidia_smi;
mod usage;

pub use nvidia_smi::{NvidiaSmi, SmiError, SmiReading, cuda_version, versions_query_argv};
pub use usage::summarize;

use std::collections::BTreeMap;
use std::time::Instant;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use triton::{Scrape, since};

/// The population of GPUs that were leased to the servers under test.
pub const LEASED_GPUS: &str = "the GPUs leased to the servers under test";
/// The population where none was leased: which of them the servers use is not known.
pub const HOST_GPUS: &str = "all GPUs of this host, since none was leased to the servers";

/// The population where the servers name the GPUs themselves: Triton reports all GPUs it can see, whether or not its
/// models use them.
pub const REPORTED_GPUS: &str = "GPUs that the servers under test report";

/// Whether this many GPUs of a population are exactly those that the servers use: the leased ones, or the only one of a
/// host. Tokens per GPU are computed only then.
pub fn are_of_servers(population: &str, count: u64) -> bool {
    population == LEASED_GPUS || population == HOST_GPUS && count == 1
}

/// The known facts about a GPU.
#[base::omit_empty]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GpuDevice {
    /// As `nvidia-smi` counts, in the order of the bus; a server's metrics have none.
    pub index: Option<u32>,
    pub uuid: String,
    pub name: Option<String>,
    /// Version of the driver.
    pub driver: Option<String>,
    pub memory_total_mib: Option<f64>,
    #[serde(flatten)]
    pub limits: GpuLimits,
}

/// One GPU at one moment.
#[base::omit_empty]
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GpuReading {
    /// s from the run's start, negative before it.
    pub at_s: f64,
    /// Place in [`GpuTrace::gpus`].
    #[serde(skip)]
    pub gpu: usize,
    pub power_w: Option<f64>,
    /// Per cent of the time in which a kernel ran, of the driver's last sample period.
    pub utilization_percent: Option<f64>,
    pub memory_used_mib: Option<f64>,
    pub temperature_c: Option<f64>,
    pub sm_clock_mhz: Option<f64>,
    pub memory_clock_mhz: Option<f64>,
    /// Why clocks were held down: NVML's mask of reasons.
    pub throttle_mask: Option<u64>,
}

/// Everything that was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuTrace {
    pub gpus: Vec<GpuDevice>,
    /// In the order in which they came.
    pub readings: Vec<GpuReading>,
}

impl GpuTrace {
    /// One JSON object for each GPU at each moment, with what it reported.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.readings.iter().filter_map(|reading| {
            let gpu = self.gpus.get(reading.gpu)?;
            let mut line = serde_json::json!({ "uuid": gpu.uuid });
            if let Some(index) = gpu.index {
                line["index"] = index.into();
            }
            let fields = serde_json::to_value(reading).ok()?;
            line.as_object_mut()?.extend(fields.as_object()?.clone());
            Some(line.to_string())
        })
    }
}

/// The GPUs over the run's window. They help to explain the measurement but are not part of it.
#[base::omit_empty(except(devices, series))]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GpusUsage {
    /// Source: `nvidia-smi`, or a server's `/metrics` (Triton has its numbers from DCGM).
    pub source: String,
    /// Which GPUs these are, and how they were chosen.
    pub population: String,
    /// What power, energy and utilization are of.
    pub window: String,
    pub window_s: f64,
    /// How often they were polled.
    pub interval_s: f64,
    /// Readings of all GPUs, also before and after the window.
    pub readings: u64,
    /// Lines that could not be understood, and the first of them.
    pub malformed: u64,
    pub first_malformed: Option<String>,
    /// What went wrong with the telling.
    pub notes: Vec<String>,
    /// The highest version of CUDA that the driver supports.
    pub cuda: Option<String>,
    pub devices: Vec<GpuUsage>,
    /// Sum over all of them; absent unless every one reported its power.
    pub energy_j: Option<f64>,
    pub mean_power_w: Option<f64>,
    pub tokens_per_joule: Option<f64>,
    /// What is divided by what; or why it is not.
    pub tokens_per_joule_is: String,
    /// (s from the run's start, value), at most 300 points: `power W of 0`, `utilization % of 0`, …
    pub series: BTreeMap<String, Vec<(f64, f64)>>,
}

/// One GPU over the run's window. What it did not report is absent.
#[base::omit_empty]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GpuUsage {
    #[serde(flatten)]
    pub device: GpuDevice,
    /// Readings within the window.
    pub readings: u64,
    /// Part of the window between readings of power; energy is of that part.
    pub covered_s: f64,
    /// Longest time within it without a reading of power: the straight line between its ends is all that is known.
    pub longest_gap_s: Option<f64>,
    /// Trapezoids under the readings of power, ends of the window interpolated.
    pub energy_j: Option<f64>,
    /// Energy over the part that is covered.
    pub mean_power_w: Option<f64>,
    pub max_power_w: Option<f64>,
    pub mean_utilization_percent: Option<f64>,
    pub max_utilization_percent: Option<f64>,
    pub max_memory_used_mib: Option<f64>,
    pub max_temperature_c: Option<f64>,
    pub mean_sm_clock_mhz: Option<f64>,
    pub min_sm_clock_mhz: Option<f64>,
    pub mean_memory_clock_mhz: Option<f64>,
    /// Why clocks were held down, each with its share of the readings; absent where it is not reported.
    pub throttle_reasons: Option<BTreeMap<String, f64>>,
}

/// The settings and the hardware of a GPU. Facts that it did not report are absent.
#[base::omit_empty]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GpuLimits {
    /// The power limit in force, W.
    pub power_limit_w: Option<f64>,
    /// The highest clock of the streaming multiprocessors, MHz.
    pub max_sm_clock_mhz: Option<f64>,
    pub max_memory_clock_mhz: Option<f64>,
}

/// GPUs and readings among everything that was polled; `zero` is the run's start. GPUs that report none of power,
/// utilization and memory are left out.
pub fn served(scrape: &Scrape, zero: Instant) -> GpuTrace {
    let mut trace = GpuTrace::default();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for tick in &scrape.ticks {
        let at_s = since(tick.at, zero);
        let mut now: BTreeMap<usize, GpuReading> = BTreeMap::new();
        for (place, value) in tick.values.iter().flatten().filter(|(_, value)| value.is_finite()) {
            let series = &scrape.series[*place as usize];
            let Some(uuid) = series.labels.get("gpu_uuid") else { continue };
            let gpu = *places.entry(uuid).or_insert_with(|| {
                trace.gpus.push(GpuDevice { uuid: uuid.clone(), ..GpuDevice::default() });
                trace.gpus.len() - 1
            });
            let reading = now.entry(gpu).or_insert_with(|| GpuReading { at_s, gpu, ..GpuReading::default() });
            match series.name.as_str() {
                "nv_gpu_power_usage" => reading.power_w = Some(*value),
                // A fraction of 1.
                "nv_gpu_utilization" => reading.utilization_percent = Some(value * 100.0),
                "nv_gpu_memory_used_bytes" => reading.memory_used_mib = Some(value / MIB),
                "nv_gpu_memory_total_bytes" => trace.gpus[gpu].memory_total_mib = Some(value / MIB),
                _ => {}
            }
        }
        trace.readings.extend(now.into_values());
    }
    let has_values = |reading: &GpuReading| {
        reading.power_w.is_some() || reading.utilization_percent.is_some() || reading.memory_used_mib.is_some()
    };
    if trace.readings.iter().any(has_values) { trace } else { GpuTrace::default() }
}

const MIB: f64 = (1u64 << 20) as f64;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use triton::{MetricKind, MetricSeries, ServerPoll};

    #[test]
    fn a_servers_metrics_tell_of_its_gpus_by_uuid() {
        let begun = Instant::now();
        let series = |name: &str, uuid: &str| MetricSeries {
            key: format!("{name}{{gpu_uuid=\"{uuid}\"}}"),
            name: name.to_owned(),
            labels: BTreeMap::from([("gpu_uuid".to_owned(), uuid.to_owned())]),
            kind: MetricKind::Gauge,
        };
        let tick = |at: u64, values: Vec<(u32, f64)>| ServerPoll {
            round: at as u32,
            server: 0,
            at: begun + Duration::from_secs(at),
            took: Duration::ZERO,
            values: Ok(values),
        };
        let scrape = Scrape {
            series: vec![
                series("nv_gpu_power_usage", "GPU-a"),
                series("nv_gpu_utilization", "GPU-a"),
                series("nv_gpu_memory_used_bytes", "GPU-a"),
                series("nv_gpu_memory_total_bytes", "GPU-a"),
                series("nv_gpu_power_usage", "GPU-b"),
                series("nv_inference_count", "GPU-c"),
            ],
            ticks: vec![
                tick(0, vec![(0, 80.0), (1, 0.5), (2, 1_048_576.0), (3, 2_097_152.0)]),
                tick(1, vec![(0, 90.0), (1, f64::NAN), (4, 70.0)]),
            ],
            ..Scrape::default()
        };
        let trace = served(&scrape, begun + Duration::from_millis(500));
        let uuids: Vec<&str> = trace.gpus.iter().map(|gpu| gpu.uuid.as_str()).collect();
        assert_eq!((uuids, trace.gpus[0].memory_total_mib), (vec!["GPU-a", "GPU-b"], Some(2.0)));
        let first = &trace.readings[0];
        assert_eq!(
            (first.at_s, first.power_w, first.utilization_percent, first.memory_used_mib),
            (-0.5, Some(80.0), Some(50.0), Some(1.0))
        );
        let second: Vec<_> = trace.readings[1..].iter().map(|r| (r.gpu, r.power_w, r.utilization_percent)).collect();
        assert_eq!(second, [(0, Some(90.0), None), (1, Some(70.0), None)]);

        let none = Scrape {
            series: vec![series("nv_inference_count", "GPU-c")],
            ticks: vec![tick(0, vec![(0, 1.0)])],
            ..Scrape::default()
        };
        assert_eq!(served(&none, begun), GpuTrace::default());
    }
}
