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
    let line = "python benchmarks/cpp/prepare_dataset.py --stdout --tokenizer m/x token-norm-dist --num-requests 9 --input-mean 128 --output-mean 64 --input-stdev 0 --output-stdev 0 > /tmp/d.txt && \
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
    assert!(ended.stderr.contains("has no meaning here: --engine_dir is an engine of TensorRT's"), "{}", ended.stderr);
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
            "/opt/tritonserver/bin/tritonserver --model-store {folder} --http-port 9000 --grpc-port=9001 --metrics-port 9002 --log-verbose 1"
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
    let line = r#"curl localhost:8000/v1/chat/completions -d '{"model": "m", "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "test"}], "max_tokens": 5, "top_p": 0.5}'"#;
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
    let line = "genai-perf profile -m m --endpoint-type chat --concurrency $CONC --request-count $N --synthetic-input-tokens-mean ${ISL}";
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
    // The bounds of a deviation are computed from the mean.
    let line = "genai-perf profile -m m --endpoint-type chat --synthetic-input-tokens-mean $ISL --synthetic-input-tokens-stddev 5";
    let ended = world.regatta(&["import", "--", line]);
    assert_eq!((ended.code, ended.stdout.as_str()), (2, ""));
    assert!(ended.stderr.contains("has no value for ${ISL}, of which others are computed"), "{}", ended.stderr);
}

#[test]
fn every_loop_of_a_script_is_written_out_and_no_benchmark_is_lost() {
    let world = World::new();
    let script = "#!/bin/bash\nfor isl in 128 1024; do\n  for c in 1 4; do\n    vllm bench serve --model m --dataset-name random --random-input-len $isl --max-concurrency $c --num-prompts $((c*10))\n  done\ndone\n\
                  for rate in $RATES; do\n  vllm bench serve --model m --dataset-name random --request-rate $rate\ndone\naiperf profile -m m --request-count 5\n";
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
    let expected = "regatta run llama2-70b system=sim-h200-x8 scenarios=offline loadgen=true --until run_harness";
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
    for (system, name) in [("B300-SXM-270GBx8", "b300-x8"), ("C845A_L40Sx8", "l40s-x8")] {
        let line = format!("make run_harness SYSTEM_NAME={system} RUN_ARGS='--benchmarks=llama2 --scenarios=Offline'");
        let ended = world.regatta(&["import", "--", &line]);
        assert_eq!(ended.code, 2);
        let sentence = format!("has no meaning here: no settings of the system `{name}` are on file for `llama2-70b`");
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
    assert!(ended.stderr.contains("is a recipe of training"), "{}", ended.stderr);
    let line = "python3 benchmark_core_model.py --tensorrt-llm-model-name a --tensorrt-llm-model-name b -i grpc token-norm-dist --input-mean 8 --input-stdev 0 --output-mean 8 --output-stdev 0 --num-requests 5";
    let stages = manifest(&import(&world, line).stdout)["stages"].clone();
    let models: Vec<&str> = stages
        .as_mapping()
        .expect("stages")
        .values()
        .map(|stage| stage["bench"]["model"].as_str().expect("a model"))
        .collect();
    assert_eq!(models, ["a", "b"]);
}
