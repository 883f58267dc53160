//! What stands in front of a program: launchers of ranks, profilers, bindings to processors. A program that a stage
//! starts as it was written keeps them.

use serde_json::{Value, json};

use crate::command_line::program::LAUNCHER;
use crate::command_line::translation::{Translation, TranslationBuilder};

/// Prefixes that a server's own command line keeps.
const KEPT: [&str; 8] = ["nsys", "ncu", "numactl", "taskset", "srun", "mpirun", "mpiexec", LAUNCHER];

/// Those among them that may stand in front of the launcher of a server's ranks.
const BEFORE_LAUNCHERS: [&str; 4] = ["nsys", "ncu", "numactl", "taskset"];

/// What starts vLLM's server where the stage does not say.
const VLLM: [&str; 2] = ["vllm", "serve"];

fn is_kept(prefix: &[String]) -> bool {
    prefix.first().is_some_and(|name| KEPT.contains(&name.as_str()))
}

/// Whether a server has to be started by its own line, which begins with these.
pub(super) fn need_own_line(around: &[Vec<String>]) -> bool {
    around.iter().any(|prefix| is_kept(prefix) && *prefix != [LAUNCHER])
}

/// Those that are kept, as one beginning of a line.
pub(super) fn kept(around: &[Vec<String>]) -> Vec<String> {
    around.iter().filter(|prefix| is_kept(prefix)).flatten().cloned().collect()
}

/// Puts the prefixes in front of the servers that are started by their own line; the others are left, each with the
/// reason.
pub(super) fn keep(around: &[Vec<String>], translation: &mut Translation) {
    let beginning = kept(around);
    let mut has_kept = false;
    let stages = translation.kind.stages_mut().filter(|_| !beginning.is_empty());
    for stage in stages {
        if let Some(Value::Array(words)) = stage.get_mut("serve").and_then(|serve| serve.pointer_mut("/command/words"))
        {
            words.splice(..0, beginning.iter().cloned().map(Value::String));
            has_kept = true;
        }
        if let Some(Value::Object(keys)) = stage.get_mut("serve").and_then(|serve| serve.get_mut("vllm"))
            && let Value::Array(words) = keys.entry("program").or_insert_with(|| json!(VLLM))
        {
            words.splice(..0, beginning.iter().cloned().map(Value::String));
            has_kept = true;
        }
        // Its ranks have launchers of their own.
        if let Some(Value::Object(keys)) = stage.get_mut("serve").and_then(|serve| serve.get_mut("triton")) {
            let kept = around
                .iter()
                .filter(|prefix| prefix.first().is_some_and(|name| BEFORE_LAUNCHERS.contains(&name.as_str())));
            let prefix: Vec<Value> = kept.flatten().cloned().map(Value::String).collect();
            has_kept |= !prefix.is_empty();
            match keys.get_mut("words") {
                Some(Value::Array(words)) => drop(words.splice(..0, prefix)),
                _ if prefix.is_empty() => {}
                _ => {
                    keys.insert("prefix".to_owned(), Value::Array(prefix));
                }
            }
        }
        if let Some(Value::Array(launcher)) = stage.get_mut("trtllm_bench").and_then(|bench| bench.get_mut("launcher"))
        {
            *launcher = beginning.iter().cloned().map(Value::String).collect();
            has_kept = true;
        }
    }
    let mut builder = TranslationBuilder::default();
    for prefix in around.iter().filter(|prefix| !(has_kept && is_kept(prefix))) {
        // `srun` has a note of its own.
        if let Some(name) = prefix.first().filter(|name| *name != "srun") {
            builder.push_untranslated(prefix.join(" "), why(name));
        }
    }
    translation.untranslated.extend(builder.untranslated);
}

fn why(name: &str) -> &'static str {
    match name {
        "nsys" | "ncu" => {
            "it profiles the program behind it, which is not run here; a server of `serve: { command: … }` keeps it"
        }
        "timeout" => "`timeout` of a stage ends it",
        "sudo" => "stages run as the user of the run",
        "nice" => "the priority is that of the run: `nice regatta run …`",
        LAUNCHER => "it starts ranks under MPI or Slurm; here the stage's own program does",
        _ => "stages start their processes themselves, bound to the GPUs they lease",
    }
}
