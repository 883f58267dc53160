//! `host:` — where a stage runs, when that is not here.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ssh::SshHost;
use base::spec::{JobTimeLimit, MOST_PARTS, MOST_USERS, TimeSpan};

/// Where a stage runs: `local`, `slurm` (with the defaults of the cluster and `SBATCH_*`), `{ slurm: { … } }`, or for `serve`
/// `{ ssh: [HOST, …] }`. No part of the key.
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
    /// A job of its own. The project folder must be at the same place on its nodes.
    Slurm(Box<Slurm>),
    /// For `serve`: each of these machines starts the servers of the stage, and requests are spread over all. The project folder must be
    /// at the same place on them.
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
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Slurm {
    /// `sbatch --account`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// One or several with commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// `sbatch --qos`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
    /// `sbatch --reservation`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservation: Option<String>,
    /// How long the job may run: `90m`, `2h`, or as Slurm writes it, `1-12:00:00`. The stage's own `timeout` counts from its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<JobTimeLimit>,
    /// The command itself runs on the first of them; `srun` in it reaches all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub nodes: Option<u32>,
    /// `sbatch --ntasks-per-node`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub tasks_per_node: Option<u32>,
    /// `sbatch --cpus-per-task`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub cpus_per_task: Option<u32>,
    /// [default: the stage's `gpus`, divided by the nodes]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MOST_PARTS))]
    pub gpus_per_node: Option<u32>,
    /// In place of `gpus_per_node`, where a cluster requires it: `gpu:h100:8`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gres: Option<String>,
    /// Memory of a node: `200G`; `0` is all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem: Option<String>,
    /// `sbatch --constraint`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constraint: Option<String>,
    /// `sbatch --nodelist`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodelist: Option<String>,
    /// `sbatch --exclude`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclude: Option<String>,
    /// For `serve`: every node of the job starts the servers of the stage, and requests are spread over all.
    #[serde(skip_serializing_if = "is_false")]
    pub each_node: bool,
    /// No other jobs on its nodes.
    #[serde(skip_serializing_if = "is_false")]
    pub exclusive: bool,
    /// Further arguments for `sbatch`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Run the stage's commands in a container through pyxis, where the cluster has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<SlurmContainer>,
    /// Only these environment variables (besides PATH, HOME and similar, and the stage's own) reach the job.
    /// [default: all but those of Slurm, MPI and this session]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub export: Option<Vec<String>>,
    /// The path of this program on the nodes, if it differs, for example for another processor. [default: the one that is running]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Cancel a job that has waited this long for its start. [default: wait]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_timeout: Option<TimeSpan>,
    /// At most this many tasks of a `foreach` run at the same time. [default: the cluster's limit]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MOST_USERS))]
    pub at_once: Option<u32>,
    /// Warn when a running job sends no heartbeat for this long.
    pub silence: TimeSpan,
    /// Warn this long before the time limit.
    pub warn: TimeSpan,
    /// Interval of queue polls, one for all jobs of the run.
    pub poll: TimeSpan,
    /// How often a job that lost its node, or was preempted, is submitted again. Each attempt writes into a folder of its own.
    #[schemars(range(max = MOST_USERS))]
    pub resubmit: u32,
}

impl Default for Slurm {
    fn default() -> Self {
        Self {
            account: None,
            partition: None,
            qos: None,
            reservation: None,
            time: None,
            nodes: None,
            tasks_per_node: None,
            cpus_per_task: None,
            gpus_per_node: None,
            gres: None,
            mem: None,
            constraint: None,
            nodelist: None,
            exclude: None,
            each_node: false,
            exclusive: false,
            args: Vec::new(),
            container: None,
            export: None,
            program: None,
            queue_timeout: None,
            at_once: None,
            silence: Duration::from_mins(1).into(),
            warn: Duration::from_mins(1).into(),
            poll: Duration::from_secs(10).into(),
            resubmit: 2,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// `srun --container-…` of pyxis around each command. The project folder is mounted.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SlurmContainer {
    /// `nvcr.io#nvidia/tritonserver:24.12-trtllm-python-py3`, or the path of a `.sqsh` file.
    pub image: String,
    /// Further mounts: `/from:/to`, `/from:/to:ro`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<String>,
    /// Further arguments for `srun`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
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

#[cfg(test)]
mod tests {
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
