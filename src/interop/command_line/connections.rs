//! What connects the stages of a text: which server a client uses, the one that listens on the port of its target;
//! which stage reads what another one writes; and paths in a container.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::shell::UnknownValue;
use super::translation::Translation;

/// A server that the script starts.
#[derive(Clone, Debug)]
pub(crate) struct StartedServer {
    pub stage: String,
    /// None of them known: the server gets a free one.
    ports: Vec<u16>,
    /// Of its container, by which others on the same network find it.
    container: Option<String>,
}

/// What a target leads to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TargetMatch<'a> {
    /// This stage's server.
    Server(&'a str),
    /// This stage's server, whose ports are others: a sentence on it.
    Presumed(&'a str, String),
    /// No server of the script, and why.
    Other(Option<String>),
}

impl StartedServer {
    /// None where the stage has no server.
    pub fn of(name: &str, stage: &Value) -> Option<Self> {
        let serve = stage.get("serve")?.as_object()?;
        let keys = serve.values().filter_map(Value::as_object).flatten();
        let ports = keys.filter(|(key, _)| *key == "port" || key.ends_with("_port"));
        let ports = ports.filter_map(|(_, port)| u16::try_from(port.as_u64()?).ok()).collect();
        let container = stage.pointer("/container/name").and_then(Value::as_str).map(str::to_owned);
        Some(Self { stage: name.to_owned(), ports, container })
    }
}

/// `target` is an address or a URL, as it was written.
pub(crate) fn match_target<'a>(servers: &'a [StartedServer], target: &str) -> TargetMatch<'a> {
    let Some(last) = servers.last() else { return TargetMatch::Other(None) };
    // A value that the text does not have is most likely the address of what it started.
    if target.contains(['{', '$']) {
        return TargetMatch::Server(&last.stage);
    }
    let address = target.split_once("://").map_or(target, |(_, rest)| rest);
    let address = address.split('/').next().unwrap_or_default();
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse::<u16>().ok()),
        _ => (address, None),
    };
    if let Some(server) = servers.iter().find(|server| server.container.as_deref() == Some(host)) {
        return TargetMatch::Server(&server.stage);
    }
    if !["localhost", "127.0.0.1", "0.0.0.0", "[::1]", "::1", ""].contains(&host) {
        return TargetMatch::Other(Some(format!(
            "{target} is not on this machine: it is not one of the servers of the script"
        )));
    }
    let listens = |server: &&StartedServer| port.is_some_and(|port| server.ports.contains(&port));
    // The last one counts: one that came before it on the same port has ended.
    if let Some(server) = servers.iter().rev().find(listens) {
        return TargetMatch::Server(&server.stage);
    }
    if let Some(server) = servers.iter().rev().find(|server| server.ports.is_empty()) {
        return TargetMatch::Server(&server.stage);
    }
    let ports = last.ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
    let note = format!("{target} is taken for `{}`, which the script starts on {ports}", last.stage);
    TargetMatch::Presumed(&last.stage, note)
}

/// Where one stage names a path that another one writes, it reads that stage's output.
pub(crate) fn read_outputs<'a>(stages: impl Iterator<Item = &'a mut Value>, produced: &[(String, String)]) {
    for stage in stages {
        for (path, expression) in produced {
            replace_path(stage, path.trim_start_matches("./").trim_end_matches('/'), expression);
        }
    }
}

/// A path, and every path below it, in each text of the value.
pub(crate) fn replace_path(value: &mut Value, path: &str, with: &str) {
    each_text(value, &mut |text| {
        let plain = text.trim_start_matches("./").trim_end_matches('/');
        if plain == path {
            with.clone_into(text);
        } else if let Some(rest) = plain.strip_prefix(path).filter(|rest| rest.starts_with('/')) {
            *text = format!("{with}{rest}");
        }
    });
}

/// Every text of a value, that of its lists and objects, too.
pub(crate) fn each_text(value: &mut Value, change: &mut dyn FnMut(&mut String)) {
    match value {
        Value::String(text) => change(text),
        Value::Array(all) => all.iter_mut().for_each(|one| each_text(one, change)),
        Value::Object(all) => all.values_mut().for_each(|one| each_text(one, change)),
        _ => {}
    }
}

// The container that a text starts around commands → `container:` of the stages whose programs can run in one, and
// paths inside a container → paths on the host: through its mounts; a path under no mount becomes a parameter.

/// Actions whose programs can run in a container.
const RUN_IN_CONTAINERS: [&str; 5] = ["shell", "engine", "serve", "trtllm_bench", "mlperf"];

/// A stage that only calls Regatta.
fn is_ours(stage: &Map<String, Value>) -> bool {
    stage.get("shell").and_then(|words| words.get(0)).and_then(Value::as_str) == Some("regatta")
}

/// The container of a stage, unless it has one of its own; whether the stage can run in one.
pub(crate) fn put_container(stage: &mut Map<String, Value>, container: &Map<String, Value>) -> bool {
    let can = RUN_IN_CONTAINERS.iter().any(|action| stage.contains_key(*action)) && !is_ours(stage);
    if can {
        stage.entry("container").or_insert_with(|| Value::Object(container.clone()));
    }
    can
}

/// A variable that the stage's programs get from the environment of the run.
pub(crate) fn put_secret(stage: &mut Map<String, Value>, name: &str) {
    if let Some(names) = stage.entry("secrets").or_insert_with(|| json!([])).as_array_mut()
        && !names.contains(&json!(name))
    {
        names.push(json!(name));
    }
}

/// Keys of a stage that name a file or a folder which the run looks for on the host.
const READ_ON_THE_HOST: &str = "serve/vllm/model serve/vllm/tokenizer serve/triton/repository serve/trtllm_serve/model \
    serve/trtllm_serve/tokenizer trtllm_bench/dataset trtllm_bench/model_path trtllm_bench/engine_dir \
    repository/engine repository/tokenizer repository/files";

/// The sentence on a path that no folder of the host has.
pub(crate) fn is_in_container(value: &UnknownValue) -> String {
    let UnknownValue { name, written, .. } = value;
    format!(
        "{written} is in the container, from no folder of the host: the parameter `{name}` is that folder or \
        file on the host"
    )
}

/// `HOST:INSIDE` of a container's mounts, the longest path inside it first.
pub(crate) fn mounts(container: &Map<String, Value>) -> Vec<(String, String)> {
    let written = container.get("mounts").and_then(Value::as_array).into_iter().flatten();
    read_mounts(written.filter_map(Value::as_str))
}

/// Of a server whose ranks are a step in a container; none where it has no container.
fn step_mounts(stage: &Map<String, Value>) -> Option<Vec<(String, String)>> {
    let args = stage.get("serve")?.pointer("/triton/srun/args")?.as_array()?;
    let value = |name: &str| args.iter().filter_map(Value::as_str).find_map(|word| word.strip_prefix(name));
    value("--container-image=")?;
    Some(read_mounts(value("--container-mounts=").into_iter().flat_map(|mounts| mounts.split(','))))
}

fn read_mounts<'a>(mounts: impl Iterator<Item = &'a str>) -> Vec<(String, String)> {
    let mut pairs: Vec<(String, String)> = mounts
        .filter_map(|mount| {
            let mut parts = mount.split(':').map(|part| part.trim_end_matches('/').to_owned());
            Some((parts.next()?, parts.next()?))
        })
        .filter(|(_, inside)| inside.starts_with('/'))
        .collect();
    pairs.sort_by_key(|(_, inside)| std::cmp::Reverse(inside.len()));
    pairs
}

/// Programs look their paths up where the stage's container has them; what a stage reads itself is on the host.
pub(crate) fn on_the_host(translation: &mut Translation) {
    let mut unknown: Vec<UnknownValue> = Vec::new();
    for stage in translation.kind.stages_mut() {
        let Some(mounts) = stage.get("container").and_then(Value::as_object).map(mounts).or_else(|| step_mounts(stage))
        else {
            continue;
        };
        let model = |stage: &Map<String, Value>| stage.get("serve")?.pointer("/vllm/model").cloned();
        let in_container = model(stage);
        for (key, value) in stage.iter_mut() {
            // The mounts themselves, and variables that programs in the container read.
            if key != "container" && key != "env" {
                for (host, inside) in &mounts {
                    replace_path(value, inside, host);
                }
            }
        }
        // Clients call the model by its path in the container.
        if in_container != model(stage)
            && let Some(Value::Object(server)) = stage.get_mut("serve").and_then(|serve| serve.pointer_mut("/vllm"))
        {
            server.entry("served_model_name").or_insert_with(|| in_container.unwrap_or_default());
        }
        let inputs = stage.get("inputs").and_then(Value::as_object).into_iter().flatten();
        let inputs: Vec<String> = inputs.map(|(name, _)| format!("inputs/{name}")).collect();
        for place in READ_ON_THE_HOST.split(' ').chain(inputs.iter().map(String::as_str)) {
            let (action, rest) = place.split_once('/').unwrap_or((place, ""));
            let path = stage.get_mut(action).and_then(|keys| keys.pointer_mut(&format!("/{rest}")));
            let Some(Value::String(path)) = path else { continue };
            let is_mounted = mounts.iter().any(|(host, _)| Path::new(path.as_str()).starts_with(host));
            if path.starts_with('/') && !is_mounted {
                let value = UnknownValue::of_path(path);
                *path = value.marker();
                if !unknown.contains(&value) {
                    unknown.push(value);
                }
            }
        }
    }
    for value in unknown {
        translation.notes.push(is_in_container(&value));
        if !translation.unknown.iter().any(|known| known.name == value.name) {
            translation.unknown.push(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_asks_the_server_that_listens_on_its_port() {
        let server = |name: &str, port: u16, container: &str| {
            let stage = json!({"serve": {"command": {"port": port}}, "container": {"name": container}});
            StartedServer::of(name, &stage).unwrap()
        };
        let servers = [server("a", 9000, "first"), server("b", 9001, "second")];
        assert_eq!(match_target(&servers, "http://localhost:9000/v1"), TargetMatch::Server("a"));
        assert_eq!(match_target(&servers, "127.0.0.1:9001"), TargetMatch::Server("b"));
        assert_eq!(match_target(&servers, "http://first:8000"), TargetMatch::Server("a"));
        assert_eq!(match_target(&servers, "{{url}}"), TargetMatch::Server("b"));
        assert!(matches!(match_target(&servers, "localhost:8000"), TargetMatch::Presumed("b", _)));
        assert!(matches!(match_target(&servers, "gpu7:9000"), TargetMatch::Other(Some(_))));
        assert_eq!(match_target(&[], "gpu7:9000"), TargetMatch::Other(None));
        assert!(StartedServer::of("c", &json!({"bench": {}})).is_none());
    }
}
