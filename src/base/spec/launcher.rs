//! What starts the ranks of a Triton server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::counts::MOST_PARTS;

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
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Mpi {
    /// The launcher program. [default: mpirun]
    #[serde(default = "mpirun")]
    pub program: String,
    /// Further arguments of the launcher, before the first rank.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Pass `--allow-run-as-root`: Open MPI refuses to run as root without this flag. [default: true]
    #[serde(default = "yes")]
    pub allow_run_as_root: bool,
    /// Hosts with their slots, in the order of the ranks: `node1:8`. Only one server can be spread over hosts. [default: this machine]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
}

impl Default for Mpi {
    fn default() -> Self {
        Self { program: mpirun(), args: Vec::new(), allow_run_as_root: true, hosts: Vec::new() }
    }
}

/// How `srun` is called.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Srun {
    /// The launcher program. [default: srun]
    #[serde(default = "srun")]
    pub program: String,
    /// Further arguments, e.g. `--container-image=…` where pyxis is installed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// How many nodes one server takes. [default: srun decides]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub nodes: Option<u32>,
}

impl Default for Srun {
    fn default() -> Self {
        Self { program: srun(), args: Vec::new(), nodes: None }
    }
}

fn mpirun() -> String {
    "mpirun".to_owned()
}
fn srun() -> String {
    "srun".to_owned()
}
const fn yes() -> bool {
    true
}
