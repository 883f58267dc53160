//! Scripts of Triton's TensorRT-LLM backend: its benchmark, its templates and its launcher.

pub(super) mod benchmarks;
pub(super) mod fill_template;
pub(super) mod tritonserver;
