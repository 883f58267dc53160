//! `regatta what-if` with the settings of a simulated vLLM.

use std::process::Command;

use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::world::World;

fn what_if(arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_regatta"));
    let output = command.current_dir(folder.path()).arg("what-if").args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn points(arguments: &[&str], of: &str) -> Vec<Value> {
    let found: Value = serde_json::from_str(&what_if(&[arguments, &["--json"]].concat())).unwrap();
    found[of].as_array().unwrap_or_else(|| panic!("no {of} in {found}")).clone()
}

const VLLM: [&str; 3] = ["vllm", "system=sim-h100-x1", "scenarios=server"];

#[test]
fn steps_above_the_largest_cuda_graph_take_longer() {
    let tpot = |settings: &[&str]| {
        let point = points(&[&VLLM, settings, &["--rate", "20"]].concat(), "points").remove(0);
        point["tpot_ms"]["p50"].as_f64().unwrap_or_else(|| panic!("{point}"))
    };
    // About 25 requests generate at a time; the layers' kernels are launched one by one in a step of more tokens than that.
    let (usual, small) = (tpot(&[]), tpot(&["max_cudagraph_capture_size=8"]));
    assert!(small > 1.2 * usual, "{small} ms, {usual} ms");
    assert_eq!(tpot(&["max_cudagraph_capture_size=512"]).to_bits(), usual.to_bits());
    // Without graphs small steps take longer, too.
    assert!(tpot(&["enforce_eager=true"]) >= small);
}

/// Gaps between tokens are not kept in virtual time.
#[test]
fn a_goal_that_cannot_be_judged_is_refused() {
    let words = ["what-if", "vllm", "system=sim-h100-x1", "scenarios=server", "--goal", "itl_p99<1s"];
    let ended = World::new().regatta(&words);
    assert_eq!(ended.code, 2, "{ended:?}");
    ended.shows("--goal: `itl_p99<1s`").shows("limits on ttft, tpot and e2e");
}

/// The system of the first needs an image that its simulation does without.
#[test]
fn the_printed_commands_have_what_the_real_system_needs() {
    for (system, missing) in [("h100-x8", " 'image=…'"), ("h200-x8", "")] {
        let printed =
            what_if(&["llama2-70b", &format!("system=sim-{system}"), "scenarios=offline", "--requests", "20"]);
        assert!(
            printed.contains(&format!("regatta run llama2-70b system={system} scenarios=offline{missing}\n")),
            "{printed}"
        );
    }
}

/// What of the config.json of a model that Hugging Face has decides its shape, the billions of its parameters, and whether it needs
/// four GPUs.
const CONFIGS: [(&str, f64, bool); 10] = [
    (
        r#"{"architectures":["Qwen3ForCausalLM"],"hidden_size":5120,"intermediate_size":25600,"num_hidden_layers":64,"num_attention_heads":64,"num_key_value_heads":8,"head_dim":128,"vocab_size":151936,"max_position_embeddings":40960,"tie_word_embeddings":false}"#,
        32.8,
        false,
    ),
    (
        r#"{"architectures":["Qwen3MoeForCausalLM"],"hidden_size":2048,"intermediate_size":6144,"moe_intermediate_size":768,"num_experts":128,"num_experts_per_tok":8,"decoder_sparse_step":1,"num_hidden_layers":48,"num_attention_heads":32,"num_key_value_heads":4,"head_dim":128,"vocab_size":151936,"max_position_embeddings":40960,"tie_word_embeddings":false}"#,
        30.5,
        false,
    ),
    (
        r#"{"architectures":["Gemma3ForConditionalGeneration"],"model_type":"gemma3","text_config":{"model_type":"gemma3_text","hidden_size":5376,"intermediate_size":21504,"num_hidden_layers":62,"num_attention_heads":32,"num_key_value_heads":16,"head_dim":128}}"#,
        27.0,
        false,
    ),
    (
        r#"{"architectures":["Gemma3ForConditionalGeneration"],"model_type":"gemma3","text_config":{"model_type":"gemma3_text","hidden_size":2560,"intermediate_size":10240,"num_hidden_layers":34}}"#,
        3.88,
        false,
    ),
    (
        r#"{"architectures":["Phi3ForCausalLM"],"hidden_size":5120,"intermediate_size":17920,"num_hidden_layers":40,"num_attention_heads":40,"num_key_value_heads":10,"vocab_size":100352,"max_position_embeddings":16384,"tie_word_embeddings":false}"#,
        14.7,
        false,
    ),
    (
        r#"{"architectures":["GptOssForCausalLM"],"hidden_size":2880,"intermediate_size":2880,"num_hidden_layers":36,"num_attention_heads":64,"num_key_value_heads":8,"head_dim":64,"num_local_experts":128,"num_experts_per_tok":4,"vocab_size":201088,"max_position_embeddings":131072,"tie_word_embeddings":false}"#,
        116.8,
        true,
    ),
    (
        r#"{"architectures":["DeepseekV2ForCausalLM"],"hidden_size":2048,"intermediate_size":10944,"moe_intermediate_size":1408,"n_routed_experts":64,"n_shared_experts":2,"num_experts_per_tok":6,"first_k_dense_replace":1,"moe_layer_freq":1,"num_hidden_layers":27,"num_attention_heads":16,"num_key_value_heads":16,"q_lora_rank":null,"kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,"vocab_size":102400,"max_position_embeddings":163840,"tie_word_embeddings":false}"#,
        15.7,
        false,
    ),
    (
        r#"{"architectures":["Mistral3ForConditionalGeneration"],"text_config":{"model_type":"mistral","hidden_size":5120,"intermediate_size":32768,"num_hidden_layers":40,"num_attention_heads":32,"num_key_value_heads":8,"head_dim":128,"vocab_size":131072,"max_position_embeddings":131072}}"#,
        23.6,
        false,
    ),
    (
        r#"{"architectures":["Llama4ForConditionalGeneration"],"text_config":{"model_type":"llama4_text","hidden_size":5120,"intermediate_size":8192,"intermediate_size_mlp":16384,"num_hidden_layers":48,"num_attention_heads":40,"num_key_value_heads":8,"head_dim":128,"num_local_experts":16,"num_experts_per_tok":1,"interleave_moe_layer_step":1,"vocab_size":202048,"max_position_embeddings":10485760,"tie_word_embeddings":false}}"#,
        107.8,
        true,
    ),
    (
        r#"{"architectures":["GPT2LMHeadModel"],"model_type":"gpt2","n_embd":1600,"n_layer":48,"n_head":25,"n_positions":8192,"n_inner":null,"vocab_size":50257,"tie_word_embeddings":true}"#,
        1.56,
        false,
    ),
];

#[test]
fn a_config_of_hugging_face_is_simulated() {
    for (config, billions, is_large) in CONFIGS {
        let config = format!("vars.config={config}");
        let (system, tp) = if is_large { ("system=sim-h200-x4", "tp=4") } else { ("system=sim-h200-x1", "tp=1") };
        let settings = ["vllm", system, tp, "scenarios=server", &config, "--rate", "1", "--requests", "10"];
        let point = points(&settings, "points").remove(0);
        assert!(point["tokens_per_second"].as_f64().is_some_and(|tokens| tokens > 0.0), "{config}: {point}");
        // Weights of 16 bits, and 5 GB of workspace.
        let tiny = points(&[&settings[..], &["vars.gpu.memory_gb=1"]].concat(), "points").remove(0);
        let reason = tiny["error"].as_str().unwrap_or_else(|| panic!("{tiny}"));
        let needed = reason.split("does not fit: ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<f64>().ok());
        let gpus = if is_large { 4.0 } else { 1.0 };
        let parameters = (needed.unwrap_or_else(|| panic!("{reason}")) - 5.0) * gpus / 2.0;
        assert!((parameters / billions - 1.0).abs() < 0.03, "{config}: {parameters}");
    }
}

#[test]
fn a_config_that_cannot_be_simulated_is_refused_in_a_sentence() {
    for (config, sentence) in [
        (r#"{"architectures":["BertForMaskedLM"]}"#, "`BertForMaskedLM` does not make texts token by token"),
        (
            r#"{"architectures":["Qwen3NextForCausalLM"],"linear_num_value_heads":32}"#,
            "layers with a state in place of a KV cache",
        ),
        (r#"{"architectures":["LlamaForCausalLM"]}"#, "config.json has no `hidden_size`"),
        (r#"{"hidden_size":1}"#, "config.json has no `architectures`"),
    ] {
        let config = format!("vars.config={config}");
        let ended = World::new().regatta(&[
            "what-if",
            "vllm",
            "system=sim-h200-x1",
            "scenarios=server",
            &config,
            "--rate",
            "1",
        ]);
        assert_eq!(ended.code, 2, "{ended:?}");
        ended.shows(sentence);
    }
}
