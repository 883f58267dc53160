//! What the kernel gives: memory, disk, shared memory, limits of a process.

use base::units;
use std::path::Path;

use rustix::process::{Resource, getrlimit};

use super::needs::Needs;
use base::files::{cores, metadata_if_there, read_text};
use report::{DoctorFinding, FindingLevel};

/// Python models of Triton take a megabyte each, NCCL some tens of megabytes for each rank.
const SHARED: u64 = 1_000_000_000;
/// Connections, files and pipes of a load generator at full speed.
const FILES: u64 = 4096;

/// Lines on memory, disk and limits. `folder` is where outputs go, or the nearest folder above it that is there.
pub fn examine(needs: &Needs, folder: &Path) -> Vec<DoctorFinding> {
    let mut all = vec![DoctorFinding::fact("memory", memory())];
    all.push(disk(needs, folder));
    all.push(shared(needs));
    all.push(pinned(needs));
    all.push(files(needs));
    all
}

fn memory() -> String {
    let cores = cores();
    let total = read_text("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    });
    let total = total.map_or_else(|| "?".to_owned(), |kib| units::size(kib * 1024));
    format!("{total}, {cores} cores")
}

fn disk(needs: &Needs, folder: &Path) -> DoctorFinding {
    // The folder above one that cannot be looked at may be on another disk.
    let there = folder.ancestors().find(|folder| !matches!(metadata_if_there(folder), Ok(None))).unwrap_or(folder);
    let free = free(there);
    let found = free.map_or_else(|| "cannot be read".to_owned(), |free| format!("{} free", units::size(free)));
    let finding = DoctorFinding::fact("disk", found);
    if needs.disk.is_empty() {
        return finding;
    }
    let wanted: u64 = needs.disk.iter().map(|(_, bytes)| bytes).sum();
    let by: Vec<String> = needs.disk.iter().map(|(how, _)| how.clone()).collect();
    let what = match needs.weights.len() {
        0 => "engines",
        n if n == needs.disk.len() => "weights",
        _ => "engines and weights",
    };
    let level = FindingLevel::of(free.is_none_or(|free| free >= wanted));
    finding
        .needed(format!("{} for {what}, at most", units::size(wanted)), &by, level)
        .fix("regatta gc --yes; or `--home DIR` on a larger disk")
}

fn shared(needs: &Needs) -> DoctorFinding {
    let path = Path::new("/dev/shm");
    let free = free(path).unwrap_or(0);
    let finding = DoctorFinding::fact("/dev/shm", format!("{} free", units::size(free)));
    if needs.shared_memory.is_empty() {
        return finding;
    }
    let level = if free >= SHARED { FindingLevel::Good } else { FindingLevel::Doubtful };
    finding
        .needed(format!("{} for Python models and NCCL", units::size(SHARED)), &needs.shared_memory, level)
        .fix("sudo mount -o remount,size=2G /dev/shm; in a container `--shm-size=2g`")
}

fn pinned(needs: &Needs) -> DoctorFinding {
    let limit = getrlimit(Resource::Memlock).current;
    let finding = DoctorFinding::fact("ulimit -l", limit.map_or_else(|| "unlimited".to_owned(), units::size));
    if needs.pinned.is_empty() {
        return finding;
    }
    let level = if limit.is_none() { FindingLevel::Good } else { FindingLevel::Doubtful };
    finding
        .needed("unlimited, for several GPUs", &needs.pinned, level)
        .fix("`ulimit -l unlimited`, or for good `* - memlock unlimited` in /etc/security/limits.conf")
}

fn files(needs: &Needs) -> DoctorFinding {
    let limit = getrlimit(Resource::Nofile).current;
    let finding =
        DoctorFinding::fact("ulimit -n", limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string()));
    if needs.benchmarks.is_empty() {
        return finding;
    }
    let level = if limit.is_none_or(|limit| limit >= FILES) { FindingLevel::Good } else { FindingLevel::Doubtful };
    finding.needed(format!("{FILES}, for many connections"), &needs.benchmarks, level).fix("ulimit -n 65536")
}

/// Bytes that this process may still write.
fn free(folder: &Path) -> Option<u64> {
    rustix::fs::statvfs(folder).ok().map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize))
}
