//! Memory that ran out in a step: what is known of it, which numbers of an engine's build stand on the command line
//! (`--max-batch-size=640`), and what of them to lower, and to what.

use std::ffi::OsStr;

use serde_json::Value;

use super::TaskContext;
use base::event::{Failure, MemoryKind, OutOfMemory, ReducedSetting};
use exec::process::{self, ExitKind};
use plan::manifest::model::{Engine, EngineBackend};

/// How many of the last lines are searched for a cause: a server prints the cause, and then a page of tables.
pub const LINES_SEARCHED: usize = 400;
/// signal(7), and what a shell or a container makes of it.
const SIGKILL: i32 = 9;
const KILLED: i32 = 137;

pub const fn is_killed(how: ExitKind) -> bool {
    matches!(how, ExitKind::Signal(SIGKILL) | ExitKind::Code(KILLED))
}

/// What a command's end shows about memory: of the GPU's, or of the host's. `value`: of the number that its rule
/// lowers.
pub fn ran_out(context: &TaskContext, how: ExitKind, value: Option<f64>) -> Option<OutOfMemory> {
    if matches!(how, ExitKind::Stopped | ExitKind::Code(0)) {
        return None;
    }
    let far = context.log.tail(LINES_SEARCHED);
    Some(OutOfMemory { of: process::exhausted_memory(&far, is_killed(how))?, value })
}

/// What trtllm-build takes without a flag.
fn default(flag: &str) -> Option<f64> {
    match flag {
        "max_batch_size" => Some(2048.0),
        "max_num_tokens" => Some(8192.0),
        _ => None,
    }
}

/// A number of an engine's build.
pub fn flag(engine: &Engine, name: &str) -> Option<f64> {
    match engine.build_flags.get(name) {
        Some(Value::String(text)) => text.parse().ok(),
        Some(value) => value.as_f64(),
        None => default(name),
    }
}

/// The engine with the setting reduced. A whole one stays whole.
pub fn lower(engine: &Engine, lowered: &ReducedSetting) -> Engine {
    let mut engine = engine.clone();
    let to = lowered.to;
    let value = if to.fract() == 0.0 { Value::from(to as i64) } else { Value::from(to) };
    engine.build_flags.insert(lowered.setting.clone(), value);
    engine
}

/// Adds to the failure of an engine's build what to lower. `quantized`: it was the first command that failed.
pub fn explain(mut failure: Failure, context: &TaskContext, engine: &Engine, quantized: bool) -> Failure {
    let Some(memory) = &mut failure.out_of_memory else { return failure };
    let rule = context.lease.task.retry.as_ref().and_then(|rule| rule.lower.as_ref());
    memory.value = rule.and_then(|rule| flag(engine, &rule.setting));
    if quantized && memory.of == MemoryKind::Gpu && engine.backend == EngineBackend::TensorrtLlm {
        failure.hint = Some(loading(engine, context.lease.gpus.len()));
    }
    failure
}

/// quantize.py and convert_checkpoint.py hold the whole model in 16 bits.
fn loading(engine: &Engine, gpus: usize) -> String {
    let (weights, one) = (engine.model.parameters as f64 * 2.0 / 1e9, engine.system.memory_gb);
    // A tenth for activations and calibration.
    let needed = (weights * 1.1 / one).ceil().max(1.0);
    format!(
        "the whole model in 16 bits is {weights:.1} GB ({} parameters × 2 bytes), a GPU has {one:.1} GB, and {gpus} \
        are leased: \
         `gpus: {needed}` on this stage, or `device: cpu` under `checkpoint_flags`\n\
         a smaller `calib_batch_size` takes less memory in addition to the weights",
        engine.model.parameters
    )
}

/// Where an option's number is: in the option's own argument after the `=`, or in the next argument.
fn place<S: AsRef<OsStr>>(words: &[S], name: &str) -> Option<(usize, usize)> {
    let same = |option: &str| option.replace('-', "_") == name.replace('-', "_");
    for (at, word) in words.iter().enumerate() {
        let Some(option) = word.as_ref().to_str().and_then(|word| word.strip_prefix("--")) else { continue };
        match option.split_once('=') {
            Some((option, value)) if same(option) && value.parse::<f64>().is_ok() => {
                return Some((at, 2 + option.len() + 1));
            }
            None if same(option) => {
                let next = words.get(at + 1)?.as_ref().to_str()?;
                return next.parse::<f64>().is_ok().then_some((at + 1, 0));
            }
            _ => {}
        }
    }
    None
}

/// The number of an option, whether its name is written with `_` or with `-`.
pub fn value<S: AsRef<OsStr>>(words: &[S], name: &str) -> Option<f64> {
    let (at, from) = place(words, name)?;
    words[at].as_ref().to_str()?.get(from..)?.parse().ok()
}

/// Replaces the option's number with the lowered one; false if the option is missing.
pub fn lower_option(words: &mut [String], lowered: &ReducedSetting) -> bool {
    let Some((at, from)) = place(words, &lowered.setting) else { return false };
    words[at].replace_range(from.., &lowered.to.to_string());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_and_lowered_in_every_spelling() {
        for (line, after) in [
            ("serve --kv_cache_free_gpu_mem_fraction 0.95 x", "serve --kv_cache_free_gpu_mem_fraction 0.9 x"),
            ("serve --kv-cache-free-gpu-mem-fraction=.95", "serve --kv-cache-free-gpu-mem-fraction=0.9"),
        ] {
            let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(value(&words, "kv_cache_free_gpu_mem_fraction"), Some(0.95));
            let lowered = ReducedSetting { setting: "kv_cache_free_gpu_mem_fraction".to_owned(), from: 0.95, to: 0.9 };
            assert!(lower_option(&mut words, &lowered));
            assert_eq!(words.join(" "), after);
        }
        let words = ["a", "--tp", "x", "--b"];
        assert_eq!((value(&words, "tp"), value(&words, "b"), value(&words, "c")), (None, None, None));
    }
}
