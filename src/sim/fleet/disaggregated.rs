//! Disaggregated servers: context servers compute prompts, generation servers the answers, and the KV cache goes from one to the
//! other over a link.
//!
//! The requests of context servers do not depend on what generation servers do, so context servers are always ahead; what they have
//! sent waits here until its time has come.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::arrivals::FleetArrival;
use super::balancer::Balancer;
use super::prefix_cache::PrefixCache;
use super::replica::Replica;
use crate::sim::core::{EngineLimits, NeverFits, SchedulerPolicy};
use crate::spec::Prefixes;

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

/// A request that has all of its tokens. Times are nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct DisaggregatedAnswer {
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
pub(in crate::sim) struct DisaggregatedWork {
    /// Of the context servers and of the generation servers.
    pub busy_ns: [u64; 2],
    pub steps: u64,
    pub prefix_hits: u64,
}

/// A request inside.
#[derive(Clone, Copy)]
struct Live {
    number: u64,
    arrival: FleetArrival,
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
}

/// Runs a load to its end. Arrivals are in the order of time.
///
/// TensorRT-LLM's generation server begins with the second token, and hands out the first one when the request has a place in a step;
/// vLLM's computes the last token of the prompt again, and makes all tokens. The blocks of a prompt are free on its context server as soon as it is
/// computed.
pub(in crate::sim) fn run_disaggregated(
    limits: &EngineLimits,
    setup: &Disaggregation,
    prefixes: Option<Prefixes>,
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
    };
    let mut work = DisaggregatedWork::default();
    for (number, arrival) in (0..).zip(arrivals) {
        servers.until(arrival.at, &mut answered)?;
        let found = servers.enter(Live { number, arrival, first: None });
        work.prefix_hits += u64::from(found);
    }
    servers.until(u64::MAX, &mut answered)?;
    for at in 0..servers.generations.len() {
        servers.generate(at, u64::MAX, &mut answered)?;
    }
    work.busy_ns = [&servers.contexts, &servers.generations].map(|all| all.iter().map(Replica::busy).sum());
    work.steps = servers.contexts.iter().chain(&servers.generations).map(Replica::steps).sum();
    Ok(work)
}

impl Disaggregated<'_> {
    /// A request comes, which is not before any time until which the servers ran. True: its prefix was in the cache.
    fn enter(&mut self, live: Live) -> bool {
        let id = if let Some(id) = self.free.pop() {
            self.live[id as usize] = Some(live);
            id
        } else {
            self.live.push(Some(live));
            self.live.len() as u64 - 1
        };
        let Live { arrival, .. } = live;
        // Context servers do not fail: there is always one.
        let at = self.setup.router.choose(&self.contexts, arrival.prefix, &mut self.turns[0]).unwrap_or_default();
        self.contexts[at].take(arrival.at, id, &FleetArrival { osl: 1, ..arrival })
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
                let Some(Live { number, arrival, .. }) = live[token.id as usize] else { return };
                if arrival.osl == 1 && !generates_all {
                    answered(DisaggregatedAnswer { number, arrival, first: end, last: end, pauses: token.pauses });
                    live[token.id as usize] = None;
                    free.push(token.id);
                    return;
                }
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
        let Some(Live { arrival, .. }) = self.live[id as usize] else { return Ok(()) };
        if self.setup.router != Balancer::RoundRobin {
            for at in 0..self.generations.len() {
                if self.generations[at].event() <= now {
                    self.generate(at, now, answered)?;
                }
            }
        }
        let at = self.setup.router.choose(&self.generations, None, &mut self.turns[1]).unwrap_or_default();
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
