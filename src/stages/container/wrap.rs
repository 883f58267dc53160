//! The command of a container's engine around a command of a task: what the command inside sees of the machine, at its
//! own paths, the files and folders included that arguments and model configurations name. The same for a command that
//! runs and for one that is only shown.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{getgid, getuid};
use serde_json::Value;

use super::STOP_AFTER;
use base::event::{Failure, GpuId};
use base::spec::ContainerEngine;
use exec::container::{self, ContainerAccess, ContainerSpec};

/// Variables that docker, podman and the others obey themselves. A stage's value of such a name is for inside only.
const STEERS: &str =
    "PATH HOME TMPDIR LD_* XDG_* DOCKER_* BUILDKIT_* CONTAINER* REGISTRY_* ENROOT_* APPTAINER* SINGULARITY*";
/// Inside GPUs are counted from 0, so the host's numbers would be wrong there.
const DEVICES: &str = "CUDA_VISIBLE_DEVICES";

/// What the command inside has of its task.
#[derive(Clone, Copy)]
pub struct ContainerView<'a> {
    pub project: &'a Path,
    pub state: &'a Path,
    pub out: &'a Path,
    pub inputs: &'a BTreeMap<String, Vec<PathBuf>>,
    /// Later ones win.
    pub env: &'a [(String, Option<OsString>)],
    /// Names of variables of this process.
    pub secrets: &'a [String],
    /// Where it starts.
    pub dir: &'a Path,
    pub gpus: &'a [GpuId],
    /// Further files that it must have.
    pub named: &'a [PathBuf],
}

/// The engine's command, which the command inside follows.
pub struct WrappedEngine {
    pub argv: Vec<String>,
    /// Changes to the environment of the engine.
    pub env: Vec<(String, Option<OsString>)>,
}

/// Builds it.
///
/// # Errors
/// What the engine cannot do, a path that cannot be mounted.
pub fn wrap_in(container: &ContainerSpec, view: &ContainerView<'_>) -> Result<WrappedEngine, Failure> {
    let wrong = container::contradictions(container);
    if !wrong.is_empty() {
        let message = wrong.iter().map(|(message, _)| message.as_str()).collect::<Vec<_>>().join("; ");
        return Err(Failure::refused(message));
    }
    let mut container = container.clone();
    if container.settings.user.is_none() {
        container.settings.user = user(container.engine);
    }
    let mut sees = ContainerAccess {
        mounts: mounts(view, container.engine, &container.settings.mounts)?,
        gpus: view.gpus.to_vec(),
        dir: Some(view.dir.display().to_string()),
        stop_after: STOP_AFTER,
        ..ContainerAccess::default()
    };
    let mut variables: Vec<(String, Option<OsString>)> = Vec::new();
    for (name, value) in last_of_each(view.env) {
        let Some(value) = value.as_ref().filter(|_| name != DEVICES) else { continue };
        if is_runtime_variable(name) {
            sees.set.push((name.clone(), value.to_string_lossy().into_owned()));
        } else {
            sees.pass.push(name.clone());
            variables.push((name.clone(), Some(value.clone())));
        }
    }
    sees.pass.extend(view.secrets.iter().filter(|name| std::env::var_os(name).is_some()).cloned());
    if container.settings.user.as_deref().is_some_and(|user| !user.starts_with("0:"))
        && is_unset("HOME", &sees, &container)
    {
        // That user id is unknown inside, and it does not own `/`.
        sees.set.push(("HOME".to_owned(), "/tmp".to_owned()));
    }
    let words = container::engine_command(&container, &sees);
    variables.extend(
        words.env.into_iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| (name, Some(value.into()))),
    );
    variables.push((DEVICES.to_owned(), None));
    Ok(WrappedEngine { argv: words.argv, env: variables })
}

/// The current user: it must own what is written into the output folder. Podman without root shows it as root inside.
fn user(engine: ContainerEngine) -> Option<String> {
    match engine {
        ContainerEngine::Docker => Some(format!("{}:{}", getuid().as_raw(), getgid().as_raw())),
        ContainerEngine::Podman => Some("0:0".to_owned()),
        ContainerEngine::Enroot | ContainerEngine::Apptainer => None,
    }
}

/// The project, what lies outside of it, and the output folder, each at its own path. `given` are those of the
/// manifest.
fn mounts(view: &ContainerView<'_>, engine: ContainerEngine, given: &[String]) -> Result<Vec<String>, Failure> {
    let ContainerView { project, state, out, .. } = *view;
    let mut read: Vec<&Path> = vec![project];
    if !state.starts_with(project) {
        read.push(state);
    }
    for paths in view.inputs.values() {
        // Of many files the folders are mounted.
        let many = paths.len() > 1;
        for path in paths {
            let path = if many { path.parent().unwrap_or(path) } else { path.as_path() };
            if !read.iter().any(|known| path.starts_with(known)) {
                read.push(path);
            }
        }
    }
    let mut covered = mount_targets(given);
    covered.extend(read.iter().copied().chain([out]));
    let named = mount_points(view.named, &covered);
    read.extend(named.iter().map(PathBuf::as_path));
    let mut mounts = Vec::with_capacity(read.len() + 1);
    for (path, kind) in read.into_iter().map(|path| (path, ":ro")).chain([(out, "")]) {
        let text = path.display().to_string();
        if let Some(what) = mount_problem(path, engine == ContainerEngine::Apptainer) {
            return Err(Failure::refused(what));
        }
        mounts.push(format!("{text}:{text}{kind}"));
    }
    Ok(mounts)
}

/// Why a path cannot be mounted at its own path. `in_list`: several mounts are one argument, as of apptainer and pyxis.
pub fn mount_problem(path: &Path, in_list: bool) -> Option<String> {
    let text = path.display().to_string();
    let sign = if text.contains(':') {
        "colon"
    } else if in_list && text.contains(',') {
        "comma"
    } else {
        return None;
    };
    Some(format!("{text} cannot be mounted into a container: its name has a {sign}"))
}

fn is_runtime_variable(name: &str) -> bool {
    STEERS.split(' ').any(|pattern| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    })
}

fn is_unset(name: &str, sees: &ContainerAccess, container: &ContainerSpec) -> bool {
    !sees.set.iter().any(|(known, _)| known == name) && !container.settings.env.contains_key(name)
}

/// Later ones win, in the order in which the names first came.
fn last_of_each(env: &[(String, Option<OsString>)]) -> Vec<(&String, &Option<OsString>)> {
    let mut last: Vec<(&String, &Option<OsString>)> = Vec::with_capacity(env.len());
    for (name, value) in env {
        match last.iter_mut().find(|(known, _)| *known == name) {
            Some(entry) => entry.1 = value,
            None => last.push((name, value)),
        }
    }
    last
}

/// Folders that every image contains: mounting the machine's over them would break its programs.
const OF_THE_IMAGE: &str =
    "/bin /boot /dev /etc /lib /lib32 /lib64 /opt/nvidia /opt/tritonserver /proc /run /sbin /sys /usr";

/// The absolute paths that exist here among these arguments: whole ones, and the parts of `name=value`, `a,b` and
/// scripts.
pub fn in_arguments<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for word in words {
        if push_if_there(word, &mut paths) {
            continue;
        }
        for piece in word.split(|c: char| c.is_whitespace() || matches!(c, '=' | ',' | '"' | '\'' | ';')) {
            push_if_there(piece, &mut paths);
        }
    }
    paths
}

/// Those among the texts of a JSON value, at any depth.
pub fn in_json(value: &Value) -> Vec<PathBuf> {
    match value {
        Value::String(text) => in_arguments([text.as_str()]),
        Value::Array(values) => values.iter().flat_map(in_json).collect(),
        Value::Object(values) => values.values().flat_map(in_json).collect(),
        _ => Vec::new(),
    }
}

fn push_if_there(text: &str, found: &mut Vec<PathBuf>) -> bool {
    let is_there = text.starts_with('/') && Path::new(text).exists();
    if is_there {
        found.push(PathBuf::from(text));
    }
    is_there
}

/// What to mount so that these can be read, where `covered` is mounted already. A link leads to its target, and so do
/// the links in a folder: a checkpoint in the cache of Hugging Face is a folder of links to its files.
pub fn mount_points(named: &[PathBuf], covered: &[&Path]) -> Vec<PathBuf> {
    let mut points: Vec<PathBuf> = Vec::new();
    for path in named {
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        let targets = links(&real).filter_map(|target| Some(target.parent()?.to_owned()));
        let mut wanted = vec![path.clone()];
        if covered.iter().any(|known| path.starts_with(known)) {
            // What is mounted holds the link, and not what it leads to.
            wanted.push(real.clone());
        }
        wanted.extend(targets);
        for one in wanted {
            let is_known = |known: &Path| one.starts_with(known);
            let is_covered = covered.iter().any(|known| is_known(known)) || points.iter().any(|known| is_known(known));
            if !is_covered && !is_of_the_image(&one) {
                points.push(one);
            }
        }
    }
    points
}

/// Where the mounts of a container are inside: `/to` of `/from:/to:ro`.
pub fn mount_targets(mounts: &[String]) -> Vec<&Path> {
    mounts.iter().filter_map(|mount| mount.split(':').nth(1)).map(Path::new).collect()
}

/// Where the links of a folder lead.
fn links(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    links.filter_map(|entry| entry.path().canonicalize().ok())
}

fn is_of_the_image(path: &Path) -> bool {
    path.parent().is_none() || OF_THE_IMAGE.split(' ').any(|folder| path.starts_with(folder))
}

#[cfg(test)]
mod wrap_tests {
    use super::*;

    #[test]
    fn a_path_with_a_sign_of_the_engines_list_is_refused() {
        let problem = |path: &str, in_list| mount_problem(Path::new(path), in_list).is_some();
        assert!(problem("/a:b", false) && problem("/a:b", true));
        assert!(problem("/a,b", true));
        assert!(!problem("/a,b", false) && !problem("/ab", true));
    }
}

#[cfg(test)]
mod named_paths_tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn paths_are_found_where_they_exist_and_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("model");
        fs::create_dir(&model).unwrap();
        let text = model.display().to_string();
        let words = [format!("--model={text}"), "/no/such/path".to_owned(), format!("exec serve '{text}' --x 1")];
        assert_eq!(in_arguments(words.iter().map(String::as_str)), [model.clone(), model.clone()]);
        let json = serde_json::json!({"model": text, "n": [1, {"deep": format!("a,{text}")}]});
        assert_eq!(in_json(&json), [model.clone(), model]);
    }

    #[test]
    fn a_folder_of_links_brings_what_they_lead_to() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (snapshot, blobs) = (root.join("snapshots/1"), root.join("blobs"));
        fs::create_dir_all(&snapshot).unwrap();
        fs::create_dir_all(&blobs).unwrap();
        fs::write(blobs.join("a"), "").unwrap();
        symlink("../../blobs/a", snapshot.join("config.json")).unwrap();
        assert_eq!(mount_points(std::slice::from_ref(&snapshot), &[]), [snapshot.clone(), blobs.clone()]);
        assert_eq!(mount_points(std::slice::from_ref(&snapshot), &[&root]), Vec::<PathBuf>::new());
        // A link in what is mounted, to a place that is not.
        let project = root.join("project");
        fs::create_dir(&project).unwrap();
        symlink(&blobs, project.join("model")).unwrap();
        assert_eq!(mount_points(&[project.join("model")], &[&project]), [blobs]);
    }

    #[test]
    fn what_the_image_has_is_left_to_it() {
        assert_eq!(mount_points(&in_arguments(["/usr/bin", "/", "--x=/etc,/dev/null"]), &[]), Vec::<PathBuf>::new());
        assert_eq!(mount_targets(&["/a:/b:ro".to_owned()]), [Path::new("/b")]);
    }
}
