//! Why a measurement could not take place at all. Errors *within* a measurement are in its result.

use std::fmt::Display;
use std::io;
use std::path::PathBuf;

use crate::FailureClass;

/// Why the value of an environment variable cannot be a key. Reads after the variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiKeyFault {
    #[error("is not set")]
    NotSet,
    #[error("is not text")]
    NotText,
    #[error("is empty")]
    Empty,
    /// A line break would end the header, and what is behind it would be one of its own.
    #[error("contains a line break or another control character")]
    ControlCharacter,
}

/// Reads after "failed: ".
#[derive(Debug, thiserror::Error)]
pub enum HarnessError {
    /// An error in the spec, or in a file or variable that it names.
    #[error("the benchmark cannot be planned: {0}")]
    Spec(String),
    /// Files of prompts; all that is wrong with one, each a sentence.
    #[error("{} cannot be used: {}", file.display(), faults.join("\n  "))]
    Data { file: PathBuf, faults: Vec<String> },
    /// Of a closed loop it shows while it runs.
    #[error(
        "the data end after {drawn} requests, before `stop` is reached: repeat them with `data.repeat: true`, or \
         request less"
    )]
    DataEnd { drawn: u64 },
    #[error("cannot connect to {endpoint}: {why}")]
    Connect { endpoint: String, why: String },
    #[error("{endpoint} refuses access: {why}")]
    Access { endpoint: String, why: String },
    #[error("{}", no_model(endpoint, model, why))]
    Model { endpoint: String, model: String, why: String },
    /// One request template is for all servers.
    #[error(
        "{endpoint} does not offer model `{model}`: it is another model (streaming, tensors or batching) than on the \
         first server"
    )]
    OtherModel { endpoint: String, model: String },
    #[error("model `{model}` at {endpoint} cannot serve these requests: {source}")]
    Request { endpoint: String, model: String, source: UnsupportedRequest },
    #[error(
        "warm-up request {number} failed: {}: {why}{}", class.as_str(),
        if *class == FailureClass::Refused { REFUSED_HINT } else { "" }
    )]
    Warmup { number: u32, class: FailureClass, why: String },
    #[error("stopped before the first measured request")]
    Stopped,
    /// `when` it panicked, or was not started.
    #[error("a load worker ended without a result: {when}")]
    Worker { when: &'static str },
    #[error("{what}: {source}")]
    System { what: String, source: io::Error },
    #[error("{} is not a result of this version: {source}", path.display())]
    Format { path: PathBuf, source: ResultFormatError },
}

impl HarnessError {
    /// `what` could not be done, or was not to be had.
    pub(super) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what: what.into(), source }
    }

    pub(super) fn spec(why: impl Display) -> Self {
        Self::Spec(why.to_string())
    }
}

/// A server that refuses one request may take others.
const REFUSED_HINT: &str = "; `retries` sends it again, and `warmup: 0` leaves it out; `ready_timeout: 10m` waits for \
                            a server that is still loading";

/// An empty name stands for the only model of a server, which this one is not.
fn no_model(endpoint: &str, model: &str, why: &str) -> String {
    if model.is_empty() {
        format!("cannot use {endpoint}: {why}")
    } else {
        format!("{endpoint} does not offer model `{model}`: {why}")
    }
}

/// Why a `result.json` is not one of this version.
#[derive(Debug, thiserror::Error)]
pub enum ResultFormatError {
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    #[error("schema is {found}, known is {known}")]
    Schema { found: u32, known: u32 },
}

/// Everything of the request block that a model or an interface does not take; `faults` are sentences, at least one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", faults.join("; "))]
pub struct UnsupportedRequest {
    pub faults: Vec<String>,
}
