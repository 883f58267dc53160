//! The wire types of Triton's gRPC interface and of config.pbtxt, generated from `proto/` at build time.
//!
//! Shapes and byte orders are those of the KServe v2 protocol: raw tensors are little endian, row major, one bytes
//! entry for each tensor in order; BYTES elements carry a 4-byte little-endian length. Nothing here checks anything.

/// `inference.*`: the service, its messages and the schema of config.pbtxt.
pub mod inference {
    #![allow(clippy::all, clippy::pedantic, missing_docs, reason = "generated code")]
    tonic::include_proto!("inference");
}

/// `grpc.health.v1`: the health check that Triton serves beside its own service.
pub mod health {
    #![allow(clippy::all, clippy::pedantic, missing_docs, reason = "generated code")]
    tonic::include_proto!("grpc.health.v1");
}

/// All descriptors of `proto/`, a serialized `FileDescriptorSet`: what the text format is read by.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
