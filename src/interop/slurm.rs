//! `srun`, `sbatch` and the `#SBATCH` lines of a job's script: the settings of `--on slurm`, or of a stage with
//! `host: slurm`.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::command_line::{
    ParsedLine, ToolTable, TranslateRanks, Translation, TranslationBuilder, TranslationError, TranslationKind,
    assignment, put_container, quantity,
};
use base::spec::Quantity;

pub(crate) static TABLE: LazyLock<ToolTable> =
    LazyLock::new(|| ToolTable::new(&[include_str!("tools/slurm.toml")], &[]));

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

/// Those of the job of a whole run, besides: what its stages lease must be in it.
const KEYS_OF_A_JOB: [(&str, &str); 6] = [
    ("--gpus-per-node", "gpus_per_node"),
    ("--gres", "gres"),
    ("--ntasks-per-node", "tasks_per_node"),
    ("--cpus-per-task", "cpus_per_task"),
    ("--mem", "mem"),
    ("--exclusive", "exclusive"),
];

/// Options without which the job of a whole run is the same: its name, and where its messages go.
const NOT_OF_THE_WORK: [&str; 6] = ["--job-name", "--comment", "--output", "--error", "--mail-type", "--mail-user"];

/// Options that belong to the allocation, or to the terminal of the line: those of a step are the others.
const OF_THE_ALLOCATION: [&str; 18] = [
    "--account",
    "--partition",
    "--time",
    "--exclusive",
    "--job-name",
    "--output",
    "--error",
    "--reservation",
    "--qos",
    "--constraint",
    "--nodelist",
    "--exclude",
    "--dependency",
    "--comment",
    "--pty",
    "--wait",
    "--parsable",
    "--switches",
];

/// One task is what a stage starts itself. A step of several ranks starts a server's own line; Triton's ranks are
/// started by a step of the server's own.
pub(crate) fn srun(words: &[String], inner: TranslateRanks<'_>) -> Result<Translation, TranslationError> {
    let mut builder = TranslationBuilder::default();
    let line = TABLE.read_front("srun", words, &mut builder);
    if line.behind.is_empty() {
        builder.push_error("`srun` needs a command");
        return builder.finish("srun", TranslationKind::Nothing(String::new()));
    }
    let nodes = line.product(&["--nodes"]);
    let per_node = || Some(nodes.clone().times(line.number::<u64>("--ntasks-per-node")?));
    let tasks = line.number::<u64>("--ntasks").or_else(per_node).unwrap_or_else(|| nodes.clone());
    let tasks = tasks.map(|tasks| tasks.max(1));
    let (is_one, is_on_one) = (tasks == Quantity::Known(1), nodes == Quantity::Known(1));
    let step = if is_one { Vec::new() } else { step(&line) };
    let mut translation = inner(&step, &line.behind)?;
    let container = container(&line);
    let mut is_step = false;
    for stage in translation.kind.stages_mut() {
        let has_own_line = |stage: &Map<String, Value>| {
            let server = stage.get("serve").and_then(|serve| serve.pointer("/command/words/0"));
            let vllm = stage.get("serve").and_then(|serve| serve.pointer("/vllm/program/0"));
            let launcher = stage.get("trtllm_bench").and_then(|bench| bench.pointer("/launcher/0"));
            [server, vllm, launcher].into_iter().flatten().any(|word| word == "srun")
        };
        if has_own_line(stage) {
            is_step = true;
        } else if triton_step(stage, &line, &nodes, &tasks) {
            is_step = !is_one;
        } else if !container.is_empty() {
            put_container(stage, &container);
        }
        if is_step
            && !is_on_one
            && let Some(gpus) = stage.get("gpus").and_then(quantity)
        {
            let sum = gpus.combine("+", nodes.clone(), u64::saturating_add).combine("-", 1_u64, u64::saturating_sub);
            stage.insert("gpus".to_owned(), json!(sum.combine("//", nodes.clone(), |sum, nodes| sum / nodes)));
        }
    }
    if is_step && !is_on_one {
        builder.note(format!(
            "`gpus` are those of one of the {nodes} nodes: a stage leases on the node that it runs \
            on, and its step takes all nodes of the job"
        ));
    }
    let settings = settings(&line);
    if !settings.is_empty() {
        builder.note(format!("Slurm's settings are given with the run: `regatta run … --on slurm {settings}`"));
    }
    if line.has("--mpi") && !is_step {
        builder
            .note("inside a job ranks are started by `srun --mpi=pmix`: `regatta plan FILE --launch` prints the line");
    }
    left(&line, is_step, &mut builder);
    builder.absorb("srun", &mut translation);
    builder.finish(translation.tool, translation.kind)
}

/// `srun` with the options of a step, as they were written.
fn step(line: &ParsedLine) -> Vec<String> {
    let given = line.given.iter().filter(|given| !OF_THE_ALLOCATION.contains(&given.name));
    let words = given.flat_map(|given| std::iter::once(given.written.clone()).chain(given.values.iter().cloned()));
    std::iter::once("srun".to_owned()).chain(words).collect()
}

/// pyxis writes `nvcr.io#nvidia/…` where a registry has a `/`.
fn container(line: &ParsedLine) -> Map<String, Value> {
    let mut container = Map::new();
    if let Some(image) = line.value("--container-image") {
        let image = image.strip_prefix("docker://").unwrap_or(image);
        container.insert("image".to_owned(), json!(image.replacen('#', "/", 1)));
        if let Some(mounts) = line.value("--container-mounts") {
            container.insert("mounts".to_owned(), json!(mounts.split(',').collect::<Vec<_>>()));
        }
    }
    container
}

/// Ranks of Triton are one step of the job, in their container by pyxis. Whether the stage is Triton's.
fn triton_step(
    stage: &mut Map<String, Value>,
    line: &ParsedLine,
    nodes: &Quantity<u64>,
    tasks: &Quantity<u64>,
) -> bool {
    let is_one = *tasks == Quantity::Known(1);
    let Some(server) = stage.get_mut("serve").and_then(|serve| serve.get_mut("triton")).and_then(Value::as_object_mut)
    else {
        return false;
    };
    if !line.has("--mpi") && is_one {
        return false;
    }
    server.insert("launcher".to_owned(), json!("srun"));
    if !is_one {
        server.insert("mode".to_owned(), json!("leader"));
        server.insert("world_size".to_owned(), json!(tasks));
    }
    let options = ["--container-image", "--container-mounts", "--container-name", "--ntasks-per-node", "--export"];
    let args: Vec<String> = options
        .iter()
        .filter_map(|name| {
            let value = line.value(name)?;
            let value = if *name == "--container-mounts" { also_as_on_the_host(value) } else { value.to_owned() };
            Some(format!("{name}={value}"))
        })
        .collect();
    let mut step = Map::new();
    if *nodes != Quantity::Known(1) {
        step.insert("nodes".to_owned(), json!(nodes));
    }
    if !args.is_empty() {
        step.insert("args".to_owned(), json!(args));
    }
    if !step.is_empty() {
        server.insert("srun".to_owned(), Value::Object(step));
    }
    if !is_one {
        stage.insert("gpus".to_owned(), json!(tasks));
    }
    true
}

/// The mounts, and each folder also where it is on the host: Regatta writes its own paths into the ranks' lines.
fn also_as_on_the_host(mounts: &str) -> String {
    let mut host_mounts: Vec<String> = mounts.split(',').map(str::to_owned).collect();
    for mount in mounts.split(',') {
        let mut parts = mount.split(':');
        if let (Some(host), Some(inside)) = (parts.next(), parts.next())
            && host != inside
        {
            host_mounts.push(format!("{host}:{host}"));
        }
    }
    host_mounts.join(",")
}

/// `sbatch X.sub`
pub(crate) fn sbatch(name: &str, words: &[String]) -> Result<Translation, TranslationError> {
    let tool = "sbatch";
    let mut builder = TranslationBuilder::default();
    let line = TABLE.read_front(tool, words, &mut builder);
    left(&line, false, &mut builder);
    let settings = settings(&line);
    let options = if settings.is_empty() { String::new() } else { format!(" {settings}") };
    let text = match line.behind.iter().find(|word| assignment(word).is_none()) {
        Some(script) if script.ends_with("launch.sh") => format!(
            "`{name} {script}` has no meaning here: it is the recipe's own job; `regatta run llama3.3-70b --on \
            slurm{options}` measures the same in one allocation"
        ),
        Some(script) => format!(
            "`{name} {script}` has no meaning here: import the script, `regatta import {script} > \
            manifests/job.yaml`, and run that: `regatta run job --on slurm{options}`"
        ),
        None => format!(
            "`{name}` has no meaning here: `regatta run MANIFEST --on slurm{options}` takes an allocation and runs in \
            it"
        ),
    };
    builder.finish(tool, TranslationKind::Nothing(text))
}

/// As `--slurm` takes them.
fn settings(line: &ParsedLine) -> String {
    let options = KEYS.iter().filter_map(|(option, key)| Some(format!("--slurm {key}={}", line.value(option)?)));
    options.collect::<Vec<_>>().join(" ")
}

/// `is_step`: the options of a step are written in the manifest.
fn left(line: &ParsedLine, is_step: bool, builder: &mut TranslationBuilder) {
    let is_left = |name: &str| !is_step || OF_THE_ALLOCATION.contains(&name);
    for given in line.given.iter().filter(|given| is_left(given.name)) {
        TABLE.push_untranslated(given, builder);
    }
}

/// A sentence on the `#SBATCH` lines of a script; none where it has none.
pub(crate) fn directives(text: &str) -> Option<String> {
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
    let mut builder = TranslationBuilder::default();
    let line = TABLE.read_as("#SBATCH", &words, &mut builder);
    let further = KEYS_OF_A_JOB.iter().filter(|(option, _)| line.has(option));
    let further = further.map(|(option, key)| {
        format!(" --slurm {key}={}", line.value(option).filter(|value| !value.is_empty()).unwrap_or("true"))
    });
    let settings = Some(settings(&line)).filter(|settings| !settings.is_empty()).map(|settings| format!(" {settings}"));
    let settings: String = settings.into_iter().chain(further).collect();
    let is_translated = |name: &str| KEYS.iter().chain(&KEYS_OF_A_JOB).any(|(option, _)| *option == name);
    let left = line.given.iter().filter(|given| !is_translated(given.name) && !NOT_OF_THE_WORK.contains(&given.name));
    let left: Vec<String> = left.map(|given| format!("`{}`", given.as_written())).collect();
    let left = if left.is_empty() { String::new() } else { format!("; not translated: {}", left.join(", ")) };
    Some(format!("it is a job of Slurm: `regatta run FILE --on slurm{settings}`{left}"))
}

/// `-A <your account>` with `…` for the page's placeholder.
fn without_placeholder(line: &str) -> String {
    match (line.find('<'), line.rfind('>')) {
        (Some(from), Some(to)) if from < to => format!("{}…{}", &line[..from], &line[to + 1..]),
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_of_a_whole_run_asks_for_the_gpus_of_its_script() {
        let script = "#!/bin/bash\n#SBATCH -p gpu -N 2\n#SBATCH --gres=gpu:h100:4 --ntasks-per-node=4 --exclusive\n\
            #SBATCH --job-name=x --array=0-3%2\n#SBATCH --signal=USR1@60\nsrun hostname\n";
        assert_eq!(
            directives(script).unwrap(),
            "it is a job of Slurm: `regatta run FILE --on slurm --slurm partition=gpu --slurm nodes=2 --slurm \
            gres=gpu:h100:4 \
             --slurm tasks_per_node=4 --slurm exclusive=true`; not translated: `--array 0-3%2`, `--signal USR1@60`"
        );
        assert_eq!(directives("echo\n"), None);
    }
}
