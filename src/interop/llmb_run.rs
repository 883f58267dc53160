//! `llmb-run submit`, and `single` and `bulk` of older releases.

use crate::command_line::{
    Env, GivenOption, GpuScale, ParsedLine, RunLine, RunSetting, TranslatedScript, TranslationBuilder, TranslationKind,
    TranslationResult, idle_command, tool_table,
};

const TOOL: &str = "llmb-run";

tool_table!(TABLE, ["llmb-run"], []);

/// `env` are the variables before the line: those of the recipe stay before the command, those of Slurm become its
/// settings.
pub(crate) fn translate(env: &Env, words: &[String]) -> TranslationResult {
    let mut builder = TranslationBuilder::default();
    let line = TABLE.read_as(TABLE.program, words, &mut builder);
    let (command, plain) = match line.plain.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("", &[][..]),
    };
    if !["submit", "single", "bulk"].contains(&command) {
        return idle_command(&format!("{TOOL} {command}"), "llmb-run *");
    }
    let file = line
        .value("--file")
        .map(str::to_owned)
        .or_else(|| (command == "bulk").then(|| plain.first().cloned()).flatten());
    if let Some(file) = file {
        for given in line.given.iter().filter(|given| !["--file", "--dry-run"].contains(&given.name)) {
            builder.push_untranslated(given, "the file lists what is run");
        }
        for (name, value) in &env.0 {
            match name.as_str() {
                "GPU_TYPE" => {}
                _ => builder.push_untranslated(format!("{name}={value}"), "write it under `env` in the file"),
            }
        }
        let mut bulk = ["regatta", "bulk", &file].map(str::to_owned).to_vec();
        bulk.extend(gpu_type(env).map(|gpu| format!("--gpu-type={gpu}")));
        if line.has("--dry-run") {
            bulk.push("--dry-run".to_owned());
        }
        return builder.finish(TOOL, TranslationKind::Commands(vec![bulk]));
    }
    for word in plain {
        builder.push_error(format!("`{word}`: {command} takes options only"));
    }
    let workload = line.value("--workload").unwrap_or_default();
    if let Some((_, what)) = NO_INFERENCE.iter().find(|(begins, _)| workload.starts_with(begins)) {
        let reason = format!(
            "cannot translate the line: `{workload}` is {what}; the recipes of inference, `inference_…`, are measured"
        );
        return TranslationBuilder::nothing(TOOL, reason);
    }
    let mut run = RunLine::default();
    match line.value("--workload") {
        Some(workload) => run.manifests = recipe_manifests(workload, line.value("--model-size")),
        None => builder.push_error("llmb-run needs -w WORKLOAD, or -f FILE"),
    }
    for given in &line.given {
        let value = given.value();
        match given.name {
            "--workload" | "--model-size" | "--file" => {}
            "--dtype" => run.settings.push(RunSetting::new("dtype", value, given)),
            "--scale" => scale(given, env, &mut run, &mut builder),
            "--nodelist" | "--exclude" | "--reservation" => {
                run.slurm.push((given.name.trim_start_matches('-'), value.to_owned()));
            }
            "--nice" | "--segment" => run.slurm.push(("args", format!("{}={value}", given.name))),
            "--slurm-arg" => {
                run.slurm.extend(given.values.iter().map(|pair| ("args", format!("--{pair}"))));
            }
            "--env" => {
                for pair in &given.values {
                    match pair.split_once('=') {
                        Some((name, value)) => run.env.push((name.to_owned(), value.to_owned())),
                        None => builder.push_error(format!("`--env {pair}` is not NAME=VALUE")),
                    }
                }
            }
            "--dry-run" => run.plans = true,
            _ => TABLE.push_untranslated(given, &mut builder),
        }
    }
    variables(env, &mut run, &mut builder);
    if workload == "inference_llama3.3" {
        launch_defaults(command, &line, &mut run, &mut builder);
    }
    if run.slurm.is_empty() && !run.plans {
        builder.note("`llmb-run` submits a Slurm job; add `--on slurm` to the command for one");
    }
    let others = line.value("--scale").map(|value| scales(value).skip(1).collect::<Vec<_>>()).unwrap_or_default();
    if others.is_empty() || run.scale.is_none() {
        return builder.finish(TOOL, TranslationKind::Run(run));
    }
    let mut runs = vec![run.clone()];
    runs.extend(others.into_iter().map(|gpus| {
        let scale = GpuScale { gpus, gpu_type: gpu_type(env), argument: format!("--scale {gpus}") };
        RunLine { scale: Some(scale), ..run.clone() }
    }));
    builder.finish(TOOL, TranslationKind::Script(TranslatedScript { runs, ..TranslatedScript::default() }))
}

/// What launch.sh of the Llama 3.3 recipe's first release takes for these parameters' variables where they are not set.
const FIRST_LAUNCH: [(&str, &str); 4] =
    [("max_batch_size", "640"), ("max_num_tokens", "2048"), ("num_requests", "4000"), ("concurrency", "-1")];

/// The defaults of the release that the line is of. The first one, v25.07, has `single` with one GPU and one precision;
/// later ones have `submit`, MODE and GPU_TYPE, and a launch.sh whose defaults differ from GPU to GPU.
fn launch_defaults(command: &str, line: &ParsedLine, run: &mut RunLine, builder: &mut TranslationBuilder) {
    let is_set = |name: &str| run.env.iter().any(|(other, _)| *other == name.to_uppercase());
    let unset: Vec<(&'static str, &str)> = FIRST_LAUNCH.into_iter().filter(|(name, _)| !is_set(name)).collect();
    let gpu_type = run.scale.as_ref().and_then(|scale| scale.gpu_type.as_ref());
    let is_nvfp4 = line.value("--dtype").is_none_or(|dtype| dtype == "nvfp4");
    let is_first =
        command == "single" && is_nvfp4 && line.value("--scale") == Some("1") && gpu_type.is_none() && !is_set("mode");
    if is_first {
        run.tool_defaults.push(("version", "v25.07".to_owned()));
        run.tool_defaults.extend(unset.iter().map(|(name, value)| (*name, (*value).to_owned())));
    } else if !unset.is_empty() {
        let names = unset.iter().map(|(name, _)| name.to_uppercase()).collect::<Vec<_>>().join(", ");
        builder.note(format!(
            "left to Regatta's default: {names} = the recipe's table for the use case; the recipe's launch.sh \
            has one value for all use cases"
        ));
    }
}

/// The recipes that are shipped, and their manifests.
const RECIPES: [(&str, &str); 1] = [("inference_llama3.3-70b", "llama3.3-70b")];

/// Manifests that may be this recipe, the preferred one first. A manifest that has only the model in common with it is
/// another benchmark.
pub fn recipe_manifests(workload: &str, size: Option<&str>) -> Vec<String> {
    let recipe = size.map_or_else(|| workload.to_owned(), |size| format!("{workload}-{size}"));
    let shipped = RECIPES.iter().filter(|(name, _)| *name == recipe).map(|(_, manifest)| (*manifest).to_owned());
    shipped.chain([recipe.clone()]).collect()
}

/// Recipes that measure no inference, by how their names begin.
const NO_INFERENCE: [(&str, &str); 4] = [
    ("pretrain_", "a training recipe"),
    ("finetune_", "a training recipe"),
    ("microbenchmark_", "a test of a part of the machine"),
    ("nemo_", "a training recipe"),
];

/// The numbers of `--scale N,N`.
fn scales(value: &str) -> impl Iterator<Item = u32> {
    value.split(',').filter_map(|count| count.trim().parse().ok())
}

/// `--scale N`: N GPUs of the kind that the cluster has are a system here; of several the first.
fn scale(given: &GivenOption, env: &Env, run: &mut RunLine, builder: &mut TranslationBuilder) {
    let Some(gpus) = scales(given.value()).next() else {
        return builder.push_error(format!("`{given}`: a scale is a number of GPUs"));
    };
    run.scale = Some(GpuScale { gpus, gpu_type: gpu_type(env), argument: format!("--scale {gpus}") });
}

/// `GB200` → `gb200`
fn gpu_type(env: &Env) -> Option<String> {
    let (_, value) = env.0.iter().rev().find(|(name, _)| name == "GPU_TYPE")?;
    Some(value.to_lowercase())
}

/// Variables before the line. Those that are not mapped here stay before the command, `SBATCH_TIMELIMIT` among them:
/// parameters of the recipe are read from them.
fn variables(env: &Env, run: &mut RunLine, builder: &mut TranslationBuilder) {
    for (name, value) in &env.0 {
        match name.as_str() {
            "GPU_TYPE" if run.scale.is_none() => {
                builder.push_untranslated(format!("GPU_TYPE={value}"), "it needs `--scale`: both name a system");
            }
            "GPU_TYPE" => {}
            // `--a=1;--b=2`, or with blanks.
            "ADDITIONAL_SLURM_PARAMS" => {
                let arguments = value.split([';', ' ']).filter(|argument| !argument.is_empty());
                let arguments = arguments.map(|argument| format!("--{}", argument.trim_start_matches('-')));
                run.slurm.extend(arguments.map(|argument| ("args", argument)));
            }
            "SBATCH_ACCOUNT" => run.slurm.push(("account", value.clone())),
            "SBATCH_PARTITION" => run.slurm.push(("partition", value.clone())),
            "SBATCH_QOS" => run.slurm.push(("qos", value.clone())),
            "SBATCH_RESERVATION" => run.slurm.push(("reservation", value.clone())),
            "SBATCH_CONSTRAINT" => run.slurm.push(("constraint", value.clone())),
            "SBATCH_GRES" => run.slurm.push(("gres", value.clone())),
            _ => run.env.push((name.clone(), value.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The defaults and the notes of a line.
    fn defaults(variables: &[(&str, &str)], line: &str) -> (String, Vec<String>) {
        let env = Env(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect());
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let translation = translate(&env, &words).expect("a line");
        let TranslationKind::Run(run) = translation.kind else { panic!("{line}") };
        let defaults = run.tool_defaults.iter().map(|(name, value)| format!("{name}={value}"));
        (defaults.collect::<Vec<_>>().join(" "), translation.notes)
    }

    #[test]
    fn a_line_of_the_first_release_has_its_defaults() {
        let line = "single -w inference_llama3.3 -s 70b --dtype nvfp4 --scale 1";
        assert_eq!(
            defaults(&[], line).0,
            "version=v25.07 max_batch_size=640 max_num_tokens=2048 num_requests=4000 concurrency=-1"
        );
        assert_eq!(
            defaults(&[("MAX_NUM_TOKENS", "8192"), ("MAX_BATCH_SIZE", "4096")], line).0,
            "version=v25.07 num_requests=4000 concurrency=-1"
        );
    }

    #[test]
    fn what_a_line_of_a_later_release_leaves_to_the_table_is_named() {
        let is_later = |variables: &[(&str, &str)], line: &str| {
            let (defaults, notes) = defaults(variables, line);
            assert_eq!(defaults, "", "{line}");
            notes.iter().any(|note| note.starts_with("left to Regatta's default: MAX_BATCH_SIZE"))
        };
        assert!(is_later(&[("GPU_TYPE", "gb200")], "single -w inference_llama3.3 -s 70b --dtype nvfp4 --scale 1"));
        assert!(is_later(&[("MODE", "min_latency")], "single -w inference_llama3.3 -s 70b --scale 1"));
        assert!(is_later(&[], "submit -w inference_llama3.3 -s 70b --dtype nvfp4 --scale 1"));
        assert!(is_later(&[], "single -w inference_llama3.3 -s 70b --dtype fp8 --scale 2"));
        assert!(!is_later(&[], "submit -w inference_gpt-oss -s 120b --scale 8"));
    }

    #[test]
    fn only_the_shipped_recipe_has_the_name_of_its_model() {
        assert_eq!(recipe_manifests("inference_llama3.3", Some("70b")), ["llama3.3-70b", "inference_llama3.3-70b"]);
        assert_eq!(recipe_manifests("inference_gpt-oss", Some("120b")), ["inference_gpt-oss-120b"]);
        assert_eq!(recipe_manifests("inference_deepseek-r1", None), ["inference_deepseek-r1"]);
    }
}
