//! `regatta triton …`: queries to a server, for people.

mod connection;
mod facts;
mod infer;
mod metrics;

use std::collections::BTreeMap;

use self::connection::ServerConnection;
use crate::cli::{CliExit, Global, KeyValueArg, TritonAction, TritonRequest};
use crate::console::{print, print_error};
use crate::error::CommandError;
use base::diag::did_you_mean;
use report::{Styler, server};
use triton::{LoadOptions, LogSetting, pbtxt};

pub(super) fn run_command(global: &Global, request: TritonRequest) -> Result<CliExit, CommandError> {
    let styler = Styler::chosen(global.color.choice());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(perform(request, styler))
}

async fn perform(request: TritonRequest, styler: Styler) -> Result<CliExit, CommandError> {
    let TritonRequest { url, deadline, act } = request;
    let to = ServerConnection { url, deadline };
    match act {
        TritonAction::Status { models, json } => status(&to, &models, json, styler).await,
        TritonAction::Models { models, json } => {
            let models = facts::models(&to, &models).await?;
            print(&if json {
                format!("{:#}\n", serde_json::json!({ "models": models }))
            } else {
                server::models(&models, styler)
            });
            Ok(CliExit::Done)
        }
        TritonAction::Infer(request) => infer::infer(&to, &request, styler).await,
        TritonAction::Metrics { grep, watch, json } => {
            metrics::metrics(&to, grep.as_deref(), watch, json, styler).await
        }
        TritonAction::Config { model } => {
            let client = to.grpc().await?;
            let config = to.of_model(&client, &model, client.model_config(&model, "")).await?;
            print(&pbtxt::write(&config));
            Ok(CliExit::Done)
        }
        TritonAction::Statistics { model, json } => statistics(&to, model.as_deref().unwrap_or_default(), json).await,
        TritonAction::Load { model, config } => {
            let client = to.grpc().await?;
            let options = LoadOptions { config, ..LoadOptions::default() };
            to.of_model(&client, &model, client.load(&model, options)).await?;
            print(&format!("`{model}` is loaded\n"));
            Ok(CliExit::Done)
        }
        TritonAction::Unload { model, dependents } => {
            let client = to.grpc().await?;
            to.of_model(&client, &model, client.unload(&model, dependents)).await?;
            print(&format!("`{model}` is being unloaded; what is in flight finishes\n"));
            Ok(CliExit::Done)
        }
        TritonAction::Log { set } => log(&to, &set).await,
        TritonAction::Trace { model, set } => trace(&to, model.as_deref().unwrap_or_default(), &set).await,
    }
}

async fn status(to: &ServerConnection, models: &[String], json: bool, styler: Styler) -> Result<CliExit, CommandError> {
    let server_status = facts::server(to).await?;
    print(&if json {
        format!("{:#}\n", serde_json::json!(server_status))
    } else {
        server::status(&server_status, styler)
    });
    let mut fine = server_status.live && server_status.ready;
    for wanted in models {
        let known = server_status.models.iter().find(|model| model.name == *wanted && model.state == "READY");
        if known.is_none() {
            fine = false;
            let hint = did_you_mean(wanted, server_status.models.iter().map(|model| model.name.as_str()));
            let is_there = server_status.models.iter().any(|model| model.name == *wanted);
            let hint = hint.filter(|_| !is_there).map(|hint| format!("; {hint}")).unwrap_or_default();
            print_error(&format!("`{wanted}` is not ready{hint}\n"));
        }
    }
    Ok(if fine { CliExit::Done } else { CliExit::Failed })
}

async fn statistics(to: &ServerConnection, model: &str, json: bool) -> Result<CliExit, CommandError> {
    let client = to.grpc().await?;
    let all = to.of_model(&client, model, client.statistics(model, "")).await?;
    let rows: Vec<serde_json::Value> = all
        .iter()
        .map(|one| {
            let inference = one.inference_stats.unwrap_or_default();
            let count = |duration: &Option<triton::proto::inference::StatisticDuration>| {
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
        print(&format!("{:#}\n", serde_json::json!({ "models": rows })));
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
    print(&format!(
        "{text}as the server counts: of a decoupled model, cancelled and failed requests are successes too\n"
    ));
    Ok(CliExit::Done)
}

async fn log(to: &ServerConnection, set: &[KeyValueArg]) -> Result<CliExit, CommandError> {
    let client = to.grpc().await?;
    let set: BTreeMap<String, LogSetting> = set
        .iter()
        .map(|KeyValueArg { key, value }| {
            let value = match (value.parse::<bool>(), value.parse::<u32>()) {
                (Ok(flag), _) => LogSetting::Flag(flag),
                (_, Ok(number)) => LogSetting::Number(number),
                _ => LogSetting::Text(value.clone()),
            };
            (key.clone(), value)
        })
        .collect();
    let settings = to.of_model(&client, "", client.log_settings(set)).await?;
    let lines: Vec<String> = settings
        .iter()
        .map(|(name, value)| match value {
            LogSetting::Flag(flag) => format!("{name}={flag}\n"),
            LogSetting::Number(number) => format!("{name}={number}\n"),
            LogSetting::Text(text) => format!("{name}={text}\n"),
        })
        .collect();
    print(&lines.concat());
    Ok(CliExit::Done)
}

async fn trace(to: &ServerConnection, model: &str, set: &[KeyValueArg]) -> Result<CliExit, CommandError> {
    let client = to.grpc().await?;
    let set: BTreeMap<String, Vec<String>> = set
        .iter()
        .map(|KeyValueArg { key, value }| (key.clone(), value.split(',').map(str::to_owned).collect()))
        .collect();
    let settings = to.of_model(&client, model, client.trace_settings(model, set)).await?;
    let lines: Vec<String> = settings.iter().map(|(name, values)| format!("{name}={}\n", values.join(","))).collect();
    print(&lines.concat());
    Ok(CliExit::Done)
}
