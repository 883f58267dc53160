//! Why there is no connection to a server.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;

use super::http::TlsError;
use base::diag::error_chain;

/// Why a connection was not made. Cheap to clone: requests that come while a server is away all get the same one.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("no connection within {} s", .0.as_secs())]
    Late(Duration),
    #[error("{}", dial_text(.0))]
    Socket(#[source] Arc<io::Error>),
    #[error("{}", error_chain(.0.as_ref()))]
    Http2(#[source] Arc<h2::Error>),
    #[error("the name {host} is not known: {source}")]
    UnknownHost { host: String, source: Arc<io::Error> },
    #[error("the name has no address")]
    NoAddress,
    #[error("it took the connection, and no TLS handshake within {} s: does it speak TLS at this port?", .0.as_secs())]
    LateTls(Duration),
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl From<io::Error> for ConnectError {
    fn from(error: io::Error) -> Self {
        Self::Socket(Arc::new(error))
    }
}

impl From<h2::Error> for ConnectError {
    fn from(error: h2::Error) -> Self {
        Self::Http2(Arc::new(error))
    }
}

/// Running out of ports or descriptors is a fault of the client, and is reported as such.
fn dial_text(error: &io::Error) -> String {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::ADDRNOTAVAIL) => {
            format!("{error}: all local ports to this server are taken (net.ipv4.ip_local_port_range)")
        }
        Some(Errno::MFILE) => format!("{error}: raise `ulimit -n`"),
        _ => error.to_string(),
    }
}
