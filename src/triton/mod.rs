//! Speaks to a Triton server and reads and writes its files: KServe v2 over gRPC and HTTP, metrics, config.pbtxt, model
//! repository, engine `config.json`. Uses `event`; never starts a process, never measures, never prints.

mod client;
mod engine;
mod http;
pub mod launch;
pub mod memory;
mod metrics;
pub mod pbtxt;
pub mod proto;
pub mod repository;

pub use client::{
    Answer, AwaitError, ClientError, Data, DataType, InferRequest, InferStream, LoadOptions, LogSetting, Tensor,
    TensorError, TritonClient, Why, await_ready, tensors_of,
};
pub use engine::{BuildConfig, EngineConfig, EngineError, Mapping, PluginConfig, PretrainedConfig, Quantization};
pub use http::{HttpAddress, HttpClient, Listens, SseEvents, probe};
pub use metrics::{
    Derived, Exposition, Family, Kind, MetricsError, Sample, Scrape, Scraper, Series, ServerMetric, ServerMetrics,
    Tick, Value, summarise,
};
pub use repository::{Problem, RepositoryError, RepositorySpec, Written};
