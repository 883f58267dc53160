//! A whole run as one job: what a stage is otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::commands::{Environment, addresses};
use super::run_attempt;
use super::submission::SlurmContext;
use base::event::{Done, Endpoint, ExternalResource, Failure, Stop, TaskId};
use exec::process::orders;
use plan::manifest::model::Slurm;
use plan::{ActionKind, Task};
use runner::store::JobFolder;
use runner::{EventEmitter, Lease, ResolvedTask, UpstreamProvenance};

/// A run that executes in one allocation.
#[derive(Clone)]
pub struct AllocationRun {
    /// The same for the same command.
    pub name: String,
    /// The arguments of `regatta` on the job's first node.
    pub words: Vec<String>,
    pub slurm: Slurm,
    /// A folder that has this allocation's name.
    pub out: PathBuf,
    pub log: PathBuf,
    pub project: PathBuf,
    pub stop: Stop,
    pub emit: EventEmitter,
}

/// Submits the run, or finds the job of an earlier command, and follows it. A run that ended with another code than 0
/// is a failure with that exit code. The second value: whether its end was seen, so that the job's folder may go.
pub async fn in_allocation(allocation: AllocationRun, home: &Path) -> (Result<Done, Failure>, bool) {
    let AllocationRun { name, words, slurm, out, log, project, stop, emit } = allocation;
    let folder = JobFolder::for_output(home, &out);
    let task = Task { cache: false, ..Task::minimal(TaskId::new(name), "run".to_owned(), ActionKind::Shell) };
    let lease = Lease {
        task: task.into(),
        attempt: 1,
        assignment: ResolvedTask::default(),
        out,
        log,
        project,
        gpus: Vec::new(),
        lowered: None,
        batch_slot: None,
        stop,
        ready: None,
        emit,
        origins: Arc::new(UpstreamProvenance::default),
    };
    run_attempt::run_attempt(&lease, slurm, Some(words), &folder, &SlurmContext::default(), None, None).await
}

// Where a server on a node can be reached from here.

/// For one address.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

/// The endpoints with the first address of their node that answers: its own name, or what the controller has for it.
/// That is queried once for a node, and only where the name does not answer: a controller may be slow.
pub async fn reachable(endpoints: Vec<Endpoint>, env: &Environment) -> Vec<Endpoint> {
    let mut nodes: BTreeMap<String, Vec<(usize, Endpoint)>> = BTreeMap::new();
    for (ix, endpoint) in endpoints.into_iter().enumerate() {
        nodes.entry(endpoint.host.clone()).or_default().push((ix, endpoint));
    }
    let mut endpoints_there =
        join_all(nodes.into_iter().map(|(node, endpoints)| at_node(node, endpoints, env))).await.concat();
    endpoints_there.sort_by_key(|(ix, _)| *ix);
    endpoints_there.into_iter().map(|(_, endpoint)| endpoint).collect()
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

// What a job started on its node and would outlive it: containers of docker and podman, which are children of no
// process of the job, and shared memory. The job removes them at every end that lets it; if it was killed, this machine
// cannot reach that node, and the user gets a message about what may be left there.

/// Of one attempt: what its job has announced and not removed.
#[derive(Debug, Default)]
pub struct OnNode {
    node: String,
    resources: BTreeSet<ExternalResource>,
}

impl OnNode {
    pub fn at(&mut self, node: &str) {
        node.clone_into(&mut self.node);
    }

    pub fn update(&mut self, thing: ExternalResource, there: bool) {
        if there {
            self.resources.insert(thing);
        } else {
            self.resources.remove(&thing);
        }
    }

    /// Message for the user after the attempt has finished.
    pub fn leftover_notices(&self) -> Vec<String> {
        let node = &self.node;
        let notice = |thing: &ExternalResource| match thing {
            ExternalResource::Container { name, .. } => {
                let orders: Vec<String> = orders(thing).iter().map(|words| words.join(" ")).collect();
                format!("its container {name} may still run on {node}, with its GPUs; there: `{}`", orders.join("; "))
            }
            ExternalResource::SharedMemory { mark } => {
                format!("shared memory of it may still be on {node}; there: `rm /dev/shm/*{mark}*`")
            }
            ExternalResource::GpuClocks { .. } => {
                format!("clocks of GPUs may still be locked on {node}; there: `{}`", orders(thing).concat().join(" "))
            }
        };
        self.resources.iter().map(notice).collect()
    }
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

    #[test]
    fn removed_resources_are_not_reported() {
        let container =
            |name: &str| ExternalResource::Container { program: "podman".to_owned(), name: name.to_owned() };
        let mut on_node = OnNode::default();
        on_node.at("n1");
        on_node.update(container("regatta-a"), true);
        on_node.update(container("regatta-b"), true);
        on_node.update(container("regatta-a"), false);
        let text = "its container regatta-b may still run on n1, with its GPUs; there: `podman kill regatta-b; podman \
            rm -f regatta-b`";
        assert_eq!(on_node.leftover_notices(), [text]);
    }
}
