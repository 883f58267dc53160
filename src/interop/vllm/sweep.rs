//! `vllm bench sweep serve`: a server and its benchmark, once for each set of values.

use serde_json::Value;

use crate::interop::command_line::options::{Opt, flag, one, read};
use crate::interop::command_line::translation::{
    ScriptBench, TranslateInner, TranslatedScript, Translation, TranslationBuilder, TranslationKind,
};
use crate::interop::command_line::translation_error::TranslationError;

const TOOL: &str = "vllm bench sweep";
const SERVER: &str = "server";

#[rustfmt::skip]
static TABLE: &[Opt] = &[
    one(&["--serve-cmd"]), one(&["--bench-cmd"]), one(&["--after-bench-cmd"]), flag(&["--show-stdout"]), one(&["--server-ready-timeout"]), one(&["--serve-params"]), one(&["--bench-params"]),
    one(&["--link-vars"]), one(&["-o", "--output-dir"]), one(&["-e", "--experiment-name"]), one(&["--num-runs"]), flag(&["--dry-run"]), one(&["--resume"]),
    one(&["--workload-var"]), one(&["--workload-iters"]),
];

/// The lines behind its two options, together; the files with the values are not read.
pub(super) fn translate(words: &[String], inner: TranslateInner<'_>) -> Result<Translation, TranslationError> {
    let mut sheet = TranslationBuilder::default();
    let line = read(TOOL, TABLE, words, &mut sheet);
    if !matches!(line.plain.first().map(String::as_str), Some("serve" | "serve_workload" | "serve-workload")) {
        let kind = line.plain.first().map_or("", String::as_str);
        let why = format!(
            "`{TOOL} {kind}` has no meaning here: it measures no requests; a line of `{TOOL} serve` is imported, and `regatta compare` shows several results side by side"
        );
        return TranslationBuilder::nothing(TOOL, why);
    }
    let mut command = |option: &str| {
        let words = line.value(option).and_then(shlex::split);
        if words.is_none() {
            sheet.push_error(format!("{TOOL} needs {option} with a command line"));
        }
        words
    };
    let commands = (command("--serve-cmd"), command("--bench-cmd"));
    let (Some(serve), Some(bench)) = commands else {
        return sheet.finish(TOOL, TranslationKind::Commands(Vec::new()));
    };
    let mut script = TranslatedScript::default();
    let mut server = inner(&serve).map_err(|error| error.within("--serve-cmd"))?;
    sheet.absorb("--serve-cmd", &mut server);
    if let TranslationKind::Manifest(mut manifest) = server.kind
        && let Some(Value::Object(stages)) = manifest.remove("stages")
    {
        script.stages = stages;
    }
    let mut measurement = inner(&bench).map_err(|error| error.within("--bench-cmd"))?;
    sheet.absorb("--bench-cmd", &mut measurement);
    match measurement.kind {
        TranslationKind::Bench(mut bench) => {
            if let Some(runs) = line.value("--num-runs") {
                bench.args.extend(["--repeat".to_owned(), runs.to_owned()]);
            } else {
                bench.args.extend(["--repeat", "3"].map(str::to_owned));
            }
            let server = script.stages.contains_key(SERVER).then(|| SERVER.to_owned());
            script.benches.push(ScriptBench { server, bench });
        }
        TranslationKind::Nothing(why) => return TranslationBuilder::nothing(TOOL, why),
        _ => sheet.push_error("--bench-cmd is no line of a benchmark"),
    }
    for given in &line.given {
        let why = match given.name {
            "--serve-cmd" | "--bench-cmd" | "--num-runs" => continue,
            "--serve-params" => {
                "the file is not read: `foreach` of the stage `server` has a list of values for each key, and the benchmark is made for each"
            }
            "--bench-params" | "--link-vars" | "--workload-var" | "--workload-iters" => {
                "the file is not read: `foreach` of the stage `run_harness` has a list of values for each key"
            }
            "--after-bench-cmd" => "a server that a stage starts has an empty cache",
            "--server-ready-timeout" => "`ready.timeout` of the stage `server`",
            "--dry-run" => "`regatta plan` in place of `regatta run`",
            "--resume" => "the same `regatta run` continues: what is finished is cached",
            _ => "results are kept with the run: result.json, requests.jsonl",
        };
        sheet.push_untranslated(given.as_written(), why);
    }
    sheet.finish(TOOL, TranslationKind::Script(script))
}
