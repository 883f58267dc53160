//! Load tools that send chats to a server of OpenAI's interfaces: `genai-bench benchmark`, `evalscope perf`,
//! `llama-benchy`, which take lists of levels and have a measurement for each.

use serde_json::json;

use crate::command_line::{
    CHAT, COMPLETIONS, GivenOption, ParsedLine, ScriptBench, ToolTable, TranslatedLoad, TranslatedScript,
    TranslationBuilder, TranslationKind, TranslationResult, WHOLE_REQUESTS, api_key, token_ids, tool_table,
};
use base::spec::Quantity;

tool_table!(GENAI_BENCH, ["genai-bench"], [("backend", backend), ("scenario", scenario)]);
tool_table!(
    EVALSCOPE,
    ["evalscope-perf"],
    [
        ("api_key", api_key),
        ("dataset", dataset),
        ("answer", answer),
        ("token_ids", token_ids),
        ("prompt", prompt),
        ("stop", stop),
    ]
);
tool_table!(LLAMA_BENCHY, ["llama-benchy"], [("api_key", api_key), ("extra_body", extra_body)]);

/// The measurements of a line in which each of these options has a value for each of them: one after the other. Where
/// their numbers differ, or it is one, the line is one measurement.
fn one_after_the_other(
    table: &'static ToolTable,
    words: &[String],
    names: &[&'static str],
    measure: impl Fn(&[String]) -> TranslationResult,
) -> TranslationResult {
    let mut reading = TranslationBuilder::default();
    let line = table.read(words, &mut reading);
    let lists: Vec<GivenOption> = names.iter().map(|name| line.all(name)).collect();
    let count = lists.first().map_or(0, |list| list.values.len());
    if !reading.problems.is_empty() || count < 2 || lists.iter().any(|list| list.values.len() != count) {
        return measure(words);
    }
    let others = line.given.iter().filter(|given| !names.contains(&given.name));
    let others = others.flat_map(|given| std::iter::once(&given.written).chain(&given.values)).cloned();
    let others: Vec<String> = others.collect();
    let (mut script, mut builder) = (TranslatedScript::default(), TranslationBuilder::default());
    builder.note(format!("{} has {count} values: each is a benchmark of its own", names.join(" with ")));
    for at in 0..count {
        let level = lists.iter().flat_map(|list| [list.name.to_owned(), list.values[at].clone()]);
        let mut translation = measure(&others.iter().cloned().chain(level).collect::<Vec<_>>())?;
        builder.absorb(table.program, &mut translation);
        if let TranslationKind::Bench(bench) = translation.kind {
            script.benches.push(ScriptBench { bench, place: table.program.to_owned(), ..<_>::default() });
        }
    }
    builder.finish(table.program, TranslationKind::Script(script))
}

/// `genai-bench benchmark`.
pub(crate) fn genai_bench(words: &[String]) -> TranslationResult {
    /// Of its texts, where the line names none.
    const USUAL: [&str; 5] = ["N(480,240)/(300,150)", "D(100,100)", "D(100,1000)", "D(2000,200)", "D(7800,200)"];
    let name = "--traffic-scenario";
    let is_named = GENAI_BENCH.read(words, &mut TranslationBuilder::default()).has(name);
    let usual = USUAL.iter().filter(|_| !is_named).flat_map(|usual| [name.to_owned(), (*usual).to_owned()]);
    let words: Vec<String> = words.iter().cloned().chain(usual).collect();
    one_after_the_other(&GENAI_BENCH, &words, &[name], |words| {
        GENAI_BENCH.measurement(words, |line, load| _ = load.level("concurrency", &line.all("--num-concurrency")))
    })
}

fn backend(load: &mut TranslatedLoad, _: &ParsedLine, given: &GivenOption) -> bool {
    if ["vllm", "sglang"].contains(&given.value()) {
        load.flag("extra.ignore_eos");
    }
    ["openai", "vllm", "sglang"].contains(&given.value())
}

/// `D(100,200)`, `N(480,240)/(300,150)`, `U(50,100)/(200,250)`: the lengths of prompts and of answers.
fn scenario(load: &mut TranslatedLoad, _: &ParsedLine, given: &GivenOption) -> bool {
    let numbers = given.value().split(|c: char| !c.is_ascii_digit());
    let numbers: Vec<u32> = numbers.filter_map(|number| number.parse().ok()).collect();
    let (input, output) = match (given.value().get(..1), numbers.as_slice()) {
        (Some("D"), [input, output]) => ([*input; 2], [*output; 2]),
        // Numbers below the upper end, without their fractions.
        (Some("U"), [input, output]) => ([1, input.saturating_sub(1)], [2, output.saturating_sub(1)]),
        (Some("U"), [least_input, input, least_output, output]) => {
            ([*least_input, input.saturating_sub(1)], [*least_output, output.saturating_sub(1)])
        }
        (Some("N"), [input, input_deviation, output, output_deviation]) => {
            load.length("input_tokens.normal.stddev", &input_deviation.to_string());
            load.length("output_tokens.normal.stddev", &output_deviation.to_string());
            ([*input; 2], [*output; 2])
        }
        _ => return false,
    };
    for (key, [min, max]) in [("input_tokens", input), ("output_tokens", output)] {
        load.length_between(key, &min.into(), &max.max(min).into());
    }
    true
}

/// `evalscope perf`.
pub(crate) fn evalscope(words: &[String]) -> TranslationResult {
    let level =
        if EVALSCOPE.read(words, &mut TranslationBuilder::default()).has("--rate") { "--rate" } else { "--parallel" };
    one_after_the_other(&EVALSCOPE, words, &[level, "--number"], evalscope_level)
}

fn evalscope_level(words: &[String]) -> TranslationResult {
    EVALSCOPE.measurement(words, |line, load| {
        let url = line.setting("--url");
        let is_chat = url.ends_with("/chat/completions") || !url.ends_with("/completions");
        let (protocol, usual) = if is_chat && !line.has("--tokenize-prompt") { CHAT } else { COMPLETIONS };
        load.put("protocol", protocol);
        let base = url.trim_end_matches("/completions").trim_end_matches("/chat");
        load.overlapping_address(&[base], usual.trim_start_matches("/v1"), usual);
        if !line.has("--rate") {
            load.level("concurrency", &line.all("--parallel"));
        } else if load.level("rate", &line.all("--rate")) && !line.has("--open-loop") {
            load.whole("max_in_flight", &line.all("--parallel"));
        }
        let requests = line.all("--number");
        if requests.values.len() > 1 {
            let reason = "it has a different number of values than there are levels; the last one is used";
            load.builder.push_untranslated_load(&requests, reason);
        }
        load.put("stop.requests", requests.values.last().cloned().unwrap_or_default());
        load.put("warmup", warmup(line, requests.values.last()).to_string());
        answer(load, line, &line.all("--max-tokens"));
    })
}

/// One text for all requests.
fn prompt(load: &mut TranslatedLoad, _: &ParsedLine, given: &GivenOption) -> bool {
    let text = given.value();
    let is_chat = load.get("protocol") == Some(CHAT.0);
    let chat = json!({"messages": [{"role": "user", "content": text}]});
    let field = if is_chat { chat } else { json!({"prompt": text}) };
    load.add("extra", field.to_string());
    !text.starts_with('@')
}

/// A number of requests, or below 1 a share of those that are measured.
fn warmup(line: &ParsedLine, requests: Option<&String>) -> Quantity<u32> {
    let count = line.first_number::<f64>(&["--warmup-num"]);
    match (&count, requests.and_then(|requests| requests.parse::<Quantity<f64>>().ok())) {
        (Quantity::Known(share), Some(requests)) if *share > 0.0 && *share < 1.0 => {
            requests.combine("*", *share, |requests, share| requests * share).whole().at_least(1_u32)
        }
        _ => count.clone().whole(),
    }
}

fn stop(load: &mut TranslatedLoad, _: &ParsedLine, given: &GivenOption) -> bool {
    load.add("extra", json!({"stop": given.values}).to_string());
    true
}

/// Made-up prompts, or a file of requests.
fn dataset(load: &mut TranslatedLoad, line: &ParsedLine, given: &GivenOption) -> bool {
    let length = |name: &str| line.first_number::<u32>(&[name]);
    match given.value() {
        "random" => {
            let least = length("--min-prompt-length").at_least(1_u32);
            load.length_between("input_tokens", &least, &length("--max-prompt-length"));
            load.prefixes(length("--prefix-count"), &length("--prefix-length"));
        }
        "line_by_line" => {
            load.data("jsonl", line.setting("--dataset-path"));
            load.builder.note(WHOLE_REQUESTS);
        }
        _ => return false,
    }
    true
}

/// The length of answers: one, or the ends of a range. A record has a length of its own.
fn answer(load: &mut TranslatedLoad, line: &ParsedLine, given: &GivenOption) -> bool {
    let length = |at: usize| given.values.get(at)?.parse::<Quantity<u32>>().ok();
    let (Some(min), Some(max)) = (length(0), length(given.values.len() - 1)) else { return false };
    let is_of_records = line.value("--dataset") == Some("line_by_line");
    if !is_of_records || line.has(given.name) {
        load.length_between("output_tokens", &min, &max);
    }
    !is_of_records
}

/// `llama-benchy`.
pub(crate) fn llama_benchy(words: &[String]) -> TranslationResult {
    LLAMA_BENCHY.measurement(words, |line, load| {
        load.overlapping_address(&[line.setting("--base-url")], CHAT.1.trim_start_matches("/v1"), CHAT.1);
        load.put("model", line.value("--served-model-name").unwrap_or(line.setting("--model")));
        load.level("concurrency", &line.all("--concurrency"));
        let tokens = |text: &str| text.parse::<Quantity<u64>>().unwrap_or(Quantity::Known(0));
        let (mut lengths, depths) = (line.all("--pp"), line.all("--depth").values);
        lengths.values = lengths
            .values
            .iter()
            .flat_map(|prompt| {
                depths.iter().map(move |depth| {
                    tokens(prompt).combine("+", tokens(depth), |prompt, depth| prompt + depth).to_string()
                })
            })
            .collect();
        load.level("input_tokens", &lengths);
        load.level("output_tokens", &line.all("--tg"));
        let users = load.most_users().unwrap_or(Quantity::Known(1));
        load.put("stop.requests", line.first_number::<u64>(&["--runs"]).times(users.clone()).to_string());
        load.put("warmup", if line.has("--no-warmup") { Quantity::Known(0) } else { users }.to_string());
        load.builder.note(
            "`llama-benchy` sends one request for each user as a batch, and the next batch when all are \
            answered; in Regatta each user sends its next request when its own is answered. `llama-benchy` sends \
            a context (--depth) as a message of its own; Regatta makes it a part of the prompt",
        );
    })
}

/// `NAME=VALUE` or `NAME:VALUE`, with commas between them.
fn extra_body(load: &mut TranslatedLoad, _: &ParsedLine, given: &GivenOption) -> bool {
    given.value().split(',').for_each(|field| load.extra(&field.trim().replacen('=', ":", 1), true));
    true
}

#[cfg(test)]
mod tests {
    use crate::{Translation, TranslationKind, read_line};

    fn import(line: &str) -> Translation {
        read_line(&[line.to_owned()]).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    fn args(line: &str) -> String {
        match import(line).kind {
            TranslationKind::Bench(bench) => bench.args.join(" "),
            TranslationKind::Script(script) => {
                script.benches.iter().map(|one| one.bench.args.join(" ")).collect::<Vec<_>>().join("; ")
            }
            other => panic!("{line}: {other:?}"),
        }
    }

    fn lost(line: &str) -> Vec<String> {
        let options = import(line).untranslated.into_iter().filter(|option| option.is_workload);
        options.map(|option| option.argument).collect()
    }

    #[test]
    fn a_line_of_genai_bench_has_its_levels_and_its_lengths() {
        // The README of 0.0.5, with a scenario.
        let line = "genai-bench benchmark --api-backend vllm --api-base http://localhost:8080 --api-key k \
            --api-model-name m --model-tokenizer gpt2 --task text-to-text --traffic-scenario 'D(100,1000)' \
            --max-time-per-run 5 --max-requests-per-run 100";
        let sent = args(line);
        for part in [
            "http://localhost:8080 --model m --protocol openai-chat",
            "--concurrency 1,2,4,8,16,32,64,128,256",
            "--requests 100",
            "--input-tokens 100 --output-tokens 1000 --ignore-eos --temperature 0 --streaming",
        ] {
            assert!(sent.contains(part), "`{part}` is missing in {sent}");
        }
        assert!(lost(line).is_empty(), "{:?}", lost(line));
        let two = line.replace("'D(100,1000)'", "'N(480,240)/(300,150)' --traffic-scenario 'D(7800,200)'");
        let sent = args(&two.replace("vllm", "openai --num-concurrency 4 --num-concurrency 8"));
        assert!(sent.contains("--concurrency 4,8 ") && sent.contains("--input-tokens 480 --input-tokens-stddev 240"));
        assert!(!sent.contains("--ignore-eos"), "{sent}");
        assert!(sent.contains("; ") && sent.contains("--input-tokens 7800 --output-tokens 200"), "{sent}");
        assert_eq!(lost(&line.replace("text-to-text", "text-to-image")), ["--task text-to-image"]);
        assert_eq!(lost(&line.replace("vllm", "aws-bedrock")), ["--api-backend aws-bedrock"]);
        assert_eq!(args(&line.replace("--traffic-scenario 'D(100,1000)'", "")).split("; ").count(), 5);
    }

    #[test]
    fn a_line_of_llmperf_has_its_address_from_a_variable() {
        // The README, with its second variable.
        let line = "OPENAI_API_BASE=http://h:8000/v1 OPENAI_API_KEY=hush python token_benchmark_ray.py --model m \
            --mean-input-tokens 550 --stddev-input-tokens 150 --mean-output-tokens 150 --stddev-output-tokens 10 \
            --max-num-completed-requests 20 --timeout 600 --num-concurrent-requests 4 --results-dir out \
            --llm-api openai --additional-sampling-params '{\"top_p\": 0.5}'";
        let sent = args(line);
        for part in [
            "http://h:8000 --model m --protocol openai-chat",
            "--concurrency 4 --requests 20",
            "--input-tokens 550 --input-tokens-stddev 150 --output-tokens 150 --output-tokens-stddev 10",
            "--extra top_p:0.5",
            "--warmup 0",
        ] {
            assert!(sent.contains(part), "`{part}` is missing in {sent}");
        }
        assert!(!format!("{:?}", import(line)).contains("hush"));
        assert!(lost(line).is_empty(), "{:?}", lost(line));
        let unused = import(line).untranslated;
        assert!(unused.iter().all(|option| !option.argument.contains("OPENAI_API")), "{unused:?}");
        assert_eq!(lost(&line.replace("--llm-api openai", "--llm-api anthropic")), ["--llm-api anthropic"]);
        let error = read_line(&[line.replace("OPENAI_API_BASE=http://h:8000/v1 ", "")]).unwrap_err().to_string();
        assert!(error.contains("OPENAI_API_BASE=http://HOST:PORT/v1 is missing"), "{error}");
    }

    #[test]
    fn a_line_of_evalscope_has_its_users_or_its_rate() {
        let line = "evalscope perf --parallel 1 10 50 --number 10 20 100 --model m --api-key EMPTY --api openai \
            --url http://127.0.0.1:8801/v1/chat/completions --dataset random --max-tokens 1024 --min-tokens 1024 \
            --prefix-length 0 --min-prompt-length 1024 --max-prompt-length 1024 --extra-args '{\"ignore_eos\":true}'";
        let sent = args(line);
        for part in [
            "http://127.0.0.1:8801 --model m --protocol openai-chat --concurrency 1 --requests 10 ",
            "; http://127.0.0.1:8801 --model m --protocol openai-chat --concurrency 50 --requests 100 ",
            "--input-tokens 1024 --output-tokens 1024 --ignore-eos",
            "--temperature 0",
            "--extra min_tokens:1024",
        ] {
            assert!(sent.contains(part), "`{part}` is missing in {sent}");
        }
        assert_eq!(lost(&line.replace("10 20 100", "10 20")), ["--number 10 20"], "the tool refuses it");
        let swept = line.replace("10 20 100", "100");
        assert!(args(&swept).contains("--concurrency 1,10,50 --requests 100") && lost(&swept).is_empty());
        let line = &swept;
        let rate = args(&line.replace("--parallel 1 10 50", "--rate 5 --open-loop"));
        assert!(rate.contains("--rate 5") && !rate.contains("--concurrency"), "{rate}");
        for (warmup, requests) in [("7", "7"), ("0.1", "10"), ("0.001", "1")] {
            let sent = args(&format!("{line} --warmup-num {warmup}"));
            assert!(sent.contains(&format!("--warmup {requests} ")), "{sent}");
        }
        let base = args(&line.replace("8801/v1/chat/completions", "8801/v1"));
        assert!(!base.contains("--endpoint"), "{base}");
        let file =
            "evalscope perf --model m --url http://h:1/v1/completions --dataset line_by_line --dataset-path f.jsonl";
        let sent = args(file);
        assert!(sent.contains("--protocol openai-completions") && sent.contains("--data f.jsonl"), "{sent}");
        assert!(sent.contains("--requests 1000") && !sent.contains("--output-tokens"), "{sent}");
        for other in ["--dataset openqa", "--api embedding", "--sla-auto-tune"] {
            let line = format!("evalscope perf --model m --dataset random {other}");
            assert_eq!(lost(&line.replace("--dataset random --dataset", "--dataset")), [other]);
        }
        let error = read_line(&["evalscope perf --model m".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("needs --dataset"), "{error}");
    }

    #[test]
    fn a_line_of_llama_benchy_has_its_prompts_with_their_contexts() {
        let line = "llama-benchy --base-url http://localhost:8000/v1 --model m";
        let sent = args(line);
        for part in [
            "http://localhost:8000 --model m --protocol openai-chat --concurrency 1 --requests 3 --warmup 1",
            "--input-tokens 2048 --output-tokens 32 --streaming",
        ] {
            assert!(sent.contains(part), "`{part}` is missing in {sent}");
        }
        let levels = args(&format!(
            "{line} --concurrency 1 2 4 --runs 2 --no-warmup --exact-tg --depth 4096 --extra-body top_k=5"
        ));
        for part in
            ["--concurrency 1,2,4 --requests 8 --warmup 0", "--input-tokens 6144", "--ignore-eos", "--extra top_k:5"]
        {
            assert!(levels.contains(part), "`{part}` is missing in {levels}");
        }
        assert_eq!(lost(&format!("{line} --depth 4096 --enable-prefix-caching")), ["--enable-prefix-caching"]);
        // The example of its README.
        let depths = format!("{line} --depth 0 4096 8192 --latency-mode generation");
        assert!(lost(&depths).is_empty(), "{:?}", lost(&depths));
        match import(&depths).kind {
            TranslationKind::Bench(bench) => {
                assert_eq!(bench.keys["sweep"], serde_json::json!({"input_tokens": [2048, 6144, 10240]}));
            }
            other => panic!("{other:?}"),
        }
        assert!(lost(&format!("{line} --enable-prefix-caching")).is_empty());
        assert_eq!(lost(&format!("{line} --pp 128 256 --tg 16 32")), ["--tg 16 32"]);
    }
}
