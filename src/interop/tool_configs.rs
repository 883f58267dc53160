//! YAML files of other tools that are recognized, not read: configs of load tools, and Kubernetes manifests.

use serde_json::{Map, Value};

/// Tools with configs, and keys at the top of one that together are in no other's.
const TOOLS: [(&str, &[&str]); 7] = [
    ("GenAI-Perf", &["model_names", "endpoint"]),
    ("GenAI-Perf", &["model_name", "endpoint"]),
    ("AIPerf", &["models", "endpoint"]),
    ("AIPerf", &["model", "endpoint"]),
    ("AIPerf", &["phases", "endpoint"]),
    ("GuideLLM", &["backend", "data"]),
    ("inference-perf", &["load", "server"]),
];

/// The load tool whose config a text is.
pub fn tool_of_config(text: &str) -> Option<&'static str> {
    let config: Map<String, Value> = base::files::parse_yaml(text).ok()?;
    // Regatta's own files have their version at the top.
    let is_other = !config.contains_key("regatta");
    // AIPerf's may have all of it under one key.
    let fields = config.get("benchmark").and_then(Value::as_object).unwrap_or(&config);
    let tool = TOOLS.iter().find(|(_, keys)| keys.iter().all(|key| fields.contains_key(*key)));
    tool.filter(|_| is_other).map(|(tool, _)| *tool)
}

/// Whether a text is a Kubernetes manifest.
pub fn is_kubernetes(text: &str) -> bool {
    ["apiVersion:", "kind:"].iter().all(|key| text.lines().any(|line| line.starts_with(key)))
}

#[cfg(test)]
mod tests {
    use super::{is_kubernetes, tool_of_config};

    #[test]
    fn a_kubernetes_manifest_is_recognized_by_its_keys() {
        assert!(is_kubernetes("---\napiVersion: batch/v1\nkind: Job\n---\nkind: Service\n"));
        assert!(!is_kubernetes("regatta: 1\nstages: {}\n"));
    }

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
