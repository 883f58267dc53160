//! What a server reports about itself, over gRPC or HTTP, in one shape.

use serde_json::Value;

use crate::cli::TritonProtocol;
use crate::error::CommandError;
use crate::triton::ServerConnection;
use report::{ModelDetails, ModelRow, ServerStatus, TensorFacts};
use triton::proto::inference::{ModelConfig, ModelMetadataResponse};
use triton::{ClientError, ClientErrorKind, DataType, TritonClient};

/// The server and all its models.
pub(super) async fn server(to: &ServerConnection) -> Result<ServerStatus, CommandError> {
    match to.url.protocol {
        TritonProtocol::Grpc => {
            let client = to.grpc().await?;
            match by_grpc(&client).await {
                Ok(facts) => Ok(facts),
                Err(error) => Err(to.failed(error).await),
            }
        }
        TritonProtocol::Http => match by_http(to).await {
            Ok(facts) => Ok(facts),
            Err(error) => Err(to.failed(error).await),
        },
    }
}

async fn by_grpc(client: &TritonClient) -> Result<ServerStatus, ClientError> {
    let live = client.is_live().await?;
    let ready = client.is_ready().await?;
    let about = client.server_metadata().await?;
    let mut models = Vec::new();
    for known in client.repository_index(false).await? {
        let mut model_row = ModelRow {
            name: known.name,
            version: known.version,
            state: known.state,
            reason: known.reason,
            ..ModelRow::default()
        };
        // A model may be unloaded between two requests.
        if model_row.state == "READY"
            && let Ok(config) = client.model_config(&model_row.name, "").await
        {
            model_row.backend = Some(if config.backend.is_empty() { config.platform } else { config.backend });
            model_row.decoupled = Some(config.model_transaction_policy.is_some_and(|policy| policy.decoupled));
            model_row.max_batch_size = Some(i64::from(config.max_batch_size));
        }
        models.push(model_row);
    }
    Ok(ServerStatus {
        address: client.address().to_owned(),
        live,
        ready,
        name: about.name,
        version: about.version,
        extensions: about.extensions,
        models,
    })
}

async fn by_http(to: &ServerConnection) -> Result<ServerStatus, ClientError> {
    let mut client = to.http();
    let about = client.server_metadata().await?;
    if !about.get("extensions").is_some_and(Value::is_array) {
        let kind = ClientErrorKind::Protocol("something answers there that is no Triton".to_owned());
        return Err(ClientError { request: "GET /v2".to_owned(), address: client.address().to_string(), why: kind });
    }
    let live = client.is_live().await?;
    let ready = client.is_ready().await?;
    let mut models = Vec::new();
    for known in client.repository_index().await?.as_array().into_iter().flatten() {
        let mut model_row = ModelRow {
            name: text(known, "name"),
            version: text(known, "version"),
            state: text(known, "state"),
            reason: text(known, "reason"),
            ..ModelRow::default()
        };
        if model_row.state == "READY"
            && let Ok(config) = client.model_config(&model_row.name, "").await
        {
            let backend = text(&config, "backend");
            model_row.backend = Some(if backend.is_empty() { text(&config, "platform") } else { backend });
            model_row.decoupled = Some(config["model_transaction_policy"]["decoupled"].as_bool().unwrap_or(false));
            model_row.max_batch_size = config["max_batch_size"].as_i64();
        }
        models.push(model_row);
    }
    let extensions = about["extensions"].as_array().into_iter().flatten().filter_map(Value::as_str);
    Ok(ServerStatus {
        address: client.address().to_string(),
        live,
        ready,
        name: text(&about, "name"),
        version: text(&about, "version"),
        extensions: extensions.map(str::to_owned).collect(),
        models,
    })
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
                details.push(of_grpc(metadata, &config));
            }
        }
        TritonProtocol::Http => {
            let mut client = to.http();
            for name in &names {
                let both = async { Ok((client.model_metadata(name, "").await?, client.model_config(name, "").await?)) };
                match both.await {
                    Ok((metadata, config)) => details.push(of_http(&metadata, &config)),
                    Err(error) => return Err(to.failed(error).await),
                }
            }
        }
    }
    Ok(details)
}

pub(super) fn of_grpc(metadata: ModelMetadataResponse, config: &ModelConfig) -> ModelDetails {
    let optional = |name: &str| config.input.iter().any(|input| input.name == name && input.optional);
    let mut settings = vec![
        ("backend".to_owned(), config.backend.clone()),
        ("max_batch_size".to_owned(), config.max_batch_size.to_string()),
        (
            "decoupled".to_owned(),
            config.model_transaction_policy.as_ref().is_some_and(|policy| policy.decoupled).to_string(),
        ),
    ];
    for group in &config.instance_group {
        settings.push(("instance_group".to_owned(), format!("{} × {}", group.count, group.kind().as_str_name())));
    }
    settings.extend(
        config.parameters.iter().map(|(name, value)| (format!("parameters.{name}"), value.string_value.clone())),
    );
    settings.retain(|(_, value)| !value.is_empty());
    ModelDetails {
        inputs: metadata
            .inputs
            .into_iter()
            .map(|input| TensorFacts {
                optional: optional(&input.name),
                name: input.name,
                datatype: input.datatype,
                shape: input.shape,
            })
            .collect(),
        outputs: metadata
            .outputs
            .into_iter()
            .map(|output| TensorFacts {
                name: output.name,
                datatype: output.datatype,
                shape: output.shape,
                optional: false,
            })
            .collect(),
        name: metadata.name,
        versions: metadata.versions,
        platform: metadata.platform,
        settings,
    }
}

pub(super) fn of_http(metadata: &Value, config: &Value) -> ModelDetails {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let optional = |name: &str| {
        list(&config["input"]).iter().any(|input| text(input, "name") == name && input["optional"] == Value::Bool(true))
    };
    let tensors = |key: &str, input: bool| {
        let tensor = |tensor: &Value| TensorFacts {
            optional: input && optional(&text(tensor, "name")),
            name: text(tensor, "name"),
            datatype: text(tensor, "datatype"),
            shape: list(&tensor["shape"]).iter().filter_map(Value::as_i64).collect(),
        };
        list(&metadata[key]).iter().map(tensor).collect()
    };
    let mut settings = vec![
        ("backend".to_owned(), text(config, "backend")),
        ("max_batch_size".to_owned(), config["max_batch_size"].to_string()),
        (
            "decoupled".to_owned(),
            config["model_transaction_policy"]["decoupled"].as_bool().unwrap_or(false).to_string(),
        ),
    ];
    for group in list(&config["instance_group"]) {
        settings.push(("instance_group".to_owned(), format!("{} × {}", group["count"], text(&group, "kind"))));
    }
    for (name, value) in config["parameters"].as_object().into_iter().flatten() {
        settings.push((format!("parameters.{name}"), text(value, "string_value")));
    }
    settings.retain(|(_, value)| !value.is_empty());
    ModelDetails {
        name: text(metadata, "name"),
        versions: list(&metadata["versions"]).iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        platform: text(metadata, "platform"),
        inputs: tensors("inputs", true),
        outputs: tensors("outputs", false),
        settings,
    }
}

/// The data type of a tensor that a server reported.
pub(super) fn datatype(tensor: &TensorFacts) -> Option<DataType> {
    DataType::parse(&tensor.datatype)
}

fn text(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}
