//! When a server may be tried again that could not be reached, and which requests learn of it.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, MutexGuard};

use super::connect_error::ConnectError;

/// From a failed attempt to the next. A request waits at most so long for an attempt of its own, and a dead server costs a worker no more
/// than a few attempts a second.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// Attempts to connect to one server. While the last one failed there is one at a time, and a request that waits for it shares its error:
/// none fails by an attempt that was made before it needed a connection.
#[derive(Default)]
pub(crate) struct ConnectAttempts {
    /// The last one, if it failed: when that was known.
    failed: RefCell<Option<(Instant, ConnectError)>>,
    turn: Mutex<()>,
}

/// Held by the one request that may connect now.
pub(crate) struct ConnectTurn<'a> {
    _alone: Option<MutexGuard<'a, ()>>,
}

impl ConnectAttempts {
    /// Waits until a request may connect that has needed a connection since `asked`. An error is that of another request's attempt, which
    /// has failed meanwhile.
    pub async fn turn(&self, asked: Instant) -> Result<ConnectTurn<'_>, ConnectError> {
        if self.failed.borrow().is_none() {
            return Ok(ConnectTurn { _alone: None });
        }
        let alone = self.turn.lock().await;
        let next = match &*self.failed.borrow() {
            // The server is back: all who waited connect at once.
            None => return Ok(ConnectTurn { _alone: None }),
            Some((at, error)) if *at >= asked => return Err(error.clone()),
            Some((at, _)) => *at + RETRY_AFTER,
        };
        tokio::time::sleep_until(next.into()).await;
        Ok(ConnectTurn { _alone: Some(alone) })
    }

    /// To be called with the outcome of every attempt, before its turn ends.
    pub fn note<T>(&self, outcome: &Result<T, ConnectError>) {
        *self.failed.borrow_mut() = outcome.as_ref().err().map(|error| (Instant::now(), error.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_failed_attempt_is_that_of_all_who_waited_for_it_and_of_nobody_later() {
        let attempts = ConnectAttempts::default();
        let begin = Instant::now();
        let first = attempts.turn(begin).await.unwrap();
        attempts.note(&Err::<(), _>(ConnectError::NoAddress));
        drop(first);
        assert!(attempts.turn(begin).await.is_err());

        let asked = Instant::now();
        let turn = attempts.turn(asked).await.unwrap();
        assert!(asked.elapsed() >= RETRY_AFTER / 2);
        let waiting = attempts.turn(asked);
        let fail = async {
            tokio::task::yield_now().await;
            attempts.note(&Err::<(), _>(ConnectError::NoAddress));
            drop(turn);
        };
        assert!(tokio::join!(waiting, fail).0.is_err());

        let turn = attempts.turn(Instant::now()).await.unwrap();
        let waiting = async { tokio::join!(attempts.turn(Instant::now()), attempts.turn(Instant::now())) };
        let succeed = async {
            tokio::task::yield_now().await;
            attempts.note(&Ok(()));
            drop(turn);
        };
        let ((one, two), ()) = tokio::join!(waiting, succeed);
        assert!(one.is_ok() && two.is_ok());
    }
}
