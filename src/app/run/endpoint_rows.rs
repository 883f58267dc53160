//! What is printed of a server that is up: its addresses by protocol, its model, and the target of a benchmark.

use std::time::Duration;

use tokio::time::timeout;

use base::event::Endpoint;
use plan::manifest::model::Serve;
use plan::{Plan, Task};
use report::EndpointRow;
use runner::KeptService;
use triton::TritonClient;

/// A server that is ready lists its models at once; one that does not has none to name.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);
/// The model that `regatta bench` takes by default.
const MODEL: &str = "tensorrt_llm";

/// What a server speaks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Interface {
    Kserve,
    OpenAi,
    /// Only its port is known.
    Unknown,
}

/// A row for each server of these services.
pub(super) async fn endpoint_rows(plan: &Plan, services: &[KeptService]) -> Vec<EndpointRow> {
    let mut rows = Vec::new();
    for service in services {
        let interface = interface(plan, service);
        for (index, endpoint) in service.endpoints.iter().enumerate() {
            rows.push(EndpointRow { task: service.task.to_string(), server: index, ..row(endpoint, interface).await });
        }
    }
    rows
}

fn interface(plan: &Plan, service: &KeptService) -> Interface {
    let task = plan.tasks.iter().find(|task| task.id == service.task);
    match task.and_then(Task::serve) {
        Some(Serve::TrtllmServe(_) | Serve::Vllm(_)) => Interface::OpenAi,
        Some(Serve::Command(server)) => match server.ready.by.as_str() {
            "health" => Interface::OpenAi,
            "kserve" => Interface::Kserve,
            _ => Interface::Unknown,
        },
        _ => Interface::Kserve,
    }
}

async fn row(endpoint: &Endpoint, interface: Interface) -> EndpointRow {
    let at = |port: Option<u16>| port.map(|port| endpoint.at_port(port));
    let address = endpoint.to_string();
    let row = EndpointRow { host: endpoint.name.clone(), metrics: at(endpoint.metrics), ..EndpointRow::default() };
    match interface {
        Interface::OpenAi => EndpointRow { bench: format!("openai://{address}"), http: Some(address), ..row },
        Interface::Unknown => EndpointRow { bench: address.clone(), grpc: Some(address), ..row },
        Interface::Kserve => EndpointRow {
            model: model(endpoint).await,
            http: at(endpoint.http),
            bench: address.clone(),
            grpc: Some(address),
            ..row
        },
    }
}

/// The model to benchmark: the usual one, else the first that is ready.
async fn model(endpoint: &Endpoint) -> Option<String> {
    let index = async { TritonClient::connect(endpoint).await?.repository_index(true).await };
    let models = timeout(QUERY_TIMEOUT, index).await.ok()?.ok()?;
    let names: Vec<String> = models.into_iter().map(|model| model.name).collect();
    let usual = names.iter().find(|name| *name == MODEL);
    usual.or(names.first()).cloned()
}
