//! One balancer and its replicas, from the first arrival to the last answer.

use std::collections::VecDeque;

use super::arrivals::{FleetArrival, FleetArrivals};
use super::balancer::Balancer;
use super::failures::FailureTimes;
use super::replica::Replica;
use super::result::FleetResult;
use crate::core::{CoreTokens, NeverFits};

/// A request that has not ended.
#[derive(Clone, Copy)]
struct Live {
    request: FleetArrival,
    /// `None`: no replica is up, it waits at the balancer.
    replica: Option<usize>,
    /// When its first token came, once it has.
    first: Option<u64>,
}

/// The requests inside. A place is used again, so that it stays as small as the queue.
#[derive(Default)]
struct LiveRequests {
    places: Vec<Option<Live>>,
    free: Vec<u64>,
}

impl LiveRequests {
    fn add(&mut self, live: Live) -> u64 {
        if let Some(id) = self.free.pop() {
            self.places[id as usize] = Some(live);
            return id;
        }
        self.places.push(Some(live));
        self.places.len() as u64 - 1
    }

    /// A token came.
    fn token(&mut self, now: u64, token: CoreTokens, result: &mut FleetResult) {
        let place = &mut self.places[token.id as usize];
        let Some(live) = place else { return };
        let first = *live.first.get_or_insert(now);
        if token.is_last {
            result.answered(live.request.at, first, now, live.request.osl);
            *place = None;
            self.free.push(token.id);
        }
    }
}

/// The replicas of one balancer.
pub(super) struct Balanced {
    policy: Balancer,
    replicas: Vec<Replica>,
    failures: Vec<FailureTimes>,
    live: LiveRequests,
    /// Those that came while no replica was up.
    waiting: VecDeque<u64>,
    turn: usize,
    result: FleetResult,
}

impl Balanced {
    pub(super) fn new(
        policy: Balancer,
        replicas: Vec<Replica>,
        failures: Vec<FailureTimes>,
        result: FleetResult,
    ) -> Self {
        Self { policy, replicas, failures, live: LiveRequests::default(), waiting: VecDeque::new(), turn: 0, result }
    }

    pub(super) fn run(mut self, arrivals: FleetArrivals<'_>) -> Result<FleetResult, NeverFits> {
        for request in arrivals {
            self.change_until(request.at)?;
            self.result.arrived(request.at);
            let id = self.live.add(Live { request, replica: None, first: None });
            self.place(request.at, id)?;
        }
        while !self.waiting.is_empty() {
            let next = self.failures.iter().map(FailureTimes::next).min().unwrap_or(u64::MAX);
            self.change_until(next)?;
        }
        for at in 0..self.replicas.len() {
            self.advance(at, u64::MAX)?;
        }
        for replica in &self.replicas {
            self.result.served(replica.busy(), replica.steps());
        }
        Ok(self.result)
    }

    fn advance(&mut self, at: usize, until: u64) -> Result<(), NeverFits> {
        let Self { replicas, live, result, .. } = self;
        replicas[at].advance(until, |now, token| live.token(now, token, result))
    }

    /// Gives a request to a replica.
    fn place(&mut self, now: u64, id: u64) -> Result<(), NeverFits> {
        if self.policy != Balancer::RoundRobin {
            for at in 0..self.replicas.len() {
                if self.replicas[at].event() <= now {
                    self.advance(at, now)?;
                }
            }
        }
        let Some(live) = self.live.places[id as usize] else { return Ok(()) };
        let request = live.request;
        let chosen = self.policy.choose(&self.replicas, request.prefix, &mut self.turn);
        self.live.places[id as usize] = Some(Live { replica: chosen, ..live });
        let Some(at) = chosen else {
            self.waiting.push_back(id);
            return Ok(());
        };
        self.advance(at, now)?;
        if self.replicas[at].take(now, id, &request) {
            self.result.found_prefix();
        }
        Ok(())
    }

    /// Failures and repairs until a time.
    fn change_until(&mut self, until: u64) -> Result<(), NeverFits> {
        loop {
            let next = self.failures.iter().enumerate().min_by_key(|(at, times)| (times.next(), *at));
            let Some((at, now)) = next.map(|(at, times)| (at, times.next())).filter(|(_, now)| *now <= until) else {
                return Ok(());
            };
            if now == u64::MAX {
                return Ok(());
            }
            if self.replicas[at].is_up() {
                self.advance(at, now)?;
                self.replicas[at].fail();
                self.failures[at].fails_at(now);
                let mut lost: Vec<(u64, u64)> = Vec::new();
                for (id, live) in self.live.places.iter().enumerate() {
                    if let Some(live) = live.filter(|live| live.replica == Some(at)) {
                        lost.push((live.request.at, id as u64));
                    }
                }
                lost.sort_unstable();
                self.result.failed(lost.len() as u64);
                for (_, id) in lost {
                    self.place(now, id)?;
                }
            } else {
                self.replicas[at].come_back(now);
                self.failures[at].runs_from(now);
                for id in std::mem::take(&mut self.waiting) {
                    self.place(now, id)?;
                }
            }
        }
    }
}
