//! This same program once more, in the place of this process: with an environment that only its starter knows.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;

/// Longer lines are not part of the protocol (bytes).
const LONGEST: usize = 1 << 20;

/// The first line of our standard input, and not a byte more: the rest is for the next reader.
pub fn first_line() -> io::Result<String> {
    let mut input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let (mut line, mut byte) = (Vec::new(), [0]);
    while line.len() < LONGEST && input.read(&mut byte)? == 1 && byte != *b"\n" {
        line.extend_from_slice(&byte);
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// Goes on as this same program with other arguments, more variables, and without those that begin with one of
/// `without`. Returns only when that fails.
pub fn reexec(words: &[&str], env: &BTreeMap<String, String>, without: &[&str]) -> io::Error {
    let inherited = std::env::vars_os().filter(|(name, _)| {
        let name = name.to_string_lossy();
        !without.iter().any(|start| name.starts_with(start))
    });
    match std::env::current_exe() {
        #[expect(clippy::disallowed_methods, reason = "no child: it takes our place")]
        Ok(program) => std::process::Command::new(program).args(words).env_clear().envs(inherited).envs(env).exec(),
        Err(error) => error,
    }
}
