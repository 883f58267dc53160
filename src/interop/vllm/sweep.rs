//! `vllm bench sweep serve`: servers and their benchmarks, one for each combination of settings, and `serve_workload`, a sweep
//! from one request at a time to all at once.

use std::path::Path;

use serde_json::Value;

use super::sweep_params::{self, Combination, are_linked};
use crate::command_line::options::{Opt, ParsedLine, flag, one, read};
use crate::command_line::translated_bench::TranslatedBench;
use crate::command_line::translation::{
    ScriptBench, TranslateInner, TranslatedScript, Translation, TranslationBuilder, TranslationKind,
};
use crate::command_line::translation_error::TranslationError;

const TOOL: &str = "vllm bench sweep";
const SERVER: &str = "server";
/// Measurements of each combination, where the line has no number of them.
const RUNS: u32 = 3;
/// More servers or benchmarks than these are no page's.
const MOST: usize = 500;

#[rustfmt::skip]
static TABLE: &[Opt] = &[
    one(&["--serve-cmd"]), one(&["--bench-cmd"]), one(&["--after-bench-cmd"]), flag(&["--show-stdout"]), one(&["--server-ready-timeout"]), one(&["--serve-params"]), one(&["--bench-params"]),
    one(&["--link-vars"]), one(&["-o", "--output-dir"]), one(&["-e", "--experiment-name"]), one(&["--num-runs"]), one(&["--warmup-num-prompts"]), flag(&["--continue-on-error"]), flag(&["--dry-run"]), flag(&["--resume"]),
    one(&["--workload-var"]), one(&["--workload-iters"]),
];

/// The lines behind its two options, once for each pair of combinations.
pub(super) fn translate(words: &[String], inner: TranslateInner<'_>) -> Result<Translation, TranslationError> {
    let mut builder = TranslationBuilder::default();
    let line = read(TOOL, TABLE, words, &mut builder);
    let kind = line.plain.first().map_or("", String::as_str);
    let is_workload = match kind {
        "serve" => false,
        "serve_workload" | "serve-workload" => true,
        "serve_sla" | "serve-sla" => {
            let why = format!(
                "`{TOOL} {kind}` has no meaning here: it searches for a load within limits; import the line of its --bench-cmd, and `bench.search` with `limits` finds the highest rate"
            );
            return TranslationBuilder::nothing(TOOL, why);
        }
        _ => {
            let why = format!(
                "`{TOOL} {kind}` has no meaning here: it measures no requests; a line of `{TOOL} serve` is imported, and `regatta compare` shows several results side by side"
            );
            return TranslationBuilder::nothing(TOOL, why);
        }
    };
    let mut command = |option: &str| {
        let words = line.value(option).and_then(shlex::split);
        if words.is_none() {
            builder.push_error(format!("{TOOL} needs {option} with a command line"));
        }
        words
    };
    let commands = (command("--serve-cmd"), command("--bench-cmd"));
    let (Some(serve), Some(bench)) = commands else {
        return builder.finish(TOOL, TranslationKind::Commands(Vec::new()));
    };
    let serve_params = params("--serve-params", "server", &line, &mut builder);
    let bench_params = params("--bench-params", "run_harness", &line, &mut builder);
    let links = line.value("--link-vars").unwrap_or_default();
    if serve_params.len().saturating_mul(bench_params.len()) > MOST {
        builder.push_error(format!("the two files have more than {MOST} pairs of settings"));
        return builder.finish(TOOL, TranslationKind::Commands(Vec::new()));
    }
    let mut script = TranslatedScript::default();
    for (at, settings) in serve_params.iter().enumerate() {
        let mut server = inner(&sweep_params::apply(&serve, settings)).map_err(|error| error.within("--serve-cmd"))?;
        if at == 0 {
            builder.absorb("--serve-cmd", &mut server);
        }
        let name = if at == 0 { SERVER.to_owned() } else { format!("{SERVER}_{}", at + 1) };
        if let TranslationKind::Manifest(mut manifest) = server.kind
            && let Some(Value::Object(stages)) = manifest.remove("stages")
        {
            for (key, stage) in stages {
                script.stages.insert(if key == SERVER { name.clone() } else { key }, stage);
            }
        }
        let server = script.stages.contains_key(&name).then_some(name);
        let mut benches: Vec<TranslatedBench> = Vec::new();
        for combination in bench_params.iter().filter(|bench| are_linked(links, settings, bench)) {
            let command = sweep_params::apply(&bench, combination);
            let mut measurement = inner(&command).map_err(|error| error.within("--bench-cmd"))?;
            if at == 0 && benches.is_empty() {
                builder.absorb("--bench-cmd", &mut measurement);
            }
            match measurement.kind {
                TranslationKind::Bench(bench) => benches.push(bench),
                TranslationKind::Nothing(why) => return TranslationBuilder::nothing(TOOL, why),
                _ => builder.push_error("--bench-cmd is no line of a benchmark"),
            }
        }
        let benches = TranslatedBench::gathered(benches);
        if at == 0 && benches.len() > 1 {
            builder.note("there the server's prefix cache is emptied between its benchmarks; here they share it, unless the server has --no-enable-prefix-caching");
        }
        for mut bench in benches {
            if is_workload {
                workload(&line, &mut bench, &mut builder);
            } else {
                bench.repeat(line.value("--num-runs").and_then(|runs| runs.parse().ok()).unwrap_or(RUNS));
            }
            script.benches.push(ScriptBench { server: server.clone(), bench });
        }
    }
    if script.benches.is_empty() && builder.problems.is_empty() {
        builder.push_error(format!("--link-vars {links}: no pair of settings has equal values"));
    }
    leave(&line, is_workload, &mut builder);
    builder.finish(TOOL, TranslationKind::Script(script))
}

/// The combinations of a file; without it one that changes nothing.
fn params(option: &str, stage: &str, line: &ParsedLine, builder: &mut TranslationBuilder) -> Vec<Combination> {
    let unchanged = vec![Combination::new()];
    let Some(file) = line.value(option) else { return unchanged };
    match sweep_params::read(Path::new(file)) {
        Ok(combinations) => combinations,
        Err(error) => {
            let why = format!(
                "the file {error}; where it can be read, each of its settings is imported; by hand, `foreach` of the stage `{stage}` has a list of values for each key"
            );
            builder.push_untranslated(format!("{option} {file}"), why);
            unchanged
        }
    }
}

/// One request at a time, all at once, and levels between the two.
fn workload(line: &ParsedLine, bench: &mut TranslatedBench, builder: &mut TranslationBuilder) {
    let levels = line.value("--workload-iters").and_then(|count| count.parse::<u32>().ok()).unwrap_or(10).max(2);
    let note = if line.value("--workload-var") == Some("max_concurrency") {
        let most = bench.value("--requests").and_then(|count| count.parse::<u64>().ok()).unwrap_or(1000).max(2);
        bench.replace_load(&["--concurrency".to_owned(), format!("1..{most}:{levels}")]);
        "there the levels between one user and all requests at once are evenly apart; here they have equal ratios"
    } else {
        bench.replace_load(&[format!("--sweep={}", levels.saturating_sub(2).max(1))]);
        "there the highest level sends all requests at once; here users are added until the throughput stops growing"
    };
    builder.notes.retain(|other| other != note);
    builder.note(note);
}

/// Options that are read above, and why the others have no place.
fn leave(line: &ParsedLine, is_workload: bool, builder: &mut TranslationBuilder) {
    for given in &line.given {
        let why = match given.name {
            "--serve-cmd" | "--bench-cmd" | "--serve-params" | "--bench-params" | "--link-vars" => continue,
            "--workload-var" | "--workload-iters" if is_workload => continue,
            "--num-runs" if !is_workload || given.value() == "1" => continue,
            "--num-runs" => "a sweep measures each level once; run it again with another `seed`",
            "--after-bench-cmd" => "nothing is sent between two benchmarks",
            "--server-ready-timeout" => "`ready.timeout` of the stage `server`",
            "--warmup-num-prompts" => "`warmup` of the stage `run_harness` is a number of requests before its own",
            "--continue-on-error" => "`regatta run --keep-going`",
            "--dry-run" => "`regatta plan` in place of `regatta run`",
            "--resume" => "the same `regatta run` continues: what is finished is cached",
            _ => "results are kept with the run: result.json, requests.jsonl",
        };
        builder.push_untranslated(given.as_written(), why);
    }
}
