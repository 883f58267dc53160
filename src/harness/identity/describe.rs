//! An identity in a line and as a list of named values, and how two identities differ.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::{EngineIdentity, GpuIdentity, RunIdentity, ServerIdentity};

/// Digits of a digest in short form, for comparison by eye.
const SHORT: usize = 12;

pub(super) fn short(digest: &str) -> &str {
    digest.get(..SHORT).unwrap_or(digest)
}

/// `a × 2`, each different one once, in the order in which they come.
fn counted(all: impl Iterator<Item = String>) -> String {
    let mut seen: Vec<(String, usize)> = Vec::new();
    for one in all {
        match seen.iter_mut().find(|(known, _)| *known == one) {
            Some((_, count)) => *count += 1,
            None => seen.push((one, 1)),
        }
    }
    let shown = seen.into_iter().map(|(one, count)| if count == 1 { one } else { format!("{count} × {one}") });
    shown.collect::<Vec<_>>().join(", ")
}

impl ServerIdentity {
    /// `triton 2.54.0 (tensorrt_llm, backend tensorrtllm)`; where it does not report what it is
    /// `server at 127.0.0.1:8000 (toy, HTTP server uvicorn)`.
    pub fn describe(&self) -> String {
        let mut text =
            self.kind.clone().unwrap_or_else(|| match self.name.as_ref().unwrap_or(&self.address).as_str() {
                "" => "unknown server".to_owned(),
                stage if stage.starts_with("stage ") => format!("server of {stage}"),
                address => format!("server at {address}"),
            });
        if let Some(version) = &self.version {
            text = format!("{text} {version}");
        }
        if let Some(speed) =
            self.simulation.as_ref().map(|it| it.speed).filter(|speed| (speed - 1.0).abs() > f64::EPSILON)
        {
            text = format!("{text} at speed {speed}");
        }
        let backend = self.backend.as_ref().map(|backend| format!("backend {backend}"));
        let header = self.http_server.as_ref().filter(|_| self.kind.is_none());
        let header = header.map(|header| format!("HTTP server {header}"));
        let parts: Vec<String> = self.model.iter().cloned().chain(backend).chain(header).collect();
        if parts.is_empty() { text } else { format!("{text} ({})", parts.join(", ")) }
    }
}

impl GpuIdentity {
    /// `2 × NVIDIA H200, driver 570.86.15, 700 W`
    pub fn describe(&self) -> String {
        let name = self.name.as_deref().unwrap_or("GPU of unknown model");
        let mut text = format!("{} × {name}", self.count);
        if let Some(driver) = &self.driver {
            text = format!("{text}, driver {driver}");
        }
        if let Some(cuda) = &self.cuda {
            text = format!("{text}, CUDA {cuda}");
        }
        if let Some(watts) = self.limits.power_limit_w {
            text = format!("{text}, limit {watts} W");
        }
        if let Some(clock) = self.limits.max_sm_clock_mhz {
            text = format!("{text}, SM clock up to {clock} MHz");
        }
        text
    }
}

impl EngineIdentity {
    /// `engine 3f2a… (TensorRT-LLM 0.10.0)`, `simulator's engine 3f2a…`
    pub fn describe(&self) -> String {
        let digest = self.digest.as_deref().or(self.config_digest.as_deref()).map_or("?", short);
        match &self.version {
            _ if self.simulated => format!("simulator's engine {digest}"),
            Some(version) => format!("engine {digest} (TensorRT-LLM {version})"),
            None => format!("engine {digest}"),
        }
    }
}

impl RunIdentity {
    /// Its servers as results name them: `127.0.0.1:8000`, `4 × stage triton`. `None`: the names are not known.
    pub fn server_names(&self) -> Option<String> {
        let names: Vec<String> = self.servers.iter().map(|server| server.name.clone()).collect::<Option<_>>()?;
        (!names.is_empty()).then(|| counted(names.into_iter()))
    }

    /// Like `line`, without the manifest, for places where that is named already.
    pub fn short_line(&self) -> String {
        Self { manifest: None, ..self.clone() }.line()
    }

    /// One line for terminals, page heads and formats that have room for one text only.
    pub fn line(&self) -> String {
        let mut parts = vec![counted(self.servers.iter().map(ServerIdentity::describe))];
        parts.extend(self.gpus.iter().map(GpuIdentity::describe));
        if !self.engines.is_empty() {
            parts.push(counted(self.engines.iter().map(EngineIdentity::describe)));
        }
        if let Some(manifest) = &self.manifest {
            let mut text = format!("manifest {}", manifest.name);
            if let Some(digest) = &manifest.digest {
                text = format!("{text} {}", short(digest));
            }
            if let Some(commit) = &manifest.commit {
                let dirty = if manifest.dirty == Some(true) { ", with changes" } else { "" };
                text = format!("{text} at commit {}{dirty}", short(commit));
            }
            parts.push(text);
        }
        let line = parts.join("; ");
        if self.simulated { format!("SIMULATED, no GPU: {line}") } else { line }
    }

    /// Everything, by name, in a fixed order: for tables, formats of other tools, and comparisons. Of several servers
    /// with the same value it is one entry.
    pub fn entries(&self) -> Vec<(String, String)> {
        let mut entries: Vec<(String, String)> = Vec::new();
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                entries.push((name.to_owned(), value));
            }
        };
        add("simulated", Some(if self.simulated { "yes" } else { "no" }.to_owned()));
        let distinct =
            |field: fn(&ServerIdentity) -> Option<String>| Some(counted(self.servers.iter().filter_map(field)));
        add("simulated speed", distinct(|server| Some(server.simulation.as_ref()?.speed.to_string())));
        add("target", self.server_names());
        add("server", distinct(|server| server.kind.clone()));
        add("server version", distinct(|server| server.version.clone()));
        add("HTTP server", distinct(|server| server.http_server.clone()));
        add("model", distinct(|server| server.model.clone()));
        add("model source", distinct(|server| server.model_source.clone()));
        add(
            "model versions",
            distinct(|server| (!server.model_versions.is_empty()).then(|| server.model_versions.join("+"))),
        );
        add("backend", distinct(|server| server.backend.clone()));
        add("max batch size", distinct(|server| server.max_batch_size.map(|size| size.to_string())));
        add("max model length", distinct(|server| server.max_model_len.map(|length| length.to_string())));
        for name in self.servers.iter().flat_map(|server| server.settings.keys()).collect::<BTreeSet<_>>() {
            let values = self.servers.iter().filter_map(|server| server.settings.get(name).cloned());
            add(&format!("setting {name}"), Some(counted(values)));
        }
        add("model metadata", distinct(|server| server.metadata_digest.clone()));
        add("server host", distinct(|server| server.host.clone()));
        add("server started", distinct(|server| Some(when(server.start_time_seconds?))));
        for gpus in &self.gpus {
            add("GPUs", Some(gpus.describe()));
            add("GPU population", Some(gpus.population.clone()));
        }
        add("engine", Some(counted(self.engines.iter().filter_map(|it| it.digest.clone()))));
        add("engine config", Some(counted(self.engines.iter().filter_map(|it| it.config_digest.clone()))));
        add("engine built by", Some(counted(self.engines.iter().filter_map(|it| it.version.clone()))));
        for flag in self.engines.iter().flat_map(|engine| engine.build.keys()).collect::<BTreeSet<_>>() {
            let values = self.engines.iter().filter_map(|engine| engine.build.get(flag).cloned());
            add(&format!("engine {flag}"), Some(counted(values)));
        }
        add("client host", Some(self.client.host.clone()));
        let machine = format!("{} {}, {} cores", self.client.os, self.client.arch, self.client.cores);
        add("client", (!self.client.os.is_empty()).then_some(machine));
        if let Some(manifest) = &self.manifest {
            add("manifest", Some(manifest.name.clone()));
            add("run again", manifest.command.clone());
            add("manifest digest", manifest.digest.clone());
            add("task", Some(manifest.task.clone()));
            add("system", manifest.system.clone());
            for (name, value) in manifest.parameters.iter().filter(|(name, _)| *name != "system") {
                add(&format!("parameter {name}"), Some(value.clone()));
            }
            for (name, value) in &manifest.foreach {
                add(&format!("foreach {name}"), Some(value.clone()));
            }
            add("commit", manifest.commit.clone());
            add("uncommitted changes", manifest.dirty.map(|dirty| if dirty { "yes" } else { "no" }.to_owned()));
        }
        add("regatta", Some(self.regatta.clone()));
        entries
    }
}

/// RFC 3339, UTC.
fn when(seconds: f64) -> String {
    jiff::Timestamp::from_second(seconds as i64).map_or_else(|_| seconds.to_string(), |at| at.to_string())
}

/// Where the servers of a later run of the same measurement differ: `10.0.0.5:8000: version 0.8.5 / 0.8.6`. A server
/// that did not answer is left out.
pub fn changes_of_servers(before: &[ServerIdentity], after: &[ServerIdentity]) -> Vec<String> {
    let comparable = before.iter().zip(after).filter(|(one, now)| one.is_known() && now.is_known());
    comparable
        .flat_map(|(one, now)| changes(one, now).into_iter().map(|change| format!("{}: {change}", now.address)))
        .collect()
}

/// Values that a server reported differently after the measurement. A value reported only once did not change: answers
/// may be late.
pub(crate) fn changes(before: &ServerIdentity, after: &ServerIdentity) -> Vec<String> {
    let text = |field: fn(&ServerIdentity) -> Option<String>| (field(before), field(after));
    let fields = [
        ("kind", text(|server| server.kind.clone())),
        ("version", text(|server| server.version.clone())),
        ("model source", text(|server| server.model_source.clone())),
        ("backend", text(|server| server.backend.clone())),
        ("maximal batch size", text(|server| server.max_batch_size.map(|size| size.to_string()))),
        ("model metadata", text(|server| server.metadata_digest.as_deref().map(|digest| short(digest).to_owned()))),
        ("engine", text(|server| server.engine_path.clone())),
    ];
    let changed = fields.into_iter().filter_map(|(name, values)| match values {
        (Some(before), Some(after)) if before != after => Some(format!("{name} {before} / {after}")),
        _ => None,
    });
    changed.collect()
}

/// One value in which two results differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IdentityDifference {
    /// As in [`RunIdentity::entries`].
    pub name: String,
    /// Absent: unknown for the first.
    pub a: Option<String>,
    pub b: Option<String>,
}

impl IdentityDifference {
    /// `server version: 2.54.0 / 2.55.0`; digests in short.
    pub fn describe(&self) -> String {
        let value = |value: &Option<String>| match value {
            None => "not known".to_owned(),
            Some(value) if value.len() >= 40 && value.chars().all(|c| c.is_ascii_hexdigit()) => short(value).to_owned(),
            Some(value) => value.clone(),
        };
        format!("{}: {} / {}", self.name, value(&self.a), value(&self.b))
    }
}

/// Fields that change from run to run of the same thing and do not affect what was measured.
const PASSING: [&str; 3] = ["server started", "task", "run again"];

/// Everything in which they differ, in the order of the entries. A result without an identity differs in nothing that
/// is known: the caller reports that it has none.
pub fn identity_differences(a: &RunIdentity, b: &RunIdentity) -> Vec<IdentityDifference> {
    entry_differences(&a.entries(), &b.entries())
}

/// Values with one name in which two lists differ.
pub(crate) fn entry_differences(a: &[(String, String)], b: &[(String, String)]) -> Vec<IdentityDifference> {
    // A name may be there more than once: GPUs of two models.
    let joined = |entries: &[(String, String)], name: &str| {
        let values: Vec<&str> =
            entries.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect();
        (!values.is_empty()).then(|| values.join("; "))
    };
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in a.iter().chain(b) {
        if !names.contains(&name) && !PASSING.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let difference = |name: &String| IdentityDifference { name: name.clone(), a: joined(a, name), b: joined(b, name) };
    names.into_iter().map(difference).filter(|it| it.a != it.b).collect()
}
