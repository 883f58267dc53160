//! KServe v2 over gRPC.
//!
//! ```text
//!  handshake ─→ infer_request: template ─→ grpc_messages: frame ─→ calls (a stream each) │ shared_stream (one for all)
//! ```

pub(in crate::harness) mod call_error;
pub(in crate::harness) mod calls;
pub(in crate::harness) mod extra_outputs;
pub(in crate::harness) mod grpc_messages;
pub(in crate::harness) mod handshake;
pub(in crate::harness) mod infer_request;
pub(in crate::harness) mod read_answer;
pub(in crate::harness) mod rpc;
pub(in crate::harness) mod shared_stream;
pub(in crate::harness) mod stamped_socket;
