//! HTTP/1.1 beside gRPC: OpenAI's chat and completions over SSE, Triton's generate extension.
//!
//! ```text
//!  Dialect ─body→ Pool ─read, stamped→ Decoder ─pieces→ Events ─events→ scan ─tokens→ Listener
//! ```
//!
//! One request has one connection for as long as it is under way; connections are kept and used again. Bytes are read
//! from the socket by ourselves, because the time of each read is the measurement: an HTTP library gives the body's
//! pieces and keeps the time to itself. Heads are read by `httparse`; the rest is small and holds no bytes back.

mod decode;
mod dialect;
mod greet;
mod json;
mod listen;
mod pool;
mod said;
mod scan;
mod socket;
mod sse;
mod talk;
mod target;
mod tls;

pub(super) use dialect::HttpRequestTemplate;
pub(super) use greet::greet;
pub(super) use pool::ConnectionPool;
pub(super) use said::said;
pub(super) use talk::{HttpOutcome, HttpAttempt};
pub use target::{Api, Http, Protocol, Tls};
pub(super) use tls::Connector;
