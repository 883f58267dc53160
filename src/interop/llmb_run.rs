//! `llmb-run submit`, and `single` and `bulk` of older releases.

use crate::interop::command_line::options::{Opt, flag, many, one, read};
use crate::interop::command_line::translation::{
    RunLine, RunSetting, Translation, TranslationBuilder, TranslationKind,
};

const TOOL: &str = "llmb-run";

#[rustfmt::skip]
static TABLE: &[Opt] = &[
    one(&["--workload", "-w"]), one(&["--model-size", "-s"]), one(&["--dtype"]), one(&["--scale"]), one(&["--file", "-f"]), one(&["--max-scale"]), one(&["--min-scale"]),
    flag(&["--exact-scales"]), one(&["--repeats", "-r"]), flag(&["--profile", "-p"]), flag(&["--dump-env"]), flag(&["--proxy"]), flag(&["--dry-run"]), flag(&["--force"]),
    one(&["--nice"]), one(&["--nodelist"]), one(&["--exclude"]), one(&["--reservation"]), one(&["--segment"]), many(&["--env"]), many(&["--slurm-arg"]), flag(&["--verbose", "-v"]),
];

/// Options without a meaning here, and why.
#[rustfmt::skip]
const LEFT: &[(&[&str], &str)] = &[
    (&["--max-scale", "--min-scale", "--exact-scales"], "a system has the sizes in its file"),
    (&["--repeats"], "a result is measured once and kept; `regatta run … --force run_harness` measures again"),
    (&["--profile", "--proxy"], "there is no profile of the GPU's work here"),
    (&["--dump-env"], "`regatta show` prints every value with where it comes from"),
    (&["--force"], "what a manifest allows is allowed"),
    (&["--nice", "--nodelist", "--exclude", "--reservation", "--segment", "--slurm-arg"], "it is for Slurm: give it where the run is handed to Slurm"),
    (&["--verbose"], "`regatta -v` prints more"),
];

pub(in crate::interop) fn translate(words: &[String]) -> Result<Translation, Vec<String>> {
    let mut sheet = TranslationBuilder::default();
    let line = read(TOOL, TABLE, words, &mut sheet);
    let (command, plain) = match line.plain.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("", &[][..]),
    };
    if !["submit", "single", "bulk"].contains(&command) {
        sheet.push_error(format!("`llmb-run {command}` starts no benchmark: there are submit, single and bulk"));
    }
    let file = line
        .value("--file")
        .map(str::to_owned)
        .or_else(|| (command == "bulk").then(|| plain.first().cloned()).flatten());
    if let Some(file) = file {
        for given in line.given.iter().filter(|given| given.name != "--file") {
            sheet.push_untranslated(given.as_written(), "the file lists what is run");
        }
        let bulk = ["regatta", "bulk", &file].map(str::to_owned).to_vec();
        return sheet.finish(TOOL, TranslationKind::Commands(vec![bulk]));
    }
    for word in plain {
        sheet.push_error(format!("`{word}`: {command} takes options only"));
    }
    let mut run = RunLine::default();
    match line.value("--workload") {
        Some(workload) => {
            // There a size of its own, here part of the model's name.
            let model = workload.rsplit('_').next().unwrap_or(workload);
            let sized = line.value("--model-size").map(|size| format!("{model}-{size}"));
            run.manifests.extend(sized);
            run.manifests.push(model.to_owned());
        }
        None => sheet.push_error("llmb-run needs -w WORKLOAD, or -f FILE"),
    }
    for given in &line.given {
        let value = given.value();
        match given.name {
            "--workload" | "--model-size" | "--file" => {}
            "--dtype" => run.settings.push(RunSetting::new("dtype", value, given.as_written())),
            "--scale" => sheet.push_untranslated(
                given.as_written(),
                "how many GPUs, of the kind that cluster_config.yaml names, is one parameter here: `system=gb200-x1`",
            ),
            "--env" => {
                for pair in &given.values {
                    match pair.split_once('=') {
                        Some((name, value)) => run.env.push((name.to_owned(), value.to_owned())),
                        None => sheet.push_error(format!("`--env {pair}` is not NAME=VALUE")),
                    }
                }
            }
            "--dry-run" => sheet.note("--dry-run is `regatta plan` in place of `regatta run`"),
            name => {
                let why = LEFT
                    .iter()
                    .find(|(names, _)| names.contains(&name))
                    .map_or("there is nothing like it here", |it| it.1);
                sheet.push_untranslated(given.as_written(), why);
            }
        }
    }
    sheet.finish(TOOL, TranslationKind::Run(run))
}
