//! `repository:` in a manifest.

use std::fs;

use serde_json::Value;

use crate::world::World;

const ENGINE: &str = "\
stages:
  engine:
    engine:
      backend: simulator
      model: { name: m, architecture: LlamaForCausalLM, parameters: 1000000, num_hidden_layers: 2, hidden_size: 64, intermediate_size: 128,
               num_attention_heads: 4, num_key_value_heads: 4, vocab_size: 32000, max_position_embeddings: 2048 }
      system: { name: cpu, gpus: 1, memory_gb: 8, bandwidth_gbs: 100, tflops_16bit: 1 }
      precision: fp16
      build_flags: { max_batch_size: 64, max_num_tokens: 8192, max_input_len: 1024, max_seq_len: 2048 }
";

#[test]
fn a_manifest_asks_for_the_harness_layout_and_the_check_finds_nothing_wrong() {
    let world = World::with(&format!(
        "{ENGINE}  repository:\n    inputs: {{ files: models }}\n    repository:\n      engine: '{{{{ stages.engine.out }}}}'\n      \
         layout: harness\n      triton_num_servers: 2\n      triton_num_models_per_server: 2\n      streaming: true\n      \
         files: '{{{{ inputs.files }}}}'\n      runtime_flags: {{ batch_scheduler_policy: max_util }}\n      \
         parameters: {{ triton_backend: python }}\n"
    ));
    world
        .file("models/tensorrt_llm/1/model.py", "# a program\n")
        .file("models/tensorrt_llm/config.pbtxt", "not copied");
    world.good(&["run", "m"]);
    let out = "latest/repository";
    assert_eq!(world.read(format!("{out}/triton_model_repo_1/model-3/1/model.py")), "# a program\n");
    let text = world.read(format!("{out}/triton_model_repo_1/model-2/config.pbtxt"));
    assert!(text.contains("name: \"model-2\"") && text.contains("\"max_utilization\""), "{text}");
    world.good(&["repository", "check", out]).shows("4 models, 0 errors, 0 warnings");
}

/// With an engine, and a key of it, that differ in these values.
fn manifest(tokens: u32, bump: u32) -> String {
    let engine = ENGINE.replace("8192", &tokens.to_string());
    format!(
        "{engine}    env: {{ BUMP: '{bump}' }}\n  repository:\n    repository: {{ engine: '{{{{ stages.engine.out }}}}' }}\n"
    )
}

#[test]
fn a_repository_is_made_again_where_the_engine_that_it_names_is_gone() {
    let world = World::new();
    for (tokens, bump) in [(8192, 1), (4096, 1), (8192, 2)] {
        world.manifest("m", &manifest(tokens, bump)).good(&["run", "m"]);
    }
    assert_eq!(world.regatta(&["gc", "--keep", "1", "--yes"]).code, 0);
    world.good(&["plan", "m"]).shows("which is gone");
    assert_eq!(world.good(&["run", "m"]).ran(), ["repository"]);
    let config = world.read("latest/repository/triton_model_repo_0/tensorrt_llm/config.pbtxt");
    let engine = fs::canonicalize(world.path("latest/engine")).unwrap();
    assert!(config.contains(engine.to_str().unwrap()), "{config}");
    assert!(world.good(&["run", "m"]).ran().is_empty());
}

/// Its configs name the engine, and what reads them has no other key of that.
#[test]
fn what_reads_a_repository_runs_again_for_another_engine() {
    let world = World::new();
    for tokens in [8192, 4096] {
        let reader = "  reader: { shell: \"ls '{{ stages.repository.out }}' > list\" }\n";
        world.manifest("m", &(manifest(tokens, 1) + reader));
        assert_eq!(world.good(&["run", "m"]).ran(), ["engine", "reader", "repository"], "{tokens}");
    }
}

#[test]
fn a_repository_is_locked_as_the_same_in_each_folder() {
    let (here, there) = (World::with(&manifest(8192, 1)), World::with(&manifest(8192, 1)));
    let lock = "regatta.lock";
    for world in [&here, &there] {
        world.good(&["run", "m"]);
        assert!(
            serde_yaml::from_str::<Value>(&world.read(lock)).unwrap()["runs"]["m"]["stages"]["repository"]["resolved"]
                ["output"]
                .is_string()
        );
    }
    assert_eq!(there.read(lock), here.read(lock));
    fs::remove_dir_all(here.path(".regatta")).unwrap();
    here.good(&["run", "m", "--locked=exact"]);
}

#[test]
fn what_does_not_belong_to_a_layout_is_refused_before_anything_runs() {
    let world = World::with(&format!(
        "{ENGINE}  repository:\n    repository: {{ engine: '{{{{ stages.engine.out }}}}', triton_num_models_per_server: 2 }}\n"
    ));
    let ended = world.regatta(&["check", "m"]);
    assert_eq!(ended.code, 2);
    ended.shows("needs the harness layout");
}
