//! What a user should know of a cached output whose source may be another by now: a branch, a tag, a revision of weights, an image's tag.

use std::path::Path;

use super::{git, resolved};
use crate::manifest::model::{Action, Image, Weights};
use crate::plan::{ActionKind, Task};

/// Of other kinds of stages there is nothing to report.
pub const MOVING_KINDS: [ActionKind; 3] = [ActionKind::Git, ActionKind::Weights, ActionKind::Image];

/// Names what was taken from the cache, and how to fetch it again. Where `may_query`, a clone's remote is queried whether it moved,
/// which blocks for a few seconds at most; hubs and registries are not.
pub fn source_notice(task: &Task, folder: &Path, may_query: bool) -> Option<String> {
    if !MOVING_KINDS.contains(&task.kind) {
        return None;
    }
    let recorded = |name: &str| Some(resolved(task, folder).ok()?.get(name)?.as_str()?.to_owned());
    let taken = match task.typed_action().ok()? {
        Action::Git(_) => return git::source_notice(folder, &task.stage, may_query),
        Action::Weights(Weights { hf: Some(_), revision, .. }) => {
            let commit = recorded("commit").filter(|commit| *commit != revision)?;
            format!("`revision: {revision}` is taken from the cache at commit {}", commit.get(..12).unwrap_or(&commit))
        }
        Action::Image(Image { pull: Some(name), .. }) if !name.contains("@sha256:") => {
            let id = recorded("id").map(|id| format!(" as {id}")).unwrap_or_default();
            format!("the tag `pull: {name}` is taken from the cache{id}")
        }
        _ => return None,
    };
    Some(format!("{taken}; `--force {}` fetches it again", task.stage))
}
