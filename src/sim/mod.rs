//! A Triton with a TensorRT-LLM engine that needs no GPU: the same files, the same protocol, simulated time.
//!
//! One discrete-event core, two clocks: virtual ([`simulate`]) and real ([`serve()`]). Step times are derived from data
//! sheets, never measured. Uses `triton`; never prints, never starts a process.

mod core;
mod engine;
mod proof;
mod random;
mod serve;
mod timing;

pub use self::core::{Arrival, Chunking, Limits, Policy, Ran, Served, Unfit, simulate};
pub use engine::{EngineSpec, RankFile, SimEngineError, load as load_engine, simulated, write as write_engine};
pub use proof::{Manner, Proof, Script, Truth};
pub use serve::{Addresses, Faults, ServeError, SimOptions, serve, token};
pub use timing::{Coefficients, Gpu, Memory, Model, Precision};
