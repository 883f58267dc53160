//! A real part of another system for one test, which a script of `tests/parts` keeps up.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The command of a script in `tests/parts`.
pub fn script(name: &str) -> Command {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parts").join(name))
}

/// A part that is gone when this is dropped: its script takes it away when its standard input closes, and ends.
pub struct KeptPart(Child);

impl KeptPart {
    /// Starts the script, and waits until it prints "up".
    pub fn up(script: &mut Command) -> Self {
        let keeper = script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut part = Self(keeper.expect("a script of `tests/parts`"));
        let mut line = String::new();
        BufReader::new(part.0.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
        if line.trim() != "up" {
            drop(part.0.stdin.take());
            let mut why = String::new();
            let _ = part.0.stderr.take().expect("stderr").read_to_string(&mut why);
            panic!("not up: {}: {line}{why}", script.get_program().display());
        }
        part
    }
}

impl Drop for KeptPart {
    fn drop(&mut self) {
        // This closes its standard input first.
        let _ = self.0.wait();
    }
}
