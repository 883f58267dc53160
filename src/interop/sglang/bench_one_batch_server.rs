//! `python3 -m sglang.bench_one_batch_server`: batches of requests of one length, one batch after the other.

use std::sync::LazyLock;

use serde_json::Value;

use super::serve;
use crate::command_line::{
    COMPLETIONS, Env, ParsedLine, ScriptBench, ToolTable, TranslatedBench, TranslatedLoad, TranslatedScript,
    Translation, TranslationBuilder, TranslationError, TranslationKind,
};
use base::spec::Quantity;

const TOOL: &str = "sglang.bench_one_batch_server";

pub(crate) static TABLE: LazyLock<ToolTable> =
    LazyLock::new(|| ToolTable::new(&[include_str!("../tools/sglang-bench-one-batch-server.toml")], &[]));

pub(super) fn translate(env: &Env, words: &[String]) -> Result<Translation, TranslationError> {
    let mut builder = TranslationBuilder::default();
    let (line, others) = TABLE.read_known(words, &mut builder);
    let mut script = TranslatedScript::default();
    let base = line.value("--base-url");
    if base.is_none() {
        let mut server = serve(&["python3", "-m", "sglang.launch_server"], env, &others)?;
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
    for batch in &numbers(&line, "--batch-size", &mut builder) {
        for input in &numbers(&line, "--input-len", &mut builder) {
            for output in &numbers(&line, "--output-len", &mut builder) {
                let bench = bench(base.unwrap_or("http://127.0.0.1:30000"), [batch, input, output], &line);
                script.benches.push(ScriptBench { server: name.clone(), run: None, bench, place: String::new() });
            }
        }
    }
    builder.note(
        "SGLang sends a batch as one request with this many prompts; Regatta sends each prompt as a request, all \
        at once",
    );
    line.given.iter().for_each(|given| TABLE.push_untranslated(given, &mut builder));
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
    load.address(base, path, path);
    load.put("protocol", protocol);
    load.put("rate", "-1");
    load.put("stop.requests", batch.to_string());
    load.put("input_tokens", input.to_string());
    load.put("output_tokens", output.to_string());
    load.put("warmup", if line.has("--skip-warmup") { "0" } else { "1" });
    load.put("request.temperature", line.setting("--temperature"));
    load.put("seed", line.setting("--seed"));
    load.flag("extra.ignore_eos");
    load.streaming(true);
    load.bench()
}

fn numbers(line: &ParsedLine, name: &str, builder: &mut TranslationBuilder) -> Vec<Quantity<u32>> {
    let texts = line.last(name).map_or_else(|| vec![line.setting(name).to_owned()], |given| given.values.clone());
    let is_level = |level: &Quantity<u32>| *level != Quantity::Known(0);
    let levels: Option<Vec<Quantity<u32>>> = texts.iter().map(|text| text.parse().ok().filter(is_level)).collect();
    levels.unwrap_or_else(|| {
        builder.push_error(format!("`{name} {}`: whole numbers from 1 on", texts.join(" ")));
        Vec::new()
    })
}
