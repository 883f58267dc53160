//! Threads for work that all cores share.

use std::sync::OnceLock;
use std::{iter, thread};

use rayon::{ThreadPool, ThreadPoolBuilder};

/// A thread for each core, started once; fewer where the system gives no more of them (`ulimit -u`). `None` where it gives none: then
/// the caller does the work. Rayon's own pool, which starts when it is first used, would panic instead.
pub fn cores() -> Option<&'static ThreadPool> {
    static CORES: OnceLock<Option<ThreadPool>> = OnceLock::new();
    let start = || {
        let all = thread::available_parallelism().map_or(1, usize::from);
        let mut fewer = iter::successors(Some(all), |count| Some(count / 2).filter(|half| *half > 0));
        let build =
            |count| ThreadPoolBuilder::new().num_threads(count).thread_name(|_| "cores".to_owned()).build().ok();
        fewer.find_map(build)
    };
    CORES.get_or_init(start).as_ref()
}
