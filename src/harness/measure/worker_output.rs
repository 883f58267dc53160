//! What one worker reports at the end of a run.

use super::collector::Collector;
use crate::transport::request_encoder::{CallKind, TokenCounting};

/// The output of a worker.
pub(crate) struct WorkerOutput {
    pub collector: Collector,
    pub issued: u64,
    pub not_sent: u64,
    /// A stop was requested before everything had ended.
    pub was_stopped: bool,
    pub in_flight_at_end: u64,
    /// In-flight integral, request·ns, from a running gauge (not from records).
    pub in_flight_area: f64,
    /// CPU of this thread between start and end, without what was spun away while it waited for arrivals, ns.
    pub cpu_ns: u64,
    /// Time this thread waited for a core, ns; absent where the kernel does not report it.
    pub wait_ns: Option<u64>,
    pub wall_ns: u64,
    /// How often the next request in line waited because all connections were full.
    pub waited_for_stream: u64,
    /// How often an arrival waited because the limit on requests in flight was reached.
    pub deferred: u64,
    pub max_streams: Option<u64>,
    pub reconnects: u32,
    /// Kept HTTP connections that the server closed while they were idle.
    pub idle_closed: u64,
    /// Requests sent again because such a close crossed them on the way.
    pub resent: u64,
    /// Shared streams that were opened.
    pub streams: u64,
    /// HTTP/1.1 connections opened, before the start and after.
    pub opened: Option<u64>,
    pub call: CallKind,
    pub count: TokenCounting,
    /// How arrivals were timed.
    pub pacing: String,
}
