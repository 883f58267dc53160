//! What outlives the processes that made it, and is removed by its name: containers, shared memory, locked clocks of GPUs.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::probe::succeeds;
use crate::event::{ExternalResource, GpuId};

const SHARED_MEMORY: &str = "/dev/shm";
/// How long a container program may take for one order.
const PATIENCE: Duration = Duration::from_secs(20);

/// The orders that make sure that it is gone: program and arguments. Their failure means that there was nothing to do.
pub fn orders(resource: &ExternalResource) -> Vec<Vec<String>> {
    match resource {
        // `rm -f` alone would request a graceful stop first and wait.
        ExternalResource::Container { program, name } => {
            [&["kill", name][..], &["rm", "-f", name]].map(|words| order(program, words)).to_vec()
        }
        ExternalResource::SharedMemory { .. } => Vec::new(),
        ExternalResource::GpuClocks { gpus, sudo } => {
            let gpus = GpuId::list(gpus);
            let unlock = ["nvidia-smi", "-rgc", "-i", &gpus];
            vec![if *sudo { order("sudo", &[&["-n"][..], &unlock].concat()) } else { order(unlock[0], &unlock[1..]) }]
        }
    }
}

fn order(program: &str, words: &[&str]) -> Vec<String> {
    std::iter::once(program).chain(words.iter().copied()).map(str::to_owned).collect()
}

/// Removes it, and returns whether there was anything. For callers without a runtime: the watchdog, and the next run.
pub fn remove(resource: &ExternalResource) -> bool {
    match resource {
        // Each of them, whatever became of the one before.
        ExternalResource::Container { .. } | ExternalResource::GpuClocks { .. } => {
            orders(resource).iter().map(|order| succeeds(order, PATIENCE)).max() == Some(true)
        }
        ExternalResource::SharedMemory { mark } => !remove_shared_memory(mark).is_empty(),
    }
}

/// Removes the regions that have this mark in their names; their names. The mark holds the run's name, so they belong to
/// no other run.
pub fn remove_shared_memory(mark: &str) -> Vec<String> {
    remove_below(Path::new(SHARED_MEMORY), mark)
}

fn remove_below(folder: &Path, mark: &str) -> Vec<String> {
    /// A mark that is shorter cannot hold the name of a run.
    const SHORTEST: usize = 16;
    if mark.len() < SHORTEST {
        return Vec::new();
    }
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.contains(mark) && fs::remove_file(folder.join(name)).is_ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regions_with_our_mark_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["prefix0_20261121-090000.000-17_a", "prefix0_b", "nccl-x"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(remove_below(folder.path(), "prefix0_"), [""; 0], "another program's files could have that prefix");
        let ours = remove_below(folder.path(), "20261121-090000.000-17");
        assert_eq!(ours, ["prefix0_20261121-090000.000-17_a"]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn clocks_are_unlocked_on_the_gpus_that_were_locked() {
        let clocks = |sudo| ExternalResource::GpuClocks { gpus: [0, 3].map(GpuId::Index).to_vec(), sudo };
        assert_eq!(orders(&clocks(false)), [["nvidia-smi", "-rgc", "-i", "0,3"]]);
        assert_eq!(orders(&clocks(true)), [["sudo", "-n", "nvidia-smi", "-rgc", "-i", "0,3"]]);
    }

    #[test]
    fn a_container_is_killed_and_then_removed() {
        let container = ExternalResource::Container { program: "podman".into(), name: "n".into() };
        assert_eq!(orders(&container), [["podman", "kill", "n"].to_vec(), ["podman", "rm", "-f", "n"].to_vec()]);
    }
}
