//! The requests of a core: those that wait, that compute their context, and that generate.

use super::scheduler::{EngineLimits, SchedulerPolicy};
use std::collections::VecDeque;

use super::generating::Generating;

/// Where a request is whose context is not computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContextAt {
    Computing(usize),
    Waiting(usize),
}

/// All requests.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    pub(super) generating: Generating,
    /// Have KV blocks and not all of their context; in the order of places.
    pub(super) computing: Vec<Active>,
    /// Have no KV blocks; the first one is the next.
    pub(super) waiting: VecDeque<Active>,
    /// Of those that wait, the last ones: they were not there when the last step began.
    pub(super) unseen: usize,
    /// Places of those that generate and are to leave.
    cancelled: Vec<u64>,
    /// With vLLM's scheduler: the place of the next one that is let in.
    next_place: Option<u64>,
}

impl Requests {
    pub(super) fn new(limits: &EngineLimits) -> Self {
        Self {
            generating: Generating::new(limits.tokens_per_block),
            computing: Vec::new(),
            waiting: VecDeque::new(),
            unseen: 0,
            cancelled: Vec::new(),
            next_place: (limits.policy == SchedulerPolicy::Vllm).then_some(0),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.generating.len() + self.computing.len() + self.waiting.len()
    }

    /// Those that have KV blocks.
    pub(super) fn running(&self) -> usize {
        self.generating.len() + self.computing.len()
    }

    pub(super) fn at(&self, at: ContextAt) -> &Active {
        match at {
            ContextAt::Computing(at) => &self.computing[at],
            ContextAt::Waiting(at) => &self.waiting[at],
        }
    }

    /// Those without their context, in the order of places.
    pub(super) fn contexts(&self) -> impl Iterator<Item = (ContextAt, &Active)> {
        let (mut computing, mut waiting) =
            (self.computing.iter().enumerate().peekable(), self.waiting.iter().enumerate().peekable());
        std::iter::from_fn(move || {
            let is_computing = match (computing.peek(), waiting.peek()) {
                (Some((_, one)), Some((_, other))) => one.place < other.place,
                (one, _) => one.is_some(),
            };
            if is_computing {
                computing.next().map(|(at, request)| (ContextAt::Computing(at), request))
            } else {
                waiting.next().map(|(at, request)| (ContextAt::Waiting(at), request))
            }
        })
    }

    /// These get KV blocks. Returns where each of them is then, with its tokens.
    pub(super) fn let_in(&mut self, contexts: &[(ContextAt, u64)]) -> Vec<(usize, u64)> {
        let mut places = Vec::with_capacity(contexts.len());
        let mut entering = Vec::new();
        for &(at, tokens) in contexts {
            let request = match at {
                ContextAt::Computing(at) => &self.computing[at],
                ContextAt::Waiting(at) => {
                    entering.push(at);
                    let request = &mut self.waiting[at];
                    if let Some(next) = &mut self.next_place {
                        request.place = *next;
                        *next += 1;
                    }
                    request
                }
            };
            places.push((request.place, tokens));
        }
        // From the last one on, so that the others stay where they are.
        entering.sort_unstable();
        for at in entering.into_iter().rev() {
            self.computing.extend(self.waiting.remove(at));
        }
        self.computing.sort_by_key(|request| request.place);
        let find = |place: u64| self.computing.partition_point(|request| request.place < place);
        places.into_iter().map(|(place, tokens)| (find(place), tokens)).collect()
    }

    /// The last one of those that run loses its blocks, and waits before all others.
    pub(super) fn pause_last(&mut self) {
        let paused = self.computing.pop().or_else(|| self.generating.pop_last());
        if let Some(mut request) = paused {
            request.lose_blocks();
            self.waiting.push_front(request);
        }
    }

    /// This one loses its blocks, and waits in its place.
    pub(super) fn pause(&mut self, place: u64) {
        let computing = self.computing.iter().position(|request| request.place == place);
        let paused = computing.map(|at| self.computing.remove(at)).or_else(|| self.generating.remove(place));
        if let Some(mut request) = paused {
            request.lose_blocks();
            let at = self.waiting.partition_point(|other| other.place < place);
            self.waiting.insert(at, request);
        }
    }

    /// It gets no tokens any more. One that runs stays until [`Self::forget_cancelled`].
    pub(super) fn cancel(&mut self, id: u64) {
        if let Some(at) = self.waiting.iter().position(|request| request.id == id) {
            self.unseen -= usize::from(at >= self.waiting.len() - self.unseen);
            self.waiting.remove(at);
        } else if let Some(request) = self.computing.iter_mut().find(|request| request.id == id) {
            request.cancelled = true;
        } else {
            self.cancelled.extend(self.generating.cancel(id));
        }
    }

    pub(super) fn forget_cancelled(&mut self) {
        self.computing.retain(|request| !request.cancelled);
        for place in self.cancelled.drain(..) {
            self.generating.remove(place);
        }
    }
}

// Requests inside the core, and the step that computes some of them.

/// A request inside the core. `ctx` grows when it is paused: the tokens it made are context the second time.
#[derive(Clone, Debug, Default)]
pub(super) struct Active {
    pub(super) id: u64,
    /// The how-manieth request of the core it is.
    pub(super) number: u64,
    /// Its place among those that run: its number, or with vLLM's scheduler the how-manieth it was to be let in.
    pub(super) place: u64,
    /// The LoRA adapter that it names.
    pub(super) adapter: Option<u64>,
    pub(super) isl: u64,
    pub(super) osl: u64,
    /// KV blocks at its end.
    pub(super) most_blocks: u64,
    pub(super) ctx: u64,
    /// Context tokens computed.
    pub(super) pos: u64,
    /// Tokens made.
    pub(super) made: u64,
    /// When it first had a place in a step.
    pub(super) scheduled: Option<u64>,
    pub(super) pauses: u32,
    pub(super) cancelled: bool,
}

impl Active {
    /// Its context is computed.
    pub(super) const fn is_generating(&self) -> bool {
        self.pos >= self.ctx
    }

    /// Tokens of its context that are not computed.
    pub(super) const fn left(&self) -> u64 {
        self.ctx - self.pos
    }

    /// Its tokens so far are context the next time.
    pub(super) const fn lose_blocks(&mut self) {
        self.pauses += 1;
        self.ctx = self.isl + self.made;
        self.pos = 0;
    }
}

/// The step in flight. All requests that generate are in it.
#[derive(Clone, Debug, Default)]
pub(super) struct InFlight {
    /// Indices of requests that compute their context, and how many tokens of each.
    pub(super) contexts: Vec<(usize, u64)>,
    /// Requests that lost their blocks for it.
    pub(super) paused: usize,
    /// The scheduler looked at all that waited.
    pub(super) has_seen_all: bool,
}
