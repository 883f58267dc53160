//! Which program runs a container, and which GPUs are seen inside.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ContainerEngine {
    Docker,
    Podman,
    Enroot,
    Apptainer,
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
    /// The name of its program.
    pub const fn program_name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Enroot => "enroot",
            Self::Apptainer => "apptainer",
        }
    }

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
