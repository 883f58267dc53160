//! KServe v2 over gRPC.
//!
//! ```text
//!  handshake ─→ infer_request: template ─→ grpc_messages: frame ─→ rpc (a stream each) │ shared_stream (one for all)
//! ```

pub(crate) mod extra_outputs;
pub(crate) mod grpc_messages;
pub(crate) mod handshake;
pub(crate) mod infer_request;
pub(crate) mod model_metadata;
pub(crate) mod rpc;
pub(crate) mod shared_stream;
