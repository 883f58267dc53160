//! `docker run -p 9000:8000`: what listens on a port inside the container listens on the published one.

use serde_json::{Map, Value, json};

/// Triton's ports, and their defaults.
const TRITON: [(&str, u64); 3] = [("http_port", 8000), ("grpc_port", 8001), ("metrics_port", 8002)];

/// The ports on the host and inside the container: `9000:8000`, `127.0.0.1:9000:8000/tcp`, `8000-8002:8000-8002`. One without a
/// port on the host is published on a free one, and is not listed.
pub(super) fn published(text: &str) -> Vec<(u64, u64)> {
    let text = text.split('/').next().unwrap_or_default();
    let mut parts = text.rsplit(':');
    let range = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Some(first.parse::<u16>().ok()?..=last.parse::<u16>().ok()?)
    };
    let (Some(inside), Some(host)) = (parts.next().and_then(range), parts.next().and_then(range)) else {
        return Vec::new();
    };
    host.zip(inside).map(|(host, inside)| (u64::from(host), u64::from(inside))).collect()
}

/// With the host's network a server of the stage listens on the published port itself.
pub(super) fn listen_on(stage: &mut Map<String, Value>, ports: &[(u64, u64)]) {
    let Some(serve) = stage.get_mut("serve").and_then(Value::as_object_mut) else { return };
    let on_host = |inside: u64| ports.iter().find(|(_, other)| *other == inside).map(|(host, _)| *host);
    for (kind, keys) in serve.iter_mut() {
        let Some(keys) = keys.as_object_mut() else { continue };
        if kind == "triton" {
            for (key, usual) in TRITON {
                let inside = keys.get(key).and_then(Value::as_u64).unwrap_or(usual);
                if let Some(host) = on_host(inside) {
                    keys.insert(key.to_owned(), json!(host));
                    if let Some(words) = keys.get_mut("words").and_then(Value::as_array_mut) {
                        put_option(words, &format!("--{}", key.replace('_', "-")), host);
                    }
                }
            }
            continue;
        }
        let host = match (keys.get("port").and_then(Value::as_u64), ports) {
            (Some(inside), _) => on_host(inside),
            // Its default is what the page publishes.
            (None, [(host, _)]) => Some(*host),
            (None, _) => None,
        };
        if let Some(host) = host {
            keys.insert("port".to_owned(), json!(host));
        }
    }
}

/// The option of a command line with another value; at its end where the line does not have it.
fn put_option(words: &mut Vec<Value>, option: &str, value: u64) {
    let is_option = |word: &Value| word.as_str().is_some_and(|word| word.split('=').next() == Some(option));
    match words.iter().position(is_option) {
        Some(at) if words[at] == option && at + 1 < words.len() => words[at + 1] = json!(value.to_string()),
        Some(at) => words[at] = json!(format!("{option}={value}")),
        None => words.push(json!(format!("{option}={value}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_ports_are_those_of_the_host() {
        assert_eq!(published("9000:8000"), [(9000, 8000)]);
        assert_eq!(published("127.0.0.1:9000:8000/tcp"), [(9000, 8000)]);
        assert_eq!(published("9000-9001:8000-8001"), [(9000, 8000), (9001, 8001)]);
        assert_eq!(published("8000"), []);
        let stage = |value: Value| value.as_object().cloned().unwrap();
        let mut triton = stage(json!({"serve": {"triton": {"grpc_port": 8001}}}));
        listen_on(&mut triton, &[(9000, 8000), (9001, 8001)]);
        assert_eq!(triton["serve"]["triton"], json!({"grpc_port": 9001, "http_port": 9000}));
        let words = json!(["tritonserver", "--http-port", "8000", "--grpc-port=8001"]);
        let mut line = stage(json!({"serve": {"triton": {"words": words}}}));
        listen_on(&mut line, &[(9000, 8000), (9001, 8001), (9002, 8002)]);
        let words = &line["serve"]["triton"]["words"];
        assert_eq!(*words, json!(["tritonserver", "--http-port", "9000", "--grpc-port=9001", "--metrics-port=9002"]));
        let mut other = stage(json!({"serve": {"command": {"words": []}}}));
        listen_on(&mut other, &[(9000, 8000)]);
        assert_eq!(other["serve"]["command"]["port"], 9000);
    }
}
