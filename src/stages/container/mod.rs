//! `container:` — the place that a task's commands run in. The commands themselves do not know of it.
//!
//! Inside a command finds the project, the inputs and what a server's arguments name read-only and its output folder
//! writable, all at their own paths; the GPUs of its lease and no others; the host's network; the stage's variables
//! and secrets, which docker and podman take by their names, so that no process list shows a value. It runs as the
//! user of this program, so that this user owns the files it writes. On a cluster whose nodes have neither docker nor
//! podman it is a step of the job, through pyxis.

mod images;
mod run;
pub mod wrap;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::assigned;
use base::event::{ExternalResource, Failure, FailureKind, GpuId};
use exec::container::ContainerSpec;
use exec::process::{ProbeResult, ProcessCommand, probe};
pub use images::{FoundImage, Images, engine, engine_problem, image_id, inspect_image, is_here, no_program};
use plan::Task;
use plan::manifest::model::{self, SlurmContainer};
pub use run::{
    ContainerRunError, emit_removal, inner_exit, meaning, refuse_taken, remove, run, run_engine_ignoring_output,
};
use runner::{Lease, OpenFact};
pub use wrap::{ContainerView, WrappedEngine, mount_problem, wrap_in};

/// How long `docker stop` waits until it kills, seconds: what a process outside of a container is given, too.
const STOP_AFTER: u32 = 5;
/// The container of one task, its image found.
#[derive(Debug)]
pub struct TaskContainer {
    container: ContainerSpec,
    /// Whether the user chose the container's name: then it may be taken.
    is_named: bool,
    state: PathBuf,
    count: AtomicU32,
}

/// A command as a container program takes it.
pub struct ContainerCommand {
    pub command: ProcessCommand,
    /// Docker and podman: what must be removed by its name.
    pub external_resource: Option<ExternalResource>,
}

impl TaskContainer {
    /// The place of a lease, if it has one. Looks up the image.
    ///
    /// # Errors
    /// The program or the image is not there, or the image is another than the one that the task's key names.
    pub async fn find(lease: &Lease, mark: &str, images: &Arc<Images>) -> Result<Option<Self>, Failure> {
        let Some(written) = written(lease)? else { return Ok(None) };
        let mut container = of_model(&written, &name(mark));
        if container.engine.is_detached() {
            let is_literal = lease.task.container.as_ref().is_none_or(|written| !written.image.contains('⟦'));
            let (program, image) = (container.program().to_owned(), container.settings.image.clone());
            let images = Arc::clone(images);
            let image = tokio::task::spawn_blocking(move || find(&program, &image, is_literal, &images)).await;
            // From here on by its id: the image under the name may be replaced meanwhile.
            container.settings.image = image.map_err(|error| Failure::system(error.to_string()))??;
        }
        let state = lease.out.parent().and_then(Path::parent).unwrap_or(&lease.out).to_owned();
        Ok(Some(Self { container, is_named: written.name.is_some(), state, count: AtomicU32::new(0) }))
    }

    /// The image's id; a file or a name where there are no ids.
    pub fn image(&self) -> &str {
        &self.container.settings.image
    }

    pub const fn is_named(&self) -> bool {
        self.is_named
    }

    /// A command of the lease, to be run inside, with these of the lease's GPUs, and with files that the command names.
    ///
    /// # Errors
    /// What the engine cannot do, a path that cannot be mounted.
    pub fn wrap(
        &self,
        lease: &Lease,
        command: &ProcessCommand,
        gpus: &[GpuId],
        named: &[PathBuf],
    ) -> Result<ContainerCommand, Failure> {
        let mut container = self.container.clone();
        let before = self.count.fetch_add(1, Ordering::Relaxed);
        if before > 0 {
            container.name = format!("{}-{before}", container.name);
        }
        let view = ContainerView {
            project: &lease.project,
            state: &self.state,
            out: &lease.out,
            inputs: &lease.assignment.inputs,
            env: &command.env,
            secrets: &lease.task.secrets,
            dir: &command.dir,
            gpus,
            named,
        };
        let WrappedEngine { argv: words, env } = wrap_in(&container, &view)?;
        let external_resource = container.engine.is_detached().then(|| ExternalResource::Container {
            program: container.program().to_owned(),
            name: container.safe_name(),
        });
        let argv = words.into_iter().map(OsString::from).chain(command.argv.iter().cloned()).collect();
        Ok(ContainerCommand { command: ProcessCommand { argv, env, ..command.clone() }, external_resource })
    }
}

/// A name that nothing else has.
pub fn name(mark: &str) -> String {
    format!("regatta-{}", mark.replace('/', "_"))
}

/// From the manifest's settings. `name` is the container's unless the manifest sets one.
pub fn of_model(written: &model::Container, name: &str) -> ContainerSpec {
    ContainerSpec {
        settings: written.clone(),
        engine: engine(written.engine, &written.image),
        name: written.name.clone().unwrap_or_else(|| name.to_owned()),
    }
}

/// Where a planned task's programs will run; references are still symbolic.
pub fn place_of(task: &Task) -> Option<ContainerSpec> {
    task.container.as_ref().map(|written| of_model(written, ""))
}

/// The fact of a key that has an image's id.
const IMAGE: &str = "image";

/// The id of the image that a task names, if it is one of docker's or podman's: part of its key.
pub fn image_fact(task: &Task, images: &Images) -> Option<(String, String)> {
    let container = with_image_id(task)?;
    let id = images.first_seen(container.program(), &container.settings.image);
    Some((IMAGE.to_owned(), id.unwrap_or_else(|| "not on this machine".to_owned())))
}

/// Where only a program of the manifest's own knows the image: a plan starts none.
pub fn open_image(task: &Task) -> Option<OpenFact> {
    let container = with_image_id(task)?;
    let program = container.settings.program.as_deref().filter(|program| *program != container.engine.as_str())?;
    let image = &container.settings.image;
    let condition = format!("{image} is still the same image, for which a plan does not start {program}");
    Some(OpenFact { names: IMAGE.to_owned(), condition })
}

/// The container of a task whose image has an id on this machine.
fn with_image_id(task: &Task) -> Option<ContainerSpec> {
    // What a node has under that name is not known here.
    if task.host.is_some() {
        return None;
    }
    // An image that a stage made is in the key by that stage's output.
    let is_looked_up =
        |container: &ContainerSpec| container.engine.is_detached() && !container.settings.image.contains('⟦');
    place_of(task).filter(is_looked_up)
}

fn written(lease: &Lease) -> Result<Option<model::Container>, Failure> {
    assigned("container", lease.assignment.container.as_deref())
}

/// The id of an image, which must be the one that the task's key was made with.
fn find(program: &str, image: &str, is_literal: bool, images: &Images) -> Result<String, Failure> {
    let seen = inspect_image(program, image)?;
    if is_literal && images.first_seen(program, image).as_ref() != Some(&seen.id) {
        images.set_image_id(program, image, &seen.id);
        let message = format!("the image {image} changed during this run");
        return Err(Failure::new(FailureKind::InputChanged, message));
    }
    Ok(seen.id)
}

/// How long `srun --help` may take. It asks no controller.
const LIMIT: Duration = Duration::from_secs(20);
/// The variable that every job of Slurm has.
const JOB: &str = "SLURM_JOB_ID";

/// The container of a lease's commands as options of `srun`: inside a job whose `srun` has pyxis, where the stage names
/// no engine and neither docker nor podman is there.
pub async fn of_job(lease: &Lease) -> Result<Option<SlurmContainer>, Failure> {
    let is_command = lease.task.kind.facts().is_command;
    let Some(container) = written(lease)?.filter(|_| is_command) else {
        return Ok(None);
    };
    let is_open = container.engine.is_none() && container.program.is_none() && container.file().is_none();
    if !is_open || std::env::var_os(JOB).is_none() || is_here("docker") || is_here("podman") || !is_here("srun") {
        return Ok(None);
    }
    let has_pyxis = tokio::task::spawn_blocking(has_pyxis).await.unwrap_or(false);
    if !has_pyxis {
        return Ok(None);
    }
    lease.notice(format!("the container runs as a step of the job, through pyxis: `{}`", container.image));
    let inputs = lease.assignment.inputs.values().flatten().filter(|path| !path.starts_with(&lease.project));
    let mut mounts: Vec<String> = inputs.map(|path| format!("{0}:{0}:ro", path.display())).collect();
    mounts.extend(container.mounts);
    Ok(Some(SlurmContainer { image: registry_first(&container.image), mounts, args: Vec::new() }))
}

/// Whether `srun` lists the options of pyxis.
fn has_pyxis() -> bool {
    match probe(["srun", "--help"], LIMIT) {
        ProbeResult::Answered(answer) => [answer.out, answer.err].iter().any(|text| text.contains("--container-image")),
        _ => false,
    }
}

/// `nvcr.io/nvidia/tritonserver:25.06` → `nvcr.io#nvidia/tritonserver:25.06`: enroot sets the registry apart.
fn registry_first(image: &str) -> String {
    match image.split_once('/') {
        Some((host, rest)) if host.contains(['.', ':']) && !image.contains('#') => format!("{host}#{rest}"),
        _ => image.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_of_an_image_is_set_apart() {
        for (image, expected) in [
            ("nvcr.io/nvidia/tritonserver:25.06", "nvcr.io#nvidia/tritonserver:25.06"),
            ("nvcr.io#nvidia/tritonserver:25.06", "nvcr.io#nvidia/tritonserver:25.06"),
            ("localhost:5000/a/b", "localhost:5000#a/b"),
            ("vllm/vllm-openai:latest", "vllm/vllm-openai:latest"),
            ("ubuntu", "ubuntu"),
        ] {
            assert_eq!(registry_first(image), expected);
        }
    }
}
