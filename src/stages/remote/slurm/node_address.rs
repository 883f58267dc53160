//! Where a server on a node can be reached from here.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::event::Endpoint;
use crate::stages::remote::slurm::commands::{Environment, addresses};

/// For one address.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

/// The endpoints with the first address of their node that answers.
pub async fn reachable(endpoints: Vec<Endpoint>, env: &Environment) -> Vec<Endpoint> {
    let mut all = Vec::new();
    for endpoint in endpoints {
        let mut host = endpoint.host.clone();
        for name in addresses(&endpoint.host, env).await {
            let connected = timeout(QUERY_TIMEOUT, TcpStream::connect((name.as_str(), endpoint.grpc))).await;
            if matches!(connected, Ok(Ok(_))) {
                host = name;
                break;
            }
        }
        all.push(Endpoint { host, ..endpoint });
    }
    all
}
