//! Which series are in the summary of a run, by how many points, and what making it takes.

use std::collections::BTreeMap;

/// Prometheus names that concern serving; the rest stays in the file of all numbers.
const SERVING_PREFIXES: [&str; 9] = [
    "nv_inference_",
    "nv_trt_llm_",
    "nv_llm_",
    "nv_gpu_",
    "nv_energy_",
    "nv_cpu_utilization",
    "nv_cache_",
    "vllm:",
    "sglang:",
];
/// At most this many points of each series.
pub(super) const POINTS: usize = 300;
/// Bytes that the points of all series that are summarized at once take.
pub(super) const MOST_POINT_BYTES: usize = 128 << 20;

/// It is in the summary, and not only in the file of all numbers.
pub(super) fn is_summarized(name: &str, labels: &BTreeMap<String, String>) -> bool {
    SERVING_PREFIXES.iter().any(|start| name.starts_with(start)) && !is_left_out(name, labels)
}

/// A single bucket of a histogram is of little use, and the client library of vLLM and SGLang adds for each counter when it was
/// made, and settings as labels of a constant. They are all in the file.
fn is_left_out(name: &str, labels: &BTreeMap<String, String>) -> bool {
    labels.contains_key("le") || name.ends_with("_created") || name.ends_with("_info")
}
