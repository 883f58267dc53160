//! Many waiters on one timer: users in their think time, and turns that pause.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::time::Instant;

use tokio::sync::{Notify, oneshot};

use super::Pacer;

#[derive(Default)]
pub(crate) struct Alarms {
    set: RefCell<BinaryHeap<Reverse<Alarm>>>,
    /// Notified when a new alarm becomes the earliest.
    earlier: Notify,
    count: Cell<u64>,
}

struct Alarm {
    due: Instant,
    /// Alarms of the same time fire in the order in which they were set.
    number: u64,
    wake: oneshot::Sender<()>,
}

impl Ord for Alarm {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}

impl PartialOrd for Alarm {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Alarm {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Alarm {}

impl Alarms {
    /// Wakes waiters when their time comes; never returns without an error.
    pub async fn run(&self, pacer: &Pacer) -> io::Result<std::convert::Infallible> {
        loop {
            let first = self.set.borrow().peek().map(|Reverse(alarm)| alarm.due);
            let Some(due) = first else {
                self.earlier.notified().await;
                continue;
            };
            tokio::select! {
                waited = pacer.until(due) => waited?,
                () = self.earlier.notified() => continue,
            }
            let now = Instant::now();
            let mut set = self.set.borrow_mut();
            while set.peek().is_some_and(|Reverse(alarm)| alarm.due <= now) {
                if let Some(Reverse(alarm)) = set.pop() {
                    // A waiter that was dropped needs no wake-up.
                    let _ = alarm.wake.send(());
                }
            }
        }
    }

    /// Returns at once when `due` has passed.
    pub async fn until(&self, due: Instant) {
        if due <= Instant::now() {
            return;
        }
        let (sender, receiver) = oneshot::channel();
        let number = self.count.get();
        self.count.set(number + 1);
        let is_first = self.set.borrow().peek().is_none_or(|Reverse(alarm)| due < alarm.due);
        self.set.borrow_mut().push(Reverse(Alarm { due, number, wake: sender }));
        if is_first {
            self.earlier.notify_one();
        }
        // An error would mean that `run` has ended, and then the task that waits here ends too.
        let _ = receiver.await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn every_alarm_rings_and_none_early() {
        let alarms = Alarms::default();
        let pacer = Pacer::new().unwrap();
        let start = Instant::now();
        let rung = RefCell::new(Vec::new());
        let wait = async |ms: u64| {
            let due = start + Duration::from_millis(ms);
            alarms.until(due).await;
            assert!(Instant::now() >= due);
            rung.borrow_mut().push(ms);
        };
        let all = async { tokio::join!(wait(30), wait(10), wait(0), wait(20), wait(10)) };
        tokio::select! {
            _ = alarms.run(&pacer) => unreachable!("alarms ring for ever"),
            _ = all => {}
        }
        rung.borrow_mut().sort_unstable();
        assert_eq!(*rung.borrow(), [0, 10, 10, 20, 30]);
    }
}
