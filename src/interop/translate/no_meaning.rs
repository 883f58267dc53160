//! Programs around a benchmark that do nothing here: why, and what to do instead.

use crate::command_line::translation::{Translation, TranslationBuilder, TranslationKind};
use crate::command_line::translation_error::TranslationError;

/// Programs, and the sentence on them.
#[rustfmt::skip]
const PROGRAMS: &[(&[&str], &str, &str)] = &[
    (&["cd", "pushd", "popd", "mkdir", "ls", "pwd"], "folders", "each stage has a folder of its own, and its inputs are absolute paths: nothing is to be made or entered"),
    (&["rm", "rmdir", "mv"], "files", "outputs are replaced when what they are made of changes; `regatta gc` removes old ones"),
    (&["cp", "ln", "rsync", "scp", "tar", "unzip"], "files", "files of a checkpoint or a repository are inputs of their stage, by path; other copying is a `shell` stage"),
    (&["pkill", "kill", "killall"], "the end of servers", "servers end with the stages that need them, also when a run is stopped"),
    (&["sleep", "wait", "until", "while", "for", "if", "case"], "waiting", "stages wait for each other, and for servers that a stage starts until they are ready; for others a benchmark waits as long as its `ready_timeout` says"),
    (&["pip", "pip3", "uv", "conda", "apt", "apt-get", "yum", "dnf", "python", "python3"], "an installation", "no client is needed: `regatta` speaks to the servers itself; `regatta doctor MANIFEST` shows what the machine lacks"),
    (&["git-lfs"], "large files", "`lfs: true` of a `git` stage, or a `weights` stage, fetches them"),
    (&["wget"], "a download", "the files of a checkpoint come by a `weights` stage, which checks every one: `weights: { hf: ORGANIZATION/MODEL }`"),
    (&["huggingface-cli", "hf"], "a download", "a `weights` stage downloads a checkpoint and checks every file: `weights: { hf: ORGANIZATION/MODEL, revision: COMMIT }`"),
    (&["echo", "printf", "cat", "head", "tail", "tee", "less", "grep", "jq", "set", "alias", "ulimit", "date", "true", "which", "test", "[", "exit"], "text", "it changes nothing that is measured; a run prints its progress, and `regatta status` and `regatta logs` show more"),
    (&["benchmark_serving_structured_output.py"], "structured output", "whether answers keep to a schema is not checked; the same load is that of `vllm bench serve`, whose lines are imported"),
    (&["multi-round-qa.py"], "conversations", "users that ask one question after the other are `bench.sessions`, with `turn_delay` between the turns and `prefixes` that they share"),
    (&["mlcr", "mlc"], "MLCommons' automation", "it builds and starts a benchmark by its tags; the same workloads are manifests: `regatta run WORKLOAD`, and lines of NVIDIA's harness, `make run_harness RUN_ARGS=…`, are imported"),
    (&["source", "."], "another script", "import that file, too: `regatta import FILE`"),
    (&["bash", "sh"], "another script", "import that file, too: `regatta import FILE`"),
    (&["tmux", "screen", "disown"], "the terminal", "a run that was cut off is continued by the same command; with `--on slurm` it needs no terminal"),
    (&["scancel", "squeue", "sinfo", "scontrol", "sacct"], "Slurm's queue", "`regatta status` shows the jobs of a run, and Ctrl-C ends them"),
];

/// The sentence on a program; none where it is not known.
pub(super) fn no_meaning(name: &str) -> Option<Result<Translation, TranslationError>> {
    let (_, tool, why) = PROGRAMS.iter().find(|(names, _, _)| names.contains(&name))?;
    Some(
        TranslationBuilder::default()
            .finish(tool, TranslationKind::Nothing(format!("`{name}` has no meaning here: {why}"))),
    )
}
