//! `docker run IMAGE [COMMAND]`: a stage has the image as its `container`, and the command is what is started in it.
//! What listens on a port inside the container listens on the published one.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::command_line::{
    ParsedLine, ToolTable, TranslateInner, Translation, TranslationBuilder, TranslationError, TranslationKind, base,
    idle_command, is_secret, mounts, put_container, put_secret,
};
use base::spec::Quantity;

pub(crate) static TABLE: LazyLock<ToolTable> =
    LazyLock::new(|| ToolTable::new(&[include_str!("tools/docker-run.toml")], &[]));

/// Images whose entry point is a server, and how its line begins without it.
/// An image is known by the end of its name, because registries of a company mirror it.
const ENTRY_POINTS: [(&str, &[&str]); 5] = [
    ("vllm/vllm-openai", &["vllm", "serve"]),
    ("vllm-project/vllm-openai", &["vllm", "serve"]),
    ("huggingface/text-generation-inference", &["text-generation-launcher"]),
    ("ggml-org/llama.cpp", &["/app/llama-server"]),
    ("vllm-project/guidellm", &["guidellm"]),
];

/// What an image starts where its line does not say.
fn entry_point(image: &str) -> Option<&'static [&'static str]> {
    let name = image.split('@').next().unwrap_or_default();
    // The last colon may be in front of the port of a registry.
    let name = name.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')).map_or(name, |(name, _)| name);
    let is_end = |end: &str| name.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'));
    ENTRY_POINTS.iter().find(|(end, _)| is_end(end)).map(|(_, words)| *words)
}

/// `inner` translates the command in the container.
pub(crate) fn translate(
    engine: &str,
    words: &[String],
    inner: TranslateInner<'_>,
) -> Result<Translation, TranslationError> {
    const TOOL: &str = "docker run";
    let mut builder = TranslationBuilder::default();
    let nothing = |text: String| TranslationBuilder::nothing("docker", text);
    let (command, rest) = words.split_first().map_or(("", words), |(command, rest)| (command.as_str(), rest));
    if command != "run" {
        return idle_command(&format!("{engine} {command}"), "docker *");
    }
    let line = TABLE.read_front(TOOL, rest, &mut builder);
    let Some((image, command)) = line.behind.split_first() else {
        if builder.problems.is_empty() {
            builder.push_error(format!("`{engine} run` needs an image"));
        }
        return builder.finish(TOOL, TranslationKind::Nothing(String::new()));
    };
    let ContainerKeys { keys: mut container, secrets } = container(&line, image, &mut builder);
    let ports: Vec<(u64, u64)> = line
        .given
        .iter()
        .filter(|given| given.name == "--publish")
        .flat_map(|given| published(given.value()))
        .collect();
    let entry = entry_point(image);
    let given_entry = line.given.iter().rfind(|given| given.name == "--entrypoint").map(|given| vec![given.value()]);
    let begin = given_entry.or_else(|| entry.map(<[&str]>::to_vec));
    let started = begin.iter().flatten().copied().filter(|word| !word.is_empty());
    let started: Vec<String> = started.map(str::to_owned).chain(command.iter().cloned()).collect();
    if begin.is_some() {
        // The whole line is the stage's, so the image's own beginning of it must not come again.
        if let Value::Array(args) = container.entry("args").or_insert_with(|| json!([])) {
            args.push(json!("--entrypoint="));
        }
    }
    if entry == Some(&["text-generation-launcher"]) && command.is_empty() {
        return nothing(format!(
            "cannot translate the line: the settings of `{image}` are in its variables, which are not read; give \
            them as options, `--model-id` and so on, behind the image"
        ));
    }
    let is_shell = started.first().is_none_or(|word| matches!(base(word), "bash" | "sh" | "zsh"));
    if is_shell && started.len() <= 1 {
        // A container of the client tools.
        if image.contains("-sdk") {
            let text = format!(
                "cannot translate `{engine} run … {image}`: it holds the client, which is Regatta; run the \
                benchmark's line without a container"
            );
            return nothing(text);
        }
        let has_terminal = ["--interactive", "--tty", "-it", "-dit"].iter().any(|name| line.has(name));
        if has_terminal || !started.is_empty() || ports.is_empty() {
            return builder.finish(TOOL, TranslationKind::Container(container));
        }
    }
    // Its own entry point takes these arguments; its name does not show which program that is.
    if begin.is_none() && started.first().is_none_or(|word| word.starts_with('-')) {
        return nothing(format!(
            "cannot translate the line: which program the image `{image}` starts is not known; write the program in \
            front of its arguments, or start the container and measure it: `regatta bench http://localhost:PORT`"
        ));
    }
    let mut translation = inner(&started).map_err(|error| error.within(&format!("in the container of `{image}`")))?;
    for stage in translation.kind.stages_mut() {
        if put_container(stage, &container) {
            for name in &secrets {
                put_secret(stage, name);
            }
        }
        listen_on(stage, &ports);
        if let Some(given) = line.given.iter().rfind(|given| given.name == "--gpus") {
            see_gpus(stage, given.value(), &mut builder);
        }
    }
    // Clients do not run in a container here.
    if let TranslationKind::Bench(bench) = &mut translation.kind {
        for (host, inside) in mounts(&container) {
            for word in &mut bench.args {
                *word = on_host(word, &inside, &host);
            }
        }
    }
    builder.absorb(&format!("{engine} run"), &mut translation);
    builder.finish(translation.tool, translation.kind)
}

/// `--gpus all`, `--gpus 2`, `--gpus '"device=0,1"'`: what a server sees whose line does not say how many it needs.
fn see_gpus(stage: &mut Map<String, Value>, value: &str, builder: &mut TranslationBuilder) {
    let has_own = stage.contains_key("gpus");
    let listed = value.trim_matches(['"', '\'']).strip_prefix("device=");
    let count = match listed {
        Some(ids) => (!ids.contains("{{")).then(|| Quantity::Known(ids.split(',').count() as u64)),
        None => value.parse::<Quantity<u64>>().ok(),
    };
    match count {
        Some(count) if !has_own => {
            stage.insert("gpus".to_owned(), json!(count));
        }
        // Its own tools count the GPUs that they need.
        None if !has_own && stage.contains_key("serve") => {
            let args = stage.get_mut("container").and_then(Value::as_object_mut);
            let args = args.map(|container| container.entry("args").or_insert_with(|| json!([])));
            if let Some(Value::Array(args)) = args {
                args.push(json!("--gpus=all"));
            }
            builder.note(
                "--gpus all: the container sees every GPU, and none is leased; `gpus: N` of the stage leases N of them",
            );
        }
        Some(Quantity::Unknown(_)) => {
            builder.note(format!("--gpus {value}: as many are leased as the server's own options need"));
        }
        _ => {}
    }
    if let Some(ids) = listed {
        builder.note(format!("--gpus {value}: `regatta run … --gpus {ids}` selects them"));
    }
}

/// A path below `inside`, as it is on the host.
fn on_host(word: &str, inside: &str, host: &str) -> String {
    match word.strip_prefix(inside) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{host}{rest}"),
        _ => word.to_owned(),
    }
}

/// The options of a line that describe its container.
struct ContainerKeys {
    /// The keys of `container:`.
    keys: Map<String, Value>,
    /// Variables whose values are not written down.
    secrets: Vec<String>,
}

fn container(line: &ParsedLine, image: &str, builder: &mut TranslationBuilder) -> ContainerKeys {
    let mut keys = Map::from_iter([("image".to_owned(), json!(image))]);
    let (mut mounts, mut args) = (Vec::new(), Vec::new());
    let (mut ulimits, mut env, mut secrets) = (Map::new(), Map::new(), Vec::new());
    for given in &line.given {
        let value = given.value();
        match given.name {
            "--net" | "--shm-size" | "--user" | "--name" => {
                let key = if given.name == "--net" { "network" } else { given.name.trim_start_matches('-') };
                keys.insert(key.replace('-', "_"), json!(value));
            }
            "--ulimit" => match value.split_once('=').map(|(name, limit)| (name, limit.parse::<i64>())) {
                Some((name, Ok(limit))) => {
                    ulimits.insert(name.to_owned(), json!(limit));
                }
                _ => args.push(format!("--ulimit={value}")),
            },
            "--volume" => match value.strip_prefix("~/").and_then(|rest| Some((std::env::var("HOME").ok()?, rest))) {
                // As the shell writes it.
                Some((home, rest)) => mounts.push(format!("{}/{rest}", home.trim_end_matches('/'))),
                // A volume of the engine's own has a name.
                None if !value.starts_with(['/', '{', '.', '~']) => args.push(format!("--volume={value}")),
                None => mounts.push(value.to_owned()),
            },
            "--mount" => args.push(format!("--mount={value}")),
            "--env" => match value.split_once('=') {
                Some((name, _)) if is_secret(name) => {
                    secrets.push(name.to_owned());
                    builder
                        .note(format!("{name} is read from the environment of the run; its value is not written down"));
                }
                Some((name, value)) => {
                    env.insert(name.to_owned(), json!(value));
                }
                None => secrets.push(value.to_owned()),
            },
            "--workdir" | "--ipc" | "--cap-add" | "--security-opt" | "--device" | "--memory" | "--cpus"
            | "--runtime" | "--env-file" | "--hostname" | "--platform" | "--add-host" | "--pull" => {
                args.push(format!("{}={value}", given.name));
            }
            "--privileged" | "--init" => args.push(given.name.to_owned()),
            // A server's ports are the host's own.
            "--publish" => {
                keys.entry("network").or_insert_with(|| json!("host"));
                builder.note(format!("-p {value}: with `network: host` the server listens on the host's port itself"));
            }
            // A stage removes its container, and has no terminal in it; --gpus goes to the server that is started.
            _ => {}
        }
    }
    for (name, values) in [("mounts", mounts), ("args", args)] {
        if !values.is_empty() {
            keys.insert(name.to_owned(), json!(values));
        }
    }
    for (name, values) in [("ulimits", ulimits), ("env", env)] {
        if !values.is_empty() {
            keys.insert(name.to_owned(), Value::Object(values));
        }
    }
    ContainerKeys { keys, secrets }
}

/// Triton's ports, and their defaults.
const TRITON: [(&str, u64); 3] = [("http_port", 8000), ("grpc_port", 8001), ("metrics_port", 8002)];

/// The ports on the host and inside the container: `9000:8000`, `127.0.0.1:9000:8000/tcp`, `8000-8002:8000-8002`. One
/// without a port on the host is published on a free one, and is not listed.
fn published(text: &str) -> Vec<(u64, u64)> {
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
fn listen_on(stage: &mut Map<String, Value>, ports: &[(u64, u64)]) {
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
    fn an_image_of_a_mirror_starts_what_the_original_starts() {
        for image in [
            "vllm/vllm-openai",
            "docker.io/vllm/vllm-openai:latest",
            "registry.example:5000/mirror/vllm/vllm-openai:v0.10.1",
            "vllm/vllm-openai:v0.10.1@sha256:00",
            "ghcr.io/vllm-project/vllm-openai",
        ] {
            assert_eq!(entry_point(image), Some(&["vllm", "serve"][..]), "{image}");
        }
        for image in ["my-vllm/vllm-openai-x", "x.vllm/vllm-openai", "rocm/vllm", "registry.example:5000/vllm-openai"] {
            assert_eq!(entry_point(image), None, "{image}");
        }
    }

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
