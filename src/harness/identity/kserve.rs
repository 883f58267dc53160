//! KServe v2: ServerMetadata, ModelMetadata and ModelConfig, over gRPC or HTTP.

use std::time::Duration;

use serde_json::Value;

use super::bounded_text::bounded;
use super::http::IdentityClient;
use super::model_facts::ModelFacts;
use super::{ServerIdentity, Simulation};
use crate::transport::sent_headers::SentHeaders;
use base::event::Endpoint;
use triton::TritonClient;

/// What the simulator's version begins with.
const SIMULATOR: &str = "regatta-simulator-";
/// Name in `owned_by` and `kind`.
pub(super) const SIMULATOR_KIND: &str = "regatta-simulator";
/// Its extension that reports how fast its time runs: `simulated_time(speed=10)`.
const SPEED: &str = "simulated_time(speed=";
/// Bytes of one answer: a configuration with many parameters has some ten thousand.
const MOST_MESSAGE_BYTES: usize = 4 << 20;
/// The most models of an ensemble that are also queried; TensorRT-LLM's ensemble has three.
const MOST_BEHIND: usize = 8;

/// Over gRPC.
pub(super) async fn by_grpc(
    endpoint: &Endpoint,
    sent: &SentHeaders,
    model: &str,
    limit: Duration,
    identity: &mut ServerIdentity,
) -> Option<()> {
    let client = tokio::time::timeout(limit, TritonClient::connect_with(endpoint, sent.map())).await.ok()?.ok()?;
    let client = client.deadline(limit).message_limit(MOST_MESSAGE_BYTES);
    if let Ok(server) = client.server_metadata().await {
        server_is(&server.name, &server.version, server.extensions.iter().map(String::as_str), identity);
    }
    let facts = facts_by_grpc(&client, model).await;
    let mut behind = Vec::new();
    for name in facts.behind().iter().take(MOST_BEHIND) {
        behind.push(facts_by_grpc(&client, name).await);
    }
    facts.put(&behind, identity);
    Some(())
}

async fn facts_by_grpc(client: &TritonClient, model: &str) -> ModelFacts {
    let metadata = client.model_metadata(model, "").await.ok();
    let config = client.model_config(model, "").await.ok();
    ModelFacts::of_grpc(metadata, config)
}

/// Over HTTP.
pub(super) async fn by_http(asker: &IdentityClient, model: &str, identity: &mut ServerIdentity) -> Option<()> {
    server_by_http(asker, identity).await?;
    let facts = facts_by_http(asker, model).await;
    let mut behind = Vec::new();
    for name in facts.behind().iter().take(MOST_BEHIND) {
        behind.push(facts_by_http(asker, name).await);
    }
    facts.put(&behind, identity);
    Some(())
}

/// `GET /v2`.
pub(super) async fn server_by_http(asker: &IdentityClient, identity: &mut ServerIdentity) -> Option<()> {
    let reply = asker.get("/v2").await?;
    identity.http_server = identity.http_server.take().or(reply.server.clone());
    let server = reply.json()?;
    let extensions = server["extensions"].as_array().into_iter().flatten().filter_map(Value::as_str);
    server_is(server["name"].as_str()?, server["version"].as_str()?, extensions, identity);
    Some(())
}

async fn facts_by_http(asker: &IdentityClient, model: &str) -> ModelFacts {
    // Names of models are names of folders; others are not queried.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '~');
    if model.is_empty() || !model.chars().all(is_plain) {
        return ModelFacts::default();
    }
    let fetch = async |path: String| asker.get(&path).await?.json();
    let metadata = fetch(format!("/v2/models/{model}")).await;
    let config = fetch(format!("/v2/models/{model}/config")).await;
    ModelFacts::of_http(metadata.as_ref(), config.as_ref())
}

fn server_is<'a>(
    name: &str,
    version: &str,
    mut extensions: impl Iterator<Item = &'a str>,
    identity: &mut ServerIdentity,
) {
    if let Some(version) = version.strip_prefix(SIMULATOR) {
        let speed = extensions.find_map(|it| it.strip_prefix(SPEED)?.strip_suffix(')')?.parse::<f64>().ok());
        mark_simulated(speed, identity);
        identity.version = bounded(version);
    } else {
        identity.kind = bounded(name);
        identity.version = bounded(version);
    }
}

/// It is the built-in simulator, whose time runs with the clock unless it reports another speed.
pub(super) fn mark_simulated(speed: Option<f64>, identity: &mut ServerIdentity) {
    identity.kind = Some(SIMULATOR_KIND.to_owned());
    identity.simulation = Some(Simulation { speed: speed.filter(|it| it.is_finite() && *it > 0.0).unwrap_or(1.0) });
}
