//! Whether the system gives a run its threads.

use std::sync::Arc;
use std::thread;

use crate::error::CommandError;
use base::diag::ErrorText;

/// Whether this many threads can be had at once. Those that are started later cannot report it.
pub(super) fn check_threads(count: usize) -> Result<(), CommandError> {
    let (send, receive) = std::sync::mpsc::channel::<()>();
    let receive = Arc::new(parking_lot::Mutex::new(receive));
    let mut started = Vec::new();
    let all = (0..count).try_for_each(|_| {
        let receive = Arc::clone(&receive);
        // Ends when all are there.
        let wait = move || {
            let _ = receive.lock().recv();
        };
        let thread = thread::Builder::new().stack_size(64 * 1024).spawn(wait)?;
        started.push(thread);
        Ok::<(), std::io::Error>(())
    });
    drop(send);
    for thread in started {
        let _ = thread.join();
    }
    all.map_err(|error| {
        let what = format!("a run needs {count} threads, and the system gives no more of them: {error}");
        anyhow::Error::new(
            ErrorText::new(what).hint("`ulimit -u` shows how many processes and threads this user may have"),
        )
        .into()
    })
}
