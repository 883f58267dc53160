//! The GPUs of published systems: what an engine is built for. From data sheets; only the simulator calculates with them.

use serde_json::{Value, json};

/// Part of a system's name, memory in GB, bandwidth in GB/s, dense peak at 16 bits in Tflop/s.
#[rustfmt::skip]
const GPUS: [(&str, f64, f64, f64); 12] = [
    ("GB300", 279.0, 8000.0, 2500.0),
    ("GB200", 186.0, 8000.0, 2500.0),
    ("GH200-144GB", 144.0, 4900.0, 989.0),
    ("GH200", 96.0, 4000.0, 989.0),
    ("B300", 270.0, 8000.0, 2250.0),
    ("B200", 180.0, 8000.0, 2250.0),
    ("H200-NVL", 141.0, 4800.0, 835.0),
    ("H200", 141.0, 4800.0, 989.0),
    ("H100-NVL", 94.0, 3900.0, 835.0),
    ("H100NVL", 94.0, 3900.0, 835.0),
    ("H100", 80.0, 3350.0, 989.0),
    ("L40S", 48.0, 864.0, 362.0),
];

/// `engine.system` of a system's name; none where the GPU or the number is not in it.
pub(super) fn machine(system: &str) -> Option<Value> {
    let name = system.to_uppercase().replace('_', "-");
    let (_, memory, bandwidth, tflops) = GPUS.into_iter().find(|(part, ..)| name.contains(part))?;
    let digits = name.rsplit('X').next().filter(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()));
    let gpus: u32 = digits.and_then(|n| n.parse().ok()).filter(|n| *n > 0)?;
    Some(json!({"name": system, "gpus": gpus, "memory_gb": memory, "bandwidth_gbs": bandwidth, "tflops_16bit": tflops}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_are_known_by_their_names() {
        let gpus = |system: &str| {
            machine(system).map(|found| (found["gpus"].as_u64().unwrap(), found["memory_gb"].as_f64().unwrap()))
        };
        assert_eq!(gpus("H200-SXM-141GBx8"), Some((8, 141.0)));
        assert_eq!(gpus("GB200-NVL72_GB200-186GB_aarch64x4"), Some((4, 186.0)));
        assert_eq!(gpus("GH200_144GB_ARMx2"), Some((2, 144.0)));
        assert_eq!(gpus("XE9680L_H200_SXM_141GBX8"), Some((8, 141.0)));
        assert_eq!((gpus("TPUx8"), gpus("H100")), (None, None));
    }
}
