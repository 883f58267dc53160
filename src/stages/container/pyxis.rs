//! A stage's `container` as a step of the job, through pyxis, on a cluster whose nodes have neither docker nor podman.

use std::time::Duration;

use super::written;
use base::event::Failure;
use exec::process::{ProbeResult, ProcessCommand, probe};
use plan::manifest::model::SlurmContainer;
use runner::Lease;

/// How long `srun --help` may take. It asks no controller.
const LIMIT: Duration = Duration::from_secs(20);
/// The variable that every job of Slurm has.
const JOB: &str = "SLURM_JOB_ID";

/// The container of a lease's commands as options of `srun`: inside a job whose `srun` has pyxis, where the stage names no engine and
/// neither docker nor podman is there.
pub async fn of_job(lease: &Lease) -> Result<Option<SlurmContainer>, Failure> {
    let is_command = lease.task.kind.facts().is_command;
    let Some(container) = written(lease.assignment.container.as_deref())?.filter(|_| is_command) else {
        return Ok(None);
    };
    let is_here = |program: &str| ProcessCommand::new([program], "/", "/dev/null").is_found();
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
