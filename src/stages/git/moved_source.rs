//! What a user should know of an output that is taken from the cache although its source can be another by now.

use std::time::Duration;

use super::command::list_remote;
use super::short;
use base::event::{MovingSource, RemoteRef};

/// How long a remote may take to answer; without a network a run goes on after that.
const LIMIT: Duration = Duration::from_secs(3);

/// The answer of a remote.
enum RemoteAnswer {
    Commit(String),
    /// It has no such reference any more.
    Gone,
    None,
}

/// Names the source, and how to fetch it again. Where `may_query`, the remote of a clone is queried, which blocks for a few seconds at
/// most. Of a tag only that it moved is reported, because tags are not expected to.
pub fn source_notice(source: &MovingSource, stage: &str, may_query: bool) -> Option<String> {
    let queried = source.remote.as_ref().filter(|_| may_query);
    let is_tag = source.remote.as_ref().is_some_and(RemoteRef::is_tag);
    let rest = match queried.map(|remote| (remote, query(remote))) {
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

fn query(remote: &RemoteRef) -> RemoteAnswer {
    // What an annotated tag leads to has a line of its own.
    let peeled = format!("{}^{{}}", remote.name);
    let Some(listed) = list_remote(&remote.url, &[&remote.name, &peeled], LIMIT) else { return RemoteAnswer::None };
    let commit = |name: &str| listed.lines().find_map(|line| line.strip_suffix(name)?.strip_suffix('\t'));
    match commit(&peeled).or_else(|| commit(&remote.name)) {
        Some(commit) => RemoteAnswer::Commit(commit.to_owned()),
        None => RemoteAnswer::Gone,
    }
}
