//! Queries servers for their identity.

use std::str::Utf8Error;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;

use super::http::{IdentityClient, NoReply};
use super::{ServerIdentity, kserve, openai};
use crate::transport::sent_headers::SentHeaders;
use crate::{Api, Transport};
use base::event::Endpoint;
use base::spec::RequestHeaders;
use triton::{Exposition, MetricsError};

/// The limit for one answer.
const ANSWER: Duration = Duration::from_secs(3);
/// For all queries to one server.
const ALL: Duration = Duration::from_secs(10);

/// Queries one server, over the measurement's protocol, for its identity. `model` may be empty where the server has only one.
/// Never fails and takes at most 10 s: what is not answered is absent. Each query is sent once, and none changes the server.
pub async fn query_identity(
    endpoint: &Endpoint,
    protocol: &Transport,
    headers: &RequestHeaders,
    model: &str,
) -> ServerIdentity {
    let model_given = (!model.is_empty()).then(|| model.to_owned());
    let mut identity =
        ServerIdentity { address: endpoint.to_string(), model: model_given, ..ServerIdentity::default() };
    // Answers that arrive before the timeout are kept.
    let _ = timeout(ALL, query_all(endpoint, protocol, headers, model, &mut identity)).await;
    identity
}

/// All servers at once, in the order of the endpoints.
pub async fn query_identities(
    endpoints: &[Endpoint],
    protocol: &Transport,
    headers: &RequestHeaders,
    model: &str,
) -> Vec<ServerIdentity> {
    let mut queries = JoinSet::new();
    for (index, endpoint) in endpoints.iter().cloned().enumerate() {
        let (protocol, headers, model) = (protocol.clone(), headers.clone(), model.to_owned());
        queries.spawn(async move { (index, query_identity(&endpoint, &protocol, &headers, &model).await) });
    }
    let unknown = |endpoint: &Endpoint| ServerIdentity { address: endpoint.to_string(), ..ServerIdentity::default() };
    let mut all: Vec<ServerIdentity> = endpoints.iter().map(unknown).collect();
    while let Some(answered) = queries.join_next().await {
        if let Ok((index, identity)) = answered {
            all[index] = identity;
        }
    }
    all
}

async fn query_all(
    endpoint: &Endpoint,
    protocol: &Transport,
    headers: &RequestHeaders,
    model: &str,
    identity: &mut ServerIdentity,
) {
    let mut is_beside = false;
    let metrics = match protocol {
        Transport::Kserve => {
            // Without a value for a header the measurement reports it.
            let Ok(sent) = SentHeaders::new(protocol, headers) else { return };
            kserve::by_grpc(endpoint, &sent, model, ANSWER, identity).await;
            endpoint.metrics.map(|port| IdentityClient::plain(&endpoint.host, port, ANSWER))
        }
        Transport::Http(http) => {
            // A target over HTTP alone has its one port in the place of gRPC's.
            let port = endpoint.http.unwrap_or(endpoint.grpc);
            let Some(asker) = IdentityClient::new(&endpoint.host, port, protocol, headers, ANSWER) else { return };
            match http.api {
                Api::Generate => kserve::by_http(&asker, model, identity).await,
                Api::OpenaiChat | Api::OpenaiCompletions => openai::by_openai(&asker, model, identity).await,
            };
            match (http.api, endpoint.metrics) {
                (_, Some(port)) => Some(IdentityClient::plain(&endpoint.host, port, ANSWER)),
                (Api::Generate, None) => None,
                (Api::OpenaiChat | Api::OpenaiCompletions, None) => {
                    is_beside = true;
                    Some(asker)
                }
            }
        }
    };
    // A server that answered nothing else is not queried for this.
    if let Some(metrics) = metrics.filter(|_| identity.is_known()) {
        let exposition = read_metrics(&metrics).await;
        identity.start_time_seconds = exposition.as_ref().ok().and_then(start_time);
        if is_beside {
            identity.metrics_not_read = match exposition {
                Err(why) => Some(why),
                Ok(_) if metrics.is_secure() => Some(UnreadMetrics::Secure),
                Ok(exposition) if exposition.concerns_serving() => None,
                Ok(_) => Some(UnreadMetrics::OtherSeries),
            }
            .map(|why| why.to_string());
        }
    }
}

/// Why a server's metrics are not in a result.
#[derive(Debug, thiserror::Error)]
enum UnreadMetrics {
    #[error(transparent)]
    NoReply(#[from] NoReply),
    #[error("it is not text")]
    NoText(#[from] Utf8Error),
    #[error(transparent)]
    Malformed(#[from] MetricsError),
    #[error("over TLS they are not polled")]
    Secure,
    #[error("it has no series of vLLM, SGLang or Triton")]
    OtherSeries,
}

async fn read_metrics(metrics: &IdentityClient) -> Result<Exposition, UnreadMetrics> {
    let reply = metrics.query("/metrics").await?;
    Ok(Exposition::parse(std::str::from_utf8(&reply.body)?)?)
}

/// When its process started, as the client libraries of Prometheus report it.
fn start_time(exposition: &Exposition) -> Option<f64> {
    let mut samples = exposition.samples().map(|(_, sample)| sample);
    let value = samples.find(|sample| sample.name == "process_start_time_seconds")?.value.0;
    (value.is_finite() && value > 0.0).then_some(value)
}
