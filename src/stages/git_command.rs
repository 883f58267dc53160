//! How git is called, by everything that calls it: no prompts, no hooks, no identity of the user's, no background work,
//! and no program that a repository or a URL names.
//!
//! A repository's own configuration can name programs, and so can a URL that git takes for an option. [`GUARDS`] turns
//! off what a setting can turn off, `--` or [`not_an_option`] precedes every word that comes from elsewhere, and
//! the tests list the sources that may name git at all.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::time::Duration;

use duct::Expression;

use crate::task_context::TaskContext;
use base::event::Failure;
use exec::process::{ProcessCommand, query};

/// What a repository's own configuration or a URL could make git run.
const GUARDS: [&str; 4] =
    ["core.hooksPath=/dev/null", "core.fsmonitor=false", "protocol.ext.allow=never", "protocol.fd.allow=never"];

/// Settings of clones that win over the user's. Their other settings stay, because credential helpers are among them.
const SETTINGS: [&str; 7] = [
    "core.autocrlf=false",
    "commit.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.detachedHead=false",
    "init.defaultBranch=main",
    "protocol.version=2",
];

const NO_PROMPTS: [(&str, &str); 4] =
    [("GIT_TERMINAL_PROMPT", "0"), ("GIT_ASKPASS", ""), ("SSH_ASKPASS", ""), ("LC_ALL", "C")];

/// The same clone everywhere: the machine's settings do not count, and the same commit ids every time need the same
/// committer and date every time. The author stays unchanged.
const REPRODUCIBLE: [(&str, &str); 4] = [
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_COMMITTER_NAME", "Regatta"),
    ("GIT_COMMITTER_EMAIL", "regatta@localhost"),
    ("GIT_COMMITTER_DATE", "2000-01-01T00:00:00+0000"),
];

/// Variables that point git elsewhere.
const ELSEWHERE: &str = "\
    GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_NAMESPACE \
    GIT_CEILING_DIRECTORIES";

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
        let argv = std::iter::once(OsString::from("git")).chain(arguments(&SETTINGS, words)).collect();
        environment(&REPRODUCIBLE).fold(self.context.command(argv), |command, (name, value)| match value {
            Some(value) => command.set(name, value),
            None => command.remove(name),
        })
    }
}

/// A URL, a revision or a commit from a manifest, which git must not take for an option.
pub fn not_an_option(word: &str) -> Result<(), Failure> {
    if word.starts_with('-') || word.is_empty() {
        return Err(Failure::refused(format!("`{word}` is not a URL, a revision or a commit")));
    }
    Ok(())
}

/// What a remote lists of these references, outside of any stage. Blocks for at most `limit`; `None` without an answer.
pub fn list_remote(url: &str, names: &[&str], limit: Duration) -> Option<String> {
    let words: Vec<&str> = ["ls-remote", "--", url].iter().chain(names).copied().collect();
    // Outside of the project, which may be a repository with settings of its own.
    ask(Path::new("/"), arguments(&SETTINGS, &words), &REPRODUCIBLE, limit)
}

/// What git answers about the repository that has `folder` in it; it changes nothing there. Blocks for at most `limit`.
pub fn query_repository(folder: &Path, words: &[&str], limit: Duration) -> Option<String> {
    // Reading must not take the lock that another git command may need, nor fetch what a partial clone lacks: the
    // repository names the program for that.
    let env = [("GIT_OPTIONAL_LOCKS", "0"), ("GIT_ALLOW_PROTOCOL", "none")];
    ask(folder, arguments(&[], words), &env, limit)
}

/// The commit that is checked out where `project` is, and whether tracked files differ from it; the latter is `None`
/// where the repository itself configures filters, which `status` would run.
pub fn commit_of(project: &Path) -> Option<(String, Option<bool>)> {
    /// A repository on a slow network file system may take longer; then it is not known.
    const LIMIT: Duration = Duration::from_secs(5);
    let git = |words: &[&str]| Some(query_repository(project, words, LIMIT)?.trim().to_owned());
    let commit = git(&["rev-parse", "--verify", "HEAD"])?;
    if !matches!(commit.len(), 40 | 64) || !commit.chars().all(|c| c.is_ascii_hexdigit()) {
        return None;
    }
    let settings = git(&["config", "--show-scope", "--name-only", "--list"])?;
    let names_filter = |line: &str| line.starts_with("local\tfilter.") || line.starts_with("worktree\tfilter.");
    let status = ["status", "--porcelain", "--untracked-files=no", "--ignore-submodules=dirty"];
    let changes = if settings.lines().any(names_filter) { None } else { git(&status) };
    Some((commit, changes.map(|changes| !changes.is_empty())))
}

fn ask(
    folder: &Path,
    arguments: impl Iterator<Item = OsString>,
    env: &[(&'static str, &'static str)],
    limit: Duration,
) -> Option<String> {
    let call = duct::cmd("git", arguments).dir(folder).stdin_null().stdout_capture().stderr_capture().unchecked();
    let with_env = |call: Expression, (name, value)| match value {
        Some(value) => call.env(name, value),
        None => call.env_remove(name),
    };
    // The helpers that git starts end with it.
    let call = environment(env).fold(call, with_env).before_spawn(|child| {
        child.process_group(0);
        Ok(())
    });
    query(&call, limit).successful_output()
}

fn arguments(settings: &[&str], words: &[&str]) -> impl Iterator<Item = OsString> {
    let settings = GUARDS.iter().chain(settings).flat_map(|&setting| ["-c".into(), setting.into()]);
    settings.chain(words.iter().map(OsString::from))
}

/// The variables that every call has, and those of this one; without a value: that it does not have.
fn environment(more: &[(&'static str, &'static str)]) -> impl Iterator<Item = (&'static str, Option<&'static str>)> {
    let has_ssh = ["GIT_SSH_COMMAND", "GIT_SSH"].iter().any(|name| std::env::var_os(name).is_some());
    let ssh = (!has_ssh).then_some(("GIT_SSH_COMMAND", "ssh -oBatchMode=yes"));
    let set = NO_PROMPTS.into_iter().chain(ssh).chain(more.iter().copied()).map(|(name, value)| (name, Some(value)));
    set.chain(ELSEWHERE.split(' ').map(|name| (name, None)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    /// Sources may name git without calling it: they check, translate or describe a stage. Those that call it are this
    /// file and doctor's table, which asks each program for its version.
    const MAY_NAME_GIT: [&str; 5] = [
        "app/doctor/needs.rs",
        "app/doctor/programs.rs",
        "interop/downloads.rs",
        "interop/translate/command.rs",
        "stages/git_command.rs",
    ];

    #[test]
    fn only_one_source_calls_git() {
        let rooms = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let code = |path: &Path| fs::read_to_string(path).unwrap().split("#[cfg(test)]").next().unwrap().to_owned();
        let names_git = |path: &Path| code(path).lines().any(|line| line.contains("\"git\"") && !line.contains("&["));
        let sources = walkdir::WalkDir::new(rooms).into_iter().flatten().map(walkdir::DirEntry::into_path);
        let sources = sources.filter(|path| path.extension().is_some_and(|end| end == "rs"));
        let sources: Vec<_> = sources.filter(|path| !path.ends_with("tests.rs")).collect();
        assert!(sources.len() > 300, "{}", sources.len());
        let named: BTreeSet<String> = sources
            .iter()
            .filter(|path| names_git(path))
            .map(|path| path.strip_prefix(rooms).unwrap().display().to_string())
            .collect();
        assert_eq!(named, MAY_NAME_GIT.map(str::to_owned).into());
    }

    /// A repository with one commit, and what its configuration gets.
    fn repository(settings: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let git = |words: &[&str]| {
            let person = ["-c", "user.name=a", "-c", "user.email=a@b"];
            let call = duct::cmd("git", person.iter().chain(words)).dir(folder.path()).stdout_null();
            call.run().unwrap();
        };
        git(&["init", "-q"]);
        fs::write(folder.path().join("file"), "text").unwrap();
        fs::write(folder.path().join(".gitattributes"), "file filter=planted\n").unwrap();
        git(&["add", "."]);
        git(&["commit", "-qm", "one"]);
        for (name, value) in settings {
            git(&["config", name, value]);
        }
        // As after it was unpacked: no time is that of the index.
        fs::File::options()
            .append(true)
            .open(folder.path().join("file"))
            .unwrap()
            .set_modified(std::time::UNIX_EPOCH)
            .unwrap();
        folder
    }

    #[test]
    fn a_query_runs_no_monitor_that_the_repository_names() {
        let folder = repository(&[]);
        let proof = folder.path().join("proof");
        let folder = repository(&[("core.fsmonitor", &format!("touch {}; false", proof.display()))]);
        let status = query_repository(folder.path(), &["status", "--porcelain"], LIMIT);
        assert_eq!((status.as_deref(), proof.exists()), (Some(""), false));
    }

    #[test]
    fn a_commit_is_read_without_the_filters_of_its_repository() {
        let folder = repository(&[]);
        let changed = |folder: &Path| commit_of(folder).unwrap().1;
        assert_eq!(changed(folder.path()), Some(false));
        fs::write(folder.path().join("file"), "another").unwrap();
        assert_eq!(changed(folder.path()), Some(true));
        let proof = folder.path().join("proof");
        let planted = repository(&[("filter.planted.clean", &format!("touch {}; cat", proof.display()))]);
        assert_eq!((changed(planted.path()), proof.exists()), (None, false));
    }

    #[test]
    fn what_a_partial_clone_lacks_is_not_fetched_by_the_program_that_it_names() {
        let folder = repository(&[]);
        let proof = folder.path().join("proof");
        let command = format!("touch {}; false", proof.display());
        let planted = repository(&[
            ("core.repositoryformatversion", "1"),
            ("extensions.partialClone", "origin"),
            ("remote.origin.promisor", "true"),
            ("remote.origin.url", "ssh://host/x"),
            ("protocol.ssh.allow", "always"),
            ("core.sshCommand", &command),
        ]);
        let tree = query_repository(planted.path(), &["rev-parse", "HEAD^{tree}"], LIMIT).unwrap();
        let (first, rest) = tree.trim().split_at(2);
        fs::remove_file(planted.path().join(".git/objects").join(first).join(rest)).unwrap();
        assert_eq!((commit_of(planted.path()).unwrap().1, proof.exists()), (None, false));
    }

    #[test]
    fn a_filter_that_a_submodule_names_is_not_run() {
        let (module, project) = (repository(&[]), repository(&[]));
        let proof = project.path().join("proof");
        let git = |folder: &Path, words: &[&str]| {
            let person = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"];
            duct::cmd("git", person.iter().chain(words)).dir(folder).stdout_null().stderr_null().run().unwrap();
        };
        let url = module.path().display().to_string();
        git(project.path(), &["submodule", "add", "-q", &url, "module"]);
        git(project.path(), &["commit", "-qm", "two"]);
        let within = project.path().join("module");
        git(&within, &["config", "filter.planted.clean", &format!("touch {}; cat", proof.display())]);
        let file = fs::File::options().append(true).open(within.join("file")).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
        assert_eq!((commit_of(project.path()).unwrap().1, proof.exists()), (Some(false), false));
        git(project.path(), &["status"]);
        assert!(proof.exists(), "git itself runs it");
    }

    #[test]
    fn git_takes_no_foreign_word_for_an_option() {
        let folder = repository(&[]);
        let proof = folder.path().join("proof");
        let url = format!("--upload-pack=touch {}", proof.display());
        let path = folder.path().display().to_string();
        assert_eq!(list_remote(&url, &[&path], LIMIT), None);
        assert_eq!(list_remote(&format!("ext::sh -c touch% {}", proof.display()), &[], LIMIT), None);
        assert!(!proof.exists());
        assert!(list_remote(&path, &["HEAD"], LIMIT).is_some());
        for word in [&url, "-x", ""] {
            assert!(not_an_option(word).is_err(), "{word}");
        }
    }
}
