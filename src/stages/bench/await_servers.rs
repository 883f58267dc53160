//! Servers that are still loading when a benchmark begins: waited for, where `ready_timeout` says for how long.

use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use super::unused_proxy::unused_proxy;
use crate::task_context::TaskContext;
use base::event::{Failure, FailureKind};
use harness::BenchSpec;

/// The pause before a server that is not ready is queried again.
const PAUSE: Duration = Duration::from_millis(250);

/// Returns when every server is ready.
///
/// # Errors
/// One is not ready after `limit`, or the run is stopped.
pub(super) async fn await_servers(context: &TaskContext, spec: &BenchSpec, limit: Duration) -> Result<(), Failure> {
    let begun = Instant::now();
    let mut last = "not queried yet".to_owned();
    for (ready, endpoint) in spec.endpoints.iter().enumerate() {
        let wait = async {
            while let Err(why) = harness::readiness(endpoint, spec).await {
                let text = format!("waiting for {endpoint}, {} s: {why}", begun.elapsed().as_secs());
                context.lease.report_progress(text, ready as u64, Some(spec.endpoints.len() as u64));
                last = why.to_string();
                sleep(PAUSE).await;
            }
        };
        let waited = tokio::select! {
            biased;
            waited = timeout(limit.saturating_sub(begun.elapsed()), wait) => waited,
            () = context.lease.stop.requested() => {
                return Err(Failure::new(FailureKind::Interrupted, "stopped before every server was ready"));
            }
        };
        if waited.is_err() {
            let what = format!("{endpoint} was not ready within {limit:?}: {last}");
            let hint = unused_proxy(&endpoint.host)
                .unwrap_or_else(|| "does it still load? `ready_timeout` sets how long it is waited for".to_owned());
            return Err(Failure::new(FailureKind::Service, what).hint(hint));
        }
    }
    Ok(())
}
