//! How much a checkpoint takes, before any of it is fetched.

use std::time::Duration;

use super::failures::refused;
use super::hub::{FetchError, Hub, read_listing};
use super::index::HubIndex;
use super::selection::chosen;
use super::token;
use base::event::Failure;
use plan::manifest::model::Weights;

/// Bytes of the files that are wanted of a repository, from its hub's index; `None` for a folder that is there already, of
/// which the output has links only. Blocks, for at most `limit`; not for use inside of a runtime.
///
/// # Errors
/// The hub does not answer, or not as expected: its message, and what to do about it.
pub fn weights_size(weights: &Weights, limit: Duration) -> Result<Option<u64>, Failure> {
    let Some(name) = &weights.hf else { return Ok(None) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| refused(format!("the hub cannot be queried: {error}")))?;
    runtime.block_on(async {
        let hub = Hub::new(name, token::find(&weights.token_env))?;
        let index = tokio::time::timeout(limit, hub.index(&weights.revision)).await;
        let index = index.map_err(|_| refused(format!("the hub has not answered for {} s", limit.as_secs())))??;
        size(&index, weights).map(Some)
    })
}

/// Like `weights_size`, of a hub's answer whose bytes are at hand, without a connection.
///
/// # Errors
/// It is no list of files, or names one that cannot be in an output folder.
pub fn listed_size(answer: &[u8], weights: &Weights) -> Result<u64, Failure> {
    let index = read_listing(answer, "the hub").map_err(|error| match error {
        FetchError::Broken(why) => refused(why),
        FetchError::Final(failure) => *failure,
    })?;
    size(&index, weights)
}

fn size(index: &HubIndex, weights: &Weights) -> Result<u64, Failure> {
    Ok(chosen(index, weights)?.iter().map(|file| file.size).sum())
}
