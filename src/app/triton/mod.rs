//! `regatta triton …`: queries to a server, for people.

mod facts;
mod infer;

use std::fmt::Display;
use std::future::Future;

use anyhow::anyhow;
use serde_json::json;

use crate::cli::{CliExit, Global, TritonProtocol, TritonRequest, TritonUrl};
use crate::console::{print, print_as, print_error};
use crate::error::CommandError;
use base::diag::{ErrorText, did_you_mean};
use base::event::Endpoint;
use report::{ServerMetricRow, Styler, server};
use triton::{
    ClientError, ClientErrorKind, Exposition, HttpAddress, HttpClient, ListeningService, TritonClient, pbtxt, probe,
};

pub(super) fn run_command(global: &Global, request: TritonRequest) -> Result<CliExit, CommandError> {
    let styler = global.styler();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(perform(request, styler))
}

async fn perform(request: TritonRequest, styler: Styler) -> Result<CliExit, CommandError> {
    let url = request.url().map_err(CommandError::usage)?;
    if url.protocol == TritonProtocol::Http && !request.knows_http() {
        let hint = format!("give the gRPC port: `{}:8001`", url.host);
        return Err(CommandError::hinted("this works over gRPC only", hint));
    }
    let to = ServerConnection { url, deadline: request.server().1 };
    match request {
        TritonRequest::Status { models, json, .. } => status(&to, &models, json, styler).await,
        TritonRequest::Models { models, json, .. } => {
            let models = facts::models(&to, &models).await?;
            print_as(styler, json, || json!({ "models": models }), |styler| server::models(&models).terminal(styler));
            Ok(CliExit::Done)
        }
        TritonRequest::Infer(request) => infer::infer(&to, &request).await,
        TritonRequest::Metrics { grep, json, .. } => metrics(&to, grep.as_deref(), json, styler).await,
        TritonRequest::Config { model, .. } => {
            let client = to.grpc().await?;
            let config = to.of_model(&client, &model, client.model_config(&model, "")).await?;
            print(&pbtxt::write(&config));
            Ok(CliExit::Done)
        }
        TritonRequest::Load { model, config, .. } => {
            let client = to.grpc().await?;
            to.of_model(&client, &model, client.load(&model, config)).await?;
            print(&format!("`{model}` is loaded\n"));
            Ok(CliExit::Done)
        }
        TritonRequest::Unload { model, dependents, .. } => {
            let client = to.grpc().await?;
            to.of_model(&client, &model, client.unload(&model, dependents)).await?;
            print(&format!("`{model}` is being unloaded; requests in flight will finish\n"));
            Ok(CliExit::Done)
        }
    }
}

async fn status(to: &ServerConnection, models: &[String], json: bool, styler: Styler) -> Result<CliExit, CommandError> {
    let server_status = facts::server(to).await?;
    print_as(styler, json, || &server_status, |styler| server::status(&server_status).terminal(styler));
    let mut fine = server_status.live && server_status.ready;
    for wanted in models {
        let status = server_status.models.iter().find(|model| model.name == *wanted && model.state == "READY");
        if status.is_none() {
            fine = false;
            let hint = did_you_mean(wanted, server_status.models.iter().map(|model| model.name.as_str()));
            let is_there = server_status.models.iter().any(|model| model.name == *wanted);
            let hint = hint.filter(|_| !is_there).map(|hint| format!("; {hint}")).unwrap_or_default();
            print_error(&format!("`{wanted}` is not ready{hint}\n"));
        }
    }
    Ok(if fine { CliExit::Done } else { CliExit::Failed })
}

/// The server that queries go to.
pub(super) struct ServerConnection {
    pub url: TritonUrl,
    pub deadline: std::time::Duration,
}

impl ServerConnection {
    pub async fn grpc(&self) -> Result<TritonClient, CommandError> {
        let host = self.url.host.clone();
        let endpoint = Endpoint { host, grpc: self.url.port, http: None, metrics: None, name: None };
        let client = self.explained(TritonClient::connect(&endpoint).await).await?.deadline(self.deadline);
        // The first call shows whether the other side speaks the same protocol.
        self.explained(client.is_live().await).await?;
        Ok(client)
    }

    pub fn http(&self) -> HttpClient {
        let address = HttpAddress { host: self.url.host.clone(), port: self.url.port };
        HttpClient::new(address).deadline(self.deadline)
    }

    /// The answer to a query, or why there is none.
    pub async fn explained<T>(&self, answer: Result<T, ClientError>) -> Result<T, CommandError> {
        match answer {
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.failed(error).await),
        }
    }

    /// With a hint; reports when the port serves another protocol.
    async fn failed(&self, error: ClientError) -> CommandError {
        let TritonUrl { host, port, protocol: face } = &self.url;
        if matches!(
            error.why,
            ClientErrorKind::Connect { .. } | ClientErrorKind::Protocol(_) | ClientErrorKind::Timeout(_)
        ) {
            let (message, hint) = match (probe(host, *port).await, face) {
                (ListeningService::Http, TritonProtocol::Grpc) => (
                    format!("port {port} is Triton's HTTP port"),
                    Some(format!("write http://{host}:{port}, or give the gRPC port (8001 by default)")),
                ),
                (ListeningService::Grpc, TritonProtocol::Http) => (
                    format!("port {port} is Triton's gRPC port"),
                    Some(format!("write {host}:{port} without http://, or give the HTTP port (8000 by default)")),
                ),
                (ListeningService::Metrics, TritonProtocol::Grpc) => (
                    format!("port {port} is Triton's metrics port"),
                    Some(format!("`regatta triton metrics {host}:{port}` reads it; gRPC is on 8001 by default")),
                ),
                (ListeningService::OtherHttp, TritonProtocol::Grpc) => {
                    (format!("port {port} speaks HTTP, not Triton's gRPC"), None)
                }
                _ => return with_hint(&error, error.hint()),
            };
            return with_hint(format!("{} at {}: {message}", error.request, error.address), hint);
        }
        with_hint(&error, error.hint())
    }

    /// A query about one model: if the model does not exist, lists the existing names.
    pub async fn of_model<T>(
        &self,
        client: &TritonClient,
        model: &str,
        answer: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, CommandError> {
        let error = match answer.await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let unknown = error.server_message().is_some_and(|message| {
            message.contains("unknown model")
                || message.contains("not found")
                || message.contains("failed to poll from model repository")
        });
        let names = if unknown { client.repository_index(false).await.unwrap_or_default() } else { Vec::new() };
        if unknown && !names.iter().any(|name| name.name == model) {
            let hint = did_you_mean(model, names.iter().map(|name| name.name.as_str()));
            return Err(with_hint(&error, hint));
        }
        Err(self.failed(error).await)
    }
}

fn with_hint(message: impl Display, hint: Option<String>) -> CommandError {
    CommandError::Other(ErrorText::new(message).maybe_hint(hint).into())
}

async fn metrics(
    to: &ServerConnection,
    grep: Option<&str>,
    json: bool,
    styler: Styler,
) -> Result<CliExit, CommandError> {
    let mut client = to.http();
    let text = match client.text("/metrics").await {
        Ok(text) => text,
        Err(error) => return Err(explain_wrong_port(to, to.failed(error).await).await),
    };
    let unusable = match Exposition::parse(&text) {
        Ok(exposition) if !exposition.families.is_empty() => {
            let rows = rows(&exposition, grep);
            let count = exposition.samples().count();
            if rows.is_empty() {
                let part = grep.unwrap_or_default();
                return Err(CommandError::Other(anyhow!("none of {count} numbers has `{part}` in its name or labels")));
            }
            let as_json = || json!({ "metrics": rows });
            print_as(styler, json, as_json, |styler| server::metrics(&rows, count).terminal(styler));
            return Ok(CliExit::Done);
        }
        Ok(_) => anyhow!("/metrics is empty"),
        Err(error) => anyhow!("/metrics is not in Prometheus' format: {error}"),
    };
    Err(explain_wrong_port(to, CommandError::Other(unusable)).await)
}

fn rows(exposition: &Exposition, grep: Option<&str>) -> Vec<ServerMetricRow> {
    let mut rows = Vec::new();
    for (family, sample) in exposition.samples() {
        let key = sample.key();
        if grep.is_some_and(|text| !key.contains(text)) {
            continue;
        }
        let part = sample.name.strip_prefix(&family.name).unwrap_or_default().trim_start_matches('_');
        let labels = key.strip_prefix(&sample.name).unwrap_or_default().trim_matches(['{', '}']);
        rows.push(ServerMetricRow {
            family: family.name.clone(),
            help: family.help.clone(),
            kind: format!("{:?}", family.kind).to_lowercase(),
            labels: [part, labels].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" "),
            value: sample.value.to_string(),
        });
    }
    rows
}

/// The wrong port is a likelier error than a broken server.
async fn explain_wrong_port(to: &ServerConnection, error: CommandError) -> CommandError {
    let (host, port) = (&to.url.host, to.url.port);
    let which = match probe(host, port).await {
        ListeningService::Grpc => "gRPC",
        ListeningService::Http => "HTTP",
        _ => return error,
    };
    let message = format!("port {port} of {host} is Triton's {which} port");
    with_hint(message, Some("metrics are on the port of --metrics-port, 8002 by default".to_owned()))
}
