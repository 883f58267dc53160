//! One of the machines, and how this program is started on it.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::connection::{HostLost, connect_problem};
use super::host_place;
use crate::remote::slurm::commands::environment;
use crate::remote::slurm::reachable;
use crate::remote::ssh::Ssh;
use crate::remote::{ssh, ssh as ssh_command};
use crate::task_context::own_program;
use base::event::{Endpoint, Failure};
use exec::process::{self, ExitKind, ProbeOutput, ProbeResult, probe};
use plan::manifest::model::{Slurm, SshHost, SshMachine};
use triton::SpecProblem;

/// For one query to Slurm.
const QUERY_TIMEOUT: Duration = Duration::from_secs(20);

/// A machine.
#[derive(Clone, Debug)]
pub struct HostPlace {
    /// For messages, logs and results.
    pub name: String,
    pub transport: HostTransport,
    /// This program on it.
    program: PathBuf,
    project: PathBuf,
}

#[derive(Clone, Debug)]
pub enum HostTransport {
    Ssh {
        ssh: Ssh,
        /// Where requests reach it, if that is not where ssh does.
        address: Option<String>,
    },
    /// A node of the allocation that we are in.
    Node,
}

impl HostPlace {
    /// What starts this program there with these arguments. Its standard input and output are ours.
    pub fn argv(&self, words: &[&str]) -> Vec<OsString> {
        match &self.transport {
            HostTransport::Ssh { ssh, .. } => ssh.argv(&ssh_command::remote(&self.project, &self.program, words)),
            HostTransport::Node => {
                let mut argv: Vec<OsString> = srun(&self.name).map(OsString::from).to_vec();
                argv.push(self.program.clone().into());
                argv.extend(words.iter().map(OsString::from));
                argv
            }
        }
    }

    pub fn ssh(&self) -> Option<&Ssh> {
        match &self.transport {
            HostTransport::Ssh { ssh, .. } => Some(ssh),
            HostTransport::Node => None,
        }
    }
}

/// A step beside all others on one node of the allocation; what has the node's resources is the server, not the step.
fn srun(node: &str) -> [String; 6] {
    ["srun", &format!("--nodelist={node}"), "--nodes=1", "--ntasks=1", "--overlap", "--export=ALL"].map(str::to_owned)
}

/// The machines of `host.ssh`. A relative `program` is relative to the project.
pub fn over_ssh(hosts: &[SshHost], project: &Path) -> Result<Vec<HostPlace>, Failure> {
    let program_here = own_program()?;
    Ok(hosts
        .iter()
        .map(SshHost::machine)
        .map(|machine| HostPlace {
            program: machine.program.as_ref().map_or_else(|| program_here.clone(), |program| project.join(program)),
            project: project.to_owned(),
            transport: HostTransport::Ssh { ssh: ssh(&machine), address: machine.address.clone() },
            name: machine.name,
        })
        .collect())
}

fn ssh(machine: &SshMachine) -> Ssh {
    Ssh { destination: machine.destination().to_owned(), port: machine.port, args: machine.args.clone() }
}

/// The nodes of the allocation, as Slurm counts them.
pub async fn of_allocation(slurm: &Slurm, project: &Path) -> Result<Vec<HostPlace>, Failure> {
    let Some(list) = std::env::var_os("SLURM_JOB_NODELIST") else {
        return Err(Failure::refused("`each_node` requires a Slurm allocation"));
    };
    let words =
        ["scontrol", "show", "hostnames"].map(OsString::from).into_iter().chain([list.clone()]).collect::<Vec<_>>();
    let probed = tokio::task::spawn_blocking(move || process::probe(words, QUERY_TIMEOUT)).await;
    let Some(names) = probed.ok().and_then(process::ProbeResult::successful_output) else {
        let message = format!("the nodes {} cannot be distinguished", list.to_string_lossy());
        return Err(Failure::system(message).hint("`scontrol show hostnames` must work on the nodes"));
    };
    let mut names: Vec<&str> = names.lines().map(str::trim).filter(|name| !name.is_empty()).collect();
    let wanted = slurm.nodes.map_or(names.len(), |nodes| nodes as usize);
    if names.len() < wanted {
        let message =
            format!("the stage needs {wanted} nodes, but the allocation has {}: {}", names.len(), names.join(", "));
        return Err(Failure::refused(message).hint(format!("`--on slurm --slurm nodes={wanted}`")));
    }
    names.truncate(wanted);
    let program = match &slurm.program {
        Some(program) => project.join(program),
        None => own_program()?,
    };
    let place = |name: &str| HostPlace {
        name: name.to_owned(),
        transport: HostTransport::Node,
        program: program.clone(),
        project: project.to_owned(),
    };
    Ok(names.into_iter().map(place).collect())
}

/// For display: how an agent is started on each machine, with `<project>` for the project folder.
pub fn agent_command_lines(hosts: &[SshHost]) -> Vec<String> {
    let line = |machine: SshMachine| {
        let program = machine.program.clone().unwrap_or_else(|| "regatta".to_owned());
        let remote = ssh_command::remote(Path::new("<project>"), Path::new(&program), &["__host"]);
        format!("{}: {}", machine.name, process::shown(&ssh(&machine).argv(&remote), &[], &[]))
    };
    hosts.iter().map(SshHost::machine).map(line).collect()
}

// Where a host's servers can be reached from here.

/// For one connection, and for ssh to read its configuration.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The endpoints as they are from here, each tried once; or what is in the way of one.
pub async fn reachable_endpoints(place: &HostPlace, endpoints: Vec<Endpoint>) -> Result<Vec<Endpoint>, SpecProblem> {
    let at = match &place.transport {
        HostTransport::Ssh { address: Some(address), .. } => address.clone(),
        HostTransport::Ssh { .. } => host_name(place).await,
        HostTransport::Node => place.name.clone(),
    };
    let moved = endpoints.into_iter().map(|one| Endpoint { name: Some(place.name.clone()), ..one.at_host(&at) });
    let mut moved: Vec<Endpoint> = moved.collect();
    if matches!(place.transport, HostTransport::Node) {
        // A cluster's nodes need not be in a name service.
        moved = reachable(moved, &environment(std::env::vars_os(), None)).await;
    }
    for endpoint in &moved {
        connect(endpoint).await?;
    }
    Ok(moved)
}

/// What ssh connects to: its config may give a short name a longer one.
async fn host_name(place: &HostPlace) -> String {
    let Some(ssh) = place.ssh() else { return place.name.clone() };
    let words = ssh.configuration();
    let probed = tokio::task::spawn_blocking(move || process::probe(words, CONNECT_TIMEOUT)).await;
    let name = probed.ok().and_then(process::ProbeResult::successful_output).and_then(|text| ssh::host_name(&text));
    name.unwrap_or_else(|| ssh.destination.rsplit('@').next().unwrap_or_default().to_owned())
}

async fn connect(endpoint: &Endpoint) -> Result<(), SpecProblem> {
    let reason = match timeout(CONNECT_TIMEOUT, TcpStream::connect((endpoint.host.as_str(), endpoint.grpc))).await {
        Ok(Ok(_)) => return Ok(()),
        Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {} s", CONNECT_TIMEOUT.as_secs()),
    };
    Err(SpecProblem::new(
        format!("its server is up, but this machine cannot reach it at {endpoint}: {reason}"),
        "is there a firewall, or is it bound to 127.0.0.1? `address` of the host names another network",
    ))
}

// One host, used only for checks before a run.

/// To log in and to load this program.
const LIMIT: Duration = Duration::from_secs(25);

/// The host's facts, or what is wrong with it and what to do. Starts nothing there. Blocks until it has answered or the
/// time limit is reached.
pub fn query_host(machine: &SshMachine, project: &Path) -> Result<String, SpecProblem> {
    let host = SshHost::Machine(machine.clone());
    let places = host_place::over_ssh(&[host], project)?;
    let Some(place) = places.first() else { return Err(SpecProblem::new("no such host", "")) };
    let (how, words) = match probe(place.argv(&["--version"]), LIMIT) {
        ProbeResult::Answered(ProbeOutput { code: 0, out, .. }) => {
            let version = out.lines().last().unwrap_or_default().trim().to_owned();
            let version_here = concat!("regatta ", env!("CARGO_PKG_VERSION"));
            if version == version_here {
                return Ok(format!("reachable: {version}, project folder found"));
            }
            let hint = "the run and its hosts must have the same version: `program` of the host names another";
            return Err(SpecProblem::new(format!("it has {version}; this machine has {version_here}"), hint));
        }
        ProbeResult::Answered(ProbeOutput { code, err, .. }) => (Some(ExitKind::Code(code)), err),
        ProbeResult::Missing => return Err(SpecProblem::new("`ssh` is not installed", "install openssh-client")),
        ProbeResult::TimedOut => (None, String::new()),
        ProbeResult::Failed(why) => (None, why),
    };
    let lost = HostLost::new(how, words.lines().map(str::to_owned).collect());
    Err(connect_problem(place, &lost))
}
