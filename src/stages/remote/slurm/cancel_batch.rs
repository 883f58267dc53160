//! Cancels elements of arrays by number, since all share one name, and all concurrent requests with one `scancel`.

use std::collections::BTreeSet;

use parking_lot::Mutex;

use crate::stages::remote::slurm::commands::{CancelCommand, CancelError, Environment, QueueEntry, cancel};

/// Collects the elements to be cancelled. A request that arrives while `scancel` runs is in the next one.
#[derive(Debug, Default)]
pub struct CancelBatcher {
    wanted: Mutex<CancelRequest>,
    /// The result of the last query.
    turn: tokio::sync::Mutex<Option<CancelError>>,
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
        {
            let mut wanted = self.wanted();
            wanted.numbers.extend(numbers.iter().cloned());
            wanted.hard |= hard;
        }
        // Others see the same view of the queue in this moment.
        tokio::task::yield_now().await;
        let mut failed = self.turn.lock().await;
        let all = std::mem::take(&mut *self.wanted());
        if !all.numbers.is_empty() {
            let list: Vec<String> = all.numbers.into_iter().collect();
            let what = if all.hard { CancelCommand::KillNumbers(&list) } else { CancelCommand::Numbers(&list) };
            *failed = cancel(what, env).await.err();
        }
        // Empty: another caller has cancelled ours with its own.
        failed.clone().map_or(Ok(()), Err)
    }

    fn wanted(&self) -> parking_lot::MutexGuard<'_, CancelRequest> {
        self.wanted.lock()
    }
}

/// Numbers of what is not over.
pub fn unfinished_numbers(entries: &[QueueEntry]) -> Vec<String> {
    entries.iter().filter(|job| !job.state.is_final()).map(|job| job.number.clone()).collect()
}
