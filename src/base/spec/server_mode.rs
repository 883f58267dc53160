//! How the processes of a Triton server share the work.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServerMode {
    /// One process, one rank.
    Plain,
    /// tp × pp ranks, one model; rank 0 answers.
    Leader,
    /// One process that answers, and a worker for every rank of every model.
    Orchestrator,
}

impl fmt::Display for ServerMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Leader => "leader",
            Self::Orchestrator => "orchestrator",
        })
    }
}
