//! Ends the program when an expression of a manifest takes too much memory or time. Nothing has been started by then.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::output::print_error;
use crate::cli::CliExit;
use crate::diag::{Diagnostic, Diagnostics, Span};
use crate::manifest::expression_in_progress;
use crate::units::size;

/// The most memory that this process may gain while one expression is computed, bytes.
const MOST_MEMORY: u64 = 1_000_000_000;
/// The longest that one expression may take.
const MOST_TIME: Duration = Duration::from_mins(1);
/// Memory can grow by some 50 MB meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Does work that computes expressions of manifests, and watches it.
pub(super) fn guarded<T>(work: impl FnOnce() -> T) -> T {
    // The watcher ends when this is dropped.
    let _working = watch();
    work()
}

/// Without a thread to spare, nothing is watched.
fn watch() -> Option<Sender<()>> {
    let (working, is_over) = channel();
    let watcher = std::thread::Builder::new().name("expressions".to_owned()).spawn(move || {
        // When the expression began that was seen last, and the memory at that time.
        let mut seen: Option<(Instant, u64)> = None;
        while is_over.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
            let (Some((span, begun)), Some(memory)) = (expression_in_progress(), resident()) else { continue };
            let before = match seen {
                Some((known, before)) if known == begun => before,
                _ => memory,
            };
            seen = Some((begun, before));
            if let Some(limit) = exceeded(memory.saturating_sub(before), begun.elapsed()) {
                refuse(&span, &limit);
            }
        }
    });
    watcher.is_ok().then_some(working)
}

fn exceeded(memory: u64, time: Duration) -> Option<String> {
    if memory > MOST_MEMORY {
        Some(format!("more than {} of memory", size(MOST_MEMORY)))
    } else if time > MOST_TIME {
        Some(format!("more than {} s", MOST_TIME.as_secs()))
    } else {
        None
    }
}

fn refuse(span: &Span, limit: &str) {
    let fault = Diagnostic::error(format!("this expression takes {limit}")).at(span.first_line(), "");
    print_error(&Diagnostics::from(fault.hint("compute less in a manifest")).render(false));
    #[expect(clippy::exit, reason = "what computes it cannot be interrupted")]
    std::process::exit(CliExit::Usage.code().into());
}

/// The memory that this process has, bytes.
fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_time_have_their_limits() {
        assert_eq!(exceeded(MOST_MEMORY, MOST_TIME), None);
        assert_eq!(exceeded(MOST_MEMORY + 1, Duration::ZERO).unwrap(), "more than 1.0 GB of memory");
        assert_eq!(exceeded(0, Duration::from_secs(61)).unwrap(), "more than 60 s");
    }
}
