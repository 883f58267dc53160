//! `python3 -m sglang.bench_one_batch_server`: batches of requests of one length, one batch after the other.

use serde_json::Value;

use super::server;
use crate::command_line::load::{COMPLETIONS, TranslatedLoad, address};
use crate::command_line::options::{GivenOption, Opt, ParsedLine, flag, many, one, read_known};
use crate::command_line::program::Env;
use crate::command_line::translated_bench::TranslatedBench;
use crate::command_line::translation::{
    ScriptBench, TranslatedScript, Translation, TranslationBuilder, TranslationKind,
};
use crate::command_line::translation_error::TranslationError;
use base::spec::Quantity;

const TOOL: &str = "sglang.bench_one_batch_server";

/// Options of the benchmark; without --base-url all others are the server's, which it starts.
#[rustfmt::skip]
static OWN: &[Opt] = &[
    one(&["--base-url"]), many(&["--batch-size", "--batch"]), many(&["--input-len"]), many(&["--output-len"]), one(&["--temperature"]), flag(&["--return-logprob"]), one(&["--run-name"]), one(&["--result-filename"]),
    flag(&["--skip-warmup"]), flag(&["--show-report"]), flag(&["--profile"]), one(&["--profile-steps"]), flag(&["--profile-by-stage"]), one(&["--dataset-name"]), one(&["--dataset-path"]), one(&["--seed"]),
    one(&["--input-len-step-percentage"]), flag(&["--append-to-github-summary"]), one(&["--client-stream-interval"]), one(&["--cache-hit-rate"]), one(&["--pydantic-result-filename"]), one(&["--lora-name"]),
];

pub(super) fn translate(env: &Env, words: &[String]) -> Result<Translation, TranslationError> {
    let mut builder = TranslationBuilder::default();
    let (line, others) = read_known(TOOL, OWN, words, &mut builder);
    let mut script = TranslatedScript::default();
    let base = line.value("--base-url");
    if base.is_none() {
        let mut server = server::serve(&["python3", "-m", "sglang.launch_server"], env, &others)?;
        builder.absorb("the server", &mut server);
        match server.kind {
            TranslationKind::Manifest(mut manifest) => {
                if let Some(Value::Object(stages)) = manifest.remove("stages") {
                    script.stages = stages;
                }
            }
            kind => return builder.finish(TOOL, kind),
        }
    }
    let name = script.stages.keys().next().cloned();
    for batch in &numbers(&line, "--batch-size", "1", &mut builder) {
        for input in &numbers(&line, "--input-len", "1024", &mut builder) {
            for output in &numbers(&line, "--output-len", "16", &mut builder) {
                let bench = bench(base.unwrap_or("http://127.0.0.1:30000"), [batch, input, output], &line);
                script.benches.push(ScriptBench { server: name.clone(), bench });
            }
        }
    }
    builder.note(
        "there a batch is one request with this many prompts; here each prompt is a request, and all are sent at once",
    );
    for given in &line.given {
        if let Some(why) = left(given) {
            builder.push_untranslated(given.as_written(), why);
        }
    }
    match (script.benches.as_slice(), script.stages.is_empty()) {
        ([_], true) => {
            let only = script.benches.remove(0);
            builder.finish(TOOL, TranslationKind::Bench(only.bench))
        }
        _ => builder.finish(TOOL, TranslationKind::Script(script)),
    }
}

fn bench(base: &str, [batch, input, output]: [&Quantity<u32>; 3], line: &ParsedLine) -> TranslatedBench {
    let mut load = TranslatedLoad::default();
    let (protocol, path) = COMPLETIONS;
    address(base, path, path, &mut load);
    load.put("--protocol", protocol);
    load.put("--rate", "-1");
    load.put("--requests", batch.to_string());
    load.put("--input-tokens", input.to_string());
    load.put("--output-tokens", output.to_string());
    load.put("--warmup", if line.has("--skip-warmup") { "0" } else { "1" });
    load.put("--temperature", line.value("--temperature").unwrap_or("0"));
    load.put("--seed", line.value("--seed").unwrap_or("0"));
    load.flag("--ignore-eos");
    load.flag("--streaming");
    load.bench()
}

fn numbers(line: &ParsedLine, name: &'static str, usual: &str, builder: &mut TranslationBuilder) -> Vec<Quantity<u32>> {
    let given = line.given.iter().rev().find(|given| given.name == name);
    let texts = given.map_or_else(|| vec![usual.to_owned()], |given| given.values.clone());
    let is_level = |level: &Quantity<u32>| *level != Quantity::Known(0);
    let all: Option<Vec<Quantity<u32>>> = texts.iter().map(|text| text.parse().ok().filter(is_level)).collect();
    all.unwrap_or_else(|| {
        builder.push_error(format!("`{name} {}`: whole numbers from 1 on", texts.join(" ")));
        Vec::new()
    })
}

fn left(given: &GivenOption) -> Option<&'static str> {
    Some(match given.name {
        "--base-url" | "--batch-size" | "--input-len" | "--output-len" | "--temperature" | "--skip-warmup"
        | "--seed" => {
            return None;
        }
        "--profile" | "--profile-steps" | "--profile-by-stage" => {
            "a profile is taken on the server, with its own tools"
        }
        "--dataset-name" | "--dataset-path" => "prompts are made up, of exactly the length that is given",
        "--lora-name" => "an adapter is a model of its own over OpenAI's interfaces: --model",
        "--return-logprob" => "it is a field of the server's own interface: --extra NAME:VALUE, where OpenAI's has it",
        _ => "results are kept with the run: result.json, requests.jsonl",
    })
}
