//! The core on a virtual clock: a whole load in milliseconds of real time.
//!
//! A closed loop on the virtual clock: users who wait for an answer before they send the next request.

use super::scheduler::EngineLimits;
use super::{Core, CoreRequest, CoreTokens, NeverFits};
use std::collections::VecDeque;

/// One request of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimulatedRequest {
    /// Nanoseconds.
    pub at: u64,
    pub isl: u64,
    pub osl: u64,
    /// The LoRA adapter that it names.
    pub adapter: Option<u64>,
}

impl SimulatedRequest {
    /// Without an adapter.
    pub const fn new(at: u64, isl: u64, osl: u64) -> Self {
        Self { at, isl, osl, adapter: None }
    }

    /// As it enters the core.
    pub(super) const fn with_id(&self, id: u64) -> CoreRequest {
        CoreRequest { id, isl: self.isl, osl: self.osl, adapter: self.adapter }
    }
}

/// The outcome of one request. Times are nanoseconds of the virtual clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    pub first: u64,
    pub last: u64,
    pub tokens: u64,
    pub pauses: u32,
}

impl Served {
    /// Some of its tokens, which came at `now`.
    pub(super) fn take(&mut self, token: &CoreTokens, now: u64) {
        if token.index == 0 {
            self.first = now;
        }
        if token.is_last {
            *self = Self { last: now, tokens: token.index + token.count, pauses: token.pauses, ..*self };
        }
    }
}

/// The outcome of a load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VirtualRun {
    /// In the order of the load.
    pub requests: Vec<Served>,
    pub end: u64,
    pub steps: u64,
    pub peak_blocks: u64,
}

/// Runs a load to its end. Requests enter in the order of time, then of their place in the load.
pub fn simulate(limits: &EngineLimits, load: &[SimulatedRequest]) -> Result<VirtualRun, NeverFits> {
    let mut order: Vec<usize> = (0..load.len()).collect();
    order.sort_by_key(|&at| (load[at].at, at));
    Ok(run(limits, load, load.to_vec(), order.into(), 0)?.1)
}

/// These requests in turn, whatever their arrivals. Each of the users sends its next one when its answer has ended.
/// Returns the requests with the times at which they were sent, and the outcome of each.
pub fn simulate_users(
    limits: &EngineLimits,
    requests: &[SimulatedRequest],
    users: usize,
) -> Result<(Vec<SimulatedRequest>, VirtualRun), NeverFits> {
    run(limits, requests, Vec::with_capacity(requests.len()), VecDeque::new(), users.max(1))
}

/// `sent` are the first of the requests, `entering` their places in the order in which they enter; users send the
/// others.
fn run(
    limits: &EngineLimits,
    requests: &[SimulatedRequest],
    mut sent: Vec<SimulatedRequest>,
    mut entering: VecDeque<usize>,
    mut free_users: usize,
) -> Result<(Vec<SimulatedRequest>, VirtualRun), NeverFits> {
    let mut core = Core::new(limits.clone());
    let mut served = vec![Served::default(); requests.len()];
    let (mut now, mut free_since, mut next_entry) = (0, 0, 0);
    loop {
        // Answers end in the order of time, so requests enter in the order in which they were sent.
        while free_users > 0 && sent.len() < requests.len() {
            entering.push_back(sent.len());
            sent.push(SimulatedRequest { at: free_since, ..requests[sent.len()] });
            free_users -= 1;
        }
        while let Some(id) = entering.pop_front_if(|id| limits.timing.admitted(sent[*id].at, next_entry).0 <= now) {
            next_entry = limits.timing.admitted(sent[id].at, next_entry).1;
            core.arrive(sent[id].with_id(id as u64))?;
        }
        let next = entering.front().map(|id| limits.timing.admitted(sent[*id].at, next_entry).0);
        let Some(step) = core.begin(now) else {
            let Some(next) = next else { break };
            now = next;
            continue;
        };
        (now, free_since) = (step.end, step.sent);
        core.finish(false, |token| {
            served[token.id as usize].take(&token, step.sent);
            free_users += usize::from(token.is_last);
        });
        // A user that is free sends at once.
        if free_users == 0 || sent.len() == requests.len() {
            now = core.run_equal_steps(now, next.unwrap_or(u64::MAX));
        }
    }
    Ok((sent, VirtualRun { requests: served, end: now, steps: core.steps, peak_blocks: core.peak_blocks }))
}
