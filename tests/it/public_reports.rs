//! Cases from public bug reports of other tools: lines, files and servers that are easily taken for something else.

use serde_json::json;
use serde_yaml::Value;

use crate::openai::script::{DONE, Do, END, HEAD, Scripted, chunk, token, usage};
use crate::openai::{chat, measure};
use crate::world::World;
use regatta::harness::{LoadPattern, VerdictCheck};

/// The stages that are printed for a text, and the whole text.
fn import(world: &World, file: &str) -> (Value, String) {
    let printed = world.good(&["import", file]).stdout;
    let manifest: Value = serde_yaml::from_str(&printed).expect("a manifest");
    (manifest["stages"].clone(), printed)
}

/// vllm-project/vllm, tenstorrent/vllm#344: `truncate_prompt_tokens` as a text.
#[test]
fn fields_of_a_request_keep_their_types() {
    let world = World::new();
    world.file(
        "s.sh",
        "vllm bench serve --model m --num-prompts 8 --dataset-name random \\\n  \
         --extra-body '{\"a\":\"128\",\"b\":128,\"c\":\"true\",\"d\":\"x\",\"e\":[\"1\"]}'\n",
    );
    let (stages, printed) = import(&world, "s.sh");
    let extra = &stages["bench"]["bench"]["extra"];
    let values = ["a", "b", "c", "d", "e"].map(|name| serde_json::to_value(&extra[name]).unwrap());
    assert_eq!(values, [json!("128"), json!(128), json!("true"), json!("x"), json!(["1"])], "{printed}");
}

/// vllm-project/vllm#14819, #51401: all settings are in the file, and `false` sets nothing.
#[test]
fn a_file_of_options_counts_as_the_line_that_it_stands_for() {
    let world = World::new();
    let options = "model: q/m\nport: 8123\ntensor-parallel-size: 4\nmax_model_len: 4096\nasync-scheduling: true\n\
        enable-prefix-caching: false\nserved-model-name: [a, b]\n";
    world.file("c.yaml", options);
    let bench = "vllm bench serve --model a --port 8123 --dataset-name random --num-prompts 8\n";
    world.file("s.sh", &format!("vllm serve --config c.yaml --max-num-seqs 9 &\n{bench}"));
    let (stages, printed) = import(&world, "s.sh");
    let server = &stages["server"]["serve"]["vllm"];
    let numbers = ["port", "tensor_parallel_size", "max_model_len", "max_num_seqs"].map(|key| server[key].as_u64());
    assert_eq!(numbers, [Some(8123), Some(4), Some(4096), Some(9)], "{printed}");
    assert_eq!((server["model"].as_str(), stages["server"]["gpus"].as_u64()), (Some("q/m"), Some(4)), "{printed}");
    let arguments: Vec<&str> = server["args"].as_sequence().into_iter().flatten().filter_map(Value::as_str).collect();
    assert_eq!(arguments, ["--async-scheduling", "--served-model-name", "a", "b"], "{printed}");
    assert_eq!(stages["run_harness"]["bench"]["target"], Value::from("{{ stages.server }}"));
    assert!(printed.contains("`enable-prefix-caching: false` in c.yaml has no effect"), "{printed}");
    // The line counts more than the file, which may be written by the text itself; one that is not there is passed on.
    let written =
        format!("cat > d.yaml <<EOF\ntensor-parallel-size: 4\nEOF\nvllm serve m --config=d.yaml -tp 2 &\n{bench}");
    world.file("s.sh", &written);
    assert_eq!(import(&world, "s.sh").0["server"]["gpus"], Value::from(2));
    world.file("s.sh", &format!("vllm serve m --config none.yaml &\n{bench}"));
    let (stages, printed) = import(&world, "s.sh");
    assert!(printed.contains("set it to what --config none.yaml needs"), "{printed}");
    assert_eq!(stages["server"]["inputs"]["config"], Value::from("none.yaml"));
    // In a container it is where a mount has it.
    let image = "vllm/vllm-openai:v0.11.0 --config /conf/c.yaml";
    world.file("s.sh", &format!("docker run --gpus all -p 8123:8123 -v ./c.yaml:/conf/c.yaml {image} &\n{bench}"));
    let (stages, printed) = import(&world, "s.sh");
    assert_eq!(stages["server"]["serve"]["vllm"]["tensor_parallel_size"], Value::from(4), "{printed}");
}

/// sgl-project/sglang#3206, huggingface/open-r1#533
#[test]
fn nodes_that_a_job_has_only_when_it_runs_are_no_setting() {
    let world = World::new();
    world.file(
        "s.sh",
        "NODES=($(scontrol show hostnames $SLURM_JOB_NODELIST))\n\
         srun -N1 -w ${NODES[0]} -p gpu vllm serve m --port 8000 &\n\
         srun -N1 -w ${NODES[1]} vllm bench serve --host ${NODES[0]} --port 8000 --model m --num-prompts 8\n",
    );
    let (stages, printed) = import(&world, "s.sh");
    assert!(!printed.contains("nodelist="), "{printed}");
    assert!(printed.contains("--slurm partition=gpu"), "{printed}");
    assert!(printed.contains("-w ${NODES[0]}: the job's nodes are known when it runs"), "{printed}");
    assert_eq!(stages["run_harness"]["bench"]["target"], Value::from("{{ stages.server }}"));
}

/// vllm-project/vllm#2895 and many others: the settings of a compose file are in `.env`.
#[test]
fn variables_of_a_compose_file_have_the_values_of_its_env_file() {
    let world = World::new();
    world.file(".env", "# mine\nexport MODEL=\"q/m\"\nTP='2'\nPORT=8001 # the usual is taken\nHF_TOKEN=hf_secret\n");
    let api = "  api:\n    image: vllm/vllm-openai:v1\n    environment: [\"HF_TOKEN=${HF_TOKEN}\"]\n    \
        command: --model ${MODEL} --tensor-parallel-size ${TP} --port ${PORT:-8000} --seed ${SEED}\n";
    let load = "  load:\n    image: b\n    command: vllm bench serve --model ${MODEL} --host api --port $PORT\n";
    world.file("compose.yaml", &format!("services:\n{api}{load}"));
    let (stages, printed) = import(&world, "compose.yaml");
    let server = &stages["server"]["serve"]["vllm"];
    assert_eq!((server["model"].as_str(), server["port"].as_u64()), (Some("q/m"), Some(8001)), "{printed}");
    assert_eq!(stages["server"]["gpus"], Value::from(2), "{printed}");
    assert_eq!(stages["run_harness"]["bench"]["model"], Value::from("q/m"), "{printed}");
    assert!(!printed.contains("hf_secret") && printed.contains("{{ seed }}"), "{printed}");
}

/// `-v MODELS:/models … --model /models/x`: requests name the model as its line does.
#[test]
fn a_server_in_a_container_has_the_name_by_which_clients_call_it() {
    let world = World::new();
    world.file(
        "s.sh",
        "docker run -v /data/m:/models -p 9000:8000 vllm/vllm-openai:v1 --model /models/x &\n\
         docker run -v /data/m:/models --net host vllm-client vllm bench serve --model /models/x --port 9000 \\\n  \
         --dataset-name custom --dataset-path /models/d.jsonl --num-prompts 8\n",
    );
    let (stages, printed) = import(&world, "s.sh");
    let server = &stages["server"]["serve"]["vllm"];
    let names = [&server["model"], &server["served_model_name"], &stages["run_harness"]["bench"]["model"]];
    assert_eq!(names.map(Value::as_str), [Some("/data/m/x"), Some("/models/x"), Some("/models/x")], "{printed}");
    assert!(printed.contains("/data/m/d.jsonl"), "{printed}");
}

/// sgl-project/sglang#2805: 1,648 of 3,000 requests succeeded, and the file says so nowhere.
#[test]
fn a_sweep_of_another_tool_shows_how_many_requests_were_answered() {
    let world = World::new();
    let run = |users: u32, completed: u32| {
        json!({
            "backend": "vllm", "model_id": "m", "num_prompts": 200, "max_concurrency": users, "completed": completed,
            "duration": 50.0, "request_throughput": 4.0, "mean_ttft_ms": 80.0 + f64::from(users), "p99_ttft_ms": 99.0,
        })
        .to_string()
    };
    world.file("a.json", &run(1, 200)).file("b.json", &run(2, 150));
    let table = world.good(&["import", "a.json", "b.json", "--out", "o"]).stdout;
    let shows = |level: &str, verdict: &str| {
        table.lines().any(|line| line.starts_with(level) && line.trim_end().ends_with(verdict))
    };
    assert!(shows("1", "not judged") && shows("2", "not judged, 150 of 200 answered"), "{table}");
}

/// sgl-project/genai-bench#81: hidden reasoning, and proxies that pass on whole answers.
#[test]
fn a_stream_of_one_chunk_is_a_whole_answer() {
    let single = || {
        let events = [token("a b c d"), usage(4), DONE.to_owned()];
        [HEAD.to_owned(), events.iter().map(|event| chunk(event)).collect(), END.to_owned()].concat()
    };
    let server = Scripted::start(move |_| vec![Do::Send(single())]);
    let mut spec = chat(&server, 8);
    spec.scenario = LoadPattern::Concurrency { users: 1.0.into() };
    let result = measure(&spec).result;
    assert_eq!(result.tokens.whole_answers, 8);
    let reason = result.reasons().iter().find(|reason| reason.check == VerdictCheck::Unary).expect("a warning");
    assert!(reason.line().contains("8 of 8 answers came in one piece"), "{}", reason.line());
}
