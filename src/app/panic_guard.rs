//! A panic of Regatta's own code becomes a message and an exit code of its own, after everything was cleaned up.

use std::panic::{self, AssertUnwindSafe, PanicHookInfo};

use super::console::print_error;
use crate::cli::CliExit;
use base::diag::{is_panic_caught, panic_text};

/// Does the work of a command. If it panics, what it holds is dropped (servers are stopped, locks are given back), and the
/// message names the place in the source.
pub(super) fn guard(work: impl FnOnce() -> CliExit) -> CliExit {
    let default_hook = panic::take_hook();
    panic::set_hook(Box::new(move |fault| {
        if is_panic_caught() {
            return;
        }
        if std::env::var_os("RUST_BACKTRACE").is_some_and(|wanted| wanted != "0") {
            default_hook(fault);
        }
        print_error(&message(fault));
    }));
    let exit = panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or(CliExit::OwnFault);
    drop(panic::take_hook());
    exit
}

fn message(fault: &PanicHookInfo<'_>) -> String {
    let at = fault.location().map(|at| format!(" ({}:{})", at.file(), at.line())).unwrap_or_default();
    format!(
        "error: a fault in Regatta itself: {}{at}\n  version {}; RUST_BACKTRACE=1 shows where it happened. Please report it with the \
         manifest or the command\n",
        panic_text(fault.payload()),
        env!("CARGO_PKG_VERSION"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::diag::catch_panic;

    #[test]
    fn a_panic_has_a_code_of_its_own() {
        assert_eq!(guard(|| panic!("index out of bounds")), CliExit::OwnFault);
        assert_eq!(guard(|| CliExit::InvalidLoad), CliExit::InvalidLoad);
    }

    #[test]
    fn a_panic_of_a_library_that_is_an_error_is_no_fault() {
        assert_eq!(guard(|| catch_panic(|| panic!("of a library")).unwrap_or(CliExit::Usage)), CliExit::Usage);
    }
}
