//! The requests of a core: those that wait, that compute their context, and that generate.

use std::collections::VecDeque;

use super::generating::Generating;
use super::{Core, CoreRequest, CoreTokens, NeverFits};
use crate::timing::{Coefficients, LoraCost, Speculation, StepWork};

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

// A closed loop on the virtual clock: users who wait for an answer before they send the next request.

/// These requests in turn, whatever their arrivals. Each of the users sends its next one when its answer has ended.
/// Returns the requests with the times at which they were sent, and the outcome of each.
pub fn simulate_users(
    limits: &EngineLimits,
    requests: &[SimulatedRequest],
    users: usize,
) -> Result<(Vec<SimulatedRequest>, VirtualRun), NeverFits> {
    let mut core = Core::new(limits.clone());
    let frontend = limits.timing.frontend_ns();
    let mut sent: Vec<SimulatedRequest> = Vec::with_capacity(requests.len());
    let mut served = vec![Served::default(); requests.len()];
    // Answers end in the order of time, so requests enter in the order in which they were sent.
    let mut entering: VecDeque<usize> = VecDeque::new();
    let mut now = 0;
    let mut free_users = users.max(1);
    loop {
        while free_users > 0 && sent.len() < requests.len() {
            let request = requests[sent.len()];
            entering.push_back(sent.len());
            sent.push(SimulatedRequest { at: now, ..request });
            free_users -= 1;
        }
        while let Some(&id) = entering.front().filter(|&&id| sent[id].at + frontend <= now) {
            core.arrive(sent[id].with_id(id as u64))?;
            entering.pop_front();
        }
        let Some(step) = core.begin(now) else {
            let Some(&id) = entering.front() else { break };
            now = sent[id].at + frontend;
            continue;
        };
        now = step.end;
        core.finish_with_ends(|token| {
            served[token.id as usize].take(&token, now);
            free_users += usize::from(token.is_last);
        });
        // A user that is free sends at once.
        if free_users == 0 || sent.len() == requests.len() {
            now = core.run_equal_steps(now, entering.front().map_or(u64::MAX, |&id| sent[id].at + frontend));
        }
    }
    Ok((sent, VirtualRun { requests: served, end: now, steps: core.steps(), peak_blocks: core.peak_blocks() }))
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

// The micro-batch scheduler: what the step computes, under the budgets of requests and tokens.

/// How many tokens of its context each of these computes, this many of which it has left. Those without any are left
/// out.
pub(super) fn compose(
    limits: &EngineLimits,
    generating: usize,
    scheduled: &[(ContextAt, u64)],
) -> Vec<(ContextAt, u64)> {
    // The last token of a request and its drafts are verified together.
    let left = limits.max_num_tokens - generating as u64 * (1 + limits.drafts());
    match limits.chunking {
        Chunking::Off => whole(left, scheduled),
        Chunking::FirstComeFirstServed => first_come(limits, left, scheduled),
        Chunking::EqualProgress => equal_progress(limits, left, scheduled),
    }
}

/// The first context that does not fit ends it: none overtakes another.
fn whole(mut left: u64, waiting: &[(ContextAt, u64)]) -> Vec<(ContextAt, u64)> {
    let fits = |&&(_, context): &&(ContextAt, u64)| {
        let rest = left.checked_sub(context);
        left = rest.unwrap_or_default();
        rest.is_some()
    };
    waiting.iter().take_while(fits).copied().collect()
}

/// Whole blocks, unless it is the last piece.
fn first_come(limits: &EngineLimits, mut left: u64, waiting: &[(ContextAt, u64)]) -> Vec<(ContextAt, u64)> {
    let mut pieces = Vec::with_capacity(waiting.len());
    for &(at, context) in waiting {
        let mut piece = context.min(left);
        if piece < context {
            piece = piece / limits.tokens_per_block * limits.tokens_per_block;
        }
        left -= piece;
        if piece > 0 {
            pieces.push((at, piece));
        }
        if left == 0 {
            break;
        }
    }
    pieces
}

/// One block each per round, until the tokens or the contexts are used up.
fn equal_progress(limits: &EngineLimits, mut left: u64, waiting: &[(ContextAt, u64)]) -> Vec<(ContextAt, u64)> {
    let mut pieces: Vec<(ContextAt, u64)> = waiting.iter().map(|&(at, _)| (at, 0)).collect();
    loop {
        let mut dealt = false;
        for (piece, &(_, context)) in pieces.iter_mut().zip(waiting) {
            let unit = limits.tokens_per_block.min(context - piece.1);
            if unit > 0 && unit <= left {
                piece.1 += unit;
                left -= unit;
                dealt = true;
            }
        }
        if !dealt {
            break;
        }
    }
    pieces.retain(|&(_, piece)| piece > 0);
    pieces
}

// What an engine was built for, and the rules of its scheduler.

/// Which requests may hold KV blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedulerPolicy {
    /// Admit only requests that can finish without releasing a block. In order; the first that does not fit ends the
    /// loop.
    GuaranteedNoEvict,
    /// Admit requests that fit for one more step; pause the youngest when short. A paused request computes its context
    /// again.
    MaxUtilization,
    /// Admit only when no request runs.
    StaticBatch,
    /// vLLM's: blocks for what is computed, prompts in pieces; the youngest computes again when a block is missing.
    Vllm,
}

/// How context requests share the tokens that generation leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunking {
    /// Each whole context at once, or not yet.
    Off,
    /// Each as much as fits, in order.
    FirstComeFirstServed,
    /// One block's worth each, in turn.
    EqualProgress,
}

/// The limits of one engine.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineLimits {
    pub policy: SchedulerPolicy,
    pub chunking: Chunking,
    /// Requests in one step.
    pub max_batch_size: usize,
    /// Tokens in one step.
    pub max_num_tokens: u64,
    /// KV blocks in the pool.
    pub blocks: u64,
    pub tokens_per_block: u64,
    /// Of each GPU.
    pub kv_bytes_per_token: f64,
    pub timing: Coefficients,
    /// `None`: each request makes one token in a step.
    pub speculation: Option<Speculation>,
    /// `None`: adapters cost nothing.
    pub lora: Option<LoraCost>,
}

impl EngineLimits {
    /// With no more requests in a step than it has tokens for. TensorRT-LLM lets those over it in and leaves the last
    /// ones out of its steps; here they wait.
    pub(super) fn with_whole_batches(self) -> Self {
        let width = 1 + self.drafts();
        let most = usize::try_from(self.max_num_tokens / width).unwrap_or(usize::MAX);
        Self { max_batch_size: self.max_batch_size.min(most), ..self }
    }

    /// Tokens that are drafted for a request in a step.
    pub(super) fn drafts(&self) -> u64 {
        self.speculation.as_ref().map_or(0, |speculation| speculation.draft_len)
    }

    /// How long a step takes, nanoseconds.
    pub(super) fn step_ns(&self, work: &StepWork) -> u64 {
        match &self.speculation {
            None => self.timing.verify_ns(work, 1),
            Some(speculation) => speculation.step_ns(&self.timing, work),
        }
    }

    /// KV blocks for this many tokens.
    pub(super) const fn blocks_of(&self, tokens: u64) -> u64 {
        if self.tokens_per_block.is_power_of_two() {
            // A division is a third of a simulated token's time.
            (tokens + self.tokens_per_block - 1) >> self.tokens_per_block.trailing_zeros()
        } else {
            tokens.div_ceil(self.tokens_per_block)
        }
    }
}

// The core on a virtual clock: a whole load in milliseconds of real time.

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
        CoreRequest { id, isl: self.isl, osl: self.osl, cached: 0, adapter: self.adapter }
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
    let mut core = Core::new(limits.clone());
    let mut requests = vec![Served::default(); load.len()];
    let mut now = 0;
    let mut next = 0;
    let enters = |at: usize| load[at].at + limits.timing.frontend_ns();
    loop {
        while let Some(&at) = order.get(next).filter(|&&at| enters(at) <= now) {
            core.arrive(load[at].with_id(at as u64))?;
            next += 1;
        }
        let Some(step) = core.begin(now) else {
            let Some(&at) = order.get(next) else { break };
            now = enters(at);
            continue;
        };
        now = step.end;
        core.finish_with_ends(|token| requests[token.id as usize].take(&token, now));
        now = core.run_equal_steps(now, order.get(next).map_or(u64::MAX, |&at| enters(at)));
    }
    Ok(VirtualRun { requests, end: now, steps: core.steps(), peak_blocks: core.peak_blocks() })
}
