//! `serve:` — servers with a lifetime.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ready_when::ReadyWhen;
use super::{TritonServer, TrtllmServe, Vllm};
use base::event::{Endpoint, EndpointError};

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
    /// Any other server.
    Command(CommandServer),
    /// Servers that already run.
    Attach(AttachServer),
}

impl Serve {
    /// The servers to attach to, if this is not one that is started. NVIDIA's name for it is `triton_skip_server_spawn`.
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
    #[serde(default = "unity")]
    #[schemars(range(min = 0.001, max = 1000.0))]
    pub speed: f64,
    /// Simulated seconds until the engine is loaded.
    #[serde(default)]
    #[schemars(range(min = 0.0))]
    pub load_seconds: f64,
}

const fn unity() -> f64 {
    1.0
}

/// Running servers: nothing is started or stopped, only waited for.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AttachServer {
    /// Where they are: `host:port,port|host:port` (gRPC ports), or a list of such texts and of `{ grpc: host:8001, http: 8000, metrics: 8002 }`.
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
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EndpointPorts {
    /// `host:port`; an IPv6 address in brackets.
    pub grpc: String,
    /// HTTP port on the same host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub http: Option<u16>,
    /// Metrics port on the same host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
        let mut all = Vec::new();
        for (index, entry) in list.iter().enumerate() {
            let read = match entry {
                EndpointText::Text(text) => Endpoint::list(text),
                EndpointText::Ports(ports) => ports
                    .grpc
                    .parse()
                    .map(|endpoint| vec![Endpoint { http: ports.http, metrics: ports.metrics, ..endpoint }]),
            };
            all.extend(read.map_err(|error| (Some(index), error))?);
        }
        if all.is_empty() { Err((None, EndpointError::NoServer)) } else { Ok(all) }
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandServer {
    /// The program and its arguments. `{port}` is replaced by a free port, `{name}` by a unique name. With `mpirun`
    /// all ranks are stopped and reported; with `docker run --name {name}` or podman's the container is stopped and removed by its name.
    pub words: Vec<String>,
    /// A fixed port instead of a free one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    #[serde(default)]
    pub ready: ReadyWhen,
}
