//! Speaks to a Triton server and reads and writes its files: KServe v2, config.pbtxt, model repository, engine
//! `config.json`. Uses `event`; never starts a process, never measures, never prints.

mod client;
mod engine;
pub mod launch;
pub mod pbtxt;
pub mod proto;
pub mod repository;

pub use client::{AwaitError, ClientError, TritonClient, await_ready};
pub use engine::{BuildConfig, EngineConfig, EngineError, Mapping, PluginConfig, PretrainedConfig, Quantization};
pub use repository::{Problem, RepositoryError, RepositorySpec, Written};
