//! Servers with OpenAI's interface: `/v1/models`, and what each kind of server reports besides.

use serde_json::Value;

use super::ServerIdentity;
use super::bounded_text::{bounded, bounded_value};
use super::http::{IdentityClient, IdentityReply};
use super::kserve::{SIMULATOR_KIND, mark_simulated, server_by_http};
use base::files::Digest;

/// `owned_by` in the servers' own source → kind.
const OWNERS: [(&str, &str); 6] = [
    ("vllm", "vllm"),
    ("sglang", "sglang"),
    ("tensorrt_llm", "trtllm-serve"),
    ("Triton Inference Server", "triton"),
    ("llamacpp", "llama.cpp"),
    (SIMULATOR_KIND, SIMULATOR_KIND),
];

/// Of SGLang's `/server_info`, which lists all arguments of the server, its API keys among them: what decides performance.
const SGLANG_SETTINGS: [&str; 14] = [
    "attention_backend",
    "chunked_prefill_size",
    "context_length",
    "disable_cuda_graph",
    "disable_radix_cache",
    "dp_size",
    "dtype",
    "kv_cache_dtype",
    "max_running_requests",
    "mem_fraction_static",
    "pp_size",
    "quantization",
    "speculative_algorithm",
    "tp_size",
];

/// Members of `/v1/models` that differ from answer to answer.
const VOLATILE: [&str; 2] = ["created", "permission"];

pub(super) async fn by_openai(asker: &IdentityClient, model: &str, identity: &mut ServerIdentity) -> Option<()> {
    let reply = asker.get("/v1/models").await;
    if let Some(reply) = &reply {
        identity.http_server.clone_from(&reply.server);
    }
    if let Some(listed) = reply.as_ref().and_then(IdentityReply::json) {
        model_is(&listed, model, identity);
    }
    match identity.kind.as_deref() {
        Some(SIMULATOR_KIND) => server_by_http(asker, identity).await,
        Some("sglang") => sglang(asker, identity).await,
        Some("triton") => None,
        Some("llama.cpp") => {
            identity.version = bounded(asker.get("/props").await?.json()?["build_info"].as_str()?);
            None
        }
        // vLLM and trtllm-serve have it; of other servers it gives the version, not the product.
        _ => {
            let reply = asker.get("/version").await?;
            identity.http_server = identity.http_server.take().or(reply.server.clone());
            identity.version = bounded(reply.json()?["version"].as_str()?);
            Some(())
        }
    }
}

/// The entry of the model that is measured, or the only one.
fn model_is(listed: &Value, model: &str, identity: &mut ServerIdentity) {
    let all: Vec<&Value> = listed["data"].as_array().into_iter().flatten().collect();
    let named = all.iter().find(|entry| entry["id"].as_str() == Some(model));
    let Some(entry) = named.or(if all.len() == 1 { all.first() } else { None }) else { return };
    identity.model = entry["id"].as_str().and_then(bounded);
    let owner = entry["owned_by"].as_str().unwrap_or_default();
    match OWNERS.iter().find(|(name, _)| *name == owner) {
        // A gateway may pass on nothing else of it.
        Some((_, kind)) if *kind == SIMULATOR_KIND => mark_simulated(entry["speed"].as_f64(), identity),
        Some((_, kind)) => identity.kind = Some((*kind).to_owned()),
        None => {
            // Reported by a proxy or an unknown server.
            if let Some(owner) = bounded(owner) {
                identity.settings.insert("owned_by".to_owned(), owner);
            }
        }
    }
    identity.model_source = entry["root"].as_str().and_then(bounded);
    identity.max_model_len = entry["max_model_len"].as_u64();
    let mut lasting = (*entry).clone();
    if let Some(members) = lasting.as_object_mut() {
        members.retain(|name, _| !VOLATILE.contains(&name.as_str()));
        members.sort_keys();
    }
    identity.metadata_digest = Some(Digest::hash(lasting.to_string().as_bytes()).to_string());
}

async fn sglang(asker: &IdentityClient, identity: &mut ServerIdentity) -> Option<()> {
    // The second name is the older one.
    let mut info = None;
    for path in ["/server_info", "/get_server_info"] {
        info = match asker.get(path).await {
            Some(reply) => reply.json(),
            None => None,
        };
        if info.is_some() {
            break;
        }
    }
    let info = info?;
    identity.version = info["version"].as_str().and_then(bounded);
    if let Some(source) = info["model_path"].as_str().and_then(bounded) {
        identity.model_source = Some(source);
    }
    let settings = SGLANG_SETTINGS.iter().filter_map(|name| Some(((*name).to_owned(), bounded_value(&info[*name])?)));
    identity.settings.extend(settings);
    Some(())
}
