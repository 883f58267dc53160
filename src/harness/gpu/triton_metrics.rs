//! What a Triton server reports about its GPUs on `/metrics`: it reads them from DCGM, and identifies them by UUID.

use std::collections::BTreeMap;
use std::time::Instant;

use super::{GpuDevice, GpuReading, GpuTrace};
use triton::Scrape;

/// GPUs and readings among everything that was polled; `zero` is the run's start. GPUs that report none of power,
/// utilization and memory are left out.
pub fn served(scrape: &Scrape, zero: Instant) -> GpuTrace {
    let mut trace = GpuTrace::default();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for tick in &scrape.ticks {
        let at_s = match tick.at.checked_duration_since(zero) {
            Some(after) => after.as_secs_f64(),
            None => -zero.duration_since(tick.at).as_secs_f64(),
        };
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
