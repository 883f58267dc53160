//! `serve:` — servers with a lifetime.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::{ActionFacts, Check, StageChecker, faults};
use crate::manifest::Map;
use crate::manifest::model::{ModelControl, RateLimit, ReadyWhen, Stage, TritonServer, TrtllmServe, Vllm};
use base::diag::{Diagnostic, nearest};
use base::event::{Endpoint, EndpointError};
use base::spec::{Launcher, ServerMode, TimeSpan};

/// Which server. Started when the first stage that needs it starts; always stopped afterwards.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Serve {
    /// The embedded simulated Triton, one process for each repository.
    Simulator(SimServer),
    /// A real `tritonserver`, one for each repository.
    Triton(Box<TritonServer>),
    /// TensorRT-LLM's `trtllm-serve`, one for each copy of the model.
    TrtllmServe(Box<TrtllmServe>),
    /// vLLM's server, one for each copy of the model.
    Vllm(Box<Vllm>),
    /// Any other server: its command line, or a map with it.
    #[serde(deserialize_with = "command_server")]
    #[schemars(with = "WrittenCommand")]
    Command(CommandServer),
    /// Servers that already run.
    Attach(AttachServer),
}

impl Serve {
    /// The servers to attach to, if this is not one that is started. NVIDIA's name for it is
    /// `triton_skip_server_spawn`.
    pub fn attached(&self) -> Option<AttachServer> {
        match self {
            Self::Attach(attach) => Some(attach.clone()),
            Self::Triton(server) if server.triton_skip_server_spawn => Some(AttachServer {
                endpoints: Endpoints::Text(server.triton_grpc_ports.clone().unwrap_or_default()),
                models: Vec::new(),
                ready: server.ready.clone(),
            }),
            Self::Simulator(_) | Self::Triton(_) | Self::TrtllmServe(_) | Self::Vllm(_) | Self::Command(_) => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SimServer {
    /// The folder that holds `triton_model_repo_<n>`.
    pub repository: String,
    #[serde(default)]
    pub ready: ReadyWhen,
    /// Simulated seconds per real second. 1 is real time.
    #[serde(default = "super::unity")]
    #[schemars(range(min = 0.001, max = 1000.0))]
    pub speed: f64,
    /// Simulated seconds until the engine is loaded.
    #[serde(default)]
    #[schemars(range(min = 0.0))]
    pub load_seconds: f64,
}

/// Running servers: nothing is started or stopped, only waited for.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AttachServer {
    /// `host:port,port|host:port` (gRPC ports), or a list of these and of `{ grpc: host:8001, http: 8000, metrics: 8002
    /// }`.
    pub endpoints: Endpoints,
    /// Models that each of them must have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    #[serde(default)]
    pub ready: ReadyWhen,
}

/// One text, or a list.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Endpoints {
    Text(String),
    List(Vec<EndpointText>),
}

/// One server, or several on one host.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum EndpointText {
    Text(String),
    Ports(EndpointPorts),
}

/// One server with all its ports.
#[base::omit_empty]
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EndpointPorts {
    /// `host:port`; an IPv6 address in brackets.
    pub grpc: String,
    /// HTTP port on the same host.
    #[schemars(range(min = 1))]
    pub http: Option<u16>,
    /// Metrics port on the same host.
    #[schemars(range(min = 1))]
    pub metrics: Option<u16>,
}

impl Endpoints {
    /// The servers, in the order in which they are written. On error: which entry of a list (none for a text), and why.
    pub fn read(&self) -> Result<Vec<Endpoint>, (Option<usize>, EndpointError)> {
        let list = match self {
            Self::Text(text) => return Endpoint::list(text).map_err(|error| (None, error)),
            Self::List(list) => list,
        };
        let mut endpoints = Vec::new();
        for (index, entry) in list.iter().enumerate() {
            let read = match entry {
                EndpointText::Text(text) => Endpoint::list(text),
                EndpointText::Ports(ports) => ports
                    .grpc
                    .parse()
                    .map(|endpoint| vec![Endpoint { http: ports.http, metrics: ports.metrics, ..endpoint }]),
            };
            endpoints.extend(read.map_err(|error| (Some(index), error))?);
        }
        if endpoints.is_empty() { Err((None, EndpointError::NoServer)) } else { Ok(endpoints) }
    }
}

/// The command of a server as a manifest has it.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum WrittenCommand {
    Line(CommandLine),
    Server(CommandServer),
}

/// A text is split as a shell splits it; nothing in it is expanded.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum CommandLine {
    Text(String),
    Words(Vec<String>),
}

impl CommandLine {
    fn split<E: serde::de::Error>(self) -> Result<Vec<String>, E> {
        match self {
            Self::Text(text) => shlex::split(&text).ok_or_else(|| E::custom("a quotation mark is not closed")),
            Self::Words(words) => Ok(words),
        }
    }
}

fn command_words<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    CommandLine::deserialize(from)?.split()
}

fn command_server<'de, D: Deserializer<'de>>(from: D) -> Result<CommandServer, D::Error> {
    match WrittenCommand::deserialize(from)? {
        WrittenCommand::Server(server) => Ok(server),
        WrittenCommand::Line(line) => {
            Ok(CommandServer { words: line.split()?, port: None, ready: ReadyWhen::default() })
        }
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandServer {
    /// The program and its arguments. `{port}` is a free port, `{name}` a unique name; `docker run --name {name}` lets
    /// Regatta stop the container. With `mpirun` all ranks are stopped.
    #[serde(deserialize_with = "command_words")]
    #[schemars(with = "CommandLine")]
    pub words: Vec<String>,
    /// A fixed port instead of a free one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    #[serde(default)]
    pub ready: ReadyWhen,
}

const READY_BY: [&str; 4] = ["detect", "kserve", "port", "health"];
const GRAMMAR: &str = "`host:port,port|host:port`, gRPC ports; an IPv6 address in brackets. A server over HTTP needs \
 no stage: its URL is a bench's `target`";

impl Check for Serve {
    const FACTS: ActionFacts = ActionFacts {
        is_service: true,
        is_of_server: true,
        is_checked_across_stages: true,
        sharing_obstacle: Some("a server leaves no output"),
        ..ActionFacts::STEP
    };

    fn reads(&self) -> Vec<(&'static str, &str)> {
        match self {
            Self::Simulator(server) => vec![("serve.repository", server.repository.as_str())],
            Self::Triton(server) => server.repository.iter().map(|path| ("serve.repository", path.as_str())).collect(),
            Self::TrtllmServe(server) => checkpoint_paths(&server.model, server.tokenizer.as_ref()),
            Self::Vllm(server) => checkpoint_paths(&server.model, server.tokenizer.as_ref()),
            Self::Command(_) | Self::Attach(_) => Vec::new(),
        }
    }

    fn check(&self, _: &Stage, checker: &mut StageChecker<'_>) {
        match self {
            Self::Simulator(server) => {
                checker.ready("simulator", &server.ready);
                checker.check_ready_by("simulator", &server.ready, OVER_KSERVE);
            }
            Self::Triton(server) => {
                checker.ready("triton", &server.ready);
                checker.check_ready_by("triton", &server.ready, OVER_KSERVE);
                checker.without_effect(server);
                checker.triton(server);
            }
            Self::TrtllmServe(server) => {
                checker.ready("trtllm_serve", &server.ready);
                checker.word(&["serve", "trtllm_serve", "backend"], &server.backend, &TrtllmServe::BACKENDS);
            }
            Self::Vllm(server) => {
                checker.check_ready_by("vllm", &server.ready, "`/health` and `/v1/models` are polled");
                checker.vllm(server);
            }
            Self::Command(server) => {
                checker.ready("command", &server.ready);
                if server.words.is_empty() {
                    checker.fault(&["serve", "command"], "needs a program", "it is empty");
                } else if server.port.is_none() && !server.words.iter().any(|word| word.contains("{port}")) {
                    let label = "each start chooses a free port, but this command does not receive it";
                    let hint = "write `{port}` where the program takes its port, as in `python3 server.py --port \
                                {port}`: it is replaced at each start. For a fixed port write `command: { words: …, \
                                port: 8000 }`";
                    checker.fault(&["serve", "command"], "needs `{port}`", label).hint(hint);
                }
            }
            Self::Attach(server) => {
                checker.ready("attach", &server.ready);
                checker.attach(server);
            }
        }
    }
}

/// Only a server with a custom command may lack KServe.
const OVER_KSERVE: &str = "this server is used over KServe";

/// Without names at Hugging Face, which begin with neither `/` nor `.`: they are not folders.
fn checkpoint_paths<'a>(model: &'a String, tokenizer: Option<&'a String>) -> Vec<(&'static str, &'a str)> {
    let folders = std::iter::once(model).chain(tokenizer).filter(|path| path.starts_with(['/', '.']));
    folders.map(|path| ("serve.model", path.as_str())).collect()
}

impl StageChecker<'_> {
    fn ready(&mut self, server: &str, ready: &ReadyWhen) {
        self.word(&["serve", server, "ready", "by"], &ready.by, &READY_BY);
        let path = ["serve", server, "ready", "timeout"];
        self.time_fault(&path, ready.timeout.as_ref().map(TimeSpan::time), "no server starts at once");
    }

    /// `why`: what decides when such a server is ready.
    fn check_ready_by(&mut self, server: &str, ready: &ReadyWhen, why: &str) {
        if !ready.is_usual() {
            self.idle(&["serve", server, "ready", "by"], why, "remove it");
        }
    }

    /// Options that another one makes meaningless.
    fn without_effect(&mut self, server: &TritonServer) {
        let settings = self.node.entry(&["serve", "triton"]).and_then(|triton| triton.node.map());
        let given: Vec<&String> = settings.into_iter().flat_map(Map::keys).collect();
        let is_given = |key: &str| given.iter().any(|name| *name == key);
        if server.triton_skip_server_spawn {
            let used = ["triton_skip_server_spawn", "triton_grpc_ports", "ready"];
            for key in given.iter().filter(|key| !used.contains(&key.as_str())) {
                self.idle(&["serve", "triton", key], "the servers are there already", "remove it");
            }
            return;
        }
        if !server.words.is_empty() {
            const USED: &str = "words repository ready force container host grpc_port http_port metrics_port";
            for key in given.iter().filter(|key| !USED.split(' ').any(|used| used == key.as_str())) {
                self.idle(&["serve", "triton", key], "`words` is the whole command line", "write it there");
            }
            return;
        }
        let alone = server.launcher == Some(Launcher::None)
            || server.launcher.is_none() && server.mode == Some(ServerMode::Plain);
        let (slurm, mpi) = (server.launcher == Some(Launcher::Srun), !alone);
        for (key, is_read, why) in [
            ("srun", slurm, "the launcher is not srun"),
            ("mpi", mpi && !slurm, "the launcher is not mpirun"),
            ("oversubscribe", mpi, "nothing launches the ranks"),
        ] {
            if is_given(key) && !is_read {
                self.idle(&["serve", "triton", key], why, "remove it, or name the `launcher`");
            }
        }
        let is_unlimited = server.rate_limit != Some(RateLimit::ExecutionCount);
        faults! { self;
            ["serve", "triton", "rate_limit_resource"], is_given("rate_limit_resource") && is_unlimited,
                "has no effect", "the rate limiter is off", "`rate_limit: execution_count`";
        }
        for what in ["http", "grpc", "metrics"] {
            let is_closed = [format!("allow-{what}"), format!("allow_{what}")].iter().any(|option| {
                matches!(server.options.get(option), Some(Value::Bool(false)))
                    || server.options.get(option).and_then(Value::as_str) == Some("false")
            });
            for key in [format!("{what}_port"), format!("{what}_address")] {
                if is_closed && is_given(&key) {
                    let reason = format!("`allow-{what}` is false");
                    self.idle(&["serve", "triton", &key], &reason, "remove one of them");
                }
            }
        }
    }

    fn attach(&mut self, server: &AttachServer) {
        if let Err((index, why)) = server.endpoints.read() {
            let index = index.map(|index| index.to_string());
            let mut path = vec!["serve", "attach", "endpoints"];
            path.extend(index.as_deref());
            self.push_servers_error(&path, &why);
        }
    }

    fn push_servers_error(&mut self, path: &[&str], why: &EndpointError) {
        if *why == EndpointError::Credentials {
            self.push_credentials_error(path);
        } else {
            self.fault(path, "must name servers", &why.to_string()).hint(GRAMMAR);
        }
    }

    /// vLLM takes the last of an option that stands twice, without a message.
    fn vllm(&mut self, server: &Vllm) {
        if server.program.iter().any(String::is_empty) {
            self.fault(&["serve", "vllm", "program"], "has an empty argument", "the program has a name");
        }
        for name in server.options.keys() {
            let option = name.replace('_', "-");
            let mut keys = Vllm::OWN.split(' ').chain(["model", "port", "host"]);
            if let Some(key) = keys.find(|key| key.replace('_', "-") == option) {
                self.fault(&["serve", "vllm", "options", name], "has a key of its own", "not among `options`")
                    .hint(format!("write `{key}` next to `options`"));
            }
        }
    }

    fn triton(&mut self, server: &TritonServer) {
        if server.triton_skip_server_spawn {
            if let Some(text) = &server.triton_grpc_ports
                && let Err((_, why)) = Endpoints::Text(text.clone()).read()
            {
                self.push_servers_error(&["serve", "triton", "triton_grpc_ports"], &why);
            }
            faults! { self;
                ["serve", "triton", "triton_skip_server_spawn"], server.triton_grpc_ports.is_none(),
                    "needs `triton_grpc_ports`", "the servers already run, but their ports are missing",
                    "add `triton_grpc_ports: \"localhost:8001\"`";
            }
            return;
        }
        faults! { self;
            ["serve", "triton", "triton_grpc_ports"], server.triton_grpc_ports.is_some(),
                "names servers that already run", "but servers are started here",
                "add `triton_skip_server_spawn: true`, or set `grpc_port` to the port of the first server";
        }
        if server.repository.is_none() {
            let place = self.node.place(&["serve", "triton"]);
            let message = format!("`stages.{}.serve.triton` needs `repository`", self.name);
            let fault = Diagnostic::error(message).at(place.first_line(), "`repository` is missing");
            self.found.push(fault.hint("add `repository: \"{{ stages.NAME.out }}\"` of a `repository` stage"));
        }
        self.modes(server);
        self.options(server);
        for (key, address) in [
            ("http_address", &server.http_address),
            ("grpc_address", &server.grpc_address),
            ("metrics_address", &server.metrics_address),
        ] {
            let is_none = |address: &str| address.is_empty() || address.contains([' ', '/', ',']);
            faults! { self;
                ["serve", "triton", key], address.as_deref().is_some_and(is_none), "must be an address",
                    "without a scheme or a port", "for example `127.0.0.1`";
            }
        }
        for (index, resource) in server.rate_limit_resource.iter().enumerate() {
            let mut parts = resource.split(':');
            let fine = parts.next().is_some_and(|name| !name.is_empty())
                && (1..=2).contains(&resource.matches(':').count())
                && parts.all(|part| part.parse::<u64>().is_ok());
            faults! { self;
                ["serve", "triton", "rate_limit_resource", &index.to_string()], !fine,
                    "must be `name:count` or `name:count:device`", "this is not", "`R1:10`, or `R1:10:0` for device 0";
            }
        }
        if let Some(container) = &server.container {
            self.container_at(&["serve", "triton", "container"], container);
        }
    }

    /// What contradicts itself without a look at any engine.
    fn modes(&mut self, server: &TritonServer) {
        let has_ranks = server.world_size.is_some_and(|world| world > 1);
        let is_not_orchestrator = server.mode.is_some_and(|mode| mode != ServerMode::Orchestrator);
        faults! { self;
            ["serve", "triton", "spawn_processes"], is_not_orchestrator && server.spawn_processes.is_some(),
                "is for `mode: orchestrator`", "the mode is another", "remove it";
            ["serve", "triton", "world_size"], server.mode == Some(ServerMode::Plain) && has_ranks,
                "must be 1 in `mode: plain`", "that mode is one rank", "set `mode: leader`";
            ["serve", "triton", "launcher"], server.launcher == Some(Launcher::None) && has_ranks,
                "cannot be `none`", "the world size is greater than 1", "`mpi` or `srun`";
            ["serve", "triton", "load_model"],
                !server.load_model.is_empty() && server.model_control_mode != Some(ModelControl::Explicit),
                "needs `model_control_mode: explicit`", "otherwise Triton loads all models",
                "add `model_control_mode: explicit`";
        }
        for (index, host) in server.mpi.hosts.iter().enumerate() {
            let (name, slots) = host.split_once(':').unwrap_or((host, "1"));
            faults! { self;
                ["serve", "triton", "mpi", "hosts", &index.to_string()],
                    name.is_empty() || slots.parse::<u32>().unwrap_or_default() == 0,
                    "must be `host` or `host:slots`", "this is not", "for example `node1:8`";
            }
        }
    }

    fn options(&mut self, server: &TritonServer) {
        for (name, value) in &server.options {
            let option = name.replace('_', "-");
            let place = self.node.key_place(&["serve", "triton", "options", name]);
            if let Some(key) = TritonServer::key_of_option(&option) {
                let message = format!("`{name}` has a key of its own");
                let fault = Diagnostic::error(message).at(place, "not among `options`");
                self.found.push(fault.hint(format!("write `{key}` next to `options`")));
            } else if option == "disable-auto-complete-config" {
                let fault = Diagnostic::error("`disable-auto-complete-config` is always there".to_owned());
                self.found.push(fault.at(place, "every config is complete").hint("remove it"));
            } else if !TritonServer::OPTIONS.split(' ').any(|known| known == option) {
                let option_names = TritonServer::OPTIONS.split(' ').chain(TritonServer::own_options());
                let hint = nearest(&option, option_names).map_or_else(
                    || format!("what only a newer server knows can be given through `args: [\"--{option}=…\"]`"),
                    |near| format!("did you mean `{near}`?"),
                );
                let message = format!("`{name}` is not an option of tritonserver");
                self.found.push(Diagnostic::error(message).at(place, "not known").hint(hint));
            } else if let Some(wrong) = unwritable(value) {
                let path = ["serve", "triton", "options", name];
                self.fault(&path, "must be a text, a number, true or false, or a list of them", wrong);
            }
        }
        for (backend, settings) in &server.backend_config {
            for (name, value) in settings {
                let path = ["serve", "triton", "backend_config", backend, name];
                if backend == "python" && name == "shm-region-prefix-name" {
                    self.fault(&path, "is set by Regatta, differently for each rank", "no two servers may share it")
                        .hint("remove it");
                } else if let Some(wrong) = unwritable(value).or(value.is_array().then_some("this is a list")) {
                    self.fault(&path, "must be a text, a number, true or false", wrong);
                }
            }
        }
    }
}

/// Why a value cannot stand on a command line.
fn unwritable(value: &Value) -> Option<&'static str> {
    match value {
        Value::Null => Some("this is nothing"),
        Value::Object(_) => Some("this is a map"),
        Value::Array(items) if items.iter().any(|item| item.is_array() || item.is_object() || item.is_null()) => {
            Some("a list with nested values")
        }
        _ => None,
    }
}
