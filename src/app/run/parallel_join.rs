//! Two pieces of a run's work beside each other.

use std::panic::resume_unwind;
use std::thread;

/// Does both, `aside` on a thread of its own if one can be had. Not in the pool that hashes files, where it could wait behind a large one.
pub(super) fn parallel_join<A: Send, B>(aside: impl Fn() -> A + Sync, here: impl FnOnce() -> B) -> (A, B) {
    thread::scope(|scope| {
        let started = thread::Builder::new().spawn_scoped(scope, &aside);
        let here = here();
        let aside = match started {
            Ok(started) => started.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(_) => aside(),
        };
        (aside, here)
    })
}
