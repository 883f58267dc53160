//! The machine's cores, and threads for work that all of them share.

use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::OnceLock;
use std::{iter, panic, thread};

/// How many cores this process may use; 1 where the system does not report it. To ask it reads files of cgroups.
pub fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| thread::available_parallelism().map_or(1, usize::from))
}

/// A thread for each core, started once; fewer where the system gives no more of them (`ulimit -u`). `None` where it
/// gives none: then the caller does the work. Rayon's own pool, which starts when it is first used, would panic
/// instead.
pub fn shared_pool() -> Option<&'static ThreadPool> {
    static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();
    let start = || {
        let mut fewer = iter::successors(Some(cores()), |count| Some(count / 2).filter(|half| *half > 0));
        let build =
            |count| ThreadPoolBuilder::new().num_threads(count).thread_name(|_| "cores".to_owned()).build().ok();
        fewer.find_map(build)
    };
    POOL.get_or_init(start).as_ref()
}

/// Applies `work` to each part of `size` items, and returns the results in order. The first part is done by the calling
/// thread; each other one by a thread of its own with a stack of `stack` bytes, or by the caller if no thread can be
/// started.
pub fn in_parts<T: Sync, R: Send>(items: &[T], size: usize, stack: usize, work: impl Fn(&[T]) -> R + Sync) -> Vec<R> {
    let mut parts = items.chunks(size.max(1));
    let Some(first) = parts.next() else { return Vec::new() };
    thread::scope(|scope| {
        let work = &work;
        let start =
            |part| (part, thread::Builder::new().stack_size(stack).spawn_scoped(scope, move || work(part)).ok());
        let others: Vec<_> = parts.map(start).collect();
        let ended = others.into_iter().map(|(part, thread)| match thread {
            Some(thread) => thread.join().unwrap_or_else(|cause| panic::resume_unwind(cause)),
            None => work(part),
        });
        iter::once(work(first)).chain(ended).collect()
    })
}
