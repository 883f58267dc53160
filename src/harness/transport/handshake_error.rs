//! Why a server does not take part in a run: the errors of the queries before it.

use std::time::Duration;

use super::connection::ConnectError;
use super::http::QueryError;
use super::kserve::rpc::CallError;
use base::diag::nearest;
use triton::Redirect;

/// What to set for a server that refuses access.
pub(crate) const NAME_THE_KEY: &str =
    "the key is named with `api_key_env`, one of another header with `request.headers`";
const A_PAGE: &str = "is a page and not JSON, as of another server, or of a proxy that requires a login";

/// Why a server, or its model, cannot be used. Reads after the endpoint.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandshakeError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("{method}: {error}")]
    Call { method: &'static str, error: CallError },
    #[error("{path}: {error}")]
    Query { path: String, error: QueryError },
    /// `what` is a path or a method.
    #[error("{what} was not answered within {:.1} s", patience.as_secs_f64())]
    Late { what: String, patience: Duration },
    #[error("the answer to {method} is not understood: {source}")]
    Undecodable { method: &'static str, source: prost::DecodeError },
    #[error("it is live and not ready")]
    ServerNotReady,
    #[error("it is not ready ({path}: HTTP status {status})")]
    HealthStatus { path: String, status: u16 },
    #[error("it is not ready")]
    ModelNotReady,
    /// Of an ensemble.
    #[error("its step `{step}`: {error}")]
    Step { step: String, error: Box<Self> },
    /// The server refuses every request, whatever the model is.
    #[error("{path}: HTTP status {status}; {cause}")]
    Access { path: String, status: u16, cause: String },
    #[error("{path} (HTTP status {status}) {}; set `model`", if *is_page { A_PAGE } else { "lists no models" })]
    NoModelNamed { path: String, status: u16, is_page: bool },
    #[error("{path} is {redirect}: name that server")]
    Redirected { path: String, redirect: Redirect },
    /// All models that the server names, and the one that is not among them.
    #[error("{}", other_models(names, requested))]
    OtherModels { names: Vec<String>, requested: String },
    /// The server's own message.
    #[error("{0}")]
    Refused(String),
}

/// Of a single one it is known what to set. A gateway may have hundreds.
fn other_models(names: &[String], requested: &str) -> String {
    const MOST: usize = 20;
    let listed = || names.iter().map(String::as_str);
    let alike = nearest(requested, listed()).map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
    match names {
        _ if names.len() > MOST => {
            let first: Vec<&str> = listed().take(MOST).collect();
            format!("it has {} and {} more{alike}", first.join(", "), names.len() - MOST)
        }
        [only] => format!("it has {only}; set `model: {only}`"),
        _ if requested.is_empty() => format!("it has several models, {}: set `model`", names.join(", ")),
        _ => format!("it has {}", names.join(", ")),
    }
}

impl HandshakeError {
    /// Whether the server has no such method: then the question stays open.
    pub fn is_unimplemented(&self) -> bool {
        matches!(self, Self::Call { error, .. } if error.is_unimplemented())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_models_some_are_listed_and_the_nearest_is_named() {
        let names: Vec<String> = (0..217).map(|number| format!("model-{number:03}")).collect();
        let text = HandshakeError::OtherModels { names, requested: "model-20O".to_owned() }.to_string();
        assert!(text.starts_with("it has model-000, model-001, "), "{text}");
        assert!(text.ends_with(", model-019 and 197 more; did you mean `model-200`?"), "{text}");
    }
}
