//! Processes that lost their parent and came to us.
//!
//! A process that leaves its group (`setsid`, a double fork) cannot be found by its group. So the runner becomes a
//! child subreaper: whatever loses its parent below us becomes our child, and is found by the mark that every
//! command gets in its environment.

use std::collections::HashSet;
use std::io;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, waitpid};

use super::command::Leftover;
use super::{process_group, procfs};

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
        if procfs::stat(*pid).is_some_and(|stat| !stat.zombie) {
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
    process_group::end(adopted, grace).await
}
