//! Turns a command and what it may see into a command line of docker, podman, enroot or apptainer. Pure data in, pure data out.
//!
//! One entry point for all code that starts something in a container: servers of Triton with all their ranks, and the commands
//! of any other stage. Nothing here looks at the machine or starts anything; the caller stops the container by the name that it
//! was given, where its engine keeps it apart ([`base::spec::ContainerEngine::is_detached`]).

mod command_line;
mod spec;

pub use command_line::{EngineCommand, engine_command};
pub use spec::{ContainerAccess, ContainerSpec, contradictions};
