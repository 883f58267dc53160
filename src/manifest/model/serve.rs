//! `serve:` — servers with a lifetime.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which server. Started when the first stage that needs it starts; stopped for certain afterwards.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Serve {
    /// The embedded simulated Triton, one process for each repository.
    Simulator(SimServer),
    /// A real `tritonserver`, one process for each repository.
    Triton(TritonServer),
    /// Any other server.
    Command(CommandServer),
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

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TritonServer {
    /// The folder that holds `triton_model_repo_<n>`.
    pub repository: String,
    #[serde(default)]
    pub ready: ReadyWhen,
    /// The server program.
    #[serde(default = "tritonserver")]
    pub program: String,
    /// Further arguments, as they stand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
}

fn tritonserver() -> String {
    "tritonserver".to_owned()
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandServer {
    /// The program and its arguments. `{port}` is replaced by a free port, `{name}` by a name that nothing else has. With `mpirun`
    /// all ranks are stopped and told of; with `docker run --name {name}` or podman's the container is stopped and removed by its name.
    pub words: Vec<String>,
    /// A fixed port instead of a free one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    #[serde(default)]
    pub ready: ReadyWhen,
}

/// When a server counts as ready.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadyWhen {
    /// Give up after this long.
    #[serde(default = "half_an_hour")]
    pub timeout: String,
    /// For `command`: `kserve` asks ServerReady over gRPC, `port` only connects.
    #[serde(default = "kserve")]
    pub by: String,
}

impl Default for ReadyWhen {
    fn default() -> Self {
        Self { timeout: half_an_hour(), by: kserve() }
    }
}

fn half_an_hour() -> String {
    "30m".to_owned()
}

fn kserve() -> String {
    "kserve".to_owned()
}
