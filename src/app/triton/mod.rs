//! `regatta triton …`: queries to a server, for people.

mod facts;
mod infer;
mod metrics;

use std::collections::BTreeMap;
use std::future::Future;

use anyhow::anyhow;

use super::{Trouble, say};
use crate::cli::{CliExit, GivenSetting, Global, Triton, TritonAct, TritonFace, TritonUrl};
use crate::diag::did_you_mean;
use crate::event::Endpoint;
use crate::report::{Styler, server};
use crate::triton::{
    ClientError, ClientErrorKind, HttpAddress, HttpClient, Listens, LoadOptions, LogSetting, TritonClient, pbtxt, probe,
};

pub(super) fn ask(global: &Global, request: Triton) -> Result<CliExit, Trouble> {
    let paint = Styler::chosen(global.color.choice());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(perform(request, paint))
}

async fn perform(request: Triton, paint: Styler) -> Result<CliExit, Trouble> {
    let Triton { url, deadline, act } = request;
    let to = To { url, deadline };
    match act {
        TritonAct::Status { models, json } => status(&to, &models, json, paint).await,
        TritonAct::Models { models, json } => {
            let told = facts::models(&to, &models).await?;
            say(&if json {
                format!("{:#}\n", serde_json::json!({ "models": told }))
            } else {
                server::models(&told, paint)
            });
            Ok(CliExit::Done)
        }
        TritonAct::Infer(request) => infer::infer(&to, &request, paint).await,
        TritonAct::Metrics { grep, watch, json } => metrics::metrics(&to, grep.as_deref(), watch, json, paint).await,
        TritonAct::Config { model } => {
            let client = to.grpc().await?;
            let config = to.of_model(&client, &model, client.model_config(&model, "")).await?;
            say(&pbtxt::write(&config));
            Ok(CliExit::Done)
        }
        TritonAct::Statistics { model, json } => statistics(&to, model.as_deref().unwrap_or_default(), json).await,
        TritonAct::Load { model, config } => {
            let client = to.grpc().await?;
            let options = LoadOptions { config, ..LoadOptions::default() };
            to.of_model(&client, &model, client.load(&model, options)).await?;
            say(&format!("`{model}` is loaded\n"));
            Ok(CliExit::Done)
        }
        TritonAct::Unload { model, dependents } => {
            let client = to.grpc().await?;
            to.of_model(&client, &model, client.unload(&model, dependents)).await?;
            say(&format!("`{model}` is being unloaded; what is in flight finishes\n"));
            Ok(CliExit::Done)
        }
        TritonAct::Log { set } => log(&to, &set).await,
        TritonAct::Trace { model, set } => trace(&to, model.as_deref().unwrap_or_default(), &set).await,
    }
}

/// The server that queries go to.
struct To {
    url: TritonUrl,
    deadline: std::time::Duration,
}

impl To {
    async fn grpc(&self) -> Result<TritonClient, Trouble> {
        let host = self.url.host.clone();
        let endpoint = Endpoint { host, grpc: self.url.port, http: None, metrics: None, name: None };
        let client = match TritonClient::connect(&endpoint).await {
            Ok(client) => client.deadline(self.deadline),
            Err(error) => return Err(self.failed(error).await),
        };
        // The first call shows whether the other side speaks the same protocol.
        match client.is_live().await {
            Ok(_) => Ok(client),
            Err(error) => Err(self.failed(error).await),
        }
    }

    fn http(&self) -> HttpClient {
        let address = HttpAddress { host: self.url.host.clone(), port: self.url.port };
        HttpClient::new(address).deadline(self.deadline)
    }

    /// With a hint; reports when the port serves another protocol.
    async fn failed(&self, error: ClientError) -> Trouble {
        let TritonUrl { host, port, face } = &self.url;
        if matches!(error.why, ClientErrorKind::Connect(_) | ClientErrorKind::Protocol(_) | ClientErrorKind::Late(_)) {
            let there = match (probe(host, *port).await, face) {
                (Listens::Http, TritonFace::Grpc) => Some(format!(
                    "port {port} is Triton's HTTP port\n  hint: write http://{host}:{port}, or give the gRPC port (8001 by default)"
                )),
                (Listens::Grpc, TritonFace::Http) => Some(format!(
                    "port {port} is Triton's gRPC port\n  hint: write {host}:{port} without http://, or give the HTTP port (8000 by default)"
                )),
                (Listens::Metrics, TritonFace::Grpc) => Some(format!(
                    "port {port} is Triton's metrics port\n  hint: `regatta triton metrics {host}:{port}` reads it; gRPC is on 8001 by default"
                )),
                (Listens::OtherHttp, TritonFace::Grpc) => {
                    Some(format!("something answers on port {port} that is no Triton: it speaks HTTP"))
                }
                _ => None,
            };
            if let Some(there) = there {
                return Trouble::Other(anyhow!("{} at {}: {there}", error.asked, error.address));
            }
        }
        with_hint(&error, error.hint())
    }

    /// A query about one model: when there is no such model, lists the existing names.
    async fn of_model<T>(
        &self,
        client: &TritonClient,
        model: &str,
        answer: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, Trouble> {
        let error = match answer.await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let unknown = error.said().is_some_and(|said| {
            said.contains("unknown model")
                || said.contains("not found")
                || said.contains("failed to poll from model repository")
        });
        let names = if unknown { client.repository_index(false).await.unwrap_or_default() } else { Vec::new() };
        if unknown && !names.iter().any(|known| known.name == model) {
            let hint = did_you_mean(model, names.iter().map(|known| known.name.as_str()));
            return Err(with_hint(&error, hint));
        }
        Err(self.failed(error).await)
    }
}

fn with_hint(error: &ClientError, hint: Option<String>) -> Trouble {
    Trouble::Other(match hint {
        Some(hint) => anyhow!("{error}\n  hint: {hint}"),
        None => anyhow!("{error}"),
    })
}

async fn status(to: &To, models: &[String], json: bool, paint: Styler) -> Result<CliExit, Trouble> {
    let told = facts::server(to).await?;
    say(&if json { format!("{:#}\n", serde_json::json!(told)) } else { server::status(&told, paint) });
    let mut fine = told.live && told.ready;
    for wanted in models {
        let known = told.models.iter().find(|model| model.name == *wanted && model.state == "READY");
        if known.is_none() {
            fine = false;
            let hint = did_you_mean(wanted, told.models.iter().map(|model| model.name.as_str()));
            let is_there = told.models.iter().any(|model| model.name == *wanted);
            let hint = hint.filter(|_| !is_there).map(|hint| format!("; {hint}")).unwrap_or_default();
            super::say_error(&format!("`{wanted}` is not ready{hint}\n"));
        }
    }
    Ok(if fine { CliExit::Done } else { CliExit::Failed })
}

async fn statistics(to: &To, model: &str, json: bool) -> Result<CliExit, Trouble> {
    let client = to.grpc().await?;
    let all = to.of_model(&client, model, client.statistics(model, "")).await?;
    let rows: Vec<serde_json::Value> = all
        .iter()
        .map(|one| {
            let inference = one.inference_stats.unwrap_or_default();
            let count = |duration: &Option<crate::triton::proto::inference::StatisticDuration>| {
                duration
                    .as_ref()
                    .map_or((0, 0.0), |d| (d.count, if d.count > 0 { d.ns as f64 / d.count as f64 / 1e6 } else { 0.0 }))
            };
            let (ok, ok_ms) = count(&inference.success);
            let (failed, _) = count(&inference.fail);
            let (_, queue_ms) = count(&inference.queue);
            let (_, infer_ms) = count(&inference.compute_infer);
            serde_json::json!({
                "model": one.name, "version": one.version, "success": ok, "fail": failed,
                "inferences": one.inference_count, "executions": one.execution_count,
                "mean_success_ms": ok_ms, "mean_queue_ms": queue_ms, "mean_compute_infer_ms": infer_ms,
            })
        })
        .collect();
    if json {
        say(&format!("{:#}\n", serde_json::json!({ "models": rows })));
        return Ok(CliExit::Done);
    }
    let line = |row: &serde_json::Value| {
        let field = |name: &str| row[name].as_f64().unwrap_or_default();
        format!(
            "{} {}: {} ok, {} failed; {} inferences in {} executions; mean success {:.2} ms, queue {:.3} ms, compute {:.2} ms\n",
            row["model"].as_str().unwrap_or_default(),
            row["version"].as_str().unwrap_or_default(),
            field("success"),
            field("fail"),
            field("inferences"),
            field("executions"),
            field("mean_success_ms"),
            field("mean_queue_ms"),
            field("mean_compute_infer_ms"),
        )
    };
    let text: Vec<String> = rows.iter().map(line).collect();
    let text = text.concat();
    say(&format!(
        "{text}as the server counts: of a decoupled model, cancelled and failed requests are successes too\n"
    ));
    Ok(CliExit::Done)
}

async fn log(to: &To, set: &[GivenSetting]) -> Result<CliExit, Trouble> {
    let client = to.grpc().await?;
    let set: BTreeMap<String, LogSetting> = set
        .iter()
        .map(|GivenSetting { key, value }| {
            let value = match (value.parse::<bool>(), value.parse::<u32>()) {
                (Ok(flag), _) => LogSetting::Flag(flag),
                (_, Ok(number)) => LogSetting::Number(number),
                _ => LogSetting::Text(value.clone()),
            };
            (key.clone(), value)
        })
        .collect();
    let told = to.of_model(&client, "", client.log_settings(set)).await?;
    let lines: Vec<String> = told
        .iter()
        .map(|(name, value)| match value {
            LogSetting::Flag(flag) => format!("{name}={flag}\n"),
            LogSetting::Number(number) => format!("{name}={number}\n"),
            LogSetting::Text(text) => format!("{name}={text}\n"),
        })
        .collect();
    say(&lines.concat());
    Ok(CliExit::Done)
}

async fn trace(to: &To, model: &str, set: &[GivenSetting]) -> Result<CliExit, Trouble> {
    let client = to.grpc().await?;
    let set: BTreeMap<String, Vec<String>> = set
        .iter()
        .map(|GivenSetting { key, value }| (key.clone(), value.split(',').map(str::to_owned).collect()))
        .collect();
    let told = to.of_model(&client, model, client.trace_settings(model, set)).await?;
    let lines: Vec<String> = told.iter().map(|(name, values)| format!("{name}={}\n", values.join(","))).collect();
    say(&lines.concat());
    Ok(CliExit::Done)
}
