//! Instance groups: where copies of a model run, and how many.

use super::ModelChecker;
use crate::pbtxt::PbtxtStep;
use crate::proto::inference::model_instance_group::Kind;

pub(super) fn check(look: &mut ModelChecker<'_>, machine: Option<u32>) {
    let model = look.model;
    let own = PbtxtStep::Name("instance_group");
    if look.is_ensemble() {
        return;
    }
    for (index, group) in model.config.instance_group.iter().enumerate() {
        let way = |field: &'static str| [own, PbtxtStep::Nth(index), PbtxtStep::Name(field)];
        if group.count < 0 {
            let hint = "1 or more; the server silently takes 1 for it".to_owned();
            look.error(&way("count"), format!("an instance group of {} instances", group.count), Some(hint));
        }
        if group.kind() == Kind::Cpu && !group.gpus.is_empty() {
            let hint = "take `gpus` away, or write KIND_GPU".to_owned();
            look.error(&way("gpus"), "a group on the CPU has no GPUs", Some(hint));
        }
        for (nth, gpu) in group.gpus.iter().enumerate() {
            let way = [own, PbtxtStep::Nth(index), PbtxtStep::Name("gpus"), PbtxtStep::Nth(nth)];
            if *gpu < 0 {
                look.error(&way, format!("{gpu} is no GPU"), None);
            } else if let Some(machine) = machine.filter(|machine| *gpu as u32 >= *machine) {
                look.error(&way, format!("there is no GPU {gpu}: the machine has {machine}"), None);
            }
        }
        if model.config.backend == "tensorrtllm" && group.kind() != Kind::Cpu {
            let hint = "write KIND_CPU; the GPUs stand in the parameter `gpu_device_ids`".to_owned();
            look.warn(&way("kind"), "TensorRT-LLM places its engines itself, not by instance groups", Some(hint));
        }
    }
}
