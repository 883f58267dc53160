//! `trtllm-bench`'s command line. Its three commands become a stage of their own, a server with one user, or a build.

use serde_json::{Map, Value, json};

use crate::command_line::{
    Env, GivenOption, ParsedLine, TranslationBuilder, TranslationResult, read_known, tool_table, yaml_options,
};
use crate::tensorrt_llm::OUTPUT;
use crate::trtllm_serve::{self, ServeStage};
use base::spec::{Formula, NumberKind, Quantity};

const BENCH: &str = "trtllm-bench";

tool_table!(TABLE, ["trtllm-bench"], []);

/// `trtllm-bench … throughput` is a stage; `latency` is the same engine behind trtllm-serve with one user.
/// `content` is that of a file.
pub(crate) fn translate(env: &Env, words: &[String], content: &dyn Fn(&str) -> Option<String>) -> TranslationResult {
    let mut builder = TranslationBuilder::default();
    if let Some(at) = words.iter().position(|word| word == "prepare-dataset") {
        return prepare_dataset(words, at, builder);
    }
    let line = TABLE.read_as(TABLE.program, words, &mut builder);
    let kind = match line.plain.as_slice() {
        [kind] if ["throughput", "latency", "build"].contains(&kind.as_str()) => kind.as_str(),
        _ => {
            builder.push_error("trtllm-bench needs one of `throughput`, `latency`, `build`");
            "throughput"
        }
    };
    let Some(model) = line.value("--model") else {
        builder.push_error("trtllm-bench needs --model");
        return builder.finish_manifest(BENCH, BENCH, []);
    };
    match kind {
        "build" => return build(words, &line, builder),
        "throughput" => return throughput(env, &line, model, content, builder),
        _ => {}
    }
    builder.note(
        "`trtllm-bench` runs the engine in its own process; Regatta measures the same engine through \
        `trtllm-serve`, so HTTP and detokenization are part of the measurement",
    );
    env.report_visible_gpus(&mut builder);
    let mut server = ServeStage::new(line.value("--engine_dir").or(line.value("--model_path")).unwrap_or(model));
    let mut bench = Map::from_iter([
        ("target".to_owned(), json!("{{ stages.server }}")),
        ("protocol".to_owned(), json!("openai-completions")),
        ("model".to_owned(), json!("")),
    ]);
    if line.has("--engine_dir") || line.has("--model_path") {
        server.put("--tokenizer", &[line.value("--model_path").unwrap_or(model).to_owned()], &mut builder);
    }
    load(&line, &mut bench, &mut builder);
    // `latency_command` in tensorrt_llm/bench/benchmark/low_latency.py sets it, whatever the line has.
    if bench.get("concurrency") != Some(&json!(1)) {
        server.put("--max_batch_size", &["1".to_owned()], &mut builder);
        builder.note("trtllm-bench latency has batches of one request, so further ones wait in the server");
    }
    for given in &line.given {
        option(given, &line, &mut server, &mut bench, &mut builder);
    }
    let stages = [("server", server.stage(env)), ("run_harness", json!({"bench": bench}))];
    builder.finish_manifest(BENCH, BENCH, stages)
}

/// Its users, one where the line does not say, token by token.
fn load(line: &ParsedLine, bench: &mut Map<String, Value>, builder: &mut TranslationBuilder) {
    let users = if line.has("--concurrency") { line.number::<i64>("--concurrency") } else { Some(Quantity::Known(1)) };
    match users {
        Some(users @ (Quantity::Known(1..) | Quantity::Unknown(_))) => {
            bench.insert("scenario".to_owned(), json!("concurrency"));
            bench.insert("concurrency".to_owned(), json!(users));
        }
        // Without a limit.
        Some(_) => {
            bench.insert("scenario".to_owned(), json!("offline"));
        }
        None => builder.push_error(format!(
            "`--concurrency {}` is not a whole number",
            line.value("--concurrency").unwrap_or_default()
        )),
    }
    bench.insert("request".to_owned(), json!({"streaming": true}));
    let requests = line.number::<u64>("--num_requests").filter(|n| *n != Quantity::Known(0));
    if let Some(requests) = requests {
        bench.insert("stop".to_owned(), json!({"requests": requests}));
    }
    bench.insert("warmup".to_owned(), json!(line.number::<u64>("--warmup").unwrap_or(Quantity::Known(2))));
    match line.value("--dataset") {
        Some(file) => {
            bench.insert("data".to_owned(), json!({"jsonl": file}));
            builder.note("of each line of the data set its prompt or its ids, and its output_tokens, are read");
        }
        None => builder.push_error("trtllm-bench without --dataset reads its requests from stdin: give the file"),
    }
    // Its answers have the length that the data set gives.
    bench.insert("extra".to_owned(), json!({"ignore_eos": true}));
}

/// An option of the server behind `latency`.
fn option(
    given: &GivenOption,
    line: &ParsedLine,
    server: &mut ServeStage,
    bench: &mut Map<String, Value>,
    builder: &mut TranslationBuilder,
) {
    let name = match given.name {
        "--kv_cache_free_gpu_mem_fraction" => "--kv_cache_free_gpu_memory_fraction",
        "--tp" => "--tp_size",
        "--pp" => "--pp_size",
        "--ep" => "--ep_size",
        "--beam_width" => "--max_beam_width",
        "--model" | "--model_path" | "--engine_dir" | "--dataset" | "--num_requests" | "--warmup" | "--concurrency"
        | "--streaming" => return,
        "--eos_id" if given.value() == "-1" => return,
        "--eos_id" => {
            bench.shift_remove("extra");
            "--eos_id"
        }
        name => name,
    };
    if trtllm_serve::TABLE.row(name).is_some() {
        return server.put(name, &given.values, builder);
    }
    let kind = line.plain.join(" ");
    let reason = TABLE.row(given.name).and_then(|row| row.reason.clone());
    let reason = reason.unwrap_or_else(|| format!("trtllm-bench {kind} has it, trtllm-serve does not"));
    builder.push_untranslated(given, reason);
}

/// A file of requests, made as the line makes it. `at` is where the command stands.
fn prepare_dataset(words: &[String], at: usize, mut builder: TranslationBuilder) -> TranslationResult {
    const FILE: &str = "dataset.jsonl";
    const NAME: &str = "prepare_dataset";
    let (before, own) = words.split_at(at + 1);
    let (line, others) = read_known("trtllm-bench prepare-dataset", OUTPUT, own, &mut builder);
    let mut command = vec![BENCH.to_owned()];
    command.extend_from_slice(before);
    command.extend(["--output".to_owned(), FILE.to_owned()]);
    command.extend(others);
    if let Some(path) = line.value("--output") {
        builder.produces(path, format!("{{{{ stages.{NAME}.out }}}}/{FILE}"));
        builder.note(format!("{path} is {FILE} in the stage's output folder"));
    }
    builder.finish_manifest(BENCH, BENCH, [(NAME, json!({"shell": command, "outputs": [FILE]}))])
}

/// The build unchanged, into the stage's own folder.
fn build(words: &[String], line: &ParsedLine, mut builder: TranslationBuilder) -> TranslationResult {
    let mut command: Vec<String> = vec![BENCH.to_owned()];
    let mut at = 0;
    while let Some(word) = words.get(at) {
        at += 1;
        match word.as_str() {
            "-w" | "--workspace" => at += 1,
            word if word.starts_with("--workspace=") => {}
            word => command.push(word.to_owned()),
        }
    }
    let place = 1;
    command.splice(place..place, ["--workspace".to_owned(), ".".to_owned()]);
    // Where the line leaves it, which the next line names.
    let (tp, pp) = (line.value("--tp").unwrap_or("1"), line.value("--pp").unwrap_or("1"));
    let place = format!("{}/tp_{tp}_pp_{pp}", line.value("--model").unwrap_or_default());
    let workspace = line.value("--workspace").unwrap_or("/tmp").trim_end_matches('/');
    builder.produces(&format!("{workspace}/{place}"), format!("{{{{ stages.generate_engines.out }}}}/{place}"));
    builder.note(
        "the engine is in the stage's output folder, below <model>/tp_<x>_pp_<y>; `engine:` builds with \
        trtllm-build, where the model's shape is written down",
    );
    let stage = json!({"gpus": line.product(&["--tp", "--pp"]), "shell": command});
    builder.finish_manifest(BENCH, BENCH, [("generate_engines", stage)])
}

/// `throughput`: the same measurement as a stage, its numbers reported as its own. What stands in front of it becomes
/// its `launcher`.
fn throughput(
    env: &Env,
    line: &ParsedLine,
    model: &str,
    content: &dyn Fn(&str) -> Option<String>,
    mut builder: TranslationBuilder,
) -> TranslationResult {
    if let (Some(_), Some(backend @ ("pytorch" | "_autodeploy"))) =
        (line.value("--engine_dir"), line.value("--backend"))
    {
        let reason = format!(
            "cannot translate the line: --engine_dir names a TensorRT engine, which --backend {backend} does not \
            read: leave one of the two out"
        );
        return TranslationBuilder::nothing(BENCH, reason);
    }
    let mut keys = Map::from_iter([("model".to_owned(), json!(model))]);
    if line.has("--engine_dir") && !line.has("--backend") {
        keys.insert("backend".to_owned(), json!("tensorrt"));
        builder.note(
            "the line names an engine, so --backend tensorrt is assumed, the default in releases that built engines",
        );
    }
    let (mut flags, mut inputs) = (Map::new(), Map::new());
    if !line.has("--dataset") {
        builder.push_error("trtllm-bench without --dataset reads its requests from stdin: give the file");
    }
    for given in line.given.iter().filter(|given| given.name != "--model") {
        match given.name {
            "--extra_llm_api_options" => {
                if let Some(options) = content(given.value()).and_then(|content| yaml_options(&content)) {
                    keys.insert("options".to_owned(), Value::Object(options));
                    builder.reads(given.value());
                } else {
                    let name = &given.name[2..];
                    inputs.insert(name.to_owned(), json!(given.value()));
                    flags.insert(name.to_owned(), json!(format!("{{{{ inputs.{name} }}}}")));
                }
            }
            "--report_json" | "--workspace" => {
                TABLE.row(given.name).into_iter().for_each(|row| row.push_untranslated(given, &mut builder));
            }
            "--log_level" | "--revision" => {
                builder.push_untranslated(given, "`trtllm_bench:` has no such key yet");
            }
            _ => key_or_flag(given, &mut keys, &mut flags, &mut builder),
        }
    }
    keys.insert("launcher".to_owned(), json!([]));
    if !flags.is_empty() {
        keys.insert("flags".to_owned(), Value::Object(flags));
    }
    env.report_visible_gpus(&mut builder);
    let stage = env.stage(Some(line.product(&["--tp", "--pp"])), inputs, "trtllm_bench", Value::Object(keys));
    builder.note("the numbers are trtllm-bench's own; behind a server it is `serve: trtllm_serve` and a `bench`");
    builder.finish_manifest(BENCH, BENCH, [("throughput", Value::Object(stage))])
}

/// A key of `trtllm_bench:` where there is one for the option, else one of its `flags`.
fn key_or_flag(
    given: &GivenOption,
    keys: &mut Map<String, Value>,
    flags: &mut Map<String, Value>,
    builder: &mut TranslationBuilder,
) {
    let text = given.value();
    let flag = || if given.values.is_empty() { json!(true) } else { json!(text) };
    // The key has no other backends.
    let has_key = given.name != "--backend" || ["pytorch", "tensorrt", "_autodeploy"].contains(&text);
    let row = TABLE.row(given.name).filter(|_| has_key);
    let Some((row, key)) = row.and_then(|row| Some((row, row.sets.as_ref()?))) else {
        flags.insert(given.name[2..].to_owned(), flag());
        return;
    };
    if !row.is_number() {
        keys.insert(key.clone(), flag());
        return;
    }
    match serde_json::from_str(text) {
        // 0 and -1 are its values for "all".
        Ok(Value::Number(number)) if key == "num_requests" && number.as_i64().is_some_and(|n| n < 1) => {}
        Ok(number @ Value::Number(_)) => drop(keys.insert(key.clone(), number)),
        _ => {
            let kind = if key.ends_with("fraction") { NumberKind::Any } else { NumberKind::Whole };
            match Formula::read(text, kind) {
                Some(formula) => drop(keys.insert(key.clone(), json!(formula.to_string()))),
                None => builder.push_error(format!("`{} {text}` is not a number", given.written)),
            }
        }
    }
}
