//! Limits a stage's work: its `timeout`, and isolation of its panics. The caller decides when the time starts.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt as _;

use base::diag::panic_text;
use base::event::{Done, Failure, FailureKind, Stop};

/// What panics where a stage does.
pub(super) const STAGE_CODE: &str = "the stage's own code";

/// Work as a task of its own, so that a panic in a stage is a failure of that stage and not the end of the run, and
/// work that blocks its thread delays neither the time limit nor a heartbeat of the caller.
pub fn isolate_panics<W>(work: W) -> impl Future<Output = Result<Done, Failure>>
where
    W: Future<Output = Result<Done, Failure>> + Send + 'static,
{
    let working = tokio::spawn(work);
    async { working.await.unwrap_or_else(|panic| Err(panicked(STAGE_CODE, &panic))) }
}

/// Work whose panic is a failure of its task, on the caller's own thread: for a caller that does nothing else
/// meanwhile, and that would otherwise not learn of its end. `what`: what panicked.
pub(super) async fn catch_panics<T>(what: &str, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|panic| Err(panicked(what, &panic_text(&*panic))))
}

/// Like `catch_panics`, for work that does not wait.
pub(super) fn panic_is_failure<T>(what: &str, work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(what, &panic_text(&*panic))))
}

fn panicked(what: &str, panic: &dyn std::fmt::Display) -> Failure {
    Failure::new(FailureKind::System, format!("{what} panicked: {panic}"))
}

/// Work with its time limit. At the limit it is requested to stop, waited for, and has failed regardless of its result;
/// unless it had to stop before the limit.
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
    if stop.is_requested() {
        return work.await;
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

    #[tokio::test(start_paused = true)]
    async fn a_task_that_ends_past_its_timeout_after_a_stop_request_is_interrupted() {
        let stop = Stop::new();
        let work = async {
            stop.requested().await;
            tokio::time::sleep(Duration::from_mins(2)).await;
            Err(Failure::new(FailureKind::Interrupted, "stopped"))
        };
        let request = async {
            tokio::time::sleep(Duration::from_mins(1)).await;
            stop.request();
        };
        let (ended, ()) = tokio::join!(within(Some(Duration::from_secs(90)), &stop, work), request);
        assert_eq!(ended.unwrap_err(), Failure::new(FailureKind::Interrupted, "stopped"));
    }

    #[tokio::test]
    async fn a_panic_is_a_failure_of_its_stage() {
        let none: Vec<Done> = Vec::new();
        let failure = isolate_panics(async move { Ok(none[0].clone()) }).await.unwrap_err();
        assert!(failure.what.starts_with("the stage's own code panicked: "), "{}", failure.what);
        let none: Vec<Done> = Vec::new();
        let failure = catch_panics(STAGE_CODE, async move { Ok(none[0].clone()) }).await.unwrap_err();
        assert!(failure.what.starts_with("the stage's own code panicked: index out of bounds"), "{}", failure.what);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn work_that_blocks_its_thread_delays_no_timer_of_the_caller() {
        let (send, receive) = std::sync::mpsc::channel();
        let blocks = isolate_panics(async move {
            receive.recv().unwrap();
            Ok(Done::default())
        });
        let timer = async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            send.send(()).unwrap();
        };
        let (done, ()) = tokio::join!(blocks, timer);
        assert!(done.is_ok());
    }
}
