//! `host:` — where a stage runs, when that is not here.
//!
//! `host: { ssh: … }` — machines that are reached over ssh.
//!
//! `gpu_clocks:` — which stages can lock the clocks of their GPUs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{StageChecker, faults};
use crate::manifest::model::{Serve, Stage};
use base::spec::{JobTimeLimit, Launcher, MOST_PARTS, MOST_USERS, TimeSpan};

/// Where a stage runs: `local`, `slurm` (with the defaults of the cluster and `SBATCH_*`), `{ slurm: { … } }`, or for
/// `serve` `{ ssh: [HOST, …] }`. No part of the key.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Host {
    Word(HostWord),
    On(HostOn),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HostWord {
    /// Here.
    Local,
    /// A job of its own, with the cluster's defaults.
    Slurm,
}

/// Where, and with what.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HostOn {
    /// A job of its own. Nodes need the project folder at the same path.
    Slurm(Box<Slurm>),
    /// For `serve`: each machine starts the servers, and requests are spread over all. They need the project folder at
    /// the same path.
    Ssh(Vec<SshHost>),
}

impl Host {
    /// `None` is here.
    pub fn remote(&self) -> Option<HostOn> {
        match self {
            Self::Word(HostWord::Local) => None,
            Self::Word(HostWord::Slurm) => Some(HostOn::Slurm(Box::default())),
            Self::On(on) => Some(on.clone()),
        }
    }
}

/// A job of Slurm's. Defaults come from `SBATCH_*` in the environment or from the cluster.
#[base::omit_empty]
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Slurm {
    /// `sbatch --account`.
    pub account: Option<String>,
    /// One or several with commas.
    pub partition: Option<String>,
    /// `sbatch --qos`.
    pub qos: Option<String>,
    /// `sbatch --reservation`.
    pub reservation: Option<String>,
    /// Time limit: `90m`, `2h`, or Slurm's `1-12:00:00`. The stage's `timeout` counts from the job's start.
    pub time: Option<JobTimeLimit>,
    /// The command runs on the first one; its `srun` reaches all.
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub nodes: Option<u32>,
    /// `sbatch --ntasks-per-node`.
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub tasks_per_node: Option<u32>,
    /// `sbatch --cpus-per-task`.
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub cpus_per_task: Option<u32>,
    /// [default: the stage's `gpus`, divided by the nodes]
    #[schemars(range(max = MOST_PARTS))]
    pub gpus_per_node: Option<u32>,
    /// Instead of `gpus_per_node`, if the cluster requires it: `gpu:h100:8`.
    pub gres: Option<String>,
    /// Memory of a node: `200G`; `0` is all of it.
    pub mem: Option<String>,
    /// `sbatch --constraint`.
    pub constraint: Option<String>,
    /// `sbatch --nodelist`.
    pub nodelist: Option<String>,
    /// `sbatch --exclude`.
    pub exclude: Option<String>,
    /// For `serve`: every node starts the servers, and requests are spread over all.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub each_node: bool,
    /// No other jobs on its nodes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclusive: bool,
    /// Further arguments for `sbatch`.
    pub args: Vec<String>,
    /// Run the commands in a container through pyxis.
    pub container: Option<SlurmContainer>,
    /// Only these environment variables reach the job, besides the stage's own and PATH, HOME and similar. [default:
    /// all but those of Slurm, MPI and this session]
    pub export: Option<Vec<String>>,
    /// Path of Regatta on the nodes, if it differs. [default: the running one]
    pub program: Option<String>,
    /// Cancel a job that waits longer than this. [default: never]
    pub queue_timeout: Option<TimeSpan>,
    /// Tasks of a `foreach` that run at the same time. [default: the cluster's limit]
    #[schemars(range(min = 1, max = MOST_USERS))]
    pub at_once: Option<u32>,
    /// Warn when a running job sends no heartbeat for this long.
    #[serde(default = "super::a_minute")]
    pub silence: TimeSpan,
    /// Warn this long before the time limit.
    #[serde(default = "super::a_minute")]
    pub warn: TimeSpan,
    /// Interval of queue polls.
    #[serde(default = "super::ten_seconds")]
    pub poll: TimeSpan,
    /// How often a job that lost its node or was preempted is resubmitted, with a new output folder.
    #[serde(default = "super::twice")]
    #[schemars(range(max = MOST_USERS))]
    pub resubmit: u32,
}

impl Default for Slurm {
    fn default() -> Self {
        serde_json::from_str("{}").expect("every key has a default")
    }
}

/// `srun --container-…` of pyxis around each command. The project folder is mounted.
#[base::omit_empty]
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SlurmContainer {
    /// `nvcr.io#nvidia/tritonserver:24.12-trtllm-python-py3`, or a `.sqsh` file.
    pub image: String,
    /// Further mounts: `/from:/to`, `/from:/to:ro`.
    pub mounts: Vec<String>,
    /// Further arguments for `srun`.
    pub args: Vec<String>,
}

impl Slurm {
    /// Flags of `sbatch` that `args` may not have: what decides them instead.
    pub const OWN: [(&'static str, &'static str); 17] = [
        ("job-name", "Regatta: the job is found again by it"),
        ("output", "Regatta"),
        ("error", "Regatta"),
        ("open-mode", "Regatta"),
        ("chdir", "Regatta"),
        ("parsable", "Regatta"),
        ("wait", "Regatta"),
        ("array", "`foreach` and `at_once`"),
        ("wrap", "the stage"),
        ("export", "`export`"),
        ("export-file", "`export`"),
        ("signal", "`warn`"),
        ("requeue", "`resubmit`: an attempt is never run twice"),
        ("no-requeue", "`resubmit`"),
        ("time", "`time`"),
        ("nodes", "`nodes`"),
        ("gres", "`gres`"),
    ];
}

/// A machine: its name alone, as `ssh` and its config know it, or with more.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum SshHost {
    Name(String),
    Machine(SshMachine),
}

/// A machine that is reached over ssh. `~/.ssh/config` applies; ssh never prompts, so a key must be available, and the
/// host's own key must be known.
#[base::omit_empty]
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SshMachine {
    /// Its name in messages, logs and results, unique in the stage.
    pub name: String,
    /// `user@host`, or a name of ssh's config. [default: `name`]
    pub ssh: Option<String>,
    /// [default: ssh's config, else 22]
    #[schemars(range(min = 1))]
    pub port: Option<u16>,
    /// Arguments for `ssh`, before all others: `[-i, keys/bench]`.
    pub args: Vec<String>,
    /// Address of its servers, for example in another network. [default: the host name that ssh uses]
    pub address: Option<String>,
    /// Path of Regatta there, if it differs. [default: the running one]
    pub program: Option<String>,
}

impl SshHost {
    /// A name alone is a machine without further settings.
    pub fn machine(&self) -> SshMachine {
        match self {
            Self::Machine(machine) => machine.clone(),
            Self::Name(name) => SshMachine {
                // Of `user@host` the host is what it is called.
                name: name.rsplit('@').next().unwrap_or(name).to_owned(),
                ssh: Some(name.clone()),
                port: None,
                args: Vec::new(),
                address: None,
                program: None,
            },
        }
    }
}

impl SshMachine {
    /// What stands on ssh's command line.
    pub fn destination(&self) -> &str {
        self.ssh.as_deref().unwrap_or(&self.name)
    }
}

impl StageChecker<'_> {
    /// A stage that runs on another machine.
    pub(super) fn check_remote_stage(&mut self, stage: &Stage, host: &HostOn) {
        faults! { self;
            ["resume"], stage.resume, "cannot be true with `host`",
                "an attempt that was cut off may still write into the folder that the next one continues in",
                "remove one of them";
            ["host"], matches!(stage.serve.as_deref(), Some(Serve::Attach(_))),
                "cannot be combined with `serve.attach`", "nothing is started", "remove `host`";
        }
        match host {
            HostOn::Slurm(slurm) => {
                let has_container = slurm.container.is_some();
                faults! { self;
                    ["container"], has_container && stage.container.is_some(), "is given twice",
                        "`host.slurm` also has one", "keep this one, or that of `host.slurm`";
                }
                self.slurm(slurm);
                let triton = if let Some(Serve::Triton(server)) = stage.serve.as_deref() { Some(server) } else { None };
                let is_by_srun = triton.is_some_and(|server| server.launcher == Some(Launcher::Srun));
                faults! { self;
                    ["serve", "triton", "launcher"], slurm.each_node && is_by_srun,
                        "cannot be `srun` with `each_node`", "each node starts its own ranks",
                        "`launcher: mpi` starts them there; or remove `each_node`";
                }
                if slurm.each_node {
                    self.many(stage, &["host", "slurm", "each_node"]);
                }
                faults! { self;
                    ["host", "slurm", "container"], slurm.each_node && has_container,
                        "cannot be combined with `each_node`", "its commands start on one node only",
                        "`container` next to `host` starts them on each";
                }
            }
            HostOn::Ssh(hosts) => {
                self.many(stage, &["host", "ssh"]);
                self.ssh(hosts);
            }
        }
    }

    /// A stage that runs on several machines at once.
    fn many(&mut self, stage: &Stage, at: &[&str]) {
        match stage.serve.as_deref() {
            None => {
                self.fault(at, "is for `serve`", "this stage would do the same work several times")
                    .hint("remove it, or put the stage into a Slurm job: `host: slurm`");
            }
            Some(Serve::Triton(server)) => {
                faults! { self;
                    ["serve", "triton", "host"], server.host.is_some(), "cannot be the same for several hosts", "here",
                        "set `address` of each host to where requests reach it";
                    ["serve", "triton", "mpi", "hosts"], !server.mpi.hosts.is_empty(),
                        "cannot be combined with several hosts", "each host starts its own server",
                        "remove one of them";
                }
            }
            Some(_) => {}
        }
    }

    fn ssh(&mut self, hosts: &[SshHost]) {
        let mut names = std::collections::BTreeSet::new();
        faults! { self;
            ["host", "ssh"], hosts.is_empty(), "is empty", "nothing would be started",
                "name the machines: `ssh: [node-a, node-b]`";
        }
        for (index, host) in hosts.iter().enumerate() {
            let machine = host.machine();
            let index = index.to_string();
            let at = match host {
                SshHost::Name(_) => vec!["host", "ssh", &index],
                SshHost::Machine(_) => vec!["host", "ssh", &index, "name"],
            };
            let odd = |c: char| !c.is_ascii_alphanumeric() && !"._-:".contains(c);
            faults! { self;
                at, machine.name.is_empty() || machine.name.starts_with('-') || machine.name.contains(odd),
                    "is not a name of a host", "letters, digits, `.`, `_` and `-`, not starting with `-`",
                    "`ssh` takes ssh's destination";
                at, machine.destination().starts_with('-'), "is not a host", "ssh would take it for an option";
                at, !names.insert(machine.name.clone()), "is given twice",
                    &format!("another host is also called `{}`", machine.name), "give one of them another `name`";
            }
        }
    }

    fn slurm(&mut self, slurm: &Slurm) {
        let requests_gpus = slurm.gres.as_ref().is_some_and(|gres| gres.starts_with("gpu"));
        faults! { self;
            ["host", "slurm", "gres"], requests_gpus && slurm.gpus_per_node.is_some(),
                "cannot be combined with `gpus_per_node`", "both request GPUs", "remove one of them";
        }
        for (index, word) in slurm.args.iter().enumerate() {
            let flag = word.strip_prefix("--").map(|flag| flag.split('=').next().unwrap_or(flag));
            let owner = Slurm::OWN.iter().find(|(own, _)| flag == Some(own));
            let index = index.to_string();
            let place = ["host", "slurm", "args", &index];
            if let Some((flag, owner)) = owner {
                self.fault(&place, &format!("may not hold `--{flag}`"), &format!("decided by {owner}"));
            } else if !word.starts_with("--") {
                self.fault(&place, "must be a long flag", "short ones cannot be distinguished from values")
                    .hint("write `--flag=value`");
            }
        }
        for (index, name) in slurm.export.iter().flatten().enumerate() {
            self.variable(&["host", "slurm", "export", &index.to_string()], name);
        }
    }

    pub(super) fn gpu_clocks(&mut self, stage: &Stage) {
        let Some(clocks) = &stage.gpu_clocks else { return };
        let [least, greatest] = clocks.graphics;
        let is_elsewhere = match stage.host.as_deref().and_then(Host::remote) {
            Some(HostOn::Ssh(_)) => true,
            Some(HostOn::Slurm(slurm)) => slurm.each_node,
            None => false,
        };
        faults! { self;
            ["gpu_clocks", "graphics"], least == 0 || least > greatest, "must be the least and the greatest clock",
                "MHz", "`[1410, 1410]` is one clock";
            ["gpu_clocks"], stage.gpus == 0, "needs GPUs of the stage", "`gpus` is 0",
                "set `gpus`; or lock them in the stage that starts the servers";
            ["gpu_clocks"], is_elsewhere, "cannot be combined with several hosts", "only one machine's are locked",
                "lock them there before the run: `nvidia-smi -lgc`";
        }
    }
}

#[cfg(test)]
mod host_tests {
    use super::*;

    #[test]
    fn a_word_is_enough() {
        let host = |yaml: &str| serde_yaml::from_str::<Host>(yaml).unwrap().remote();
        assert_eq!(host("local"), None);
        assert_eq!(host("slurm"), Some(HostOn::Slurm(Box::default())));
        let Some(HostOn::Slurm(slurm)) = host("{ slurm: { partition: gpu, nodes: 2 } }") else { panic!("not Slurm") };
        assert_eq!((slurm.partition.as_deref(), slurm.nodes, slurm.resubmit), (Some("gpu"), Some(2), 2));
    }
}

#[cfg(test)]
mod ssh_tests {
    use super::*;
    use crate::manifest::model::{Host, HostOn};

    #[test]
    fn a_name_alone_is_enough() {
        let text = "{ ssh: [node-a, bench@10.0.0.2, { name: node-c, ssh: bench@c, port: 2222, args: [-v] }] }";
        let Some(HostOn::Ssh(hosts)) = serde_yaml::from_str::<Host>(text).unwrap().remote() else { panic!("not ssh") };
        let machines: Vec<(String, String, Option<u16>)> = hosts
            .iter()
            .map(SshHost::machine)
            .map(|one| (one.name.clone(), one.destination().to_owned(), one.port))
            .collect();
        let string = str::to_owned;
        assert_eq!(
            machines,
            [
                (string("node-a"), string("node-a"), None),
                (string("10.0.0.2"), string("bench@10.0.0.2"), None),
                (string("node-c"), string("bench@c"), Some(2222))
            ]
        );
    }
}
