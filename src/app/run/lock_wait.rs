//! Waiting for another run of this project.

use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use base::event::{Event, Stop};
use runner::store::{LockAttempt, PathError, ProjectLock, StateFolder, name_run};

/// How it ended.
pub(super) enum LockWait {
    Acquired(ProjectLock),
    /// A stop request came meanwhile.
    Interrupted,
    /// The other run keeps its servers up, and this one was not to wait for that.
    GaveWay,
}

/// Waits for another run of this project, reporting so once. `gives_way`: not for one that keeps its servers up, also if it begins
/// to do so meanwhile.
pub(super) fn take_lock(
    home: &StateFolder,
    gives_way: bool,
    stop: &Stop,
    send: &Sender<Option<Event>>,
) -> Result<LockWait, PathError> {
    let mut is_reported = false;
    let begun = Instant::now();
    loop {
        match ProjectLock::try_take(home, || name_run(home))? {
            LockAttempt::Acquired(lock) => return Ok(LockWait::Acquired(lock)),
            LockAttempt::No(held) => {
                if stop.is_requested() {
                    return Ok(LockWait::Interrupted);
                }
                if gives_way && held.as_ref().is_some_and(|held| held.serving) {
                    return Ok(LockWait::GaveWay);
                }
                if !is_reported {
                    is_reported = true;
                    let (run, pid) = held.map_or(("?".to_owned(), 0), |held| (held.run, held.pid));
                    let _ = send.send(Some(Event::Waiting { run, pid }));
                }
                pause(begun.elapsed(), stop);
            }
        }
    }
}

/// A tenth of the time that was waited: the other run may take hours, and each look is several requests to the server of a network
/// filesystem. A stop request ends it.
fn pause(waited: Duration, stop: &Stop) {
    const SHORTEST: Duration = Duration::from_millis(20);
    const LONGEST: Duration = Duration::from_secs(1);
    let (begun, pause) = (Instant::now(), (waited / 10).clamp(SHORTEST, LONGEST));
    while begun.elapsed() < pause && !stop.is_requested() {
        thread::sleep(SHORTEST);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_wait_ends_when_the_other_run_begins_to_serve() {
        let folder = tempfile::tempdir().unwrap();
        let home = StateFolder::new(folder.path().to_owned(), folder.path().join(".regatta"));
        let (send, receive) = channel();
        let stop = Stop::new();
        let LockWait::Acquired(lock) = take_lock(&home, true, &stop, &send).unwrap() else { panic!("it is free") };
        thread::scope(|scope| {
            let waiting = scope.spawn(|| take_lock(&home, true, &stop, &send).unwrap());
            assert!(matches!(receive.recv(), Ok(Some(Event::Waiting { .. }))));
            lock.show_serving().unwrap();
            assert!(matches!(waiting.join(), Ok(LockWait::GaveWay)));
        });
    }
    #[test]
    fn a_stop_request_ends_a_pause() {
        let stop = Stop::new();
        stop.request();
        let begun = Instant::now();
        pause(Duration::from_hours(1), &stop);
        assert!(begun.elapsed() < Duration::from_millis(500));
    }
}
