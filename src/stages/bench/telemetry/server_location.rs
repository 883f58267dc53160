//! Where servers are.

use std::time::Duration;

use tokio::net::lookup_host;
use tokio::time::timeout;

use base::event::Endpoint;
use triton::is_own_address;

const QUERY_TIMEOUT: Duration = Duration::from_secs(2);

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

/// Whether a host name or address is this machine's.
pub async fn is_here(host: &str) -> bool {
    match timeout(QUERY_TIMEOUT, lookup_host((host, 0))).await {
        Ok(Ok(mut addresses)) => addresses.any(|address| is_own_address(address.ip())),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn this_host_is_known_by_its_addresses() {
        assert!(is_here("127.0.0.1").await && is_here("localhost").await && is_here("::1").await);
        // Documentation addresses (RFC 5737) belong to no host.
        assert!(!is_here("192.0.2.7").await);
        assert!(!is_here("no-such-host.invalid").await);
        assert!(!all_here(&[]).await);
    }
}
