//! Where the programs of a stage run: what starts the ranks of a Triton server, in which container, with which clocks
//! of the GPUs, and for how long as a job of Slurm.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quantity::TimeSpan;
use super::schema_format::{JOB_TIME_LIMIT, MOST_PARTS, text_schema};
use crate::units::DurationError;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Launcher {
    /// `mpirun`.
    Mpi,
    /// `srun --mpi=pmix`, inside a Slurm allocation.
    Srun,
    /// Nothing: the server itself.
    None,
}

/// How `mpirun` is called.
#[crate::omit_empty]
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[serde(default)]
pub struct Mpi {
    /// The launcher program.
    pub program: String,
    /// Further arguments of the launcher, before the first rank.
    pub args: Vec<String>,
    /// Pass `--allow-run-as-root`, which Open MPI requires of root.
    pub allow_run_as_root: bool,
    /// Hosts with slots in the order of ranks: `node1:8`. Only one server can span hosts. [default: this machine]
    pub hosts: Vec<String>,
}

impl Default for Mpi {
    fn default() -> Self {
        Self { program: "mpirun".to_owned(), args: Vec::new(), allow_run_as_root: true, hosts: Vec::new() }
    }
}

/// How `srun` is called.
#[crate::omit_empty]
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[serde(default)]
pub struct Srun {
    /// The launcher program.
    pub program: String,
    /// Further arguments, e.g. `--container-image=…` where pyxis is installed.
    pub args: Vec<String>,
    /// How many nodes one server takes. [default: srun decides]
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub nodes: Option<u32>,
}

impl Default for Srun {
    fn default() -> Self {
        Self { program: "srun".to_owned(), args: Vec::new(), nodes: None }
    }
}

// Which program runs a container, and which GPUs are seen inside.

// By the names of their programs.
crate::named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
    pub enum ContainerEngine {
        Docker = "docker",
        Podman = "podman",
        Enroot = "enroot",
        Apptainer = "apptainer",
    }
}

/// Which GPUs are seen inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ContainerGpus {
    /// Those of the stage, and no others.
    #[default]
    Leased,
    /// All of the machine; CUDA_VISIBLE_DEVICES chooses.
    All,
    None,
}

impl ContainerEngine {
    /// See [`Self::is_detached`].
    pub const DETACHED: [Self; 2] = [Self::Docker, Self::Podman];

    /// Whether the container is a child of a daemon or a monitor, not of the program that starts it. Such a container
    /// has a name and outlives that program; its image is in a store of the engine's and has an id.
    pub const fn is_detached(self) -> bool {
        matches!(self, Self::Docker | Self::Podman)
    }

    /// Whose image a file is, by its ending: `.sqsh` is enroot's, `.sif` apptainer's.
    pub fn of_file(image: &str) -> Option<Self> {
        match Path::new(image).extension()?.to_str()? {
            "sqsh" => Some(Self::Enroot),
            "sif" => Some(Self::Apptainer),
            _ => None,
        }
    }
}

/// The container that a stage's programs run in. The project and the inputs are mounted read-only at their own paths,
/// the output folder can be written to; a Triton server sees its repository and its engines. The image's id is part of
/// the key.
#[crate::omit_empty]
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Container {
    /// A reference or `{{ stages.NAME.image }}`; for apptainer also a `.sif`, for enroot a `.sqsh` or a container's
    /// name.
    pub image: String,
    /// [default: by the ending of `image`; else docker, or podman without docker]
    pub engine: Option<ContainerEngine>,
    /// Path of the engine's program, where its name is not found.
    pub program: Option<String>,
    /// Further mounts: `/from:/to`, `/from:/to:ro`.
    pub mounts: Vec<String>,
    /// Size of /dev/shm: `2g`. docker, podman. [default: 2g]
    pub shm_size: Option<String>,
    /// Limits by name; -1 is without limit. docker, podman. [default: memlock -1, stack 67108864]
    pub ulimits: Option<IndexMap<String, i64>>,
    /// [default: leased]
    #[serde(default)]
    pub gpus: ContainerGpus,
    /// docker, podman; the others always use the host's. [default: host]
    pub network: Option<String>,
    /// docker, podman: `1000:1000`. [default: the current user; for `serve: triton` the image's user]
    pub user: Option<String>,
    /// Environment inside, added to the stage's `env`.
    pub env: IndexMap<String, String>,
    /// The container's name; several get `-<n>`. [default: from run and task]
    pub name: Option<String>,
    /// Arguments of the engine, before the image: `--entrypoint=` removes an entry point.
    pub args: Vec<String>,
}

impl Container {
    /// The image, if it is a file to be read.
    pub fn file(&self) -> Option<&str> {
        let is_file = self.image.starts_with(['/', '.']) || ContainerEngine::of_file(&self.image).is_some();
        (is_file && !self.image.contains("://")).then_some(self.image.as_str())
    }
}

// How the processes of a Triton server share the work.

crate::named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
    pub enum ServerMode {
        /// One process, one rank.
        Plain = "plain",
        /// tp × pp ranks, one model; rank 0 answers.
        Leader = "leader",
        /// One process answers, with a worker for every rank of every model.
        Orchestrator = "orchestrator",
    }
}

// The clocks that a stage's GPUs are locked to while it runs.

/// What `nvidia-smi --lock-gpu-clocks` sets.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct GpuClocks {
    /// Minimum and maximum graphics clock, MHz: `[1410, 1410]`. `nvidia-smi -q -d SUPPORTED_CLOCKS` lists the choices.
    pub graphics: [u32; 2],
    /// Call `sudo -n nvidia-smi`: only root may lock clocks.
    #[serde(default)]
    pub sudo: bool,
}

/// `1410,1410`, as `nvidia-smi -lgc` takes it.
impl fmt::Display for GpuClocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [least, greatest] = self.graphics;
        write!(f, "{least},{greatest}")
    }
}

// How long a job of Slurm's may run.

/// `90m`, `2h`, or as Slurm writes it: `30:00`, `1-12:00:00`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobTimeLimit {
    Span(TimeSpan),
    /// Slurm's own notation. Slurm itself checks it.
    Slurm(String),
}

impl JobTimeLimit {
    /// As `sbatch --time` wants it: minutes, rounded up, or Slurm's own notation as it was written.
    pub fn sbatch(&self) -> String {
        match self {
            Self::Span(span) => span.time().as_nanos().div_ceil(60_000_000_000).max(1).to_string(),
            Self::Slurm(text) => text.clone(),
        }
    }
}

impl FromStr for JobTimeLimit {
    type Err = DurationError;

    /// # Errors
    /// The text is neither a duration nor in Slurm's notation. A bare number is neither: of what?
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_slurms = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b':' || byte == b'-');
        if is_slurms && text.contains([':', '-']) {
            return Ok(Self::Slurm(text.to_owned()));
        }
        TimeSpan::parse(text).map(Self::Span)
    }
}

impl fmt::Display for JobTimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Span(span) => span.fmt(f),
            Self::Slurm(text) => f.write_str(text),
        }
    }
}

crate::text_serde!(JobTimeLimit);
text_schema!(JobTimeLimit, JOB_TIME_LIMIT);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sbatch_gets_minutes_that_are_enough() {
        let sbatch = |text: &str| text.parse::<JobTimeLimit>().map(|limit| limit.sbatch());
        assert_eq!(sbatch("2h"), Ok("120".to_owned()));
        assert_eq!(sbatch("90s"), Ok("2".to_owned()));
        assert_eq!(sbatch("10s"), Ok("1".to_owned()));
        assert_eq!(sbatch("1-12:00:00"), Ok("1-12:00:00".to_owned()));
        assert!(sbatch("90").is_err(), "90 of what?");
        assert_eq!("2h".parse::<JobTimeLimit>().unwrap().to_string(), "2h");
    }
}
