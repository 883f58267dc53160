//! What a server reports about itself, over gRPC or HTTP, in the form of its HTTP interface.

use serde_json::Value;

use crate::cli::TritonProtocol;
use crate::error::CommandError;
use crate::triton::ServerConnection;
use report::{ModelDetails, ModelRow, ServerStatus, TensorFacts};
use triton::pbtxt::{json, message_json};
use triton::{ClientError, ClientErrorKind, DataType, TritonClient};

/// The server and all its models.
pub(super) async fn server(to: &ServerConnection) -> Result<ServerStatus, CommandError> {
    match to.url.protocol {
        TritonProtocol::Grpc => {
            let client = to.grpc().await?;
            to.explained(by_grpc(&client).await).await
        }
        TritonProtocol::Http => to.explained(by_http(to).await).await,
    }
}

async fn by_grpc(client: &TritonClient) -> Result<ServerStatus, ClientError> {
    let live = client.is_live().await?;
    let ready = client.is_ready().await?;
    let about = client.server_metadata().await?;
    let mut models = Vec::new();
    for known in client.repository_index(false).await? {
        let config = match known.state.as_str() {
            "READY" => {
                client.model_config(&known.name, "").await.ok().map(|config| ModelSettings::from(&json(&config)))
            }
            _ => None,
        };
        models.push(model_row([known.name, known.version, known.state, known.reason], config));
    }
    let (address, extensions) = (client.address().to_owned(), about.extensions);
    Ok(ServerStatus { address, live, ready, name: about.name, version: about.version, extensions, models })
}

async fn by_http(to: &ServerConnection) -> Result<ServerStatus, ClientError> {
    let mut client = to.http();
    let about = client.server_metadata().await?;
    if !about.get("extensions").is_some_and(Value::is_array) {
        let kind = ClientErrorKind::Protocol("something answers there that is not Triton".to_owned());
        return Err(ClientError { request: "GET /v2".to_owned(), address: client.address().to_string(), why: kind });
    }
    let live = client.is_live().await?;
    let ready = client.is_ready().await?;
    let mut models = Vec::new();
    for known in list(&client.repository_index().await?) {
        let model = ["name", "version", "state", "reason"].map(|key| text(&known, key));
        let config = match model[2].as_str() {
            "READY" => client.model_config(&model[0], "").await.ok().as_ref().map(ModelSettings::from),
            _ => None,
        };
        models.push(model_row(model, config));
    }
    let [name, version] = ["name", "version"].map(|key| text(&about, key));
    let (address, extensions) = (client.address().to_string(), texts(&about["extensions"]));
    Ok(ServerStatus { address, live, ready, name, version, extensions, models })
}

/// `settings`: of one that is ready. It may be unloaded between two requests.
fn model_row([name, version, state, reason]: [String; 4], settings: Option<ModelSettings>) -> ModelRow {
    let row = ModelRow { name, version, state, reason, ..ModelRow::default() };
    let Some(settings) = settings else { return row };
    let backend = if settings.backend.is_empty() { settings.platform } else { settings.backend };
    ModelRow {
        backend: Some(backend),
        decoupled: Some(settings.decoupled),
        max_batch_size: Some(settings.max_batch_size),
        ..row
    }
}

/// The settings of a model that are shown.
struct ModelSettings {
    backend: String,
    platform: String,
    decoupled: bool,
    max_batch_size: i64,
    instance_groups: Vec<String>,
    parameters: Vec<(String, String)>,
    optional_inputs: Vec<String>,
}

impl From<&Value> for ModelSettings {
    fn from(config: &Value) -> Self {
        let group = |group: &Value| format!("{} × {}", group["count"], text(group, "kind"));
        let parameters = config["parameters"].as_object().into_iter().flatten();
        let inputs = list(&config["input"]);
        Self {
            backend: text(config, "backend"),
            platform: text(config, "platform"),
            decoupled: config["model_transaction_policy"]["decoupled"].as_bool().unwrap_or(false),
            max_batch_size: config["max_batch_size"].as_i64().unwrap_or_default(),
            instance_groups: list(&config["instance_group"]).iter().map(group).collect(),
            parameters: parameters.map(|(name, value)| (name.clone(), text(value, "string_value"))).collect(),
            optional_inputs: inputs
                .iter()
                .filter(|input| input["optional"] == true)
                .map(|input| text(input, "name"))
                .collect(),
        }
    }
}

impl ModelSettings {
    /// By the names of config.pbtxt, without those that are not set.
    fn entries(self) -> Vec<(String, String)> {
        let named = [
            ("backend", self.backend),
            ("max_batch_size", self.max_batch_size.to_string()),
            ("decoupled", self.decoupled.to_string()),
        ];
        let named = named.into_iter().map(|(name, value)| (name.to_owned(), value));
        let groups = self.instance_groups.into_iter().map(|group| ("instance_group".to_owned(), group));
        let parameters = self.parameters.into_iter().map(|(name, value)| (format!("parameters.{name}"), value));
        named.chain(groups).chain(parameters).filter(|(_, value)| !value.is_empty()).collect()
    }
}

/// Those that are named, or all that are ready.
pub(super) async fn models(to: &ServerConnection, names: &[String]) -> Result<Vec<ModelDetails>, CommandError> {
    let mut names = names.to_vec();
    if names.is_empty() {
        let server = server(to).await?;
        names = server.models.into_iter().filter(|model| model.state == "READY").map(|model| model.name).collect();
        names.dedup();
    }
    let mut details = Vec::new();
    match to.url.protocol {
        TritonProtocol::Grpc => {
            let client = to.grpc().await?;
            for name in &names {
                let metadata = to.of_model(&client, name, client.model_metadata(name, "")).await?;
                let config = to.of_model(&client, name, client.model_config(name, "")).await?;
                details.push(model_details(&message_json("ModelMetadataResponse", &metadata), &json(&config)));
            }
        }
        TritonProtocol::Http => {
            let mut client = to.http();
            for name in &names {
                let metadata = to.explained(client.model_metadata(name, "").await).await?;
                let config = to.explained(client.model_config(name, "").await).await?;
                details.push(model_details(&metadata, &config));
            }
        }
    }
    Ok(details)
}

/// Both as Triton's HTTP interface has them.
fn model_details(metadata: &Value, config: &Value) -> ModelDetails {
    let settings = ModelSettings::from(config);
    let tensor = |tensor: &Value| TensorFacts {
        name: text(tensor, "name"),
        datatype: text(tensor, "datatype"),
        shape: list(&tensor["shape"]).iter().filter_map(Value::as_i64).collect(),
        optional: settings.optional_inputs.contains(&text(tensor, "name")),
    };
    let inputs = list(&metadata["inputs"]).iter().map(tensor).collect();
    let output = |output: &Value| TensorFacts { optional: false, ..tensor(output) };
    let outputs = list(&metadata["outputs"]).iter().map(output).collect();
    let [name, platform] = ["name", "platform"].map(|key| text(metadata, key));
    let versions = texts(&metadata["versions"]);
    ModelDetails { name, versions, platform, inputs, outputs, settings: settings.entries() }
}

/// The data type of a tensor that a server reported.
pub(super) fn datatype(tensor: &TensorFacts) -> Option<DataType> {
    DataType::parse(&tensor.datatype)
}

fn text(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn texts(value: &Value) -> Vec<String> {
    list(value).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}
