//! KServe v2 over gRPC: the model's description, request messages, calls on streams of their own or on a shared one.

pub(in crate::harness) mod extra_outputs;
pub(in crate::harness) mod grpc_messages;
pub(in crate::harness) mod handshake;
pub(in crate::harness) mod infer_request;
pub(in crate::harness) mod rpc;
pub(in crate::harness) mod shared_stream;
