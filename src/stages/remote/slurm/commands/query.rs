//! One query to one of Slurm's programs, with a limit: a controller that hangs must not hang us.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::time::Duration;

use super::environment::query_environment;
use exec::process::{self, ProbeOutput, ProbeResult};

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

/// Runs the query, in the clusters that `env` names, and without the user's own defaults for it. The program gets a process group of its
/// own, so that Ctrl-C on a terminal does not cut a submission off half way.
pub async fn run_query(program: &'static str, words: Vec<OsString>, env: Environment, limit: Duration) -> QueryResult {
    let (clusters, env) = query_environment(program, env);
    let words: Vec<OsString> = clusters.into_iter().chain(words).collect();
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
    match process::query(&expression, limit) {
        ProbeResult::Answered(ProbeOutput { code, out, err }) => {
            QueryResult::Answered { code, stdout: out, stderr: err }
        }
        ProbeResult::TimedOut => QueryResult::TimedOut,
        ProbeResult::Missing => QueryResult::Absent(format!("`{program}` was not found in PATH")),
        ProbeResult::Failed(why) => QueryResult::Absent(format!("`{program}`: {why}")),
    }
}
