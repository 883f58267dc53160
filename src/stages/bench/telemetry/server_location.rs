//! Where servers are.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::time::Duration;

use tokio::net::lookup_host;
use tokio::time::timeout;

use crate::event::Endpoint;

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
        Ok(Ok(mut addresses)) => addresses.any(|address| is_ours(address.ip())),
        _ => false,
    }
}

/// This host reaches an address of its own from that address. Where it could bind to it shows nothing: `ip_nonlocal_bind` lets it
/// bind to any.
fn is_ours(ip: IpAddr) -> bool {
    ip.is_loopback() || ip.is_unspecified() || source_to(ip).is_ok_and(|source| source == ip)
}

/// The address that packets to this one come from. Nothing is sent.
fn source_to(ip: IpAddr) -> io::Result<IpAddr> {
    /// Any will do.
    const PORT: u16 = 9;
    let unspecified: IpAddr = if ip.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((unspecified, 0))?;
    socket.connect((ip, PORT))?;
    Ok(socket.local_addr()?.ip())
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
        // Without a route there may be none.
        if let Ok(own) = source_to(IpAddr::from([192, 0, 2, 7])) {
            assert!(is_ours(own), "the address of an interface");
        }
    }
}
