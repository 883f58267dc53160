//! `trtllm-bench`'s command line. Its three commands become a stage of their own, a server with one user, or a build.

use serde_json::{Map, Value, json};

use super::throughput::throughput;
use crate::command_line::options::{GivenOption, Opt, ParsedLine, flag, one, read, read_known};
use crate::command_line::program::Env;
use crate::command_line::translation::{Translation, TranslationBuilder, manifest};
use crate::command_line::translation_error::TranslationError;
use crate::command_line::visible_gpus::visible;
use crate::trtllm_serve::ServeStage;
use base::spec::Quantity;

const BENCH: &str = "trtllm-bench";

#[rustfmt::skip]
static BENCHES: &[Opt] = &[
    one(&["--model", "-m"]), one(&["--model_path"]), one(&["--workspace", "-w"]), one(&["--log_level"]), one(&["--revision"]),
    one(&["--engine_dir"]), one(&["--backend"]), one(&["--extra_llm_api_options", "--config"]), one(&["--max_batch_size"]), one(&["--max_num_tokens"]), one(&["--max_seq_len"]),
    one(&["--beam_width"]), one(&["--kv_cache_free_gpu_mem_fraction"]), one(&["--dataset"]), one(&["--eos_id"]), one(&["--modality"]), one(&["--max_input_len"]),
    one(&["--num_requests"]), one(&["--warmup"]), one(&["--target_input_len"]), one(&["--target_output_len"]), one(&["--tp", "--tp_size"]), one(&["--pp", "--pp_size"]), one(&["--ep", "--ep_size"]),
    one(&["--cluster_size"]), one(&["--concurrency"]), flag(&["--streaming"]), one(&["--report_json"]), one(&["--iteration_log"]), one(&["--output_json"]), one(&["--request_json"]),
    flag(&["--enable_chunked_context"]), one(&["--scheduler_policy"]), one(&["--medusa_choices"]), one(&["--quantization", "-q"]),
    flag(&["--no_weights_loading"]), flag(&["--trust_remote_code"]), one(&["--gpus_per_node"]),
    one(&["--custom_module_dirs"]), one(&["--sampler_options"]), one(&["--image_data_format"]), one(&["--data_device"]), flag(&["--no_skip_tokenizer_init"]), one(&["--random_seed"]),
    flag(&["--telemetry"]), flag(&["--no-telemetry"]), one(&["--max_beam_width"]), one(&["--kv_cache_dtype"]),
];

/// `trtllm-bench … throughput` is a stage; `latency` is the same engine behind trtllm-serve with one user.
/// `content` is that of a file.
pub(crate) fn translate(
    env: &Env,
    words: &[String],
    content: &dyn Fn(&str) -> Option<String>,
) -> Result<Translation, TranslationError> {
    let mut builder = TranslationBuilder::default();
    if let Some(at) = words.iter().position(|word| word == "prepare-dataset") {
        return prepare_dataset(words, at, builder);
    }
    let line = read(BENCH, BENCHES, words, &mut builder);
    let kind = match line.plain.as_slice() {
        [kind] if ["throughput", "latency", "build"].contains(&kind.as_str()) => kind.as_str(),
        _ => {
            builder.push_error("trtllm-bench needs one of `throughput`, `latency`, `build`");
            "throughput"
        }
    };
    let Some(model) = line.value("--model") else {
        builder.push_error("trtllm-bench needs --model");
        return builder.finish(BENCH, manifest("trtllm-bench", BENCH, Map::new()));
    };
    match kind {
        "build" => return build(words, &line, builder),
        "throughput" => return throughput(env, &line, model, content, builder),
        _ => {}
    }
    builder.note("trtllm-bench drives the engine in its own process; here the same engine is behind trtllm-serve, so HTTP and detokenizing are part of what is measured");
    visible(env, &mut builder);
    let mut server = ServeStage::of(line.value("--engine_dir").or(line.value("--model_path")).unwrap_or(model));
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
    let stages =
        Map::from_iter([("server".to_owned(), server.stage(env)), ("run_harness".to_owned(), json!({"bench": bench}))]);
    builder.finish(BENCH, manifest("trtllm-bench", BENCH, stages))
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
            "`--concurrency {}` is no whole number",
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

fn option(
    given: &GivenOption,
    line: &ParsedLine,
    server: &mut ServeStage,
    bench: &mut Map<String, Value>,
    builder: &mut TranslationBuilder,
) {
    let renamed = match given.name {
        "--kv_cache_free_gpu_mem_fraction" => "--kv_cache_free_gpu_memory_fraction",
        "--tp" => "--tp_size",
        "--pp" => "--pp_size",
        "--ep" => "--ep_size",
        "--backend"
        | "--extra_llm_api_options"
        | "--max_batch_size"
        | "--max_num_tokens"
        | "--max_seq_len"
        | "--cluster_size"
        | "--log_level"
        | "--revision"
        | "--trust_remote_code"
        | "--gpus_per_node" => given.name,
        "--beam_width" => "--max_beam_width",
        "--model" | "--model_path" | "--engine_dir" | "--dataset" | "--num_requests" | "--warmup" | "--concurrency"
        | "--streaming" => return,
        "--eos_id" if given.value() == "-1" => return,
        "--eos_id" => {
            bench.shift_remove("extra");
            return builder
                .push_untranslated(given.as_written(), "the server ends an answer at the model's own end token");
        }
        "--report_json" | "--iteration_log" | "--output_json" | "--request_json" => {
            return builder
                .push_untranslated(given.as_written(), "results are kept with the run: result.json, requests.jsonl");
        }
        "--scheduler_policy" | "--enable_chunked_context" => {
            return builder.push_untranslated(
                given.as_written(),
                "trtllm-serve has no such option: put it into the YAML of --extra_llm_api_options",
            );
        }
        "--max_input_len" | "--target_input_len" | "--target_output_len" => {
            return builder.push_untranslated(
                given.as_written(),
                "it tunes trtllm-bench's choice of limits; set --max_batch_size and --max_num_tokens",
            );
        }
        "--workspace" => {
            return builder.push_untranslated(given.as_written(), "every stage has an output folder of its own");
        }
        _ => {
            return builder.push_untranslated(
                given.as_written(),
                format!("trtllm-bench {} has it, trtllm-serve does not", line.plain.join(" ")),
            );
        }
    };
    server.put(renamed, &given.values, builder);
}

/// Where `prepare-dataset` writes.
static OUTPUT: &[Opt] = &[one(&["--output"]), flag(&["--stdout"])];

/// A file of requests, made as the line makes it. `at` is where the command stands.
fn prepare_dataset(
    words: &[String],
    at: usize,
    mut builder: TranslationBuilder,
) -> Result<Translation, TranslationError> {
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
    let stages = Map::from_iter([(NAME.to_owned(), json!({"shell": command, "outputs": [FILE]}))]);
    builder.finish(BENCH, manifest("trtllm-bench", BENCH, stages))
}

/// The build unchanged, into the stage's own folder.
fn build(
    words: &[String],
    line: &ParsedLine,
    mut builder: TranslationBuilder,
) -> Result<Translation, TranslationError> {
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
    builder.note("the engine is in the stage's output folder, below <model>/tp_<x>_pp_<y>; `engine:` builds with trtllm-build, where the model's shape is written down");
    let stages = Map::from_iter([(
        "generate_engines".to_owned(),
        json!({"gpus": line.product(&["--tp", "--pp"]), "shell": command}),
    )]);
    builder.finish(BENCH, manifest("trtllm-bench", BENCH, stages))
}
