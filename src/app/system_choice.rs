//! The system of a line that names none: this machine's where it has GPUs, and in any case with a note.

use crate::doctor;
use interop::{SystemNeed, gpu_name};
use plan::manifest::Manifest;

/// A system's name, and why it is this one.
pub(super) struct SystemChoice {
    pub system: String,
    pub note: String,
}

/// What stands before the name of a simulated system.
const SIMULATED: &str = "sim-";

/// The system for a manifest with a parameter `system`. `exists` checks whether the manifest has a system of a name.
pub(super) fn choose_system(
    manifest: &Manifest,
    need: SystemNeed,
    exists: &dyn Fn(&str) -> bool,
) -> Option<SystemChoice> {
    if need == SystemNeed::Default {
        return None;
    }
    let default = manifest.params.get("system")?.value.as_str()?.to_owned();
    Some(choose(&doctor::gpu_names(), &default, need, exists))
}

fn choose(gpus: &[String], default: &str, need: SystemNeed, exists: &dyn Fn(&str) -> bool) -> SystemChoice {
    let machine = match gpus {
        [] => "no GPU was found here (nvidia-smi)".to_owned(),
        [one, ..] => format!("this machine has {} × {one}", gpus.len()),
    };
    if let Some(gpu) = gpus.first().and_then(|name| gpu_name(name)) {
        // The largest of the machine's systems.
        let found = (1..=gpus.len()).rev().map(|count| (count, format!("{gpu}-x{count}"))).find(|(_, it)| exists(it));
        if let Some((count, system)) = found {
            let fewer =
                if count < gpus.len() { format!("; no system of {} is on file", gpus.len()) } else { String::new() };
            return SystemChoice { note: format!("system={system}: {machine}{fewer}"), system };
        }
    }
    let real = default.strip_prefix(SIMULATED).filter(|real| exists(real));
    let lacks = if gpus.is_empty() { "" } else { ", for which there is no system's file" };
    match (need, real) {
        (SystemNeed::Real, Some(real)) => SystemChoice {
            note: format!("system={real}: {machine}{lacks}; of this system are the round, the software and the tuning"),
            system: real.to_owned(),
        },
        (_, Some(real)) => SystemChoice {
            note: format!(
                "system={default} is simulated: {machine}{lacks}, and no argument names a system; write system={real} for the real one"
            ),
            system: default.to_owned(),
        },
        _ => SystemChoice {
            note: format!(
                "system={default} is the manifest's default: {machine}{lacks}, and no argument names a system"
            ),
            system: default.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(gpus: &[&str], need: SystemNeed) -> String {
        let gpus: Vec<String> = gpus.iter().map(|&name| name.to_owned()).collect();
        let exists = |name: &str| ["h200-x8", "h200-x2", "h100-nvl-x2"].contains(&name);
        let choice = choose(&gpus, "sim-h200-x8", need, &exists);
        format!("{} | {}", choice.system, choice.note)
    }

    #[test]
    fn the_machine_decides_and_a_simulated_system_is_never_silent() {
        insta::assert_snapshot!(chosen(&["NVIDIA H200"; 8], SystemNeed::Measured), @"h200-x8 | system=h200-x8: this machine has 8 × NVIDIA H200");
        insta::assert_snapshot!(chosen(&["NVIDIA H200"; 4], SystemNeed::Measured), @"h200-x2 | system=h200-x2: this machine has 4 × NVIDIA H200; no system of 4 is on file");
        insta::assert_snapshot!(chosen(&["NVIDIA H100 NVL"; 2], SystemNeed::Real), @"h100-nvl-x2 | system=h100-nvl-x2: this machine has 2 × NVIDIA H100 NVL");
        insta::assert_snapshot!(chosen(&["NVIDIA RTX 4090"], SystemNeed::Measured), @"sim-h200-x8 | system=sim-h200-x8 is simulated: this machine has 1 × NVIDIA RTX 4090, for which there is no system's file, and no argument names a system; write system=h200-x8 for the real one");
        insta::assert_snapshot!(chosen(&[], SystemNeed::Measured), @"sim-h200-x8 | system=sim-h200-x8 is simulated: no GPU was found here (nvidia-smi), and no argument names a system; write system=h200-x8 for the real one");
        insta::assert_snapshot!(chosen(&[], SystemNeed::Real), @"h200-x8 | system=h200-x8: no GPU was found here (nvidia-smi); of this system are the round, the software and the tuning");
    }
}
