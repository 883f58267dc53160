//! Container programs: whether they answer, whether they can pass GPUs in, whether the images are there.

use std::time::Duration;

use super::needs::{ContainerNeed, Needs};
use super::tools;
use exec::process::{ProbeOutput, ProbeResult, ProcessCommand, probe};
use report::{DoctorFinding, FindingLevel};
use stages::{engine_problem, image_id};

const LIMIT: Duration = Duration::from_secs(30);
const TOOLKIT: &str = "install nvidia-container-toolkit";

/// Lines on every container program that is needed; on docker and podman as facts if none is.
pub fn examine(needs: &Needs, os: &str) -> Vec<DoctorFinding> {
    if needs.containers.is_empty() {
        return ["docker", "podman", "enroot", "apptainer"].iter().map(|word| tools::find(word, &[], os)).collect();
    }
    needs.containers.iter().flat_map(|(program, contained)| one(program, contained, os)).collect()
}

fn one(program: &str, contained: &ContainerNeed, os: &str) -> Vec<DoctorFinding> {
    let answers = match contained.engine.as_str() {
        "docker" => Some([program, "version", "--format", "{{.Server.Version}}"]),
        "podman" => Some([program, "info", "--format", "{{.Version.Version}}, {{.Host.OCIRuntime.Name}}"]),
        _ => None,
    };
    let Some(question) = answers else {
        let mut all = vec![tools::find(program, &contained.by, os)];
        all.extend(hook(contained));
        return all;
    };
    let (found, fix) = match probe(question, LIMIT) {
        ProbeResult::Answered(ProbeOutput { code: 0, out, .. }) => (out.trim().to_owned(), None),
        ProbeResult::Missing => return vec![tools::find(program, &contained.by, os)],
        ProbeResult::Answered(ProbeOutput { err, .. }) => match engine_problem(program, &err) {
            Some((what, fix)) => (what, Some(fix.to_owned())),
            None => (err.trim().lines().last().unwrap_or("no answer").to_owned(), Some(format!("{program} info"))),
        },
        ProbeResult::TimedOut => (format!("no answer in {} s", LIMIT.as_secs()), Some(format!("{program} info"))),
        ProbeResult::Failed(why) => (why, Some(format!("{program} info"))),
    };
    let works = fix.is_none();
    let first = DoctorFinding::fact(program, found).needed("to answer", &contained.by, FindingLevel::of(works));
    let mut all = vec![first.fix(fix.unwrap_or_default())];
    if works {
        all.extend(hook(contained));
        all.extend(contained.images.iter().map(|(image, by)| image_of(program, image, by)));
    }
    all
}

/// How GPUs get into a container of this kind.
fn hook(contained: &ContainerNeed) -> Option<DoctorFinding> {
    if contained.gpus_by.is_empty() {
        return None;
    }
    let is_found = |word: &str| ProcessCommand::new([word], "/", "/dev/null").is_found();
    let (is_there, found, fix) = match contained.engine.as_str() {
        "docker" => {
            let is_there = is_found("nvidia-container-runtime-hook") || is_found("nvidia-container-runtime");
            let fix = format!(
                "{TOOLKIT}; then `sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker`"
            );
            (is_there, "nvidia-container-runtime-hook", fix)
        }
        "podman" => {
            let listed = probe(["nvidia-ctk", "cdi", "list"], LIMIT).successful_output().unwrap_or_default();
            let fix = format!("{TOOLKIT}; then `sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`");
            (listed.contains("nvidia.com/gpu"), "CDI devices nvidia.com/gpu", fix)
        }
        "enroot" => {
            (is_found("nvidia-container-cli"), "nvidia-container-cli", "install libnvidia-container-tools".to_owned())
        }
        // `--nv` takes the driver's libraries as they are.
        _ => return None,
    };
    let found = if is_there { found.to_owned() } else { format!("no {found}") };
    let about = format!("GPUs in {}", contained.engine);
    Some(DoctorFinding::fact(about, found).needed("a hook", &contained.gpus_by, FindingLevel::of(is_there)).fix(fix))
}

fn image_of(program: &str, image: &str, by: &[String]) -> DoctorFinding {
    let seen = image_id(program, image);
    let found = seen.as_ref().map_or("not on this machine", |id| id.get(..19).unwrap_or(id));
    DoctorFinding::fact(image, found)
        .needed("the image", by, FindingLevel::of(seen.is_some()))
        .fix(format!("{program} pull {image}"))
}
