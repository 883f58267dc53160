//! Limits a stage's work: its `timeout`, and isolation of its panics. The caller decides when the time starts.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt as _;

use crate::diag::panic_text;
use crate::event::{Done, Failure, FailureKind, Stop};

/// Work whose panic is a failure of its stage and not the end of the run. What it holds is dropped then, and used by nobody after.
pub async fn isolate_panics(work: impl Future<Output = Result<Done, Failure>>) -> Result<Done, Failure> {
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|panic| {
        let what = format!("the stage's own code panicked: {}", panic_text(&*panic));
        Err(Failure::new(FailureKind::System, what))
    })
}

/// Work with its time limit. At the limit it is requested to stop, waited for, and has failed regardless of its result.
pub async fn within(
    limit: Option<Duration>,
    stop: &Stop,
    work: impl Future<Output = Result<Done, Failure>>,
) -> Result<Done, Failure> {
    let mut work = pin!(work);
    let Some(limit) = limit else { return work.await };
    if let Ok(done) = tokio::time::timeout(limit, &mut work).await {
        return done;
    }
    stop.request();
    let mut failure = work.await.err().unwrap_or_else(|| Failure::new(FailureKind::Timeout, ""));
    failure.kind = FailureKind::Timeout;
    failure.what = format!("it ran past its timeout of {}", shown(limit));
    Err(failure)
}

fn shown(time: Duration) -> String {
    let s = time.as_secs();
    match (s / 3600, s % 3600 / 60, s % 60) {
        (0, 0, _) => format!("{} s", time.as_secs_f64()),
        (0, m, 0) => format!("{m} min"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_timed_out_task_is_stopped_and_fails_even_if_it_exits_0() {
        let stop = Stop::new();
        let until_stop_requested = || async {
            stop.requested().await;
            Ok(Done::default())
        };
        let late = within(Some(Duration::from_secs(90)), &stop, until_stop_requested()).await.unwrap_err();
        assert_eq!((late.kind, late.what.as_str()), (FailureKind::Timeout, "it ran past its timeout of 1 min 30 s"));
        assert!(
            within(Some(Duration::from_secs(1)), &stop, until_stop_requested()).await.is_ok(),
            "stopped already, and in time"
        );
        assert!(within(None, &stop, until_stop_requested()).await.is_ok());
    }

    #[tokio::test]
    async fn a_panic_is_a_failure_of_its_stage() {
        let dones = [Done::default()];
        let indexes = async |at: usize| Ok(dones[at].clone());
        assert!(isolate_panics(indexes(0)).await.is_ok());
        let failure = isolate_panics(indexes(1)).await.unwrap_err();
        assert!(failure.what.starts_with("the stage's own code panicked: index out of bounds"), "{}", failure.what);
    }
}
