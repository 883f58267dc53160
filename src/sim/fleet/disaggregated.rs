//! Disaggregated servers: context servers compute prompts, generation servers the answers, and the KV cache goes from
//! one to the other over a link.
//!
//! The requests of context servers do not depend on what generation servers do, so context servers are always ahead;
//! what they have sent waits here until its time has come.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::arrivals::{Balancer, FailureTimes, FleetArrival, PrefixCache};
use super::replica::Replica;
use crate::core::{EngineLimits, NeverFits, SchedulerPolicy};
use base::spec::Prefixes;

/// Context servers and generation servers behind one router.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Disaggregation {
    pub context_servers: usize,
    pub generation_servers: usize,
    /// To which context server a prompt goes, and to which generation server its cache.
    pub router: Balancer,
    /// From each GPU of a context server, GB/s.
    pub kv_link_gbs: f64,
}

impl Disaggregation {
    /// The servers multiplied by `times`, with the same router.
    pub(super) const fn times(self, times: usize) -> Self {
        Self {
            context_servers: self.context_servers * times,
            generation_servers: self.generation_servers * times,
            ..self
        }
    }
}

/// A request that has all of its tokens. Times are nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DisaggregatedAnswer {
    /// The place of the request among the arrivals.
    pub number: u64,
    pub arrival: FleetArrival,
    pub first: u64,
    pub last: u64,
    /// How often it lost its KV cache.
    pub pauses: u32,
}

/// What the servers did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DisaggregatedWork {
    pub busy_ns: u64,
    pub steps: u64,
    pub prefix_hits: u64,
    /// Failures of servers, and requests that began again because of them.
    pub failures: u64,
    pub retried: u64,
}

/// When each server fails, the context servers first.
#[derive(Default)]
pub(crate) struct ServerFailures(pub(super) Vec<FailureTimes>);

/// Where a request is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// No context server is up.
    Waiting,
    Context(usize),
    /// Its cache is on its way from this context server.
    Link(usize),
    /// Its cache is sent, and no generation server is up.
    Sent,
    Generation(usize),
}

/// A request inside.
#[derive(Clone, Copy)]
struct Live {
    number: u64,
    arrival: FleetArrival,
    place: Place,
    first: Option<u64>,
}

struct Disaggregated<'a> {
    limits: &'a EngineLimits,
    setup: &'a Disaggregation,
    contexts: Vec<Replica>,
    generations: Vec<Replica>,
    /// When the link of each context server is free.
    links: Vec<u64>,
    /// Caches on their way: when they are there, and whose.
    sent: BinaryHeap<Reverse<(u64, u64)>>,
    live: Vec<Option<Live>>,
    free: Vec<u64>,
    turns: [usize; 2],
    failures: ServerFailures,
    /// Requests that came while no context server was up, and caches that came while no generation server was.
    waiting: VecDeque<u64>,
    held: VecDeque<u64>,
    work: DisaggregatedWork,
}

/// Runs a load to its end. Arrivals are in the order of time.
///
/// TensorRT-LLM's generation server begins with the second token, and hands out the first one when the request has a
/// place in a step; vLLM's computes the last token of the prompt again, and makes all tokens. The blocks of a prompt
/// are free on its context server as soon as it is computed. A request of a server that fails, or whose cache is on its
/// way from it, begins again with its prompt.
pub(crate) fn run_disaggregated(
    limits: &EngineLimits,
    setup: &Disaggregation,
    prefixes: Option<Prefixes>,
    failures: ServerFailures,
    arrivals: impl Iterator<Item = FleetArrival>,
    mut answered: impl FnMut(DisaggregatedAnswer),
) -> Result<DisaggregatedWork, NeverFits> {
    let (cache, left) = PrefixCache::new(limits, prefixes);
    let contexts = (0..setup.context_servers.max(1)).map(|_| Replica::new(&left, cache.clone())).collect::<Vec<_>>();
    let mut servers = Disaggregated {
        limits,
        setup,
        links: vec![0; contexts.len()],
        contexts,
        generations: (0..setup.generation_servers.max(1))
            .map(|_| Replica::new(limits, PrefixCache::default()))
            .collect(),
        sent: BinaryHeap::new(),
        live: Vec::new(),
        free: Vec::new(),
        turns: [0; 2],
        failures,
        waiting: VecDeque::new(),
        held: VecDeque::new(),
        work: DisaggregatedWork::default(),
    };
    for (number, arrival) in (0..).zip(arrivals) {
        servers.change_until(arrival.at, &mut answered)?;
        servers.until(arrival.at, &mut answered)?;
        servers.arrive(number, arrival);
    }
    // What is inside can only end while there is a server of each kind.
    while !servers.can_end() {
        let next = servers.failures.0.iter().map(FailureTimes::next).min().unwrap_or(u64::MAX);
        servers.change_until(next, &mut answered)?;
    }
    servers.until(u64::MAX, &mut answered)?;
    for at in 0..servers.generations.len() {
        servers.generate(at, u64::MAX, &mut answered)?;
    }
    let mut work = servers.work;
    let both = || servers.contexts.iter().chain(&servers.generations);
    work.busy_ns = both().map(Replica::busy).sum();
    work.steps = both().map(Replica::steps).sum();
    Ok(work)
}

impl Disaggregated<'_> {
    /// A request comes, which is not before any time until which the servers ran.
    fn arrive(&mut self, number: u64, arrival: FleetArrival) {
        let live = Live { number, arrival, place: Place::Waiting, first: None };
        let id = if let Some(id) = self.free.pop() {
            self.live[id as usize] = Some(live);
            id
        } else {
            self.live.push(Some(live));
            self.live.len() as u64 - 1
        };
        self.enter(arrival.at, id);
    }

    /// A request begins, or begins again.
    fn enter(&mut self, now: u64, id: u64) {
        let Some(live) = &mut self.live[id as usize] else { return };
        let arrival = live.arrival;
        let Some(at) = self.setup.router.choose(&self.contexts, arrival.prefix, &mut self.turns[0]) else {
            live.place = Place::Waiting;
            self.waiting.push_back(id);
            return;
        };
        live.place = Place::Context(at);
        let is_prefix_hit = self.contexts[at].take(now, id, &FleetArrival { osl: 1, ..arrival });
        self.work.prefix_hits += u64::from(is_prefix_hit);
    }

    fn can_end(&self) -> bool {
        let any_up = |servers: &[Replica]| servers.iter().any(Replica::is_up);
        self.waiting.is_empty() && self.held.is_empty() && any_up(&self.contexts) && any_up(&self.generations)
    }

    /// Failures and repairs until a time.
    fn change_until(&mut self, until: u64, answered: &mut impl FnMut(DisaggregatedAnswer)) -> Result<(), NeverFits> {
        loop {
            let next = self.failures.0.iter().map(FailureTimes::next).enumerate().min_by_key(|&(at, next)| (next, at));
            let Some((at, now)) = next.filter(|&(_, now)| now <= until && now < u64::MAX) else { return Ok(()) };
            self.until(now, answered)?;
            let contexts = self.contexts.len();
            if let Some(generation) = at.checked_sub(contexts) {
                self.change_generation(generation, now, answered)?;
            } else {
                self.change_context(at, now);
            }
        }
    }

    fn change_context(&mut self, at: usize, now: u64) {
        if self.contexts[at].is_up() {
            self.failures.0[at].fails_at(now);
            self.contexts[at].fail();
            self.links[at] = now;
            self.begin_again(now, |place| place == Place::Context(at) || place == Place::Link(at));
            return;
        }
        self.contexts[at].come_back(now);
        self.failures.0[at].runs_from(now);
        for id in std::mem::take(&mut self.waiting) {
            self.enter(now, id);
        }
    }

    fn change_generation(
        &mut self,
        at: usize,
        now: u64,
        answered: &mut impl FnMut(DisaggregatedAnswer),
    ) -> Result<(), NeverFits> {
        let times = self.contexts.len() + at;
        if self.generations[at].is_up() {
            self.generate(at, now, answered)?;
            self.failures.0[times].fails_at(now);
            self.generations[at].fail();
            self.begin_again(now, |place| place == Place::Generation(at));
            return Ok(());
        }
        self.generations[at].come_back(now);
        self.failures.0[times].runs_from(now);
        for id in std::mem::take(&mut self.held) {
            self.place(now, id, answered)?;
        }
        Ok(())
    }

    /// The requests at these places lost what was computed of them. In the order of their arrival.
    fn begin_again(&mut self, now: u64, is_lost: impl Fn(Place) -> bool) {
        let inside = self.live.iter().enumerate().filter_map(|(id, live)| Some((id as u64, live.as_ref()?)));
        let mut lost: Vec<(u64, u64)> =
            inside.filter(|(_, live)| is_lost(live.place)).map(|(id, live)| (live.number, id)).collect();
        lost.sort_unstable();
        self.sent.retain(|Reverse((_, id))| !lost.iter().any(|(_, one)| one == id));
        self.work.failures += 1;
        self.work.retried += lost.len() as u64;
        for (_, id) in lost {
            self.enter(now, id);
        }
    }

    /// Context servers run until a time, and the caches that are there by then go to generation servers.
    fn until(&mut self, now: u64, answered: &mut impl FnMut(DisaggregatedAnswer)) -> Result<(), NeverFits> {
        let token_ns = self.limits.kv_bytes_per_token / self.setup.kv_link_gbs;
        let generates_all = self.limits.policy == SchedulerPolicy::Vllm;
        for at in 0..self.contexts.len() {
            if self.contexts[at].event() > now {
                continue;
            }
            let Self { contexts, links, sent, live, free, .. } = self;
            contexts[at].advance(now, |end, token| {
                let Some(request) = &mut live[token.id as usize] else { return };
                let Live { number, arrival, .. } = *request;
                if arrival.osl == 1 && !generates_all {
                    answered(DisaggregatedAnswer { number, arrival, first: end, last: end, pauses: token.pauses });
                    live[token.id as usize] = None;
                    free.push(token.id);
                    return;
                }
                request.place = Place::Link(at);
                links[at] = links[at].max(end) + (token_ns * arrival.isl as f64) as u64;
                sent.push(Reverse((links[at], token.id)));
            })?;
        }
        while let Some(&Reverse((there, id))) = self.sent.peek().filter(|Reverse((there, _))| *there <= now) {
            self.sent.pop();
            self.place(there, id, answered)?;
        }
        Ok(())
    }

    /// The cache of a request is there for a generation server.
    fn place(&mut self, now: u64, id: u64, answered: &mut impl FnMut(DisaggregatedAnswer)) -> Result<(), NeverFits> {
        if self.setup.router != Balancer::RoundRobin {
            for at in 0..self.generations.len() {
                if self.generations[at].event() <= now {
                    self.generate(at, now, answered)?;
                }
            }
        }
        let chosen = self.setup.router.choose(&self.generations, None, &mut self.turns[1]);
        let Some(live) = &mut self.live[id as usize] else { return Ok(()) };
        let arrival = live.arrival;
        let Some(at) = chosen else {
            live.place = Place::Sent;
            self.held.push_back(id);
            return Ok(());
        };
        live.place = Place::Generation(at);
        self.generate(at, now, answered)?;
        let (isl, osl) = if self.limits.policy == SchedulerPolicy::Vllm {
            (arrival.isl, arrival.osl)
        } else {
            (arrival.isl + 1, arrival.osl - 1)
        };
        self.generations[at].take_cached(now, id, &FleetArrival { isl, osl, ..arrival });
        Ok(())
    }

    fn generate(
        &mut self,
        at: usize,
        until: u64,
        answered: &mut impl FnMut(DisaggregatedAnswer),
    ) -> Result<(), NeverFits> {
        let Self { generations, live, free, limits, .. } = self;
        generations[at].advance(until, |now, token| {
            let Some(request) = &mut live[token.id as usize] else { return };
            let first_of_all = if limits.policy == SchedulerPolicy::Vllm { now } else { token.scheduled };
            let first = *request.first.get_or_insert(first_of_all);
            if token.is_last {
                let Live { number, arrival, .. } = *request;
                answered(DisaggregatedAnswer { number, arrival, first, last: now, pauses: token.pauses });
                live[token.id as usize] = None;
                free.push(token.id);
            }
        })
    }
}
