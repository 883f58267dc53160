//! A short query to a program, or a short order: its answer, or whether it ended well, within a limit. For facts of the
//! machine and for cleaning up, not for a stage's work.

use std::ffi::{OsStr, OsString};
use std::io;
use std::time::Duration;

use duct::Expression;
use rustix::process::{Pid, Signal, kill_process_group};

use super::orphans;
use super::running::{SIGN_KEY_VARIABLE, has_key_text, wait_within};

/// The result of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeResult {
    Answered(ProbeOutput),
    /// The program was not found.
    Missing,
    /// It did not answer in time, and was killed.
    TimedOut,
    /// It could not be queried.
    Failed(String),
}

/// Exit code and what was written; 128 + n for signal n.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeOutput {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl ProbeResult {
    /// What it wrote to its standard output, if it ended well.
    pub fn successful_output(self) -> Option<String> {
        match self {
            Self::Answered(ProbeOutput { code: 0, out, .. }) => Some(out),
            _ => None,
        }
    }
}

/// Sends the query. Blocks for at most `limit`.
pub fn probe(argv: impl IntoIterator<Item: AsRef<OsStr>>, limit: Duration) -> ProbeResult {
    match command(argv) {
        Some(question) => query(&question.stdout_capture().stderr_capture(), limit),
        None => ProbeResult::Missing,
    }
}

/// Whether the command ended well within `limit`. Its output is not read: a helper that it leaves running may hold it
/// open.
pub fn succeeds(argv: impl IntoIterator<Item: AsRef<OsStr>>, limit: Duration) -> bool {
    let order = command(argv).map(|order| query(&order.stdout_null().stderr_null(), limit));
    matches!(order, Some(ProbeResult::Answered(ProbeOutput { code: 0, .. })))
}

fn command(argv: impl IntoIterator<Item: AsRef<OsStr>>) -> Option<Expression> {
    let mut words = argv.into_iter().map(|word| word.as_ref().to_owned());
    let program = words.next()?;
    let words: Vec<OsString> = words.collect();
    Some(duct::cmd(program, words).stdin_null().unchecked())
}

/// Starts the command, and waits for its answer. Blocks for at most `limit`.
pub fn query(question: &Expression, limit: Duration) -> ProbeResult {
    let starting = orphans::starting();
    let begun = if has_key_text() { question.env_remove(SIGN_KEY_VARIABLE).start() } else { question.start() };
    let handle = match begun {
        Ok(handle) => handle,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return ProbeResult::Missing,
        Err(error) => return ProbeResult::Failed(error.to_string()),
    };
    let pids: Vec<i32> = handle.pids().into_iter().map(|pid| pid as i32).collect();
    for &pid in &pids {
        orphans::awaited(pid);
    }
    drop(starting);
    let probed = match wait_within(&handle, limit) {
        Ok(Some(output)) => {
            let status = output.status;
            let signal = std::os::unix::process::ExitStatusExt::signal(&status);
            ProbeResult::Answered(ProbeOutput {
                code: status.code().unwrap_or_else(|| 128 + signal.unwrap_or(0)),
                out: String::from_utf8_lossy(&output.stdout).into_owned(),
                err: String::from_utf8_lossy(&output.stderr).into_owned(),
            })
        }
        Ok(None) => {
            // Where it leads a group, what it started goes with it.
            for pid in pids.iter().filter_map(|&pid| Pid::from_raw(pid)) {
                let _ = kill_process_group(pid, Signal::KILL);
            }
            let _ = handle.kill();
            ProbeResult::TimedOut
        }
        Err(error) => ProbeResult::Failed(error.to_string()),
    };
    for &pid in &pids {
        orphans::remove_awaited(pid);
    }
    probed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_has_its_answer_its_code_and_its_limit() {
        let minute = Duration::from_mins(1);
        let answer = ProbeOutput { code: 3, out: "a\n".to_owned(), err: "b\n".to_owned() };
        assert_eq!(probe(["sh", "-c", "echo a; echo b >&2; exit 3"], minute), ProbeResult::Answered(answer.clone()));
        assert_eq!(ProbeResult::Answered(answer).successful_output(), None);
        assert_eq!(probe(["echo", "a"], minute).successful_output().as_deref(), Some("a\n"));
        assert_eq!(probe(["no-such-program-here"], minute), ProbeResult::Missing);
        assert_eq!(probe(["sleep", "1000"], Duration::from_millis(1)), ProbeResult::TimedOut);
    }
}
