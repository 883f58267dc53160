//! One query to one of Slurm's programs, with a limit: a controller that hangs must not hang us.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::time::Duration;

use crate::exec::process::{orphans, wait_within};

pub type Environment = BTreeMap<OsString, OsString>;

/// The result of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryResult {
    /// It answered, in its way.
    Answered { code: i32, stdout: String, stderr: String },
    /// It did not end within the limit, and was ended.
    TimedOut,
    /// It is not here, or cannot be started: why.
    Absent(String),
}

impl QueryResult {
    /// Why this is no answer, in one line.
    pub fn error_text(&self, program: &str) -> String {
        match self {
            Self::Answered { code, stdout, stderr } => {
                let text = if stderr.trim().is_empty() { stdout } else { stderr };
                let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
                let message = lines.join("; ").replace(&format!("{program}: error: "), "");
                if message.is_empty() { format!("{program} ended with exit code {code}") } else { message }
            }
            Self::TimedOut => format!("{program} did not answer"),
            Self::Absent(why) => why.clone(),
        }
    }
}

/// Runs the query. The program gets a process group of its own, so that Ctrl-C on a terminal does not cut a submission off half
/// way.
pub async fn run_query(program: &'static str, words: Vec<OsString>, env: Environment, limit: Duration) -> QueryResult {
    let answer = tokio::task::spawn_blocking(move || blocking(program, &words, &env, limit));
    answer.await.unwrap_or_else(|panic| QueryResult::Absent(format!("{program}: {panic}")))
}

fn blocking(program: &'static str, words: &[OsString], env: &Environment, limit: Duration) -> QueryResult {
    let expression = duct::cmd(program, words)
        .full_env(env)
        .stdin_null()
        .stdout_capture()
        .stderr_capture()
        .unchecked()
        .before_spawn(|child| {
            child.process_group(0);
            Ok(())
        });
    let starting = orphans::starting();
    let handle = match expression.start() {
        Ok(handle) => handle,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return QueryResult::Absent(format!("`{program}` was not found in PATH"));
        }
        Err(error) => return QueryResult::Absent(format!("`{program}` could not be started: {error}")),
    };
    let pid = handle.pids().first().map_or(0, |&pid| pid as i32);
    orphans::awaited(pid);
    drop(starting);
    let query_result = match wait_within(&handle, limit) {
        Ok(Some(output)) => QueryResult::Answered {
            // 128 + n, as a shell reports it.
            code: output
                .status
                .code()
                .unwrap_or_else(|| 128 + std::os::unix::process::ExitStatusExt::signal(&output.status).unwrap_or(0)),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        },
        Ok(None) => {
            let _ = handle.kill();
            QueryResult::TimedOut
        }
        Err(error) => QueryResult::Absent(format!("`{program}`: {error}")),
    };
    orphans::remove_awaited(pid);
    query_result
}
