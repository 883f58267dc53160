//! Tests of `engine`.
use pretty_assertions::assert_eq;

use super::*;

const TEXT: &str = r#"{"version":"0.19.0",
        "pretrained_config":{"architecture":"LlamaForCausalLM","dtype":"float16","num_hidden_layers":32,
        "hidden_size":4096,"num_attention_heads":32,"hidden_act":"silu",
        "mapping":{"world_size":2,"tp_size":2,"pp_size":1,"moe_tp_size":2},
        "quantization":{"quant_algo":"FP8","group_size":128}},
        "build_config":{"max_input_len":2048,"max_seq_len":3072,"max_batch_size":64,"max_num_tokens":8192,
        "strongly_typed":true,"plugin_config":{"tokens_per_block":64,"gemm_plugin":"fp8"}}}"#;

#[test]
fn unknown_keys_are_kept() {
    let config = EngineConfig::parse(TEXT, Path::new("config.json")).unwrap();
    assert_eq!(config.tokens_per_block(), 64);
    assert_eq!(config.pretrained_config.rest["hidden_act"], "silu");
    let again: Value = serde_json::from_str(&config.to_text()).unwrap();
    assert_eq!(again["build_config"]["plugin_config"]["gemm_plugin"], "fp8");
    assert_eq!(again["pretrained_config"]["mapping"]["moe_tp_size"], 2);
    assert_eq!(EngineConfig::parse(&config.to_text(), Path::new("config.json")).unwrap(), config);
}

#[test]
fn a_missing_key_is_named_with_its_path() {
    let text = TEXT.replace("\"max_batch_size\":64,", "");
    let error = EngineConfig::parse(&text, Path::new("config.json")).unwrap_err().to_string();
    assert!(error.contains("build_config") && error.contains("max_batch_size"), "{error}");
}

#[test]
fn an_engine_of_the_old_layout_is_refused_by_name() {
    let error = EngineConfig::parse(r#"{"builder_config":{}}"#, Path::new("config.json")).unwrap_err();
    assert!(matches!(error, EngineError::Legacy { .. }));
}

#[test]
fn a_world_size_that_is_not_tp_times_pp_is_refused() {
    let text = TEXT.replace("\"world_size\":2", "\"world_size\":3");
    let error = EngineConfig::parse(&text, Path::new("config.json")).unwrap_err().to_string();
    assert!(error.ends_with("world_size 3 is not tp_size 2 × pp_size 1"), "{error}");
}

#[test]
fn a_config_without_an_end_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.json");
    std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
    assert!(matches!(EngineConfig::load(folder.path()), Err(EngineError::Read { .. })));
    std::fs::remove_file(&path).unwrap();
    // As long as a file system allows, and empty.
    std::fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    assert!(matches!(EngineConfig::load(folder.path()), Err(EngineError::Read { .. })));
}

#[test]
fn every_rank_must_be_there() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("config.json"), TEXT).unwrap();
    std::fs::write(folder.path().join("rank0.engine"), "").unwrap();
    let error = EngineConfig::load(folder.path()).unwrap_err().to_string();
    assert!(error.contains("rank1.engine"), "{error}");
}
