//! Which image a name means on this machine: docker or podman is queried once, and the answer is kept for the run.
//!
//! A name such as `registry.example/nvidia/tritonserver:24.12` can mean another image tomorrow, so the key of a task
//! holds the id, and the task runs by the id. An image that is not there is never fetched on the way: that would make a
//! key before it is known what it stands for.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;

use base::event::{Failure, FailureKind};
use base::spec::ContainerEngine;
use exec::process::{ProbeOutput, ProbeResult, ProcessCommand, probe};

/// How long docker or podman may take for one answer; a daemon that hangs does not answer at all.
const LIMIT: Duration = Duration::from_secs(30);

/// What names meant at their first use in this run.
#[derive(Debug, Default)]
pub struct Images(Mutex<BTreeMap<(String, String), Option<String>>>);

impl Images {
    /// What the name meant at its first use in this run; `None`: nothing.
    pub fn first_seen(&self, program: &str, image: &str) -> Option<String> {
        let key = (program.to_owned(), image.to_owned());
        if let Some(known) = self.0.lock().get(&key) {
            return known.clone();
        }
        let id = inspect_image(program, image).ok().map(|seen| seen.id);
        self.0.lock().entry(key).or_insert(id).clone()
    }

    /// What it means from now on.
    pub fn set_image_id(&self, program: &str, image: &str, id: &str) {
        self.0.lock().insert((program.to_owned(), image.to_owned()), Some(id.to_owned()));
    }
}

/// An image that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundImage {
    /// `sha256:…` of its configuration, which names its layers: the same bytes have the same id everywhere.
    pub id: String,
    /// `repository@sha256:…` for each registry that it came from or went to.
    pub digests: Vec<String>,
}

/// Looks up an image by its name or id. Blocks.
///
/// # Errors
/// The program, its daemon or the image is not there: which of them, and what to do about it.
pub fn inspect_image(program: &str, image: &str) -> Result<FoundImage, Failure> {
    if image.starts_with('-') {
        // The program would take it for an option of its own.
        return Err(Failure::refused(format!("`{image}` is not the name of an image")));
    }
    let argv = [program, "image", "inspect", "--format", "{{.Id}} {{json .RepoDigests}}", image];
    match probe(argv, LIMIT) {
        ProbeResult::Answered(ProbeOutput { code: 0, out, .. }) => read(&out).ok_or_else(|| {
            Failure::system(format!("`{program} image inspect {image}` printed no usable answer: {out}"))
        }),
        ProbeResult::Answered(ProbeOutput { err, .. }) => Err(image_absent(program, image, &err)),
        ProbeResult::Missing => Err(no_program(program)),
        ProbeResult::TimedOut => {
            let message = format!("{program} has not answered for {} s", LIMIT.as_secs());
            Err(Failure::system(message).hint(format!("does `{program} info` answer?")))
        }
        ProbeResult::Failed(why) => {
            Err(Failure::new(FailureKind::Spawn, format!("{program} cannot be queried: {why}")))
        }
    }
}

/// docker prints `sha256:…`, podman the same without the prefix.
fn read(out: &str) -> Option<FoundImage> {
    let (id, digests) = out.trim().split_once(' ')?;
    let id = id.strip_prefix("sha256:").unwrap_or(id);
    let is_id = id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let digests: Option<Vec<String>> = serde_json::from_str(digests).ok()?;
    is_id.then(|| FoundImage { id: format!("sha256:{id}"), digests: digests.unwrap_or_default() })
}

/// The id of an image, if it is on this machine. Blocks.
pub fn image_id(program: &str, image: &str) -> Option<String> {
    inspect_image(program, image).ok().map(|seen| seen.id)
}

/// What keeps docker or podman from answering, from their messages: the problem, and what to do about it.
pub fn engine_problem(program: &str, text: &str) -> Option<(String, &'static str)> {
    if text.contains("permission denied") {
        let hint = "`sudo usermod -aG docker $USER` and a new login; or `engine: podman`, which needs no daemon";
        Some((format!("{program} may not be used by this user"), hint))
    } else if text.contains("Cannot connect to the Docker daemon") || text.contains("Is the docker daemon running") {
        let hint = "`sudo systemctl start docker`; or `engine: podman`, which needs no daemon";
        Some((format!("the daemon of {program} does not answer"), hint))
    } else {
        None
    }
}

fn image_absent(program: &str, image: &str, text: &str) -> Failure {
    let message = text.trim();
    let last = message.lines().last().unwrap_or_default();
    if let Some((what, hint)) = engine_problem(program, message) {
        Failure::system(what).cause(last).hint(hint)
    } else if image.starts_with("sha256:") {
        Failure::refused(format!("the image {image} is not on this machine")).cause(last).hint(
            "rebuild it with `--force STAGE` of the stage that made it; each machine has images of its own: fetch \
                it there, \
                 too, or take enroot or apptainer, whose images are files",
        )
    } else {
        Failure::refused(format!("the image {image} is not on this machine")).cause(last).hint(format!(
            "`{program} pull {image}` fetches it; or let a stage do that: `image: {{ pull: {image} }}`, and here \
             `image: \"{{{{ stages.NAME.image }}}}\"`"
        ))
    }
}

/// The failure for a container program that is not there.
pub fn no_program(program: &str) -> Failure {
    Failure::new(FailureKind::Spawn, format!("the container program `{program}` was not found in PATH")).hint(
        "install it, or name another engine: `container: { engine: podman }`; `regatta doctor` lists what this \
         machine has",
    )
}

/// The engine of a container: the configured one, the one that its image's ending implies, or the one that is
/// installed.
pub fn engine(container_engine: Option<ContainerEngine>, image: &str) -> ContainerEngine {
    container_engine.or_else(|| ContainerEngine::of_file(image)).unwrap_or_else(|| {
        let only_podman = !is_here("docker") && is_here("podman");
        if only_podman { ContainerEngine::Podman } else { ContainerEngine::Docker }
    })
}

/// Whether a program is in PATH.
pub fn is_here(program: &str) -> bool {
    ProcessCommand::new([program], "/", "/dev/null").is_found()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_not_a_name() {
        let refused = inspect_image("/no/such/program", "--url=ssh://elsewhere").unwrap_err();
        assert_eq!(refused.what, "`--url=ssh://elsewhere` is not the name of an image");
    }

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn both_programs_say_the_same_id() {
        let seen = FoundImage { id: format!("sha256:{ID}"), digests: vec!["r/i@sha256:1".to_owned()] };
        assert_eq!(read(&format!("sha256:{ID} [\"r/i@sha256:1\"]\n")), Some(seen.clone()));
        assert_eq!(read(&format!("{ID} [\"r/i@sha256:1\"]\n")), Some(seen));
        assert_eq!(read(&format!("{ID} null\n")).unwrap().digests, [""; 0]);
        assert_eq!(read("<no value>\n"), None);
    }

    #[test]
    fn what_is_missing_is_named_with_what_to_do() {
        let daemon = image_absent(
            "docker",
            "i",
            "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?\n",
        );
        assert_eq!(daemon.what, "the daemon of docker does not answer");
        let denied = image_absent(
            "docker",
            "i",
            "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock",
        );
        assert!(denied.hint.unwrap().contains("usermod -aG docker"));
        let image = image_absent("podman", "x:1", "Error: x:1: image not known\n");
        assert_eq!(image.what, "the image x:1 is not on this machine");
        assert!(image.hint.unwrap().starts_with("`podman pull x:1` fetches it"));
    }

    #[test]
    fn the_ending_of_an_image_says_its_engine() {
        use base::spec::ContainerEngine::{Apptainer, Enroot, Podman};
        assert_eq!(engine(None, "a.sqsh"), Enroot);
        assert_eq!(engine(None, "/x/a.sif"), Apptainer);
        assert_eq!(engine(Some(Podman), "a.sif"), Podman);
    }
}
