//! A file that may not grow (`ulimit -f`) is an error of the write, and not the end of the process.

use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

/// Gives SIGXFSZ a handler, before any command writes a file. It is not ignored: what a process ignores, the commands that it starts ignore,
/// too, while they begin without its handlers.
pub(super) fn make_it_an_error() {
    let handle = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let _inside = runtime.enter();
        // The handler stays when this is dropped.
        signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).map(drop)
    };
    // Without it a command does its work just as well, as long as no file reaches the limit.
    let _: std::io::Result<()> = handle();
}
