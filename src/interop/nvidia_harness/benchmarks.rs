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

/// How the names of Hugging Face begin, of the models that the benchmarks have.
const MODELS: [(&str, &str); 5] = [
    ("llama-2-70b", "llama2-70b"),
    ("mixtral-8x7b", "mixtral-8x7b"),
    ("llama-3.1-405b", "llama3.1-405b"),
    ("llama-3.1-8b", "llama3.1-8b"),
    ("deepseek-r1", "deepseek-r1"),
];

/// Regatta's name of a benchmark of the harness, or of the one with a model of Hugging Face: `meta-llama/Llama-2-70b-chat-hf`.
pub(super) fn benchmark(name: &str) -> Option<&'static str> {
    if let Some((_, ours)) = BENCHMARKS.iter().find(|(theirs, _)| *theirs == name) {
        return Some(ours);
    }
    let (_, model) = name.split_once('/')?;
    let model = model.to_lowercase();
    let model = model.strip_prefix("meta-").unwrap_or(&model);
    MODELS.iter().find(|(begin, _)| model.starts_with(begin)).map(|(_, ours)| *ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn benchmarks_are_found_by_their_models() {
        for (name, ours) in [
            ("moe", Some("mixtral-8x7b")),
            ("meta-llama/Llama-2-70b-chat-hf", Some("llama2-70b")),
            ("mistralai/Mixtral-8x7B-Instruct-v0.1", Some("mixtral-8x7b")),
            ("meta-llama/Meta-Llama-3.1-405B-Instruct", Some("llama3.1-405b")),
            ("meta-llama/Llama-2-7b-hf", None),
            ("Llama-2-70b-chat-hf", None),
        ] {
            assert_eq!(benchmark(name), ours, "{name}");
        }
    }
}
