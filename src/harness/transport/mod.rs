//! How a request reaches a server and how its answer is read: KServe v2 over gRPC (`kserve`), Triton's generate and
//! OpenAI's interfaces over HTTP/1.1 (`http`). Encoders are fixed before the run; what arrives carries the time of its
//! socket read.

pub(super) mod connection;
pub(super) mod handshake_error;
pub(super) mod http;
pub(super) mod kserve;
pub(super) mod limits;
pub(super) mod request_encoder;
pub(super) mod sent_headers;
