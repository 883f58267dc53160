//! What a benchmark measures: the servers are queried before and after, and the rest is known locally: the project's
//! commit, the engines, and the GPUs as telemetry saw them during the measurement, with equal ones (model, driver,
//! memory, limits) counted together.
//!
//! Of a server on another machine only what it reports itself is written down: engines in folders and GPUs are looked
//! at where the server is on this machine. What is known of servers that a run does not start becomes facts of the
//! key, so that a result is kept only as long as they are the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::DirEntry;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::spec;
use super::telemetry::is_here;
use crate::git_command::commit_of;
use crate::task_context::TaskContext;
use base::event::Endpoint;
use base::files::{Digest, cores, open_regular};
use base::spec::RequestHeaders;
use base::units::run_command;
use harness::gpu::GpusUsage;
use harness::{
    BenchSpec, EngineIdentity, GpuIdentity, HostIdentity, ManifestIdentity, RunIdentity, ServerIdentity, Transport,
    UnjudgedRun,
};
use plan::manifest::targets;
use plan::{ActionKind, PlanReference, Task};
use runner::{OpenFact, UpstreamProvenance};

/// The servers as they describe themselves now.
pub async fn of_servers(spec: &BenchSpec) -> Vec<ServerIdentity> {
    let mut servers =
        harness::query_identities(&spec.endpoints, &spec.protocol, &spec.request.headers, &spec.model).await;
    for (server, endpoint) in servers.iter_mut().zip(&spec.endpoints) {
        server.host = Some(host_name(endpoint).await);
    }
    servers
}

/// A server that the run started is named by its stage, whose port is another one in each run.
fn name_servers(task: &Task, endpoints: &[Endpoint], servers: &mut [ServerIdentity]) {
    let target = task.bench().map_or("", |bench| bench.target.as_str());
    let stage = |reference| match reference {
        PlanReference::Service(stage) => Some(stage.to_string()),
        _ => None,
    };
    let stages: Vec<String> = PlanReference::all_in(target).into_iter().filter_map(stage).collect();
    let is_given = |endpoint: &Endpoint| {
        let mut given = task.external_servers().iter();
        stages.is_empty() || given.any(|given| (&given.host, given.grpc) == (&endpoint.host, endpoint.grpc))
    };
    for (server, endpoint) in servers.iter_mut().zip(endpoints) {
        let named = if is_given(endpoint) { server.address.clone() } else { format!("stage {}", stages.join(", ")) };
        server.name = Some(named);
    }
}

async fn host_name(endpoint: &Endpoint) -> String {
    if is_here(&endpoint.host).await {
        return this_host();
    }
    endpoint.name.clone().unwrap_or_else(|| endpoint.host.clone())
}

fn this_host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Queries the servers again and writes all that is known of the measurement into its result. `before`: what they
/// reported before the first request.
pub async fn identify(context: &TaskContext, spec: &BenchSpec, before: &[ServerIdentity], measured: &mut UnjudgedRun) {
    let mut servers = of_servers(spec).await;
    for (now, before) in servers.iter_mut().zip(before) {
        // One that was lost meanwhile is what it was.
        if !now.is_known() {
            now.clone_from(before);
        }
    }
    name_servers(&context.lease.task, &spec.endpoints, &mut servers);
    let here: Vec<bool> = {
        let this = this_host();
        servers.iter().map(|server| server.host.as_ref() == Some(&this)).collect()
    };
    let origins = (context.lease.origins)();
    let versions = measured.versions();
    let identity = RunIdentity {
        engines: engine_identities(
            &origins,
            servers.iter().zip(&here).filter(|(_, here)| **here).map(|(server, _)| server),
        ),
        gpus: measured.gpu().map(gpu_identities).unwrap_or_default(),
        gpu_clocks: gpu_clocks(context, &origins),
        client: HostIdentity {
            host: this_host(),
            os: versions.os.clone(),
            arch: versions.arch.clone(),
            cores: cores() as u64,
        },
        manifest: if origins.manifest.is_empty() { None } else { Some(manifest(context, &origins).await) },
        ..RunIdentity::of_servers(servers)
    };
    measured.identify(before, identity);
}

/// Clocks that this stage, or one with servers that it needs, has locked.
fn gpu_clocks(context: &TaskContext, origins: &runner::UpstreamProvenance) -> Option<String> {
    let bench_clocks = context.lease.task.gpu_clocks.as_ref().map(ToString::to_string);
    let mut servers = origins.tasks.iter().filter(|task| task.kind == ActionKind::Serve);
    bench_clocks.or_else(|| servers.find_map(|server| server.facts.get("gpu_clocks")).cloned())
}

async fn manifest(context: &TaskContext, origins: &runner::UpstreamProvenance) -> ManifestIdentity {
    let parameters: BTreeMap<String, String> =
        origins.params.iter().map(|(name, value)| (name.clone(), context.redacted(value))).collect();
    let project = format!("{}/", context.lease.project.display());
    let arguments: Vec<String> = origins.arguments.iter().map(|argument| context.redacted(argument)).collect();
    let arguments = arguments.iter().map(|argument| argument.strip_prefix(&project).unwrap_or(argument));
    let checked_out = checked_out_commit(context).await;
    ManifestIdentity {
        name: origins.manifest.clone(),
        command: (!origins.arguments.is_empty()).then(|| run_command(arguments)),
        digest: origins.manifest_digest.map(|digest| digest.to_string()),
        task: context.lease.task.id.to_string(),
        system: parameters.get("system").cloned(),
        parameters,
        foreach: foreach(context, origins),
        dirty: checked_out.as_ref().and_then(|(_, dirty)| *dirty),
        commit: checked_out.map(|(commit, _)| commit),
    }
}

/// Its own values; and those of its servers, of variables that it does not have.
fn foreach(context: &TaskContext, origins: &runner::UpstreamProvenance) -> BTreeMap<String, String> {
    let bench_axes = &context.lease.task.foreach;
    let mut of_servers: BTreeMap<&String, BTreeSet<&String>> = BTreeMap::new();
    for server in origins.tasks.iter().filter(|task| task.kind == ActionKind::Serve) {
        for (name, value) in server.foreach.iter().filter(|(name, _)| !bench_axes.iter().any(|(axis, _)| axis == *name))
        {
            of_servers.entry(name).or_default().insert(value);
        }
    }
    let joined = |values: BTreeSet<&String>| values.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let of_servers = of_servers.into_iter().map(|(name, values)| (name.clone(), context.redacted(&joined(values))));
    bench_axes.iter().map(|(name, value)| (name.clone(), context.redacted(value))).chain(of_servers).collect()
}

/// The commit that is checked out, and whether tracked files differ from it. `None`: the project is in no repository,
/// or Git is not there.
async fn checked_out_commit(context: &TaskContext) -> Option<(String, Option<bool>)> {
    // Query only inside a repository: elsewhere Git would only print an error.
    if !context.lease.project.ancestors().any(|folder| folder.join(".git").exists()) {
        return None;
    }
    let project = context.lease.project.clone();
    tokio::task::spawn_blocking(move || commit_of(&project)).await.ok()?
}

/// Bytes of `config.json`; real ones have some ten thousand.
const MOST_CONFIG_BYTES: u64 = 4 << 20;
/// Of an engine's folder.
const MOST_FILES: usize = 10_000;

/// What of `config.json` decides an engine's performance: where it stands, and its names there.
const FLAGS: [(&str, &str); 5] = [
    ("/pretrained_config", "architecture dtype"),
    ("/pretrained_config/mapping", "world_size tp_size pp_size"),
    ("/pretrained_config/quantization", "quant_algo kv_cache_quant_algo"),
    ("/build_config", "max_batch_size max_beam_width max_input_len max_num_tokens max_seq_len strongly_typed"),
    (
        "/build_config/plugin_config",
        "context_fmha gemm_plugin gemm_swiglu_plugin gpt_attention_plugin multiple_profiles paged_kv_cache \
         reduce_fusion remove_input_padding tokens_per_block use_fp8_context_fmha use_paged_context_fmha",
    ),
];

/// Those that this run built, and those in folders that `servers`, which are on this machine, report.
pub fn engine_identities<'a>(
    origins: &UpstreamProvenance,
    servers: impl Iterator<Item = &'a ServerIdentity>,
) -> Vec<EngineIdentity> {
    let mut folders: Vec<PathBuf> = Vec::new();
    let mut engines: Vec<EngineIdentity> = Vec::new();
    for origin in origins.tasks.iter().filter(|origin| origin.kind == ActionKind::Engine) {
        folders.extend(origin.folder.as_deref().map(real));
        engines.push(EngineIdentity {
            stage: Some(origin.task.to_string()),
            digest: origin.digest.map(|digest| digest.to_string()),
            ..origin.folder.as_deref().and_then(read).unwrap_or_default()
        });
    }
    for folder in servers.filter_map(folder_of) {
        // The one that was built, or that of another server.
        if folders.contains(&folder) {
            continue;
        }
        engines.extend(read(&folder));
        folders.push(folder);
    }
    engines
}

/// What a cache key has of the engine that a server on this machine reports: its `config.json`, and size and time of
/// change of each rank's file, which change where it was built again from other weights. `None` without an engine that
/// can be read.
pub fn key_of(server: &ServerIdentity) -> Option<String> {
    let folder = folder_of(server)?;
    let config = read(&folder)?.config_digest?;
    let mut ranks: Vec<String> =
        folder.read_dir().ok()?.flatten().take(MOST_FILES).filter_map(|file| rank(&file)).collect();
    ranks.sort();
    Some(Digest::hash(format!("{config} {ranks:?}").as_bytes()).to_string())
}

/// `rank0.engine 1234 1700000000.123`
fn rank(file: &DirEntry) -> Option<String> {
    let name = file.file_name().into_string().ok().filter(|name| name.ends_with(".engine"))?;
    let seen = file.path().metadata().ok()?;
    Some(format!("{name} {} {}.{}", seen.len(), seen.mtime(), seen.mtime_nsec()))
}

fn folder_of(server: &ServerIdentity) -> Option<PathBuf> {
    server.engine_path.as_deref().map(Path::new).filter(|path| path.is_absolute()).map(real)
}

/// Links followed, where it is there.
fn real(folder: &Path) -> PathBuf {
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
}

/// The engine described by `config.json`; `None` if the file is missing or cannot be read.
fn read(folder: &Path) -> Option<EngineIdentity> {
    let path = folder.join("config.json");
    let mut text = String::new();
    open_regular(&path).ok()?.0.take(MOST_CONFIG_BYTES).read_to_string(&mut text).ok()?;
    let config: Value = serde_json::from_str(&text).ok()?;
    let mut build = BTreeMap::new();
    for (place, names) in FLAGS {
        let Some(part) = config.pointer(place) else { continue };
        for name in names.split(' ') {
            let value = match &part[name] {
                Value::String(text) => text.clone(),
                Value::Null | Value::Array(_) | Value::Object(_) => continue,
                value => value.to_string(),
            };
            build.insert(name.to_owned(), value);
        }
    }
    Some(EngineIdentity {
        config_digest: Some(Digest::hash(text.as_bytes()).to_string()),
        simulated: sim::simulated(folder),
        version: config["version"].as_str().map(str::to_owned),
        build,
        ..EngineIdentity::default()
    })
}

pub fn gpu_identities(gpus: &GpusUsage) -> Vec<GpuIdentity> {
    let mut list: Vec<GpuIdentity> = Vec::new();
    for device in gpus.devices.iter().map(|gpu| &gpu.device) {
        let gpu = GpuIdentity {
            name: device.name.clone(),
            count: 1,
            driver: device.driver.clone(),
            cuda: gpus.cuda.clone(),
            memory_total_mib: device.memory_total_mib,
            limits: device.limits,
            population: gpus.population.clone(),
            source: gpus.source.clone(),
        };
        match list.iter_mut().find(|known| GpuIdentity { count: 1, ..(**known).clone() } == gpu) {
            Some(known) => known.count += 1,
            None => list.push(gpu),
        }
    }
    list
}

/// One fact for each thing that a server reports: `host:port version` → `0.11.2`. Empty unless the task's result is
/// kept although its servers are not started by the run. Blocks until all of them have answered or the time limit is
/// reached. Sends the keys that the benchmark names, so no plan may call it.
pub fn facts(task: &Task) -> BTreeMap<String, String> {
    let endpoints = queried_servers(task);
    if endpoints.is_empty() {
        return BTreeMap::new();
    }
    let (protocol, headers, model) = queried_as(task, endpoints).unwrap_or_default();
    // A runtime of its own on a thread of its own: keys are made inside and outside of the run's.
    let identity = std::thread::scope(|scope| {
        let query = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
            Some(runtime.block_on(identity_facts(endpoints, &protocol, &headers, &model)))
        };
        scope.spawn(query).join().ok().flatten()
    });
    identity.unwrap_or_else(|| BTreeMap::from([("servers".to_owned(), "could not be queried".to_owned())]))
}

/// What only a run knows of the servers.
pub fn open_facts(task: &Task) -> Vec<OpenFact> {
    let condition = |server: &Endpoint| format!("{server} is still the same server (a run checks this)");
    let open = |server: &Endpoint| OpenFact { names: format!("{server} "), condition: condition(server) };
    queried_servers(task).iter().map(open).collect()
}

/// The servers of a task whose result is kept although the run does not start them.
fn queried_servers(task: &Task) -> &[Endpoint] {
    if task.cache { task.external_servers() } else { &[] }
}

/// The protocol, headers and model of a benchmark.
type QueryForm = (Transport, RequestHeaders, String);

/// Of a benchmark. Other stages are commands; their servers are queried over KServe.
fn queried_as(task: &Task, endpoints: &[Endpoint]) -> Option<QueryForm> {
    let bench = task.bench()?;
    let servers: Vec<String> = endpoints.iter().map(ToString::to_string).collect();
    let servers = servers.join("|");
    let target = PlanReference::replace_in(&bench.target, |reference| match reference {
        PlanReference::Service(_) => Some(servers.clone()),
        other => Some(other.token()),
    });
    let targets = targets(&target.ok()?).ok()?;
    let protocol = spec::protocol(bench, &targets, std::path::Path::new("")).ok()?;
    Some((protocol, bench.request.headers.clone(), targets.model.unwrap_or_else(|| bench.model.clone())))
}

async fn identity_facts(
    endpoints: &[Endpoint],
    protocol: &Transport,
    headers: &RequestHeaders,
    model: &str,
) -> BTreeMap<String, String> {
    let servers = harness::query_identities(endpoints, protocol, headers, model).await;
    let mut facts = BTreeMap::new();
    for (server, endpoint) in servers.iter().zip(endpoints) {
        put(server, &mut facts);
        if is_here(&endpoint.host).await
            && let Some(engine) = key_of(server)
        {
            facts.insert(format!("{} engine", server.address), engine);
        }
    }
    facts
}

/// Texts as they are, other values as JSON.
fn put(server: &ServerIdentity, facts: &mut BTreeMap<String, String>) {
    let Ok(Value::Object(fields)) = serde_json::to_value(server) else { return };
    for (name, value) in
        fields.into_iter().filter(|(name, _)| !["address", "host", "name", "metrics_not_read"].contains(&name.as_str()))
    {
        let text = match value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        facts.insert(format!("{} {}", server.address, name.replace('_', " ")), text);
    }
}
