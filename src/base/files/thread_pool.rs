//! The machine's cores, and threads for work that all of them share.

use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::OnceLock;
use std::{iter, thread};

/// How many cores this process may use; 1 where the system does not report it.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
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
