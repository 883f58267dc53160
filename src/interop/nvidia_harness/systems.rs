//! Systems: their names as NVIDIA, `nvidia-smi` and Regatta have them, and the data sheets of the GPUs that an engine
//! is built for.

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The name of a file of `manifests/gpus`, and its text.
macro_rules! sheet {
    ($file:literal) => {
        ($file, include_str!(concat!("../../../manifests/gpus/", $file)))
    };
}

/// Part of a system's name, and the file with the numbers of its GPU, which only the simulator calculates with. Longer
/// names stand before those that they contain.
const DATA_SHEETS: [(&str, (&str, &str)); 13] = [
    ("RTX-PRO-6000", sheet!("rtx-pro-6000-96gb.yaml")),
    ("GB300", sheet!("gb300-288gb.yaml")),
    ("GB200", sheet!("gb200-186gb.yaml")),
    ("GH200-144GB", sheet!("gh200-144gb.yaml")),
    ("GH200", sheet!("gh200-96gb.yaml")),
    ("B300", sheet!("b300-sxm-270gb.yaml")),
    ("B200", sheet!("b200-sxm-180gb.yaml")),
    ("H200-NVL", sheet!("h200-nvl-141gb.yaml")),
    ("H200", sheet!("h200-sxm-141gb.yaml")),
    ("H100-NVL", sheet!("h100-nvl-94gb.yaml")),
    ("H100NVL", sheet!("h100-nvl-94gb.yaml")),
    ("H100", sheet!("h100-sxm-80gb.yaml")),
    ("L40S", sheet!("l40s-48gb.yaml")),
];

/// A file of `manifests/gpus`.
#[derive(Deserialize)]
struct GpuFile {
    #[serde(default)]
    include: Vec<String>,
    vars: GpuVars,
}

#[derive(Deserialize)]
struct GpuVars {
    gpu: Map<String, Value>,
}

/// `engine.system` of a system's name; none where the GPU or the number is not in it.
pub(super) fn machine(system: &str) -> Option<Value> {
    let name = system.to_uppercase().replace('_', "-");
    let (_, (_, text)) = DATA_SHEETS.into_iter().find(|(part, _)| name.contains(part))?;
    let digits = name.rsplit('X').next().filter(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()));
    let gpus: u32 = digits.and_then(|n| n.parse().ok()).filter(|n| *n > 0)?;
    let mut machine = Map::from_iter([("name".to_owned(), json!(system)), ("gpus".to_owned(), json!(gpus))]);
    machine.extend(numbers(text).into_iter().filter(|(key, _)| key != "name"));
    Some(Value::Object(machine))
}

/// `vars.gpu` of a file of `manifests/gpus` and of those that it includes.
fn numbers(text: &str) -> Map<String, Value> {
    let file: GpuFile = serde_yaml::from_str(text).expect("a shipped file is well-formed; a test reads them all");
    let sheets = DATA_SHEETS.into_iter().filter(|(_, (name, _))| file.include.iter().any(|base| base == name));
    let mut gpu = sheets.map(|(_, (_, base))| numbers(base)).next().unwrap_or_default();
    merge(&mut gpu, file.vars.gpu);
    gpu
}

fn merge(base: &mut Map<String, Value>, over: Map<String, Value>) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Object(base)), Value::Object(over)) => merge(base, over),
            (_, value) => drop(base.insert(key, value)),
        }
    }
}

/// GPUs that systems are named after; longer names before those that they contain.
const GPUS: [&str; 10] = ["rtx-pro-6000", "gb300", "gb200", "gh200", "b300", "b200", "h200", "h100", "l40s", "a100"];

/// Regatta's name for a system of NVIDIA's list: `H200-SXM-141GBx8` is `h200-x8`.
pub(super) fn system_name(id: &str) -> String {
    let lower = id.to_lowercase().replace('_', "-");
    let count =
        lower.rsplit('x').next().filter(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())).unwrap_or("1");
    gpu_name(&lower).map_or_else(|| lower.clone(), |gpu| format!("{gpu}-x{count}"))
}

/// The part of a system's name that is its GPU: `NVIDIA H100 NVL` is `h100-nvl`.
pub fn gpu_name(text: &str) -> Option<String> {
    let lower = text.to_lowercase();
    let gpu = GPUS.into_iter().find(|gpu| lower.contains(gpu))?;
    // NVL72 is a rack; NVL alone is a pair of cards.
    let behind = |part: &str| lower.split(part).nth(1).map(|rest| rest.chars().next());
    let is_pair = behind("nvl").is_some_and(|next| !next.is_some_and(|c| c.is_ascii_digit()));
    let kind = if is_pair {
        "-nvl"
    } else if lower.contains("cts") {
        "-cts"
    } else {
        ""
    };
    Some(format!("{gpu}{kind}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_are_known_by_their_names() {
        let gpus = |system: &str| {
            machine(system).map(|machine| (machine["gpus"].as_u64().unwrap(), machine["memory_gb"].as_f64().unwrap()))
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
        for (part, (_, text)) in DATA_SHEETS {
            let gpu = numbers(text);
            for number in ["memory_gb", "bandwidth_gbs", "link_gbs", "tflops_16bit"] {
                assert!(gpu[number].as_f64().is_some_and(|number| number > 0.0), "{part}: {number}");
            }
        }
    }

    #[test]
    fn systems_have_short_names() {
        for (id, name) in [
            ("H200-SXM-141GBx8", "h200-x8"),
            ("H200-SXM-141GB-CTSx8", "h200-cts-x8"),
            ("H100-NVL-94GBx4", "h100-nvl-x4"),
            ("B200-SXM-180GBx8", "b200-x8"),
            ("GB200-NVL72_GB200-186GB_aarch64x4", "gb200-x4"),
            ("GH200-144GB_aarch64x1", "gh200-x1"),
            ("XE9680L_H200_SXM_141GBX8", "h200-x8"),
            ("C845A_L40Sx8", "l40s-x8"),
            ("HPE_PROLIANT_DL380A_RTX_PRO_6000_PCIE_96GBx8", "rtx-pro-6000-x8"),
            ("mine", "mine"),
        ] {
            assert_eq!(system_name(id), name);
        }
    }

    #[test]
    fn gpus_are_known_by_the_names_that_nvidia_smi_prints() {
        for (text, gpu) in [
            ("NVIDIA H100 80GB HBM3", Some("h100")),
            ("NVIDIA H100 NVL", Some("h100-nvl")),
            ("NVIDIA H200", Some("h200")),
            ("NVIDIA GH200 480GB", Some("gh200")),
            ("NVIDIA GB200", Some("gb200")),
            ("NVIDIA L40S", Some("l40s")),
            ("NVIDIA GeForce RTX 4090", None),
        ] {
            assert_eq!(gpu_name(text).as_deref(), gpu, "{text}");
        }
    }
}
