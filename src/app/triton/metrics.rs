//! `regatta triton metrics`: `/metrics` in a table, once or repeatedly.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::connection::ServerConnection;
use crate::cli::CliExit;
use crate::console::print;
use crate::error::CommandError;
use anyhow::anyhow;
use base::diag::ErrorText;
use report::{ServerMetricRow, Styler, server};
use triton::{Exposition, ListeningService, MetricKind, probe};

pub(super) async fn metrics(
    to: &ServerConnection,
    grep: Option<&str>,
    watch: Option<Duration>,
    json: bool,
    paint: Styler,
) -> Result<CliExit, CommandError> {
    let mut client = to.http();
    let mut before: Option<(Instant, HashMap<String, f64>)> = None;
    loop {
        let at = Instant::now();
        let text = match client.text("/metrics").await {
            Ok(text) => text,
            Err(error) => return Err(explain_wrong_port(to, to.failed(error).await).await),
        };
        let exposition = match Exposition::parse(&text) {
            Ok(exposition) if !exposition.families.is_empty() => exposition,
            Ok(_) => return Err(explain_wrong_port(to, CommandError::Other(anyhow!("/metrics is empty"))).await),
            Err(error) => {
                return Err(explain_wrong_port(
                    to,
                    CommandError::Other(anyhow!("/metrics is not in Prometheus' format: {error}")),
                )
                .await);
            }
        };
        let now: HashMap<String, f64> =
            exposition.samples().map(|(_, sample)| (sample.key(), sample.value.0)).collect();
        let rows = rows(&exposition, grep, |key, value| {
            let (then, values) = before.as_ref()?;
            let time = at.duration_since(*then).as_secs_f64();
            values.get(key).map(|old| (value - old) / time)
        });
        if rows.is_empty() {
            let what = grep.unwrap_or_default();
            return Err(CommandError::Other(anyhow!(
                "none of {} numbers has `{what}` in its name or labels",
                now.len()
            )));
        }
        print(&if json {
            // One line for each scrape, so that a reader can take them one by one.
            if watch.is_some() {
                format!("{}\n", serde_json::json!({ "metrics": rows }))
            } else {
                format!("{:#}\n", serde_json::json!({ "metrics": rows }))
            }
        } else {
            server::metrics(&rows, now.len(), paint)
        });
        let Some(pause) = watch else { return Ok(CliExit::Done) };
        before = Some((at, now));
        if !json {
            print("\n");
        }
        tokio::time::sleep(pause.saturating_sub(at.elapsed())).await;
    }
}

fn rows(exposition: &Exposition, grep: Option<&str>, rate: impl Fn(&str, f64) -> Option<f64>) -> Vec<ServerMetricRow> {
    let mut rows = Vec::new();
    for (family, sample) in exposition.samples() {
        let key = sample.key();
        if grep.is_some_and(|text| !key.contains(text)) {
            continue;
        }
        let part = sample.name.strip_prefix(&family.name).unwrap_or_default().trim_start_matches('_');
        let labels = key.strip_prefix(&sample.name).unwrap_or_default().trim_matches(['{', '}']);
        let counts = family.kind == MetricKind::Counter || !part.is_empty();
        rows.push(ServerMetricRow {
            family: family.name.clone(),
            help: family.help.clone(),
            kind: format!("{:?}", family.kind).to_lowercase(),
            labels: [part, labels].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" "),
            value: sample.value.to_string(),
            per_second: if counts { rate(&key, sample.value.0) } else { None },
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
    CommandError::Other(
        ErrorText::new(format!("port {port} of {host} is Triton's {which} port"))
            .hint("metrics are on the port of --metrics-port, 8002 by default")
            .into(),
    )
}
