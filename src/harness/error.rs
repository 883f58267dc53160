//! Why a measurement could not take place at all. Errors *within* a measurement are in its result.

/// Reads after "failed: ".
#[derive(Debug, thiserror::Error)]
pub enum HarnessError {
    #[error("the benchmark cannot be planned: {0}")]
    Spec(String),
    /// Files of prompts; `why` may have several lines, one for each error.
    #[error("{file} cannot be used: {why}")]
    Data { file: String, why: String },
    #[error("cannot connect to {endpoint}: {why}")]
    Connect { endpoint: String, why: String },
    #[error("{endpoint} does not offer model `{model}`: {why}")]
    Model { endpoint: String, model: String, why: String },
    #[error("model `{model}` at {endpoint} cannot serve these requests: {}", faults.join("; "))]
    Request { endpoint: String, model: String, faults: Vec<String> },
    #[error("warm-up request {number} failed: {why}")]
    Warmup { number: u32, why: String },
    #[error("stopped before the first measured request")]
    Stopped,
    #[error("a load worker ended without a result: {0}")]
    Worker(String),
    #[error("{what}: {source}")]
    System { what: String, source: std::io::Error },
    #[error("{path} is not a result of this version: {why}")]
    Format { path: String, why: String },
}
