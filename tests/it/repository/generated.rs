//! Every repository that a manifest can ask for, before the real server.

use std::fs;
use std::path::Path;

use indexmap::IndexMap;
use regatta::triton::repository::{RepositoryLayout, check, write};
use regatta::triton::{Repository, TritonClient};
use serde_json::json;

use crate::tritonserver::{RealTriton, models};

fn engine(folder: &Path) {
    fs::create_dir_all(folder).expect("a folder");
    let config = json!({"version": "0.19.0",
        "pretrained_config": {"architecture": "LlamaForCausalLM", "dtype": "float16", "num_hidden_layers": 2, "hidden_size": 64,
            "num_attention_heads": 4, "mapping": {"world_size": 2, "tp_size": 2, "pp_size": 1, "moe_tp_size": 1, "moe_ep_size": 2}},
        "build_config": {"max_input_len": 1024, "max_seq_len": 2048, "max_batch_size": 64, "max_num_tokens": 4096,
            "plugin_config": {"tokens_per_block": 32, "use_paged_context_fmha": true}}});
    fs::write(folder.join("config.json"), config.to_string()).expect("a config");
    for rank in 0..2 {
        fs::write(folder.join(format!("rank{rank}.engine")), "").expect("a rank");
    }
}

/// Four GPUs, engines of two ranks, a Python model in the place of each engine.
fn spec(folder: &Path, layout: RepositoryLayout, streaming: bool) -> Repository {
    let flags = json!({"batch_scheduler_policy": "max_util", "kvcache_free_gpu_mem_frac": 0.95, "enable_chunked_context": true,
        "max_num_tokens": 2048, "max_batch_size": 32});
    Repository {
        engine: folder.join("engine").display().to_string(),
        triton_num_servers: 1,
        gpus: Some(4),
        streaming,
        tokenizer: Some(folder.display().to_string()),
        layout,
        triton_num_models_per_server: None,
        files: Some(models().display().to_string()),
        models: ["ensemble", "preprocessing", "tensorrt_llm", "postprocessing", "tensorrt_llm_bls"]
            .map(str::to_owned)
            .to_vec(),
        runtime_flags: flags.as_object().expect("flags").iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
        parameters: IndexMap::from([("triton_backend".to_owned(), json!("python"))]),
    }
}

/// The models that a real server has loaded, all of them.
async fn served(repository: &Path) -> Vec<String> {
    let found = check(repository, None, Some(0)).expect("a verdict").found;
    assert_eq!(found.errors(), 0, "{}", found.render(false));
    let server = RealTriton::ready(repository, &[]).await;
    let client = TritonClient::connect(&server.endpoint).await.expect("a client");
    let index = client.repository_index(false).await.expect("an index");
    assert!(index.iter().all(|model| model.state == "READY"), "{index:?}");
    index.into_iter().map(|model| model.name).collect()
}

#[tokio::test]
#[ignore = "needs a real tritonserver"]
async fn the_real_server_loads_the_five_models_with_and_without_streaming() {
    for streaming in [true, false] {
        let folder = tempfile::tempdir().expect("a folder");
        engine(&folder.path().join("engine"));
        let written = write(&spec(folder.path(), RepositoryLayout::Five, streaming), folder.path()).expect("written");
        let names = served(&written.repositories[0]).await;
        assert_eq!(names, ["ensemble", "postprocessing", "preprocessing", "tensorrt_llm", "tensorrt_llm_bls"]);
    }
}

#[tokio::test]
#[ignore = "needs a real tritonserver"]
async fn the_real_server_loads_the_harness_layout_in_each_server() {
    for (servers, streaming, expected) in
        [(1, false, vec![vec!["model-0", "model-1"]]), (2, true, vec![vec!["model-0"], vec!["model-1"]])]
    {
        let folder = tempfile::tempdir().expect("a folder");
        engine(&folder.path().join("engine"));
        let spec = Repository {
            triton_num_servers: servers,
            triton_num_models_per_server: Some(2 / servers),
            ..spec(folder.path(), RepositoryLayout::Harness, streaming)
        };
        let written = write(&spec, folder.path()).expect("written");
        assert_eq!(written.repositories.len(), expected.len());
        for (repository, expected) in written.repositories.iter().zip(expected) {
            assert_eq!(served(repository).await, expected);
        }
    }
}
