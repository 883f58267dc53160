//! One request on its way, and what is counted while it is.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::clock::Clock;
use super::collect::Collector;
use super::exchange::{Answer, Call, Exchange};
use super::link::Link;
use super::record::{Ended, Record};
use super::{Planned, Spec};

/// What others may watch while it runs.
#[derive(Debug, Default)]
pub(super) struct Live {
    pub issued: AtomicU64,
    pub ended: AtomicU64,
    pub failed: AtomicU64,
    pub tokens: AtomicU64,
}

/// Requests in flight, integrated over time: the side of Little's law that does not come from records.
#[derive(Default)]
pub(super) struct Gauge {
    now: Cell<u64>,
    since: Cell<u64>,
    area: Cell<f64>,
}

impl Gauge {
    /// `at` does not go back.
    pub fn change(&self, at: u64, by: i64) {
        self.area.set(self.area.get() + self.now.get() as f64 * (at.saturating_sub(self.since.get())) as f64);
        self.since.set(at);
        self.now.set(self.now.get().saturating_add_signed(by));
    }

    pub const fn now(&self) -> u64 {
        self.now.get()
    }

    /// request·ns
    pub const fn area(&self) -> f64 {
        self.area.get()
    }
}

/// One request on its way.
pub(super) struct Flight {
    pub link: Rc<Link>,
    pub index: u64,
    pub planned: Planned,
    pub frame: Bytes,
    pub call: Call,
    pub t0: u64,
    pub collector: Rc<RefCell<Collector>>,
    pub gauge: Rc<Gauge>,
    pub freed: Rc<Notify>,
    pub spec: Arc<Spec>,
    pub live: Arc<Live>,
    pub clock: Clock,
    pub stop: CancellationToken,
    pub t_issue: u64,
}

impl Flight {
    pub async fn go(self) {
        let mut chunks = Vec::with_capacity(self.planned.output_len.min(4096) as usize);
        let Answer { ended, final_marker, t_end } = Exchange {
            link: &self.link,
            call: self.call,
            frame: self.frame,
            asked_tokens: self.planned.output_len,
            end_id: self.spec.end_id,
            clock: self.clock,
            stall: self.spec.stall_timeout,
            t_issue: self.t_issue,
        }
        .perform(&self.stop, &mut chunks, |ns| self.collector.borrow_mut().backlog.add(ns as f64, 1))
        .await;
        self.gauge.change(t_end, -1);
        self.link.in_flight.set(self.link.in_flight.get() - 1);
        self.freed.notify_one();
        for chunk in &mut chunks {
            chunk.t_read = chunk.t_read.saturating_sub(self.t0);
        }
        let tokens = chunks.iter().map(|chunk| u64::from(chunk.tokens)).sum();
        self.live.tokens.fetch_add(tokens, Ordering::Relaxed);
        self.live.failed.fetch_add(u64::from(matches!(ended, Ended::Failed { .. })), Ordering::Relaxed);
        self.live.ended.fetch_add(1, Ordering::Relaxed);
        let record = Record {
            index: self.index,
            endpoint: self.link.endpoint,
            input_tokens: self.planned.input_len,
            asked_tokens: self.planned.output_len,
            tokens: 0,
            first_tokens: 0,
            chunks: 0,
            final_marker,
            t_sched: self.planned.at_ns,
            t_issue: self.t_issue.saturating_sub(self.t0),
            t_first: None,
            t_last: None,
            t_end: t_end.saturating_sub(self.t0),
            max_gap: 0,
            ended,
            timeline: Vec::new(),
        };
        self.collector.borrow_mut().take(record, &chunks);
    }
}
