//! Queries servers: for their identity, by `/v1/models` and what each kind of server with OpenAI's interface reports
//! besides, and whether they are ready, in the way in which the requests of the measurement are sent.

use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::identity::client::{IdentityClient, IdentityReply, NoReply, bounded, bounded_value};
use crate::identity::kserve;
use crate::identity::kserve::{SIMULATOR_KIND, mark_simulated, server_by_http};
use crate::transport::http::{listed_models, usual_model};
use crate::{Api, BenchSpec, SentHeaders, ServerIdentity, Transport};
use base::diag::ErrorText;
use base::event::Endpoint;
use base::files::Digest;
use base::spec::RequestHeaders;
use triton::{Exposition, TritonClient};

/// The limit for one answer.
const ANSWER: Duration = Duration::from_secs(3);
/// For all queries to one server.
const ALL: Duration = Duration::from_secs(10);

/// Queries one server, over the measurement's protocol, for its identity. `model` may be empty where the server has
/// only one. Never fails and takes at most 10 s: what is not answered is absent. Each query is sent once, and none
/// changes the server.
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
    let mut servers: Vec<ServerIdentity> = endpoints.iter().map(unknown).collect();
    while let Some(answered) = queries.join_next().await {
        if let Ok((index, identity)) = answered {
            servers[index] = identity;
        }
    }
    servers
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
            let port = endpoint.http_port();
            let Some(asker) = IdentityClient::new(&endpoint.host, port, protocol, headers, ANSWER) else { return };
            match http.api {
                Api::Generate => kserve::by_http(&asker, model, identity).await,
                Api::OpenaiChat | Api::OpenaiCompletions => by_openai(&asker, model, identity).await,
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
                Err(why) => Some(why.message),
                Ok(_) if metrics.is_secure() => Some("over TLS they are not polled".to_owned()),
                Ok(exposition) if exposition.concerns_serving() => None,
                Ok(_) => Some("it has no metrics of vLLM, SGLang or Triton".to_owned()),
            };
        }
    }
}

async fn read_metrics(metrics: &IdentityClient) -> Result<Exposition, ErrorText> {
    let reply = metrics.query("/metrics").await.map_err(ErrorText::new)?;
    let text = std::str::from_utf8(&reply.body).map_err(|_| ErrorText::new("it is not text"))?;
    if text.trim_start().starts_with(['[', '{']) {
        return Err(ErrorText::new("it is JSON, as trtllm-serve has it, and not in the format of Prometheus"));
    }
    Exposition::parse(text)
}

/// When its process started, as the client libraries of Prometheus report it.
fn start_time(exposition: &Exposition) -> Option<f64> {
    let mut samples = exposition.samples().map(|(_, sample)| sample);
    let value = samples.find(|sample| sample.name == "process_start_time_seconds")?.value.0;
    (value.is_finite() && value > 0.0).then_some(value)
}

/// `owned_by` in the servers' own source → kind.
const OWNERS: [(&str, &str); 6] = [
    ("vllm", "vllm"),
    ("sglang", "sglang"),
    ("tensorrt_llm", "trtllm-serve"),
    ("Triton Inference Server", "triton"),
    ("llamacpp", "llama.cpp"),
    (SIMULATOR_KIND, SIMULATOR_KIND),
];

/// Of SGLang's `/server_info`, which lists all arguments of the server, its API keys among them: what decides
/// performance.
const SGLANG_SETTINGS: &str = "attention_backend chunked_prefill_size context_length disable_cuda_graph \
    disable_radix_cache dp_size dtype kv_cache_dtype max_running_requests mem_fraction_static pp_size quantization \
    speculative_algorithm tp_size";

/// Members of `/v1/models` that differ from answer to answer.
const VOLATILE: [&str; 2] = ["created", "permission"];

pub(super) async fn by_openai(asker: &IdentityClient, model: &str, identity: &mut ServerIdentity) -> Option<()> {
    let reply = asker.get("/v1/models").await;
    if let Some(reply) = &reply {
        identity.http_server.clone_from(&reply.server);
    }
    if let Some(listed) = reply.as_ref().and_then(IdentityReply::json) {
        model_is(&listed, model, identity);
    }
    match identity.kind.as_deref() {
        Some(SIMULATOR_KIND) => server_by_http(asker, identity).await,
        Some("sglang") => sglang(asker, identity).await,
        Some("triton") => None,
        Some("llama.cpp") => {
            identity.version = bounded(asker.get("/props").await?.json()?["build_info"].as_str()?);
            None
        }
        // vLLM and trtllm-serve have it; of other servers it gives the version, not the product.
        _ => {
            let reply = asker.get("/version").await?;
            identity.http_server = identity.http_server.take().or(reply.server.clone());
            identity.version = bounded(reply.json()?["version"].as_str()?);
            Some(())
        }
    }
}

/// The entry of the model that is measured.
fn model_is(listed: &Value, model: &str, identity: &mut ServerIdentity) {
    let models = listed_models(listed);
    let named = models.iter().find(|entry| entry["id"] == model);
    let usual = || usual_model(models).filter(|_| model.is_empty() || models.len() == 1);
    let Some(entry) = named.or_else(usual) else { return };
    identity.model = entry["id"].as_str().and_then(bounded);
    let owner = entry["owned_by"].as_str().unwrap_or_default();
    match OWNERS.iter().find(|(name, _)| *name == owner) {
        // A gateway may pass on nothing else of it.
        Some((_, kind)) if *kind == SIMULATOR_KIND => {
            mark_simulated(entry["speed"].as_f64(), entry["step_times"].as_str(), identity);
        }
        Some((_, kind)) => identity.kind = Some((*kind).to_owned()),
        None => {
            // Reported by a proxy or an unknown server.
            if let Some(owner) = bounded(owner) {
                identity.settings.insert("owned_by".to_owned(), owner);
            }
        }
    }
    identity.model_source = entry["root"].as_str().and_then(bounded);
    identity.max_model_len = entry["max_model_len"].as_u64();
    let mut lasting = entry.clone();
    if let Some(members) = lasting.as_object_mut() {
        members.retain(|name, _| !VOLATILE.contains(&name.as_str()));
        members.sort_keys();
    }
    identity.metadata_digest = Some(Digest::hash(lasting.to_string().as_bytes()).to_string());
}

async fn sglang(asker: &IdentityClient, identity: &mut ServerIdentity) -> Option<()> {
    // The second name is the older one.
    let mut info = None;
    for path in ["/server_info", "/get_server_info"] {
        info = match asker.get(path).await {
            Some(reply) => reply.json(),
            None => None,
        };
        if info.is_some() {
            break;
        }
    }
    let info = info?;
    identity.version = info["version"].as_str().and_then(bounded);
    if let Some(source) = info["model_path"].as_str().and_then(bounded) {
        identity.model_source = Some(source);
    }
    let settings = SGLANG_SETTINGS.split(' ').filter_map(|name| Some((name.to_owned(), bounded_value(&info[name])?)));
    identity.settings.extend(settings);
    Some(())
}

/// The limit for one answer: a server that accepts and does not answer is not ready.
const READY_ANSWER: Duration = Duration::from_secs(5);

/// Queries a server once. What else is wrong, and what a server does not have, is for the measurement to report.
///
/// # Errors
/// It is not ready.
pub async fn readiness(endpoint: &Endpoint, spec: &BenchSpec) -> Result<(), ErrorText> {
    let Ok(sent) = SentHeaders::of_run(spec) else { return Ok(()) };
    let Transport::Http(http) = &spec.protocol else { return over_grpc(endpoint, &sent, &spec.model).await };
    let port = endpoint.http_port();
    let client = IdentityClient::new(&endpoint.host, port, &spec.protocol, &spec.request.headers, READY_ANSWER);
    let Some(client) = client else { return Ok(()) };
    let models = http.models_path();
    let paths = match http.api {
        Api::Generate => ["/v2/health/ready".to_owned(), format!("/v2/models/{}/ready", spec.model)],
        Api::OpenaiChat | Api::OpenaiCompletions => {
            ["/health".to_owned(), models.strip_prefix(&client.prefix).unwrap_or(&models).to_owned()]
        }
    };
    for path in paths {
        match client.query(&path).await {
            // What servers and gateways answer while an engine loads, and Triton's negative answer.
            Err(NoReply::Status(status @ (400 | 500 | 502..=504))) if status != 400 || http.api == Api::Generate => {
                return Err(ErrorText::new(format_args!("{path}: HTTP status {status}")));
            }
            Err(error @ (NoReply::Connect(_) | NoReply::Late(_) | NoReply::Unreadable(_))) => {
                return Err(ErrorText::new(error));
            }
            Ok(_) | Err(NoReply::Status(_) | NoReply::Redirected(_) | NoReply::Redirects) => {}
        }
    }
    Ok(())
}

async fn over_grpc(endpoint: &Endpoint, sent: &SentHeaders, model: &str) -> Result<(), ErrorText> {
    let connected = timeout(READY_ANSWER, TritonClient::connect_with(endpoint, sent.map())).await;
    let late = |_| ErrorText::new(format_args!("no connection within {} s", READY_ANSWER.as_secs()));
    let client = connected.map_err(late)?.map_err(|error| ErrorText::new(error.why))?.deadline(READY_ANSWER);
    for answer in [client.is_ready().await, client.is_model_ready(model, "").await] {
        match answer {
            Ok(true) => {}
            Ok(false) => return Err(ErrorText::new("the server answers that it is not ready")),
            Err(error) if error.code() == Some(tonic::Code::Unimplemented) => {}
            Err(error) => return Err(ErrorText::new(sent.hide(error.call_and_why()))),
        }
    }
    Ok(())
}
