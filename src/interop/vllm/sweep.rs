//! `vllm bench sweep serve`: servers and their benchmarks, one for each combination of settings, and
//! `serve_workload`, a sweep from one request at a time to all at once.

use std::path::Path;

use crate::command_line::{
    ParsedLine, ScriptBench, TranslateInner, TranslatedBench, TranslatedScript, TranslationBuilder, TranslationKind,
    TranslationResult, tool_table,
};
use base::diag::ErrorText;
use base::files::read_text;
use serde_json::{Map, Value};

const TOOL: &str = "vllm bench sweep";
/// Measurements of each combination, where the line has no number of them.
const RUNS: u32 = 3;
const SERVER: &str = "server";
/// More servers or benchmarks than these are no page's.
const MOST: usize = 500;

tool_table!(TABLE, ["vllm-bench-sweep"], []);

/// The lines behind its two options, once for each pair of combinations.
pub(super) fn translate(words: &[String], inner: TranslateInner<'_>) -> TranslationResult {
    let mut builder = TranslationBuilder::default();
    let line = TABLE.read_as(TABLE.program, words, &mut builder);
    let kind = line.plain.first().map_or("", String::as_str);
    let is_workload = match kind {
        "serve" => false,
        "serve_workload" | "serve-workload" => true,
        "serve_sla" | "serve-sla" => {
            let reason = format!(
                "cannot translate `{TOOL} {kind}`: it searches for a load within limits; import the line of its \
                    --bench-cmd, and `bench.search` with `limits` finds the highest rate"
            );
            return TranslationBuilder::nothing(TOOL, reason);
        }
        _ => {
            let reason = format!(
                "cannot translate `{TOOL} {kind}`: it measures no requests; a line of `{TOOL} serve` is imported, \
                    and `regatta compare` shows several results side by side"
            );
            return TranslationBuilder::nothing(TOOL, reason);
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
        let mut server = inner(&apply(&serve, settings)).map_err(|error| error.within("--serve-cmd"))?;
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
            let command = apply(&bench, combination);
            let mut measurement = inner(&command).map_err(|error| error.within("--bench-cmd"))?;
            if at == 0 && benches.is_empty() {
                builder.absorb("--bench-cmd", &mut measurement);
            }
            match measurement.kind {
                TranslationKind::Bench(bench) => benches.push(bench),
                TranslationKind::Nothing(reason) => return TranslationBuilder::nothing(TOOL, reason),
                _ => builder.push_error("--bench-cmd is not a line of a benchmark"),
            }
        }
        let benches = TranslatedBench::gathered(benches);
        if at == 0 && benches.len() > 1 {
            builder.note(
                "vLLM empties the server's prefix cache between its benchmarks; Regatta keeps it, unless the \
                server has --no-enable-prefix-caching",
            );
        }
        for mut bench in benches {
            if is_workload {
                workload(&line, &mut bench, &mut builder);
            } else {
                bench.repeat(line.value("--num-runs").and_then(|runs| runs.parse().ok()).unwrap_or(RUNS));
            }
            script.benches.push(ScriptBench { server: server.clone(), bench, ..<_>::default() });
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
    match combinations(Path::new(file)) {
        Ok(combinations) => combinations,
        Err(error) => {
            let reason = format!(
                "the file {error}; where it can be read, each of its settings is imported; by hand, `foreach` of the \
                    stage `{stage}` has a list of values for each key"
            );
            builder.push_untranslated_load(format!("{option} {file}"), reason);
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
        "vLLM spaces the levels between one user and all requests at once evenly; Regatta spaces them by equal ratios"
    } else {
        bench.replace_load(&[format!("--sweep={}", levels.saturating_sub(2).max(1))]);
        "vLLM's highest level sends all requests at once; Regatta adds users until the throughput stops growing"
    };
    builder.notes.retain(|other| other != note);
    builder.note(note);
}

/// Reports the options that have no place.
fn leave(line: &ParsedLine, is_workload: bool, builder: &mut TranslationBuilder) {
    for given in &line.given {
        let Some(row) = TABLE.row(given.name) else { continue };
        let reason = match given.name {
            "--workload-var" | "--workload-iters" if !is_workload => {
                "results are kept with the run: result.json, requests.jsonl"
            }
            "--num-runs" if is_workload && given.value() != "1" => {
                "a sweep measures each level once; run it again with another `seed`"
            }
            _ if row.computes.is_some() => continue,
            _ => row.reason(),
        };
        builder.push_untranslated(given, reason);
    }
}

/// Options of one combination, by their names without dashes in front.
type Combination = Map<String, Value>;

/// The key with the name of a combination; it does not set an option.
const NAME: &str = "_benchmark_name";

/// The combinations of a file: a list of objects, or objects by name.
fn combinations(path: &Path) -> Result<Vec<Combination>, ErrorText> {
    let no_combinations = || ErrorText::new("is neither a list of objects nor an object of objects");
    let text = read_text(path).map_err(|error| ErrorText::new(format_args!("cannot be read: {error}")))?;
    let read = serde_json::from_str(&text).map_err(|error| ErrorText::new(format_args!("is not JSON: {error}")))?;
    let entries: Vec<Value> = match read {
        Value::Array(entries) => entries,
        Value::Object(named) => named.into_iter().map(|(_, one)| one).collect(),
        _ => return Err(no_combinations()),
    };
    let combinations: Option<Vec<Combination>> = entries
        .into_iter()
        .map(|one| match one {
            Value::Object(mut one) => {
                one.shift_remove(NAME);
                Some(one)
            }
            _ => None,
        })
        .collect();
    combinations.filter(|entries| !entries.is_empty()).ok_or_else(no_combinations)
}

/// The command with these options: those that it has already get another value.
fn apply(command: &[String], combination: &Combination) -> Vec<String> {
    let mut command = command.to_vec();
    for (key, value) in combination {
        let mut option = match (value, key.contains('.')) {
            (Value::Bool(is_on), true) => vec![format!("--{}={is_on}", dashed(key))],
            (Value::Bool(true), false) => vec![format!("--{}", dashed(key))],
            (Value::Bool(false), false) => vec![format!("--no-{}", dashed(key))],
            (Value::String(text), _) => vec![format!("--{}", dashed(key)), text.clone()],
            (other, _) => vec![format!("--{}", dashed(key)), other.to_string()],
        };
        let at = command.iter().position(|word| {
            let name = word.split('=').next().unwrap_or_default();
            name.strip_prefix("--").is_some_and(|name| dashed(name) == dashed(key))
        });
        match at {
            Some(at) => {
                let is_joined = command[at].contains('=');
                let length = if option.len() == 2 && !is_joined { 2 } else { 1 };
                let end = (at + length).min(command.len());
                command.splice(at..end, option);
            }
            None => command.append(&mut option),
        }
    }
    command
}

/// `max_num_seqs` as an option has it. What stands behind a point is a key of a JSON value and stays as it is.
fn dashed(key: &str) -> String {
    match key.split_once('.') {
        Some((before, behind)) => format!("{}.{behind}", before.replace('_', "-")),
        None => key.replace('_', "-"),
    }
}

/// `max_num_seqs=max_concurrency,…`: whether the two combinations have equal values of each pair.
fn are_linked(links: &str, serve: &Combination, bench: &Combination) -> bool {
    let pairs = links.split(',').filter_map(|pair| pair.split_once('='));
    pairs.into_iter().all(|(server, benchmark)| {
        let value = serve.get(server.trim());
        value.is_some() && value == bench.get(benchmark.trim())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn applied(command: &str, combination: &Value) -> String {
        let command: Vec<String> = command.split(' ').map(str::to_owned).collect();
        apply(&command, combination.as_object().unwrap()).join(" ")
    }

    #[test]
    fn a_combination_changes_options_that_are_there_and_adds_the_others() {
        assert_eq!(applied("vllm serve m", &json!({"max_num_seqs": 32})), "vllm serve m --max-num-seqs 32");
        assert_eq!(
            applied("vllm serve m --max-num-seqs 8 -x", &json!({"max_num_seqs": 32})),
            "vllm serve m --max-num-seqs 32 -x"
        );
        assert_eq!(
            applied("b --max_concurrency=8 --seed 1", &json!({"max_concurrency": 4, "seed": 2})),
            "b --max-concurrency 4 --seed 2"
        );
        assert_eq!(applied("b", &json!({"eager": true, "chunked": false})), "b --eager --no-chunked");
        assert_eq!(
            applied("b", &json!({"compilation_config.use_inductor": true})),
            "b --compilation-config.use_inductor=true"
        );
    }

    #[test]
    fn linked_values_are_equal() {
        let (serve, bench) = (json!({"max_num_seqs": 4}), json!({"max_concurrency": 4}));
        let linked = |links, bench: &Value| are_linked(links, serve.as_object().unwrap(), bench.as_object().unwrap());
        assert!(linked("", &bench) && linked("max_num_seqs=max_concurrency", &bench));
        assert!(!linked("max_num_seqs=max_concurrency", &json!({"max_concurrency": 5})));
        assert!(!linked("max_num_seqs=max_concurrency", &json!({})));
    }
}
