//! Clients for a Triton server, and its files: KServe v2 over gRPC and HTTP, metrics, config.pbtxt, model
//! repository, engine `config.json`. Never starts a process, never measures, never prints.
//!
//! ```text
//!  InferRequest ─TritonClient→ a server ─→ StreamResponse, …; its metrics ─→ Exposition
//!  EngineConfig, Repository ─repository→ a model repository or its problems; ─launch→ the command of a server
//! ```

mod client;
mod engine;
mod http;
pub mod launch;
mod metrics;
pub mod pbtxt;
pub mod proto;
pub mod repository;

pub use client::{
    AwaitError, ClientError, ClientErrorKind, ConnectCause, DataType, InferRequest, InferStream, StreamResponse,
    Tensor, TensorData, TritonClient, await_ready, field_tensor, strings, tensors_of,
};
pub use engine::{
    BuildConfig, EngineConfig, EngineError, LARGEST_CONFIG, Mapping, PluginConfig, PretrainedConfig, Quantization,
};
pub use http::{
    HttpAddress, HttpClient, ListeningService, MOST_REDIRECTS, Redirect, SseEvent, SseEvents, SseParser,
    is_own_address, probe,
};
pub use metrics::{
    Derived, Exposition, MetricFamily, MetricKind, MetricSample, MetricSeries, MetricValue, Scrape, Scraper,
    ServerMetric, ServerMetrics, ServerPoll, since, summarize, summarize_part, thinned,
};
pub use repository::{Repository, RepositoryError, SpecProblem, WrittenRepositories};
