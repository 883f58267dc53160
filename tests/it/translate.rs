//! `regatta import` of other tools' command lines and configs: what they mean here, word by word.
//!
//! `tests/golden/translate/lines/*.line` are command lines, `configs/` configs; what is printed is in `told/*.txt`. After a
//! change `UPDATE=1 cargo test --test it translate` writes what is printed now; read the difference.

use std::fs;
use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use regatta::interop::{ProblemKind, TranslationKind, read_config, read_line, read_scripts};
use serde_json::json;

use crate::world::{Ended, World};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/translate")
}

/// A project with the manifests that lines of `regatta run` are about.
fn world() -> World {
    let world = World::new();
    world.manifest(
        "llama3.3-70b",
        "params:\n  dtype: { choice: [nvfp4, fp8], default: fp8 }\n  max_num_tokens: { int: {}, default: 2048, env: MAX_NUM_TOKENS }\n\
         stages: { run_harness: { shell: 'echo {{ dtype }} {{ max_num_tokens }}' } }\n",
    );
    world.manifest(
        "llama2-70b",
        "params:\n  system: { choice: [h200-x8], default: h200-x8 }\n  scenarios: { list: [offline, server], default: [offline] }\n\
         \x20 accuracy: { choice: ['99', '99.9'], default: '99' }\n  backend: { choice: [triton, trtllm_serve], default: triton }\n  checkpoint: { path: required }\n\
         \x20 loadgen: { switch: {}, default: false }\n  tests: { list: [performance, accuracy, test06], default: [performance] }\n  duration: { text: {}, default: 10m }\n\
         stages:\n  run_harness: { shell: 'echo {{ system }} {{ scenarios }} {{ accuracy }} {{ backend }} {{ checkpoint }} {{ loadgen }} {{ tests }} {{ duration }}' }\n\
         \x20 score: { shell: 'echo {{ stages.run_harness.out }}' }\n",
    );
    world
}

/// As a person gets it, both streams.
fn output_of(ended: &Ended) -> String {
    format!("{}{}", ended.stdout, ended.stderr)
}

fn hold(name: &str, text: &str, different: &mut Vec<String>) {
    let path = golden().join("printed").join(format!("{name}.txt"));
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(golden().join("printed")).expect("a folder");
        fs::write(&path, text).expect("written");
    }
    if fs::read_to_string(&path).unwrap_or_default() != text {
        different.push(format!("{name}:\n{text}"));
    }
}

fn lines() -> Vec<(String, String)> {
    let files = fs::read_dir(golden().join("lines")).expect("the lines").flatten();
    let mut all: Vec<(String, String)> = files
        .map(|file| {
            let name = file.path().file_stem().expect("a name").to_string_lossy().into_owned();
            (name, fs::read_to_string(file.path()).expect("a line"))
        })
        .collect();
    all.sort();
    all
}

/// What was printed is taken as it stands: a manifest is checked, a command line's shape is looked at.
fn stands(world: &World, name: &str, ended: &Ended) {
    // What has no place of the load is an error below the manifest.
    let is_without_load = ended.code == 2 && ended.stderr.contains("sends a different load than the line");
    assert!(ended.code == 0 || is_without_load, "{name}: {ended:?}");
    if ended.stdout.contains("\nregatta: 1\n") {
        world.file("manifests/imported.yaml", &ended.stdout);
        world.good(&["check", "imported"]).shows("imported: good");
        return;
    }
    let commands = ended.stdout.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>();
    assert!(!commands.is_empty() && commands.iter().all(|line| line.contains("regatta ")), "{name}: {ended:?}");
}

#[test]
fn the_usual_command_lines_are_translated_as_they_were_read_and_approved() {
    let world = world();
    let mut different = Vec::new();
    let lines = lines();
    assert!(lines.len() >= 12, "{}", lines.len());
    for (name, line) in &lines {
        let ended = world.regatta(&["import", "--", line.trim()]);
        stands(&world, name, &ended);
        hold(name, &output_of(&ended), &mut different);
    }
    assert!(different.is_empty(), "not as in tests/golden/translate/printed:\n{}", different.join("\n"));
}

#[test]
fn words_of_a_shell_and_one_quoted_line_are_the_same() {
    let world = World::new();
    let words = ["import", "--", "genai-perf", "profile", "-m", "gpt2", "--streaming"];
    assert_eq!(
        world.good(&words).stdout,
        world.good(&["import", "--", "genai-perf profile -m gpt2 --streaming"]).stdout
    );
}

#[test]
fn a_loop_is_a_measurement_for_each_of_its_values_and_a_quoted_script_is_read() {
    let world = World::new();
    let line = "for c in 1 2 4; do genai-perf profile -m gpt2 --concurrency $c; done";
    let printed = world.good(&["import", "--", line]).stdout;
    let concurrency: Vec<&str> = printed.lines().filter(|line| line.trim().starts_with("concurrency: ")).collect();
    assert_eq!(concurrency, ["      concurrency: 1", "      concurrency: 2", "      concurrency: 4"], "{printed}");
    world.file("manifests/loop.yaml", &printed);
    world.good(&["plan", "loop"]);
    let counted = "for c in $(seq 2 2 6); do genai-perf profile -m gpt2 --concurrency $c; done";
    assert!(world.good(&["import", "--", counted]).stdout.contains("concurrency: 6"));
    let quoted = "bash -lc 'cd /models && vllm serve gpt2 --port 8080'";
    let printed = world.good(&["import", "--", quoted]).stdout;
    assert!(printed.contains("serve:") && printed.contains("8080"), "{printed}");
    let served = "docker run --gpus all vllm/vllm-openai:v0.9.1 --model gpt2";
    let printed = world.good(&["import", "--", served]).stdout;
    assert!(printed.contains("--entrypoint="), "{printed}");
}

#[test]
fn both_forms_of_configs_become_a_manifest_that_is_good() {
    let world = World::new();
    world.copy("tests/golden/translate/configs");
    let mut different = Vec::new();
    let path = |rel: &str| format!("tests/golden/translate/configs/{rel}");
    for (name, words) in [
        ("config-v5.1", vec![path("H200-SXM-141GBx8/Server/llama2-70b.py")]),
        (
            "config-v5.0",
            vec![
                path("llama2-70b/Server/__init__.py"),
                "--pick".into(),
                "H200_SXM_141GBx8_Triton".into(),
                "--pick".into(),
                "H100_SXM_80GB_TP2x4".into(),
            ],
        ),
    ] {
        let words: Vec<&str> = std::iter::once("import").chain(words.iter().map(String::as_str)).collect();
        let ended = world.good(&words);
        stands(&world, name, &ended);
        hold(name, &output_of(&ended), &mut different);
    }
    assert!(different.is_empty(), "not as in tests/golden/translate/printed:\n{}", different.join("\n"));
}

#[test]
fn a_script_becomes_one_manifest_from_the_repository_to_the_measurement() {
    let world = World::new();
    world.copy("tests/golden/translate");
    let ended = world.good(&["import", "tests/golden/translate/serve.sh"]);
    stands(&world, "script", &ended);
    let mut different = Vec::new();
    hold("script", &output_of(&ended), &mut different);
    assert!(different.is_empty(), "not as in tests/golden/translate/printed:\n{}", different.join("\n"));
}

#[test]
fn flags_of_a_config_reach_the_engine_and_the_servers() {
    let world = World::new();
    world.copy("tests/golden/translate/configs");
    let config = "tests/golden/translate/configs/H200-SXM-141GBx8/Server/llama2-70b.py";
    world.file("manifests/m.yaml", &world.good(&["import", config]).stdout);
    let plan = world.good(&["plan", "m", "--launch"]).stdout;
    assert!(plan.contains("triton: 8 servers"), "{plan}");
    let shown = world.good(&["show", "m", "setting=cp990"]).stdout;
    assert!(shown.contains("114.24"), "14.28 * 8, without a trace of binary fractions:\n{shown}");
}

#[test]
fn everything_that_is_not_known_is_named_at_once_with_what_is_near() {
    let world = World::new();
    let line = "genai-perf profile -m gpt2 --concurency 4 --osl --shade red --endpoint-type embeddings";
    let ended = world.regatta(&["import", "--", line]);
    assert_eq!(ended.code, 2, "{ended:?}");
    ended.shows("`--concurency`").shows("did you mean `--concurrency`?").shows("`--shade`");
    ended.shows("`--osl` of genai-perf profile needs a value").shows("requests of `embeddings` are not measured");
    let config = "tests/golden/translate/configs/H200-SXM-141GBx8/Server/llama2-70b.py";
    world.copy("tests/golden/translate/configs");
    let ended = world.regatta(&["import", config, "--pick", "tp99"]);
    assert_eq!(ended.code, 2, "{ended:?}");
    ended.shows("has no setting `tp99`").shows("tp999");
    for (line, what) in [
        ("gen-ai-perf profile", "did you mean `genai-perf`?"),
        ("make run_harnes RUN_ARGS=--benchmarks=llama2", "did you mean `run_harness`?"),
        ("--benchmarks=llama2 --server_target_qp=5", "did you mean `server_target_qps`?"),
        ("python3 fill_template.py -i a/tensorrt_llm/config.pbtxt engin_dir:x", "did you mean `engine_dir`?"),
        ("launch_triton_server.py --world_size two", "`--world_size two` is not a whole number"),
        ("genai-perf profile -m 'x", "a quote in the line is not closed"),
        ("genai-perf profile -m x --concurrency many", "genai-perf profile becomes"),
    ] {
        let ended = world.regatta(&["import", "--", line]);
        assert_eq!(ended.code, 2, "{line}: {ended:?}");
        ended.shows(what);
    }
}

#[test]
fn a_problem_has_its_place_in_the_script() {
    let text = "export A=b\ngenai-perf profile -m m --concurency 8\nsome_program --x\ndocker run image genai-perf profile --shade\n";
    let problems = read_scripts(&[("run.sh".to_owned(), text.to_owned())]).expect_err("an unknown option").problems;
    let places: Vec<&str> = problems.iter().filter_map(|problem| problem.place.as_deref()).collect();
    assert_eq!(places, ["run.sh:2", "run.sh:4: in the container of `image`"], "{problems:?}");
    // A program that is not known here is no problem of a script.
    assert!(problems.iter().all(|problem| matches!(problem.kind, ProblemKind::Arguments(_))), "{problems:?}");
    let error = read_line(&words("some_program --x")).expect_err("an unknown program");
    assert!(matches!(&error.problems[0].kind, ProblemKind::UnknownProgram { name, .. } if name == "some_program"));
}

#[test]
fn a_key_is_never_printed() {
    let world = World::new();
    for line in [
        "genai-perf profile -m m --endpoint-type chat -H 'Authorization: Bearer sk-secret'",
        "aiperf profile --model m --api-key sk-secret",
        "HF_TOKEN=sk-secret trtllm-serve meta-llama/Llama-3.1-8B",
        "vllm serve m --api-key sk-secret",
        "vllm serve m --api_key=sk-secret",
        "vllm bench serve --header Authorization=sk-secret",
        "OPENAI_API_KEY=sk-secret vllm bench serve",
        "OPENAI_API_KEY=sk-secret python3 -m sglang.bench_serving --dataset-name random",
        "python3 -m sglang.launch_server --model-path m --api-key sk-secret",
        "guidellm benchmark --data prompt_tokens=8 --profile synchronous --backend-kwargs '{\"api_key\": \"sk-secret\"}'",
        "guidellm run --data kind=synthetic_text,prompt_tokens=8 --profile kind=synchronous --backend kind=openai_http,api_key=sk-secret",
        "perf_analyzer -m m --service-kind openai -H 'Authorization: Bearer sk-secret' -H 'X-Key: sk-secret'",
    ] {
        let ended = world.good(&["import", "--", line]);
        assert!(!output_of(&ended).contains("sk-secret"), "{ended:?}");
        ended.shows(match line {
            line if line.starts_with("HF_") => "- HF_TOKEN",
            line if line.starts_with("OPENAI_") => "api_key_env: OPENAI_API_KEY",
            line if line.starts_with("vllm serve") => "- VLLM_API_KEY",
            line if line.contains("launch_server") => "--api-key …",
            // There the value has no `Bearer` in front of it.
            line if line.contains("Authorization=") => "${AUTHORIZATION}",
            _ => "api_key_env: API_KEY",
        });
    }
}

#[test]
fn every_word_of_a_line_ends_somewhere() {
    // An option, and what tells that it was seen.
    let translation = read_line(&words("genai-perf profile -m gpt2 --grpc-method a.b --generate-plots --verbose"))
        .expect("understood");
    let left: Vec<&str> = translation.untranslated.iter().map(|one| one.argument.as_str()).collect();
    assert_eq!(left, ["--grpc-method a.b", "--generate-plots", "--verbose"]);
    let translation = read_line(&words("trtllm-serve m --tp_size 2 --reasoning_parser x")).expect("understood");
    let TranslationKind::Manifest(manifest) = translation.kind else { panic!("{translation:?}") };
    let server = &manifest["stages"]["server"]["serve"]["trtllm_serve"];
    let args = ["--reasoning_parser", "x"];
    assert_eq!(server, &serde_json::json!({"model": "m", "port": 8000, "tensor_parallelism": 2, "args": args}));
}

#[test]
fn defaults_of_other_load_tools_are_carried_over() {
    let bench = |line: &str| match read_line(&words(line)).expect("understood").kind {
        TranslationKind::Bench(bench) => bench,
        other => panic!("{line}: {other:?}"),
    };
    // 1000 prompts of 1024 and 128 tokens, all at once, without a warm-up, to their full length.
    let vllm = bench("vllm bench serve --model m");
    let line = "localhost:8000 --model m --protocol openai-completions --rate -1 --requests 1000 --warmup 0 --input-tokens 1024 --output-tokens 128 --ignore-eos --streaming";
    assert_eq!(vllm.args.join(" "), line);
    // Its lengths are anything from 1 up to 1024.
    let sglang = bench("python3 -m sglang.bench_serving --dataset-name random");
    assert_eq!(sglang.keys["input_tokens"], serde_json::json!({"uniform": {"min": 1, "max": 1024}}));
    assert!(sglang.args.join(" ").contains("--rate -1 --requests 1000 --warmup 1"), "{sglang:?}");
    // A limit alone is a number of users; beside a rate it is a limit.
    let users = bench("vllm bench serve --max-concurrency 16");
    assert!(users.args.join(" ").contains("--concurrency 16") && users.keys.is_empty(), "{users:?}");
    let limited = bench("vllm bench serve --request-rate 8 --max-concurrency 16 --burstiness 4");
    assert_eq!(
        serde_json::json!(limited.keys),
        serde_json::json!({"max_in_flight": 16, "arrivals": {"gamma": {"cv": 0.5}}})
    );
    let swept = bench(
        "guidellm benchmark --target h:8000 --rate-type concurrent --rate 1,2,4 --max-seconds 30 --data prompt_tokens=8,output_tokens=4",
    );
    assert!(swept.args.join(" ").contains("--concurrency 1,2,4"), "{swept:?}");
    let same = bench(
        "guidellm run --backend kind=openai_http,target=h:8000 --profile kind=concurrent,streams=[1,2,4] --constraint kind=max_duration,seconds=30 --data kind=synthetic_text,prompt_tokens=8,output_tokens=4",
    );
    assert_eq!(same.args, swept.args);
    // Ten requests, or twice as many as users.
    for (line, requests) in
        [("", "10"), ("--concurrency 4", "10"), ("--concurrency 64", "128"), ("--concurrency 8,32", "64")]
    {
        let aiperf = bench(&format!("aiperf profile --model m --isl 8 --osl 4 {line}"));
        assert!(aiperf.args.join(" ").contains(&format!("--requests {requests} ")), "{line}: {aiperf:?}");
    }
    let conversations = bench("aiperf profile --model m --osl 4 --conversation-num 5 --request-count 100");
    assert_eq!(conversations.keys["distinct_prompts"], 5);
    // Seconds, and 16 tokens for a hash id.
    let trace = bench("vllm bench serve --model m --dataset-name timed_trace --dataset-path t.jsonl");
    assert!(trace.args.contains(&"--trace=0.001".to_owned()), "{trace:?}");
    assert_eq!(trace.keys["data"]["block_tokens"], 16);
    let slow = bench(
        "guidellm run --backend target=h:8000 --data kind=mooncake,path=t.jsonl --profile kind=replay,time_scale=2 --constraint kind=max_requests,count=9",
    );
    assert_eq!(slow.keys["data"], json!({"first": 9}));
    assert!(["--trace=0.0005", "--ignore-eos"].iter().all(|word| slow.args.contains(&(*word).to_owned())), "{slow:?}");
    let replayed = bench(
        "aiperf profile -m tiny --input-file tr.jsonl --custom-dataset-type mooncake_trace --fixed-schedule --benchmark-duration 30 --osl 8",
    );
    assert!(replayed.args.join(" ").contains("--trace --duration 30s"), "{replayed:?}");
    assert_eq!(replayed.keys.get("scenario"), None);
    let sweep = bench(
        "guidellm run --data kind=synthetic_text,prompt_tokens=8,output_tokens=4 --profile kind=sweep,sweep_size=10,rampup_duration=10,strategy_type=poisson",
    );
    assert!(sweep.args.join(" ").contains("--arrivals poisson"), "{sweep:?}");
}

#[test]
fn a_prefix_of_a_gateway_is_a_part_of_the_path() {
    let line = |line: &str| match read_line(&words(line)).expect("understood").kind {
        TranslationKind::Bench(bench) => bench.args.join(" "),
        other => panic!("{line}: {other:?}"),
    };
    let gateway = "--endpoint /api/llm/v1/chat/completions";
    for (tool, server) in [
        ("aiperf profile -m tiny --url http://h:9018/api/llm/v1 --endpoint-type chat --streaming", "http://h:9018 "),
        ("aiperf profile -m tiny --url h:9018/api/llm --endpoint-type chat", "h:9018 "),
        (
            "genai-perf profile -m tiny --service-kind openai --endpoint-type chat -u http://h:9018/api/llm",
            "http://h:9018 ",
        ),
        (r#"curl http://h/api/llm/v1/chat/completions -d {"model":"tiny"}"#, "http://h "),
    ] {
        let args = line(tool);
        assert!(args.starts_with(server) && args.contains(gateway), "{tool}: {args}");
    }
    for usual in ["http://h:8000", "http://h:8000/v1", "http://h:8000/v1/chat/completions"] {
        let args = line(&format!("aiperf profile -m tiny --url {usual} --endpoint-type chat"));
        assert!(args.starts_with("http://h:8000 --model") && !args.contains("--endpoint"), "{usual}: {args}");
    }
    let error = read_line(&words("aiperf profile -m tiny --url h:1/a --url h:2/b")).expect_err("one path");
    assert!(error.to_string().contains("one benchmark has one path"), "{error}");
}

#[test]
fn what_tools_do_by_default_is_done_or_noted() {
    let import = |line: &str| read_line(&words(line)).expect("understood");
    let bench = |line: &str| match import(line).kind {
        TranslationKind::Bench(bench) => bench,
        other => panic!("{line}: {other:?}"),
    };
    let https = "guidellm run --profile kind=synchronous --constraint kind=max_requests,count=3 --data kind=synthetic_text,prompt_tokens=8,output_tokens=4 --backend kind=openai_http,target=https://h:8443";
    assert!(bench(https).args.contains(&"--insecure".to_owned()));
    assert!(!bench(&format!("{https},verify=true")).args.contains(&"--insecure".to_owned()));
    let field = |line: &str| bench(line).args.into_iter().skip_while(|word| word != "--length-field").nth(1);
    let newer = Some("max_completion_tokens".to_owned());
    assert_eq!(field("aiperf profile -m m --endpoint-type chat --osl 4"), newer);
    assert_eq!(field("aiperf profile -m m --endpoint-type chat --osl 4 --use-legacy-max-tokens"), None);
    assert_eq!(field("aiperf profile -m m --endpoint-type completions --osl 4"), None);
    assert_eq!(field("vllm bench serve --backend openai-chat --endpoint /v1/chat/completions --model m"), newer);
    assert_eq!(field("vllm bench serve --model m"), None);
    let scales = |line: &str| import(line).notes.iter().any(|note| note.contains("scales all gaps by one factor"));
    assert!(scales("vllm bench serve --model m --request-rate 20"));
    assert!(!scales("vllm bench serve --model m") && !scales("vllm bench serve --model m --max-concurrency 4"));
    assert!(!scales("python3 -m sglang.bench_serving --request-rate 20"));
}

#[test]
fn lines_that_would_measure_another_load_are_refused_with_what_to_do() {
    let world = World::new();
    for (line, names) in [
        (
            "guidellm run \\\n  --backend kind=openai_http,target=http://localhost:8000,model=meta-llama/Llama-3.1-8B-Instruct,request_format=/v1/chat/completions \\\n  --profile kind=concurrent,streams=10 \\\n  --constraint kind=max_requests,count=150 \\\n  --data kind=synthetic_text,prefix_tokens=512,prompt_tokens=128,output_tokens=256 \\\n  --data kind=synthetic_text,prompt_tokens=256,prompt_token_stdev=32,output_tokens=128 \\\n  --data kind=synthetic_text,prompt_tokens=64,output_tokens=128,output_tokens_stdev=16 \\\n  --data-preprocessor kind=turn_pivot",
            &["prefix_tokens=512", "prompt_token_stdev=32", "output_tokens_stdev=16", "turns: { fixed: 3 }"][..],
        ),
        (
            "guidellm run \\\n  --backend \"kind=openai_http,target=http://localhost:8000\" \\\n  --data \"kind=synthetic_text,prompt_tokens=200\" \\\n  --data \"kind=synthetic_image,resolution=720p,output_tokens=64\"",
            &["`--data kind=synthetic_text,prompt_tokens=200`", "resolution=720p"],
        ),
        (
            "guidellm run \\\n    --backend kind=openai_http,target=http://localhost:8000 \\\n    --profile kind=replay \\\n    --data \"kind=trace_synthetic,path=replay.jsonl,timestamp_column=ts,prompt_tokens_column=input_tokens,output_tokens_column=generated_tokens\"",
            &["rename `ts` to `timestamp`, `generated_tokens` to `output_length`"],
        ),
        (
            "aiperf profile --model m --url localhost:8000 --user-centric-rate 1.0 --num-users 15 --session-turns-mean 20 --benchmark-duration 60 --osl 100",
            &["starts the turns of a user 15 s apart", "--concurrency 15"],
        ),
        ("genai-perf --help", &["cannot translate `genai-perf --help`"]),
        ("genai-perf create-template", &["cannot translate `genai-perf create-template`"]),
        ("--dataset-path file.jsonl --num-prompts 3", &["`--dataset-path` begins a line", "lacks a `\\`"]),
    ] {
        let ended = world.regatta(&["import", "--", line]);
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{line}: {ended:?}");
        for name in names {
            ended.shows(name);
        }
    }
    world.file("unknown.sh", "./train --x\nmakemodel\n");
    ended_shows(&world, "unknown.sh", "it calls `makemodel`, `train`");
    world.file("genai_perf_config.yaml", "model_names: [gpt2]\nendpoint:\n  type: chat\n");
    ended_shows(&world, "genai_perf_config.yaml", "is a config of GenAI-Perf, which is not read");
}

fn ended_shows(world: &World, file: &str, text: &str) {
    let ended = world.regatta(&["import", file]);
    assert_eq!(ended.code, 2, "{ended:?}");
    ended.shows(text);
}

#[test]
fn todays_lines_of_fill_template_are_one_repository_and_other_models_keep_their_own_values() {
    let page = "python3 tensorrt_llm/triton_backend/tools/fill_template.py -i llama_ifb/preprocessing/config.pbtxt tokenizer_dir:/llama,tokenizer_type:llama,triton_max_batch_size:64,preprocessing_instance_count:1\n\
        python3 tensorrt_llm/triton_backend/tools/fill_template.py -i llama_ifb/tensorrt_llm_bls/config.pbtxt triton_max_batch_size:64,decoupled_mode:False,bls_instance_count:1,accumulate_tokens:False,logits_datatype:TYPE_FP32,prompt_embedding_table_data_type:TYPE_FP16\n\
        python3 tensorrt_llm/triton_backend/tools/fill_template.py -i llama_ifb/ensemble/config.pbtxt triton_max_batch_size:64,logits_datatype:TYPE_FP32\n\
        python3 tensorrt_llm/triton_backend/tools/fill_template.py -i llama_ifb/tensorrt_llm/config.pbtxt triton_backend:tensorrtllm,triton_max_batch_size:64,decoupled_mode:False,max_beam_width:1,engine_dir:/engine,logits_datatype:TYPE_FP32,prompt_embedding_table_data_type:TYPE_FP16\n\
        python3 tensorrt_llm/triton_backend/tools/fill_template.py -i llama_ifb/whisper_bls/config.pbtxt engine_dir:/engine,n_mels:128,zero_pad:false,triton_max_batch_size:8\n";
    let TranslationKind::Script(script) =
        read_scripts(&[("page.sh".to_owned(), page.to_owned())]).expect("understood").kind
    else {
        panic!("a script");
    };
    let parameters = &script.stages["generate_triton_config"]["repository"]["parameters"];
    assert_eq!(parameters["prompt_embedding_table_data_type"], "TYPE_FP16");
    assert_eq!((&parameters["triton_max_batch_size"], parameters.get("n_mels")), (&json!(64), None));
}

#[test]
fn settings_of_trtllm_bench_are_read_from_a_file_beside_it() {
    let world = World::new();
    let line = "trtllm-bench --model m throughput --dataset d.jsonl --extra_llm_api_options ./options.yml";
    // One translates on a laptop.
    let elsewhere = world.good(&["import", "--", line]).stdout;
    assert!(elsewhere.contains("extra_llm_api_options: ./options.yml"), "{elsewhere}");
    world.file("options.yml", "enable_attention_dp: true\ncuda_graph_config: { max_batch_size: 8 }\n");
    let printed = world.good(&["import", "--", line]).stdout;
    assert!(printed.contains("enable_attention_dp: true") && !printed.contains("inputs:"), "{printed}");
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

const TOOLS: [&str; 27] = [
    "genai-perf profile",
    "genai-perf analyze",
    "aiperf profile",
    "perf_analyzer",
    "python3 benchmark_core_model.py",
    "launch_triton_server.py",
    "fill_template.py -i m/config.pbtxt",
    "trtllm-bench -m x throughput",
    "trtllm-serve",
    "vllm serve m",
    "vllm bench serve",
    "vllm bench throughput",
    "vllm bench latency",
    "python3 -m sglang.launch_server",
    "python3 -m sglang.bench_serving --dataset-name random",
    "guidellm benchmark --data prompt_tokens=1",
    "guidellm run",
    "python3 -m tensorrt_llm.serve.scripts.benchmark_serving",
    "trtllm-bench -m x prepare-dataset",
    "llama-server",
    "llmb-run submit",
    "triton import",
    "make",
    "RUN_ARGS=--benchmarks=llama2",
    "--benchmarks=llama2",
    "A=b python3 -m code.main",
    "",
];

proptest! {
    #[test]
    fn no_line_makes_it_panic(tool in 0..TOOLS.len(), rest in proptest::collection::vec("(--?[a-z_-]{0,20}(=.{0,6})?|.{0,10}|[0-9:,.]{0,8}|[a-z_]+:[^ ]{0,6})", 0..10)) {
        let mut line = words(TOOLS[tool]);
        line.extend(rest);
        let _ = read_line(&line);
    }

    #[test]
    fn no_script_makes_it_panic(text in "([A-Z]=|\\$[A-Z]|\\$\\{|python3 |fill_template.py |launch_triton_server.py |cp |a/config.pbtxt |x:y|&&|'|\n|\\\\\n|#| |é){0,30}") {
        let _ = read_scripts(&[("s.sh".to_owned(), text.clone())]);
    }

    #[test]
    fn no_config_makes_it_panic(text in "(?s).{0,400}", cut in 0usize..3000) {
        let shape = |_: &str| Some(serde_json::json!({}));
        let _ = read_config(&[("configs/H200x8/Server/llama2-70b.py".to_owned(), text)], &[], &shape);
        // A good one, cut anywhere.
        let good = include_str!("../golden/translate/configs/H200-SXM-141GBx8/Server/llama2-70b.py");
        let part: String = good.chars().take(cut).collect();
        let _ = read_config(&[("configs/H200x8/Server/llama2-70b.py".to_owned(), part)], &[], &shape);
    }
}
