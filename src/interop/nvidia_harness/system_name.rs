//! Names of systems: NVIDIA's, `nvidia-smi`'s, and Regatta's.

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
