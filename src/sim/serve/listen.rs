//! Opens the ports of a simulated server.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

/// Connections that may wait to be taken. A client may open thousands at once, and where the machine is busy a shorter queue
/// resets them (the kernel's own limit is `net.core.somaxconn`, 4096).
const BACKLOG: u32 = 4096;

/// Port 0 takes a free one.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}
