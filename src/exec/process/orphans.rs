//! Processes that lost their parent and came to us.
//!
//! A process that leaves its group (`setsid`, a double fork) cannot be found by its group. So the runner becomes a
//! child subreaper: whatever loses its parent below us becomes our child, and is found by the mark that every
//! command gets in its environment. What empties its environment and outlives us, too, is found by a limit that it
//! inherited.

use std::collections::HashSet;
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use rustix::process::{Pid, Resource, Rlimit, WaitOptions, getpid, getrlimit, set_child_subreaper, setrlimit, waitpid};

use super::command::Leftover;
use super::query::succeeds;
use super::{process_ref, procfs};
use base::event::{ExternalResource, GpuId, RunId};
use base::files::Digest;

/// The variable that marks everything a command started: `<our pid>.<count>`.
pub const MARK: &str = "REGATTA_SPAWN";

static ADOPTING: AtomicBool = AtomicBool::new(false);
static COUNT: AtomicU64 = AtomicU64::new(1);
/// Children with a waiter in this process; nothing else may reap them.
static AWAITED: LazyLock<Mutex<HashSet<i32>>> = LazyLock::new(Mutex::default);
/// Held for reading while a child is started but not yet in [`AWAITED`].
static STARTING: RwLock<()> = RwLock::new(());

/// Makes this process the parent of everything below it that loses its own. Call it once, before the first command.
pub fn adopt_orphans() -> io::Result<()> {
    set_child_subreaper(Some(getpid()))?;
    ADOPTING.store(true, Ordering::Relaxed);
    Ok(())
}

/// The project and the run that a process descends from, each as a digest. It is the soft limit of file locks, which
/// Linux has not enforced since 2.4.25: a process inherits it whatever it does to its environment, its session and its
/// parents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InheritedMark {
    pub home: u32,
    pub run: u32,
}

impl InheritedMark {
    pub fn new(home: &str, run: &str) -> Self {
        let [home, run] = [home, run].map(|name| {
            let [a, b, c, d, ..] = *Digest::hash(name.as_bytes()).bytes();
            u32::from_le_bytes([a, b, c, d])
        });
        Self { home, run }
    }

    pub fn read(pid: i32) -> Option<Self> {
        let limit = procfs::lock_limit(pid)?;
        Some(Self { home: (limit >> 32) as u32, run: limit as u32 })
    }
}

/// Marks this process and all that it starts from now on. Where an administrator limits file locks, the marks in the
/// environment remain.
pub fn mark_descendants(home: &Path, run: &RunId) {
    let InheritedMark { home, run } = InheritedMark::new(&home.to_string_lossy(), run.as_str());
    let current = Some(u64::from(home) << 32 | u64::from(run));
    let _ = setrlimit(Resource::Locks, Rlimit { current, ..getrlimit(Resource::Locks) });
}

/// Whether this process was started by that run, whatever became of its environment.
pub fn is_inside(home: &Path, run: &str) -> bool {
    let mark = InheritedMark::read(Pid::as_raw(Some(getpid())));
    mark == Some(InheritedMark::new(&home.to_string_lossy(), run))
}

/// A mark that nothing else in this process has.
pub fn fresh_mark() -> String {
    format!("{}.{}", Pid::as_raw(Some(getpid())), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// To be held from before a child is started until it is [`awaited`].
pub fn starting() -> RwLockReadGuard<'static, ()> {
    STARTING.read()
}

pub fn awaited(pid: i32) {
    AWAITED.lock().insert(pid);
}

pub fn remove_awaited(pid: i32) {
    AWAITED.lock().remove(&pid);
}

/// Living children that this program did not start. Dead ones are reaped on the way.
pub fn adopted() -> Vec<i32> {
    if !ADOPTING.load(Ordering::Relaxed) {
        return Vec::new();
    }
    let mut dead = HashSet::new();
    loop {
        let children = procfs::children();
        let known_dead = dead.len();
        let living = live_orphans(children, &mut dead);
        // A process that died since the list was read may have left us children that are not in it.
        if dead.len() == known_dead {
            return living;
        }
    }
}

fn live_orphans(mut children: Vec<i32>, dead: &mut HashSet<i32>) -> Vec<i32> {
    if children.is_empty() {
        return children;
    }
    // While a child is being started it is not yet among the awaited ones, so nothing may be reaped then.
    let may_reap = STARTING.try_write();
    let awaited = AWAITED.lock();
    children.retain(|pid| {
        if awaited.contains(pid) {
            return false;
        }
        if procfs::is_alive(*pid) {
            return true;
        }
        dead.insert(*pid);
        if may_reap.is_some() {
            let _ = waitpid(Pid::from_raw(*pid), WaitOptions::NOHANG);
        }
        false
    });
    children
}

/// Ends every adopted process that is still there, regardless of its environment. For the end of a run, when every
/// command has been waited for.
pub async fn sweep(grace: Duration) -> Vec<Leftover> {
    process_ref::end(adopted, grace).await
}

// What outlives the processes that made it, and is removed by its name: containers, shared memory, locked clocks of
// GPUs.

const SHARED_MEMORY: &str = "/dev/shm";
/// How long the orders about one resource may take, or about several that are removed at once.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(20);

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

/// Removes all of them at once, and returns for each whether there was anything: a container program that does not
/// answer holds up the others no longer than one does. For callers without a runtime: the watchdog, and the next run.
pub fn remove_all<'a>(resources: impl IntoIterator<Item = &'a ExternalResource>) -> Vec<bool> {
    let deadline = Instant::now() + COMMAND_TIMEOUT;
    thread::scope(|scope| {
        let start = |resource| thread::Builder::new().spawn_scoped(scope, move || remove_by(resource, deadline));
        let started: Vec<_> = resources.into_iter().map(|resource| (resource, start(resource))).collect();
        let finish = |(resource, thread): (&ExternalResource, _)| match thread {
            Ok(thread) => thread::ScopedJoinHandle::join(thread).unwrap_or(false),
            // No thread can be had.
            Err(_) => remove_by(resource, deadline),
        };
        started.into_iter().map(finish).collect()
    })
}

fn remove_by(resource: &ExternalResource, deadline: Instant) -> bool {
    match resource {
        // Each of them, whatever the outcome of the one before.
        ExternalResource::Container { .. } | ExternalResource::GpuClocks { .. } => {
            let is_done = |order: &Vec<String>| {
                let left = deadline.saturating_duration_since(Instant::now());
                !left.is_zero() && succeeds(order, left)
            };
            orders(resource).iter().map(is_done).max() == Some(true)
        }
        ExternalResource::SharedMemory { mark } => !remove_shared_memory(mark).is_empty(),
    }
}

/// Removes the regions that have this mark in their names; their names. The mark holds the run's name, so they belong
/// to no other run.
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
    fn several_are_removed_at_once() {
        let folder = tempfile::tempdir().unwrap();
        // Fails unless both are there.
        let text = format!(
            "#!/bin/sh\n: >{0}/$$\nn=0\nwhile [ $n -lt 100 ]; do set -- {0}/[0-9]*; [ $# -ge 2 ] && exit 0; sleep \
                0.05; n=$((n+1)); done\nexit 1\n",
            folder.path().display()
        );
        let program = folder.path().join("program");
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let container = |program: &str, name: &str| ExternalResource::Container {
            program: program.to_owned(),
            name: name.to_owned(),
        };
        let ours = program.to_str().unwrap();
        let resources = [container(ours, "a"), container("absent-program", "b"), container(ours, "c")];
        assert_eq!(remove_all(&resources), [true, false, true]);
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
