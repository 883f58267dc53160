//! `docker run IMAGE [COMMAND]`: a stage has the image as its `container`, and the command is what is started in it.
//! What listens on a port inside the container listens on the published one.
//!
//! Compose files: each service is the line of `docker run` that starts it.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::command_line::{
    OptionRow, ParsedLine, TranslateContained, TranslationBuilder, TranslationKind, TranslationResult, base,
    idle_command, is_secret, mounts, put_container, put_secret, tool_table,
};
use base::spec::Quantity;
use base::units::{is_identifier, shell_word, unquoted};

tool_table!(TABLE, ["docker-run"], []);

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

/// `inner` translates the command in the container, whose files lie where its mounts say.
pub(crate) fn translate(engine: &str, words: &[String], inner: TranslateContained<'_>) -> TranslationResult {
    let mut builder = TranslationBuilder::default();
    let nothing = |text: String| TranslationBuilder::nothing("docker", text);
    let (command, rest) = words.split_first().map_or(("", words), |(command, rest)| (command.as_str(), rest));
    if command != "run" {
        return idle_command(&format!("{engine} {command}"), "docker *");
    }
    let line = TABLE.read_front(TABLE.program, rest, &mut builder);
    let Some((image, command)) = line.behind.split_first() else {
        if builder.problems.is_empty() {
            builder.push_error(format!("`{engine} run` needs an image"));
        }
        return builder.finish(TABLE.program, TranslationKind::Nothing(String::new()));
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
            them as options, `--model-id` and so on, after the image"
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
            return builder.finish(TABLE.program, TranslationKind::Container(container));
        }
    }
    // Its own entry point takes these arguments; its name does not show which program that is.
    if begin.is_none() && started.first().is_none_or(|word| word.starts_with('-')) {
        return nothing(format!(
            "cannot translate the line: the program that the image `{image}` starts is unknown; write the program \
             before its arguments, or start the container and measure it: `regatta bench http://localhost:PORT`"
        ));
    }
    let translated = inner(&mounts(&container), &started);
    let mut translation = translated.map_err(|error| error.within(&format!("in the container of `{image}`")))?;
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
            // `--model` is the name that the server was given, not a path on the host.
            let is_name = |at: usize, args: &[String]| at > 0 && args[at - 1] == "--model";
            for at in (0..bench.args.len()).filter(|at| !is_name(*at, &bench.args)).collect::<Vec<_>>() {
                if let Some(path) = on_host(&bench.args[at], &inside, &host) {
                    bench.args[at] = path;
                }
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
pub(crate) fn on_host(word: &str, inside: &str, host: &str) -> Option<String> {
    let rest = word.strip_prefix(inside).filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
    Some(format!("{host}{rest}"))
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
                None => mounts.push(whole_mount(value)),
            },
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
            // A server's ports are the host's own.
            "--publish" => {
                keys.entry("network").or_insert_with(|| json!("host"));
                builder.note(format!("-p {value}: with `network: host` the server listens on the host's port itself"));
            }
            // They are for the server that is started.
            "--gpus" | "--entrypoint" => {}
            name if TABLE.row(name).is_some_and(OptionRow::is_of_server) => {
                args.push(given.values.first().map_or_else(|| name.to_owned(), |value| format!("{name}={value}")));
            }
            // A stage removes its container, and has no terminal in it.
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

/// A mount with the whole path of a folder that is named from here, and without labels of SELinux.
fn whole_mount(value: &str) -> String {
    let (host, inside) = value.split_once(':').unwrap_or((value, ""));
    let whole = Some(host).filter(|host| host.starts_with('.')).and_then(|host| std::path::absolute(host).ok());
    let mut parts = inside.split(':');
    let (inside, options) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let option = options.split(',').find(|option| ["ro", "rw"].contains(option));
    let host = whole.as_deref().and_then(Path::to_str).unwrap_or(host);
    [Some(host), Some(inside), option].into_iter().flatten().collect::<Vec<_>>().join(":")
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

/// Keys of a service whose option of `docker run` has another name.
const OPTIONS: [(&str, &str); 11] = [
    ("devices", "--device"),
    ("env_file", "--env-file"),
    ("extra_hosts", "--add-host"),
    ("mem_limit", "--memory"),
    ("sysctls", "--sysctl"),
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
/// where the text is another file. `env`: the file `.env` next to it; its secrets are left out.
/// `folder`: where it lies.
pub fn compose_script(text: &str, env: &str, folder: &Path) -> Option<String> {
    let file: Map<String, Value> = base::files::parse_yaml(text).ok()?;
    let services = file.get("services").and_then(Value::as_object).filter(|_| !file.contains_key("regatta"))?;
    let is_used = |name: &str| ["$", "${"].iter().any(|sign| text.contains(&format!("{sign}{name}")));
    let values =
        env.lines().filter_map(variable).filter(|(name, _)| is_identifier(name) && is_used(name) && !is_secret(name));
    let mut script = String::new();
    for (name, value) in values {
        script.extend([name, "=", &shell_word(value), "; "]);
    }
    for (name, service) in services {
        let is_begin = |line: &str| line.trim_end().strip_suffix(':').is_some_and(|key| key.trim() == name);
        let line = text.lines().position(is_begin).unwrap_or(0);
        let missing = line.saturating_sub(script.matches('\n').count());
        script.push_str(&"\n".repeat(missing));
        // A service is known to the others by its name; stages share the host's network.
        let line = services.keys().fold(service_line(name, service.as_object()?, folder), |line, other| {
            line.replace(&format!("//{other}:"), "//localhost:")
        });
        script.push_str(&line);
        script.push('\n');
    }
    Some(script)
}

/// A line of `.env`: `NAME=VALUE`, `export NAME="VALUE"`, `NAME=VALUE # remark`.
fn variable(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start_matches('\u{feff}').trim();
    let (name, value) = line.strip_prefix("export ").unwrap_or(line).split_once('=')?;
    let value = value.trim();
    let inside = |quote: char| value.strip_prefix(quote)?.split(quote).next();
    let unquoted = || value.split(" #").next().unwrap_or_default().trim_end();
    let value = inside('"').or_else(|| inside('\'')).unwrap_or_else(unquoted);
    (!name.starts_with('#')).then_some((name.trim_end(), value))
}

fn service_line(name: &str, service: &Map<String, Value>, folder: &Path) -> String {
    let mut words = vec!["docker run --name".to_owned(), name.to_owned()];
    for (key, value) in service.iter().filter(|(key, _)| !NO_OPTIONS.split(' ').any(|other| other == *key)) {
        let renamed = OPTIONS.iter().find(|(other, _)| other == key).map(|(_, option)| (*option).to_owned());
        let option = renamed.unwrap_or_else(|| format!("--{}", key.replace('_', "-")));
        match value {
            Value::Bool(is_on) => words.extend(is_on.then_some(option)),
            value => words.extend(values(key, value).into_iter().flat_map(|value| {
                let is_beside = key == "volumes" && value.starts_with('.');
                let value = if is_beside { folder.join(value).display().to_string() } else { value };
                [option.clone(), quoted(&value)]
            })),
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
        [Some(from), Some(to)] if value.get("read_only") == Some(&Value::Bool(true)) => format!("{from}:{to}:ro"),
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

    #[test]
    fn a_service_is_a_line_of_docker_run_at_its_own_line() {
        let api = "  api:\n    image: a:v1\n    command: --model m --port 8000\n    ports: [\"9000:8000\"]\n    \
            environment: { HF_TOKEN: \"${HF_TOKEN}\" }\n    \
            deploy: { resources: { reservations: { devices: [{ driver: nvidia, count: 2 }] } } }\n";
        let load = "  load:\n    image: b\n    entrypoint: [a, x]\n    \
            command: [\"b c\", \"http://api:8000\"]\n";
        let script = compose_script(&format!("services:\n{api}{load}"), "", Path::new("/w")).expect("a compose file");
        let lines: Vec<(usize, &str)> = script.lines().enumerate().filter(|(_, line)| !line.is_empty()).collect();
        let api = "docker run --name api --publish 9000:8000 --env \"HF_TOKEN=${HF_TOKEN}\" --gpus 2 a:v1 \
            --model m --port 8000";
        assert_eq!(lines, [(1, api), (7, "docker run --name load --entrypoint a b x 'b c' http://localhost:8000")]);
        assert_eq!(compose_script("regatta: 1\nstages: {}\n", "", Path::new("/w")), None);
    }
}
