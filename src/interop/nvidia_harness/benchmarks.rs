//! Benchmarks, by the harness's names and by Regatta's.

/// The harness's name of a benchmark, and Regatta's.
pub(super) const BENCHMARKS: [(&str, &str); 16] = [
    ("llama2", "llama2-70b"),
    ("llama2-70b", "llama2-70b"),
    ("llama2-70b-interactive", "llama2-70b"),
    ("moe", "mixtral-8x7b"),
    ("mixtral", "mixtral-8x7b"),
    ("mixtral-8x7b", "mixtral-8x7b"),
    ("llama3_1-405b", "llama3.1-405b"),
    ("llama3.1-405b", "llama3.1-405b"),
    ("llama3_1-8b", "llama3.1-8b"),
    ("llama3.1-8b", "llama3.1-8b"),
    ("llama3_1-8b-edge", "llama3.1-8b-edge"),
    ("llama3.1-8b-edge", "llama3.1-8b-edge"),
    ("deepseek-r1", "deepseek-r1"),
    ("deepseek_r1", "deepseek-r1"),
    ("gpt-oss-120b", "gpt-oss-120b"),
    ("gptj", "gptj"),
];

/// Regatta's name of a benchmark of the harness.
pub(super) fn benchmark(name: &str) -> Option<&'static str> {
    BENCHMARKS.iter().find(|(theirs, _)| *theirs == name).map(|(_, ours)| *ours)
}
