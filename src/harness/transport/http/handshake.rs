//! The requests before a run over HTTP: is the server there, is the model there, which fields does it take?

use std::time::{Duration, Instant};

use serde_json::Value;

use super::attempt::get;
use super::pool::ConnectionPool;
use super::request_template::{HttpRequestTemplate, ServerModelInfo, headers};
use crate::spec::transport::{Api, Http, USUAL_MODELS_PATH};
use crate::transport::connection::{ConnectError, HandshakeError};
use crate::transport::sent_headers::SentHeaders;
use crate::{BenchSpec, HarnessError, TransportFailure};
use base::spec::is_secret_header;

/// How long its HTTP port may stay closed.
const PORT_TIMEOUT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(50);

/// A server without these endpoints is accepted without a check; its first answer shows whether it works.
pub(crate) async fn handshake(
    pool: &ConnectionPool,
    spec: &BenchSpec,
    http: &Http,
) -> Result<HttpRequestTemplate, HarnessError> {
    let endpoint = pool.authority();
    let absent = |error: HandshakeError| HarnessError::Connect {
        endpoint: endpoint.clone(),
        source: TransportFailure::new(error),
    };
    let model = |error: HandshakeError| {
        let endpoint = endpoint.clone();
        if matches!(error, HandshakeError::Access { .. }) {
            return HarnessError::Access { endpoint, source: TransportFailure::new(error) };
        }
        HarnessError::Model { endpoint, model: spec.model.clone(), source: TransportFailure::new(error) }
    };
    let sent = SentHeaders::of_run(spec)?;
    let asker = HandshakeClient { pool, headers: headers(&sent, false), sent: &sent, patience: spec.stall_timeout };
    await_port(pool).await.map_err(|error| absent(error.into()))?;
    let offered = match http.api {
        Api::Generate => {
            let (status, _) = asker.get("/v2/health/ready").await.map_err(absent)?;
            // A proxy may have no such path; a Triton that is not ready returns 400 or 503.
            if matches!(status, 400 | 503) {
                return Err(absent(HandshakeError::HealthStatus { status }));
            }
            triton(&asker, spec).await.map_err(model)?
        }
        Api::OpenaiChat | Api::OpenaiCompletions => openai(&asker, spec, http).await.map_err(model)?,
    };
    HttpRequestTemplate::new(spec, http, &offered, &sent).map_err(|source| HarnessError::Request {
        endpoint: endpoint.clone(),
        model: offered.model,
        source,
    })
}

/// A Triton opens its HTTP port a moment after the gRPC port, on which it already reports ready.
async fn await_port(pool: &ConnectionPool) -> Result<(), ConnectError> {
    let begun = Instant::now();
    loop {
        match pool.warm(1).await {
            Err(_) if begun.elapsed() < PORT_TIMEOUT => tokio::time::sleep(PAUSE).await,
            ended => return ended,
        }
    }
}

struct HandshakeClient<'a> {
    pool: &'a ConnectionPool,
    headers: String,
    sent: &'a SentHeaders,
    patience: Duration,
}

impl HandshakeClient<'_> {
    async fn get(&self, path: &str) -> Result<(u16, Value), HandshakeError> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{}\r\n", self.pool.authority(), self.headers);
        let answer = tokio::time::timeout(self.patience, get(self.pool, &request)).await;
        let (status, body) = answer
            .map_err(|_| HandshakeError::Late { what: path.to_owned(), patience: self.patience })?
            .map_err(|error| HandshakeError::Query { path: path.to_owned(), error })?;
        let mut value = serde_json::from_str(&String::from_utf8_lossy(&body)).unwrap_or(Value::Null);
        self.sent.hide_in_value(&mut value);
        Ok((status, value))
    }
}

async fn openai(asker: &HandshakeClient<'_>, spec: &BenchSpec, http: &Http) -> Result<ServerModelInfo, HandshakeError> {
    let mut path = http.models_path();
    let (mut status, mut list) = asker.get(&path).await?;
    // A server may have its completions elsewhere than the rest.
    if status == 404 && spec.model.is_empty() && path != USUAL_MODELS_PATH {
        USUAL_MODELS_PATH.clone_into(&mut path);
        (status, list) = asker.get(&path).await?;
    }
    if matches!(status, 401 | 403) {
        let secret = spec.request.headers.0.keys().find(|name| is_secret_header(name));
        let cause = match (secret, &http.api_key_env) {
            (Some(name), _) => format!("it does not accept the value of the header {name}"),
            (None, Some(variable)) => format!("it does not accept the key in the environment variable {variable}"),
            (None, None) => "the key is named with `api_key_env`, one of another header with `request.headers`".into(),
        };
        return Err(HandshakeError::Access { path, status, cause });
    }
    let names: Vec<&str> =
        list["data"].as_array().into_iter().flatten().filter_map(|model| model["id"].as_str()).collect();
    let model = match names.as_slice() {
        _ if !spec.model.is_empty() && (names.is_empty() || names.contains(&spec.model.as_str())) => spec.model.clone(),
        [only] if spec.model.is_empty() => (*only).to_owned(),
        [] => return Err(HandshakeError::NoModelNamed { path, status }),
        _ => {
            let names = names.into_iter().map(str::to_owned).collect();
            return Err(HandshakeError::OtherModels { names, requested: spec.model.clone() });
        }
    };
    Ok(ServerModelInfo { model, inputs: None })
}

async fn triton(asker: &HandshakeClient<'_>, spec: &BenchSpec) -> Result<ServerModelInfo, HandshakeError> {
    let model = spec.model.clone();
    let (status, described) = asker.get(&format!("/v2/models/{model}")).await?;
    match status {
        200 => {
            let names = |tensors: &Value| {
                tensors
                    .as_array()
                    .map(|all| all.iter().filter_map(|it| it["name"].as_str().map(str::to_owned)).collect())
            };
            Ok(ServerModelInfo { model, inputs: names(&described["inputs"]) })
        }
        400 | 404 | 503 => match described["error"].as_str() {
            Some(why) => Err(HandshakeError::Refused(why.to_owned())),
            None if status == 404 => Ok(ServerModelInfo { model, inputs: None }),
            None => Err(HandshakeError::Status(status)),
        },
        _ => Ok(ServerModelInfo { model, inputs: None }),
    }
}
