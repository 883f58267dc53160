//! `serve: { triton: … }` — a real `tritonserver`: which processes, with which options, started by what; and when a
//! server counts as ready.

use std::time::Duration;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::placement::{Container, Launcher, Mpi, ServerMode, Srun};
use super::quantity::TimeSpan;
use super::schema_format::{MOST_PARTS, MOST_SECONDS, MOST_USERS};

/// A real `tritonserver`: one for each `triton_model_repo_<n>` of the repository. `regatta plan MANIFEST --launch`
/// prints the exact commands.
#[crate::omit_empty]
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TritonServer {
    /// The folder of `triton_model_repo_<n>`, or one model repository. Required except with `triton_skip_server_spawn`.
    pub repository: Option<String>,
    #[serde(default)]
    pub ready: ReadyWhen,
    /// The server program.
    #[serde(default = "tritonserver")]
    pub program: String,
    /// The whole command line of one server, instead of these keys. `{repository}` is `repository`. Set the port keys
    /// to the ports that it opens. [default ports then: 8001, 8000 and 8002]
    pub words: Vec<String>,
    /// Before the command, in its container: `[numactl, --cpunodebind=0]`, `[nsys, profile, -o, trace]`.
    pub prefix: Vec<String>,
    /// Arguments of every server process.
    pub args: Vec<String>,

    /// How processes share the work. [default: plain for one GPU, leader for tp × pp > 1, orchestrator for several
    /// models or copies]
    pub mode: Option<ServerMode>,
    /// MPI ranks of one server. [default: leader tp × pp; plain and spawning orchestrator 1; other orchestrator 1 + all
    /// ranks]
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub world_size: Option<u32>,
    /// Orchestrator: true spawns workers through MPI; false uses ranks that were started with it, and each model needs
    /// `participant_ids`. [default: true]
    pub spawn_processes: Option<bool>,
    /// What starts the ranks. [default: mpi; none in mode plain]
    pub launcher: Option<Launcher>,
    /// More ranks than slots (mpirun) or CPUs (srun) are allowed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub oversubscribe: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    pub mpi: Mpi,
    #[serde(default, skip_serializing_if = "is_default")]
    pub srun: Srun,
    /// Start every rank with `trtllm-llmapi-launch` (PyTorch backend over several ranks).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trtllm_llmapi_launch: bool,
    /// Start although a program of this name runs already. [default: true]
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub force: bool,
    /// The servers' container, as `container` beside `serve`.
    pub container: Option<Container>,

    /// The servers' address for clients. [default: the bound address, or 127.0.0.1; with `mpi.hosts` the first host]
    pub host: Option<String>,
    /// HTTP port of the first server; others count up. [default: free ports]
    #[schemars(range(min = 1))]
    pub http_port: Option<u16>,
    /// gRPC port of the first server; others count up. [default: free ports]
    #[schemars(range(min = 1))]
    pub grpc_port: Option<u16>,
    /// Metrics port of the first server; others count up. [default: free ports]
    #[schemars(range(min = 1))]
    pub metrics_port: Option<u16>,
    /// Bind address of HTTP. [Triton's default: 0.0.0.0]
    pub http_address: Option<String>,
    /// Bind address of gRPC. [Triton's default: 0.0.0.0]
    pub grpc_address: Option<String>,
    /// Bind address of metrics. [Triton's default: that of HTTP]
    pub metrics_address: Option<String>,

    /// Level of verbose logging; rank 0 only. `launch_triton_server.py --log` is 3. [Triton's default: 0]
    #[schemars(range(max = MOST_PARTS))]
    pub log_verbose: Option<u32>,
    /// A file for rank 0's log, relative to the project; `{server}` is the server's number. `regatta logs` does not
    /// have it. [default: the task's log]
    pub log_file: Option<String>,
    /// Seconds for requests in flight when it is stopped. [Triton's default: 30]
    #[schemars(range(max = MOST_SECONDS))]
    pub exit_timeout_secs: Option<u32>,
    /// Models of ranks other than 0. [default: those with the backend `tensorrtllm`, else `tensorrt_llm`]
    pub tensorrt_llm_model_name: Vec<String>,
    /// Rank 0's CUDA memory pool on GPU 0, bytes, for multimodal encoders. [Triton's default: 67108864]
    pub multimodal_gpu0_cuda_mem_pool_bytes: Option<u64>,
    /// How models are loaded; rank 0. [Triton's default: none, which loads all]
    pub model_control_mode: Option<ModelControl>,
    /// Models that rank 0 loads at start; needs `model_control_mode: explicit`.
    pub load_model: Vec<String>,
    /// Backend → its settings: `{ python: { stub-timeout-seconds: 60 } }`.
    pub backend_config: IndexMap<String, IndexMap<String, Value>>,
    pub trace: Option<Trace>,
    /// Triton's rate limiter. [Triton's default: off]
    pub rate_limit: Option<RateLimit>,
    /// Resources of the rate limiter: `name:count` or `name:count:device`.
    pub rate_limit_resource: Vec<String>,
    /// Other options of `tritonserver` by name, without dashes; a list repeats one.
    pub options: IndexMap<String, Value>,

    /// NVIDIA's name for `serve: { attach: … }`: `triton_grpc_ports` are running servers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub triton_skip_server_spawn: bool,
    /// With `triton_skip_server_spawn`: gRPC ports, `host:port,port|host:port`.
    pub triton_grpc_ports: Option<String>,
}

crate::named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
    pub enum ModelControl {
        /// All models at start, none later.
        None = "none",
        /// As the repository changes.
        Poll = "poll",
        /// Those of `load_model`, and those that clients load.
        Explicit = "explicit",
    }
}

crate::named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
    pub enum RateLimit {
        Off = "off",
        ExecutionCount = "execution_count",
    }
}

/// Triton's request traces; rank 0.
#[crate::omit_empty]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// [default: triton]
    pub mode: Option<TraceMode>,
    /// What is traced. [Triton's default: nothing]
    pub level: Vec<TraceLevel>,
    /// Trace one request in N. [Triton's default: 1000]
    #[schemars(range(min = 1, max = MOST_USERS))]
    pub rate: Option<u32>,
    /// Traces altogether; -1 is without limit. [Triton's default: -1]
    #[schemars(range(min = -1))]
    pub count: Option<i32>,
    /// Mode triton: the file, relative to the project; `{server}` is the server's number.
    pub file: Option<String>,
    /// Other settings of the mode, e.g. `{ url: "localhost:4318/v1/traces" }` of opentelemetry.
    pub settings: IndexMap<String, Value>,
}

crate::named! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
    pub enum TraceMode {
        #[default]
        Triton = "triton",
        Opentelemetry = "opentelemetry",
    }
}

crate::named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
    pub enum TraceLevel {
        Off = "OFF",
        Timestamps = "TIMESTAMPS",
        Tensors = "TENSORS",
    }
}

impl TritonServer {
    /// Options of `tritonserver` that have a key of their own here, which is called as they are.
    const OWN: &'static str = "http-port grpc-port metrics-port http-address grpc-address metrics-address log-verbose \
        log-file exit-timeout-secs model-control-mode load-model backend-config rate-limit rate-limit-resource";

    /// Those whose key has another name: option → key.
    const RENAMED: [(&'static str, &'static str); 6] = [
        ("model-repository", "repository"),
        ("model-store", "repository"),
        ("trace-config", "trace"),
        ("trace-file", "trace"),
        ("trace-level", "trace"),
        ("trace-rate", "trace"),
    ];

    /// The options with a key of their own.
    pub fn own_options() -> impl Iterator<Item = &'static str> {
        Self::OWN.split(' ').chain(Self::RENAMED.into_iter().map(|(option, _)| option))
    }

    /// The key of an option that has one of its own.
    pub fn key_of_option(option: &str) -> Option<String> {
        let renamed = Self::RENAMED.iter().find(|(name, _)| *name == option).map(|(_, key)| (*key).to_owned());
        renamed.or_else(|| Self::OWN.split(' ').find(|name| *name == option).map(|name| name.replace('-', "_")))
    }

    /// What `options` may hold: every other option of `tritonserver` that means something to a server with
    /// TensorRT-LLM. One that is not here, or newer, can be given through `args`.
    pub const OPTIONS: &'static str = "\
        allow-client-shm allow-cpu-metrics allow-gpu-metrics allow-grpc allow-http allow-metrics backend-directory \
        buffer-manager-thread-count cache-config cache-directory cuda-memory-pool-byte-size cuda-virtual-address-size \
        enable-peer-access exit-on-error grpc-header-forward-pattern grpc-http2-max-ping-strikes \
        grpc-http2-max-pings-without-data grpc-http2-min-recv-ping-interval-without-data \
        grpc-infer-allocation-pool-size grpc-infer-response-compression-level grpc-infer-thread-count \
        grpc-keepalive-permit-without-calls grpc-keepalive-time grpc-keepalive-timeout grpc-max-connection-age \
        grpc-max-connection-age-grace grpc-max-response-pool-size grpc-restricted-protocol grpc-root-cert \
        grpc-server-cert grpc-server-key grpc-use-ssl grpc-use-ssl-mutual host-policy http-header-forward-pattern \
        http-max-input-size http-restricted-api http-thread-count id log-error log-format log-info log-warning \
        metrics-config metrics-interval-ms min-supported-compute-capability model-config-name model-load-gpu-limit \
        model-load-retry-count model-load-thread-count model-namespacing pinned-memory-pool-byte-size \
        repoagent-directory repository-poll-secs response-cache-byte-size reuse-grpc-port reuse-http-port \
        strict-readiness";
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// When a server counts as ready.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadyWhen {
    /// Give up after this long. [default: 30m; for running servers 2m]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<TimeSpan>,
    /// For `command`: `detect` uses ServerReady over gRPC or `GET /v1/models` over HTTP, whichever the port speaks, as
    /// do benchmarks; `kserve` calls ServerReady; `port` only connects; `health` sends `GET /health`, and benchmarks
    /// use HTTP.
    #[serde(default = "detect")]
    pub by: String,
}

impl Default for ReadyWhen {
    fn default() -> Self {
        Self { timeout: None, by: detect() }
    }
}

impl ReadyWhen {
    /// As a server is probed whose protocol is known.
    pub fn is_usual(&self) -> bool {
        ["detect", "kserve"].contains(&&*self.by)
    }

    /// The time limit of a server that this run starts. Loading weights and building CUDA graphs is slow.
    pub fn limit(&self) -> Duration {
        self.timeout.as_ref().map_or(Duration::from_mins(30), TimeSpan::time)
    }

    /// That of a server that runs already: it is there, or it is not.
    pub fn limit_attached(&self) -> Duration {
        self.timeout.as_ref().map_or(Duration::from_mins(2), TimeSpan::time)
    }
}

fn tritonserver() -> String {
    "tritonserver".to_owned()
}

const fn yes() -> bool {
    true
}

fn detect() -> String {
    "detect".to_owned()
}
