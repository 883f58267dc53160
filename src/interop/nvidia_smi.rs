//! `nvidia-smi -lgc MIN,MAX`: the clocks of a stage's GPUs.

use serde_json::{Value, json};

use crate::command_line::{TranslationBuilder, TranslationResult, idle_command};

/// The value of a stage's `gpu_clocks`, if the line locks clocks.
pub(crate) fn gpu_clocks(arguments: &[String], is_root: bool) -> Option<Value> {
    let at = arguments.iter().position(|word| word.starts_with("-lgc") || word.starts_with("--lock-gpu-clocks"))?;
    let text = match arguments[at].split_once('=') {
        Some((_, text)) => text,
        None => arguments.get(at + 1)?,
    };
    let (least, greatest) = text.split_once(',').unwrap_or((text, text));
    let clocks = [least.trim().parse::<u32>().ok()?, greatest.trim().parse::<u32>().ok()?];
    Some(if is_root { json!({"graphics": clocks, "sudo": true}) } else { json!({"graphics": clocks}) })
}

/// Alone it changes the machine, which a stage does for its own time only.
pub(crate) fn translate(arguments: &[String]) -> TranslationResult {
    const SETTINGS: &str =
        "-pl --power-limit -ac --applications-clocks -lmc --lock-memory-clocks -mig --multi-instance-gpu";
    let Some(clocks) = gpu_clocks(arguments, false) else {
        let is_setting = |word: &&String| SETTINGS.split(' ').any(|name| word.split('=').next() == Some(name));
        let setting = arguments.iter().find(is_setting);
        return setting.map_or_else(
            || idle_command("nvidia-smi", "nvidia-smi *"),
            |setting| {
                let text = format!(
                    "cannot translate `nvidia-smi {setting}`: it changes the GPUs for everybody on the machine; run it \
                    before the benchmark"
                );
                TranslationBuilder::nothing("nvidia-smi", text)
            },
        );
    };
    let text = format!(
        "cannot translate `nvidia-smi -lgc` alone: `gpu_clocks: {{ graphics: {} }}` of a stage locks the clocks while \
        it runs, and unlocks them at its end",
        clocks["graphics"]
    );
    TranslationBuilder::nothing("nvidia-smi", text)
}
