//! KServe v2: ServerMetadata, ModelMetadata and ModelConfig, over gRPC or HTTP; and the parts of a Triton model's
//! metadata and configuration that decide what is measured.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::identity::client::{IdentityClient, bounded};
use crate::{SentHeaders, ServerIdentity, Simulation};
use base::event::Endpoint;
use base::files::Digest;
use triton::{TritonClient, pbtxt};

/// What the simulator's version begins with.
const SIMULATOR: &str = "regatta-simulator-";
/// Name in `owned_by` and `kind`.
pub(super) const SIMULATOR_KIND: &str = "regatta-simulator";
/// Its extensions that report how fast its time runs, `simulated_time(speed=10)`, and what the times of an engine's
/// steps rest on, `step_times(assumed ±35 %: …)`.
const SPEED: &str = "simulated_time(speed=";
const STEP_TIMES: &str = "step_times(";
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
    let metadata = metadata.map(|metadata| pbtxt::message_json("ModelMetadataResponse", &metadata));
    ModelFacts::new(metadata.as_ref(), config.map(|config| pbtxt::json(&config)).as_ref())
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
    ModelFacts::new(metadata.as_ref(), config.as_ref())
}

fn server_is<'a>(name: &str, version: &str, extensions: impl Iterator<Item = &'a str>, identity: &mut ServerIdentity) {
    if let Some(version) = version.strip_prefix(SIMULATOR) {
        let extensions: Vec<&str> = extensions.collect();
        let value = |name: &str| extensions.iter().find_map(|it| it.strip_prefix(name)?.strip_suffix(')'));
        mark_simulated(value(SPEED).and_then(|speed| speed.parse().ok()), value(STEP_TIMES), identity);
        identity.version = bounded(version);
    } else {
        identity.kind = bounded(name);
        identity.version = bounded(version);
    }
}

/// It is the built-in simulator, whose time runs with the clock unless it reports another speed.
pub(super) fn mark_simulated(speed: Option<f64>, step_times: Option<&str>, identity: &mut ServerIdentity) {
    identity.settings.extend(step_times.and_then(bounded).map(|it| ("step_times".to_owned(), it)));
    identity.kind = Some(SIMULATOR_KIND.to_owned());
    identity.simulation = Some(Simulation { speed: speed.filter(|it| it.is_finite() && *it > 0.0).unwrap_or(1.0) });
}

/// Parameter of a model that runs an engine.
const ENGINE_FOLDER: &str = "gpt_model_path";

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ModelFacts {
    pub versions: Vec<String>,
    pub platform: String,
    pub backend: String,
    pub max_batch_size: Option<i64>,
    pub decoupled: Option<bool>,
    /// `1 × KIND_GPU`
    pub instances: Vec<String>,
    pub parameters: BTreeMap<String, String>,
    /// Models of an ensemble's steps.
    pub steps: Vec<String>,
    /// The whole configuration in effect, in the form of Triton's HTTP interface, its keys in order; without the folder
    /// of an engine, which does not describe the engine.
    pub config: String,
}

impl ModelFacts {
    /// From the metadata and the configuration in the form of Triton's HTTP interface.
    pub fn new(metadata: Option<&Value>, config: Option<&Value>) -> Self {
        let mut facts = Self::default();
        if let Some(metadata) = metadata {
            facts.versions = list(&metadata["versions"]).filter_map(Value::as_str).map(str::to_owned).collect();
            facts.platform = text(&metadata["platform"]);
        }
        let Some(config) = config else { return facts };
        facts.config = in_order(config);
        facts.max_batch_size = config["max_batch_size"].as_i64();
        facts.decoupled = Some(config["model_transaction_policy"]["decoupled"].as_bool().unwrap_or(false));
        facts.instances = list(&config["instance_group"])
            .map(|group| format!("{} × {}", group["count"].as_i64().unwrap_or(0), text(&group["kind"])))
            .collect();
        facts.steps = list(&config["ensemble_scheduling"]["step"]).map(|step| text(&step["model_name"])).collect();
        let parameters = config["parameters"].as_object().into_iter().flatten();
        facts.parameters = parameters.map(|(name, value)| (name.clone(), text(&value["string_value"]))).collect();
        facts.backend = text(&config["backend"]);
        if let Some(platform) = config["platform"].as_str().filter(|platform| !platform.is_empty()) {
            platform.clone_into(&mut facts.platform);
        }
        facts
    }

    /// The folder of a TensorRT-LLM engine.
    pub fn engine_path(&self) -> Option<String> {
        bounded(self.parameters.get(ENGINE_FOLDER)?).filter(|path| !path.starts_with("${"))
    }

    /// Other models that answer a request to this one: an ensemble's steps, or the engine behind `tensorrt_llm_bls`.
    pub fn behind(&self) -> Vec<String> {
        let bls = self.parameters.get("tensorrt_llm_model_name").filter(|name| !name.starts_with("${"));
        self.steps.iter().chain(bls).filter(|name| !name.is_empty()).cloned().collect()
    }

    /// Records the main facts, and a digest of all, with the models behind this one.
    pub fn put(&self, behind: &[Self], identity: &mut ServerIdentity) {
        identity.model_versions = self.versions.iter().filter_map(|version| bounded(version)).take(16).collect();
        identity.backend = bounded(if self.backend.is_empty() { &self.platform } else { &self.backend });
        identity.max_batch_size = self.max_batch_size;
        let decoupled = self.decoupled.map(|decoupled| decoupled.to_string());
        let settings = [("decoupled", decoupled), ("instance_group", bounded(&self.instances.join(", ")))];
        identity.settings.extend(settings.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        let models = || std::iter::once(self).chain(behind);
        identity.engine_path = models().find_map(Self::engine_path);
        if *self != Self::default() {
            let models: Vec<_> = models().map(|model| (&model.versions, &model.platform, &model.config)).collect();
            identity.metadata_digest = Some(Digest::hash(format!("{models:?}").as_bytes()).to_string());
        }
    }
}

/// Answers have the depth of their parser at most.
fn in_order(config: &Value) -> String {
    let mut config = config.clone();
    config.sort_all_objects();
    if let Some(parameters) = config.get_mut("parameters").and_then(Value::as_object_mut) {
        parameters.remove(ENGINE_FOLDER);
    }
    config.to_string()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn digest(config: &Value, behind: &[ModelFacts]) -> Option<String> {
        let mut identity = ServerIdentity::default();
        ModelFacts::new(None, Some(config)).put(behind, &mut identity);
        identity.metadata_digest
    }

    #[test]
    fn all_of_a_configuration_identifies_its_model_and_so_do_the_models_behind_it() {
        let config = |delay: u64, engine: &str| {
            json!({
                "name": "m", "backend": "tensorrtllm",
                "dynamic_batching": { "max_queue_delay_microseconds": delay },
                "parameters": { "gpt_model_path": { "string_value": engine } },
            })
        };
        let digested = digest(&config(0, "/a"), &[]);
        assert_eq!(digested, digest(&config(0, "/b"), &[]), "where an engine is says nothing about it");
        assert_ne!(digested, digest(&config(100, "/a"), &[]));
        let behind = |delay| [ModelFacts::new(None, Some(&config(delay, "/a")))];
        assert_ne!(digest(&config(0, "/a"), &behind(0)), digest(&config(0, "/a"), &behind(100)));
    }
}
