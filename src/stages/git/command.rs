//! How git is called: no prompts, no hooks, no identity of the user's, no background work.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::time::Duration;

use crate::task_context::TaskContext;
use base::event::Failure;
use exec::process::{ProcessCommand, query};

/// Settings that win over the user's. Their other settings stay, because credential helpers are among them.
const SETTINGS: [&str; 9] = [
    "core.hooksPath=/dev/null",
    "core.autocrlf=false",
    "core.fsmonitor=false",
    "commit.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.detachedHead=false",
    "init.defaultBranch=main",
    "protocol.version=2",
];

const NO_PROMPTS: [(&str, &str); 5] = [
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", ""),
    ("SSH_ASKPASS", ""),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("LC_ALL", "C"),
];

/// The same commit ids every time need the same committer and date every time. The author stays unchanged.
const IDENTITY: [(&str, &str); 3] = [
    ("GIT_COMMITTER_NAME", "Regatta"),
    ("GIT_COMMITTER_EMAIL", "regatta@localhost"),
    ("GIT_COMMITTER_DATE", "2000-01-01T00:00:00+0000"),
];

/// Variables that point git elsewhere.
const ELSEWHERE: [&str; 7] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_CEILING_DIRECTORIES",
];

/// Calls git in the output folder.
pub struct GitCommand<'a> {
    pub context: &'a TaskContext,
}

impl GitCommand<'_> {
    pub async fn run(&self, words: &[&str]) -> Result<(), Failure> {
        self.context.run(self.command(words)).await.map(drop)
    }

    /// What git answers on its standard output.
    pub async fn stdout_of(&self, words: &[&str]) -> Result<String, Failure> {
        self.context.run_for_stdout(self.command(words)).await
    }

    fn command(&self, words: &[&str]) -> ProcessCommand {
        let argv = std::iter::once(OsString::from("git")).chain(arguments(words)).collect();
        environment().fold(self.context.command(argv), |command, (name, value)| match value {
            Some(value) => command.set(name, value),
            None => command.remove(name),
        })
    }
}

fn arguments(words: &[&str]) -> impl Iterator<Item = OsString> {
    let settings = SETTINGS.iter().flat_map(|&setting| ["-c".into(), setting.into()]);
    settings.chain(words.iter().map(OsString::from))
}

/// The variables that every call has; without a value: that it does not have.
fn environment() -> impl Iterator<Item = (&'static str, Option<&'static str>)> {
    let has_ssh = ["GIT_SSH_COMMAND", "GIT_SSH"].iter().any(|name| std::env::var_os(name).is_some());
    let ssh = (!has_ssh).then_some(("GIT_SSH_COMMAND", "ssh -oBatchMode=yes"));
    let set = NO_PROMPTS.into_iter().chain(ssh).chain(IDENTITY).map(|(name, value)| (name, Some(value)));
    set.chain(ELSEWHERE.map(|name| (name, None)))
}

/// What a remote lists of these references, outside of any stage. Blocks for at most `limit`; `None` without an answer.
pub fn list_remote(url: &str, names: &[&str], limit: Duration) -> Option<String> {
    let words: Vec<&str> = ["ls-remote", "--", url].iter().chain(names).copied().collect();
    // Outside of the project, which may be a repository with settings of its own.
    let call = duct::cmd("git", arguments(&words)).dir("/").stdin_null().stdout_capture().stderr_capture().unchecked();
    let call = environment().fold(call, |call, (name, value)| match value {
        Some(value) => call.env(name, value),
        None => call.env_remove(name),
    });
    // The helpers that git starts end with it.
    let call = call.before_spawn(|child| {
        child.process_group(0);
        Ok(())
    });
    query(&call, limit).successful_output()
}
