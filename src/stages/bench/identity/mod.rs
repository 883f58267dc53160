//! What a benchmark measures: servers are queried before and after, the rest is known locally.
//!
//! Of a server on another machine only what it reports itself is written down: engines in folders and GPUs are looked
//! at where the server is on this machine.

mod commit;
mod engines;
mod gpus;
mod key;

use std::collections::{BTreeMap, BTreeSet};

use super::telemetry::is_here;
use crate::task_context::TaskContext;
use base::event::Endpoint;
use base::files::cores;
use harness::{BenchSpec, HostIdentity, ManifestIdentity, RunIdentity, ServerIdentity, UnjudgedRun};
pub use key::{facts, open_facts};
use plan::ActionKind;

/// The servers as they describe themselves now.
pub async fn of_servers(spec: &BenchSpec) -> Vec<ServerIdentity> {
    let mut servers =
        harness::query_identities(&spec.endpoints, &spec.protocol, &spec.request.headers, &spec.model).await;
    for (server, endpoint) in servers.iter_mut().zip(&spec.endpoints) {
        server.host = Some(host_name(endpoint).await);
    }
    servers
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

/// Queries the servers again and writes all that is known of the measurement into its result. `before`: what they reported
/// before the first request.
pub async fn identify(context: &TaskContext, spec: &BenchSpec, before: &[ServerIdentity], measured: &mut UnjudgedRun) {
    let mut servers = of_servers(spec).await;
    for (now, before) in servers.iter_mut().zip(before) {
        // One that was lost meanwhile is what it was.
        if !now.is_known() {
            now.clone_from(before);
        }
    }
    let here: Vec<bool> = {
        let this = this_host();
        servers.iter().map(|server| server.host.as_ref() == Some(&this)).collect()
    };
    let origins = (context.lease.origins)();
    let versions = measured.versions();
    let identity = RunIdentity {
        engines: engines::of(&origins, servers.iter().zip(&here).filter(|(_, here)| **here).map(|(server, _)| server)),
        gpus: measured.gpu().map(gpus::of).unwrap_or_default(),
        gpu_clocks: gpu_clocks(context, &origins),
        client: HostIdentity {
            host: this_host(),
            os: versions.os.clone(),
            arch: versions.arch.clone(),
            cores: cores() as u64,
        },
        manifest: (!origins.manifest.is_empty()).then(|| manifest(context, &origins)),
        ..RunIdentity::of_servers(servers)
    };
    let identity = RunIdentity { manifest: with_commit(context, identity.manifest).await, ..identity };
    measured.identify(before, identity);
}

/// Clocks that this stage, or one with servers that it needs, has locked.
fn gpu_clocks(context: &TaskContext, origins: &runner::UpstreamProvenance) -> Option<String> {
    let own = context.lease.task.gpu_clocks.as_ref().map(ToString::to_string);
    let mut servers = origins.tasks.iter().filter(|task| task.kind == ActionKind::Serve);
    own.or_else(|| servers.find_map(|server| server.facts.get("gpu_clocks")).cloned())
}

fn manifest(context: &TaskContext, origins: &runner::UpstreamProvenance) -> ManifestIdentity {
    let parameters: BTreeMap<String, String> =
        origins.params.iter().map(|(name, value)| (name.clone(), context.redacted(value))).collect();
    ManifestIdentity {
        name: origins.manifest.clone(),
        digest: origins.manifest_digest.map(|digest| digest.to_string()),
        task: context.lease.task.id.to_string(),
        system: parameters.get("system").cloned(),
        parameters,
        foreach: foreach(context, origins),
        ..ManifestIdentity::default()
    }
}

/// Its own values; and those of its servers, of variables that it does not have.
fn foreach(context: &TaskContext, origins: &runner::UpstreamProvenance) -> BTreeMap<String, String> {
    let own = &context.lease.task.foreach;
    let mut of_servers: BTreeMap<&String, BTreeSet<&String>> = BTreeMap::new();
    for server in origins.tasks.iter().filter(|task| task.kind == ActionKind::Serve) {
        for (name, value) in server.foreach.iter().filter(|(name, _)| !own.iter().any(|(own, _)| own == *name)) {
            of_servers.entry(name).or_default().insert(value);
        }
    }
    let joined = |values: BTreeSet<&String>| values.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let of_servers = of_servers.into_iter().map(|(name, values)| (name.clone(), context.redacted(&joined(values))));
    own.iter().map(|(name, value)| (name.clone(), context.redacted(value))).chain(of_servers).collect()
}

async fn with_commit(context: &TaskContext, manifest: Option<ManifestIdentity>) -> Option<ManifestIdentity> {
    let mut manifest = manifest?;
    if let Some((commit, dirty)) = commit::of(context).await {
        (manifest.commit, manifest.dirty) = (Some(commit), dirty);
    }
    Some(manifest)
}
