//! Whether a folder holds what TensorRT-LLM's tools leave: `config.json`, and a file for each rank.

use std::io;
use std::path::Path;

use serde_json::Value;

use base::files::{metadata_if_there, read_text_up_to};
use plan::manifest::model::{Engine, EngineOnly};
use triton::LARGEST_CONFIG;

/// What is missing from an output. `what` it is: a checkpoint or an engine.
#[derive(Debug, thiserror::Error)]
pub enum IncompleteEngine {
    #[error("the {what} has no config.json: {source}")]
    NoConfig { what: &'static str, source: std::io::Error },
    #[error("the config.json of the {what} cannot be read: {source}")]
    ReadConfig { what: &'static str, source: std::io::Error },
    #[error("the config.json of the {what} cannot be read: {source}")]
    Config { what: &'static str, source: serde_json::Error },
    #[error("the config.json of the {what} names no rank")]
    NoRank { what: &'static str },
    #[error("the {what} has no {name}, or it is empty")]
    NoFile { what: &'static str, name: String },
    #[error("{name} of the {what} cannot be looked at: {source}")]
    LookAtFile { what: &'static str, name: String, source: std::io::Error },
    #[error("the {what} lacks {missing} of its {ranks} files, {first} to {last}")]
    NoFiles { what: &'static str, missing: usize, ranks: u64, first: String, last: String },
}

/// What is missing or cannot be read; the text follows "but".
pub fn check(folder: &Path, engine: &Engine) -> Result<(), IncompleteEngine> {
    let (what, suffix) = match engine.only {
        Some(EngineOnly::Checkpoint) => ("checkpoint", "safetensors"),
        None => ("engine", "engine"),
    };
    let config = config(folder, what)?;
    let ranks = match config.pointer("/pretrained_config/mapping/world_size").and_then(Value::as_u64) {
        Some(ranks) => ranks,
        // A checkpoint that was given decides how many there are.
        None if engine.trtllm_checkpoint.is_some() => 1,
        None => match config.pointer("/mapping/world_size").and_then(Value::as_u64) {
            Some(ranks) => ranks,
            None => u64::from(engine.tensor_parallelism * engine.pipeline_parallelism),
        },
    };
    let mut missing: Vec<String> = Vec::new();
    // A damaged config could contain any number.
    for name in (0..ranks.min(4096)).map(|rank| format!("rank{rank}.{suffix}")) {
        match metadata_if_there(&folder.join(&name)) {
            Ok(Some(file)) if file.is_file() && file.len() > 0 => {}
            Ok(_) => missing.push(name),
            Err(source) => return Err(IncompleteEngine::LookAtFile { what, name, source }),
        }
    }
    match missing.as_slice() {
        [] if ranks > 0 => Ok(()),
        [] => Err(IncompleteEngine::NoRank { what }),
        [one] => Err(IncompleteEngine::NoFile { what, name: one.clone() }),
        [first, .., last] => Err(IncompleteEngine::NoFiles {
            what,
            missing: missing.len(),
            ranks,
            first: first.clone(),
            last: last.clone(),
        }),
    }
}

fn config(folder: &Path, what: &'static str) -> Result<Value, IncompleteEngine> {
    let path = folder.join("config.json");
    let text = read_text_up_to(&path, LARGEST_CONFIG).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => IncompleteEngine::NoConfig { what, source },
        _ => IncompleteEngine::ReadConfig { what, source },
    })?;
    serde_json::from_str(&text).map_err(|source| IncompleteEngine::Config { what, source })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn engine(change: &Value) -> Engine {
        let mut engine = serde_json::json!({
            "backend": "tensorrt_llm", "precision": "fp8", "tensor_parallelism": 2,
            "model": {"name": "m", "architecture": "LlamaForCausalLM", "parameters": 1, "num_hidden_layers": 1,
                "hidden_size": 1, "intermediate_size": 1, "num_attention_heads": 1, "num_key_value_heads": 1,
                "vocab_size": 1, "max_position_embeddings": 1},
            "system": {"name": "x", "gpus": 2, "memory_gb": 1.0, "bandwidth_gbs": 1.0, "tflops_16bit": 1.0},
        });
        for (key, value) in change.as_object().unwrap() {
            engine[key] = value.clone();
        }
        serde_json::from_value(engine).unwrap()
    }

    #[test]
    fn an_engine_is_its_config_and_a_file_for_each_rank() {
        let folder = tempfile::tempdir().unwrap();
        let error = |change: &Value| check(folder.path(), &engine(change)).unwrap_err().to_string();
        let none = serde_json::json!({});
        assert!(error(&none).starts_with("the engine has no config.json: "));
        fs::write(folder.path().join("config.json"), "built").unwrap();
        assert!(error(&none).starts_with("the config.json of the engine cannot be read: "));
        fs::write(folder.path().join("config.json"), "{}").unwrap();
        assert_eq!(error(&none), "the engine lacks 2 of its 2 files, rank0.engine to rank1.engine");
        fs::write(folder.path().join("rank0.engine"), "ftrt").unwrap();
        fs::write(folder.path().join("rank1.engine"), "").unwrap();
        assert_eq!(error(&none), "the engine has no rank1.engine, or it is empty");
        fs::remove_file(folder.path().join("rank1.engine")).unwrap();
        std::os::unix::fs::symlink("rank1.engine", folder.path().join("rank1.engine")).unwrap();
        let text = error(&none);
        assert!(text.starts_with("rank1.engine of the engine cannot be looked at: "), "{text}");
        // The config takes precedence over the manifest, and a checkpoint that was given decides.
        let config = r#"{"pretrained_config": {"mapping": {"world_size": 1}}}"#;
        fs::write(folder.path().join("config.json"), config).unwrap();
        assert!(check(folder.path(), &engine(&none)).is_ok());
        let made = serde_json::json!({"only": "checkpoint"});
        assert_eq!(error(&made), "the checkpoint has no rank0.safetensors, or it is empty");
    }
}
