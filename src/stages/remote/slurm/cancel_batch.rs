//! Cancels elements of arrays by number, since all share one name, and all concurrent requests with one `scancel`.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use parking_lot::Mutex;

use crate::remote::slurm::commands::{CancelCommand, CancelError, Environment, QueueEntry, cancel, clusters_of};

/// Collects the elements to be cancelled. A request that arrives while `scancel` runs is in the next one.
#[derive(Debug, Default)]
pub struct CancelBatcher {
    /// By the clusters that they are on.
    wanted: Mutex<BTreeMap<Option<OsString>, CancelRequest>>,
    /// The result of the last query, by the same.
    turn: tokio::sync::Mutex<BTreeMap<Option<OsString>, CancelError>>,
}

#[derive(Debug, Default)]
struct CancelRequest {
    numbers: BTreeSet<String>,
    hard: bool,
}

impl CancelBatcher {
    /// `Ok` when the controller has received it. `hard`: KILL at once.
    pub async fn cancel(&self, numbers: &[String], hard: bool, env: &Environment) -> Result<(), CancelError> {
        if numbers.is_empty() {
            return Ok(());
        }
        let clusters = clusters_of(env).map(OsString::from);
        {
            let mut wanted = self.wanted.lock();
            let wanted = wanted.entry(clusters.clone()).or_default();
            wanted.numbers.extend(numbers.iter().cloned());
            wanted.hard |= hard;
        }
        // Others see the same view of the queue in this moment.
        tokio::task::yield_now().await;
        let mut failed = self.turn.lock().await;
        let all = self.wanted.lock().remove(&clusters).unwrap_or_default();
        if !all.numbers.is_empty() {
            let list: Vec<String> = all.numbers.into_iter().collect();
            let what = if all.hard { CancelCommand::KillNumbers(&list) } else { CancelCommand::Numbers(&list) };
            match cancel(what, env).await {
                Ok(()) => failed.remove(&clusters),
                Err(error) => failed.insert(clusters.clone(), error),
            };
        }
        // Empty: another caller has cancelled ours with its own.
        failed.get(&clusters).cloned().map_or(Ok(()), Err)
    }
}

/// Numbers of what is not over.
pub fn unfinished_numbers(entries: &[QueueEntry]) -> Vec<String> {
    entries.iter().filter(|job| !job.state.is_final()).map(|job| job.number.clone()).collect()
}
