//! The engines that the servers run.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde_json::Value;

use crate::event::Digest;
use crate::harness::{EngineIdentity, ServerIdentity};
use crate::plan::ActionKind;
use crate::runner::Origins;
use crate::sim;

/// Bytes of `config.json`; real ones have some ten thousand.
const MOST_BYTES: u64 = 4 << 20;

/// What of `config.json` decides an engine's performance: where it stands, and its names there.
const FLAGS: [(&str, &[&str]); 5] = [
    ("/pretrained_config", &["architecture", "dtype"]),
    ("/pretrained_config/mapping", &["world_size", "tp_size", "pp_size"]),
    ("/pretrained_config/quantization", &["quant_algo", "kv_cache_quant_algo"]),
    (
        "/build_config",
        &["max_batch_size", "max_beam_width", "max_input_len", "max_num_tokens", "max_seq_len", "strongly_typed"],
    ),
    (
        "/build_config/plugin_config",
        &[
            "context_fmha",
            "gemm_plugin",
            "gemm_swiglu_plugin",
            "gpt_attention_plugin",
            "multiple_profiles",
            "paged_kv_cache",
            "reduce_fusion",
            "remove_input_padding",
            "tokens_per_block",
            "use_fp8_context_fmha",
            "use_paged_context_fmha",
        ],
    ),
];

/// Those that this run built, and those in folders that `servers`, which are on this machine, report.
pub fn of<'a>(origins: &Origins, servers: impl Iterator<Item = &'a ServerIdentity>) -> Vec<EngineIdentity> {
    let built = origins.tasks.iter().filter(|origin| origin.kind == ActionKind::Engine).map(|origin| EngineIdentity {
        stage: Some(origin.task.to_string()),
        digest: origin.digest.map(|digest| digest.to_string()),
        ..origin.folder.as_deref().and_then(read).unwrap_or_default()
    });
    let mut engines: Vec<EngineIdentity> = built.collect();
    for server in servers {
        let Some(found) = server.engine_path.as_deref().map(Path::new).filter(|path| path.is_absolute()).and_then(read)
        else {
            continue;
        };
        // The same one as it was built, or of another server.
        if !engines.iter().any(|engine| engine.config_digest == found.config_digest) {
            engines.push(found);
        }
    }
    engines
}

/// What `config.json` says of an engine; `None` where there is none that can be read.
fn read(folder: &Path) -> Option<EngineIdentity> {
    let path = folder.join("config.json");
    // A pipe or a device would never end.
    if !path.is_file() {
        return None;
    }
    let mut text = String::new();
    File::open(path).ok()?.take(MOST_BYTES).read_to_string(&mut text).ok()?;
    let config: Value = serde_json::from_str(&text).ok()?;
    let mut build = BTreeMap::new();
    for (place, names) in FLAGS {
        let Some(part) = config.pointer(place) else { continue };
        for name in names {
            let value = match &part[*name] {
                Value::String(text) => text.clone(),
                Value::Null | Value::Array(_) | Value::Object(_) => continue,
                value => value.to_string(),
            };
            build.insert((*name).to_owned(), value);
        }
    }
    Some(EngineIdentity {
        config_digest: Some(Digest::of(text.as_bytes()).to_string()),
        simulated: sim::simulated(folder),
        version: config["version"].as_str().map(str::to_owned),
        build,
        ..EngineIdentity::default()
    })
}
