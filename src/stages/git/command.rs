//! How git is called: no prompts, no hooks, no identity of the user's, no background work.

use std::ffi::OsString;

use crate::event::Failure;
use crate::exec::process::ProcessCommand;
use crate::stages::task_context::TaskContext;

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
        let mut argv: Vec<OsString> = vec!["git".into()];
        argv.extend(SETTINGS.iter().flat_map(|&setting| ["-c".into(), setting.into()]));
        argv.extend(words.iter().map(OsString::from));
        let mut command = self
            .context
            .command(argv)
            .set("GIT_TERMINAL_PROMPT", "0")
            .set("GIT_ASKPASS", "")
            .set("SSH_ASKPASS", "")
            .set("GIT_CONFIG_NOSYSTEM", "1")
            .set("LC_ALL", "C");
        if ["GIT_SSH_COMMAND", "GIT_SSH"].iter().all(|name| std::env::var_os(name).is_none()) {
            command = command.set("GIT_SSH_COMMAND", "ssh -oBatchMode=yes");
        }
        for (name, value) in IDENTITY {
            command = command.set(name, value);
        }
        for name in ELSEWHERE {
            command = command.remove(name);
        }
        command
    }
}
