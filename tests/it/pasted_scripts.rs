//! Lines and scripts as they are pasted: in quotes, through a pipe, as a file; what one command writes and another reads; servers
//! that are started by exactly the line.

use std::io::Write as _;
use std::process::Stdio;

use pretty_assertions::assert_eq;
use serde_yaml::Value;

use crate::world::{Ended, World};

fn import(world: &World, line: &str) -> Ended {
    world.good(&["import", "--", line])
}

fn manifest(printed: &str) -> Value {
    serde_yaml::from_str(printed).expect("a manifest")
}

/// What is printed without the comment on where it comes from.
fn below_comments(printed: &str) -> String {
    printed.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_line_means_the_same_in_quotes_through_a_pipe_and_behind_two_dashes() {
    const LINE: &str = "vllm bench serve --model m --dataset-name random --num-prompts 7 --max-concurrency 2";
    let world = World::new();
    let words: Vec<&str> = LINE.split(' ').collect();
    let expected = below_comments(&world.good(&[&["import", "--"][..], &words].concat()).stdout);
    assert!(expected.contains("requests: 7"), "{expected}");
    assert_eq!(below_comments(&world.good(&["import", LINE]).stdout), expected);
    assert_eq!(below_comments(&import(&world, LINE).stdout), expected);
    let mut child =
        world.command(&["import", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    child.stdin.take().expect("a pipe").write_all(format!("{LINE}\n").as_bytes()).expect("written");
    assert_eq!(below_comments(&Ended::of(child).stdout), expected);
    // A file that is not there is no line.
    assert!(world.regatta(&["import", "none.json"]).stderr.contains("not there: none.json"));
}

#[test]
fn what_a_command_writes_is_what_the_next_one_reads() {
    let world = World::new();
    let line = "python benchmarks/cpp/prepare_dataset.py --stdout --tokenizer m/x token-norm-dist --num-requests 9 \
                --input-mean 128 --output-mean 64 --input-stdev 0 --output-stdev 0 > /tmp/d.txt && \
                trtllm-bench --model m/x --workspace /w build --tp_size 2 --dataset /tmp/d.txt && \
                trtllm-bench --model m/x throughput --dataset /tmp/d.txt --engine_dir /w/m/x/tp_2_pp_1 && \
                trtllm-bench --model m/x throughput --dataset /tmp/d.txt --engine_dir /w/m/x/tp_2_pp_1 --concurrency 4";
    let printed = import(&world, line).stdout;
    let stages = &manifest(&printed)["stages"];
    let data = "{{ stages.prepare_dataset.out }}/dataset.jsonl";
    let command = stages["prepare_dataset"]["shell"][2].as_str().expect("a command");
    assert!(command.ends_with("> dataset.jsonl") && command.contains("--stdout --tokenizer m/x"), "{command}");
    let build = stages["generate_engines"]["shell"].as_sequence().expect("words");
    assert!(build.contains(&Value::from(data)), "{build:?}");
    for name in ["throughput", "throughput_2"] {
        let bench = &stages[name]["trtllm_bench"];
        assert_eq!(bench["dataset"], Value::from(data), "{name}");
        assert_eq!(bench["engine_dir"], Value::from("{{ stages.generate_engines.out }}/m/x/tp_2_pp_1"), "{name}");
        assert_eq!(bench["backend"], Value::from("tensorrt"), "{name}");
    }
    assert!(printed.contains("regatta bench TARGET --input-tokens 128 --output-tokens 64 --requests 9"), "{printed}");
    world.file("benchmarks/cpp/prepare_dataset.py", "");
    world.file("manifests/m.yaml", &printed);
    world.good(&["plan", "m"]);
}

#[test]
fn stages_of_equal_names_get_others_and_their_readers_follow() {
    let world = World::new();
    let line = "trtllm-bench --model a build --dataset /d && trtllm-bench --model b build --dataset /d && \
                trtllm-bench --model b throughput --dataset /d --engine_dir /tmp/b/tp_1_pp_1 && \
                trtllm-bench --model a throughput --dataset /d --engine_dir /tmp/a/tp_1_pp_1";
    let stages = manifest(&import(&world, line).stdout)["stages"].clone();
    let engine = |name: &str| stages[name]["trtllm_bench"]["engine_dir"].as_str().expect("an engine").to_owned();
    assert_eq!(engine("throughput"), "{{ stages.generate_engines_2.out }}/b/tp_1_pp_1");
    assert_eq!(engine("throughput_2"), "{{ stages.generate_engines.out }}/a/tp_1_pp_1");
}

#[test]
fn an_engine_for_a_backend_that_reads_none_is_one_sentence() {
    let world = World::new();
    let ended = world.regatta(&[
        "import",
        "--",
        "trtllm-bench",
        "--model",
        "m",
        "throughput",
        "--dataset",
        "d",
        "--engine_dir",
        "e",
        "--backend",
        "pytorch",
    ]);
    assert_eq!((ended.code, ended.stdout.as_str()), (2, ""));
    assert!(
        ended.stderr.contains("cannot translate the line: --engine_dir names a TensorRT engine"),
        "{}",
        ended.stderr
    );
}

/// The command of the only server that the manifest starts.
fn launched(world: &World, printed: &str) -> String {
    world.file("manifests/m.yaml", printed);
    let plan = world.good(&["plan", "m", "--launch", "--json"]).stdout;
    let plan: serde_json::Value = serde_json::from_str(&plan).expect("JSON");
    let command = plan["launches"][0]["servers"][0]["command"].as_array().expect("a command");
    let words = command.iter().flat_map(|piece| piece.as_array().expect("words"));
    words.map(|word| word.as_str().expect("a text")).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_line_of_tritonserver_is_started_as_it_stands() {
    let world = World::new();
    world.file("repo/m/config.pbtxt", "backend: \"python\"\n").file("repo/m/1/model.py", "");
    let folder = world.path("repo").canonicalize().expect("the folder").display().to_string();
    let lines = [
        format!("tritonserver --model-repository={folder} --model-control-mode explicit --load-model densenet_onnx"),
        format!(
            "/opt/tritonserver/bin/tritonserver --model-store {folder} --http-port 9000 --grpc-port=9001 \
             --metrics-port 9002 --log-verbose 1"
        ),
    ];
    for line in &lines {
        let printed = import(&world, line).stdout;
        assert_eq!(launched(&world, &printed), *line);
        let server = manifest(&printed)["stages"]["triton"]["serve"]["triton"].clone();
        let ports = ["grpc_port", "http_port", "metrics_port"].map(|key| server[key].as_u64().expect("a port"));
        assert_eq!(ports, if line.contains("9000") { [9001, 9000, 9002] } else { [8001, 8000, 8002] });
    }
    // A folder of the project is elsewhere for the server.
    let printed = import(&world, "tritonserver --model-repository repo").stdout;
    assert_eq!(launched(&world, &printed), format!("tritonserver --model-repository {folder}"));
}

#[test]
fn what_words_say_is_not_said_again_beside_them() {
    let world = World::new();
    world.manifest(
        "m",
        "stages:\n  triton:\n    serve: { triton: { repository: /r, words: [tritonserver], log_verbose: 1 } }\n",
    );
    let ended = world.regatta(&["check", "m"]);
    assert!(ended.stderr.contains("`words` is the whole command line"), "{}", ended.stderr);
}

#[test]
fn requests_of_curl_have_the_lines_own_body() {
    let world = World::new();
    let line = r#"curl localhost:8000/v1/chat/completions -d '{"model": "m", "messages": [{"role": "system",
        "content": "Be brief."}, {"role": "user", "content": "test"}], "max_tokens": 5, "top_p": 0.5}'"#;
    let bench = manifest(&import(&world, line).stdout)["stages"]["bench"]["bench"].clone();
    assert_eq!(bench["extra"]["messages"][0]["content"], Value::from("Be brief."));
    assert_eq!(bench["extra"]["top_p"], Value::from(0.5));
    assert_eq!(bench["output_tokens"]["fixed"], Value::from(5));
    // Without a limit the server decides.
    let line = r#"curl localhost:8000/v1/completions -d '{"prompt": "a"}'"#;
    let bench = manifest(&import(&world, line).stdout)["stages"]["bench"]["bench"].clone();
    assert_eq!(
        (bench["extra"]["prompt"].clone(), bench["extra"]["max_tokens"].clone()),
        (Value::from("a"), Value::Null)
    );
    let load = import(&world, "curl -X POST gpu1:8000/v2/repository/models/m/load").stdout;
    assert!(load.ends_with("regatta triton load gpu1:8001 m\n"), "{load}");
    let ended = world.regatta(&["import", "--", "curl", "localhost:8000/v1/chat/completions", "-d", "@body.json"]);
    assert!(ended.stderr.contains("the request is in `body.json`, which is not read"), "{}", ended.stderr);
}

#[test]
fn numbers_that_a_line_does_not_have_are_parameters() {
    let world = World::new();
    let line = "genai-perf profile -m m --endpoint-type chat --concurrency $CONC --request-count $N \
                --synthetic-input-tokens-mean ${ISL}";
    let printed = import(&world, line).stdout;
    let all = manifest(&printed);
    for (name, variable) in [("conc", "CONC"), ("n", "N"), ("isl", "ISL")] {
        assert_eq!(all["params"][name]["env"], Value::from(variable));
        assert!(all["params"][name]["int"].is_mapping(), "{printed}");
    }
    let bench = &all["stages"]["bench"]["bench"];
    assert_eq!(bench["concurrency"], Value::from("{{ conc }}"));
    assert_eq!(bench["stop"]["requests"], Value::from("{{ n }}"));
    assert_eq!(bench["input_tokens"]["fixed"], Value::from("{{ isl }}"));
    assert!(printed.contains("--concurrency \"${CONC}\""), "{printed}");
    world.file("manifests/m.yaml", &printed);
    world.good(&["plan", "m", "conc=4", "n=10", "isl=100"]);
    assert_ne!(world.regatta(&["plan", "m", "conc=many", "n=10", "isl=100"]).code, 0);
    // The bounds of a deviation follow from the mean.
    let line = "genai-perf profile -m m --endpoint-type chat --synthetic-input-tokens-mean $ISL \
                --synthetic-input-tokens-stddev 5";
    let bench = manifest(&import(&world, line).stdout)["stages"]["bench"]["bench"].clone();
    let normal = "{mean: '{{ isl }}', stddev: 5.0, min: '{{ [isl - 20, 1] | max }}', max: '{{ isl + 20 }}'}";
    assert_eq!(bench["input_tokens"]["normal"], serde_yaml::from_str::<Value>(normal).expect("YAML"));
}

#[test]
fn every_loop_of_a_script_is_written_out_and_no_benchmark_is_lost() {
    let world = World::new();
    let script = "#!/bin/bash\nfor isl in 128 1024; do\n  for c in 1 4; do\n    vllm bench serve --model m \
                  --dataset-name random --random-input-len $isl --max-concurrency $c --num-prompts $((c*10))\n  \
                  done\ndone\n\
                  for rate in $RATES; do\n  vllm bench serve --model m --dataset-name random --request-rate \
                  $rate\ndone\naiperf profile -m m --request-count 5\n";
    world.file("sweep.sh", script);
    let printed = world.good(&["import", "sweep.sh"]).stdout;
    let stages = manifest(&printed)["stages"].clone();
    let seen: Vec<String> = stages
        .as_mapping()
        .expect("stages")
        .values()
        .map(|stage| {
            let bench = &stage["bench"];
            let text = |value: &Value| serde_yaml::to_string(value).expect("YAML").trim().to_owned();
            format!(
                "{} {} {}",
                text(&bench["input_tokens"]["fixed"]),
                text(&bench["concurrency"]),
                text(&bench["rate"])
            )
        })
        .collect();
    assert_eq!(
        seen,
        ["128 1 null", "128 4 null", "1024 1 null", "1024 4 null", "1024 null '{{ rate }}'", "550 1 null"]
            .map(str::to_owned)
    );
}

#[test]
fn run_args_are_read_however_they_are_quoted() {
    let world = World::new();
    world.copy("manifests");
    let expected = "regatta run llama2-70b system=sim-h200-x8 scenarios=offline accuracy=99 loadgen=true round=v6.0 \
                    --until run_harness";
    let forms: [&[&str]; 5] = [
        &["make run_harness RUN_ARGS=\"--benchmarks=llama2 --scenarios=Offline\""],
        &["make", "run_harness", "\"RUN_ARGS=--benchmarks=llama2 --scenarios=Offline\""],
        &["RUN_ARGS=\"--benchmarks=llama2 --scenarios=Offline\"", "make", "run_harness"],
        &["make", "run_harness", "RUN_ARGS=--benchmarks=llama2", "--scenarios=Offline"],
        &["export RUN_ARGS=\"--benchmarks=llama2 --scenarios=Offline\"; make run_harness"],
    ];
    for form in forms {
        let printed = world.good(&[&["import", "--"][..], form].concat()).stdout;
        assert_eq!(below_comments(&printed), expected, "{form:?}");
    }
    // Two targets are one run, with the settings of both.
    let both = "export RUN_ARGS=\"--benchmarks=llama2 --scenarios=Offline\"; make generate_engines && make run_harness";
    let printed = import(&world, both).stdout;
    assert_eq!(below_comments(&printed), expected.replace("--until", "--until generate_engines --until"));
    for (system, name) in [("A100-SXM-80GBx8", "a100-x8"), ("C845A_L40Sx8", "l40s-x8")] {
        let line = format!("make run_harness SYSTEM_NAME={system} RUN_ARGS='--benchmarks=llama2 --scenarios=Offline'");
        let ended = world.regatta(&["import", "--", &line]);
        assert_eq!(ended.code, 2);
        let sentence =
            format!("cannot translate the line: no settings of the system `{name}` are on file for `llama2-70b`");
        assert!(ended.stderr.contains(&sentence), "{}", ended.stderr);
    }
}

#[test]
fn what_stands_in_front_of_a_launcher_stays_there() {
    let world = World::new();
    world.file("repo/m/config.pbtxt", "backend: \"python\"\n").file("repo/m/1/model.py", "");
    let folder = world.path("repo").canonicalize().expect("the folder").display().to_string();
    for prefix in ["numactl -N 0 -m 0", "nsys profile -o trace --trace=cuda"] {
        let line = format!("{prefix} python3 launch_triton_server.py --world_size=1 --model_repo={folder}");
        let command = launched(&world, &import(&world, &line).stdout);
        assert!(command.starts_with(&format!("{prefix} tritonserver --model-repository={folder} ")), "{command}");
        let line = format!("{prefix} tritonserver --model-repository={folder}");
        assert_eq!(launched(&world, &import(&world, &line).stdout), line);
    }
}

#[test]
fn several_scales_and_models_are_a_command_or_a_stage_each() {
    let world = World::new();
    world.copy("manifests");
    let printed =
        import(&world, "GPU_TYPE=gb200 llmb-run submit -w inference_llama3.3 -s 70b --dtype nvfp4 --scale 1,4").stdout;
    let commands: Vec<&str> = printed.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(commands.len(), 2, "{printed}");
    assert!(commands[0].contains("system=gb200-x1") && commands[1].contains("system=gb200-x4"), "{printed}");
    let ended =
        world.regatta(&["import", "--", "llmb-run submit -w pretrain_llama3.1 -s 405b --dtype fp8 --scale 256"]);
    assert!(ended.stderr.contains("is a training recipe"), "{}", ended.stderr);
    let line = "python3 benchmark_core_model.py --tensorrt-llm-model-name a --tensorrt-llm-model-name b -i grpc \
                token-norm-dist --input-mean 8 --input-stdev 0 --output-mean 8 --output-stdev 0 --num-requests 5";
    let stages = manifest(&import(&world, line).stdout)["stages"].clone();
    let models: Vec<&str> = stages
        .as_mapping()
        .expect("stages")
        .values()
        .map(|stage| stage["bench"]["model"].as_str().expect("a model"))
        .collect();
    assert_eq!(models, ["a", "b"]);
}

/// The one stage of the manifest that measures.
fn measurement(world: &World, line: &str) -> Value {
    let stages = manifest(&import(world, line).stdout)["stages"].clone();
    let mut benches = stages.as_mapping().expect("stages").values().filter(|stage| stage["bench"].is_mapping());
    let only = benches.next().expect("a stage that measures")["bench"].clone();
    assert!(benches.next().is_none(), "{line}: more than one");
    only
}

#[test]
fn lists_of_levels_are_a_sweep() {
    let world = World::new();
    let lines = [
        (
            "guidellm benchmark --target http://h:8000 --rate-type concurrent --rate 1,5,10 --max-seconds 30 --data \
             prompt_tokens=64,output_tokens=8",
            "concurrency: [1, 5, 10]",
        ),
        (
            "guidellm benchmark --target http://h:8000 --rate-type poisson --rate 0.5,2 --max-seconds 30 --data \
             prompt_tokens=64,output_tokens=8",
            "rate: [0.5, 2]",
        ),
        (
            "guidellm benchmark --target http://h:8000 --rate-type sweep --rate 6 --max-seconds 30 --data \
             prompt_tokens=64,output_tokens=8",
            "auto: 4",
        ),
        ("aiperf profile -m m --url h:8000 --concurrency 10,20,30 --request-count 40", "concurrency: [10, 20, 30]"),
        ("aiperf profile -m m --url h:8000 --osl 10,20 --request-count 40", "output_tokens: [10, 20]"),
        ("genai-perf analyze -m m --url h:8001 --sweep-range 1:16 --osl 8", "concurrency: [1, 2, 4, 8, 16]"),
        (
            "genai-perf analyze -m m --url h:8001 --sweep-type input_sequence_length --sweep-list 8,64 --osl 8",
            "input_tokens: [8, 64]",
        ),
        ("perf_analyzer -m m -u h:8001 -i grpc --request-rate-range 2:6:2", "rate: [2, 4, 6]"),
    ];
    for (line, levels) in lines {
        let bench = measurement(&world, line);
        assert_eq!(bench["sweep"], serde_yaml::from_str::<Value>(levels).expect("YAML"), "{line}");
        world.file("manifests/m.yaml", &import(&world, line).stdout);
        world.good(&["plan", "m"]);
    }
    // As many requests as the highest of its levels needs.
    let bench = measurement(&world, "genai-perf analyze -m m --url h:8001 --sweep-range 1:16 --osl 8");
    assert_eq!(bench["stop"]["requests"], Value::from(32));
}

#[test]
fn a_sweep_of_vllm_has_a_server_and_a_measurement_for_each_of_its_settings() {
    let world = World::new();
    world.file("serve.json", r#"[{"max_num_seqs": 32}, {"max_num_seqs": 64}]"#);
    world.file("bench.json", r#"[{"max_concurrency": 8}, {"max_concurrency": 64}]"#);
    let line = |kind: &str, more: &str| {
        format!(
            "vllm bench sweep {kind} --serve-cmd 'vllm serve m --max-num-seqs 16' --bench-cmd 'vllm bench serve \
             --model m --dataset-name random --num-prompts 50' {more}"
        )
    };
    let stages = |text: &str| manifest(&import(&world, text).stdout)["stages"].clone();
    let all = stages(&line("serve", "--serve-params serve.json --bench-params bench.json"));
    assert_eq!(all["server"]["serve"]["vllm"]["max_num_seqs"], Value::from(32));
    assert_eq!(all["server_2"]["serve"]["vllm"]["max_num_seqs"], Value::from(64));
    for (name, server) in [("run_harness", "server"), ("run_harness_2", "server_2")] {
        assert_eq!(all[name]["foreach"]["concurrency"], serde_yaml::from_str::<Value>("[8, 64]").expect("YAML"));
        assert_eq!(all[name]["bench"]["repeat"], Value::from(3));
        assert_eq!(all[name]["bench"]["target"], Value::from(format!("{{{{ stages.{server} }}}}")));
    }
    // One run of each level is a sweep, and pairs with different values are left out.
    let once = stages(&line("serve", "--bench-params bench.json --num-runs 1"));
    assert_eq!(
        once["run_harness"]["bench"]["sweep"],
        serde_yaml::from_str::<Value>("concurrency: [8, 64]").expect("YAML")
    );
    let linked = stages(&line(
        "serve",
        "--serve-params serve.json --bench-params bench.json --link-vars max_num_seqs=max_concurrency --num-runs 1",
    ));
    let names: Vec<&str> = linked.as_mapping().expect("stages").keys().filter_map(Value::as_str).collect();
    assert_eq!(names, ["server", "server_2", "run_harness"]);
    assert_eq!(linked["run_harness"]["bench"]["concurrency"], Value::from(64));
    // From one user to saturation, and rates between the two.
    let workload = stages(&line("serve_workload", "--workload-iters 6"));
    assert_eq!(workload["run_harness"]["bench"]["sweep"], serde_yaml::from_str::<Value>("auto: 4").expect("YAML"));
    // Without a file another load would be sent: it is named, and the command fails.
    let ended = world.regatta(&["import", "--", &line("serve", "--serve-params none.json")]);
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    assert!(ended.stdout.contains("--serve-params none.json: the file cannot be read"), "{}", ended.stdout);
}

#[test]
fn a_container_with_published_ports_listens_on_them_and_sees_its_gpus() {
    let world = World::new();
    world.file("repo/m/config.pbtxt", "backend: \"python\"\n").file("repo/m/1/model.py", "");
    let folder = world.path("repo").canonicalize().expect("the folder").display().to_string();
    let line = |gpus: &str| {
        format!(
            "docker run --rm --gpus {gpus} -p 9000:8000 -p 9001:8001 -v {folder}:/models \
             nvcr.io/nvidia/tritonserver:25.06-py3 tritonserver --model-repository=/models --http-port 8000"
        )
    };
    let command = launched(&world, &import(&world, &line("all")).stdout);
    assert!(
        command.ends_with("tritonserver --model-repository=/models --http-port 9000 --grpc-port=9001"),
        "{command}"
    );
    assert!(command.contains(" --gpus=all "), "{command}");
    let stage = manifest(&import(&world, &line("'\"device=2,3\"'")).stdout)["stages"]["triton"].clone();
    assert_eq!(stage["gpus"], Value::from(2));
}

#[test]
fn a_manifest_that_only_serves_names_the_command_that_does() {
    let world = World::new();
    world.file("manifests/only.yaml", &import(&world, "vllm serve m --port 8123").stdout);
    // Also the second time, when nothing has changed.
    for _ in 0..2 {
        let ended = world.good(&["run", "only"]);
        assert!(ended.stderr.contains("`regatta serve only` starts them and keeps them up"), "{}", ended.stderr);
    }
}

#[test]
fn conversations_are_sessions_with_their_pauses() {
    let world = World::new();
    let lines = [
        "genai-perf profile -m m --endpoint-type chat --num-sessions 10 --session-concurrency 5 --session-turns-mean \
         2 --session-turn-delay-mean 100",
        "aiperf profile -m m --concurrency 5 --conversation-num 10 --conversation-turn-mean 2 \
         --conversation-turn-delay-mean 100",
    ];
    for line in lines {
        let bench = measurement(&world, line);
        let yaml = |text: &str| serde_yaml::from_str::<Value>(text).expect("YAML");
        let sessions = yaml("{turns: {fixed: 2}, history: answers, turn_delay: {fixed: 100ms}}");
        assert_eq!((&bench["sessions"], bench.get("think_time")), (&sessions, None), "{line}");
        assert_eq!(bench["concurrency"], Value::from(5), "{line}");
        assert_eq!(bench["stop"]["requests"], Value::from(20), "{line}");
        let printed = import(&world, line).stdout;
        assert!(!printed.contains("Not translated"), "{printed}");
        world.file("manifests/m.yaml", &printed);
        world.good(&["plan", "m"]);
    }
}

#[test]
fn lengths_in_pairs_have_their_weights() {
    let world = World::new();
    for tool in ["genai-perf profile -m m --sequence-distribution", "aiperf profile -m m --seq-dist"] {
        let line = format!("{tool} '256,128:60;512,256:40'");
        let imported = world.regatta(&["import", "--", &line]);
        assert_eq!(imported.code, 2, "prompts and answers that the tool draws together are other requests");
        let printed = imported.stdout;
        let bench = manifest(&printed)["stages"]["bench"]["bench"].clone();
        let lengths = "{empirical: [{tokens: 256, weight: 60}, {tokens: 512, weight: 40}]}";
        assert_eq!(bench["input_tokens"], serde_yaml::from_str::<Value>(lengths).expect("YAML"), "{printed}");
        assert!(printed.contains("the tool draws both lengths together, in pairs"), "{printed}");
        world.file("manifests/m.yaml", &printed);
        world.good(&["plan", "m"]);
    }
}

#[test]
fn longer_prompts_of_a_data_set_are_left_out_as_the_backends_tool_does() {
    let world = World::new();
    let record = |words: usize| {
        let input = vec!["word"; words].join(" ");
        format!("{{\"input\": \"{input}\", \"instruction\": \"\", \"output\": \"a b c\"}}")
    };
    world.file("data.json", &format!("[{},{},{}]", record(5), record(50), record(7)));
    let line =
        "python3 benchmark_core_model.py -i grpc --max-input-len 10 --num-requests 2 dataset --dataset data.json";
    let bench = measurement(&world, line);
    assert_eq!(bench["data"]["max_input_tokens"], Value::from(10));
    world.file("manifests/m.yaml", &import(&world, line).stdout);
    world.good(&["plan", "m"]);
}

#[test]
fn a_text_with_a_dollar_in_front_of_its_quotes_is_that_text() {
    let world = World::new();
    let line = r#"vllm serve m --speculative-config $'{"method": "ngram", "num_speculative_tokens": 5}'"#;
    let args = manifest(&import(&world, line).stdout)["stages"]["server"]["serve"]["vllm"]["args"].clone();
    assert_eq!(args[1], Value::from(r#"{"method": "ngram", "num_speculative_tokens": 5}"#));
}

#[test]
fn exported_variables_are_those_of_the_programs_behind_them() {
    let script = |text: &str| {
        let world = World::new();
        world.file("run.sh", text);
        world.good(&["import", "run.sh"])
    };
    let served =
        script("export CUDA_VISIBLE_DEVICES=2,3\nexport VLLM_USE_V1=1\nexport HF_TOKEN=hf_xyz\nvllm serve m\n");
    served.shows("VLLM_USE_V1: '1'").shows("- HF_TOKEN").shows("CUDA_VISIBLE_DEVICES=…");
    assert!(!served.stdout.contains("hf_xyz") && !served.stdout.contains("VLLM_USE_V1=…"), "{}", served.stdout);
    let keyed = script(
        "export OPENAI_API_KEY=sk-1\npython3 -m sglang.bench_serving --backend vllm-chat --model m --dataset-name \
         random\n",
    );
    keyed.shows("api_key_env: OPENAI_API_KEY");
    assert!(!keyed.stdout.contains("sk-1"), "{}", keyed.stdout);
    // One that no program here reads is named.
    script("export OTHER=1\ngenai-perf profile -m m\n").shows("OTHER=…: the tool that reads it is not run");
}

#[test]
fn values_of_an_array_are_those_of_its_loop() {
    let world = World::new();
    world.file(
        "run.sh",
        "LEVELS=(1 4\n  16)\nfor c in \"${LEVELS[@]}\"; do\n  genai-perf profile -m gpt2 --concurrency $c \
                                                      --request-count 20\ndone\n",
    );
    let ended = world.good(&["import", "run.sh"]);
    ended.shows("concurrency: 1\n").shows("concurrency: 4\n").shows("concurrency: 16\n");
    assert!(!ended.stdout.contains("Not translated"), "{}", ended.stdout);
}

#[test]
fn what_a_line_contradicts_or_misspells_is_an_error() {
    let refused = |line: &str, text: &str| {
        let ended = World::new().regatta(&["import", "--", line]);
        assert_eq!(ended.code, 2, "{line}\n{}", ended.stdout);
        ended.shows(text);
    };
    refused(
        "vllm bench serve --model m --backend openai-chat --endpoint /v1/completions",
        "`--endpoint /v1/completions` is not the path of --backend openai-chat",
    );
    refused("vllm bench serve --model m --dataset-name random --dataset-path x.json", "contradict each other");
    refused(
        "vllm bench serve --model m --request-rate 10 --ramp-up-strategy linear --ramp-up-start-rps 1 \
         --ramp-up-end-rps 9",
        "contradict each other",
    );
    refused(
        "guidellm benchmark --target http://h:8000 --profile constnat --rate 1 --data prompt_tokens=8,output_tokens=8",
        "did you mean `constant`?",
    );
    refused("aiperf profile -m m --conversation-num $N", "write `N=…` in front of the line");
    refused("vllm bench serve --model m --request-rate-x $(a | b)", "is not a known option of vllm bench serve");
    World::new()
        .good(&["import", "--", "vllm serve m --tensor-paralel-size 2"])
        .shows("did you mean `--tensor-parallel-size`?");
}

#[test]
fn the_first_limit_of_another_tool_ends_the_run_here_too() {
    let line =
        "aiperf profile --model m --url localhost:8000 --request-rate 20 --benchmark-duration 120 --request-count 1000";
    let ended = World::new().good(&["import", "--", line]);
    ended.shows("requests: 1000").shows("--benchmark-duration 120: the tool ends a run at the first of its limits");
    assert!(!ended.stdout.contains("duration: 120s"), "{}", ended.stdout);
    // Neither is a field of the data set lost that the line itself sets.
    let line = "guidellm run --backend kind=openai_http,target=http://h:8000,extras.body.ignore_eos=false --data \
                kind=synthetic_text,prompt_tokens=8,output_tokens=8";
    let ended = World::new().good(&["import", "--", line]);
    assert!(!ended.stdout.contains("ignore_eos: true"), "{}", ended.stdout);
}

#[test]
fn what_a_plan_would_refuse_is_an_error_at_the_users_line() {
    let world = World::new();
    world.file("run.sh", "sleep 1\nvllm serve m -tp 0\n");
    let refused = world.regatta(&["import", "run.sh"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{refused:?}");
    refused.shows("the translation cannot be planned").shows("run.sh:2: ").shows("run.sh:1: cannot translate `sleep`");
    // A value that only the user has makes no difference.
    world.file("open.sh", "genai-perf profile -m $M --url $HOST:$PORT --endpoint-type chat --tokenizer <folder>\n");
    world.good(&["import", "open.sh"]).shows("target:");
}

#[test]
fn a_compose_file_is_the_lines_of_docker_that_start_its_services() {
    let world = World::new();
    let server = "  api:\n    image: vllm/vllm-openai:v1\n    command: --model m --port 8000\n    gpus: all\n";
    let command = "vllm bench serve --model m --host api --port 8000";
    let bench = format!("  load:\n    image: b\n    depends_on: [api]\n    command: {command}\n");
    world.file("compose.yaml", &format!("services:\n{server}{bench}"));
    let ended = world.good(&["import", "compose.yaml"]);
    let stages = manifest(&ended.stdout)["stages"].clone();
    assert_eq!(stages["server"]["container"]["image"], Value::from("vllm/vllm-openai:v1"));
    assert_eq!(stages["run_harness"]["bench"]["target"], Value::from("{{ stages.server }}"));
    world.file("bad.yaml", "services:\n  api:\n    image: vllm/vllm-openai\n    colour: blue\n");
    assert!(world.regatta(&["import", "bad.yaml"]).stderr.contains("bad.yaml:2: `--colour`"));
}

#[test]
fn a_file_of_inference_perf_is_its_line() {
    let world = World::new();
    world.file(
        "perf.yml",
        "data: { type: random, input_distribution: { mean: 64 }, output_distribution: { type: fixed, mean: 32 } }\n\
         load: { type: constant, stages: [{ rate: 2, duration: 30 }] }\napi: { type: chat }\n\
         server: { base_url: 'http://h:8000', model_name: m }\n",
    );
    let of_file = world.good(&["import", "perf.yml"]);
    of_file.shows("rate: 2").shows("duration: 30s").shows("Regatta sends Poisson arrivals at that rate");
    assert_eq!(of_file.stdout, world.good(&["import", "--", "inference-perf --config_file perf.yml"]).stdout);
}

#[test]
fn a_precision_and_a_scale_that_a_manifest_does_not_have_are_another_load() {
    let world = World::new();
    world.manifest("llama3.3-70b", "stages: { run_harness: { shell: 'true' } }\n");
    let line = "llmb-run submit -w inference_llama3.3 -s 70b --dtype fp8 --scale 4";
    let ended = world.regatta(&["import", "--", line]);
    assert_eq!(ended.code, 2, "{}", ended.stdout);
    ended.shows("sends a different load than the line, because it lacks `--dtype fp8`, `--scale 4`");
}
