//! The commit of the project's Git repository.

use std::time::Duration;

use tokio::time::timeout;

use crate::bench::sidecar::Sidecar;
use crate::task_context::TaskContext;

/// A repository on a slow network file system may take longer; then it is not known.
const LIMIT: Duration = Duration::from_secs(5);

/// The commit that is checked out, and whether tracked files differ from it. `None`: the project is in no repository, or
/// Git is not there.
pub async fn of(context: &TaskContext) -> Option<(String, Option<bool>)> {
    // Queried only where there is a repository: otherwise Git's error would be the only output.
    if !context.lease.project.ancestors().any(|folder| folder.join(".git").exists()) {
        return None;
    }
    let commit = git(context, &["rev-parse", "--verify", "HEAD"]).await?;
    let is_commit = matches!(commit.len(), 40 | 64) && commit.chars().all(|c| c.is_ascii_hexdigit());
    if !is_commit {
        return None;
    }
    let changes = git(context, &["status", "--porcelain", "--untracked-files=no"]).await;
    Some((commit, changes.map(|changes| !changes.is_empty())))
}

async fn git(context: &TaskContext, arguments: &[&str]) -> Option<String> {
    let project = context.lease.project.to_string_lossy().into_owned();
    let argv = ["git", "-C", &project].into_iter().chain(arguments.iter().copied()).map(str::to_owned).collect();
    if !context.command(vec!["git".into()]).is_found() {
        return None;
    }
    // Reading must not take the lock that another git command may need.
    let env = [("GIT_OPTIONAL_LOCKS", "0"), ("LC_ALL", "C")];
    let mut running = Sidecar::start(context, argv, &env, "commit").ok()?;
    let how = timeout(LIMIT, running.ended()).await.ok()?;
    if how.is_success() { Some(running.written().ok()?.trim().to_owned()) } else { None }
}
