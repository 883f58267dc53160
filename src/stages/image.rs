//! `image:` — a container image, built or fetched; the output names it.
//!
//! docker and podman keep images in stores of their own, so the output is two small files: `image` with the id, which
//! is what `{{ stages.NAME.image }}` means, and `image.json` for users. enroot and apptainer make a file, and that is
//! the output. Every output records about itself which commit, image, weights or program made it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::container::{FoundImage, engine, inspect_image};
use super::task_context::TaskContext;
use super::{git, mlperf, weights};
use crate::Run;
use crate::git_command::query_repository;
use base::event::{Done, Failure, FailureKind, MovingSource};
use base::files::{read_bytes, read_text};
use base::spec::ContainerEngine;
use plan::Task;
use plan::manifest::model::{Action, Git, Image, ImageBuild, Mlperf};

/// What `{{ stages.NAME.image }}` means: an id, or `./file` in the same folder.
const IMAGE: &str = "image";
/// For display.
pub const RECORD_FILE: &str = "image.json";

impl Run for Image {
    const FORMAT: Option<u32> = Some(1);

    async fn run(&self, task_context: TaskContext) -> Result<Done, Failure> {
        let task_context = &task_context;
        let (engine, program) = program(self);
        match (&self.build, &self.pull, image_file(engine)) {
            (Some(build), _, None) => {
                task_context.lease.report_progress("building", 0, None);
                let ids = task_context.lease.out.join(".iid");
                let argv = build_words(task_context, self, build, &program, &ids);
                // Its default attestations hold the time: every build would have another id.
                task_context.run(task_context.command(argv).set("BUILDX_NO_DEFAULT_ATTESTATIONS", "1")).await?;
                let id = read_text(&ids);
                let _ = fs::remove_file(&ids);
                let id =
                    id.map_err(|error| Failure::system(format!("{program} wrote no id of what it built: {error}")))?;
                write_image_record(task_context, &program, id.trim(), build.tag.as_deref())
            }
            (None, Some(name), None) => {
                task_context.lease.report_progress(format!("fetching {name}"), 0, None);
                let mut argv = vec![program.clone(), "pull".to_owned()];
                argv.extend(self.platform.iter().map(|platform| format!("--platform={platform}")));
                argv.extend(self.args.iter().cloned());
                argv.push(name.clone());
                task_context.run(task_context.command(argv.into_iter().map(OsString::from).collect())).await?;
                let done = write_image_record(task_context, &program, name, Some(name))?;
                Ok(Done { source: moving_source(name, done.headline.clone()), ..done })
            }
            (None, Some(name), Some(file)) => {
                task_context.lease.report_progress(format!("fetching {name}"), 0, None);
                let argv = file_words(engine, &program, self, name, &task_context.lease.out.join(file));
                task_context.run(task_context.command(argv.into_iter().map(OsString::from).collect())).await?;
                task_context.write_json(RECORD_FILE, &json!({ "name": name, "file": file }))?;
                task_context.write(IMAGE, format!("./{file}\n"))?;
                Ok(Done { headline: Some(file.to_owned()), source: moving_source(name, None), ..Done::default() })
            }
            _ => Err(Failure::refused(format!("{program} cannot build an image"))
                .hint("build it with docker or podman; `pull` makes a file of what is in a registry")),
        }
    }
}

/// The file that the engine's images are, where it has no store of its own.
const fn image_file(engine: ContainerEngine) -> Option<&'static str> {
    match engine {
        ContainerEngine::Enroot => Some("image.sqsh"),
        ContainerEngine::Apptainer => Some("image.sif"),
        ContainerEngine::Docker | ContainerEngine::Podman => None,
    }
}

/// A tag in a registry. `id`: what it meant.
fn moving_source(name: &str, id: Option<String>) -> Option<Box<MovingSource>> {
    let version = id.unwrap_or_else(|| "what it was then".to_owned());
    let moves = !name.contains("@sha256:");
    moves
        .then(|| Box::new(MovingSource { name: format!("the tag `pull: {name}`"), version, ..MovingSource::default() }))
}

/// Why a finished stage is of no use any more: its image has been removed from the engine's store. Without `may_query`
/// a program of the manifest's own is not started for that.
pub fn missing_image(image: &Image, folder: &Path, may_query: bool) -> Option<String> {
    let id = read_text(folder.join(IMAGE)).ok()?;
    let id = id.trim();
    let (engine, program) = program(image);
    if !may_query && program != engine.as_str() {
        return None;
    }
    // The task that needs the image reports an unresponsive daemon.
    let absent = id.starts_with("sha256:")
        && inspect_image(&program, id).is_err_and(|failure| failure.kind == FailureKind::Refused);
    absent.then(|| format!("its image {} has been removed from this machine", short(id)))
}

fn program(image: &Image) -> (ContainerEngine, String) {
    let engine = engine(image.engine, "");
    (engine, image.program.clone().unwrap_or_else(|| engine.as_str().to_owned()))
}

/// The container engine that builds an image, and its program.
pub fn image_program(image: &Image) -> (String, String) {
    let (engine, program) = program(image);
    (engine.as_str().to_owned(), program)
}

fn build_words(
    task_context: &TaskContext,
    image: &Image,
    build: &ImageBuild,
    program: &str,
    ids: &Path,
) -> Vec<OsString> {
    let path = |written: &str| {
        if written.contains("://") { written.into() } else { task_context.path(written).into_os_string() }
    };
    let with = |option: &str, value: OsString| {
        let mut word = OsString::from(option);
        word.push(value);
        word
    };
    let mut argv: Vec<OsString> = vec![program.into(), "build".into(), with("--iidfile=", ids.into())];
    argv.extend(build.dockerfile.iter().map(|file| with("--file=", path(file))));
    argv.extend(build.target.iter().map(|target| with("--target=", target.into())));
    argv.extend(image.platform.iter().map(|platform| with("--platform=", platform.into())));
    argv.extend(build.args.iter().map(|(name, value)| format!("--build-arg={name}={value}").into()));
    let secrets = task_context.lease.task.secrets.iter().filter(|name| std::env::var_os(name).is_some());
    argv.extend(secrets.map(|name| format!("--secret=id={name},env={name}").into()));
    argv.extend(build.tag.iter().map(|tag| with("--tag=", tag.into())));
    argv.extend(image.args.iter().map(OsString::from));
    argv.push(path(&build.context));
    argv
}

fn file_words(engine: ContainerEngine, program: &str, image: &Image, name: &str, file: &Path) -> Vec<String> {
    let file = file.display().to_string();
    let mut argv = vec![program.to_owned()];
    if engine == ContainerEngine::Enroot {
        argv.extend(["import".to_owned(), format!("--output={file}")]);
    } else {
        argv.push("pull".to_owned());
    }
    argv.extend(image.platform.iter().map(|platform| match platform.rsplit('/').next() {
        // `aarch64`, not `linux/arm64`.
        Some("arm64") if engine == ContainerEngine::Enroot => "--arch=aarch64".to_owned(),
        arch => format!("--arch={}", arch.unwrap_or(platform)),
    }));
    argv.extend(image.args.iter().cloned());
    if engine == ContainerEngine::Apptainer {
        argv.push(file);
    }
    argv.push(address(engine, name));
    argv
}

/// `registry.example/nvidia/x:1` → `docker://registry.example#nvidia/x:1` for enroot,
/// `docker://registry.example/nvidia/x:1` for apptainer.
fn address(engine: ContainerEngine, name: &str) -> String {
    if name.contains("://") {
        return name.to_owned();
    }
    match name.split_once('/') {
        Some((registry, rest)) if engine == ContainerEngine::Enroot && registry.contains(['.', ':']) => {
            format!("docker://{registry}#{rest}")
        }
        _ => format!("docker://{name}"),
    }
}

fn write_image_record(
    task_context: &TaskContext,
    program: &str,
    image: &str,
    name: Option<&str>,
) -> Result<Done, Failure> {
    let FoundImage { id, digests } = inspect_image(program, image)?;
    task_context.write_json(RECORD_FILE, &json!({ "name": name, "id": id, "digests": digests }))?;
    task_context.write(IMAGE, format!("{id}\n"))?;
    Ok(Done { headline: Some(short(&id).to_owned()), ..Done::default() })
}

/// `sha256:0123456789ab`
fn short(id: &str) -> &str {
    id.get(..19).unwrap_or(id)
}

/// How long git may take to print a commit.
const LIMIT: Duration = Duration::from_secs(20);

/// Read from the files that each kind of stage leaves; what cannot be read is left out. Blocks: with cherry-picks, git
/// is run.
///
/// - git: `commit`, what `rev` meant; with cherry-picks also `head`, that with them
/// - image: `id`, `digests` (one for each registry)
/// - weights: `repository`, `commit`, `bytes`, `files` (name → digest)
/// - engine: `tensorrt_llm`, the version that built it
/// - LoadGen: `version`, `revision`, `sdist_sha256`, `compiler`
pub fn resolved(task: &Task, folder: &Path) -> BTreeMap<String, Value> {
    match task.action() {
        Some(Action::Git(clone)) => revision(clone, folder),
        Some(Action::Image(_)) => fields(&folder.join(RECORD_FILE), &["id", "digests"]),
        Some(Action::Weights(_)) => checkpoint(folder),
        Some(Action::Engine(_)) => {
            let version = json(&folder.join("config.json")).and_then(|config| config.get("version").cloned());
            version.into_iter().map(|version| ("tensorrt_llm".to_owned(), version)).collect()
        }
        Some(Action::Mlperf(Mlperf::Loadgen(_))) => {
            fields(&folder.join(mlperf::LOADGEN_RECORD_FILE), &["version", "revision", "sdist_sha256", "compiler"])
        }
        _ => BTreeMap::new(),
    }
}

fn revision(clone: &Git, folder: &Path) -> BTreeMap<String, Value> {
    let Ok(head) = read_text(folder.join(git::REVISION)) else { return BTreeMap::new() };
    let head = head.trim().to_owned();
    let picks = clone.cherry_picks.len();
    if picks == 0 {
        return BTreeMap::from([("commit".to_owned(), head.into())]);
    }
    // Each pick is one commit on top, also when it changes nothing.
    let base = format!("HEAD~{picks}^{{commit}}");
    let text = query_repository(folder, &["rev-parse", "--verify", "--quiet", &base], LIMIT);
    let commit = text.map(|out| ("commit".to_owned(), Value::from(out.trim())));
    std::iter::once(("head".to_owned(), Value::from(head))).chain(commit).collect()
}

fn checkpoint(folder: &Path) -> BTreeMap<String, Value> {
    let list = folder.join(weights::LIST);
    let mut identity = fields(&list, &["repository", "commit", "bytes"]);
    let files = json(&list).and_then(|list| list.get("files")?.as_array().cloned()).unwrap_or_default();
    let sum = |file: &Value| {
        let kind = ["sha256", "git_blob"].into_iter().find_map(|kind| Some((kind, file.get(kind)?.as_str()?)));
        let (kind, hex) = kind?;
        Some((file.get("path")?.as_str()?.to_owned(), Value::from(format!("{kind}:{hex}"))))
    };
    let files: Map<String, Value> = files.iter().filter_map(sum).collect();
    identity.insert("files".to_owned(), Value::Object(files));
    identity
}

fn json(path: &Path) -> Option<Value> {
    serde_json::from_slice(&read_bytes(path).ok()?).ok()
}

fn fields(path: &Path, names: &[&str]) -> BTreeMap<String, Value> {
    let Some(all) = json(path) else { return BTreeMap::new() };
    let field =
        |name: &&str| all.get(*name).filter(|value| !value.is_null()).map(|value| ((*name).to_owned(), value.clone()));
    names.iter().filter_map(field).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;
    use base::event::TaskId;
    use plan::TaskPart;

    #[test]
    fn a_registry_is_set_apart_as_each_program_wants_it() {
        let name = "registry.example/nvidia/tritonserver:24.12";
        assert_eq!(address(ContainerEngine::Enroot, name), "docker://registry.example#nvidia/tritonserver:24.12");
        assert_eq!(address(ContainerEngine::Apptainer, name), "docker://registry.example/nvidia/tritonserver:24.12");
        assert_eq!(address(ContainerEngine::Enroot, "ubuntu:22.04"), "docker://ubuntu:22.04");
        assert_eq!(address(ContainerEngine::Enroot, "dockerd://mine:1"), "dockerd://mine:1");
    }

    #[test]
    fn an_image_in_a_file_is_called_image() {
        let engines = [ContainerEngine::Enroot, ContainerEngine::Apptainer, ContainerEngine::Docker];
        assert_eq!(engines.map(image_file), [Some("image.sqsh"), Some("image.sif"), None]);
    }

    #[test]
    fn a_file_is_fetched_in_each_programs_words() {
        let image: Image = serde_json::from_value(json!({ "pull": "r.io/x:1", "platform": "linux/arm64" })).unwrap();
        let line = |engine, program| file_words(engine, program, &image, "r.io/x:1", Path::new("/o/f")).join(" ");
        assert_eq!(
            line(ContainerEngine::Enroot, "enroot"),
            "enroot import --output=/o/f --arch=aarch64 docker://r.io#x:1"
        );
        assert_eq!(line(ContainerEngine::Apptainer, "apptainer"), "apptainer pull --arch=arm64 /o/f docker://r.io/x:1");
    }

    fn identity_of(action: &Value, files: &[(&str, &str)]) -> Value {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let action = TaskPart::from_json(&action.to_string()).unwrap();
        let task = Task::new(TaskId::new("t"), "t".to_owned(), action);
        json!(resolved(&task, folder.path()))
    }

    #[test]
    fn outputs_say_what_they_are() {
        let git = json!({"git": {"url": "u", "rev": "main"}});
        assert_eq!(identity_of(&git, &[(git::REVISION, "abc\n")]), json!({"commit": "abc"}));
        let image = json!({"image": {"pull": "x:1"}});
        let text = r#"{"name": "x:1", "id": "sha256:1", "digests": ["x@sha256:2"]}"#;
        let expected = json!({"id": "sha256:1", "digests": ["x@sha256:2"]});
        assert_eq!(identity_of(&image, &[("image.json", text)]), expected);
        let weights = json!({"weights": {"hf": "a/b"}});
        let list = r#"{"repository": "a/b", "commit": "c", "bytes": 3, "files": [
            {"path": "m", "size": 2, "sha256": "5"}, {"path": "n", "size": 1, "git_blob": "6"}]}"#;
        assert_eq!(
            identity_of(&weights, &[("weights.json", list)]),
            json!({"repository": "a/b", "commit": "c", "bytes": 3, "files": {"m": "sha256:5", "n": "git_blob:6"}})
        );
        assert_eq!(identity_of(&git, &[]), json!({}));
        assert_eq!(identity_of(&json!({"shell": "x"}), &[]), json!({}));
    }
}
