//! The Benchmark Report of llm-d-benchmark, a format that several tools write.

pub(super) mod export;
pub(super) mod import;
