//! Server programs with OpenAI's interfaces around one engine: `trtllm-serve`, vLLM. One process for each copy of
//! the model, with GPUs and a port of its own; only their command lines differ.

use std::ffi::OsString;
use std::path::PathBuf;

use super::launch::{HOST, check_free, free_ports};
use super::planned_server::{PlannedServer, ReadinessProbe, ServerCommand, log_of, placed, refused};
use crate::task_context::TaskContext;
use base::event::{Endpoint, Failure, GpuId};
use triton::SpecProblem;
use triton::launch::LaunchWorld;

/// The copies of one model.
pub struct EngineCopies {
    /// GPUs of one copy, and what they are the product of: `tp × pp`.
    pub ranks: u32,
    pub factors: &'static str,
    /// `None`: as many as the GPUs allow.
    pub servers: Option<u32>,
    /// The first one's; further ones count up.
    pub port: Option<u16>,
    pub probe: ReadinessProbe,
    /// Its port has Prometheus' `/metrics`, too.
    pub has_metrics: bool,
    /// Files that a container must have beyond those that the arguments name.
    pub named: Vec<PathBuf>,
}

impl EngineCopies {
    /// The GPUs of each copy; empty ones where none are leased.
    pub fn shares(&self, gpus: &[GpuId]) -> Result<Vec<Vec<GpuId>>, SpecProblem> {
        let ranks = self.ranks as usize;
        if gpus.is_empty() {
            return Ok(vec![Vec::new(); self.servers.unwrap_or(1) as usize]);
        }
        let servers = self.servers.map_or_else(|| (gpus.len() / ranks).max(1), |servers| servers as usize);
        if servers * ranks != gpus.len() {
            return Err(SpecProblem {
                message: format!(
                    "{} GPUs are leased, and {servers} servers of {ranks} ({}) need {}",
                    gpus.len(),
                    self.factors,
                    servers * ranks
                ),
                hint: Some("change the stage's `gpus`, or `servers`".to_owned()),
            });
        }
        Ok(gpus.chunks(ranks).map(<[GpuId]>::to_vec).collect())
    }

    /// The servers to be. `argv` is the command line of one on a port.
    pub fn plan(
        &self,
        context: &TaskContext,
        argv: impl Fn(&str) -> Vec<String>,
    ) -> Result<Vec<PlannedServer>, Failure> {
        let shares = self.shares(&context.lease.gpus).map_err(|problem| refused(&[problem]))?;
        let count = shares.len();
        let ports = self.ports(count)?;
        let mut planned = Vec::new();
        for (index, (gpus, port)) in shares.into_iter().zip(ports).enumerate() {
            let mut words = argv(&port.to_string());
            if let Some(lowered) = &context.lease.lowered {
                crate::task_context::out_of_memory::lower_option(&mut words, lowered);
            }
            let words = words.into_iter().map(OsString::from);
            let ServerCommand { argv, wrapped, stop_target: world } =
                placed(context, words.collect(), &gpus, &self.named)?;
            let log = log_of(context, index, count);
            planned.push(PlannedServer {
                // It has one port, for everything.
                endpoint: Some(Endpoint {
                    host: HOST.to_owned(),
                    grpc: port,
                    http: Some(port),
                    metrics: self.has_metrics.then_some(port),
                    name: None,
                }),
                // Inside a container they are counted anew.
                gpus: if wrapped.is_some() { Vec::new() } else { gpus },
                stop_target: world.unwrap_or(LaunchWorld::Process),
                probe: self.probe,
                wrapped,
                ..PlannedServer::new(format!("server {index}"), argv, log)
            });
        }
        Ok(planned)
    }

    fn ports(&self, count: usize) -> Result<Vec<u16>, Failure> {
        let Some(first) = self.port else { return free_ports(count) };
        let too_high = || Failure::refused(format!("`port` {first}: {count} servers do not fit above it"));
        (0..count)
            .map(|index| {
                let port = u16::try_from(index).ok().and_then(|index| first.checked_add(index)).ok_or_else(too_high)?;
                check_free(port, "port").map(|()| port)
            })
            .collect()
    }
}

/// A path of the manifest as a server gets it: absolute where it exists, since a server runs in the task's folder.
pub fn existing_path(context: &TaskContext, text: &str) -> String {
    let path = context.path(text);
    if path.exists() { path.display().to_string() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpus(numbers: std::ops::Range<u32>) -> Vec<GpuId> {
        numbers.map(GpuId::Index).collect()
    }

    #[test]
    fn every_copy_has_its_own_gpus() {
        let copies = |servers| EngineCopies {
            ranks: 2,
            factors: "tp × pp",
            servers,
            port: None,
            probe: ReadinessProbe::Health,
            has_metrics: false,
            named: Vec::new(),
        };
        let two = copies(None);
        assert_eq!(two.shares(&gpus(4..8)).unwrap(), [gpus(4..6), gpus(6..8)]);
        assert_eq!(two.shares(&[]).unwrap(), [gpus(0..0)]);
        let wrong = two.shares(&gpus(0..3)).unwrap_err();
        assert_eq!(wrong.message, "3 GPUs are leased, and 1 servers of 2 (tp × pp) need 2");
        assert!(copies(Some(1)).shares(&gpus(0..4)).unwrap_err().message.contains("1 servers of 2"));
    }
}
