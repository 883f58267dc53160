//! The GPUs of published systems: what an engine is built for. Only the simulator calculates with their numbers.

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Part of a system's name, and the file with the numbers of its GPU. Longer names stand before those that they contain.
#[rustfmt::skip]
const GPUS: [(&str, &str); 13] = [
    ("RTX-PRO-6000", include_str!("../../../manifests/gpus/rtx-pro-6000-96gb.yaml")),
    ("GB300", include_str!("../../../manifests/gpus/gb300-288gb.yaml")),
    ("GB200", include_str!("../../../manifests/gpus/gb200-186gb.yaml")),
    ("GH200-144GB", include_str!("../../../manifests/gpus/gh200-144gb.yaml")),
    ("GH200", include_str!("../../../manifests/gpus/gh200-96gb.yaml")),
    ("B300", include_str!("../../../manifests/gpus/b300-sxm-270gb.yaml")),
    ("B200", include_str!("../../../manifests/gpus/b200-sxm-180gb.yaml")),
    ("H200-NVL", include_str!("../../../manifests/gpus/h200-nvl-141gb.yaml")),
    ("H200", include_str!("../../../manifests/gpus/h200-sxm-141gb.yaml")),
    ("H100-NVL", include_str!("../../../manifests/gpus/h100-nvl-94gb.yaml")),
    ("H100NVL", include_str!("../../../manifests/gpus/h100-nvl-94gb.yaml")),
    ("H100", include_str!("../../../manifests/gpus/h100-sxm-80gb.yaml")),
    ("L40S", include_str!("../../../manifests/gpus/l40s-48gb.yaml")),
];

/// A file of `manifests/gpus`.
#[derive(Deserialize)]
struct GpuFile {
    vars: GpuVars,
}

#[derive(Deserialize)]
struct GpuVars {
    gpu: Map<String, Value>,
}

/// `engine.system` of a system's name; none where the GPU or the number is not in it.
pub(super) fn machine(system: &str) -> Option<Value> {
    let name = system.to_uppercase().replace('_', "-");
    let (_, text) = GPUS.into_iter().find(|(part, _)| name.contains(part))?;
    let digits = name.rsplit('X').next().filter(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()));
    let gpus: u32 = digits.and_then(|n| n.parse().ok()).filter(|n| *n > 0)?;
    let mut machine = Map::from_iter([("name".to_owned(), json!(system)), ("gpus".to_owned(), json!(gpus))]);
    machine.extend(numbers(text).into_iter().filter(|(key, _)| key != "name"));
    Some(Value::Object(machine))
}

fn numbers(text: &str) -> Map<String, Value> {
    let file: GpuFile = serde_yaml::from_str(text).expect("a shipped file is well-formed; a test reads them all");
    file.vars.gpu
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
        assert_eq!(gpus("GH200-GraceHopper-Superchip_GH200-96GB_aarch64x1"), Some((1, 96.0)));
        assert_eq!(gpus("XE9680L_H200_SXM_141GBX8"), Some((8, 141.0)));
        assert_eq!(gpus("HPE_PROLIANT_DL380A_RTX_PRO_6000_PCIE_96GBx8"), Some((8, 96.0)));
        assert_eq!((gpus("TPUx8"), gpus("H100")), (None, None));
    }

    #[test]
    fn every_gpu_has_its_numbers() {
        for (part, text) in GPUS {
            let gpu = numbers(text);
            for number in ["memory_gb", "bandwidth_gbs", "link_gbs", "tflops_16bit"] {
                assert!(gpu[number].as_f64().is_some_and(|number| number > 0.0), "{part}: {number}");
            }
        }
    }
}
