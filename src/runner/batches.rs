//! Tasks of one stage that are started in the same moment: each has a slot, and the code that would do them as one can
//! wait until every other one has reported whether it takes part. No clock is involved: the run loop knows what is
//! ready.

use std::sync::Arc;

use tokio::sync::watch;

use base::event::RunId;
use plan::{Lifetime, SharedTask, Task};

/// A place among tasks that are started together. Dropping it, at any point of its task, means that the task runs on
/// its own.
#[derive(Debug)]
pub struct BatchSlot {
    batch: Arc<str>,
    /// Counted from 0.
    pub ix: u32,
    undecided: Arc<watch::Sender<u32>>,
}

impl BatchSlot {
    /// Slots for `n` tasks. `batch`: no other batch has that name, of this run or of another.
    pub fn group(batch: &str, n: u32) -> Vec<Self> {
        let batch: Arc<str> = batch.into();
        let undecided = Arc::new(watch::Sender::new(n));
        (0..n).map(|ix| Self { batch: Arc::clone(&batch), ix, undecided: Arc::clone(&undecided) }).collect()
    }

    pub fn name(&self) -> &str {
        &self.batch
    }

    /// This one takes part. Resolves when all the others have decided, too.
    pub async fn all_decided(self) {
        let mut receiver = self.undecided.subscribe();
        drop(self);
        // Its sender may be gone by now: then the last number is 0.
        let _ = receiver.wait_for(|undecided| *undecided == 0).await;
    }
}

impl Drop for BatchSlot {
    fn drop(&mut self) {
        self.undecided.send_modify(|undecided| *undecided -= 1);
    }
}

/// A slot for each of these tasks that has company: tasks of one stage, elsewhere, with the same settings could be one
/// thing. `count`: of the run's batches so far.
pub(super) fn assign_slots(run: &RunId, count: &mut u32, tasks: &[SharedTask]) -> Vec<Option<BatchSlot>> {
    let mut slots: Vec<Option<BatchSlot>> = tasks.iter().map(|_| None).collect();
    for (ix, task) in tasks.iter().enumerate() {
        if slots[ix].is_some() || !can_batch_together(task, task) {
            continue;
        }
        let alike: Vec<usize> = (ix..tasks.len()).filter(|other| can_batch_together(task, &tasks[*other])).collect();
        if alike.len() < 2 {
            continue;
        }
        *count += 1;
        let name = format!("{run}-{count}");
        for (place, slot) in alike.iter().zip(BatchSlot::group(&name, alike.len() as u32)) {
            slots[*place] = Some(slot);
        }
    }
    slots
}

/// Whether two tasks request the same of another machine. Services are one by one: each is waited for.
fn can_batch_together(one: &Task, other: &Task) -> bool {
    one.host.is_some()
        && one.lifetime == Lifetime::Step
        && (&one.stage, &one.host, one.gpus, one.lifetime) == (&other.stage, &other.host, other.gpus, other.lifetime)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn each_member_waits_until_all_have_decided() {
        let mut slots = BatchSlot::group("p", 3).into_iter();
        let mut next = || slots.next().unwrap();
        let (first, second, third) = (next(), next(), next());
        assert_eq!((first.ix, third.ix, first.name()), (0, 2, "p"));
        let mut waiting = tokio::spawn(first.all_decided());
        drop(second);
        let early = tokio::time::timeout(Duration::from_millis(20), &mut waiting).await;
        assert!(early.is_err(), "the third may still come");
        third.all_decided().await;
        waiting.await.unwrap();
    }
}
