//! Compose files: each service is the line of `docker run` that starts it.

use serde_json::{Map, Value};

use base::units::{shell_word, unquoted};

/// Keys of a service whose option of `docker run` has another name.
const OPTIONS: [(&str, &str); 6] = [
    ("ports", "--publish"),
    ("volumes", "--volume"),
    ("environment", "--env"),
    ("network_mode", "--net"),
    ("ulimits", "--ulimit"),
    ("working_dir", "--workdir"),
];

/// Keys that are read elsewhere, and those that a stage does without: it starts when it is needed, and is then removed.
const NO_OPTIONS: &str = "image command entrypoint deploy gpus build container_name depends_on restart healthcheck \
    tty stdin_open logging profiles networks links expose labels pull_policy stop_grace_period";

/// The script that starts the services of a compose file in their order; each is in the line that it has there. `None`
/// where the text is another file.
pub fn compose_script(text: &str) -> Option<String> {
    let file: Map<String, Value> = serde_yaml::from_str(text).ok()?;
    let services = file.get("services").and_then(Value::as_object).filter(|_| !file.contains_key("regatta"))?;
    let mut script = String::new();
    for (name, service) in services {
        let is_begin = |line: &str| line.trim_end().strip_suffix(':').is_some_and(|key| key.trim() == name);
        let line = text.lines().position(is_begin).unwrap_or(0);
        let missing = line.saturating_sub(script.matches('\n').count());
        script.push_str(&"\n".repeat(missing));
        // A service is known to the others by its name; stages share the host's network.
        let line = services.keys().fold(service_line(name, service.as_object()?), |line, other| {
            line.replace(&format!("//{other}:"), "//localhost:")
        });
        script.push_str(&line);
        script.push('\n');
    }
    Some(script)
}

fn service_line(name: &str, service: &Map<String, Value>) -> String {
    let mut words = vec!["docker run --name".to_owned(), name.to_owned()];
    for (key, value) in service.iter().filter(|(key, _)| !NO_OPTIONS.split(' ').any(|other| other == *key)) {
        let renamed = OPTIONS.iter().find(|(other, _)| other == key).map(|(_, option)| (*option).to_owned());
        let option = renamed.unwrap_or_else(|| format!("--{}", key.replace('_', "-")));
        match value {
            Value::Bool(is_on) => words.extend(is_on.then_some(option)),
            value => words.extend(values(key, value).iter().flat_map(|value| [option.clone(), quoted(value)])),
        }
    }
    let devices = service.get("deploy").and_then(|deploy| deploy.pointer("/resources/reservations/devices"));
    let devices = devices.or_else(|| service.get("gpus")).map(list).unwrap_or_default();
    words.extend(devices.first().and_then(gpus).map(|gpus| format!("--gpus {}", shell_word(&gpus))));
    // The image comes between the entry point's program and its further words.
    let mut entry = command_words(service.get("entrypoint")).into_iter();
    words.extend(entry.next().map(|program| format!("--entrypoint {program}")));
    words.push(service.get("image").and_then(Value::as_str).map_or_else(|| "<image>".to_owned(), quoted));
    words.extend(entry.chain(command_words(service.get("command"))));
    words.join(" ")
}

/// The words of a command, for a shell.
fn command_words(command: Option<&Value>) -> Vec<String> {
    match command {
        Some(Value::Array(words)) => words.iter().map(|word| quoted(&unquoted(word))).collect(),
        Some(Value::String(line)) => line.split_whitespace().map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_else(|| vec![value.clone()])
}

/// The values of a key, each as an option of `docker run` has it.
fn values(key: &str, value: &Value) -> Vec<String> {
    let limit = |limit: &Value| unquoted(limit.get("hard").unwrap_or(limit));
    match value {
        Value::Object(pairs) => pairs.iter().map(|(name, value)| format!("{name}={}", limit(value))).collect(),
        value => list(value).iter().map(|value| mount(key, value)).collect(),
    }
}

/// `SOURCE:TARGET` of the long form of a mount or a port.
fn mount(key: &str, value: &Value) -> String {
    let names = if key == "ports" { ["published", "target"] } else { ["source", "target"] };
    let parts = names.map(|name| value.get(name).map(unquoted));
    match parts {
        [Some(from), Some(to)] => format!("{from}:{to}"),
        _ => unquoted(value),
    }
}

/// `--gpus` of a reservation.
fn gpus(device: &Value) -> Option<String> {
    let ids = device.get("device_ids").and_then(Value::as_array);
    let ids = ids.map(|ids| format!("device={}", ids.iter().map(unquoted).collect::<Vec<_>>().join(",")));
    ids.or_else(|| device.get("count").map(unquoted)).or_else(|| device.as_str().map(str::to_owned))
}

/// A word in which variables are for the shell.
fn quoted(word: &str) -> String {
    if word.contains('$') { format!("\"{}\"", word.replace('"', "\\\"")) } else { shell_word(word) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_a_line_of_docker_run_at_its_own_line() {
        let api = "  api:\n    image: a:v1\n    command: --model m --port 8000\n    ports: [\"9000:8000\"]\n    \
            environment: { HF_TOKEN: \"${HF_TOKEN}\" }\n    \
            deploy: { resources: { reservations: { devices: [{ driver: nvidia, count: 2 }] } } }\n";
        let load = "  load:\n    image: b\n    entrypoint: [a, x]\n    \
            command: [\"b c\", \"http://api:8000\"]\n";
        let script = compose_script(&format!("services:\n{api}{load}")).expect("a compose file");
        let lines: Vec<(usize, &str)> = script.lines().enumerate().filter(|(_, line)| !line.is_empty()).collect();
        let api = "docker run --name api --publish 9000:8000 --env \"HF_TOKEN=${HF_TOKEN}\" --gpus 2 a:v1 \
            --model m --port 8000";
        assert_eq!(lines, [(1, api), (7, "docker run --name load --entrypoint a b x 'b c' http://localhost:8000")]);
        assert_eq!(compose_script("regatta: 1\nstages: {}\n"), None);
    }
}
