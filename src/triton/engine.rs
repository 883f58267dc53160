//! The `config.json` of a TensorRT-LLM engine folder.
//!
//! Typed where this program reads or writes; every other key is kept as it is. An engine folder is `config.json`
//! and one `rank<N>.engine` for each of tp × pp ranks. Engines from before 0.8 (`builder_config`) are refused.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use base::files::read_text_up_to;
use base::units::counted;

/// Bytes of a file that configures an engine or a model. `trtllm-build` writes some kB.
pub const LARGEST_CONFIG: u64 = 16 << 20;

/// `config.json`, as `trtllm-build` writes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EngineConfig {
    /// TensorRT-LLM's version.
    pub version: String,
    pub pretrained_config: PretrainedConfig,
    pub build_config: BuildConfig,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// The model as it was converted.
#[base::omit_empty]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PretrainedConfig {
    pub architecture: String,
    pub dtype: String,
    pub num_hidden_layers: u32,
    pub hidden_size: u32,
    pub num_attention_heads: u32,
    pub num_key_value_heads: Option<u32>,
    pub intermediate_size: Option<u32>,
    pub vocab_size: Option<u32>,
    pub max_position_embeddings: Option<u32>,
    pub mapping: Mapping,
    #[serde(default)]
    pub quantization: Quantization,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// How the model is split over GPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mapping {
    pub world_size: u32,
    pub tp_size: u32,
    pub pp_size: u32,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantization {
    pub quant_algo: Option<String>,
    pub kv_cache_quant_algo: Option<String>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// The limits that the engine was built for. All counts are tokens or requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BuildConfig {
    pub max_input_len: u32,
    pub max_seq_len: Option<u32>,
    pub max_batch_size: u32,
    #[serde(default = "one")]
    pub max_beam_width: u32,
    pub max_num_tokens: u32,
    #[serde(default)]
    pub plugin_config: PluginConfig,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

pub(crate) const fn one() -> u32 {
    1
}

#[base::omit_empty]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PluginConfig {
    /// Tokens in one block of the KV cache.
    pub tokens_per_block: Option<u32>,
    /// Needed by chunked context and KV reuse.
    pub use_paged_context_fmha: Option<bool>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Why an engine folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{}: {message}", path.display())]
    Parse { path: PathBuf, message: String },
    #[error("{} is an engine from before TensorRT-LLM 0.8 (`builder_config`)", path.display())]
    Legacy { path: PathBuf },
    #[error("{} is missing: the engine has {}", path.display(), counted(*ranks, "rank"))]
    MissingRank { path: PathBuf, ranks: u32 },
    #[error("{}: {message}", path.display())]
    Inconsistent { path: PathBuf, message: String },
}

impl EngineConfig {
    /// Reads `config.json` of an engine folder and checks that every rank's file is there.
    pub fn load(folder: &Path) -> Result<Self, EngineError> {
        let path = folder.join("config.json");
        let text = read_text_up_to(&path, LARGEST_CONFIG)
            .map_err(|source| EngineError::Read { path: path.clone(), source })?;
        let config = Self::parse(&text, &path)?;
        for rank in 0..config.ranks() {
            let path = folder.join(format!("rank{rank}.engine"));
            if !path.is_file() {
                return Err(EngineError::MissingRank { path, ranks: config.ranks() });
            }
        }
        Ok(config)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, EngineError> {
        let parse = |message: String| EngineError::Parse { path: path.to_owned(), message };
        let value: Value = serde_json::from_str(text).map_err(|e| parse(e.to_string()))?;
        if value.get("builder_config").is_some() && value.get("build_config").is_none() {
            return Err(EngineError::Legacy { path: path.to_owned() });
        }
        let config: Self = serde_path_to_error::deserialize(value).map_err(|e| parse(e.to_string()))?;
        let mapping = &config.pretrained_config.mapping;
        if mapping.world_size == 0
            || u64::from(mapping.world_size) != u64::from(mapping.tp_size) * u64::from(mapping.pp_size)
        {
            let message = format!(
                "world_size {} is not tp_size {} × pp_size {}",
                mapping.world_size, mapping.tp_size, mapping.pp_size
            );
            return Err(EngineError::Inconsistent { path: path.to_owned(), message });
        }
        Ok(config)
    }

    /// GPUs of one copy of the model: tp × pp.
    pub const fn ranks(&self) -> u32 {
        self.pretrained_config.mapping.world_size
    }

    /// The longest sequence (prompt and answer) that it can hold, tokens.
    pub fn max_seq_len(&self) -> u32 {
        self.build_config
            .max_seq_len
            .or(self.pretrained_config.max_position_embeddings)
            .unwrap_or(self.build_config.max_input_len)
    }

    /// TensorRT-LLM's default is 32.
    pub fn tokens_per_block(&self) -> u32 {
        self.build_config.plugin_config.tokens_per_block.unwrap_or(32).max(1)
    }

    /// The file's text: two spaces, keys in a fixed order, a newline at the end.
    pub fn to_text(&self) -> String {
        // Every key is a string, so serializing cannot fail.
        let mut text = serde_json::to_string_pretty(self).expect("a config of plain values is JSON");
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests;
