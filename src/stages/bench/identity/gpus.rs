//! The servers' GPUs as telemetry saw them during the measurement; equal ones (model, driver, memory, limits) are counted together.

use harness::GpuIdentity;
use harness::gpu::GpusUsage;

pub fn of(gpus: &GpusUsage) -> Vec<GpuIdentity> {
    let mut all: Vec<GpuIdentity> = Vec::new();
    for device in &gpus.devices {
        let one = GpuIdentity {
            name: device.name.clone(),
            count: 1,
            driver: device.driver.clone(),
            cuda: gpus.cuda.clone(),
            memory_total_mib: device.memory_total_mib,
            limits: device.limits,
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
