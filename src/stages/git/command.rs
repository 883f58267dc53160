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

/// The secret part of `scheme://user:password@host/…`, or of `scheme://token@host/…` for http.
pub fn credentials(url: &str) -> Option<String> {
    let (scheme, _) = url.split_once("://")?;
    let userinfo = userinfo(url)?;
    match userinfo.split_once(':') {
        Some((_, password)) => Some(password.to_owned()),
        None if scheme.starts_with("http") => Some(userinfo.to_owned()),
        None => None,
    }
    .filter(|secret| !secret.is_empty())
}

/// What stands before the `@` of the host.
pub fn userinfo(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    rest.split('/').next()?.rsplit_once('@').map(|(userinfo, _)| userinfo)
}

/// The URL as it may be shown and published.
pub fn without_credentials(url: &str) -> String {
    if credentials(url).is_none() {
        return url.to_owned();
    }
    match url.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest, rest.split('/').next()?))) {
        Some((scheme, rest, authority)) => {
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            format!("{scheme}://{host}{}", &rest[authority.len()..])
        }
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_what_stands_before_the_host() {
        assert_eq!(credentials("https://me:tok@host/x@y").as_deref(), Some("tok"));
        assert_eq!(credentials("https://tok@host/x").as_deref(), Some("tok"));
        assert_eq!(credentials("ssh://git@host/x"), None);
        assert_eq!(credentials("/a/path"), None);
        assert_eq!(without_credentials("https://me:tok@host/x@y"), "https://host/x@y");
        assert_eq!(without_credentials("git@host:x"), "git@host:x");
    }
}
