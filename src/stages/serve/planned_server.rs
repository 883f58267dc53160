//! One server process to be: its command, and what there is to stop.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::container::named_paths;
use crate::task_context::TaskContext;
use base::event::{Endpoint, ExternalResource, Failure, GpuId};
use exec::process::{AttemptLog, ProcessCommand};

/// One server process to be.
#[derive(Clone)]
pub struct PlannedServer {
    /// For display: `server 0`.
    pub name: String,
    pub argv: Vec<OsString>,
    pub log: AttemptLog,
    /// `None`: the server chooses its port and prints it in its log.
    pub endpoint: Option<Endpoint>,
    pub gpus: Vec<GpuId>,
    /// What its environment has beyond the stage's own.
    pub env: Vec<(String, OsString)>,
    /// Variables of our own environment that it must not have.
    pub unset: Vec<String>,
    #[allow(dead_code, reason = "for the code that stops it")]
    pub stop_target: StopTarget,
    pub probe: ReadinessProbe,
    /// Its command as a container program takes it, if it has one around it.
    pub wrapped: Option<ProcessCommand>,
    /// What it serves, where that is known.
    pub repository: Option<PathBuf>,
}

/// What there is to stop when a server is to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopTarget {
    /// One process group.
    Process,
    /// `mpirun` with this many ranks below it, each a process group of its own.
    Mpi { ranks: u32 },
    /// A container, which outlives the program that started it: `PROGRAM stop NAME`.
    Container { program: String, name: String },
    /// A step of this many ranks in a Slurm allocation. TERM to `srun` kills them; `scancel --signal=TERM JOB.STEP` stops them
    /// gracefully.
    Slurm { ranks: u32 },
}

impl StopTarget {
    /// What there is to stop when this command line starts a server: `mpirun` and `docker run --name "{name}"` are known.
    pub(super) fn of(words: &[String], name: String) -> Self {
        let program = words.first().map(|word| word.rsplit('/').next().unwrap_or(word)).unwrap_or_default();
        let count = |option: &&[String; 2]| matches!(option[0].as_str(), "-n" | "-np");
        match program {
            "mpirun" | "mpiexec" | "orterun" => {
                let ranks = words.array_windows().filter(count).filter_map(|[_, n]| n.parse::<u32>().ok()).sum();
                Self::Mpi { ranks }
            }
            // A name that the user chose may belong to an unrelated container.
            "docker" | "podman" if words.iter().any(|word| word.contains("{name}")) => {
                Self::Container { program: words[0].clone(), name }
            }
            _ => Self::Process,
        }
    }
}

/// How readiness is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadinessProbe {
    /// ServerReady over gRPC.
    Kserve,
    /// A TCP connection.
    Port,
    /// `GET /health`.
    Health,
    /// The same, and then `GET /v1/models` lists one.
    OpenAi,
}

impl PlannedServer {
    pub fn command(&self, context: &TaskContext) -> ProcessCommand {
        let mut command = match &self.wrapped {
            Some(wrapped) => ProcessCommand { argv: self.argv.clone(), ..wrapped.clone() },
            None => context.command(self.argv.clone()),
        };
        self.log.path().clone_into(&mut command.log);
        for name in &self.unset {
            command = command.remove(name);
        }
        for (name, value) in &self.env {
            command = command.set(name, value);
        }
        if self.gpus.is_empty() { command } else { command.set("CUDA_VISIBLE_DEVICES", GpuId::list(&self.gpus)) }
    }
}

/// A server's command line as it is started.
pub(super) struct ServerCommand {
    pub argv: Vec<OsString>,
    /// In a container: its command, and what there is to stop.
    pub wrapped: Option<ProcessCommand>,
    pub stop_target: Option<StopTarget>,
}

/// In the stage's container, if it has one, with these GPUs, what its arguments name, and `named`.
pub(super) fn placed(
    context: &TaskContext,
    argv: Vec<OsString>,
    gpus: &[GpuId],
    named: &[PathBuf],
) -> Result<ServerCommand, Failure> {
    let Some(place) = &context.place else { return Ok(ServerCommand { argv, wrapped: None, stop_target: None }) };
    // The program itself is one of the image's.
    let arguments = argv.iter().skip(1).filter_map(|word| word.to_str());
    let named = [named_paths::in_arguments(arguments), named.to_vec()].concat();
    let inside = place.wrap_with(&context.lease, &context.command(argv), gpus, &named)?;
    let world = match inside.external_resource {
        Some(ExternalResource::Container { program, name }) => StopTarget::Container { program, name },
        _ => StopTarget::Process,
    };
    Ok(ServerCommand { argv: inside.command.argv.clone(), wrapped: Some(inside.command), stop_target: Some(world) })
}

/// One log for each server; the task's own when there is only one.
pub(super) fn log_of(context: &TaskContext, index: usize, servers: usize) -> AttemptLog {
    if servers == 1 {
        context.log.clone()
    } else {
        AttemptLog::from_now(context.lease.log.with_extension(format!("{index}.log")))
    }
}
