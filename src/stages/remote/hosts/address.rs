//! Where a host's servers can be reached from here.

use std::io::ErrorKind;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::agent_protocol::HostProblem;
use super::host_place::{HostPlace, HostTransport};
use crate::remote::slurm::commands::environment;
use crate::remote::slurm::reachable;
use crate::remote::ssh;
use base::event::Endpoint;
use exec::process;

/// For one connection, and for ssh to read its configuration.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

/// The endpoints as they are from here, each tried once; or what is in the way of one.
pub async fn reachable_endpoints(place: &HostPlace, endpoints: Vec<Endpoint>) -> Result<Vec<Endpoint>, HostProblem> {
    let at = match &place.transport {
        HostTransport::Ssh { address: Some(address), .. } => address.clone(),
        HostTransport::Ssh { .. } => host_name(place).await,
        HostTransport::Node => place.name.clone(),
    };
    let moved = endpoints.into_iter().map(|one| Endpoint { name: Some(place.name.clone()), ..one.at_host(&at) });
    let mut moved: Vec<Endpoint> = moved.collect();
    if matches!(place.transport, HostTransport::Node) {
        // A cluster's nodes need not be in a name service.
        moved = reachable(moved, &environment(std::env::vars_os(), None)).await;
    }
    for endpoint in &moved {
        connect(endpoint).await?;
    }
    Ok(moved)
}

/// What ssh connects to: its config may give a short name a longer one.
async fn host_name(place: &HostPlace) -> String {
    let Some(ssh) = place.ssh() else { return place.name.clone() };
    let words = ssh.configuration();
    let probed = tokio::task::spawn_blocking(move || process::probe(words, QUERY_TIMEOUT)).await;
    let name = probed.ok().and_then(process::ProbeResult::successful_output).and_then(|text| ssh::host_name(&text));
    name.unwrap_or_else(|| ssh.destination.rsplit('@').next().unwrap_or_default().to_owned())
}

async fn connect(endpoint: &Endpoint) -> Result<(), HostProblem> {
    let why = match timeout(QUERY_TIMEOUT, TcpStream::connect((endpoint.host.as_str(), endpoint.grpc))).await {
        Ok(Ok(_)) => return Ok(()),
        Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {} s", QUERY_TIMEOUT.as_secs()),
    };
    Err(HostProblem::new(
        format!("its server is up, and cannot be reached from here at {endpoint}: {why}"),
        "is there a firewall, or is it bound to 127.0.0.1? `address` of the host names another network",
    ))
}
