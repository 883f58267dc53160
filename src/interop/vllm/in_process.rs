//! `vllm bench throughput` and `latency`, which drive the engine in their own process: the same load on `vllm serve`.

use serde_json::Map;

use super::dataset;
use super::server::SERVE;
use crate::command_line::load::TranslatedLoad;
use crate::command_line::options::{GivenOption, Opt, ParsedLine, flag, one, read_known};
use crate::command_line::program::Env;
use crate::command_line::translation::{
    ScriptBench, TranslatedScript, Translation, TranslationBuilder, TranslationKind,
};
use crate::command_line::translation_error::TranslationError;
use crate::command_line::visible_gpus::visible;
use base::spec::Quantity;

/// Options of the benchmarks; all others are the engine's, which `vllm serve` takes, too.
#[rustfmt::skip]
static OWN: &[Opt] = &[
    one(&["--backend"]), one(&["--dataset-name"]), one(&["--dataset-path", "--dataset"]), one(&["--num-prompts"]), one(&["--input-len"]), one(&["--output-len"]), flag(&["--no-oversample"]), flag(&["--disable-shuffle"]), flag(&["--no-stream"]),
    one(&["--random-input-len"]), one(&["--random-output-len"]), one(&["--random-range-ratio"]), one(&["--random-prefix-len"]), one(&["--prefix-len"]), one(&["--random-batch-size"]),
    one(&["--sharegpt-output-len"]), one(&["--custom-output-len"]), one(&["--sonnet-input-len"]), one(&["--sonnet-output-len"]), one(&["--sonnet-prefix-len"]),
    one(&["--prefix-repetition-prefix-len"]), one(&["--prefix-repetition-suffix-len"]), one(&["--prefix-repetition-num-prefixes"]), one(&["--prefix-repetition-output-len"]),
    one(&["--hf-subset"]), one(&["--hf-split"]), one(&["--hf-name"]), one(&["--hf-output-len"]), one(&["--hf-max-batch-size"]),
    one(&["--batch-size"]), one(&["--n"]), flag(&["--use-beam-search"]), one(&["--num-iters-warmup"]), one(&["--num-iters"]),
    flag(&["--profile"]), one(&["--output-json"]), flag(&["--async-engine"]), flag(&["--disable-frontend-multiprocessing"]), flag(&["--disable-detokenize"]), one(&["--lora-path"]),
];

const IN_PROCESS: &str = "it drives the engine in its own process; here the same engine is behind `vllm serve`, so HTTP and detokenizing are part of what is measured";

/// All prompts at once.
pub(super) fn throughput(env: &Env, words: &[String]) -> Result<Translation, TranslationError> {
    const TOOL: &str = "vllm bench throughput";
    let mut builder = TranslationBuilder::default();
    let (line, engine) = read_known(TOOL, OWN, words, &mut builder);
    if let Some(other @ ("hf" | "mii")) = line.value("--backend") {
        return TranslationBuilder::nothing(
            TOOL,
            format!("the line has no meaning here: it measures another engine, `{other}`; --backend vllm is imported"),
        );
    }
    let mut load = TranslatedLoad::default();
    if let Err(why) = dataset::put(&line, dataset::RangeRatio::Around, &mut load, &mut builder) {
        return TranslationBuilder::nothing(TOOL, why);
    }
    load.flag("--offline");
    load.put("--warmup", "0");
    finish(TOOL, env, &line, &engine, load, builder)
}

/// One batch after the other.
pub(super) fn latency(env: &Env, words: &[String]) -> Result<Translation, TranslationError> {
    const TOOL: &str = "vllm bench latency";
    let mut builder = TranslationBuilder::default();
    let (line, engine) = read_known(TOOL, OWN, words, &mut builder);
    let number = |name: &str, usual: u64| line.number::<u64>(name).unwrap_or(Quantity::Known(usual));
    let batch = number("--batch-size", 8).map(|batch| batch.max(1));
    let mut load = TranslatedLoad::default();
    load.put("--concurrency", batch.to_string());
    load.put("--requests", batch.clone().times(number("--num-iters", 30)).to_string());
    load.put("--warmup", batch.clone().times(number("--num-iters-warmup", 10)).to_string());
    load.put("--input-tokens", number("--input-len", 32).to_string());
    load.put("--output-tokens", number("--output-len", 128).to_string());
    builder.note(format!(
        "there a batch of {batch} starts when the one before it is finished; here each of {batch} users goes on by itself, with answers of one length"
    ));
    finish(TOOL, env, &line, &engine, load, builder)
}

fn finish(
    tool: &'static str,
    env: &Env,
    line: &ParsedLine,
    engine: &[String],
    mut load: TranslatedLoad,
    mut builder: TranslationBuilder,
) -> Result<Translation, TranslationError> {
    builder.note(IN_PROCESS);
    visible(env, &mut builder);
    load.target("localhost:8000");
    load.put("--protocol", "openai-completions");
    load.flag("--ignore-eos");
    // Its own, whatever the model's generation_config.json has.
    load.put("--temperature", "1.0");
    load.add("--extra", "top_p:1.0");
    dataset::count_answers(line, &mut load, &mut builder);
    for given in &line.given {
        left(given, line, &mut builder);
    }
    let server = SERVE.command(&["vllm", "serve"], engine, &mut builder);
    let script = TranslatedScript {
        stages: Map::from_iter([("server".to_owned(), server.stage(env))]),
        benches: vec![ScriptBench { server: Some("server".to_owned()), bench: load.bench() }],
        ..TranslatedScript::default()
    };
    builder.finish(tool, TranslationKind::Script(script))
}

fn left(given: &GivenOption, line: &ParsedLine, builder: &mut TranslationBuilder) {
    let why = match given.name {
        name if dataset::is_option(name) => return dataset::left(given, line, builder),
        "--output-json" => "results are kept with the run: result.json, requests.jsonl",
        "--profile" => "a profile is taken on the server, with its own tools",
        "--n" if given.value() == "1" => return,
        "--n" | "--use-beam-search" => "one answer to each prompt is measured",
        "--lora-path" => "an adapter is a model of its own over OpenAI's interfaces: `--lora-modules` of `vllm serve`",
        "--hf-max-batch-size" => "it is for another engine",
        // The engine behind a server is always asynchronous, in a process of its own, and detokenizes.
        "--async-engine" | "--disable-frontend-multiprocessing" | "--disable-detokenize" => {
            "`vllm serve` has its own front end, which detokenizes"
        }
        _ => return,
    };
    builder.push_untranslated(given.as_written(), why);
}
