//! Ends the program when a manifest, one of its expressions, or a template of a stage takes too much memory or time.
//! Nothing has been started by then for a manifest; what a run has started, its watchdog ends.

use std::sync::Once;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::console::print_error;
use crate::cli::CliExit;
use base::diag::{Diagnostic, Diagnostics, Span};
use base::files::read_text;
use base::units::size;
use plan::Plan;
use plan::manifest::{GivenValues, Manifest, ManifestLibrary, expression_in_progress, wait_for_expression};

/// The most memory that this process may gain while one expression is computed, bytes.
const MOST_MEMORY: u64 = 1_000_000_000;
/// The longest that one expression may take.
const MOST_TIME: Duration = Duration::from_mins(1);
/// The most memory that it may gain while a manifest is read, or its plan made, bytes: a plan of 100,000 stages, the
/// largest that there may be, takes 350 MB.
const MOST_MEMORY_IN_ALL: u64 = 3_000_000_000;
/// The longest that a manifest may take to be read, or its plan to be made: that of 100,000 stages takes two seconds.
const MOST_TIME_IN_ALL: Duration = Duration::from_mins(10);
/// The most memory that this process may gain while a template of a stage is rendered, bytes. Its text has at most 256
/// MiB; other tasks may need some meanwhile.
const MOST_MEMORY_OF_TEMPLATE: u64 = 2_000_000_000;
/// The longest that one template may take: its steps take seconds, also on a busy machine.
const MOST_TIME_OF_TEMPLATE: Duration = Duration::from_mins(5);
/// Memory can grow by some 50 MB meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// [`plan::manifest::load`], watched: its errors are without those of the stages' expressions.
pub(super) fn load_unexpanded(
    library: &ManifestLibrary,
    what: &str,
    given: &GivenValues,
) -> Result<Manifest, Diagnostics> {
    guarded(|| plan::manifest::load(library, what, given))
}

/// [`plan::load`], watched.
pub(super) fn load(library: &ManifestLibrary, what: &str, given: &GivenValues) -> Result<Manifest, Diagnostics> {
    guarded(|| plan::load(library, what, given))
}

/// [`plan::expand`], watched.
pub(super) fn expand(manifest: &Manifest) -> Result<Plan, Diagnostics> {
    guarded(|| plan::expand(manifest))
}

/// The plan of the text of a manifest, watched.
pub(super) fn plan_text(
    library: &ManifestLibrary,
    name: &str,
    text: &str,
    given: &GivenValues,
) -> Result<Plan, Diagnostics> {
    guarded(|| plan::expand(&plan::manifest::load_text(library, name, text, given)?))
}

fn guarded<T>(work: impl FnOnce() -> T) -> T {
    // The watcher ends when this is dropped.
    let _working = watch();
    work()
}

/// Watches the templates that stages render, from now on. Without a thread to spare, nothing is watched.
pub(super) fn watch_templates() {
    static WATCHER: Once = Once::new();
    WATCHER.call_once(|| drop(std::thread::Builder::new().name("templates".to_owned()).spawn(watch_each_template)));
}

fn watch_each_template() {
    let mut seen = SeenExpression::default();
    loop {
        wait_for_expression();
        if let Some(memory) = resident()
            && let Some((span, limit)) = seen.exceeded(memory, (MOST_MEMORY_OF_TEMPLATE, MOST_TIME_OF_TEMPLATE))
        {
            let fault = Diagnostic::error(format!("this template takes {limit}")).at(span.first_line(), "");
            end(fault.hint("compute less in a template"), CliExit::Failed);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The expression that was seen last: when it began, and the memory at that time.
#[derive(Default)]
struct SeenExpression(Option<(Instant, u64)>);

impl SeenExpression {
    /// Looks at the expression in progress. What it exceeds, and where it is.
    fn exceeded(&mut self, memory: u64, (most_memory, most_time): (u64, Duration)) -> Option<(Span, String)> {
        let (span, begun) = expression_in_progress()?;
        let before = match self.0 {
            Some((known, before)) if known == begun => before,
            _ => memory,
        };
        self.0 = Some((begun, before));
        let limit = exceeded((memory.saturating_sub(before), most_memory), (begun.elapsed(), most_time))?;
        Some((span, limit))
    }
}

/// Without a thread to spare, nothing is watched.
fn watch() -> Option<Sender<()>> {
    let (working, is_over) = channel();
    let watcher = std::thread::Builder::new().name("expressions".to_owned()).spawn(move || {
        let (started, at_start) = (Instant::now(), resident());
        let mut seen = SeenExpression::default();
        while is_over.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
            let Some(memory) = resident() else { continue };
            let grown = memory.saturating_sub(at_start.unwrap_or(memory));
            if let Some(limit) = exceeded((grown, MOST_MEMORY_IN_ALL), (started.elapsed(), MOST_TIME_IN_ALL)) {
                refuse(Diagnostic::error(format!("this manifest takes {limit}")));
            }
            if let Some((span, limit)) = seen.exceeded(memory, (MOST_MEMORY, MOST_TIME)) {
                refuse(Diagnostic::error(format!("this expression takes {limit}")).at(span.first_line(), ""));
            }
        }
    });
    watcher.is_ok().then_some(working)
}

/// Each with its limit.
fn exceeded((memory, most_memory): (u64, u64), (time, most_time): (Duration, Duration)) -> Option<String> {
    if memory > most_memory {
        Some(format!("more than {} of memory", size(most_memory)))
    } else if time > most_time {
        Some(format!("more than {} s", most_time.as_secs()))
    } else {
        None
    }
}

fn refuse(fault: Diagnostic) {
    end(fault.hint("compute less in a manifest"), CliExit::Usage);
}

fn end(fault: Diagnostic, exit: CliExit) {
    print_error(&Diagnostics::from(fault).render(false));
    #[expect(clippy::exit, reason = "what computes it cannot be interrupted")]
    std::process::exit(exit.code().into());
}

/// The memory that this process has, bytes.
fn resident() -> Option<u64> {
    let text = read_text("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_time_have_their_limits() {
        let excess = |memory, time| exceeded((memory, MOST_MEMORY), (time, MOST_TIME));
        assert_eq!(excess(MOST_MEMORY, MOST_TIME), None);
        assert_eq!(excess(MOST_MEMORY + 1, Duration::ZERO).unwrap(), "more than 1.0 GB of memory");
        assert_eq!(excess(0, Duration::from_secs(61)).unwrap(), "more than 60 s");
    }
}
