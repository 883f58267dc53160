//! `regatta repository check`: what a person reads.

use proptest::prelude::*;
use regatta::triton::repository::check;
use serde_json::json;

use super::{golden, program, same_as_golden};
use crate::world::World;

/// Two models with a handful of errors, and an engine that does not fit.
fn wrong() -> World {
    let world = World::new();
    world.file(
        "repo/tensorrt_llm/config.pbtxt",
        "name: \"tensorrt_llm\"\nbackend: \"tensorrtllm\"\nmax_batch_size: 128\nmax_batch_sise: 64\n\
         input [\n  { name: \"input_ids\" data_type: INT32 dims: [ -1 ] }\n]\n\
         output [ { name: \"output_ids\" data_type: TYPE_INT32 dims: [ -2 ] } ]\n\
         instance_group [ { count: 1 kind: KIND_GPU } ]\n\
         parameters { key: \"gpt_model_type\" value { string_value: \"${batching_strategy}\" } }\n\
         parameters { key: \"gpt_model_path\" value { string_value: \"/engines/not/here\" } }\n\
         parameters { key: \"batch_scheduler_policy\" value { string_value: \"MAX_UTILIZATION\" } }\n\
         parameters { key: \"kv_cache_free_gpu_mem_fracton\" value { string_value: \"0.9\" } }\n\
         parameters { key: \"gpu_device_ids\" value { string_value: \"0,1\" } }\n\
         parameters { key: \"enable_chunked_context\" value { string_value: \"true\" } }\n\
         parameters { key: \"max_tokens_in_paged_kv_cache\" value { string_value: \"512\" } }\n\
         parameters { key: \"guided_decoding_backend\" value { string_value: \"${guided_decoding_backend}\" } }\n",
    );
    world.file("repo/tensorrt_llm/1/.keep", "");
    world.file(
        "repo/preprocessing/config.pbtxt",
        "name: \"preprocesing\"\nbackend: \"python\"\ninput [ { name: \"QUERY\"\n",
    );
    world.file("repo/notes/readme.txt", "");
    let engine = json!({"version": "0.19.0",
        "pretrained_config": {"architecture": "LlamaForCausalLM", "dtype": "float16", "num_hidden_layers": 2, "hidden_size": 64,
            "num_attention_heads": 4, "mapping": {"world_size": 1, "tp_size": 1, "pp_size": 1}},
        "build_config": {"max_input_len": 1024, "max_seq_len": 2048, "max_batch_size": 64, "max_num_tokens": 4096,
            "plugin_config": {"tokens_per_block": 32, "use_paged_context_fmha": false}}});
    world.file("engine/config.json", &engine.to_string()).file("engine/rank0.engine", "");
    world
}

#[test]
fn every_error_is_reported_with_its_place_and_what_to_try() {
    let world = wrong();
    let ended = world.regatta(&["repository", "check", "repo", "--engine", "engine"]);
    assert_eq!(ended.code, 2);
    same_as_golden("check.txt", &format!("{}{}", ended.stderr, ended.stdout));
}

#[test]
fn programs_get_the_same_as_json() {
    let world = wrong();
    let ended = world.regatta(&["repository", "check", "repo", "--engine", "engine", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!((ended.code, &report["models"]), (2, &json!(3)));
    let problems = report["problems"].as_array().expect("problems");
    let typo = problems.iter().find(|one| one["message"].as_str().is_some_and(|m| m.contains("max_batch_sise")));
    assert_eq!(typo.map(|one| (&one["line"], &one["column"])), Some((&json!(4), &json!(1))));
}

#[test]
fn a_good_repository_is_good_and_a_folder_of_repositories_is_checked_whole() {
    let world = World::new();
    for server in 0..2 {
        for (name, text) in [("1/model.py", program()), ("config.pbtxt", read("base/worker/config.pbtxt"))] {
            world.file(&format!("all/triton_model_repo_{server}/worker/{name}"), &text);
        }
    }
    let ended = world.good(&["repository", "check", "all"]);
    assert_eq!(ended.stdout, "all: 2 models, 0 errors, 0 warnings\n");
    world.file("all/triton_model_repo_1/worker/config.pbtxt", "name: \"other\"");
    assert_eq!(world.regatta(&["repository", "check", "all"]).code, 2);
}

/// `visual_model_path` of v0.12 to v0.18, `enable_trt_overlap` and `worker_path` of v0.9.
#[test]
fn parameters_of_older_templates_are_known() {
    let world = World::new();
    let parameters = |all: &[(&str, &str)]| {
        let one = |(key, value): &(&str, &str)| {
            format!("parameters {{ key: \"{key}\" value {{ string_value: \"{value}\" }} }}\n")
        };
        all.iter().map(one).collect::<String>()
    };
    let preprocessing = parameters(&[("tokenizer_dir", "/llama"), ("visual_model_path", "/vision")]);
    let llm = parameters(&[
        ("gpt_model_type", "inflight_fused_batching"),
        ("gpt_model_path", "/engine"),
        ("enable_trt_overlap", "False"),
        ("worker_path", "/opt/tritonserver/backends/tensorrtllm/triton_tensorrtllm_worker"),
    ]);
    world.file(
        "repo/preprocessing/config.pbtxt",
        &format!("name: \"preprocessing\"\nbackend: \"python\"\ninput [ {{ name: \"QUERY\" data_type: TYPE_STRING dims: [ 1 ] }} ]\n{preprocessing}"),
    );
    world.file("repo/tensorrt_llm/config.pbtxt", &format!("name: \"tensorrt_llm\"\nbackend: \"tensorrtllm\"\n{llm}"));
    let ended = world.regatta(&["repository", "check", "repo"]);
    let printed = format!("{}{}", ended.stderr, ended.stdout);
    assert!(printed.contains("/engine") && !printed.contains("is not a parameter"), "{printed}");
}

#[test]
fn the_parameters_of_the_templates_are_listed() {
    let world = World::new();
    same_as_golden("parameters.txt", &world.good(&["repository", "parameters"]).stdout);
    let listed: serde_json::Value =
        serde_json::from_str(&world.good(&["repository", "parameters", "--json"]).stdout).expect("JSON");
    assert!(listed.as_array().expect("a list").iter().all(|one| one["about"] != ""));
}

fn read(name: &str) -> String {
    std::fs::read_to_string(golden(name)).expect("a golden file")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_bytes_make_the_check_crash(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0usize..900, cut in 0usize..40) {
        for of in ["worker", "chain"] {
            let mut text = read(&format!("base/{of}/config.pbtxt")).into_bytes();
            let from = at.min(text.len());
            let to = (from + cut).min(text.len());
            text.splice(from..to, bytes.iter().copied());
            for text in [&text, &bytes] {
                let folder = tempfile::tempdir().expect("a folder");
                std::fs::create_dir_all(folder.path().join(of).join("1")).expect("a folder");
                std::fs::write(folder.path().join(of).join("config.pbtxt"), text).expect("a config");
                let _ = check(folder.path(), None, None).expect("a verdict").found.render(false);
            }
        }
    }

    #[test]
    fn no_word_moved_makes_the_check_crash(from in 0usize..120, to in 0usize..120, of in prop::sample::select(vec!["worker", "chain"])) {
        let text = read(&format!("base/{of}/config.pbtxt"));
        let mut words: Vec<&str> = text.split_inclusive(' ').collect();
        let word = words.remove(from % words.len());
        words.insert(to % (words.len() + 1), word);
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(folder.path().join(of).join("1")).expect("a folder");
        std::fs::write(folder.path().join(of).join("config.pbtxt"), words.concat()).expect("a config");
        let _ = check(folder.path(), None, None).expect("a verdict").found.render(false);
    }
}

#[test]
fn nvidias_own_repository_for_four_gpus_has_no_error() {
    let world = World::new();
    let engine = json!({"version": "0.19.0",
        "pretrained_config": {"architecture": "GPTForCausalLM", "dtype": "float16", "num_hidden_layers": 24, "hidden_size": 1024,
            "num_attention_heads": 16, "mapping": {"world_size": 4, "tp_size": 4, "pp_size": 1}},
        "build_config": {"max_input_len": 1024, "max_seq_len": 1024, "max_batch_size": 2048, "max_num_tokens": 8192}});
    world.file("engine/config.json", &engine.to_string());
    for rank in 0..4 {
        world.file(&format!("engine/rank{rank}.engine"), "");
    }
    let engine = world.path("engine").display().to_string();
    let parameter = |key: &str, value: &str| {
        format!("parameters: {{\n  key: \"{key}\"\n  value: {{\n    string_value: \"{value}\"\n  }}\n}}\n")
    };
    // What fill_template.py leaves of the templates with the values of the page: everything else keeps its placeholder.
    let preprocessing = [
        "name: \"preprocessing\"\nbackend: \"python\"\nmax_batch_size: 4\n\
         input [ { name: \"QUERY\" data_type: TYPE_STRING dims: [ 1 ] } ]\n\
         output [ { name: \"INPUT_ID\" data_type: TYPE_INT32 dims: [ -1 ] } ]\n",
        &parameter("tokenizer_dir", &world.path("").display().to_string()),
        &parameter("add_special_tokens", "${add_special_tokens}"),
        &parameter("multimodal_model_path", "${multimodal_model_path}"),
        &parameter("gpt_model_path", "${engine_dir}"),
        &parameter("max_num_images", "${max_num_images}"),
        "instance_group [ { count: 1 kind: KIND_CPU } ]\n",
    ]
    .concat();
    let llm = [
        "name: \"tensorrt_llm\"\nbackend: \"tensorrtllm\"\nmax_batch_size: 4\n\
         model_transaction_policy { decoupled: false }\n\
         dynamic_batching { preferred_batch_size: [ 4 ] max_queue_delay_microseconds: 0 default_queue_policy: { max_queue_size: 0 } }\n\
         input [ { name: \"input_ids\" data_type: TYPE_INT32 dims: [ -1 ] allow_ragged_batch: true } ]\n\
         output [ { name: \"output_ids\" data_type: TYPE_INT32 dims: [ -1, -1 ] } ]\n\
         instance_group [ { count: 1 kind: KIND_CPU } ]\n",
        &parameter("gpt_model_type", "inflight_fused_batching"),
        &parameter("gpt_model_path", &engine),
        &parameter("max_tokens_in_paged_kv_cache", "${max_tokens_in_paged_kv_cache}"),
        &parameter("max_beam_width", "${max_beam_width}"),
        &parameter("gpu_device_ids", "${gpu_device_ids}"),
        &parameter("participant_ids", "${participant_ids}"),
        &parameter("enable_chunked_context", "${enable_chunked_context}"),
    ]
    .concat();
    world.file("repo/preprocessing/config.pbtxt", &preprocessing).file("repo/preprocessing/1/model.py", "");
    world.file("repo/tensorrt_llm/config.pbtxt", &llm).file("repo/tensorrt_llm/1/.keep", "");
    let ended = world.good(&["repository", "check", "repo"]);
    ended.shows("`${engine_dir}` was never filled: only a multimodal model reads it");
    // With a vision model the tokenizer needs the engine.
    let path = "repo/preprocessing/config.pbtxt";
    world.file(path, &preprocessing.replace("${multimodal_model_path}", "/engines/vision"));
    let ended = world.regatta(&["repository", "check", "repo"]);
    assert_eq!(ended.code, 2);
    ended.shows("`${engine_dir}` was never filled: it is treated as a folder of that name");
}
