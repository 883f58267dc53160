//! Which addresses are this machine's.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// This host reaches an address of its own from that address. Where it could bind to it shows nothing:
/// `ip_nonlocal_bind` lets it bind to any. No other machine is queried.
pub fn is_own_address(ip: IpAddr) -> bool {
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

    #[test]
    fn addresses_of_interfaces_are_this_machines() {
        assert!(is_own_address(IpAddr::from([127, 0, 0, 1])) && is_own_address(Ipv6Addr::UNSPECIFIED.into()));
        // A documentation address (RFC 5737) belongs to no host; without a route to it there may be no other interface.
        let documentation = IpAddr::from([192, 0, 2, 7]);
        assert!(!is_own_address(documentation));
        if let Ok(own) = source_to(documentation) {
            assert!(is_own_address(own), "the address of an interface");
        }
    }
}
