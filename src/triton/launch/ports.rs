//! Ports: counted up from a base, and no two the same.

use super::spec::{LaunchSpec, Port, Ports};
use crate::SpecProblem;

/// The ports of the first server, where they were given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BasePorts {
    pub grpc: Option<u16>,
    pub http: Option<u16>,
    pub metrics: Option<u16>,
}

/// The ports of `servers` servers. A port that was not given becomes `Port::Free`.
pub fn place(bases: BasePorts, servers: usize) -> Result<Vec<Ports>, SpecProblem> {
    let counted = |name: &str, base: Option<u16>, index: usize| match base {
        None => Ok(Port::Free),
        Some(base) => {
            let port = u16::try_from(index).ok().and_then(|index| base.checked_add(index));
            port.map(Port::Known).ok_or_else(|| SpecProblem {
                message: format!("{name}_port {base} leaves no room for {servers} servers: the last port is 65535"),
                hint: Some("choose a smaller one".to_owned()),
            })
        }
    };
    (0..servers)
        .map(|index| {
            Ok(Ports {
                grpc: counted("grpc", bases.grpc, index)?,
                http: counted("http", bases.http, index)?,
                metrics: counted("metrics", bases.metrics, index)?,
            })
        })
        .collect()
}

/// No port twice.
pub(super) fn check(spec: &LaunchSpec, problems: &mut Vec<SpecProblem>) {
    let mut seen: Vec<(u16, String)> = Vec::new();
    for (index, server) in spec.servers.iter().enumerate() {
        for (name, port) in server.ports.all() {
            let Port::Known(port) = port else { continue };
            let user = format!("{name} of server {index}");
            match seen.iter().find(|(other, _)| *other == port) {
                Some((_, first)) => {
                    let apart = spec.servers.len();
                    let hint = format!(
                        "ports count up by one for each server: keep the bases {apart} apart, for example \
                         grpc_port 8001, http_port {}, metrics_port {}",
                        8001 + apart.max(100),
                        8001 + 2 * apart.max(100)
                    );
                    problems.push(SpecProblem {
                        message: format!("port {port} would be {first} and {user}"),
                        hint: Some(hint),
                    });
                }
                None => seen.push((port, user)),
            }
        }
    }
}
