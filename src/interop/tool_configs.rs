//! YAML files of other tools that are recognized, not read: configs of load tools, and files with command lines in
//! them.

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
    let config: Map<String, Value> = serde_yaml::from_str(text).ok()?;
    // Regatta's own files have their version at the top.
    let is_other = !config.contains_key("regatta");
    // AIPerf's may have all of it under one key.
    let fields = config.get("benchmark").and_then(Value::as_object).unwrap_or(&config);
    let tool = TOOLS.iter().find(|(_, keys)| keys.iter().all(|key| fields.contains_key(*key)));
    tool.filter(|_| is_other).map(|(tool, _)| *tool)
}

/// What a file is that holds command lines: its name, and where the lines are.
pub fn command_file(text: &str) -> Option<(&'static str, &'static str)> {
    let has = |key: &str| text.lines().any(|line| line.starts_with(key));
    match (has("services:"), has("apiVersion:") && has("kind:")) {
        (true, _) => Some(("a compose file", "`command:` (behind `entrypoint:`)")),
        (_, true) => Some(("a Kubernetes manifest", "`command:` and `args:`")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{command_file, tool_of_config};

    #[test]
    fn files_with_command_lines_are_recognized_by_their_keys() {
        let name = |text: &str| command_file(text).map(|(name, _)| name);
        assert_eq!(name("version: '3'\nservices:\n  a: { command: b }\n"), Some("a compose file"));
        assert_eq!(name("---\napiVersion: batch/v1\nkind: Job\n---\nkind: Service\n"), Some("a Kubernetes manifest"));
        assert_eq!(name("regatta: 1\nstages: {}\n"), None);
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
