//! One replica: the core on its own clock, which is behind that of the balancer until it matters.

use std::collections::VecDeque;

use super::arrivals::FleetArrival;
use super::prefix_cache::PrefixCache;
use crate::core::{Core, CoreRequest, CoreTokens, EngineLimits, NeverFits};

/// A request on its way into the core.
struct Entering {
    /// When it is there, after the frontend.
    at: u64,
    request: CoreRequest,
}

/// A server.
pub(super) struct Replica {
    limits: EngineLimits,
    core: Core,
    prefixes: PrefixCache,
    entering: VecDeque<Entering>,
    /// The end of the last step, or when it became idle.
    now: u64,
    /// Of the step that runs.
    step_end: Option<u64>,
    /// Before this time its requests stay what they are.
    event: u64,
    requests: usize,
    is_up: bool,
    /// In steps, nanoseconds.
    busy: u64,
    steps: u64,
}

impl Replica {
    pub(super) fn new(limits: &EngineLimits, prefixes: PrefixCache) -> Self {
        Self {
            core: Core::new(limits.clone()),
            limits: limits.clone(),
            prefixes,
            entering: VecDeque::new(),
            now: 0,
            step_end: None,
            event: u64::MAX,
            requests: 0,
            is_up: true,
            busy: 0,
            steps: 0,
        }
    }

    pub(super) const fn is_up(&self) -> bool {
        self.is_up
    }

    pub(super) const fn requests(&self) -> usize {
        self.requests
    }

    pub(super) const fn event(&self) -> u64 {
        self.event
    }

    pub(super) const fn busy(&self) -> u64 {
        self.busy
    }

    pub(super) const fn steps(&self) -> u64 {
        self.steps + self.core.steps()
    }

    pub(super) fn has_prefix(&self, prefix: u32) -> bool {
        self.prefixes.has(prefix)
    }

    /// A request comes at `now`, which is not before any time that it was advanced to. True: its prefix was in the cache.
    pub(super) fn take(&mut self, now: u64, id: u64, arrival: &FleetArrival) -> bool {
        let cached = arrival.prefix.map_or(0, |prefix| self.prefixes.use_prefix(prefix));
        let FleetArrival { isl, osl, adapter, .. } = *arrival;
        self.enter(now, CoreRequest { id, isl, osl, cached, adapter });
        cached > 0
    }

    /// Like `take`, where the KV cache of the whole prompt comes with it.
    pub(super) fn take_cached(&mut self, now: u64, id: u64, arrival: &FleetArrival) {
        let FleetArrival { isl, osl, adapter, .. } = *arrival;
        self.enter(now, CoreRequest { id, isl, osl, cached: isl, adapter });
    }

    fn enter(&mut self, now: u64, request: CoreRequest) {
        let at = now.saturating_add(self.limits.timing.frontend_ns());
        self.requests += 1;
        self.entering.push_back(Entering { at, request });
        self.event = self.event.min(at);
    }

    /// Ends the steps that end until `until` and begins those before it. Hands out first and last tokens, and their time.
    pub(super) fn advance(&mut self, until: u64, mut emit: impl FnMut(u64, CoreTokens)) -> Result<(), NeverFits> {
        loop {
            if let Some(end) = self.step_end {
                if end > until {
                    break;
                }
                self.step_end = None;
                self.now = end;
                let requests = &mut self.requests;
                self.core.finish_with_ends(|token| {
                    *requests -= usize::from(token.is_last);
                    if token.index == 0 || token.is_last {
                        emit(end, token);
                    }
                });
            }
            let next = self.entering.front().map_or(u64::MAX, |entering| entering.at);
            let end = self.core.run_equal_steps(self.now, next.min(until));
            self.busy += end - self.now;
            self.now = end;
            while let Some(entering) = self.entering.pop_front_if(|entering| entering.at <= self.now) {
                self.core.arrive(entering.request)?;
            }
            if self.now >= until {
                break;
            }
            if let Some(step) = self.core.begin(self.now) {
                self.busy += step.end - self.now;
                self.step_end = Some(step.end);
            } else if let Some(entering) = self.entering.front().filter(|entering| entering.at < until) {
                self.now = entering.at;
            } else {
                break;
            }
        }
        self.event = self.next_event();
        Ok(())
    }

    fn next_event(&self) -> u64 {
        let enters = self.entering.front().map_or(u64::MAX, |entering| entering.at);
        if let Some(end) = self.step_end {
            end
        } else if self.core.is_idle() {
            enters
        } else {
            self.core.end_of_equal_steps(self.now).unwrap_or(self.now).min(enters)
        }
    }

    /// Loses everything.
    pub(super) fn fail(&mut self) {
        self.steps += self.core.steps();
        self.core = Core::new(self.limits.clone());
        self.entering.clear();
        self.prefixes.clear();
        self.step_end = None;
        self.event = u64::MAX;
        self.requests = 0;
        self.is_up = false;
    }

    pub(super) fn come_back(&mut self, now: u64) {
        self.now = self.now.max(now);
        self.is_up = true;
    }
}
