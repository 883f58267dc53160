//! HTTP/1.1, besides gRPC: OpenAI's chat and completions over SSE, Triton's generate extension.
//!
//! ```text
//!  HttpRequestTemplate ─request→ ConnectionPool ─read, stamped→ Decoder ─body→ HttpResponseReader ─events→ Accounting
//! ```
//!
//! One request has one connection for as long as it is in flight; connections are kept and used again. Bytes are read
//! from the socket by ourselves, because the time of each read is the measurement: an HTTP library gives the body's
//! pieces and keeps the time to itself. Heads are read by `httparse`; the rest is small and holds no bytes back.

mod answer_fields;
mod answer_text;
mod attempt;
mod handshake;
mod http1_decoder;
mod json;
mod pool;
mod request_template;
mod response_reader;
mod tls;

pub(crate) use answer_text::{AnswerIds, answer_text_from_events, prompt_from_events};
pub(crate) use attempt::HttpAttempt;
pub(crate) use handshake::{handshake, listed_models, usual_model};
pub(crate) use pool::ConnectionPool;
pub(crate) use request_template::{HttpRequestTemplate, addressed};
pub(crate) use response_reader::HttpOutcome;
pub use response_reader::read_http_answer;
pub(crate) use tls::Connector;
