//! The engines that the servers run.

use std::collections::BTreeMap;
use std::fs::DirEntry;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use base::files::{Digest, open_regular};
use harness::{EngineIdentity, ServerIdentity};
use plan::ActionKind;
use runner::UpstreamProvenance;

/// Bytes of `config.json`; real ones have some ten thousand.
const MOST_CONFIG_BYTES: u64 = 4 << 20;
/// Of an engine's folder.
const MOST_FILES: usize = 10_000;

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
pub fn of<'a>(origins: &UpstreamProvenance, servers: impl Iterator<Item = &'a ServerIdentity>) -> Vec<EngineIdentity> {
    let mut folders: Vec<PathBuf> = Vec::new();
    let mut engines: Vec<EngineIdentity> = Vec::new();
    for origin in origins.tasks.iter().filter(|origin| origin.kind == ActionKind::Engine) {
        folders.extend(origin.folder.as_deref().map(real));
        engines.push(EngineIdentity {
            stage: Some(origin.task.to_string()),
            digest: origin.digest.map(|digest| digest.to_string()),
            ..origin.folder.as_deref().and_then(read).unwrap_or_default()
        });
    }
    for folder in servers.filter_map(folder_of) {
        // The one that was built, or that of another server.
        if folders.contains(&folder) {
            continue;
        }
        engines.extend(read(&folder));
        folders.push(folder);
    }
    engines
}

/// What a cache key has of the engine that a server on this machine reports: its `config.json`, and size and time of change of
/// each rank's file, which change where it was built again from other weights. `None` without an engine that can be read.
pub fn key_of(server: &ServerIdentity) -> Option<String> {
    let folder = folder_of(server)?;
    let config = read(&folder)?.config_digest?;
    let mut ranks: Vec<String> =
        folder.read_dir().ok()?.flatten().take(MOST_FILES).filter_map(|file| rank(&file)).collect();
    ranks.sort();
    Some(Digest::hash(format!("{config} {ranks:?}").as_bytes()).to_string())
}

/// `rank0.engine 1234 1700000000.123`
fn rank(file: &DirEntry) -> Option<String> {
    let name = file.file_name().into_string().ok().filter(|name| name.ends_with(".engine"))?;
    let seen = file.path().metadata().ok()?;
    Some(format!("{name} {} {}.{}", seen.len(), seen.mtime(), seen.mtime_nsec()))
}

fn folder_of(server: &ServerIdentity) -> Option<PathBuf> {
    server.engine_path.as_deref().map(Path::new).filter(|path| path.is_absolute()).map(real)
}

/// Links followed, where it is there.
fn real(folder: &Path) -> PathBuf {
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
}

/// The engine described by `config.json`; `None` if there is no readable file.
fn read(folder: &Path) -> Option<EngineIdentity> {
    let path = folder.join("config.json");
    let mut text = String::new();
    open_regular(&path).ok()?.0.take(MOST_CONFIG_BYTES).read_to_string(&mut text).ok()?;
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
        config_digest: Some(Digest::hash(text.as_bytes()).to_string()),
        simulated: sim::simulated(folder),
        version: config["version"].as_str().map(str::to_owned),
        build,
        ..EngineIdentity::default()
    })
}
