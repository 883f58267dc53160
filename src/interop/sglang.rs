//! SGLang: which of its programs a line is; its server, `python3 -m sglang.launch_server` and `sglang serve`; and its
//! load tools, `python3 -m sglang.bench_serving` and `python3 -m sglang.bench_one_batch_server` (batches of requests of
//! one length, one batch after the other).

use serde_json::{Value, json};

use crate::command_line::{
    CHAT, COMPLETIONS, Env, ParsedLine, RangeRatio, SHAREGPT_FILE, ScriptBench, TranslatedBench, TranslatedLoad,
    TranslatedScript, TranslationBuilder, TranslationKind, TranslationResult, adapters, host_and_port, idle_command,
    share, token_ids, tool_table,
};
use crate::command_server::ServerProgram;
use base::diag::ErrorText;
use base::spec::Quantity;

/// `sglang serve …`
pub(crate) fn sglang(env: &Env, words: &[String]) -> TranslationResult {
    let (command, rest) = words.split_first().map_or(("", words), |(command, rest)| (command.as_str(), rest));
    match command {
        "serve" => serve(&["sglang", "serve"], env, rest),
        _ => idle_command(&format!("sglang {command}"), "sglang *"),
    }
}

/// `python3 -m sglang.MODULE …`
pub(crate) fn module(module: &str, env: &Env, words: &[String]) -> TranslationResult {
    match module {
        "sglang.launch_server" => serve(&["python3", "-m", module], env, words),
        "sglang.bench_serving" | "sglang.benchmark.serving" => bench_serving(env, words),
        "sglang.bench_one_batch_server" => one_batch_server(env, words),
        _ => idle_command(module, "sglang.*"),
    }
}

tool_table!(SERVER, ["sglang-launch-server"], []);

/// `start` is the program and what stands in front of its arguments.
pub(super) fn serve(start: &[&str], env: &Env, words: &[String]) -> TranslationResult {
    let (kind, _) = SERVER.read_known(words, &mut TranslationBuilder::default());
    let is_part = kind.value("--nnodes").is_some_and(|count| count != "1")
        || kind.value("--disaggregation-mode").is_some_and(|mode| mode != "null");
    if is_part {
        return TranslationBuilder::nothing(
            SERVER.program,
            "cannot translate the line: it starts one part of a server of several; start them on their hosts, \
            and `regatta bench http://HOST:PORT` measures them",
        );
    }
    ServerProgram { table: &SERVER, is_typed: false }.translate(start, env, words)
}

tool_table!(SERVING, ["sglang-bench-serving"], [("token_ids", token_ids), ("adapters", adapters)]);

fn bench_serving(env: &Env, words: &[String]) -> TranslationResult {
    let mut load = TranslatedLoad::default();
    let line = SERVING.read(words, &mut load.builder);
    if let Err(why) = interface(&line, &mut load) {
        return TranslationBuilder::nothing(SERVING.program, why);
    }
    load.rate_and_limit(line.value("--request-rate"), line.last("--max-concurrency"));
    if let Err(why) = dataset(&line, &mut load) {
        return TranslationBuilder::nothing(SERVING.program, why);
    }
    load.put("warmup", line.setting("--warmup-requests"));
    load.put("seed", line.setting("--seed"));
    load.put("request.temperature", "0");
    load.streaming(!line.has("--disable-stream"));
    if !line.has("--disable-ignore-eos") {
        load.flag("extra.ignore_eos");
    }
    if env.has("OPENAI_API_KEY") {
        load.put("api_key_env", "OPENAI_API_KEY");
    }
    SERVING.apply(&line, &mut load);
    if load.data_set == "sharegpt" && !load.has("output_tokens") {
        load.needs_tokenizer(line.value("--tokenizer").or(line.value("--model")));
        load.builder.note("SGLang leaves out records with fewer than 2 tokens in prompt or answer");
    }
    load.default_tokenizer(line.value("--model"));
    load.finish(SERVING.program)
}

/// The server and its protocol; the sentence on one that is not measured.
fn interface(line: &ParsedLine, load: &mut TranslatedLoad) -> Result<(), ErrorText> {
    let backend = line.value("--backend").unwrap_or("sglang");
    // The port, the protocol, its usual path, and the path there.
    let (port, protocol, usual, path) = match backend {
        "sglang" | "sglang-native" | "sglang-oai" => ("30000", COMPLETIONS.0, COMPLETIONS.1, COMPLETIONS.1),
        "sglang-oai-chat" => ("30000", CHAT.0, CHAT.1, CHAT.1),
        "vllm" => ("8000", COMPLETIONS.0, COMPLETIONS.1, COMPLETIONS.1),
        "vllm-chat" => ("8000", CHAT.0, CHAT.1, CHAT.1),
        "lmdeploy" => ("23333", COMPLETIONS.0, COMPLETIONS.1, COMPLETIONS.1),
        "lmdeploy-chat" => ("23333", CHAT.0, CHAT.1, CHAT.1),
        "truss" => ("8080", COMPLETIONS.0, COMPLETIONS.1, "/v1/models/model:predict"),
        "trt" => ("8000", "generate", "/v2/models/ensemble/generate_stream", "/v2/models/ensemble/generate_stream"),
        other => {
            return Err(ErrorText::new(format_args!(
                "cannot translate the line: requests of --backend {other} are not measured; supported are OpenAI's \
                completions and chat, and Triton's `trt`"
            )));
        }
    };
    if matches!(backend, "sglang" | "sglang-native") {
        load.builder.note("SGLang's own `/generate` is not used: the same server answers /v1/completions");
    }
    load.put("protocol", protocol);
    load.limits_completion_tokens();
    if protocol == "generate" {
        // There --model is for the tokenizer.
        load.put("model", "ensemble");
    } else if let Some(name) = line.value("--served-model-name").or(line.value("--model")) {
        load.put("model", name);
    }
    let host = line.value("--host").filter(|host| *host != "0.0.0.0").unwrap_or("localhost");
    let of_host = || match host.rsplit_once(':') {
        // A whole URL, with its port or without.
        Some((_, behind)) if host.contains("://") && behind.parse::<u16>().is_ok() => host.to_owned(),
        _ => host_and_port(host, line.value("--port").unwrap_or(port)),
    };
    let base = line.value("--base-url").map_or_else(of_host, str::to_owned);
    load.address(&base, path, usual);
    Ok(())
}

/// Prompts and answers. An error is the sentence on a data set that is not read.
fn dataset(line: &ParsedLine, load: &mut TranslatedLoad) -> Result<(), ErrorText> {
    for given in line.given.iter().filter(|given| given.name.ends_with("-len") || given.name == "--num-prompts") {
        if given.number::<u32>().is_none() {
            load.builder.push_error(format!("`{given}` is not a whole number"));
        }
    }
    let number = |name: &str| line.first_number::<u32>(&[name]);
    let file = line.value("--dataset-path").filter(|file| !file.is_empty());
    load.put("stop.requests", number("--num-prompts").to_string());
    match line.setting("--dataset-name") {
        set @ ("random" | "random-ids") => {
            "random".clone_into(&mut load.data_set);
            lengths(line, ["--random-range-ratio", "--random-input-len", "--random-output-len"], load);
            if set == "random" {
                load.builder.note("SGLang cuts its prompts from ShareGPT's texts; Regatta generates them");
            }
        }
        set @ "generated-shared-prefix" => {
            set.clone_into(&mut load.data_set);
            let (groups, each) = (number("--gsp-num-groups"), number("--gsp-prompts-per-group"));
            load.put("stop.requests", groups.clone().map(u64::from).times(each.map(u64::from)).to_string());
            lengths(line, ["--gsp-range-ratio", "--gsp-question-len", "--gsp-output-len"], load);
            load.prefixes(positive(groups), &positive(number("--gsp-system-prompt-len")));
        }
        set @ "sharegpt" => {
            set.clone_into(&mut load.data_set);
            load.data("sharegpt", file.unwrap_or(SHAREGPT_FILE));
            load.set("data.order", json!("shuffled"));
            if file.is_none() {
                load.builder.note(format!(
                    "Regatta does not download it: put {SHAREGPT_FILE} into the project, or name it with --dataset-path"
                ));
            }
            if let Some(tokens) = line.value("--sharegpt-output-len") {
                load.put("output_tokens", tokens);
            }
        }
        name if name.starts_with("mooncake") => trace(line, file, load),
        "image" | "mmmu" => {
            return Err(ErrorText::new(
                "cannot translate the line: images are not sent; the same lengths of text are measured with \
                 --dataset-name random",
            ));
        }
        other => {
            return Err(ErrorText::new(format_args!(
                "cannot translate the line: the data set `{other}` is not supported; supported are ShareGPT's file, a \
                Mooncake trace, and synthetic prompts"
            )));
        }
    }
    Ok(())
}

/// Lengths from a share of the longest up to it. `names` are the options of the share, the prompts and the answers.
fn lengths(line: &ParsedLine, names: [&str; 3], load: &mut TranslatedLoad) {
    let share_of = line.share(names[0]);
    if let Some(given) = line.last(names[0]).filter(|given| share(given, "").is_none()) {
        load.builder.push_error(format!("`{given}`: a ratio from 0 to 1"));
    }
    for (name, key) in [(names[1], "input_tokens"), (names[2], "output_tokens")] {
        let longest = positive(line.first_number::<u32>(&[name]));
        let (shortest, _) = RangeRatio::UpTo.bounds(&longest, &share_of);
        load.length_between(key, &positive(shortest), &longest);
    }
}

fn positive(tokens: Quantity<u32>) -> Quantity<u32> {
    tokens.map(|tokens| tokens.max(1))
}

/// Mooncake's traces, at their time stamps where the line says so.
fn trace(line: &ParsedLine, file: Option<&str>, load: &mut TranslatedLoad) {
    "mooncake".clone_into(&mut load.data_set);
    load.data("mooncake", file.unwrap_or("conversation_trace.jsonl"));
    if line.has("--random-output-len") {
        load.builder.note("answers have the lengths of the trace; --random-output-len is for synthetic prompts");
    }
    load.builder
        .note("SGLang makes a prompt of a few tokens for each hash id; Regatta makes it as long as the trace says");
    let stamps = line.given.iter().find(|given| given.name == "--use-trace-timestamps");
    if stamps.is_some_and(|given| given.values.first().is_none_or(|word| word.eq_ignore_ascii_case("true"))) {
        let slower = line.value("--mooncake-slowdown-factor").and_then(|text| text.parse::<f64>().ok());
        load.trace(slower.filter(|factor| *factor > 0.0).map_or(1.0, |factor| 1.0 / factor));
    }
    if file.is_none() {
        load.builder.note("Regatta does not download it: name the trace with --dataset-path");
    }
}

tool_table!(ONE_BATCH_SERVER, ["sglang-bench-one-batch-server"], []);

fn one_batch_server(env: &Env, words: &[String]) -> TranslationResult {
    let mut builder = TranslationBuilder::default();
    let (line, others) = ONE_BATCH_SERVER.read_known(words, &mut builder);
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
            kind => return builder.finish(ONE_BATCH_SERVER.program, kind),
        }
    }
    let name = script.stages.keys().next().cloned();
    for batch in &numbers(&line, "--batch-size", &mut builder) {
        for input in &numbers(&line, "--input-len", &mut builder) {
            for output in &numbers(&line, "--output-len", &mut builder) {
                let bench = bench(base.unwrap_or("http://127.0.0.1:30000"), [batch, input, output], &line);
                script.benches.push(ScriptBench { server: name.clone(), bench, ..<_>::default() });
            }
        }
    }
    builder.note(
        "SGLang sends a batch as one request with this many prompts; Regatta sends each prompt as a request, all \
        at once",
    );
    line.given.iter().for_each(|given| ONE_BATCH_SERVER.push_untranslated(given, &mut builder));
    match (script.benches.as_slice(), script.stages.is_empty()) {
        ([_], true) => {
            let only = script.benches.remove(0);
            builder.finish(ONE_BATCH_SERVER.program, TranslationKind::Bench(only.bench))
        }
        _ => builder.finish(ONE_BATCH_SERVER.program, TranslationKind::Script(script)),
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
        builder.push_error(format!("`{name} {}`: whole numbers of at least 1", texts.join(" ")));
        Vec::new()
    })
}
