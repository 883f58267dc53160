//! One of the machines, and how this program is started on it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::remote::ssh::{self as ssh_command, Ssh};
use base::event::{Failure, FailureKind};
use exec::process;
use plan::manifest::model::{Slurm, SshHost, SshMachine};

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
    let own = own_program()?;
    Ok(hosts
        .iter()
        .map(SshHost::machine)
        .map(|machine| HostPlace {
            program: machine.program.as_ref().map_or_else(|| own.clone(), |program| project.join(program)),
            project: project.to_owned(),
            transport: HostTransport::Ssh { ssh: ssh(&machine), address: machine.address.clone() },
            name: machine.name,
        })
        .collect())
}

fn ssh(machine: &SshMachine) -> Ssh {
    Ssh { destination: machine.destination().to_owned(), port: machine.port, args: machine.args.clone() }
}

fn own_program() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::new(FailureKind::System, format!("the regatta program cannot be found: {error}")))
}

/// The nodes of the allocation, as Slurm counts them.
pub async fn of_allocation(slurm: &Slurm, project: &Path) -> Result<Vec<HostPlace>, Failure> {
    let Some(list) = std::env::var_os("SLURM_JOB_NODELIST") else {
        return Err(Failure::new(FailureKind::Refused, "`each_node`, and this is no allocation of Slurm's"));
    };
    let words =
        ["scontrol", "show", "hostnames"].map(OsString::from).into_iter().chain([list.clone()]).collect::<Vec<_>>();
    let probed = tokio::task::spawn_blocking(move || process::probe(words, QUERY_TIMEOUT)).await;
    let Some(names) = probed.ok().and_then(process::ProbeResult::successful_output) else {
        let what = format!("the nodes {} cannot be distinguished", list.to_string_lossy());
        return Err(Failure::new(FailureKind::System, what).hint("`scontrol show hostnames` must work on the nodes"));
    };
    let mut names: Vec<&str> = names.lines().map(str::trim).filter(|name| !name.is_empty()).collect();
    let wanted = slurm.nodes.map_or(names.len(), |nodes| nodes as usize);
    if names.len() < wanted {
        let what =
            format!("the stage is for {wanted} nodes, and the allocation has {}: {}", names.len(), names.join(", "));
        return Err(Failure::new(FailureKind::Refused, what).hint(format!("`--on slurm --slurm nodes={wanted}`")));
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
