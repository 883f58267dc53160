//! Values that a script does not give: each becomes a parameter at its own key, and what follows from it a formula.

use std::collections::BTreeMap;

use pretty_assertions::assert_eq;
use regatta::manifest::{GivenValues, ManifestLibrary};
use regatta::plan::{expand, load};
use serde_json::{Value, json};

use crate::world::World;

/// How a script may write a value. `VALUE` is the value itself, `NAME` a variable of its own.
const FORMS: [&str; 9] = [
    "$NAME",
    "${NAME}",
    "\"$NAME\"",
    "$(get NAME | head -n1)",
    "\"$(get NAME \"$(a 'b c')\")\"",
    "`get NAME 'x y'`",
    "${NAME:-VALUE}",
    "${NAME[0]}",
    "$((NAME*2))",
];

const VLLM: &str = "vllm bench serve --model m --dataset-name random";
const UP_TO: &str =
    "python3 bench_serving/benchmark_serving.py --model m --backend vllm --dataset-name random --num-prompts 8";
const SGLANG: &str = "python3 -m sglang.bench_serving --backend vllm --model m";
const GENAI: &str = "genai-perf profile -m m --endpoint-type chat";
const AIPERF: &str = "aiperf profile -m m --endpoint-type chat --url localhost:8000";
const GUIDELLM: &str = "guidellm benchmark --target http://h:8000";

/// Options of load tools whose value is a whole number. `@` is the value.
const WHOLE: [(&str, &str); 46] = [
    (VLLM, "--max-concurrency @"),
    (VLLM, "--max-concurrency @ --request-rate 4"),
    (VLLM, "--request-rate @ --max-concurrency 4 --num-prompts 9"),
    (VLLM, "--num-prompts @ --request-rate 3"),
    (VLLM, "--random-input-len @"),
    (VLLM, "--random-output-len @"),
    (VLLM, "--random-input-len @ --random-range-ratio 0.3"),
    (VLLM, "--random-prefix-len @"),
    (VLLM, "--seed @"),
    (VLLM, "--num-warmups @"),
    (VLLM, "--top-k @"),
    (VLLM, "--goodput ttft:@"),
    (UP_TO, "--random-output-len @ --random-range-ratio 0.8"),
    (SGLANG, "--dataset-name random --num-prompts @"),
    (SGLANG, "--dataset-name random --random-input-len @"),
    (SGLANG, "--dataset-name random --random-output-len @ --random-range-ratio 0.5"),
    (SGLANG, "--dataset-name generated-shared-prefix --gsp-num-groups @"),
    (SGLANG, "--dataset-name generated-shared-prefix --gsp-system-prompt-len @"),
    (GENAI, "--concurrency @"),
    (GENAI, "--request-rate @"),
    (GENAI, "--request-count @"),
    (GENAI, "--measurement-interval @"),
    (GENAI, "--synthetic-input-tokens-mean @"),
    (GENAI, "--synthetic-input-tokens-mean @ --synthetic-input-tokens-stddev 5"),
    (GENAI, "--synthetic-input-tokens-stddev @"),
    (GENAI, "--output-tokens-mean @"),
    (GENAI, "--output-tokens-mean 40 --output-tokens-stddev @"),
    (GENAI, "--random-seed @"),
    (GENAI, "--warmup-request-count @"),
    (GENAI, "--num-dataset-entries @"),
    (GENAI, "--num-prefix-prompts @ --prefix-prompt-length 20"),
    (AIPERF, "--concurrency @"),
    (AIPERF, "--concurrency @ --request-rate 7 --request-count 90"),
    (AIPERF, "--request-rate @ --request-count 90"),
    (AIPERF, "--request-count @"),
    (AIPERF, "--benchmark-duration @"),
    (AIPERF, "--synthetic-input-tokens-mean @ --random-range-ratio 0.5"),
    (AIPERF, "--shared-system-prompt-length @"),
    (AIPERF, "--request-rate @ --request-count 90 --conversation-num 30 --conversation-turn-mean 4"),
    (GUIDELLM, "--rate-type concurrent --rate @ --max-seconds 30 --data prompt_tokens=64,output_tokens=8"),
    (GUIDELLM, "--rate-type constant --rate @ --max-seconds 30 --data prompt_tokens=64,output_tokens=8"),
    (GUIDELLM, "--rate-type constant --rate 2 --max-seconds @ --data prompt_tokens=64,output_tokens=8"),
    (GUIDELLM, "--rate-type throughput --max-requests @ --data prompt_tokens=64,output_tokens=8"),
    (
        GUIDELLM,
        "--rate-type constant --rate 2 --max-requests 9 --data prompt_tokens=@,prompt_tokens_stdev=4,output_tokens=8",
    ),
    ("perf_analyzer -m m -u h:8001 -i grpc", "--concurrency-range @"),
    ("perf_analyzer -m m -u h:8001 -i grpc", "--request-rate-range @ --request-count 30"),
];

/// Those whose value is a fraction.
const FRACTIONS: [(&str, &str); 5] = [
    (VLLM, "--temperature @"),
    (VLLM, "--top-p @"),
    (VLLM, "--request-rate 4 --burstiness @"),
    (VLLM, "--random-range-ratio @"),
    (UP_TO, "--random-input-len 1000 --random-range-ratio @"),
];

/// Those whose value is a text.
const TEXTS: [(&str, &str); 5] = [
    ("vllm bench serve --dataset-name random", "--model @"),
    (VLLM, "--host @"),
    (GENAI, "--url @:8000"),
    (SGLANG, "--dataset-name random --host @"),
    (GUIDELLM, "--rate-type concurrent --rate 3 --max-requests 9 --data prompt_tokens=64,output_tokens=8 --model @"),
];

/// Lines that start a server.
const SERVERS: [(&str, &str); 12] = [
    ("vllm serve m", "--tensor-parallel-size @"),
    ("vllm serve m", "-tp @ --pipeline-parallel-size 2 -dp 3"),
    ("vllm serve m", "--max-model-len @"),
    ("vllm serve m", "--max-num-seqs=@"),
    ("python3 -m sglang.launch_server --model-path m", "--tp @"),
    ("text-generation-launcher --model-id m", "--num-shard @"),
    ("trtllm-serve m", "--tp_size @ --pp_size 2"),
    ("trtllm-serve m", "--max_batch_size @"),
    ("trtllm-bench --model m/x throughput --dataset /d", "--tp @"),
    ("trtllm-bench --model m/x latency --dataset /d", "--concurrency @"),
    ("srun --mpi=pmix -n @ launch_triton_server.py", "--model_repo=/r"),
    ("launch_triton_server.py --model_repo=/r", "--world_size=@"),
];

/// One value of a script.
struct Case {
    line: String,
    name: String,
    value: String,
}

fn cases<'a>(lines: &'a [(&'a str, &'a str)], value: impl Fn(usize) -> String) -> Vec<Case> {
    let case = |(index, (tool, options)): (usize, &(&str, &str))| Case {
        line: format!("{tool} {options}"),
        name: format!("V{index}X"),
        value: value(index),
    };
    lines.iter().enumerate().map(case).collect()
}

fn script(cases: &[Case], form: &str) -> String {
    let line = |case: &Case| {
        let written = form.replace("NAME", &case.name).replace("VALUE", &case.value);
        case.line.replace('@', &written)
    };
    cases.iter().map(line).collect::<Vec<_>>().join("\n") + "\n"
}

/// What the manifest of a script plans, its numbers rounded to three digits. The parameters are given by the variables' names.
fn planned(text: &str, values: &BTreeMap<String, String>) -> Vec<Value> {
    let world = World::new();
    world.file("s.sh", text);
    let printed = world.good(&["import", "s.sh"]).stdout;
    let manifest = printed.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
    let keys: Value = serde_yaml::from_str(&manifest).expect("a manifest");
    let mut given = GivenValues::default();
    for (name, param) in keys["params"].as_object().into_iter().flatten() {
        let about = param["about"].as_str().expect("about");
        let value = values.iter().find(|(variable, _)| about.contains(variable.as_str()));
        given.params.push((name.clone(), value.unwrap_or_else(|| panic!("{about}\n{text}")).1.clone()));
    }
    let about_free: Vec<&str> = manifest.lines().filter(|line| !line.trim_start().starts_with("about:")).collect();
    assert!(!about_free.join("\n").contains(['$', '`']) && !manifest.contains("90000"), "{manifest}");
    world.file("manifests/m.yaml", &manifest);
    let library = ManifestLibrary::new(&world.path("."));
    let plan = load(&library, "m", &given).and_then(|manifest| expand(&manifest));
    let plan = plan.unwrap_or_else(|found| panic!("{found}\n{manifest}"));
    let tasks = plan.tasks.iter().map(|task| {
        let action: Value = serde_json::from_str(task.action_text()).expect("JSON");
        let mut task = json!({"stage": task.stage, "gpus": task.gpus, "action": action});
        round(&mut task);
        task
    });
    tasks.collect()
}

fn round(value: &mut Value) {
    match value {
        Value::Number(number) => *value = json!((number.as_f64().unwrap_or_default() * 1e3).round() / 1e3),
        Value::Array(values) => values.iter_mut().for_each(round),
        Value::Object(values) => values.values_mut().for_each(round),
        _ => {}
    }
}

/// Every form of a value plans what the value itself does.
fn assert_same(cases: &[Case], forms: &[&str]) {
    let literal = planned(&script(cases, "VALUE"), &BTreeMap::new());
    for form in forms {
        let value = |case: &Case| match (form.contains("*2"), case.value.parse::<u64>()) {
            (true, Ok(value)) => (value / 2).to_string(),
            _ => case.value.clone(),
        };
        let values = cases.iter().map(|case| (case.name.clone(), value(case))).collect();
        assert_eq!(planned(&script(cases, form), &values), literal, "{form}");
    }
}

#[test]
fn every_number_that_a_script_does_not_have_is_a_parameter_at_its_own_key() {
    assert_same(&cases(&WHOLE, |index| (100 + 2 * index).to_string()), &FORMS);
}

#[test]
fn every_fraction_and_text_that_a_script_does_not_have_is_a_parameter_at_its_own_key() {
    assert_same(&cases(&FRACTIONS, |index| format!("0.{}", index + 2)), &FORMS[..8]);
    assert_same(&cases(&TEXTS, |index| format!("name-{index}")), &FORMS[..8]);
}

#[test]
fn what_a_server_needs_follows_from_numbers_that_the_script_does_not_have() {
    for (index, line) in SERVERS.iter().enumerate() {
        assert_same(&cases(&[*line], |_| (2 + 2 * (index % 2)).to_string()), &FORMS);
    }
    let share = [("vllm serve m", "--gpu-memory-utilization @")];
    assert_same(&cases(&share, |_| "0.85".to_owned()), &FORMS[..8]);
}

/// The manifest of a script.
fn imported(text: &str) -> Value {
    let world = World::new();
    world.file("s.sh", text);
    serde_yaml::from_str(&world.good(&["import", "s.sh"]).stdout).expect("a manifest")
}

const BENCH: &str = "vllm bench serve --model m --dataset-name random --num-prompts 8 --max-concurrency 4 --port 8000";

#[test]
fn what_a_command_would_print_is_a_parameter_of_the_target() {
    for (set, target) in [
        ("IP=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)", "http://{{ ip }}:8000"),
        ("IP=`hostname -i | awk '{print $1}'`", "http://{{ ip }}:8000"),
        ("NODES=($(scontrol show hostnames \"$SLURM_JOB_NODELIST\"))\nIP=${NODES[0]}", "http://{{ nodes_0 }}:8000"),
        ("mapfile -t NODES < <(scontrol show hostnames)\nIP=${NODES[1]}", "http://{{ nodes_1 }}:8000"),
        ("NODES=(gpu1 gpu2)\nNODES+=(gpu3)\nIP=${NODES[2]}", "http://gpu3:8000"),
        ("IP=${HEAD%%.*}", "http://{{ head }}:8000"),
        ("FULL=gpu7.cluster.local\nIP=${FULL%%.*}", "http://gpu7:8000"),
        ("local IP=$(hostname -s)\nexport IP", "http://{{ ip }}:8000"),
    ] {
        let manifest = imported(&format!("{set}\n{BENCH} --host $IP\n"));
        let stages = manifest["stages"].as_object().expect("stages");
        let bench = stages.values().find(|stage| stage["bench"].is_object()).expect(set);
        assert_eq!(bench["bench"]["target"], target, "{set}");
        let params = manifest["params"].as_object().map_or(0, serde_json::Map::len);
        assert_eq!(params, usize::from(target.contains("{{")), "{set}: {manifest}");
    }
    // Only what the script takes from the environment is read from there.
    let manifest = imported(&format!("IP=$(hostname -i)\n{BENCH} --host $IP --seed $SEED\n"));
    assert_eq!((&manifest["params"]["ip"]["env"], &manifest["params"]["seed"]["env"]), (&Value::Null, &json!("SEED")));
}

#[test]
fn a_step_with_a_command_in_its_options_is_no_reason_to_drop_its_benchmark() {
    let text = format!(
        "HEAD=$(scontrol show hostnames $LIST | head -n1)\nfor C in 1 8; do\n  srun --overlap -N1 -n1 -w $HEAD {} --host $HEAD\ndone\n",
        BENCH.replace("--max-concurrency 4", "--max-concurrency $C")
    );
    let manifest = imported(&text);
    let levels: Vec<&Value> =
        manifest["stages"].as_object().expect("stages").values().map(|stage| &stage["bench"]["concurrency"]).collect();
    assert_eq!(levels, [&json!(1), &json!(8)]);
}

#[test]
fn the_gpus_of_a_server_are_those_that_its_variables_need() {
    let manifest = imported("vllm serve m --tensor-parallel-size $TP --pipeline-parallel-size $PP --port 8000 &\n");
    let stage = &manifest["stages"]["server"];
    assert_eq!(
        (&stage["gpus"], &stage["serve"]["vllm"]["tensor_parallel_size"]),
        (&json!("{{ tp * pp }}"), &json!("{{ tp }}"))
    );
    assert!(manifest["params"]["tp"]["int"].is_object() && manifest["params"]["tp"]["env"] == "TP", "{manifest}");
}

#[test]
fn a_value_that_cannot_be_a_formula_is_an_error_with_its_name() {
    let world = World::new();
    for (line, name) in [
        ("aiperf profile -m m --conversation-num 5 --conversation-turn-mean $TURNS", "TURNS"),
        (
            "vllm bench sweep serve --serve-cmd 'vllm serve m' --bench-cmd 'vllm bench serve --model m' --num-runs $RUNS",
            "RUNS",
        ),
        (
            "guidellm benchmark --target http://h:8000 --rate-type sweep --rate $RATE --max-seconds 9 --data prompt_tokens=8,output_tokens=8",
            "RATE",
        ),
    ] {
        world.file("s.sh", &format!("{line}\n"));
        let ended = world.regatta(&["import", "s.sh"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{line}");
        ended.shows("s.sh:1").shows(&format!("write `{name}=…` in front of the line"));
    }
}

#[test]
fn variables_with_names_of_one_spelling_are_two_parameters() {
    let manifest = imported(&format!("{BENCH} --seed $SEED --random-input-len $seed --random-output-len $IN\n"));
    let stages = manifest["stages"].as_object().expect("stages");
    let bench = &stages.values().next().expect("a stage")["bench"];
    let seen = [&bench["seed"], &bench["input_tokens"]["fixed"], &bench["output_tokens"]["fixed"]];
    assert_eq!(seen, ["{{ seed }}", "{{ seed_2 }}", "{{ in_value }}"]);
    assert_eq!(
        (&manifest["params"]["seed"]["env"], &manifest["params"]["seed_2"]["env"]),
        (&json!("SEED"), &json!("seed"))
    );
}

#[test]
fn a_here_document_of_a_shell_is_its_script() {
    for text in [
        format!("srun -N1 bash << EOF\n{BENCH} --seed $SEED\nEOF\n"),
        format!("bash -s <<'EOF'\n{BENCH} --seed $SEED\nEOF\n").replace("-s ", ""),
    ] {
        let manifest = imported(&text);
        let seeds: Vec<&Value> =
            manifest["stages"].as_object().expect("stages").values().map(|stage| &stage["bench"]["seed"]).collect();
        assert_eq!(seeds, ["{{ seed }}"], "{text}");
    }
    // Known values are in the settings that the text writes.
    let text = "TP=4\ncat > o.yml << EOF\nkv_cache_config: {free_gpu_memory_fraction: 0.$TP}\nEOF\ntrtllm-bench --model m/x throughput --dataset /d --extra_llm_api_options o.yml\n";
    let manifest = imported(text);
    let options = &manifest["stages"]["throughput"]["trtllm_bench"]["options"];
    assert_eq!(options["kv_cache_config"]["free_gpu_memory_fraction"], 0.4);
}

#[test]
fn a_mount_with_equal_sides_is_a_mount() {
    let line = "srun --container-image=nvcr.io#nvidia/x --container-mounts=/lustre:/lustre vllm serve /lustre/models/m --port 8000\n";
    let manifest = imported(line);
    let stage = &manifest["stages"]["server"];
    assert_eq!(stage["container"]["mounts"], json!(["/lustre:/lustre"]));
    assert_eq!((&stage["serve"]["vllm"]["model"], manifest.get("params")), (&json!("/lustre/models/m"), None));
}

#[test]
fn an_ipv6_host_has_brackets_in_its_target() {
    for (tool, extra) in [("vllm bench serve", ""), ("python3 -m sglang.bench_serving", "--backend vllm")] {
        for (host, target) in
            [("::1", "[::1]"), ("fe80::2", "[fe80::2]"), ("[::1]", "[::1]"), ("::", "[::1]"), ("h", "h")]
        {
            let manifest = imported(&format!(
                "{tool} {extra} --model m --dataset-name random --num-prompts 3 --host {host} --port 8000\n"
            ));
            let stages = manifest["stages"].as_object().expect("stages");
            assert_eq!(
                stages.values().next().expect("a stage")["bench"]["target"],
                format!("http://{target}:8000"),
                "{tool} {host}"
            );
        }
    }
}
