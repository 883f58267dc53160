//! `srun`, `sbatch` and the `#SBATCH` lines of a job's script: the settings of `--on slurm`, or of a stage with
//! `host: slurm`.

use serde_json::{Map, Value, json};

use crate::command_line::{
    OptionRow, ParsedLine, TranslateInner, TranslateRanks, TranslationBuilder, TranslationKind, TranslationResult,
    assignment, put_container, quantity, tool_table,
};
use base::spec::Quantity;

tool_table!(TABLE, ["slurm"], []);

/// How many ranks a step has, and where.
const RANKS: [&str; 3] = ["--nodes", "--ntasks", "--ntasks-per-node"];
const ARRAY: &str = "--array";

/// Whether an option belongs to a step, and not to the allocation or the terminal of the line.
fn is_of_step(name: &str) -> bool {
    TABLE.row(name).is_some_and(OptionRow::is_of_server)
}

/// One task is what a stage starts itself. A step of several ranks starts a server's own line; Triton's ranks are
/// started by a step of the server's own.
/// `job`: the options that it has from the job's script.
pub(crate) fn srun(job: &[String], words: &[String], inner: TranslateRanks<'_>) -> TranslationResult {
    let mut builder = TranslationBuilder::default();
    let given_here = TABLE.read_front("srun", words, &mut TranslationBuilder::default());
    let is_inherited = RANKS.iter().all(|name| !given_here.has(name));
    let words = if is_inherited { &[job, words].concat() } else { words };
    let line = TABLE.read_front("srun", words, &mut builder);
    if line.behind.is_empty() {
        if builder.problems.is_empty() {
            builder.push_error("`srun` needs a command");
        }
        return builder.finish("srun", TranslationKind::Nothing(String::new()));
    }
    let nodes = line.product(&["--nodes"]);
    let per_node = || Some(nodes.clone().times(line.number::<u64>("--ntasks-per-node")?));
    let tasks = line.number::<u64>("--ntasks").or_else(per_node).unwrap_or_else(|| nodes.clone());
    let tasks = tasks.map(|tasks| tasks.max(1));
    let (is_one, is_on_one) = (tasks == Quantity::Known(1), nodes == Quantity::Known(1));
    let words = if is_one { Vec::new() } else { step(&line) };
    let mut translation = inner(&words, &line.behind)?;
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
        } else if own_line_of_triton(stage, &words, &tasks) || triton_step(stage, &line, &nodes, &tasks) {
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
    let settings = settings(&given_here, false);
    if !settings.is_empty() {
        builder.note(format!("Slurm's settings are given with the run: `regatta run … --on slurm{settings}`"));
    }
    if line.has("--mpi") && !is_step {
        builder
            .note("inside a job ranks are started by `srun --mpi=pmix`: `regatta plan FILE --launch` prints the line");
    }
    if let (TranslationKind::Nothing(_), Some(image)) = (&translation.kind, container.get("image")) {
        builder.push_untranslated("--container-image", format!("`container: {{ image: {image} }}` of a stage"));
    }
    left(&line, is_step, &mut builder);
    builder.absorb("srun", &mut translation);
    builder.finish(translation.tool, translation.kind)
}

/// `srun` with the options of a step, as they were written.
fn step(line: &ParsedLine) -> Vec<String> {
    let given = line.given.iter().filter(|given| is_of_step(given.name));
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

/// A line of `tritonserver` is started as it stands, with the words that start its ranks in front. Whether the stage
/// has one, and ranks.
fn own_line_of_triton(stage: &mut Map<String, Value>, step: &[String], tasks: &Quantity<u64>) -> bool {
    let line = stage.get_mut("serve").and_then(|serve| serve.pointer_mut("/triton/words"));
    let Some(line) = line.and_then(Value::as_array_mut).filter(|_| !step.is_empty()) else { return false };
    line.splice(..0, step.iter().map(|word| json!(word)));
    stage.insert("gpus".to_owned(), json!(tasks));
    true
}

/// Options of a step.
const STEP_OPTIONS: &str = "--container-image --container-mounts --container-name --container-workdir --container-env \
    --ntasks-per-node --export";

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
    if !line.has("--mpi") && is_one || server.contains_key("words") {
        return false;
    }
    server.insert("launcher".to_owned(), json!("srun"));
    if !is_one {
        server.insert("mode".to_owned(), json!("leader"));
        server.insert("world_size".to_owned(), json!(tasks));
    }
    let options = STEP_OPTIONS.split(' ').filter_map(|name| Some((name, line.value(name)?)));
    let args: Vec<String> = options
        .map(|(name, value)| match name {
            "--container-mounts" => format!("{name}={}", also_as_on_the_host(value)),
            _ => format!("{name}={value}"),
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

/// `sbatch X.sub`, `sbatch --wrap COMMAND`
pub(crate) fn sbatch(name: &str, words: &[String], inner: TranslateInner<'_>) -> TranslationResult {
    let tool = "sbatch";
    let mut builder = TranslationBuilder::default();
    let line = TABLE.read_front(tool, words, &mut builder);
    left(&line, false, &mut builder);
    let wrapped = line.value("--wrap").map(|command| ["bash", "-c", command].map(str::to_owned).to_vec());
    // `salloc OPTIONS COMMAND`
    if let Some(command) = wrapped.or_else(|| (name == "salloc").then(|| line.behind.clone())).filter(|c| !c.is_empty())
    {
        let mut translation = inner(&command)?;
        builder.note(format!("this is a Slurm job: `regatta run FILE --on slurm{}`", settings(&line, true)));
        builder.absorb(name, &mut translation);
        return builder.finish(translation.tool, translation.kind);
    }
    let options = settings(&line, false);
    let text = match line.behind.iter().find(|word| assignment(word).is_none()) {
        Some(script) if script.ends_with("launch.sh") => format!(
            "cannot translate `{name} {script}`: it is the recipe's own job; `regatta run llama3.3-70b --on \
            slurm{options}` measures the same in one allocation"
        ),
        Some(script) => format!(
            "cannot translate `{name} {script}`: import the script, `regatta import {script} > \
            manifests/job.yaml`, and run that: `regatta run job --on slurm{options}`"
        ),
        None => format!(
            "cannot translate `{name}`: `regatta run MANIFEST --on slurm{options}` takes an allocation and runs in it"
        ),
    };
    builder.finish(tool, TranslationKind::Nothing(text))
}

/// As `--slurm` takes them, with those that only the job of a whole run has.
fn settings(line: &ParsedLine, is_job: bool) -> String {
    let rows = TABLE.options.iter().filter_map(|option| Some((option.names[0], TABLE.row(option.names[0])?)));
    let given = rows.filter(|(name, row)| line.has(name) && (is_job || row.reason.is_none()) && !is_of_job(line, name));
    let options = given.filter_map(|(name, row)| {
        let value = line.value(name).filter(|value| !value.is_empty()).unwrap_or("true");
        Some(format!(" --slurm {}={value}", row.sets.as_ref()?))
    });
    options.collect()
}

/// Whether an option names nodes that the job has only when it runs: `-w ${NODES[0]}`.
fn is_of_job(line: &ParsedLine, name: &str) -> bool {
    ["--nodelist", "--exclude"].contains(&name) && line.value(name).is_some_and(|nodes| nodes.contains(['$', '`', '{']))
}

/// `is_step`: the options of a step are written in the manifest.
fn left(line: &ParsedLine, is_step: bool, builder: &mut TranslationBuilder) {
    for given in line.given.iter().filter(|given| !is_step || !is_of_step(given.name)) {
        if is_of_job(line, given.name) {
            let reason = "the job's nodes are known when it runs: a stage runs on its first node, or as `host` says";
            builder.push_untranslated(given, reason);
        }
        TABLE.push_untranslated(given, builder);
    }
}

/// The `#SBATCH` lines of a script; `None` where it has none.
fn directive_line(text: &str, reading: &mut TranslationBuilder) -> Option<ParsedLine> {
    // Slurm stops reading at the first command, and what follows `hetjob` is for another group of nodes.
    let is_read = |line: &&str| (line.is_empty() || line.starts_with('#')) && !is_next_group(line);
    let lines = text.lines().map(str::trim).skip_while(|line| !line.starts_with("#SBATCH ")).take_while(is_read);
    let lines = lines.filter_map(|line| line.strip_prefix("#SBATCH "));
    let words: Vec<String> = lines
        .flat_map(|line| {
            let line = without_placeholder(line);
            shlex::split(&line).unwrap_or_else(|| line.split_whitespace().map(str::to_owned).collect())
        })
        .collect();
    (!words.is_empty()).then(|| TABLE.read_as("#SBATCH", &words, reading))
}

/// Whether a line begins the settings of a further group of a heterogeneous job.
fn is_next_group(line: &str) -> bool {
    ["#SBATCH hetjob", "#SBATCH packjob"].contains(&line)
}

/// The options of a job's script that its steps have, too.
pub(crate) fn job_options(text: &str) -> Vec<String> {
    let Some(line) = directive_line(text, &mut TranslationBuilder::default()) else { return Vec::new() };
    let given = line.given.iter().filter(|given| RANKS.contains(&given.name));
    given.map(|given| format!("{}={}", given.name, given.value())).collect()
}

/// The tasks of the array that a job's script is, as they are written.
pub(crate) fn array_option(text: &str) -> Option<String> {
    directive_line(text, &mut TranslationBuilder::default())?.value(ARRAY).map(str::to_owned)
}

/// Reads the `#SBATCH` lines of a script: a note on what they set, and those that are not for the run.
/// `has_tasks`: the tasks of its array are in the translation.
pub(crate) fn directives(text: &str, has_tasks: bool, builder: &mut TranslationBuilder) {
    let mut reading = TranslationBuilder::default();
    let Some(line) = directive_line(text, &mut reading) else { return };
    for problem in reading.problems {
        builder.push_untranslated("#SBATCH", problem.to_string());
    }
    for given in &line.given {
        let is_left = !has_tasks || given.name != ARRAY;
        if let Some(row) = TABLE.row(given.name).filter(|row| row.sets.is_none() && is_left) {
            builder.push_untranslated(format!("#SBATCH {given}"), row.reason());
        }
    }
    if let Some(written) = text.lines().map(str::trim).find(|line| is_next_group(line)) {
        let reason =
            "a job has nodes of one kind: the settings of a further group belong to its stage, `host: { slurm: … }`";
        builder.push_untranslated(written, reason);
    }
    let settings = settings(&line, true);
    builder.note(format!("this is a Slurm job: `regatta run FILE --on slurm{settings}`"));
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
            #SBATCH --job-name=x -o out.txt --array=0-3%2\n#SBATCH --signal=USR1@60\nsrun hostname\n";
        let mut builder = TranslationBuilder::default();
        directives(script, false, &mut builder);
        assert_eq!(
            builder.notes,
            ["this is a Slurm job: `regatta run FILE --on slurm --slurm partition=gpu --slurm nodes=2 --slurm \
            gres=gpu:h100:4 --slurm tasks_per_node=4 --slurm exclusive=true`"]
        );
        let left: Vec<&str> = builder.untranslated.iter().map(|option| option.argument.as_str()).collect();
        let names = ["#SBATCH --job-name x", "#SBATCH -o out.txt", "#SBATCH --array 0-3%2", "#SBATCH --signal USR1@60"];
        assert_eq!(left, names);
        assert!(builder.untranslated.iter().all(|option| !option.why.is_empty()), "{builder:?}");
        let mut builder = TranslationBuilder::default();
        directives(
            "#!/bin/bash\n#SBATCH -N 2 -t 30:00\n#SBATCH hetjob\n#SBATCH -N 1\n\n## x\nsrun a\n#SBATCH -t 9:00:00\n",
            false,
            &mut builder,
        );
        let note = "this is a Slurm job: `regatta run FILE --on slurm --slurm nodes=2 --slurm time=30:00`";
        assert_eq!(builder.notes, [note], "the first group's, in front of the first command");
        assert_eq!(builder.untranslated.len(), 1, "{builder:?}");
        let mut builder = TranslationBuilder::default();
        directives("echo\n", false, &mut builder);
        assert!(builder.notes.is_empty() && builder.untranslated.is_empty(), "{builder:?}");
    }
}
