//! `git:` — a clone at a revision; the output folder is the work tree.
//!
//! The published tree holds the same bytes for the same revision: the store leaves `.git` out of the digest, because
//! git's own files hold times, inode numbers and packs that differ from clone to clone. The revision is recorded in
//! [`REVISION`] instead of `.git`, so that two commits with the same files still differ. With `resume`, whatever was
//! fetched before is not fetched again. An output from the cache whose source can be another by now is reported.

use std::path::Path;
use std::time::Duration;

use crate::Run;
use crate::git_command::{GitCommand, list_remote, not_an_option};
use crate::task_context::{TaskContext, undeclared_notice};
use base::event::{Done, Failure, MovingSource, RemoteRef};
use base::files::read_text;
use base::units::{credentials, userinfo, without_credentials};
use plan::manifest::model::{CherryPick, Git};
use runner::store::WithPath as _;

/// Beside the work tree's files, ignored by git: the commit that is checked out.
pub const REVISION: &str = ".regatta-revision";

impl Run for Git {
    const FORMAT: Option<u32> = Some(1);

    async fn run(&self, mut context: TaskContext) -> Result<Done, Failure> {
        let urls = std::iter::once(&self.url).chain(self.cherry_picks.iter().filter_map(|pick| match pick {
            CherryPick::From { url, .. } => Some(url),
            CherryPick::Commit(_) => None,
        }));
        let hidden: Vec<String> = urls.filter_map(|url| credentials(url)).collect();
        context.hide(hidden);
        let context = &context;
        let command = GitCommand { context };
        let url = local(context, &self.url);
        not_an_option(&url)?;

        // A lock that a killed self left behind would stop this one, and `init` writes the configuration anew: one that
        // was there can name programs.
        for file in ["index.lock", "shallow.lock", "HEAD.lock", "config.lock", "config"] {
            let _ = std::fs::remove_file(context.lease.out.join(".git").join(file));
        }
        command.run(&["init", "--quiet", "--template=", "."]).await?;
        let (commit, name) = find(&command, &url, &self.rev).await?;
        context.lease.report_progress(format!("checking out {}", short(&commit)), 0, None);
        command.run(&["checkout", "--quiet", "--force", "--detach", &commit]).await?;
        // Force twice: also what an earlier attempt left of submodules.
        command.run(&["clean", "--quiet", "-ffdx"]).await?;
        for pick in &self.cherry_picks {
            cherry_pick(&command, &url, pick).await?;
        }
        if self.submodules {
            context.lease.report_progress("fetching submodules", 0, None);
            // A relative submodule URL counts from the remote's. A local one is allowed only to a local clone.
            command.run(&["config", "--", "remote.origin.url", &url]).await?;
            let file = if is_local(&url) { "protocol.file.allow=always" } else { "protocol.file.allow=user" };
            command
                .run(&["-c", file, "submodule", "update", "--init", "--recursive", "--force", "--depth", "1"])
                .await?;
        } else if context.lease.out.join(".gitmodules").is_file() {
            context.lease.notice("the folders of its submodules stay empty; `submodules: true` fetches them");
        }
        fetch_lfs(&command, self, &url).await?;

        command.run(&["config", "--", "remote.origin.url", &without_credentials(&url)]).await?;
        remove_credentials(&context.lease.out.join(".git"), &self.url)?;
        let head = command.stdout_of(&["rev-parse", "HEAD"]).await?;
        context.write(".git/info/exclude", format!("/{REVISION}\n"))?;
        context.write(REVISION, format!("{head}\n"))?;
        // A repository in another output has a key, which changes with it.
        let name = name.filter(|_| !Path::new(&url).starts_with(context.state()));
        let source = name.map(|name| Box::new(moving_source(&self.rev, without_credentials(&url), name, commit)));
        Ok(Done { headline: Some(short(&head).to_owned()), source, ..Done::default() })
    }
}

fn moving_source(rev: &str, url: String, name: String, commit: String) -> MovingSource {
    let kind = match &name {
        name if name.starts_with("refs/heads/") => "branch ",
        name if name.starts_with("refs/tags/") => "tag ",
        _ => "",
    };
    MovingSource {
        name: format!("{kind}`{rev}`"),
        version: format!("commit {}", short(&commit)),
        remote: Some(RemoteRef { url, name, commit }),
        ..MovingSource::default()
    }
}

fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

/// Takes credentials out of what is published: submodules with relative URLs got them from their parent.
fn remove_credentials(dot_git: &Path, url: &str) -> Result<(), Failure> {
    let Some(userinfo) = userinfo(url).filter(|_| credentials(url).is_some()) else { return Ok(()) };
    let shown = format!("{userinfo}@");
    for entry in walkdir::WalkDir::new(dot_git).into_iter().flatten().filter(|entry| entry.file_name() == "config") {
        if let Ok(text) = read_text(entry.path())
            && text.contains(&shown)
        {
            std::fs::write(entry.path(), text.replace(&shown, "")).at("write", entry.path())?;
        }
    }
    Ok(())
}

/// A path in the project becomes absolute; everything else stays.
fn local(context: &TaskContext, url: &str) -> String {
    let path = context.path(url);
    if !url.contains("://") && path.exists() { path.display().to_string() } else { url.to_owned() }
}

fn is_local(url: &str) -> bool {
    url.starts_with('/') || url.starts_with("file://")
}

fn is_hex(rev: &str, least: usize) -> bool {
    rev.len() >= least && rev.len() <= 40 && rev.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The commit that a revision means, fetched, and the full name of the branch or tag that it is.
async fn find(command: &GitCommand<'_>, url: &str, rev: &str) -> Result<(String, Option<String>), Failure> {
    not_an_option(rev)?;
    if is_hex(rev, 40) {
        return Ok((fetch_commit(command, url, rev, "1").await?, None));
    }
    command.context.lease.report_progress(format!("looking for {rev}"), 0, None);
    let (tag, branch) = (format!("refs/tags/{rev}"), format!("refs/heads/{rev}"));
    let listed = command.stdout_of(&["ls-remote", "--", url, &tag, &branch, rev]).await?;
    let has = |name: &str| listed.lines().any(|line| line.split_once('\t').is_some_and(|(_, found)| found == name));
    let Some(name) = [tag.as_str(), branch.as_str(), rev].into_iter().find(|name| has(name)) else {
        if is_hex(rev, 4) {
            return Ok((fetch_commit(command, url, rev, "0").await?, None));
        }
        let url = without_credentials(url);
        let failure = Failure::refused(format!("there is no tag, branch or commit `{rev}` in {url}"));
        return Err(failure.hint(format!("`git ls-remote {url}` lists what there is")));
    };
    command.context.lease.report_progress(format!("fetching {rev}"), 0, None);
    command.run(&["fetch", "--quiet", "--no-tags", "--depth", "1", "--", url, name]).await?;
    let commit = command.stdout_of(&["rev-parse", "--verify", "--quiet", "FETCH_HEAD^{commit}"]).await?;
    Ok((commit, Some(name.to_owned())))
}

/// Makes sure that a commit is there, alone if the server gives single commits away, else with everything.
async fn fetch_commit(command: &GitCommand<'_>, url: &str, commit: &str, depth: &str) -> Result<String, Failure> {
    let exact = format!("{commit}^{{commit}}");
    if depth == "1"
        && let Ok(found) = command.stdout_of(&["rev-parse", "--verify", "--quiet", &exact]).await
    {
        return Ok(found);
    }
    command.context.lease.report_progress(format!("fetching {}", short(commit)), 0, None);
    let alone = is_hex(commit, 40)
        && command.run(&["fetch", "--quiet", "--no-tags", "--depth", depth, "--", url, commit]).await.is_ok();
    if !alone {
        fetch_all(command, url).await?;
    }
    command.stdout_of(&["rev-parse", "--verify", "--quiet", &exact]).await.map_err(|failure| {
        if command.context.lease.stop.is_requested() {
            return failure;
        }
        Failure::refused(format!("there is no commit `{commit}` in {}", without_credentials(url)))
    })
}

async fn fetch_all(command: &GitCommand<'_>, url: &str) -> Result<(), Failure> {
    let shallow = command.stdout_of(&["rev-parse", "--is-shallow-repository"]).await? == "true";
    let mut words = vec!["fetch", "--quiet", "--tags", "--force"];
    if shallow {
        words.push("--unshallow");
    }
    words.extend(["--", url, "+refs/heads/*:refs/remotes/all/*"]);
    command.run(&words).await
}

async fn cherry_pick(command: &GitCommand<'_>, url: &str, pick: &CherryPick) -> Result<(), Failure> {
    let (from, commit) = match pick {
        CherryPick::Commit(commit) => (url.to_owned(), commit),
        CherryPick::From { url, commit } => (local(command.context, url), commit),
    };
    not_an_option(&from)?;
    not_an_option(commit)?;
    // With its parent: a cherry-pick applies the difference to it.
    let commit = fetch_commit(command, &from, commit, "2").await?;
    let failure = match command.run(&["cherry-pick", "--keep-redundant-commits", &commit]).await {
        Ok(()) => return Ok(()),
        Err(failure) => failure,
    };
    if command.context.lease.stop.is_requested() {
        return Err(failure);
    }
    let conflicts = command.stdout_of(&["diff", "--name-only", "--diff-filter=U"]).await.unwrap_or_default();
    let _ = command.run(&["cherry-pick", "--abort"]).await;
    if conflicts.is_empty() {
        return Err(failure);
    }
    let files = conflicts.lines().collect::<Vec<_>>().join(", ");
    Err(Failure { what: format!("the commit {commit} cannot be applied: conflicts in {files}"), ..failure }
        .cause("the commit was made for another version of these files")
        .hint("choose a `rev` nearer to it, or the same change as it was made for this version"))
}

async fn fetch_lfs(command: &GitCommand<'_>, git: &Git, url: &str) -> Result<(), Failure> {
    if git.lfs == Some(false) {
        return Ok(());
    }
    let required = git.lfs == Some(true);
    let attributes = command.stdout_of(&["ls-files", "--", ".gitattributes", "**/.gitattributes"]).await?;
    let used = attributes
        .lines()
        .any(|file| read_text(command.context.lease.out.join(file)).is_ok_and(|text| text.contains("filter=lfs")));
    if !used && !required {
        return Ok(());
    }
    if let Err(failure) = command.stdout_of(&["lfs", "version"]).await {
        if command.context.lease.stop.is_requested() {
            return Err(failure);
        }
        if required {
            return Err(Failure::refused("git lfs is not installed")
                .hint("install git-lfs, or set `lfs: false` to leave the pointers unchanged"));
        }
        command.context.lease.notice("the repository uses git lfs, which is not installed: large files stay pointers");
        return Ok(());
    }
    command.context.lease.report_progress("fetching large files", 0, None);
    command.run(&["config", "--", "remote.origin.url", url]).await?;
    command.run(&["lfs", "install", "--local", "--skip-repo"]).await?;
    command.run(&["lfs", "pull", "origin"]).await
}

/// How long a remote may take to answer; without a network a run goes on after that.
const LIMIT: Duration = Duration::from_secs(3);

/// The answer of a remote.
enum RemoteAnswer {
    Commit(String),
    /// It has no such reference any more.
    Gone,
    None,
}

/// Names the source, and how to fetch it again. Where `may_query`, the remote of a clone is queried, which blocks for a
/// few seconds at most. Of a tag only that it moved is reported, because tags are not expected to.
pub fn source_notice(source: &MovingSource, stage: &str, may_query: bool) -> Option<String> {
    if !source.undeclared.is_empty() {
        return undeclared_notice(&source.undeclared, stage);
    }
    let queried = source.remote.as_ref().filter(|_| may_query);
    let is_tag = source.remote.as_ref().is_some_and(RemoteRef::is_tag);
    let rest = match queried.map(|remote| (remote, query_remote(remote))) {
        Some((remote, RemoteAnswer::Commit(now))) if now != remote.commit => {
            format!(", and has moved to {} in the remote; `--force {stage}` fetches it", short(&now))
        }
        Some((_, RemoteAnswer::Gone)) => ", and the remote no longer has it".to_owned(),
        _ if is_tag => return None,
        Some((_, RemoteAnswer::Commit(_))) => ", as it is in the remote".to_owned(),
        Some((_, RemoteAnswer::None)) => format!("; the remote did not answer; `--force {stage}` fetches it again"),
        None => format!("; `--force {stage}` fetches it again"),
    };
    Some(format!("{} is taken from the cache at {}{rest}", source.name, source.version))
}

fn query_remote(remote: &RemoteRef) -> RemoteAnswer {
    // What an annotated tag leads to has a line of its own.
    let peeled = format!("{}^{{}}", remote.name);
    let Some(listed) = list_remote(&remote.url, &[&remote.name, &peeled], LIMIT) else { return RemoteAnswer::None };
    let commit = |name: &str| listed.lines().find_map(|line| line.strip_suffix(name)?.strip_suffix('\t'));
    match commit(&peeled).or_else(|| commit(&remote.name)) {
        Some(commit) => RemoteAnswer::Commit(commit.to_owned()),
        None => RemoteAnswer::Gone,
    }
}
