//! Configs of other load tools, in YAML: they are recognized, not read.

use serde_json::{Map, Value};

/// Tools with configs, and keys at the top of one that together are in no other's.
const TOOLS: [(&str, &[&str]); 6] = [
    ("GenAI-Perf", &["model_names", "endpoint"]),
    ("GenAI-Perf", &["model_name", "endpoint"]),
    ("AIPerf", &["models", "endpoint"]),
    ("AIPerf", &["model", "endpoint"]),
    ("AIPerf", &["phases", "endpoint"]),
    ("GuideLLM", &["backend", "data"]),
];

/// The load tool whose config a text is.
pub fn tool_of_config(text: &str) -> Option<&'static str> {
    let all: Map<String, Value> = serde_yaml::from_str(text).ok()?;
    // Regatta's own files have their version at the top.
    let is_other = !all.contains_key("regatta");
    // AIPerf's may have all of it under one key.
    let all = all.get("benchmark").and_then(Value::as_object).unwrap_or(&all);
    let found = TOOLS.iter().find(|(_, keys)| keys.iter().all(|key| all.contains_key(*key)));
    found.filter(|_| is_other).map(|(tool, _)| *tool)
}

#[cfg(test)]
mod tests {
    use super::tool_of_config;

    #[test]
    fn configs_are_recognized_by_their_keys() {
        assert_eq!(tool_of_config("model_names: [gpt2]\nendpoint: { type: chat }\n"), Some("GenAI-Perf"));
        assert_eq!(tool_of_config("models: [m]\nendpoint: { urls: [a] }\nphases: []\n"), Some("AIPerf"));
        let nested = "benchmark:\n  model: m\n  endpoint: { url: a }\n";
        assert_eq!(tool_of_config(nested), Some("AIPerf"));
        assert_eq!(tool_of_config("backend: { kind: openai_http }\ndata: []\n"), Some("GuideLLM"));
        assert_eq!(tool_of_config("regatta: 1\nbackend: a\ndata: b\n"), None);
        assert_eq!(tool_of_config("- 1"), None);
    }
}
