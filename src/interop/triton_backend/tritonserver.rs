//! A line of `tritonserver` itself → a `serve: { triton: … }` stage that starts exactly that line; and
//! `mpirun -n 1 tritonserver … : -n 1 tritonserver …`, the ranks of one server, as launch_triton_server.py of the
//! TensorRT-LLM backend starts them: a stage starts its ranks with the same options itself.
//!
//! `launch_triton_server.py` of the TensorRT-LLM backend → a `serve: { triton: … }` stage.

use serde_json::{Map, Value, json};

use crate::command_line::{Env, GivenOption, ParsedLine, TranslationBuilder, TranslationResult, program, tool_table};
use base::spec::Quantity;

const TOOL: &str = "tritonserver";

// What clients must know of the line, and what ranks have of the script that starts them.
tool_table!(TABLE, ["tritonserver"], []);

/// `path` is the program as it was written, `around` what stands in front of it.
pub(crate) fn translate(path: &str, env: &Env, around: &[Vec<String>], words: &[String]) -> TranslationResult {
    // MPI separates ranks with a colon, and lines often have one after the last.
    let parts: Vec<&[String]> = words.split(|word| word == ":").filter(|part| !part.is_empty()).collect();
    if let [first, others @ ..] = parts.as_slice()
        && (!others.is_empty() || ranks(around) != Quantity::Known(1) || are_apart(around, first))
    {
        return translate_ranks(path, env, around, first, others);
    }
    let words = parts.first().copied().unwrap_or_default();
    let mut builder = TranslationBuilder::default();
    let (line, _) = TABLE.read_known(words, &mut builder);
    let mut server = Map::new();
    let repository = match line.value("--model-repository") {
        Some(folder) => folder.to_owned(),
        None => builder.require("model_repository", "<model_repository>".to_owned()),
    };
    if let Some((scheme, _)) = repository.split_once("://") {
        let reason = format!(
            "`{TOOL}` of a repository at cannot translate `{scheme}://`: models are read from a folder; copy it, \
            and give that"
        );
        return TranslationBuilder::nothing(TOOL, reason);
    }
    // The program starts in a folder of its own, where a path from the project's is another.
    let is_whole = repository.starts_with('/');
    let as_started = |word: &String| match word.split_once('=') {
        _ if is_whole => word.clone(),
        Some((name, value)) if value == repository => format!("{name}={{repository}}"),
        _ if *word == repository => "{repository}".to_owned(),
        _ => word.clone(),
    };
    let mut started = vec![path.to_owned()];
    started.extend(words.iter().map(as_started));
    if !line.has("--model-repository") {
        started.push("--model-repository={repository}".to_owned());
    }
    server.insert("repository".to_owned(), json!(repository));
    server.insert("words".to_owned(), json!(started));
    TABLE.put_keys(&line, &mut server, &mut builder);
    let gpus = env.gpus(&mut builder).map(Quantity::Known);
    let stage = env.stage(gpus, Map::new(), "serve", json!({"triton": server}));
    builder.finish_manifest(TOOL, "triton", [("triton", Value::Object(stage))])
}

/// Its options of launch_triton_server.py.
const LAUNCHED: [(&str, &str); 4] = [
    ("--model-repository", "--model_repo"),
    ("--grpc-port", "--grpc_port"),
    ("--http-port", "--http_port"),
    ("--metrics-port", "--metrics_port"),
];

/// What the script gives the further ranks and not the first one.
const OF_FURTHER_RANKS: [&str; 5] =
    ["--model-control-mode", "--load-model", "--allow-http", "--allow-grpc", "--allow-metrics"];

/// Settings of backends that are not the script's own, which keeps the shared memory of its ranks apart.
fn own_backend_configs(line: &ParsedLine) -> Vec<String> {
    let is_own = |given: &&GivenOption| {
        given.name == "--backend-config" && !given.value().starts_with("python,shm-region-prefix-name=")
    };
    line.given.iter().filter(is_own).map(ToString::to_string).collect()
}

/// Whether each rank of a step has a name of its own for its shared memory.
fn are_apart(around: &[Vec<String>], words: &[String]) -> bool {
    let is_of_rank = |word: &String| word.contains("shm-region-prefix-name=") && word.contains("{{");
    around.iter().any(|launcher| launcher[0] == "srun") && words.iter().any(is_of_rank)
}

/// How many ranks MPI starts of a command behind these words.
fn ranks(around: &[Vec<String>]) -> Quantity<u64> {
    let is_count = |word: &String| ["-n", "-np", "--np", "-c"].contains(&word.as_str());
    let count = |words: &Vec<String>| words.get(words.iter().position(is_count)? + 1)?.parse().ok();
    around.iter().filter(|words| words[0].starts_with("mpi")).find_map(count).unwrap_or(Quantity::Known(1))
}

/// `around` stands in front of the first rank, which is the program at `path` with the arguments `first`; each of
/// `others` begins with MPI's options.
fn translate_ranks(
    path: &str,
    env: &Env,
    around: &[Vec<String>],
    first: &[String],
    others: &[&[String]],
) -> TranslationResult {
    let mut builder = TranslationBuilder::default();
    let mut world = ranks(around);
    let mut models: Vec<String> = Vec::new();
    for part in others {
        let words: Vec<String> = std::iter::once("mpirun".to_owned()).chain(part.iter().cloned()).collect();
        let rank = program(&words)?;
        if rank.name != TOOL {
            return TranslationBuilder::nothing(
                TOOL,
                format!(
                    "cannot translate the line: its ranks are different programs, `{TOOL}` and `{}`; a stage \
                    starts the ranks of one server",
                    rank.name
                ),
            );
        }
        world = world.combine("+", ranks(&rank.around), u64::saturating_add);
        let (line, unread) = TABLE.read_known(rank.arguments, &mut builder);
        for word in unread.into_iter().chain(own_backend_configs(&line)) {
            builder.push_untranslated(word, "set for a later rank only: all ranks of a stage have the same options");
        }
        for model in line.given.iter().filter(|given| given.name == "--load-model").flat_map(|given| &given.values) {
            if !models.contains(model) {
                models.push(model.clone());
            }
        }
    }
    let (line, further) = TABLE.read_known(first, &mut builder);
    let rank_options =
        line.given.iter().filter(|given| OF_FURTHER_RANKS.contains(&given.name)).map(ToString::to_string);
    for word in rank_options.chain(own_backend_configs(&line)) {
        builder.push_untranslated(word, "set for the first rank only: all ranks of a stage have the same options");
    }
    let mut launched = vec!["--force".to_owned(), "--world_size".to_owned(), world.to_string()];
    for (option, name) in LAUNCHED {
        launched.extend(line.value(option).map(|value| format!("{name}={value}")));
    }
    if !models.is_empty() {
        launched.push(format!("--tensorrt_llm_model_name={}", models.join(",")));
    }
    if path != "/opt/tritonserver/bin/tritonserver" {
        launched.push(format!("--tritonserver={path}"));
    }
    let mut stage = launch_script_stage(env, &launched, &mut builder);
    if let Some(Value::Object(server)) = stage.pointer_mut("/serve/triton") {
        if let Some(level) = line.number::<u64>("--log-verbose") {
            server.insert("log_verbose".to_owned(), json!(level));
        }
        if let Some(file) = line.value("--log-file") {
            server.insert("log_file".to_owned(), json!(file));
        }
        if !further.is_empty() {
            builder.note("further options of the first rank are `args`, which all ranks have");
            server.insert("args".to_owned(), json!(further));
        }
    }
    builder.note("its ranks are started by the stage, with the options that launch_triton_server.py gives them");
    builder.finish_manifest(TOOL, "triton", [("triton", stage)])
}

tool_table!(LAUNCH_SCRIPT, ["launch-triton-server"], []);

pub(crate) fn translate_launch_script(env: &Env, words: &[String]) -> TranslationResult {
    let mut builder = TranslationBuilder::default();
    let stage = launch_script_stage(env, words, &mut builder);
    builder.finish_manifest(LAUNCH_SCRIPT.program, "triton", [("triton", stage)])
}

/// The stage, with the folder of its models as it was written.
pub(crate) fn launch_script_stage(env: &Env, words: &[String], builder: &mut TranslationBuilder) -> Value {
    let line = LAUNCH_SCRIPT.read(words, builder);
    let mut server = Map::new();
    if let Some(folder) = line.value("--model_repo") {
        server.insert("repository".to_owned(), json!(folder));
    } else {
        // The script's own default is a folder that is not there any more.
        let required = builder.require("model_repo", "<model_repo>".to_owned());
        server.insert("repository".to_owned(), json!(required));
    }
    if let Some(program) = line.value("--tritonserver") {
        server.insert("program".to_owned(), json!(program));
    }
    let world = line.number::<u64>("--world_size").unwrap_or(Quantity::Known(1));
    if let (Some(text), None) = (line.value("--world_size"), line.number::<u64>("--world_size")) {
        builder.push_error(format!("`--world_size {text}` is not a whole number"));
    }
    let is_multi = line.has("--multi-model");
    match (is_multi, &world) {
        (true, _) => {
            server.insert("mode".to_owned(), json!("orchestrator"));
            if line.has("--disable-spawn-processes") {
                server.insert("spawn_processes".to_owned(), json!(false));
                server.insert("world_size".to_owned(), json!(world));
            }
        }
        (false, Quantity::Known(0 | 1)) => {}
        (false, _) => {
            server.insert("mode".to_owned(), json!("leader"));
            server.insert("world_size".to_owned(), json!(world));
        }
    }
    if line.has("--no-mpi") {
        server.insert("launcher".to_owned(), json!("none"));
    }
    LAUNCH_SCRIPT.put_keys(&line, &mut server, builder);
    if !line.has("--force") {
        server.insert("force".to_owned(), json!(false));
    }
    if let Some(names) = line.value("--tensorrt_llm_model_name") {
        server.insert("tensorrt_llm_model_name".to_owned(), names.split(',').map(|name| json!(name.trim())).collect());
    }
    let file = line.value("--log-file");
    if line.has("--log") {
        server.insert("log_verbose".to_owned(), json!(3));
        server.insert("log_file".to_owned(), json!(file.unwrap_or("triton_log.txt")));
    } else if let Some(file) = file {
        builder.push_untranslated(
            format!("--log-file {file}"),
            "without --log the script does not use it; the log is that of the task",
        );
    }
    let gpus = if is_multi && line.has("--disable-spawn-processes") {
        world.combine("-", 1_u64, u64::saturating_sub)
    } else {
        world
    };
    let gpus = env.gpus(builder).map_or(gpus, Quantity::Known);
    // An orchestrator's models set how many it takes.
    let is_leased = !is_multi || line.has("--disable-spawn-processes") || env.has("CUDA_VISIBLE_DEVICES");
    Value::Object(env.stage(Some(gpus).filter(|_| is_leased), Map::new(), "serve", json!({"triton": server})))
}
