//! Where a server on a node can be reached from here.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::remote::slurm::commands::{Environment, addresses};
use base::event::Endpoint;

/// For one address.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

/// The endpoints with the first address of their node that answers: its own name, or what the controller has for it. That is queried
/// once for a node, and only where the name does not answer: a controller may be slow.
pub async fn reachable(endpoints: Vec<Endpoint>, env: &Environment) -> Vec<Endpoint> {
    let mut nodes: BTreeMap<String, Vec<(usize, Endpoint)>> = BTreeMap::new();
    for (ix, endpoint) in endpoints.into_iter().enumerate() {
        nodes.entry(endpoint.host.clone()).or_default().push((ix, endpoint));
    }
    let mut all = join_all(nodes.into_iter().map(|(node, endpoints)| at_node(node, endpoints, env))).await.concat();
    all.sort_by_key(|(ix, _)| *ix);
    all.into_iter().map(|(_, endpoint)| endpoint).collect()
}

async fn at_node(node: String, endpoints: Vec<(usize, Endpoint)>, env: &Environment) -> Vec<(usize, Endpoint)> {
    let ports: Vec<u16> = endpoints.iter().map(|(_, endpoint)| endpoint.grpc).collect();
    let answered = |name: &str| join_all(ports.iter().map(|port| connects(name.to_owned(), *port)));
    let mut hosts: Vec<Option<String>> =
        answered(&node).await.into_iter().map(|connects| connects.then(|| node.clone())).collect();
    if hosts.iter().any(Option::is_none) {
        for name in addresses(&node, env).await {
            for (host, connects) in hosts.iter_mut().zip(answered(&name).await) {
                if connects {
                    host.get_or_insert_with(|| name.clone());
                }
            }
        }
    }
    let moved = endpoints.into_iter().zip(hosts);
    moved
        .map(|((ix, endpoint), host)| (ix, Endpoint { host: host.unwrap_or_else(|| node.clone()), ..endpoint }))
        .collect()
}

async fn connects(name: String, port: u16) -> bool {
    matches!(timeout(QUERY_TIMEOUT, TcpStream::connect((name.as_str(), port))).await, Ok(Ok(_)))
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::remote::slurm::stand_in::StandIn;

    fn endpoint(host: &str, grpc: u16) -> Endpoint {
        Endpoint { host: host.to_owned(), grpc, http: None, metrics: None, name: None }
    }

    #[tokio::test]
    async fn the_controller_is_queried_only_for_a_node_whose_name_does_not_answer_and_once() {
        let slurm = StandIn::new(&[("scontrol", "echo NodeName=n1 NodeAddr=127.0.0.1 NodeHostName=lab")]);
        let env = slurm.environment();
        let listeners =
            [TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap()];
        let ports = listeners.map(|listener| (listener.local_addr().unwrap().port(), listener));
        let at = |host: &str| ports.iter().map(|(port, _)| endpoint(host, *port)).collect::<Vec<_>>();
        assert_eq!(reachable(at("127.0.0.1"), &env).await, at("127.0.0.1"));
        assert_eq!(slurm.calls("scontrol"), [""; 0]);
        assert_eq!(reachable(at("127.0.0.2"), &env).await, at("127.0.0.1"));
        assert_eq!(slurm.calls("scontrol").len(), 1);
    }
}
