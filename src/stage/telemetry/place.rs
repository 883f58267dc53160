//! Where servers are, and whether they have GPUs at all.

use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use tokio::net::lookup_host;
use tokio::time::timeout;

use crate::event::Endpoint;
use crate::triton::{HttpAddress, HttpClient, TritonClient};

const PATIENCE: Duration = Duration::from_secs(2);
/// What the simulator calls its version.
const SIMULATOR: &str = "regatta-simulator-";

/// Whether every server is on this host.
pub async fn all_here(endpoints: &[Endpoint]) -> bool {
    let mut hosts: Vec<&str> = endpoints.iter().map(|endpoint| endpoint.host.as_str()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    for host in hosts {
        if !is_here(host).await {
            return false;
        }
    }
    !endpoints.is_empty()
}

async fn is_here(host: &str) -> bool {
    match timeout(PATIENCE, lookup_host((host, 0))).await {
        Ok(Ok(mut addresses)) => addresses.any(|address| is_ours(address.ip())),
        _ => false,
    }
}

/// Only an address of this host can be bound to.
fn is_ours(ip: IpAddr) -> bool {
    ip.is_loopback() || UdpSocket::bind((ip, 0)).is_ok()
}

/// Whether one of them is the built-in simulator, which says so when it is asked: over gRPC, or over HTTP where the
/// measurement is over HTTP.
pub async fn any_simulated(endpoints: &[Endpoint], by_grpc: bool) -> bool {
    for endpoint in endpoints {
        if timeout(PATIENCE, version(endpoint, by_grpc))
            .await
            .is_ok_and(|version| version.is_some_and(|v| v.starts_with(SIMULATOR)))
        {
            return true;
        }
    }
    false
}

async fn version(endpoint: &Endpoint, by_grpc: bool) -> Option<String> {
    if !by_grpc {
        // Of a target over HTTP alone, its one port is in the place of gRPC's.
        let port = endpoint.http.unwrap_or(endpoint.grpc);
        let mut client = HttpClient::new(HttpAddress { host: endpoint.host.clone(), port });
        let metadata = client.server_metadata().await.ok()?;
        return metadata.get("version")?.as_str().map(str::to_owned);
    }
    let client = TritonClient::connect(endpoint).await.ok()?;
    Some(client.server_metadata().await.ok()?.version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn this_host_is_known_by_its_addresses() {
        assert!(is_here("127.0.0.1").await && is_here("localhost").await && is_here("::1").await);
        // Documentation addresses (RFC 5737) are nobody's.
        assert!(!is_here("192.0.2.7").await);
        assert!(!is_here("no-such-host.invalid").await);
        assert!(!all_here(&[]).await);
    }
}
