//! Which server of a script a client uses: the one that listens on the port of its target.

use serde_json::Value;

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

#[cfg(test)]
mod tests {
    use serde_json::json;

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
