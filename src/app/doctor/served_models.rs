//! Models that a server loads by itself: whether they are here, how much of a GPU they take, and which version the server has.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::machine_facts::package_version;
use super::needs::{ModelNeed, Needs};
use report::{DoctorFinding, FindingLevel};

/// Lines on each model, and their weights among those that a GPU must hold.
pub fn examine(needs: &mut Needs, project: &Path) -> Vec<DoctorFinding> {
    let mut all = Vec::new();
    for served in needs.served.clone() {
        let by = [served.task.clone()];
        let folder = folder(&served.model, project);
        if let Some(bytes) = folder.as_deref().map(weights).filter(|bytes| *bytes > 0 && !served.is_dummy) {
            needs.gpu_weights.push((served.task.clone(), bytes / u64::from(served.gpus.max(1))));
        }
        all.push(model(&served, folder.as_deref()));
        if let Some((program, package)) = &served.program {
            let found = package_version(program, package, project);
            let level = if found.is_some() { FindingLevel::Good } else { FindingLevel::Doubtful };
            let found = found.unwrap_or_else(|| "version not known".to_owned());
            let fix = format!("pip install {package}, into the Python that `{}` runs", program.join(" "));
            all.push(DoctorFinding::fact(*package, found).needed("the server", &by, level).fix(fix));
        }
        if let Some((first, servers)) = served.ports {
            let taken = (0..servers).filter_map(|index| first.checked_add(u16::try_from(index).ok()?));
            let taken = taken.filter(|port| std::net::TcpListener::bind(("0.0.0.0", *port)).is_err());
            all.extend(taken.map(|port| {
                DoctorFinding::fact(format!("port {port}"), "taken")
                    .needed("free", &by, FindingLevel::Missing)
                    .fix("`ss -ltnp` names the program; end it, or leave `port` out to get a free one")
            }));
        }
    }
    all
}

fn model(served: &ModelNeed, folder: Option<&Path>) -> DoctorFinding {
    let by = [served.task.clone()];
    let needed = if served.is_dummy { "its config.json" } else { "config.json and weights" };
    let found = |text: String, level| DoctorFinding::fact(served.model.clone(), text).needed(needed, &by, level);
    match folder {
        Some(folder) if !folder.join("config.json").is_file() => {
            found(format!("no config.json in {}", folder.display()), FindingLevel::Missing)
                .fix("name a folder in Hugging Face's layout")
        }
        Some(folder) if weights(folder) == 0 && !served.is_dummy => {
            found(format!("no weights in {}", folder.display()), FindingLevel::Missing)
                .fix("fetch them, or `load_format: dummy` makes random ones")
        }
        Some(folder) => found(format!("in {}", folder.display()), FindingLevel::Good),
        None if is_path(&served.model) => {
            found("not there".to_owned(), FindingLevel::Missing).fix("name the right folder, or fetch it first")
        }
        None => found("not in the cache: the server fetches it".to_owned(), FindingLevel::Doubtful)
            .fix(format!("hf download {}, where there is no network when it starts", served.model)),
    }
}

fn is_path(model: &str) -> bool {
    model.starts_with(['/', '.'])
}

/// Its folder here: as it is named, or in the cache of Hugging Face.
fn folder(model: &str, project: &Path) -> Option<PathBuf> {
    let named = project.join(model);
    if named.is_dir() {
        return Some(named);
    }
    if is_path(model) {
        return None;
    }
    let variable = |name: &str| env::var_os(name).map(PathBuf::from);
    let home = || Some(variable("HOME")?.join(".cache/huggingface"));
    let hub = variable("HF_HUB_CACHE").or_else(|| Some(variable("HF_HOME").or_else(home)?.join("hub")))?;
    let snapshots = hub.join(format!("models--{}", model.replace('/', "--"))).join("snapshots");
    let mut found: Vec<PathBuf> = fs::read_dir(snapshots).ok()?.flatten().map(|entry| entry.path()).collect();
    found.sort();
    found.pop()
}

/// Bytes of the weights in a folder.
fn weights(folder: &Path) -> u64 {
    let size = |suffix: &str| {
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        let files = files.filter(|entry| entry.file_name().to_string_lossy().ends_with(suffix));
        // In the cache they are links.
        files.filter_map(|entry| fs::metadata(entry.path()).ok()).map(|file| file.len()).sum::<u64>()
    };
    match size(".safetensors") {
        0 => size(".bin"),
        bytes => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(model: &str) -> ModelNeed {
        ModelNeed {
            task: "server".to_owned(),
            model: model.to_owned(),
            gpus: 2,
            is_dummy: false,
            ports: None,
            program: None,
        }
    }

    fn found(served: ModelNeed, project: &Path) -> (FindingLevel, String, Vec<(String, u64)>) {
        let mut needs = Needs { served: vec![served], ..Needs::default() };
        let all = examine(&mut needs, project);
        (all[0].level, all[0].found.clone(), needs.gpu_weights)
    }

    #[test]
    fn a_folder_has_a_config_and_weights_that_its_gpus_share() {
        let project = tempfile::tempdir().unwrap();
        let folder = project.path().join("llama");
        assert_eq!(found(served("./llama"), project.path()).0, FindingLevel::Missing);
        fs::create_dir(&folder).unwrap();
        assert!(found(served("llama"), project.path()).1.starts_with("no config.json in "));
        fs::write(folder.join("config.json"), "{}").unwrap();
        assert!(found(served("llama"), project.path()).1.starts_with("no weights in "));
        let dummy = ModelNeed { is_dummy: true, ..served("llama") };
        assert_eq!(found(dummy, project.path()).0, FindingLevel::Good);
        fs::write(folder.join("model-1.safetensors"), [0; 100]).unwrap();
        let (level, _, weights) = found(served("llama"), project.path());
        assert_eq!((level, weights), (FindingLevel::Good, vec![("server".to_owned(), 50)]));
        assert_eq!(found(served("no-such-org/llama"), project.path()).0, FindingLevel::Doubtful);
    }
}
