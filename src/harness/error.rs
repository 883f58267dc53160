//! Why a measurement could not take place at all. Errors *within* a measurement are in its result.

/// Reads after "failed: ".
#[derive(Debug, thiserror::Error)]
pub enum HarnessError {
    #[error("the benchmark cannot be planned: {0}")]
    Spec(String),
    #[error("the benchmark cannot be planned: {0}")]
    Schedule(#[from] ScheduleError),
    /// Files of prompts; `why` may have several lines, one for each error.
    #[error("{file} cannot be used: {why}")]
    Data { file: String, why: String },
    #[error("cannot connect to {endpoint}: {why}")]
    Connect { endpoint: String, why: String },
    #[error("{endpoint} does not offer model `{model}`: {why}")]
    Model { endpoint: String, model: String, why: String },
    #[error("model `{model}` at {endpoint} cannot serve these requests: {source}")]
    Request { endpoint: String, model: String, source: UnsupportedRequest },
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

/// Everything of the request block that a model or an interface does not take; `faults` are sentences, at least one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", faults.join("; "))]
pub struct UnsupportedRequest {
    pub faults: Vec<String>,
}

/// Why requests cannot be drawn from a spec that is valid by itself.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    #[error("the plan has more than {most} requests")]
    TooLong { most: usize },
    #[error("no request arrives before the duration ends")]
    NoArrival,
    #[error("there is no sample to call for")]
    NoSamples,
    /// Of an external driver.
    #[error("sample {sample} was called for, and there are {samples}")]
    UnknownSample { sample: u32, samples: usize },
    #[error(
        "the data end after {drawn} requests, before `stop` is reached: repeat them with `repeat: true`, or request less"
    )]
    DataEnd { drawn: u64 },
    #[error("the rate falls to 0 after {drawn} requests, and `stop` requires {required}")]
    RateEnd { drawn: u64, required: u64 },
    #[error("the law of arrivals has impossible numbers")]
    Arrivals,
    #[error("a trace is taken in the order of its time stamps, once")]
    TraceOrder,
    /// `what`, with its article, comes neither from the spec's `key` nor from data.
    #[error("{what} is needed: `{key}`")]
    Missing { what: &'static str, key: &'static str },
    #[error("text must become token ids here, or ids text: give `tokenizer`, the path of a tokenizer.json")]
    NoTokenizer,
    #[error("the tokenizer cannot read a prompt: {0}")]
    Encode(#[source] tokenizers::Error),
    #[error("the tokenizer cannot spell a prompt: {0}")]
    Decode(#[source] tokenizers::Error),
}
