//! `srun`, `sbatch` and the `#SBATCH` lines of a job's script: the settings of `--on slurm`, or of a stage with `host: slurm`.

use serde_json::{Map, Value, json};

use crate::interop::command_line::options::{Opt, ParsedLine, flag, one, read, read_front};
use crate::interop::command_line::translation::{TranslateInner, Translation, TranslationBuilder, TranslationKind};
use crate::interop::command_line::translation_error::TranslationError;

#[rustfmt::skip]
static TABLE: &[Opt] = &[
    one(&["--mpi"]), one(&["--account", "-A"]), one(&["--partition", "-p"]), one(&["--nodes", "-N"]), one(&["--ntasks", "-n"]), one(&["--ntasks-per-node", "--tasks-per-node"]), one(&["--time", "-t"]),
    one(&["--gpus"]), one(&["--gpus-per-node"]), one(&["--gpus-per-task"]), one(&["--gres"]), one(&["--cpus-per-task", "-c"]), one(&["--mem"]), flag(&["--exclusive"]), one(&["--job-name", "-J"]), one(&["--output", "-o"]), one(&["--error", "-e"]),
    one(&["--container-image"]), one(&["--container-workdir"]), one(&["--container-mounts"]), one(&["--container-name"]), one(&["--container-env"]), flag(&["--no-container-mount-home"]), flag(&["--container-writable"]), flag(&["--container-mount-home"]),
    one(&["--reservation"]), one(&["--qos", "-q"]), one(&["--constraint", "-C"]), one(&["--nodelist", "-w"]), one(&["--exclude", "-x"]), one(&["--dependency", "-d"]), one(&["--export"]), one(&["--chdir", "-D"]), one(&["--comment"]),
    flag(&["--oversubscribe", "-s"]), flag(&["--overlap"]), flag(&["--pty"]), flag(&["--unbuffered", "-u"]), flag(&["--label", "-l"]), flag(&["--wait"]), flag(&["--parsable"]), flag(&["--kill-on-bad-exit", "-K"]), one(&["--cpu-bind"]), one(&["--segment"]), one(&["--switches"]),
];

/// Slurm's options and the keys of `host: slurm`.
const KEYS: [(&str, &str); 9] = [
    ("--account", "account"),
    ("--partition", "partition"),
    ("--nodes", "nodes"),
    ("--time", "time"),
    ("--reservation", "reservation"),
    ("--qos", "qos"),
    ("--constraint", "constraint"),
    ("--nodelist", "nodelist"),
    ("--exclude", "exclude"),
];

/// What starts a command's tasks is what a stage's servers do themselves.
pub(in crate::interop) fn srun(words: &[String], inner: TranslateInner<'_>) -> Result<Translation, TranslationError> {
    let mut sheet = TranslationBuilder::default();
    let line = read_front("srun", TABLE, words, &mut sheet);
    if line.behind.is_empty() {
        sheet.push_error("`srun` needs a command");
        return sheet.finish("srun", TranslationKind::Nothing(String::new()));
    }
    let mut translation = inner(&line.behind)?;
    let mut container = Map::new();
    if let Some(image) = line.value("--container-image") {
        container.insert("image".to_owned(), json!(image));
        if let Some(mounts) = line.value("--container-mounts") {
            container.insert("mounts".to_owned(), json!(mounts.split(',').collect::<Vec<_>>()));
        }
    }
    if let TranslationKind::Manifest(manifest) = &mut translation.kind
        && let Some(Value::Object(stages)) = manifest.get_mut("stages")
    {
        for stage in stages.values_mut().filter_map(Value::as_object_mut) {
            if !container.is_empty() {
                stage.insert("container".to_owned(), Value::Object(container.clone()));
            }
            under_slurm(stage, &line);
        }
    }
    let settings = settings(&line);
    if !settings.is_empty() {
        sheet.note(format!("Slurm's settings are given with the run: `regatta run … --on slurm {settings}`"));
    }
    if line.has("--mpi") {
        sheet.note("inside a job ranks are started by `srun --mpi=pmix`: `regatta plan FILE --launch` prints the line");
    }
    left(&line, &mut sheet);
    sheet.absorb("srun", &mut translation);
    sheet.finish(translation.tool, translation.kind)
}

/// A launcher's own start of ranks, inside a job.
fn under_slurm(stage: &mut Map<String, Value>, line: &ParsedLine) {
    if line.has("--mpi")
        && let Some(Value::Object(server)) = stage.get_mut("serve").and_then(|serve| serve.get_mut("triton"))
    {
        server.entry("launcher").or_insert_with(|| json!("srun"));
    }
}

/// `sbatch X.sub`
pub(in crate::interop) fn sbatch(name: &str, words: &[String]) -> Result<Translation, TranslationError> {
    let tool = "sbatch";
    let mut sheet = TranslationBuilder::default();
    let line = read_front(tool, TABLE, words, &mut sheet);
    left(&line, &mut sheet);
    let settings = settings(&line);
    let options = if settings.is_empty() { String::new() } else { format!(" {settings}") };
    let text = match line.behind.first() {
        Some(script) if script.ends_with("launch.sh") => format!(
            "`{name} {script}` has no meaning here: it is the recipe's own job; `regatta run llama3.3-70b --on slurm{options}` measures the same in one allocation"
        ),
        Some(script) => format!(
            "`{name} {script}` has no meaning here: import the script, `regatta import {script} > manifests/job.yaml`, and run that: `regatta run job --on slurm{options}`"
        ),
        None => format!(
            "`{name}` has no meaning here: `regatta run MANIFEST --on slurm{options}` takes an allocation and runs in it"
        ),
    };
    sheet.finish(tool, TranslationKind::Nothing(text))
}

/// As `--slurm` takes them.
fn settings(line: &ParsedLine) -> String {
    let found = KEYS.iter().filter_map(|(option, key)| Some(format!("--slurm {key}={}", line.value(option)?)));
    found.collect::<Vec<_>>().join(" ")
}

fn left(line: &ParsedLine, sheet: &mut TranslationBuilder) {
    for given in &line.given {
        let why = match given.name {
            "--output" | "--error" | "--unbuffered" | "--label" => "each task's output is kept: `regatta logs TASK`",
            "--job-name" | "--comment" => "jobs are named by their run and task",
            "--ntasks" | "--ntasks-per-node" | "--gpus" | "--gpus-per-node" | "--gpus-per-task" | "--gres"
            | "--cpus-per-task" => "tasks and GPUs follow from what the stages lease",
            "--container-workdir" | "--chdir" => "a stage's programs run in its own folder",
            "--container-name"
            | "--container-env"
            | "--container-writable"
            | "--container-mount-home"
            | "--no-container-mount-home" => "`container.args` of the stage passes it on",
            "--export" => "a stage has `env` and `secrets`",
            "--dependency" => "stages wait for each other",
            "--pty" => "a stage has no terminal",
            "--mem" | "--exclusive" | "--cpu-bind" | "--segment" | "--switches" | "--overlap" | "--wait"
            | "--parsable" | "--kill-on-bad-exit" => "it is no key of `host: slurm`; an `SBATCH_…` variable applies",
            _ => continue,
        };
        sheet.push_untranslated(given.as_written(), why);
    }
}

/// A sentence on the `#SBATCH` lines of a script; none where it has none.
pub(in crate::interop) fn directives(text: &str) -> Option<String> {
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix("#SBATCH "));
    let words: Vec<String> = lines
        .flat_map(|line| {
            let line = without_placeholder(line);
            shlex::split(&line).unwrap_or_else(|| line.split_whitespace().map(str::to_owned).collect())
        })
        .collect();
    if words.is_empty() {
        return None;
    }
    let mut sheet = TranslationBuilder::default();
    let line = read("#SBATCH", TABLE, &words, &mut sheet);
    let settings = settings(&line);
    let settings = if settings.is_empty() { String::new() } else { format!(" {settings}") };
    Some(format!("it is a job of Slurm: `regatta run FILE --on slurm{settings}`"))
}

/// `-A <your account>` with `…` for the page's placeholder.
fn without_placeholder(line: &str) -> String {
    match (line.find('<'), line.rfind('>')) {
        (Some(from), Some(to)) if from < to => format!("{}…{}", &line[..from], &line[to + 1..]),
        _ => line.to_owned(),
    }
}
