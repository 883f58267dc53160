//! `vllm bench throughput` and `latency`, which drive the engine in their own process: the same load on `vllm serve`.

use std::sync::LazyLock;

use serde_json::Map;

use super::SERVE;
use super::dataset;
use crate::command_line::{
    Env, ParsedLine, ScriptBench, ToolTable, TranslatedLoad, TranslatedScript, Translation, TranslationBuilder,
    TranslationError, TranslationKind,
};
use base::spec::Quantity;

pub(crate) static TABLE: LazyLock<ToolTable> = LazyLock::new(|| {
    let files = [include_str!("../tools/vllm-bench-in-process.toml"), dataset::FILE];
    ToolTable::new(&files, &[])
});

const IN_PROCESS: &str = "vLLM runs the engine in the process of the benchmark; Regatta measures the same engine \
    through `vllm serve`, so HTTP and detokenization are part of the measurement";

/// All prompts at once.
pub(super) fn throughput(env: &Env, words: &[String]) -> Result<Translation, TranslationError> {
    const TOOL: &str = "vllm bench throughput";
    let mut load = TranslatedLoad::default();
    let (line, engine) = TABLE.read_known(words, &mut load.builder);
    if let Some(other @ ("hf" | "mii")) = line.value("--backend") {
        return TranslationBuilder::nothing(
            TOOL,
            format!("cannot translate the line: it measures another engine, `{other}`; --backend vllm is imported"),
        );
    }
    if let Err(why) = dataset::put(&line, dataset::RangeRatio::Around, &mut load) {
        return TranslationBuilder::nothing(TOOL, why);
    }
    load.put("scenario", "offline");
    load.put("warmup", "0");
    finish(TOOL, env, &line, engine, load)
}

/// One batch after the other.
pub(super) fn latency(env: &Env, words: &[String]) -> Result<Translation, TranslationError> {
    const TOOL: &str = "vllm bench latency";
    let mut load = TranslatedLoad::default();
    let (line, engine) = TABLE.read_known_as(TOOL, words, &mut load.builder);
    dataset::name(&line).clone_into(&mut load.data_set);
    let number = |name: &str| line.first_number::<u64>(&[name]);
    let batch = number("--batch-size").map(|batch| batch.max(1));
    let length = |name: &str, usual: u64| line.number::<u64>(name).unwrap_or(Quantity::Known(usual)).to_string();
    load.put("concurrency", batch.to_string());
    load.put("stop.requests", batch.clone().times(number("--num-iters")).to_string());
    load.put("warmup", batch.clone().times(number("--num-iters-warmup")).to_string());
    load.put("input_tokens", length("--input-len", 32));
    load.put("output_tokens", length("--output-len", 128));
    load.builder.note(format!(
        "vLLM starts a batch of {batch} when the previous one is finished; in Regatta each of {batch} users \
        sends its next request by itself, with answers of one length"
    ));
    finish(TOOL, env, &line, engine, load)
}

fn finish(
    tool: &'static str,
    env: &Env,
    line: &ParsedLine,
    mut engine: Vec<String>,
    mut load: TranslatedLoad,
) -> Result<Translation, TranslationError> {
    load.builder.note(IN_PROCESS);
    env.report_visible_gpus(&mut load.builder);
    load.target("localhost:8000");
    load.put("protocol", "openai-completions");
    load.flag("extra.ignore_eos");
    // Its own, whatever the model's generation_config.json has.
    load.put("request.temperature", "1.0");
    load.add("extra", "top_p:1.0");
    dataset::count_answers(line, &mut load);
    TABLE.apply(line, &mut load);
    if let Some(path) = line.value("--lora-path") {
        engine.extend(["--lora-modules".to_owned(), format!("lora={path}")]);
        load.put("model", "lora");
    }
    let mut builder = std::mem::take(&mut load.builder);
    let server = SERVE.command(&["vllm", "serve"], &engine, &mut builder);
    let script = TranslatedScript {
        stages: Map::from_iter([("server".to_owned(), server.stage(env))]),
        benches: vec![ScriptBench {
            server: Some("server".to_owned()),
            run: None,
            bench: load.bench(),
            place: String::new(),
        }],
        ..TranslatedScript::default()
    };
    builder.finish(tool, TranslationKind::Script(script))
}
