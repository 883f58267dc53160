//! The GPUs of the servers, counted by model, from what telemetry found beside the measurement.

use crate::harness::GpuIdentity;
use crate::harness::gpu::Gpus;

pub fn of(gpus: &Gpus) -> Vec<GpuIdentity> {
    let mut all: Vec<GpuIdentity> = Vec::new();
    for device in &gpus.devices {
        let one = GpuIdentity {
            name: device.name.clone(),
            count: 1,
            driver: device.driver.clone(),
            cuda: gpus.cuda.clone(),
            memory_total_mib: device.memory_total_mib,
            power_limit_w: device.power_limit_w,
            max_sm_clock_mhz: device.max_sm_clock_mhz,
            max_memory_clock_mhz: device.max_memory_clock_mhz,
            population: gpus.population.clone(),
            source: gpus.source.clone(),
        };
        match all.iter_mut().find(|known| GpuIdentity { count: 1, ..(**known).clone() } == one) {
            Some(known) => known.count += 1,
            None => all.push(one),
        }
    }
    all
}
