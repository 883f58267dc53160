//! Checkpoints, engines and tokenizers, which come from a hub or from whoever built them.

use std::cell::LazyCell;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use regatta::event::{RunId, Stop, TaskId};
use regatta::manifest::model::{Engine, Weights};
use regatta::mlperf::accuracy::{ScoringMethod, TokenDecoder};
use regatta::plan::{ActionKind, Task};
use regatta::runner::{Lease, ResolvedTask, TaskExecutor as _};
use regatta::sim::{EngineSpec, load_engine, write_engine};
use regatta::stages::{StageExecutor, engine_spec, listed_size};
use regatta::tokenizer::Tokenizer;
use regatta::triton::{EngineConfig, repository};
use serde_json::json;

use super::{block_on, choose, file, folder, parts};

fn weights(given: serde_json::Value) -> Weights {
    serde_json::from_value(given).expect("weights")
}

/// The list of files of a model hub's repository.
pub fn hub_listing(data: &[u8]) {
    let all = weights(json!({ "hf": "o/m" }));
    let some = weights(json!({ "hf": "o/m", "include": ["*.json", "sub/**"], "exclude": ["*.bin"] }));
    if let (Ok(some), Ok(all)) = (listed_size(data, &some), listed_size(data, &all)) {
        assert!(some <= all);
    }
}

/// A folder of weights: a file in safetensors' format, and the index of a checkpoint in several, with a byte between that is 0xff.
pub fn checkpoint(data: &[u8]) {
    let mut files = data.splitn(2, |byte| *byte == 0xff);
    let index = files.next().unwrap_or_default();
    let model = file("weights/model.safetensors", files.next().unwrap_or_default());
    let folder = model.parent().expect("a parent").to_owned();
    fs::write(folder.join("model.safetensors.index.json"), index).expect("a file");
    let out = tempfile::tempdir_in(super::folder()).expect("a folder");
    let task = Task::minimal(TaskId::new("w"), "w".to_owned(), ActionKind::Weights);
    let action = json!({ "weights": weights(json!({ "path": folder })) }).to_string();
    let lease = Lease {
        task: task.into(),
        attempt: 1,
        assignment: ResolvedTask { action, ..ResolvedTask::default() },
        out: out.path().to_owned(),
        log: out.path().join("log"),
        project: super::folder(),
        gpus: Vec::new(),
        lowered: None,
        batch_slot: None,
        stop: Stop::new(),
        ready: None,
        emit: Arc::new(|_| {}),
        origins: Arc::new(Default::default),
    };
    let _ = block_on(StageExecutor::new(folder, RunId::new("r")).perform(lease));
}

thread_local! {
    /// The files of a simulated engine.
    static ENGINE: LazyCell<PathBuf> = LazyCell::new(|| {
        let path = folder().join("engine-as-built");
        fs::create_dir_all(&path).expect("a folder");
        write_engine(&engine(), &path).expect("an engine");
        path
    });
}

/// The first byte decides whether it is the `config.json` of an engine, the file of a simulated one, or the configuration of a model
/// beside it.
pub fn engine_config(data: &[u8]) {
    let (choice, data) = choose(data);
    let built = ENGINE.with(|built| (**built).clone());
    let folder = folder().join("engine");
    fs::create_dir_all(&folder).expect("a folder");
    for name in ["config.json", "rank0.engine"] {
        fs::copy(built.join(name), folder.join(name)).expect("a copy");
    }
    match choice % 3 {
        0 => fs::write(folder.join("config.json"), data).expect("a file"),
        1 => fs::write(folder.join("rank0.engine"), data).expect("a file"),
        _ => drop(file("repository/tensorrt_llm/config.pbtxt", data)),
    }
    if let Ok(config) = EngineConfig::load(&folder) {
        let again = config.to_text();
        assert!(again.ends_with('\n'));
    }
    let _ = load_engine(&folder);
    let repository = super::folder().join("repository");
    fs::create_dir_all(repository.join("tensorrt_llm/1")).expect("a folder");
    let _ = repository::check(&repository, Some(&folder), Some(1));
}

/// A `tokenizer.json`, and what is spelt with it; behind a byte that is 0 a `tokenizer_config.json`.
pub fn tokenizer(data: &[u8]) {
    let mut files = parts(data);
    let bytes = files.next().unwrap_or_default();
    if let Ok(tokenizer) = Tokenizer::from_bytes(bytes) {
        let ids = tokenizer.encode("Hello wörld, 12 ▁x", true).unwrap_or_default();
        // A text that its patterns and its tokens fit, and one that goes the way of long texts.
        let own = String::from_utf8_lossy(bytes);
        for text in [&own.chars().take(2000).collect::<String>(), &"a b ".repeat(1100)] {
            let _ = tokenizer.encode(text, false).map(|ids| tokenizer.decode(&ids, false));
        }
        let _ = tokenizer.decode(&ids, true);
        let _ = tokenizer.decode(&[0, 1, 2, 500, u32::MAX], false);
        let _ = (tokenizer.vocabulary().len(), tokenizer.has_token(3));
    }
    let path = file("tokenizer.json", bytes);
    fs::write(path.with_file_name("tokenizer_config.json"), files.next().unwrap_or(b"{}")).expect("a file");
    if let Ok(decoder) = TokenDecoder::load(&path, ScoringMethod::OpenOrca) {
        let _ = (decoder.unknown(&[0, 9, 70_000]), decoder.spell(&[0, 1, 2, 70_000]));
    }
}

fn engine() -> EngineSpec {
    let engine: Engine = serde_json::from_value(json!({
        "backend": "simulator", "precision": "fp8",
        "model": {
            "name": "m", "architecture": "LlamaForCausalLM", "parameters": 8_000_000_000_u64, "num_hidden_layers": 32,
            "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8,
            "vocab_size": 128_256, "max_position_embeddings": 8192,
        },
        "system": { "name": "s", "gpus": 1, "memory_gb": 141.0, "bandwidth_gbs": 4800.0, "tflops_16bit": 989.0 },
        "build_flags": { "max_batch_size": 64, "max_num_tokens": 8192, "max_seq_len": 4096 },
    }))
    .expect("an engine");
    engine_spec(&engine)
}
