//! The largest counts that a manifest may have. Each is far above every real use: what is beyond it would only take memory and time.

/// GPUs, servers, copies, ranks, nodes of one stage. The largest machine that is sold as one has 72 GPUs.
pub const MOST_PARTS: u32 = 4096;
/// Requests at the same time: users, batches, slots. A server's port takes 65,536 connections of one client.
pub const MOST_USERS: u32 = 1_000_000;
/// Requests, records, samples of one measurement.
pub const MOST_REQUESTS: u64 = 1_000_000_000;
/// Layers, heads, sizes of a model, entries of its vocabulary.
pub const LARGEST_SHAPE: u32 = 1 << 24;
/// Parameters of a model.
pub const MOST_PARAMETERS: u64 = 1_000_000_000_000_000;
/// Seconds: a month.
pub const MOST_SECONDS: u32 = 31 * 86_400;
/// Bytes of an answer: 1 TiB.
pub const MOST_ANSWER_BYTES: u64 = 1 << 40;
