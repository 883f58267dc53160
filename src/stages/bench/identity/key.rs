//! What servers are that a run does not start, as facts of a key: so that a result is kept only as long as they are the same.

use std::collections::BTreeMap;

use serde_json::Value;

use super::engines;
use crate::bench::spec;
use crate::bench::telemetry::is_here;
use base::event::Endpoint;
use base::spec::RequestHeaders;
use harness::{ServerIdentity, Transport};
use plan::manifest::targets;
use plan::{PlanReference, Task};
use runner::OpenFact;

/// One fact for each thing that a server reports: `host:port version` → `0.11.2`. Empty unless the task's result is kept
/// although its servers are not started by the run. Blocks until all of them have answered or the time limit is reached. Sends the
/// keys that the benchmark names, so no plan may call it.
pub fn facts(task: &Task) -> BTreeMap<String, String> {
    let endpoints = queried_servers(task);
    if endpoints.is_empty() {
        return BTreeMap::new();
    }
    let (protocol, headers, model) = queried_as(task, endpoints).unwrap_or_default();
    // A runtime of its own on a thread of its own: keys are made inside and outside of the run's.
    let identity = std::thread::scope(|scope| {
        let query = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
            Some(runtime.block_on(identity_facts(endpoints, &protocol, &headers, &model)))
        };
        scope.spawn(query).join().ok().flatten()
    });
    identity.unwrap_or_else(|| BTreeMap::from([("servers".to_owned(), "could not be queried".to_owned())]))
}

/// What only a run knows of the servers.
pub fn open_facts(task: &Task) -> Vec<OpenFact> {
    let condition = |server: &Endpoint| format!("{server} is still the same server, which only a run queries");
    let open = |server: &Endpoint| OpenFact { names: format!("{server} "), condition: condition(server) };
    queried_servers(task).iter().map(open).collect()
}

/// The servers of a task whose result is kept although the run does not start them.
fn queried_servers(task: &Task) -> &[Endpoint] {
    if task.cache { task.external_servers() } else { &[] }
}

/// The protocol, headers and model of a benchmark.
type QueryForm = (Transport, RequestHeaders, String);

/// Of a benchmark. Other stages are commands; their servers are queried over KServe.
fn queried_as(task: &Task, endpoints: &[Endpoint]) -> Option<QueryForm> {
    let bench = task.bench()?;
    let servers: Vec<String> = endpoints.iter().map(ToString::to_string).collect();
    let servers = servers.join("|");
    let target = PlanReference::replace_in(&bench.target, |reference| match reference {
        PlanReference::Service(_) => Some(servers.clone()),
        other => Some(other.token()),
    });
    let targets = targets(&target.ok()?).ok()?;
    let protocol = spec::protocol(bench, &targets, std::path::Path::new("")).ok()?;
    Some((protocol, bench.request.headers.clone(), targets.model.unwrap_or_else(|| bench.model.clone())))
}

async fn identity_facts(
    endpoints: &[Endpoint],
    protocol: &Transport,
    headers: &RequestHeaders,
    model: &str,
) -> BTreeMap<String, String> {
    let servers = harness::query_identities(endpoints, protocol, headers, model).await;
    let mut facts = BTreeMap::new();
    for (server, endpoint) in servers.iter().zip(endpoints) {
        put(server, &mut facts);
        if is_here(&endpoint.host).await
            && let Some(engine) = engines::key_of(server)
        {
            facts.insert(format!("{} engine", server.address), engine);
        }
    }
    facts
}

/// Texts as they are, other values as JSON.
fn put(server: &ServerIdentity, facts: &mut BTreeMap<String, String>) {
    let Ok(Value::Object(fields)) = serde_json::to_value(server) else { return };
    for (name, value) in
        fields.into_iter().filter(|(name, _)| !["address", "host", "metrics_not_read"].contains(&name.as_str()))
    {
        let text = match value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        facts.insert(format!("{} {}", server.address, name.replace('_', " ")), text);
    }
}
