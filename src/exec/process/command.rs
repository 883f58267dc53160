//! What to start, and how it ended, as data; and this same program once more, in the place of this process: with an
//! environment that only its starter knows.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::confinement::{Confinement, ConfinementError};
use super::private_values::redacted;
use base::units::shell_word;

/// How long a process may take between TERM and KILL by default.
const GRACE: Duration = Duration::from_secs(5);

/// A file for each stream of a command.
#[derive(Clone, Debug)]
pub struct StreamCopies {
    pub stdout: PathBuf,
    pub stderr: PathBuf,
}

/// A program with its surroundings.
#[derive(Clone, Debug)]
pub struct ProcessCommand {
    /// The program, then its arguments. A program without `/` is looked up in `PATH`.
    pub argv: Vec<OsString>,
    /// Changes to our own environment: `Some` sets, `None` removes.
    pub env: Vec<(String, Option<OsString>)>,
    /// Where it runs.
    pub dir: PathBuf,
    /// What it writes is appended here.
    pub log: PathBuf,
    /// Its standard output goes here instead, to be read by us; not redacted.
    pub answer: Option<PathBuf>,
    /// Its standard output and its standard error are written into these files, too, each by itself, which are
    /// replaced; the log has both of them, in their order.
    pub copies: Option<StreamCopies>,
    /// Its standard input and output are connected to us (`Running::take_pipes`); only its standard error is logged.
    pub has_piped_stdio: bool,
    /// Its standard streams are ours, except a terminal on standard input: that stays with us, because its group is in
    /// the background. Nothing is logged.
    pub inherits_stdio: bool,
    /// Values that must not reach the log.
    pub secrets: Vec<String>,
    /// What it may read and write; `None`: whatever we may.
    pub confinement: Option<Confinement>,
    /// From TERM to KILL.
    pub grace: Duration,
}

impl ProcessCommand {
    pub fn new(
        argv: impl IntoIterator<Item: Into<OsString>>,
        dir: impl Into<PathBuf>,
        log: impl Into<PathBuf>,
    ) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            dir: dir.into(),
            log: log.into(),
            answer: None,
            copies: None,
            has_piped_stdio: false,
            inherits_stdio: false,
            secrets: Vec::new(),
            confinement: None,
            grace: GRACE,
        }
    }

    #[must_use]
    pub fn set(mut self, name: impl Into<String>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), Some(value.into())));
        self
    }

    #[must_use]
    pub fn remove(mut self, name: impl Into<String>) -> Self {
        self.env.push((name.into(), None));
        self
    }

    /// Whether its program is there and may be started.
    pub fn is_found(&self) -> bool {
        self.program().is_ok()
    }

    /// The program as a path with a `/` in it. Looking it up here keeps the cheap way of starting it
    /// (`posix_spawn`), and lets us report why it cannot be started.
    pub(super) fn program(&self) -> Result<PathBuf, SpawnError> {
        let Some(name) = self.argv.first().filter(|name| !name.is_empty()) else { return Err(SpawnError::Empty) };
        let path = Path::new(name);
        if path.components().count() > 1 || path.is_absolute() {
            return Ok(if path.is_relative() { self.dir.join(path) } else { path.to_owned() });
        }
        let inherited_path;
        let search: &OsStr = match self.env.iter().rev().find(|(name, _)| name == "PATH") {
            Some((_, Some(search))) => search,
            Some((_, None)) => OsStr::new("/usr/local/bin:/usr/bin:/bin"),
            None => {
                inherited_path = std::env::var_os("PATH")
                    .map_or_else(|| OsString::from("/usr/local/bin:/usr/bin:/bin"), |path| absolute_search(&path));
                &inherited_path
            }
        };
        if let Ok(found) = which::which_in(name, Some(search), &self.dir) {
            return Ok(found);
        }
        let unusable =
            std::env::split_paths(search).map(|folder| self.dir.join(folder).join(name)).find(|path| path.is_file());
        let program = name.to_string_lossy().into_owned();
        Err(match unusable {
            Some(path) => SpawnError::NotExecutable { program: path.display().to_string() },
            None => SpawnError::NotFound { program },
        })
    }
}

/// How a command ended, and what it left behind.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessExit {
    pub how: ExitKind,
    pub seconds: f64,
    /// Processes that it left running. They have been ended.
    pub leftovers: Vec<Leftover>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitKind {
    Code(i32),
    Signal(i32),
    /// It was stopped on request.
    Stopped,
}

impl ExitKind {
    pub const fn is_success(self) -> bool {
        matches!(self, Self::Code(0))
    }
}

/// A background process that a command left running.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Leftover {
    pub pid: i32,
    /// Its command line. It may hold secrets of a stage.
    pub command: String,
}

impl Leftover {
    /// The program alone, for a message where the secrets are not known that the arguments may hold.
    pub fn program(&self) -> &str {
        program_of(&self.command)
    }
}

/// The name of the program of a command line.
pub fn program_of(command: &str) -> &str {
    let path = command.split_whitespace().next().unwrap_or_default();
    path.rsplit('/').next().unwrap_or(path)
}

/// Why a command could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error("the command is empty")]
    Empty,
    #[error("`{program}` was not found in PATH")]
    NotFound { program: String },
    #[error("`{program}` is not executable")]
    NotExecutable { program: String },
    #[error("the folder {} to run in cannot be used: {source}", dir.display())]
    Dir { dir: PathBuf, source: io::Error },
    #[error("the log {} cannot be written: {source}", log.display())]
    Log { log: PathBuf, source: io::Error },
    #[error("it cannot be confined: {0}")]
    Confinement(#[from] ConfinementError),
    #[error("`{program}` could not be started: {source}")]
    Other { program: String, source: io::Error },
}

impl SpawnError {
    /// Names the culprit: the operating system answers ENOENT both for a missing program and for a missing folder.
    pub(super) fn explain(program: &Path, dir: &Path, source: io::Error) -> Self {
        if let Err(source) = dir.metadata() {
            return Self::Dir { dir: dir.to_owned(), source };
        }
        let program = program.display().to_string();
        match source.kind() {
            io::ErrorKind::NotFound if Path::new(&program).exists() => Self::Other {
                source: io::Error::new(source.kind(), "the interpreter that it names does not exist"),
                program,
            },
            io::ErrorKind::NotFound => Self::NotFound { program },
            io::ErrorKind::PermissionDenied => Self::NotExecutable { program },
            _ => Self::Other { program, source },
        }
    }
}

/// A command line that the user can paste: what differs from their environment first, shell_word for `sh`, with
/// every secret value as `***`.
pub fn shown(argv: &[OsString], env: &[(String, Option<OsString>)], secrets: &[String]) -> String {
    let mut words: Vec<String> = env
        .iter()
        .filter_map(|(name, value)| Some(format!("{name}={}", shell_word(&value.as_ref()?.to_string_lossy()))))
        .collect();
    words.extend(argv.iter().map(|word| shell_word(&word.to_string_lossy())));
    let quoted = secrets.iter().filter(|secret| !secret.is_empty()).map(|secret| shell_word(secret));
    redacted(&words.join(" "), &secrets.iter().cloned().chain(quoted).collect::<Vec<_>>())
}

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

/// The folders of a `PATH` without those that depend on where a program is started: what is in a project, a clone or an
/// archive must not be taken for a program of this machine.
pub(super) fn absolute_search(path: &OsStr) -> OsString {
    std::env::join_paths(std::env::split_paths(path).filter(|folder| folder.is_absolute())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn a_shown_command_can_be_pasted() {
        let env = [("OUT".to_owned(), Some("/tmp/a b".into())), ("GONE".to_owned(), None)];
        let line = shown(&words(&["sh", "-c", "echo 'hi' > $OUT"]), &env, &[]);
        assert_eq!(line, r"OUT='/tmp/a b' sh -c 'echo '\''hi'\'' > $OUT'");
    }

    #[test]
    fn a_shown_command_holds_no_secret() {
        let line = shown(&words(&["curl", "-H", "Bearer s3cret", "x's"]), &[], &["s3cret".into(), "x's".into()]);
        assert_eq!(line, "curl -H 'Bearer ***' ***");
        // One that begins another, and one in the quotes of the other.
        let line = shown(&words(&["a", "tok-1234", "x y"]), &[], &["tok".into(), "tok-1234".into(), "x y".into()]);
        assert_eq!(line, "a *** ***");
    }

    #[test]
    fn of_a_leftover_the_program_is_named_without_its_arguments() {
        let leftover = |command: &str| Leftover { pid: 1, command: command.to_owned() };
        assert_eq!(leftover("/usr/bin/python3 server.py --token s3cret").program(), "python3");
        assert_eq!(leftover("").program(), "");
    }

    #[test]
    fn a_missing_program_is_named() {
        let command = ProcessCommand::new(["no-such-program-here"], "/", "/dev/null");
        assert_eq!(command.program().unwrap_err().to_string(), "`no-such-program-here` was not found in PATH");
    }

    #[test]
    fn a_relative_program_is_found_from_the_folder_it_runs_in() {
        let command = ProcessCommand::new(["./build.sh"], "/somewhere", "/dev/null");
        assert_eq!(command.program().unwrap(), Path::new("/somewhere/./build.sh"));
    }
}
