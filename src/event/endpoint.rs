//! Where a server listens.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One server process: its host and ports. `http` and `metrics` are absent where it has none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    pub host: String,
    pub grpc: u16,
    #[serde(default)]
    pub http: Option<u16>,
    #[serde(default)]
    pub metrics: Option<u16>,
}

impl fmt::Display for Endpoint {
    /// `host:grpc_port`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.grpc)
    }
}

impl FromStr for Endpoint {
    type Err = String;

    /// Reads `host:port` (a gRPC port).
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let (host, port) = s.rsplit_once(':').ok_or_else(|| format!("`{s}` is not host:port"))?;
        let grpc = port.parse().map_err(|_| format!("`{port}` in `{s}` is not a port"))?;
        if host.is_empty() {
            return Err(format!("`{s}` has no host"));
        }
        Ok(Self { host: host.to_owned(), grpc, http: None, metrics: None })
    }
}
