//! The `tritonserver` command line of each rank, in the order in which `launch_triton_server.py` writes it.

use super::Rank;
use super::spec::{LaunchSpec, ServerSpec};
use super::world_size::ServerLayout;
use base::event::GpuId;
use base::spec::{Launcher, ServerMode, Trace};
use base::units::unquoted;

/// The models that ranks above 0 load when the repository does not define which run an engine.
const MODEL: &str = "tensorrt_llm";

/// A rank and its command.
pub(super) struct RankCommand {
    pub rank: Rank,
    pub argv: Vec<String>,
}

/// All ranks of a server; `first` is how many the servers before it have.
pub(super) fn ranks(spec: &LaunchSpec, index: usize, decided: &ServerLayout, first: u32) -> Vec<RankCommand> {
    let Some(server) = spec.servers.get(index) else { return Vec::new() };
    (0..decided.world_size)
        .map(|number| {
            let args = RankArgs { spec, server, index, decided, number };
            if !spec.settings.words.is_empty() {
                return args.as_written();
            }
            let shm_prefix = format!("prefix{}_", first + number);
            let loads = if number == 0 { spec.settings.load_model.clone() } else { args.models() };
            let argv = args.server_args(&shm_prefix, &loads);
            let has_log = decided.launcher == Launcher::Mpi && decided.world_size > 1 && !server.rank_logs.is_empty();
            let log = has_log.then(|| format!("{}/1/rank.{number}", server.rank_logs));
            let rank = Rank {
                rank: number,
                role: args.role(),
                opens_ports: number == 0,
                gpu: args.gpu(),
                loads,
                shm_prefix,
                log,
            };
            RankCommand { rank, argv }
        })
        .collect()
}

struct RankArgs<'a> {
    spec: &'a LaunchSpec,
    server: &'a ServerSpec,
    index: usize,
    decided: &'a ServerLayout,
    number: u32,
}

impl RankArgs<'_> {
    /// A command line that the manifest writes out: one process, nothing added.
    fn as_written(&self) -> RankCommand {
        let words = self.spec.settings.words.iter().map(|word| word.replace("{repository}", &self.server.repository));
        let (rank, role, gpu) = (self.number, self.role(), self.gpu());
        RankCommand { rank: Rank { rank, role, gpu, opens_ports: true, ..Rank::default() }, argv: words.collect() }
    }

    fn server_args(&self, shm_prefix: &str, loads: &[String]) -> Vec<String> {
        let settings = &self.spec.settings;
        let mut argv = Vec::new();
        if self.spec.settings.trtllm_llmapi_launch {
            argv.push("trtllm-llmapi-launch".to_owned());
        }
        argv.push(self.spec.settings.program.clone());
        let mut option = |name: &str, value: &str| argv.push(format!("--{name}={value}"));
        option("model-repository", &self.server.repository);
        if let Some(seconds) = settings.exit_timeout_secs {
            option("exit-timeout-secs", &seconds.to_string());
        }
        let numbered = |text: &str| text.replace("{server}", &self.index.to_string());
        if self.number == 0 {
            for (name, port) in self.server.ports.all() {
                option(&format!("{name}-port"), &port.to_string());
            }
            let addresses = [&settings.http_address, &settings.grpc_address, &settings.metrics_address];
            for (name, address) in ["http-address", "grpc-address", "metrics-address"].iter().zip(addresses) {
                if let Some(address) = address {
                    option(name, address);
                }
            }
            if let Some(level) = settings.log_verbose {
                option("log-verbose", &level.to_string());
            }
            if let Some(file) = &settings.log_file {
                option("log-file", &numbered(file));
            }
            if let Some(mode) = settings.model_control_mode {
                option("model-control-mode", mode.as_str());
            }
        } else {
            for name in ["allow-http", "allow-grpc", "allow-metrics"] {
                option(name, "false");
            }
            option("model-control-mode", "explicit");
        }
        for model in loads {
            option("load-model", model);
        }
        if self.number == 0
            && let Some(bytes) = settings.multimodal_gpu0_cuda_mem_pool_bytes
        {
            option("cuda-memory-pool-byte-size", &format!("0:{bytes}"));
        }
        for (name, value) in self.extras() {
            option(name, &value);
        }
        argv.push("--disable-auto-complete-config".to_owned());
        let mut option = |name: &str, value: &str| argv.push(format!("--{name}={value}"));
        option("backend-config", &format!("python,shm-region-prefix-name={shm_prefix}"));
        for (backend, values) in &settings.backend_config {
            for (name, value) in values {
                option("backend-config", &format!("{backend},{name}={}", unquoted(value)));
            }
        }
        if self.number == 0 {
            for setting in settings.trace.iter().flat_map(trace_config) {
                option("trace-config", &numbered(&setting));
            }
            if let Some(mode) = settings.rate_limit {
                option("rate-limit", mode.as_str());
            }
            for resource in &settings.rate_limit_resource {
                option("rate-limit-resource", resource);
            }
        }
        for (name, value) in &settings.options {
            let name = name.replace('_', "-");
            // The ports that only rank 0 may open stay closed on the other ranks.
            if self.number > 0 && matches!(name.as_str(), "allow-http" | "allow-grpc" | "allow-metrics") {
                continue;
            }
            for value in value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice) {
                option(&name, &unquoted(value));
            }
        }
        argv.extend(self.spec.settings.args.iter().cloned());
        argv
    }

    /// An orchestrator only passes requests on: pools of its own would be taken from its workers. `options` take
    /// precedence.
    fn extras(&self) -> Vec<(&'static str, String)> {
        if !(self.decided.mode == ServerMode::Orchestrator && self.decided.spawns) {
            return Vec::new();
        }
        let is_set = |name: &str| self.spec.settings.options.keys().any(|option| option.replace('_', "-") == name);
        let mut extras = Vec::new();
        if !is_set("pinned-memory-pool-byte-size") {
            extras.push(("pinned-memory-pool-byte-size", "0".to_owned()));
        }
        if !is_set("enable-peer-access") {
            extras.push(("enable-peer-access", "false".to_owned()));
        }
        if !is_set("cuda-memory-pool-byte-size") {
            let from = usize::from(self.spec.settings.multimodal_gpu0_cuda_mem_pool_bytes.is_some());
            extras
                .extend((from..self.decided.gpus.len()).map(|gpu| ("cuda-memory-pool-byte-size", format!("{gpu}:0"))));
        }
        extras
    }

    /// The models that ranks above 0 load.
    fn models(&self) -> Vec<String> {
        let given = &self.spec.settings.tensorrt_llm_model_name;
        if !given.is_empty() {
            return given.clone();
        }
        if self.server.models.is_empty() {
            return vec![MODEL.to_owned()];
        }
        self.server.models.iter().map(|model| model.name.clone()).collect()
    }

    fn role(&self) -> String {
        match (self.decided.mode, self.number) {
            (ServerMode::Plain, _) => "the only rank, opens the ports".to_owned(),
            (ServerMode::Leader, 0) => "leader, opens the ports".to_owned(),
            (ServerMode::Leader, _) => "worker, never opens its ports".to_owned(),
            (ServerMode::Orchestrator, 0) if self.decided.spawns => match self.server.workers() {
                0 => "orchestrator, opens the ports, spawns its workers".to_owned(),
                1 => "orchestrator, opens the ports, spawns 1 worker".to_owned(),
                n => format!("orchestrator, opens the ports, spawns {n} workers"),
            },
            (ServerMode::Orchestrator, 0) => "orchestrator, opens the ports".to_owned(),
            (ServerMode::Orchestrator, rank) => match self.participant(rank) {
                Some((model, copy, _)) => {
                    let model = &self.server.models[model];
                    let copy = if model.copies > 1 { format!(" (copy {copy})") } else { String::new() };
                    format!("worker of {}{copy}, never opens its ports", model.name)
                }
                None => "worker, never opens its ports".to_owned(),
            },
        }
    }

    /// The model, its copy and the place in it that a rank works for.
    fn participant(&self, rank: u32) -> Option<(usize, usize, usize)> {
        self.server.models.iter().enumerate().find_map(|(model, one)| {
            one.participant_ids
                .iter()
                .enumerate()
                .find_map(|(copy, ids)| ids.iter().position(|id| *id == rank).map(|place| (model, copy, place)))
        })
    }

    fn gpu(&self) -> Option<GpuId> {
        let gpus = &self.decided.gpus;
        let device = match self.decided.mode {
            ServerMode::Orchestrator => {
                let (model, copy, place) = self.participant(self.number)?;
                *self.server.models.get(model)?.gpu_device_ids.get(copy)?.get(place)? as usize
            }
            ServerMode::Plain | ServerMode::Leader => {
                if gpus.is_empty() {
                    return None;
                }
                let groups = self.server.models.first().map(|model| model.gpu_device_ids.as_slice());
                let place = self.number as usize % gpus.len();
                let device = groups.and_then(<[_]>::first).and_then(|ids| ids.get(place));
                device.map_or(place, |device| *device as usize)
            }
        };
        gpus.get(device).copied()
    }
}

/// Values of `--trace-config`: settings for all modes, then `mode,setting=value`.
pub(super) fn trace_config(trace: &Trace) -> Vec<String> {
    let mode = trace.mode.unwrap_or_default().as_str();
    let mut list = vec![format!("mode={mode}")];
    list.extend(trace.level.iter().map(|level| format!("level={}", level.as_str())));
    list.extend(trace.rate.map(|rate| format!("rate={rate}")));
    list.extend(trace.count.map(|count| format!("count={count}")));
    list.extend(trace.file.as_ref().map(|file| format!("{mode},file={file}")));
    list.extend(trace.settings.iter().map(|(name, value)| format!("{mode},{name}={}", unquoted(value))));
    list
}
