//! The DGX-cloud recipe: its tables, its variables, and the commands that come of them, with stand-ins for what needs a GPU.
//!
//! `UPDATE=1 cargo test` writes tests/golden/dgxc anew.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use crate::world::{Ended, World};

/// Says how it was started, and what it would say at its end. It reads what real ones read: the options, the data set's size.
const LAUNCH: &str = r#"#!/bin/sh
{ echo "trtllm-llmapi-launch $*" | sed 's/ --/\n  --/g'; echo "CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES"; } >>"$RECORD"
while [ $# -gt 0 ]; do
  case "$1" in
    --extra_llm_api_options) echo "options:" >>"$RECORD"; sed 's/^/  /' "$2" >>"$RECORD" ;;
    --dataset) test -s "$2" || { echo "no data set $2"; exit 3; } ;;
    --model_path) test -f "$2/config.json" || { echo "no model $2"; exit 3; } ;;
    --num_requests) n=$2 ;;
  esac
  shift
done
echo >>"$RECORD"
echo "[TensorRT-LLM][INFO] loading"
echo "a warning" >&2
cat <<END
===========================================================
= PYTORCH BACKEND
===========================================================
Model:                  Llama3.3-70B
TensorRT LLM Version:   1.1.0rc5

===========================================================
= REQUEST DETAILS
===========================================================
Number of requests:             ${SAY_N:-$n}
Average Input Length (tokens):  128.0000
Average Output Length (tokens): 128.0000
===========================================================
= PERFORMANCE OVERVIEW
===========================================================
Request Throughput (req/sec):                     50.5000
Total Output Throughput (tokens/sec):             6464.2500
Total Latency (ms):                               2000.0000
Average request latency (ms):                     900.0000
Average time-to-first-token [TTFT] (ms):          100.0000
Average time-per-output-token [TPOT] (ms):        6.2500
END
"#;

const PYTHON: &str = r#"#!/bin/sh
{ echo "python $*" | sed 's/ --/\n  --/g; s/ token-norm-dist/\n  token-norm-dist/'; echo; } >>"$RECORD"
echo '{"task_id": 0, "input_ids": [1], "output_tokens": 1}'
"#;

/// A project with the shipped recipe, a clone to clone, a checkpoint, and the stand-ins in PATH.
fn world() -> World {
    let mut world = World::new();
    world.copy("manifests");
    let origin = world.path("origin");
    world.file("origin/benchmarks/cpp/prepare_dataset.py", "pass\n");
    for words in [
        &["init", "--quiet", "--initial-branch=main", "."][..],
        &["add", "."],
        &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "x"],
    ] {
        assert!(Command::new("git").args(words).current_dir(&origin).status().expect("git").success());
    }
    let vars = format!("vars: {{ trt_llm: {{ url: {}, rev: main }} }}\n", origin.display());
    world.manifest("recipe", &format!("include: [llama3.3-70b/pipeline.yaml]\n{vars}"));
    world.file("model/config.json", "{}\n");
    for (name, text) in [("bin/trtllm-llmapi-launch", LAUNCH), ("bin/python", PYTHON)] {
        world.file(name, text);
        fs::set_permissions(world.path(name), fs::Permissions::from_mode(0o755)).expect("a program");
    }
    let path = format!("{}:{}", world.path("bin").display(), std::env::var("PATH").expect("PATH"));
    let record = world.path("record");
    world.env("PATH", path).env("RECORD", record);
    // What a person's shell may have set.
    for name in ["MODE", "TP", "PP", "EP", "USE_CASES", "CONCURRENCY", "NUM_REQUESTS", "STREAMING"] {
        world.env(name, "");
    }
    world
}

fn run(world: &World, more: &[&str]) -> Ended {
    let python = format!("python={}", world.path("bin/python").display());
    let mut words = vec!["run", "recipe", "weights=model", &python, "--gpus", "4", "-j", "1"];
    words.extend(more);
    world.regatta(&words)
}

/// What was started, without what differs from machine to machine.
fn record(world: &World) -> String {
    let text = world.read("record").replace(&world.path("").display().to_string(), "PROJECT/");
    let text = text.replace(&*world.path("").canonicalize().expect("there").to_string_lossy(), "PROJECT");
    let folder = regex::Regex::new(r"\.regatta/out/[0-9a-z]+-[0-9a-z-]+").expect("a pattern");
    folder.replace_all(&text.replace("PROJECT//", "PROJECT/"), "OUT").into_owned()
}

fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/dgxc").join(format!("{name}.txt"));
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(&path, text).expect("a golden");
    }
    pretty_assertions::assert_eq!(
        fs::read_to_string(&path).unwrap_or_default(),
        text,
        "{name}; UPDATE=1 writes it anew"
    );
}

#[test]
fn every_system_and_version_starts_the_commands_of_the_recipe() {
    for (name, settings) in [
        ("gb200-x1-v25.07", &["system=gb200-x1", "version=v25.07"][..]),
        ("gb200-x1-v26.02", &["system=gb200-x1", "dtype=nvfp4"]),
        ("gb200-x4-v26.02-min_latency", &["system=gb200-x4", "mode=min_latency"]),
        ("b200-x1-v26.02", &["system=b200-x1"]),
        ("h100-x2-v26.02", &["system=h100-x2", "dtype=fp8"]),
    ] {
        let world = world();
        let ended = run(&world, settings);
        assert_eq!(ended.code, 0, "{name}\n{}{}", ended.stdout, ended.stderr);
        golden(name, &record(&world));
    }
}

#[test]
fn results_are_where_the_recipe_has_them_and_say_whose_they_are() {
    let world = world();
    let one = ["system=gb200-x1", "use_cases=reasoning:1000/1000"];
    let ended = run(&world, &one);
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    ended
        .shows("6,464 tok/s  50.5 req/s  TTFT mean 100 ms  TPOT mean 6.25 ms")
        .shows("n=4096, as trtllm-bench reports");
    let name = "Llama3.3-70B_TP1_EP1_PP1_CON256_reasoning";
    let folder = world.path("latest/experiments").join(name);
    // Each stream has a file of its own.
    let read = |end: &str| fs::read_to_string(folder.join(format!("{name}_streaming-on.{end}"))).expect("a file");
    assert!(read("out").contains("PERFORMANCE OVERVIEW") && !read("out").contains("a warning"), "{}", read("out"));
    assert_eq!(read("err"), "a warning\n");
    let result: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(folder.join("result.json")).unwrap()).unwrap();
    assert_eq!(result["verdict"], "not_judged");
    assert_eq!(result["imported"]["tool"], "trtllm-bench");
    assert_eq!(result["rates"]["output_tokens"], 6464.25);
    assert_eq!(result["latency"]["ttft"]["mean"], 100.0);
    assert_eq!(result["latency"]["ttft"]["zero_point"], "issue");
    assert_eq!(result["tokens"]["output"], 128.0 * 4096.0);
    let dataset = world.path("latest/datasets").join(name).join("dataset_reasoning_1000_1000.txt");
    assert!(dataset.is_file());
    world.good(&["report"]);

    // Nothing has changed, so nothing is measured again; `--repeat-number 2` is a measurement of its own, on the same data set.
    let before = world.count("record");
    assert_eq!(run(&world, &one).code, 0);
    assert_eq!(world.count("record"), before);
    let again = run(&world, &[one[0], one[1], "--repeat-number", "2"]);
    assert_eq!(again.code, 0, "{}{}", again.stdout, again.stderr);
    assert_eq!(again.ran(), [format!("experiments/{name}")]);
}

#[test]
fn the_variables_of_the_recipe_reach_the_command() {
    let mut world = world();
    for (name, value) in [
        ("USE_CASES", "chat:128/128 mine:77/33"),
        ("MAX_BATCH_SIZE", "320"),
        ("MAX_NUM_TOKENS", "4096"),
        ("NUM_REQUESTS", "12"),
        ("KV_CACHE_FRACTION", "0.8"),
        ("CONCURRENCY", "-1"),
        ("TP", "2"),
        ("PP", "2"),
        ("EP", "1"),
        ("STREAMING", "false"),
        ("MODE", "max_throughput"),
        ("SBATCH_TIMELIMIT", "50:00"),
        ("PROMT_REQUESTS", "40"),
    ] {
        world.env(name, value);
    }
    let ended = run(&world, &["system=gb200-x1"]);
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    golden("variables", &record(&world));
    assert!(world.path("latest/experiments/Llama3.3-70B_TP2_EP1_PP2_CON-1_mine/Llama3.3-70B_TP2_EP1_PP2_CON-1_mine_streaming-off.out").is_file());
    // What is typed wins over the variable, and `show` says where a value came from.
    world
        .good(&["show", "recipe", "system=gb200-x1", "max_batch_size=7"])
        .shows("command line")
        .shows("environment USE_CASES");
    let plan = world.good(&["plan", "recipe", "system=gb200-x1", "weights=model", "python=x", "--json"]).stdout;
    assert!(plan.contains("experiments/Llama3.3-70B_TP2_EP1_PP2_CON-1_chat"), "{plan}");
}

#[test]
fn streaming_on_and_off_are_measured_side_by_side() {
    let world = world();
    let ended = run(&world, &["system=gb200-x1", "use_cases=chat:128/128", "streaming=true,false"]);
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    let name = "Llama3.3-70B_TP1_EP1_PP1_CON2048_chat";
    for (folder, stream) in [(name.to_owned(), "on"), (format!("{name}_streaming-off"), "off")] {
        let file = format!("latest/experiments/{folder}/{name}_streaming-{stream}.out");
        assert!(world.path(&file).is_file(), "{file}");
    }
    let record = record(&world);
    assert_eq!(record.matches("--streaming").count(), 1, "{record}");
}

/// The lines of the recipe's page.
const LINES: [&str; 7] = [
    "MAX_NUM_TOKENS=2048 MAX_BATCH_SIZE=640 USE_CASES=reasoning:1000/1000",
    "MAX_NUM_TOKENS=8192 MAX_BATCH_SIZE=4096 USE_CASES=chat:128/128",
    "SBATCH_TIMELIMIT=50:00 MAX_NUM_TOKENS=8128 MAX_BATCH_SIZE=128 USE_CASES=summarization:8000/512",
    "SBATCH_TIMELIMIT=50:00 MAX_NUM_TOKENS=2048 MAX_BATCH_SIZE=128 NUM_REQUESTS=1000 USE_CASES=generation:512/8000",
    "STREAMING=false USE_CASES=reasoning:1000/1000",
    "USE_CASES='reasoning:1000/1000 chat:128/128'",
    "KV_CACHE_FRACTION=0.8 USE_CASES=reasoning:1000/1000",
];
const LLMB_RUN: &str = "llmb-run single -w inference_llama3.3 -s 70b --dtype nvfp4 --scale 1";

#[test]
fn every_line_of_the_page_keeps_its_variables_and_plans() {
    let world = world();
    for variables in LINES {
        let ended = world.good(&["import", "--", &format!("GPU_TYPE=gb200 {variables} {LLMB_RUN}")]);
        assert!(!ended.stdout.contains("Not translated"), "{}", ended.stdout);
        let command = format!("{variables} regatta run llama3.3-70b dtype=nvfp4 system=gb200-x1");
        assert_eq!(ended.stdout.lines().last(), Some(&*command));
        let words = shlex::split(&command).expect("words");
        let mut planning = World::new();
        for (name, value) in
            words.iter().filter_map(|word| word.split_once('=')).filter(|(name, _)| *name == name.to_uppercase())
        {
            planning.env(name, value);
        }
        planning.good(&["plan", "llama3.3-70b", "dtype=nvfp4", "system=gb200-x1"]);
    }
}

#[test]
fn the_whole_page_is_a_script_whose_commands_run_with_stand_ins() {
    let world = world();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/pasted/llmb.sh");
    let printed = world.good(&["import", &page.display().to_string()]).stdout;
    let commands: Vec<&str> = printed.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(commands.len(), 7, "{printed}");
    let python = format!("python={}", world.path("bin/python").display());
    for command in commands {
        let words = shlex::split(command).expect("a line of a shell");
        let begin = words.iter().position(|word| word == "regatta").expect("a command of Regatta");
        assert_eq!(words[begin + 1..begin + 3], ["run", "llama3.3-70b"]);
        // The same recipe with a checkpoint and sources that are here.
        let mut given = vec!["run", "recipe", "weights=model", &python, "--gpus", "4", "-j", "1"];
        given.extend(words[begin + 3..].iter().map(String::as_str));
        let mut process = world.command(&given);
        process.envs(words[..begin].iter().filter_map(|word| word.split_once('=')));
        let output = process.output().expect("it starts");
        assert!(output.status.success(), "{command}\n{}", String::from_utf8_lossy(&output.stderr));
    }
    let record = record(&world);
    for part in ["--num_requests 1000\n", "--num_requests 4000\n", "--output-mean 8000\n", "--input-mean 8000\n"] {
        assert!(record.contains(part), "{part} is not in\n{record}");
    }
}

#[test]
fn a_scale_is_a_system_of_the_cluster_and_slurms_options_are_those_of_a_job() {
    let world = world();
    let import = |line: &str| world.good(&["import", "--", line]).stdout;
    let first = import(LLMB_RUN);
    let defaults = "version=v25.07 max_batch_size=640 max_num_tokens=2048 num_requests=4000 concurrency=-1";
    assert!(first.ends_with(&format!("regatta run llama3.3-70b dtype=nvfp4 {defaults} system=gb200-x1\n")), "{first}");
    let line = import("llmb-run submit -w inference_llama3.3 -s 70b --dtype nvfp4 --scale 1");
    assert!(line.contains("#   --scale 1: unknown GPU type: set GPU_TYPE, or add one of these"), "{line}");
    assert!(line.contains("without it the default runs, `sim-gb200-x1`"), "{line}");
    let fp8 = import("llmb-run submit -w inference_llama3.3 -s 70b --dtype fp8 --scale 2");
    assert!(fp8.ends_with("regatta run llama3.3-70b dtype=fp8 system=h100-x2\n"), "{fp8}");
    let absent = import("GPU_TYPE=B200 llmb-run submit -w inference_llama3.3 -s 70b --scale 3");
    assert!(absent.contains("has no system `b200-x3`; it has b200-x1, gb200-x1, gb200-x4, h100-x2"), "{absent}");
    let job = import(
        "SBATCH_ACCOUNT=a SBATCH_MEM=0 ADDITIONAL_SLURM_PARAMS='comment=x;mem=0' GPU_TYPE=b200 llmb-run submit -w \
         inference_llama3.3 \
         -s 70b --scale 1 --nodelist n1 --nice 3",
    );
    assert!(job.contains("#   SBATCH_MEM: `sbatch` reads it, with `--on slurm`"), "{job}");
    let command = "SBATCH_MEM=0 regatta run llama3.3-70b system=b200-x1 --on slurm --slurm nodelist=n1 --slurm \
                   args=--nice=3 \
                   --slurm account=a --slurm args=--comment=x --slurm args=--mem=0";
    assert_eq!(job.lines().last(), Some(command));
    world.file("cluster_config.yaml", "gpu_type: b200\n");
    let of_file = import(LLMB_RUN);
    assert!(of_file.contains("`system=b200-x1`: the GPU type is from cluster_config.yaml"), "{of_file}");
    // The first release has no such system.
    assert!(of_file.ends_with("regatta run llama3.3-70b dtype=nvfp4 system=b200-x1\n"), "{of_file}");
    let bulk = import("GPU_TYPE=gb200 llmb-run bulk list.txt");
    assert!(bulk.ends_with("regatta bulk list.txt --gpu-type=gb200\n"), "{bulk}");
}

#[test]
fn a_recipe_that_is_not_shipped_is_no_other_benchmark_of_its_model() {
    let world = world();
    for workload in ["inference_deepseek-r1", "inference_deepseek-r1 -s 671b", "inference_gpt-oss -s 120b"] {
        let line =
            format!("USE_CASES=chat:128/128 CONCURRENCY=8 llmb-run submit -w {workload} --dtype nvfp4 --scale 8");
        let ended = world.regatta(&["import", "--", &line]);
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{line}");
        ended.shows("this recipe is not shipped").shows("`--dtype nvfp4`, `USE_CASES=chat:128/128`, `CONCURRENCY=8`");
    }
}

#[test]
fn what_the_recipe_cannot_do_is_said_before_anything_starts() {
    let world = world();
    let refused = |more: &[&str], text: &str| {
        let ended = run(&world, more);
        assert_eq!(ended.code, 2, "{more:?}\n{}", ended.stdout);
        ended.shows(text);
    };
    refused(&["system=h100-x2", "dtype=nvfp4"], "`nvfp4` is not one of the choices");
    refused(&["system=gb200-x1", "mode=min_latency"], "`min_latency` is not one of the choices");
    refused(&["system=h100-x2", "version=v25.07"], "`v25.07` is not one of the choices");
    refused(&["system=gb200-x1", "use_cases=reasoning"], "for example `reasoning:1000/1000`");
    refused(&["system=gb200-x1", "ep=2"], "at most 1");
    refused(&["system=gb200-x1", "time_limit=1h"], "for example `50:00`");
    assert!(!world.path("record").exists());
}

#[test]
fn a_benchmark_without_its_numbers_has_failed_and_other_counts_are_reported() {
    let mut world = world();
    world.env("SAY_N", "17");
    let ended = run(&world, &["system=b200-x1", "use_cases=chat:128/128"]);
    ended.shows("4096 requests were requested; trtllm-bench reports 17");
    world.file("bin/trtllm-llmapi-launch", "#!/bin/sh\necho nothing to say\n");
    let ended = run(&world, &["system=b200-x1", "use_cases=chat:128/128", "max_batch_size=1"]);
    assert_eq!(ended.code, 1);
    ended.shows("no PERFORMANCE OVERVIEW").shows("nothing to say");
    world.file(
        "bin/trtllm-llmapi-launch",
        "#!/bin/sh\necho 'torch.OutOfMemoryError: CUDA out of memory. Tried'; exit 1\n",
    );
    let ended = run(&world, &["system=b200-x1", "use_cases=chat:128/128", "max_batch_size=2"]);
    assert_eq!(ended.code, 1);
    ended.shows("exit code 1").shows("out of");
}

#[test]
fn the_report_of_trtllm_bench_is_taken_before_what_it_printed() {
    let world = World::with(
        "stages:\n  b:\n    gpus: 1\n    trtllm_bench: { model: m, dataset: d.txt, launcher: [], streaming: true }\n",
    );
    let mut world = world;
    world.file("d.txt", "{}\n").file(
        "bin/trtllm-bench",
        r#"#!/bin/sh
while [ "$1" != --report_json ]; do shift; done
echo '{"engine": {"model": "m", "version": "1.1.0"}, "request_info": {"num_requests": 3, "avg_input_length": 5.0, "avg_output_length": 7.0},
"world_info": {"tp_size": 1}, "performance": {"total_latency_ms": 1500.0, "request_throughput_req_s": 2.0, "system_output_throughput_tok_s": 14.0, "output_throughput_per_gpu_tok_s": 14.0,
"request_latency_percentiles_ms": {"average": 10.0, "p50": 9.0, "p99": 12.0}},
"streaming_metrics": {"ttft_percentiles": {"average": 1.5, "p50": 1.0, "p90": 2.0, "p95": 2.5, "p99": 3.0, "minimum": 0.5, "maximum": 4.0}, "tpot_percentiles": {"average": 0.5}}}' >"$2"
"#,
    );
    fs::set_permissions(world.path("bin/trtllm-bench"), fs::Permissions::from_mode(0o755)).expect("a program");
    let path = format!("{}:{}", world.path("bin").display(), std::env::var("PATH").expect("PATH"));
    world.env("PATH", path);
    world
        .good(&["run", "m", "--gpus", "1"])
        .shows("14.0 tok/s  2.00 req/s  TTFT mean 1.50 ms  TPOT mean 0.50 ms")
        .shows("n=3, as trtllm-bench reports");
    let result: serde_json::Value = serde_json::from_str(&world.read("latest/b/result.json")).expect("JSON");
    assert_eq!(result["latency"]["ttft"]["p95"], 2.5);
    assert_eq!(result["latency"]["ttft"]["percentile_rule"], "nearest rank, sorted element floor(N·p)");
    assert_eq!(result["latency"]["e2e"]["p99"], 12.0);
    assert_eq!(result["rates"]["output_tokens_per_gpu"], 14.0);
    assert_eq!(result["tokens"]["output"], 21.0);
    // The same file, imported by hand, says the same.
    world.good(&["import", "latest/b/trtllm-bench.json", "--out", "again"]);
    let again: serde_json::Value = serde_json::from_str(&world.read("again/result.json")).expect("JSON");
    assert_eq!(again["latency"], result["latency"]);
}

#[test]
fn an_option_that_would_mean_nothing_is_refused() {
    let world = World::with(
        "stages:\n  a:\n    gpus: 1\n    trtllm_bench: { model: m, dataset: d, tp: 2, engine_dir: e, concurrency: 0, \
         flags: { streaming: true } }\n  b: { trtllm_bench: { model: m, dataset: d, backend: tensorrt } }\n",
    );
    let ended = world.regatta(&["check", "m"]);
    assert_eq!(ended.code, 2);
    for text in [
        "gpus` are too few",
        "engine_dir` would have no effect",
        "concurrency` cannot be 0",
        "has a key of its own",
        "needs an `engine_dir`",
    ] {
        ended.shows(text);
    }
}

/// The twin on the simulator: the recipe's limits with our own harness.
#[test]
fn the_twin_runs_everywhere() {
    let world = world();
    let words =
        ["run", "llama3.3-70b", "system=sim-h100-x2", "use_cases=mine:64/16", "num_requests=8", "concurrency=4"];
    let ended = world.good(&words);
    ended.shows("twin/Llama3.3-70B_TP2_EP1_PP1_CON4_mine").shows("8 requests; latency from when the user became idle");
    let at_once = ["run", "llama3.3-70b", "version=v25.07", "use_cases=mine:64/16", "num_requests=8"];
    world.good(&at_once).shows("twin/Llama3.3-70B_TP1_EP1_PP1_CON-1_mine").shows("req/s");
}

/// `srun` of a cluster with pyxis: it lists its options, and runs the command behind them.
const SRUN: &str = r#"#!/bin/sh
if [ "$1" = --help ]; then echo '      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH'; exit; fi
echo "srun $*" >> "$RECORD"
while [ "${1#--}" != "$1" ]; do shift; done
exec "$@"
"#;

#[test]
fn inside_a_job_of_a_cluster_with_pyxis_the_image_is_a_step_of_the_job() {
    let mut world = world();
    world.file("bin/srun", SRUN);
    fs::set_permissions(world.path("bin/srun"), fs::Permissions::from_mode(0o755)).expect("a program");
    // The nodes of such a cluster have neither docker nor podman.
    let path = std::env::var("PATH").expect("PATH");
    for folder in path.split(':').filter_map(|folder| fs::read_dir(folder).ok()) {
        for entry in folder.flatten() {
            let name = entry.file_name();
            let link = world.path("bin").join(&name);
            if !["docker", "podman"].iter().any(|other| name == *other) && !link.exists() {
                std::os::unix::fs::symlink(entry.path(), link).expect("a link");
            }
        }
    }
    let bin = world.path("bin").display().to_string();
    world.env("PATH", bin).env("SLURM_JOB_ID", "7");
    let image = "image=nvcr.io/nvidia/tensorrt-llm/release:1.0.0rc1";
    let ended = run(&world, &["system=gb200-x1", "use_cases=reasoning:1000/1000", image]);
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    let record = record(&world);
    assert!(record.contains(" --container-image=nvcr.io#nvidia/tensorrt-llm/release:1.0.0rc1 "), "{record}");
    assert!(record.contains(" trtllm-llmapi-launch trtllm-bench "), "{record}");
    ended.shows("through pyxis");
}
