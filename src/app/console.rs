//! The terminal: what is printed, and how the program leaves when its reader is gone, a file is too large or it panics.

use std::io::{BufWriter, ErrorKind, StdoutLock, Write};
use std::panic::{AssertUnwindSafe, PanicHookInfo};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{io, panic};

use rustix::process::Signal;
use serde::Serialize;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::bench::options::in_options;
use crate::cli::CliExit;
use base::diag::{is_panic_caught, panic_text};
use report::{LiveOptions, Styler, fit_stderr};

/// 128 + SIGPIPE.
const PIPE_CLOSED: u8 = 141;

static STDOUT: Stream = Stream::new("stdout");
static STDERR: Stream = Stream::new("stderr");

/// The state of the writes to one of the standard streams.
struct Stream {
    name: &'static str,
    /// The first write error, except for closed pipes.
    write_error: OnceLock<String>,
    is_closed: AtomicBool,
}

impl Stream {
    const fn new(name: &'static str) -> Self {
        Self { name, write_error: OnceLock::new(), is_closed: AtomicBool::new(false) }
    }

    fn note(&self, error: &io::Error) {
        if error.kind() == ErrorKind::BrokenPipe {
            self.is_closed.store(true, Ordering::Relaxed);
        } else {
            let _ = self.write_error.set(error.to_string());
        }
    }

    /// The message of a stream that lost output.
    fn write_error_text(&self) -> Option<String> {
        Some(format!("cannot write to {}: {}", self.name, self.write_error.get()?))
    }
}

/// A writer that keeps its errors for [`exit_code`].
struct Checked<W> {
    to: W,
    stream: &'static Stream,
    /// Its reader knows the options of `regatta bench`, and not the keys of a manifest.
    names_options: bool,
}

/// Where a run is to be shown.
pub(super) fn writer(look: LiveOptions) -> Box<dyn Write + Send> {
    if look.aside {
        Box::new(Checked { to: io::stderr(), stream: &STDERR, names_options: look.frameless })
    } else {
        Box::new(Checked { to: io::stdout(), stream: &STDOUT, names_options: look.frameless })
    }
}

impl<W: Write> Write for Checked<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A display writes whole lines.
        if let (true, Ok(text)) = (self.names_options, std::str::from_utf8(bytes)) {
            let written = self.to.write_all(in_options(text).as_bytes()).map(|()| bytes.len());
            return written.inspect_err(|error| self.stream.note(error));
        }
        self.to.write(bytes).inspect_err(|error| self.stream.note(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush().inspect_err(|error| self.stream.note(error))
    }
}

/// To stdout, without color codes unless it is a terminal.
pub(super) fn print(text: &str) {
    PiecePrinter::new().print(text.as_bytes());
}

/// As JSON, or as text with colors where the user wants them.
pub(super) fn print_as<J: Serialize>(
    styler: Styler,
    is_json: bool,
    json: impl FnOnce() -> J,
    text: impl FnOnce(Styler) -> String,
) {
    print(&if is_json { format!("{:#}\n", json!(json())) } else { text(styler) });
}

/// The same for a text that is printed in pieces, which may end within a character or a color code.
pub(super) struct PiecePrinter(anstream::AutoStream<io::Stdout>);

impl PiecePrinter {
    pub fn new() -> Self {
        Self(anstream::stdout())
    }

    pub fn print(&mut self, bytes: &[u8]) {
        // Errors are recorded, and decide the exit code.
        let _ = self.0.write_all(bytes).and_then(|()| self.0.flush()).inspect_err(|error| STDOUT.note(error));
    }
}

/// JSON to stdout, piece by piece as it is made: there are no color codes in it to look for.
pub(super) fn print_json(make: impl FnOnce(&mut BufWriter<StdoutLock<'_>>) -> io::Result<()>) {
    let mut out = BufWriter::with_capacity(64 << 10, io::stdout().lock());
    let _ = make(&mut out).and_then(|()| out.flush()).inspect_err(|error| STDOUT.note(error));
}

pub(super) fn print_error(text: &str) {
    let mut out = anstream::stderr();
    let text = fit_stderr(text);
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush()).inspect_err(|error| STDERR.note(error));
}

/// The reader of stdout has left.
pub(super) fn is_closed() -> bool {
    STDOUT.is_closed.load(Ordering::Relaxed)
}

/// The code to exit with, after a command ended with `exit`. `goes_on` where the command outlives its reader.
pub(super) fn exit_code(exit: CliExit, goes_on: bool) -> ExitCode {
    if let Some(loss) = STDOUT.write_error_text() {
        print_error(&format!("error: {loss}\n"));
    }
    let is_lost = STDOUT.write_error.get().is_some() || STDERR.write_error.get().is_some();
    code(exit, is_lost, is_closed() && !goes_on).into()
}

/// A code for the command's own result outweighs one for its output.
const fn code(exit: CliExit, is_lost: bool, is_closed: bool) -> u8 {
    match exit {
        CliExit::Done if is_lost => CliExit::Failed.code(),
        CliExit::Done if is_closed => PIPE_CLOSED,
        _ => exit.code(),
    }
}

/// Does the work of a command. If it panics, what it holds is dropped (servers are stopped, locks are given back), and
/// the message names the place in the source.
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
        "error: a fault in Regatta itself: {}{at}\n  version {}; RUST_BACKTRACE=1 shows where it happened. Please \
         report it with the manifest or the command\n",
        panic_text(fault.payload()),
        env!("CARGO_PKG_VERSION"),
    )
}

/// Gives SIGXFSZ a handler, before any command writes a file. It is not ignored: what a process ignores, the commands
/// that it starts ignore, too, while they begin without its handlers.
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

#[cfg(test)]
mod tests {
    use super::*;

    use base::diag::catch_panic;

    #[test]
    fn a_closed_pipe_is_no_loss_and_any_other_error_is() {
        static STREAM: Stream = Stream::new("stdout");
        struct Fails(ErrorKind);
        impl Write for Fails {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(self.0.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let _ = Checked { to: Fails(ErrorKind::BrokenPipe), stream: &STREAM, names_options: false }.write_all(b"x");
        assert_eq!((STREAM.write_error_text(), STREAM.is_closed.load(Ordering::Relaxed)), (None, true));
        let _ = Checked { to: Fails(ErrorKind::StorageFull), stream: &STREAM, names_options: false }.write_all(b"x");
        assert_eq!(STREAM.write_error_text().as_deref(), Some("cannot write to stdout: no storage space"));
    }

    #[test]
    fn what_the_command_found_outweighs_what_became_of_its_output() {
        assert_eq!(code(CliExit::Done, true, true), 1);
        assert_eq!(code(CliExit::Done, false, true), 141);
        assert_eq!(code(CliExit::Done, false, false), 0);
        assert_eq!(code(CliExit::NotMet, true, true), 4);
    }

    #[test]
    fn a_panic_has_a_code_of_its_own() {
        assert_eq!(guard(|| panic!("index out of bounds")), CliExit::OwnFault);
        assert_eq!(guard(|| CliExit::NotMet), CliExit::NotMet);
    }

    #[test]
    fn a_panic_of_a_library_that_is_an_error_is_no_fault() {
        assert_eq!(guard(|| catch_panic(|| panic!("of a library")).unwrap_or(CliExit::Usage)), CliExit::Usage);
    }
}
