//! Lines of load tools whose load is easily taken for another one: what is sent for them here, or the note or the sentence on it.

use pretty_assertions::assert_eq;
use regatta::interop::{TranslatedBench, Translation, TranslationKind, read_line};
use serde_json::{Value, json};

use crate::world::World;

fn import(line: &str) -> Translation {
    read_line(&[line.to_owned()]).unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn bench(line: &str) -> TranslatedBench {
    match import(line).kind {
        TranslationKind::Bench(bench) => bench,
        other => panic!("{line}: {other:?}"),
    }
}

fn error(line: &str) -> String {
    read_line(&[line.to_owned()]).expect_err(line).to_string()
}

/// The sentence on a line that is not measured.
fn refusal(line: &str) -> String {
    match import(line).kind {
        TranslationKind::Nothing(why) => why,
        other => panic!("{line}: {other:?}"),
    }
}

fn option<'a>(bench: &'a TranslatedBench, name: &str) -> Option<&'a str> {
    let at = bench.args.iter().position(|word| word == name)?;
    bench.args.get(at + 1).map(String::as_str)
}

fn has_note(line: &str, text: &str) -> bool {
    import(line).notes.iter().any(|note| note.contains(text))
}

/// Why an argument has no place.
fn why(line: &str, argument: &str) -> String {
    let all = import(line).untranslated;
    let found = all.iter().find(|option| option.argument.starts_with(argument));
    found.unwrap_or_else(|| panic!("{line}: {all:?}")).why.clone()
}

#[test]
fn a_rate_of_turns_is_a_rate_of_conversations_as_many_times_lower() {
    let aiperf = "aiperf profile --model Qwen/Qwen3-0.6B --endpoint-type chat --streaming --url localhost:8000 --conversation-num 30 --conversation-turn-mean 4 --request-rate 5 --request-rate-mode poisson --synthetic-input-tokens-mean 200 --output-tokens-mean 150 --random-seed 42";
    let guidellm = "guidellm run --backend kind=openai_http,target=http://localhost:8000,model=m,request_format=/v1/chat/completions --profile kind=constant,rate=2.0 --constraint kind=max_requests,count=100 --data kind=synthetic_text,prompt_tokens=150,output_tokens=75,turns=4,prefix_tokens=100";
    for (line, rate, requests) in [(aiperf, "1.25", "120"), (guidellm, "0.5", "100")] {
        let bench = bench(line);
        assert_eq!((option(&bench, "--rate"), option(&bench, "--requests")), (Some(rate), Some(requests)), "{line}");
        assert_eq!(bench.keys["sessions"]["turns"], json!({"fixed": 4}));
        assert!(has_note(line, "a later turn is sent after the answer to the previous one"), "{line}");
    }
    let levels = bench(&aiperf.replace("--request-rate 5", "--request-rate 4,8,10"));
    assert_eq!(option(&levels, "--rate"), Some("1,2,2.5"));
    let one_turn = bench(&aiperf.replace("--conversation-turn-mean 4", "--conversation-turn-mean 1"));
    assert_eq!(option(&one_turn, "--rate"), Some("5"));
}

#[test]
fn a_ratio_of_lengths_has_the_law_of_its_program() {
    let options = "--model openai/gpt-oss-120b --backend vllm --base-url http://0.0.0.0:8000 --dataset-name random --random-input-len 8192 --random-output-len 1024 --random-range-ratio 0.8 --num-prompts 320 --max-concurrency 32 --request-rate inf --ignore-eos --save-result --percentile-metrics 'ttft,tpot,itl,e2el'";
    let lengths = |program: &str| {
        let keys = bench(&format!("{program} {options}")).keys;
        let bounds = |key: &str| {
            let uniform = &keys[key]["uniform"];
            (uniform["min"].as_u64().unwrap(), uniform["max"].as_u64().unwrap())
        };
        (bounds("input_tokens"), bounds("output_tokens"))
    };
    let up_to = ((6553, 8192), (819, 1024));
    assert_eq!(lengths("python3 bench_serving/benchmark_serving.py"), up_to);
    assert_eq!(lengths("python3 -m atom.benchmarks.benchmark_serving"), up_to);
    assert_eq!(lengths("python3 benchmark_serving.py --use-chat-template"), up_to);
    let around = ((1638, 14746), (204, 1844));
    assert_eq!(lengths("python3 -m tensorrt_llm.serve.scripts.benchmark_serving"), around);
    assert_eq!(lengths("vllm bench serve"), around);
    // The name alone is that of several programs.
    assert_eq!(lengths("python3 benchmarks/benchmark_serving.py"), around);
    let other = "`input_tokens: { uniform: { min: 6553, max: 8192 } }`";
    assert!(has_note(&format!("python3 benchmarks/benchmark_serving.py {options}"), other));
    assert!(!has_note(&format!("python3 bench_serving/benchmark_serving.py {options}"), "in two ways"));
    assert!(error("vllm bench serve --use-chat-template").contains("InferenceMAX"));
}

#[test]
fn a_warm_up_of_aiperf_is_requests_or_a_time() {
    let sessions = "aiperf profile --model your-model --url localhost:8000 --endpoint-type chat --streaming --session-turns-mean 5 --num-warmup-sessions 10 --request-count 500";
    assert_eq!(option(&bench(sessions), "--warmup"), Some("50"));
    let first = "aiperf profile --model your-model --url localhost:8000 --endpoint-type chat --streaming --warmup-duration 60 --warmup-request-count 200 --request-count 500";
    let bench = bench(first);
    assert_eq!((option(&bench, "--warmup"), bench.keys.get("warmup_time")), (Some("200"), None));
    assert!(why(first, "--warmup-duration 60").contains("the first of its limits"));
    let own = "aiperf profile --model m --url localhost:8000 --concurrency 100 --warmup-request-count 40 --warmup-concurrency 20 --osl 4";
    assert!(why(own, "--warmup-concurrency 20").contains("the concurrency or the rate of the measured requests"));
}

#[test]
fn users_of_a_latency_test_of_trtllm_bench_are_kept() {
    let users = |line: &str| match import(line).kind {
        TranslationKind::Manifest(manifest) => {
            let bench = &manifest["stages"]["run_harness"]["bench"];
            let server = manifest["stages"]["server"]["serve"]["trtllm_serve"].to_string();
            (bench["scenario"].clone(), bench["concurrency"].clone(), server.contains("max_batch_size"))
        }
        other => panic!("{line}: {other:?}"),
    };
    let line = "trtllm-bench --model m latency --engine_dir /e --dataset d.json --concurrency 16";
    assert_eq!(users(line), (json!("concurrency"), json!(16), true));
    assert_eq!(users(&line.replace("--concurrency 16", "")), (json!("concurrency"), json!(1), false));
    assert_eq!(users(&line.replace("16", "0")), (json!("offline"), Value::Null, true));
}

#[test]
fn a_list_where_one_number_is_read_is_an_error() {
    for (line, name) in [
        ("aiperf profile --model m --concurrency 8 --num-conversations 50,100 --conversation-turn-mean 1,3", "50,100"),
        ("aiperf profile --model m --concurrency 8 --num-conversations 50 --conversation-turn-mean 1,3,8", "1,3,8"),
        ("aiperf profile --model m --concurrency 8 --benchmark-duration 30,60,120", "30,60,120"),
    ] {
        let error = error(line);
        assert!(error.contains(name) && error.contains("for each of its values"), "{error}");
    }
}

#[test]
fn a_file_without_a_type_has_the_one_of_its_first_line() {
    let world = World::new();
    let line = "aiperf profile --model m --url localhost:8000 --input-file trace.jsonl --concurrency 4";
    world.good(&["import", "--", line]).shows("add --custom-dataset-type mooncake_trace");
    world.file("trace.jsonl", "\n{\"timestamp\": 0, \"input_length\": 20, \"output_length\": 10, \"hash_ids\": [1]}\n");
    let printed = world.good(&["import", "--", line]).stdout;
    assert!(printed.contains("scenario: trace") && !printed.contains("output_tokens:"), "{printed}");
    world.file("trace.jsonl", "{\"input_length\": 20, \"output_length\": 10}\n");
    let printed = world.good(&["import", "--", line]).stdout;
    assert!(printed.contains("scenario: concurrency") && !printed.contains("output_tokens:"), "{printed}");
    world.file("trace.jsonl", "{\"turns\": [{\"text\": \"a\"}, {\"text\": \"b\"}]}\n");
    let ended = world.regatta(&["import", "--", line]);
    assert_eq!(ended.code, 2, "{ended:?}");
    ended.shows("of the type multi_turn is not supported");
}

#[test]
fn data_of_a_tool_that_begins_again_begin_again() {
    let aiperf = "aiperf profile --model m --input-file prompts.jsonl --custom-dataset-type single_turn --concurrency 10 --osl 32";
    for (line, repeats) in [
        (format!("{aiperf} --request-count 100"), true),
        (format!("{aiperf} --benchmark-duration 60"), true),
        (format!("{aiperf} --request-count 100 --no-allow-dataset-wrap"), false),
        (
            "genai-perf profile -m m --input-file prompts.jsonl --concurrency 10 --request-count 100 --osl 32"
                .to_owned(),
            true,
        ),
    ] {
        let repeat = bench(&line).args.iter().any(|word| word == "--repeat-data");
        assert_eq!(repeat, repeats, "{line}");
    }
    let types = "aiperf profile --model m --input-file x.jsonl --concurrency 1 --request-count 9 --custom-dataset-type";
    assert!(refusal(&format!("{types} multi_turn")).contains("one for each turn"));
    assert!(refusal(&format!("{types} bailian_trace")).contains("bailian_trace is not supported"));
}

#[test]
fn a_run_of_guidellm_ends_with_its_records() {
    let line = |loader: &str, data: &str, end: &str| {
        format!(
            "guidellm run --backend kind=openai_http,target=http://h:8000 --profile kind=concurrent,streams=4 {loader} --data {data} --constraint {end}"
        )
    };
    let synthetic = "kind=synthetic_text,prompt_tokens=8,output_tokens=4";
    let loaded = bench(&line("--data-loader kind=pytorch,samples=5", synthetic, "kind=max_requests,count=20"));
    assert_eq!(option(&loaded, "--requests"), Some("5"));
    let file = "kind=json_file,path=three.jsonl";
    let counted = line("", file, "kind=max_requests,count=20");
    let data = bench(&counted).keys["data"].clone();
    assert_eq!(data, json!({"first": 20}));
    assert!(has_note(&counted, "Regatta needs `output_tokens`"));
    assert!(has_note(
        &line("", file, "kind=max_duration,seconds=60"),
        "GuideLLM also ends a run after the last record"
    ));
    let quoted = bench(&line("", synthetic, r#"'{"kind":"max_duration","seconds":"30"}'"#));
    assert_eq!(option(&quoted, "--duration"), Some("30s"));
    assert_eq!(option(&bench(&line("", synthetic, "kind=max_requests,count=1e3")), "--requests"), Some("1000"));
    assert!(error(&line("", synthetic, "kind=max_requests,count=many")).contains("`count` is a number above 0"));
}

#[test]
fn a_warm_up_of_guidellm_is_of_time_or_of_requests_by_its_mode() {
    let line = |warmup: &str, end: &str| {
        format!(
            r#"guidellm run --backend kind=openai_http,target=http://h:8000 --data kind=synthetic_text,prompt_tokens=8,output_tokens=4 --profile '{{"kind":"concurrent","streams":[1,4],"warmup":{warmup}}}' --constraint {end}"#
        )
    };
    let warm_up = |line: &str| {
        let bench = bench(line);
        (option(&bench, "--warmup").map(str::to_owned), bench.keys.get("warmup_time").cloned())
    };
    let requests = |count: &str| (Some(count.to_owned()), None);
    let none = requests("0");
    assert_eq!(warm_up(&line(r#"{"mode":"duration","value":10}"#, "kind=max_requests,count=100")), none);
    assert_eq!(warm_up(&line(r#"{"mode":"requests","value":10}"#, "kind=max_duration,seconds=100")), none);
    assert_eq!(warm_up(&line(r#"{"mode":"requests","value":10}"#, "kind=max_requests,count=100")), requests("10"));
    let both = "guidellm benchmark --target http://h:8000 --rate-type concurrent --rate 4 --data prompt_tokens=8,output_tokens=4 --warmup 5 --max-seconds 60 --max-requests 1000";
    assert_eq!(warm_up(both), (Some("1".to_owned()), Some(json!("5s"))));
}

#[test]
fn prompts_that_a_tool_sends_again_are_sent_again() {
    let distinct = |line: &str| bench(line).keys.get("distinct_prompts").cloned();
    let line = "genai-perf profile -m m --endpoint-type chat --streaming -u localhost:8000 --isl 1000 --osl 100 --concurrency 32 --request-count 1000";
    assert_eq!(distinct(line), Some(json!(100)));
    assert!(has_note(line, "a prefix cache reuses"));
    assert_eq!(distinct(&format!("{line} --num-dataset-entries 500")), Some(json!(500)));
    assert_eq!(distinct(&line.replace("1000", "100")), None);
    let aiperf = "aiperf profile --model m --url localhost:8000 --isl 1000 --osl 100 --concurrency 32";
    assert_eq!(distinct(&format!("{aiperf} --benchmark-duration 60")), Some(json!(100)));
    assert_eq!(distinct(&format!("{aiperf} --request-count 1000")), None);
}

#[test]
fn a_ramp_of_vllm_takes_as_long_as_there() {
    let line = |strategy: &str| {
        format!(
            "vllm bench serve --model m --dataset-name random --ramp-up-strategy {strategy} --ramp-up-start-rps 1 --ramp-up-end-rps 16 --num-prompts 100"
        )
    };
    let seconds = |strategy: &str| {
        let steps = bench(&line(strategy)).keys["ramp"]["steps"].clone();
        let lasts = |step: &Value| step["lasts"].as_str().unwrap().trim_end_matches("ms").parse::<f64>().unwrap() / 1e3;
        let sent: f64 =
            steps.as_array().unwrap().iter().map(|step| step["level"].as_f64().unwrap() * lasts(step)).sum();
        assert!((sent - 100.0).abs() < 0.5, "{sent} requests");
        steps.as_array().unwrap().iter().map(lasts).sum::<f64>()
    };
    assert!((seconds("linear") - 18.8).abs() < 0.1);
    assert!((seconds("exponential") - 34.0).abs() < 0.1);
    let world = World::new();
    world.file("manifests/ramp.yaml", &world.good(&["import", "--", &line("exponential")]).stdout);
    world.good(&["check", "ramp"]);
}

#[test]
fn searches_are_refused_with_what_finds_a_load_here() {
    for line in [
        "aiperf profile --model m --url localhost:8000 --search-recipe max-throughput-ttft-sla --ttft-sla-ms 200",
        "perf_analyzer -m m --service-kind openai -u localhost:8000 --concurrency-range 1:64 --binary-search -l 200",
    ] {
        assert!(refusal(line).contains("`bench.search`"), "{line}");
    }
}

#[test]
fn reasons_name_what_there_is() {
    let sglang = "python3 -m sglang.bench_serving --backend sglang-oai --dataset-name random --tokenize-prompt";
    assert_eq!(bench(sglang).keys["request"]["interface"], "token_ids");
    let trtllm = "python -m tensorrt_llm.serve.scripts.benchmark_serving --model m --backend openai --dataset-name random --tokenize-on-client";
    assert_eq!(bench(trtllm).keys["request"]["interface"], "token_ids");
    let burstiness = "aiperf profile --model m --request-rate 5 --vllm-burstiness 0.5 --osl 4 --request-count 9";
    assert!(why(burstiness, "--vllm-burstiness").contains("--arrival-pattern gamma"));
    let trace = "aiperf profile --model m --input-file t.jsonl --custom-dataset-type mooncake_trace --force-min-tokens --synthesis-max-isl 4096";
    assert!(why(trace, "--force-min-tokens").contains("ignore_eos"));
    assert!(why(trace, "--synthesis-max-isl").contains("data.max_input_tokens"));
    let custom = "python -m tensorrt_llm.serve.scripts.benchmark_serving --model m --dataset-name trtllm_custom --dataset-path d.jsonl";
    assert!(refusal(custom).contains("save its prompts as JSON lines"));
    assert!(refusal("mlcr run-mlperf,inference --model=llama2-70b-99").contains("regatta run WORKLOAD"));
    let file = "python3 ../../python/sglang/bench_serving.py --backend trt --dataset-name random --num-prompt 300 --request-rate 1 --random-input 4096 --random-output 1024 --random-range-ratio 0.125 --model meta-llama/Meta-Llama-3-8B-Instruct";
    assert_eq!(bench(file).keys["input_tokens"], json!({"uniform": {"min": 512, "max": 4096}}));
}

#[test]
fn ranks_of_one_mpirun_are_one_server_of_as_many_ranks() {
    let server = |line: &str| match import(line).kind {
        TranslationKind::Manifest(manifest) => manifest["stages"]["triton"].clone(),
        other => panic!("{line}: {other:?}"),
    };
    let first = "mpirun --allow-run-as-root -n 1 /opt/tritonserver/bin/tritonserver --model-repository=/models --grpc-port=8001 --http-port=8000 --metrics-port=8002 --disable-auto-complete-config --backend-config=python,shm-region-prefix-name=prefix0_ :";
    let second = "-n 1 /opt/tritonserver/bin/tritonserver --model-repository=/models --model-control-mode=explicit --load-model=tensorrt_llm --grpc-port=8001 --http-port=8000 --metrics-port=8002 --allow-http false --allow-grpc false --allow-metrics false --disable-auto-complete-config --backend-config=python,shm-region-prefix-name=prefix1_ :";
    let two = server(&format!("{first} {second}"));
    assert_eq!(two["gpus"], 2);
    assert_eq!(
        two["serve"]["triton"],
        json!({
            "repository": "/models", "mode": "leader", "world_size": 2, "grpc_port": 8001, "http_port": 8000, "metrics_port": 8002,
            "tensorrt_llm_model_name": ["tensorrt_llm"]
        })
    );
    let one = server(first);
    let words = one["serve"]["triton"]["words"].as_array().expect("one process").clone();
    assert_eq!((words.len(), words.contains(&json!(":"))), (7, false));
    let own = first.replace(" :", " --backend-config=python,shm-default-byte-size=67108864 --allow-http false :");
    let words = server(&own)["serve"]["triton"]["words"].to_string();
    assert!(words.contains("shm-default-byte-size") && words.contains("--allow-http"), "one process has them: {words}");
    let further = second.replace(" :", " --exit-timeout-secs 5 :");
    let untranslated: Vec<String> =
        import(&format!("{own} {further}")).untranslated.into_iter().map(|it| it.argument).collect();
    for word in
        ["--allow-http false", "--backend-config python,shm-default-byte-size=67108864", "--exit-timeout-secs", "5"]
    {
        assert!(untranslated.iter().any(|argument| argument == word), "{word}: {untranslated:?}");
    }
    let mixed = refusal(&format!("{first} -n 1 ./worker"));
    assert!(mixed.contains("`tritonserver` and `worker`"), "{mixed}");
    let world = World::new();
    let printed = world.good(&["import", "--", &format!("{first} {second}")]).stdout;
    world.file("manifests/ranks.yaml", &printed);
    world.good(&["check", "ranks"]);
}

#[test]
fn the_model_of_tritons_generate_endpoint_is_that_of_its_path() {
    let line = "python3 benchmark_serving.py --model /models/llama-8b --dataset-name random --num-prompts 8 --backend tensorrt-llm";
    let model = |line: &str| option(&bench(line), "--model").map(str::to_owned);
    assert_eq!(model(line).as_deref(), Some("ensemble"));
    let bls = format!("{line} --endpoint /v2/models/tensorrt_llm_bls/generate_stream");
    assert_eq!((model(&bls).as_deref(), bench(&bls).keys.get("endpoint")), (Some("tensorrt_llm_bls"), None));
    // The name at the server is not that of the tokenizer.
    let served = "vllm bench serve --model org/base --served-model-name base --num-prompts 8";
    assert!(has_note(served, "the tokenizer of org/base;"), "{:?}", import(served).notes);
}

#[test]
fn aiperf_reaches_triton_over_grpc_and_sends_whole_requests() {
    let line = "aiperf profile --model m --url grpc://a:8001 --url grpc://b:8001 --endpoint-type kserve_v2_infer --streaming --osl 8 --request-count 5 --concurrency 4";
    let kserve = bench(line);
    assert_eq!((kserve.args[0].as_str(), option(&kserve, "--protocol")), ("a:8001|b:8001", Some("kserve")));
    assert!(error(&line.replace("grpc://a", "http://a")).contains("over gRPC without TLS"));
    assert!(error(&format!("{line} --extra-inputs v2_input_name:INPUT")).contains("text_input and text_output"));
    let raw = "aiperf profile --model m --url h:8000 --endpoint-type chat --custom-dataset-type raw_payload --input-file in.jsonl --concurrency 1";
    assert_eq!(option(&bench(raw), "--data"), Some("in.jsonl"));
    assert!(has_note(raw, "a whole request as a JSON object"));
}

#[test]
fn guidellm_has_scenarios_of_its_own_and_older_names() {
    let chat = bench("guidellm benchmark --target http://h:8000 --scenario chat --max-seconds 10");
    assert_eq!((option(&chat, "--input-tokens"), option(&chat, "--sweep=8")), (Some("512"), Some("--arrivals")));
    let rag = bench(
        "guidellm run --backend kind=openai_http,target=http://h:8000 --scenario rag --constraint kind=max_requests,count=9",
    );
    assert_eq!(rag.keys["input_tokens"], json!({"normal": {"mean": 4096, "stddev": 512, "min": 2048, "max": 6144}}));
    let own = "guidellm benchmark --target http://h:8000 --scenario chat --data prompt_tokens=7,output_tokens=3 --max-requests 4";
    assert_eq!(option(&bench(own), "--input-tokens"), Some("7"));
    assert!(refusal("guidellm benchmark --scenario ./my.json").contains("the scenario `./my.json`"));
    let variance = own.replace("output_tokens=3", "output_tokens=3,prompt_tokens_stddev=150");
    assert!(why(&variance, "prompt_tokens_stddev=150").contains("did you mean `prompt_tokens_stdev`?"));
    let file = "guidellm benchmark --target http://h:8000 --data p.jsonl --data-sampler random --profile synchronous --max-requests 4";
    assert_eq!(bench(file).keys["data"]["order"], "shuffled");
    assert!(error("guidellm --target http://h:8000 --data-type emulated").contains("`--data-type`"));
    assert!(refusal("guidellm export benchmarks.json --output kind=csv").contains("regatta import FILE"));
}

#[test]
fn one_prompt_of_evalscope_is_sent_with_every_request() {
    let line = "evalscope perf --parallel 5 --url http://h:8000/v1/chat/completions --model q --api openai --prompt 'Once' -n 50 --max-tokens 9 --stop '<|im_end|>'";
    let sent = bench(line).args.join(" ");
    for part in
        ["\"messages\":[{\"role\":\"user\",\"content\":\"Once\"}]", "\"stop\":[\"<|im_end|>\"]", "--output-tokens 9"]
    {
        assert!(sent.contains(part), "`{part}` is missing in {sent}");
    }
    let none = error("evalscope perf --url http://h:8000/v1/chat/completions --model q --parallel 5");
    assert!(none.contains("needs --dataset: without it the questions of openqa"), "{none}");
}

#[test]
fn retries_of_inference_perf_are_of_connections() {
    let line = "inference-perf --server.base_url http://h:8000 --server.model_name m --data.type random --load.type poisson --load.stages '[{\"rate\": 2, \"duration\": 30}]' --load.request_retries 3";
    let retries = |line: &str| bench(line).keys["retries"].clone();
    assert_eq!(retries(line), json!({"times": 3, "on": ["connect"], "pause": "0.5s"}));
    assert_eq!(retries(&format!("{line} --load.request_retry_backoff_sec 2"))["pause"], "2s");
    assert!(!bench(&line.replace("retries 3", "retries 0")).keys.contains_key("retries"));
    assert!(refusal("inference-perf --config_file gone.yml").contains("`gone.yml`, which is absent or not YAML"));
}

#[test]
fn ratios_and_levels_that_a_program_refuses_are_errors() {
    let each = "vllm bench serve --model m --random-input-len 100 --random-output-len 100 --random-range-ratio '{\"input\": 0, \"output\": 0.5}' --num-prompts 10";
    let keys = bench(each).keys;
    assert_eq!((keys.get("input_tokens"), &keys["output_tokens"]["uniform"]["max"]), (None, &json!(150)));
    let sglang = "python3 -m sglang.bench_serving --backend sglang --num-prompts 10 --dataset-name random --random-range-ratio 2";
    assert!(error(sglang).contains("`--random-range-ratio 2`: a ratio from 0 to 1"));
    let both = "genai-perf profile -m m --endpoint-type chat --concurrency 4 --request-rate 10";
    assert!(error(both).contains("takes one of them"), "{}", error(both));
    let powers = "genai-perf analyze -m m --endpoint-type chat --sweep-type concurrency --sweep-range 50:100:10";
    assert!(error(powers).contains("both powers of 2"), "{}", error(powers));
}

#[test]
fn other_commands_of_a_program_have_a_sentence() {
    for (line, text) in [
        ("genai-bench excel --experiment-folder x", "lines of `genai-bench benchmark` are imported"),
        ("aiperf plot --paths artifacts", "lines of `aiperf profile` are imported"),
        ("evalscope eval --model m --datasets gsm8k", "it scores answers and measures no load"),
        ("lm_eval --model local-completions --tasks gsm8k", "it scores answers and measures no load"),
        (
            "python3 -u main.py --scenario Server --user-conf user.conf --dataset-path d.pkl",
            "measures the same workload with LoadGen",
        ),
        ("cm run script --tags=run-mlperf,inference", "the same workloads are manifests"),
    ] {
        assert!(refusal(line).contains(text), "{line}: {}", refusal(line));
    }
    assert!(error("python3 main.py --port 80").contains("command lines of `main.py` cannot be imported"));
    let cloud = "genai-bench benchmark --api-backend oci-genai --auth instance_principal --api-base https://h --api-model-name m --model-tokenizer t --task text-to-text --traffic-scenario 'D(10,10)'";
    assert!(why(cloud, "--auth").contains("a cloud's own interface"));
}

#[test]
fn a_file_of_options_that_is_elsewhere_is_an_input() {
    let world = World::new();
    let line =
        "trtllm-bench -m m throughput --backend pytorch --tp 2 --dataset d.txt --extra_llm_api_options there.yml";
    let printed = world.good(&["import", "--", line]).stdout;
    world.file("manifests/there.yaml", &printed).file("d.txt", "{}").file("there.yml", "a: 1\n");
    assert!(printed.contains("extra_llm_api_options: there.yml"), "{printed}");
    world.good(&["plan", "there"]);
}

#[test]
fn a_level_of_aiperf_that_rises_is_a_ramp_of_one_level() {
    let ramp = |options: &str| {
        let line = format!("aiperf profile --model m --endpoint-type chat --isl 8 --osl 4 {options}");
        let translation = import(&line);
        let is_lost = translation.untranslated.iter().any(|option| option.is_workload);
        match translation.kind {
            TranslationKind::Bench(bench) if !is_lost => bench.keys.get("ramp").cloned(),
            _ => None,
        }
    };
    let linear = |from: Value, to: u32, over: &str| Some(json!({"linear": {"from": from, "to": to, "over": over}}));
    assert_eq!(ramp("--concurrency 4 --concurrency-ramp-duration 30"), linear(json!(1), 4, "30000ms"));
    assert_eq!(ramp("--request-rate 10 --request-rate-ramp-duration 20"), linear(json!(0.05), 10, "20000ms"));
    for other in ["--concurrency 2,4", "--request-rate 5 --concurrency 4"] {
        assert_eq!(ramp(&format!("{other} --concurrency-ramp-duration 30")), None, "{other}");
    }
}

#[test]
fn lines_that_a_page_shows_as_a_pattern_do_not_hide_the_others() {
    let run = |benchmark: &str| {
        format!("make run_harness RUN_ARGS=\"--benchmarks={benchmark} --scenarios=Offline --harness_type=triton\"")
    };
    let page = format!("{}\n\n{}\n", run("llama2-70b"), run("<model_name>"));
    let translation = import(&page);
    assert!(matches!(&translation.kind, TranslationKind::Script(script) if script.runs.len() == 1), "{translation:?}");
    let lost = translation.untranslated.iter().find(|option| option.is_workload).expect("the pattern");
    assert!(lost.why.contains("`<model_name>` is a placeholder of the page: write one of llama2-70b"), "{}", lost.why);
    assert!(error(&run("<model_name>")).contains("is a placeholder of the page"), "alone it is an error");
}
