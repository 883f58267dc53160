//! The requests before a run over HTTP: is the server there, is the model there, which fields does it take?

use std::time::{Duration, Instant};

use serde_json::Value;

use super::attempt::{get, too_long};
use super::pool::ConnectionPool;
use super::request_template::{HttpRequestTemplate, ServerModelInfo, headers};
use crate::spec::transport::{Api, Http, USUAL_MODELS_PATH};
use crate::transport::connection::{A_PAGE, ConnectError, HandshakeError, NAME_THE_KEY, absent, other_models};
use crate::transport::sent_headers::SentHeaders;
use crate::{BenchSpec, HarnessError};
use base::files::is_too_long_a_report;
use base::spec::is_secret_header;
use triton::{MOST_REDIRECTS, Redirect};

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
    let model = |error: HandshakeError| error.refused(&endpoint, &spec.model);
    let sent = SentHeaders::of_run(spec)?;
    let asker = HandshakeClient { pool, headers: headers(&sent, false), sent: &sent, patience: spec.stall_timeout };
    await_port(pool).await.map_err(|error| absent(&endpoint, error))?;
    let offered = match http.api {
        Api::Generate => {
            let path = "/v2/health/ready";
            let (status, _) = asker.get(path).await.map_err(|error| absent(&endpoint, error))?;
            // A proxy may have no such path; a Triton that is not ready returns 400 or 503.
            if matches!(status, 400 | 503) {
                return Err(model(not_ready(path, status)));
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
    /// Status and body. Redirects on the server itself are followed.
    async fn get(&self, first: &str) -> Result<(u16, Value), HandshakeError> {
        let (mut path, mut left) = (first.to_owned(), MOST_REDIRECTS);
        loop {
            let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{}\r\n", self.pool.authority(), self.headers);
            let (head, body) = match tokio::time::timeout(self.patience, get(self.pool, &request)).await {
                Err(_) => return Err(HandshakeError::late(&path, self.patience)),
                Ok(Err(error)) => return Err(HandshakeError::Refused(format!("{path}: {error}"))),
                Ok(Ok((_, body))) if is_too_long_a_report(&body) => {
                    return Err(HandshakeError::Refused(format!("{path}: {}", too_long())));
                }
                Ok(Ok(answered)) => answered,
            };
            let Some(redirect) = head.location.map(Redirect) else {
                if path != first && head.status >= 400 {
                    let answer = format!("{first} is a redirect to {path}, which returns HTTP status {}", head.status);
                    return Err(HandshakeError::Access(format!("{answer}; for a login, {NAME_THE_KEY}")));
                }
                let mut value = serde_json::from_slice(&body).unwrap_or(Value::Null);
                self.sent.hide_in_value(&mut value);
                return Ok((head.status, value));
            };
            match redirect.path_on(&self.pool.authority()) {
                Some(next) if left > 0 => (path, left) = (next, left - 1),
                Some(_) => {
                    let many = format!("{first} is redirected more than {MOST_REDIRECTS} times");
                    return Err(HandshakeError::Access(format!("{many}; for a login, {NAME_THE_KEY}")));
                }
                None => return Err(HandshakeError::Refused(format!("{path} is {redirect}: name that server"))),
            }
        }
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
            (None, None) => NAME_THE_KEY.to_owned(),
        };
        return Err(HandshakeError::Access(format!("{path}: HTTP status {status}; {cause}")));
    }
    let models = listed_models(&list);
    let names: Vec<&str> = models.iter().filter_map(|model| model["id"].as_str()).collect();
    let usual = usual_model(models).and_then(|usual| usual["id"].as_str()).filter(|_| spec.model.is_empty());
    let model = match (names.as_slice(), usual) {
        _ if is_offered(&names, &spec.model) => spec.model.clone(),
        (_, Some(usual)) => usual.to_owned(),
        ([], _) if matches!(status, 500 | 502..=504) => return Err(not_ready(&path, status)),
        ([], _) => {
            let answer = if status == 200 && list.is_null() { A_PAGE } else { "lists no models" };
            return Err(HandshakeError::Refused(format!("{path} (HTTP status {status}) {answer}; set `model`")));
        }
        _ => return Err(HandshakeError::Refused(other_models(&names, &spec.model))),
    };
    Ok(ServerModelInfo { model, inputs: None })
}

fn not_ready(path: &str, status: u16) -> HandshakeError {
    HandshakeError::NotReady(format!("it is not ready ({path}: HTTP status {status})"))
}

/// The models of an answer to `/v1/models`; some gateways send the list alone.
pub(crate) fn listed_models(answer: &Value) -> &[Value] {
    answer["data"].as_array().or(answer.as_array()).map_or(&[][..], Vec::as_slice)
}

/// What is measured where no model is named: the only model of the list, without LoRA adapters (they name their
/// model); of Triton's models for TensorRT-LLM the one that takes text.
pub(crate) fn usual_model(models: &[Value]) -> Option<&Value> {
    let bases: Vec<&Value> = models.iter().filter(|it| it["id"].is_string() && !it["parent"].is_string()).collect();
    let with_id = |id: &str| bases.iter().copied().find(|model| model["id"] == id);
    match bases.as_slice() {
        [only] => Some(*only),
        _ => with_id("ensemble").filter(|_| with_id("tensorrt_llm").is_some()),
    }
}

/// Whether a server that lists these names may have a model of this name. Gateways list patterns, and several servers
/// take a variant after a colon, or leave it out.
fn is_offered(names: &[&str], model: &str) -> bool {
    let is_variant = |name: &str, base: &str| name.strip_prefix(base).is_some_and(|rest| rest.starts_with(':'));
    let is_meant = |name: &&str| {
        let is_pattern = name.strip_suffix('*').is_some_and(|begin| model.starts_with(begin));
        *name == model || is_pattern || is_variant(name, model) || is_variant(model, name)
    };
    !model.is_empty() && (names.is_empty() || names.iter().any(is_meant))
}

async fn triton(asker: &HandshakeClient<'_>, spec: &BenchSpec) -> Result<ServerModelInfo, HandshakeError> {
    let model = spec.model.clone();
    let (status, described) = asker.get(&format!("/v2/models/{model}")).await?;
    let name = |tensor: &Value| tensor["name"].as_str().map(str::to_owned);
    let inputs = described["inputs"].as_array().filter(|_| status == 200);
    match described["error"].as_str().filter(|_| matches!(status, 400 | 404 | 503)) {
        Some(why) => Err(HandshakeError::Refused(why.to_owned())),
        None if matches!(status, 400 | 503) => Err(HandshakeError::Refused(format!("HTTP status {status}"))),
        None => Ok(ServerModelInfo { model, inputs: inputs.map(|all| all.iter().filter_map(name).collect()) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapters_and_the_parts_of_an_ensemble_leave_one_model_to_measure() {
        let listed = |ids: &[&str]| ids.iter().map(|id| serde_json::json!({ "id": id })).collect::<Vec<Value>>();
        let mut adapted = listed(&["base", "sql"]);
        adapted[1]["parent"] = "base".into();
        for (models, usual) in [
            (adapted, Some("base")),
            (listed(&["ensemble", "postprocessing", "preprocessing", "tensorrt_llm"]), Some("ensemble")),
            (listed(&["m"]), Some("m")),
            (listed(&["ensemble", "m"]), None),
            (listed(&["m", "n"]), None),
            (Vec::new(), None),
        ] {
            let id = usual_model(&models).and_then(|model| model["id"].as_str());
            assert_eq!(id, usual, "{models:?}");
        }
    }

    #[test]
    fn a_listed_pattern_and_a_variant_of_a_listed_name_are_offered() {
        for (names, model, is_it) in [
            (&["m", "n"][..], "n", true),
            (&["llama3:latest"], "llama3", true),
            (&["base"], "base:adapter", true),
            (&["openai/*"], "openai/gpt-4o", true),
            (&[], "any", true),
            (&["m"], "", false),
            (&["llama3.1"], "llama3", false),
            (&["openai/*"], "mistral/x", false),
        ] {
            assert_eq!(is_offered(names, model), is_it, "{names:?} {model}");
        }
    }
}
