//! The scheduler of an in-flight-batching server, as a pure discrete-event core in whole nanoseconds.
//!
//! One iteration: capacity scheduler → micro-batch scheduler → one forward step priced by `Coefficients` → tokens
//! appear at its end → finished requests leave. The rules are those of TensorRT-LLM's batch manager as its public
//! sources describe them, and vLLM's. With speculative decoding a request makes several tokens in a step. Not modelled: reuse of
//! blocks (but for a prefix that is there on arrival), beams, overlapped scheduling. Reads no clock, has no random state,
//! iterates no hash map.

use std::collections::VecDeque;

mod active;
mod adapters;
mod batch;
mod capacity;
mod closed_loop;
mod equal_steps;
mod limits;
mod virtual_time;
mod vllm;

use super::timing::StepWork;
use active::{Active, InFlight};
use adapters::LoadedAdapters;
pub use closed_loop::simulate_users;
pub use limits::{Chunking, EngineLimits, SchedulerPolicy};
pub use virtual_time::{Served, SimulatedRequest, VirtualRun, simulate};

/// Why a request can never run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NeverFits {
    #[error("it needs {needed} KV cache blocks and the pool has {pool}")]
    Blocks { needed: u64, pool: u64 },
    #[error("its context of {context} tokens is more than max_num_tokens {limit} and context chunking is off")]
    Context { context: u64, limit: u64 },
    #[error("a step verifies {tokens} tokens of it, its last one and the drafts, and max_num_tokens is {limit}")]
    Drafts { tokens: u64, limit: u64 },
}

/// A request as it enters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreRequest {
    pub id: u64,
    /// Prompt tokens.
    pub isl: u64,
    /// Tokens to make, from 1 on.
    pub osl: u64,
    /// Prompt tokens, from the first on, whose KV cache is there already. The last token of a prompt is always computed. The blocks of a
    /// cached prefix count as the request's own.
    pub cached: u64,
    /// The LoRA adapter that it names.
    pub adapter: Option<u64>,
}

/// What one request made in a step: a token, or several with speculative decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreTokens {
    pub id: u64,
    /// Of the first of them, from 0.
    pub index: u64,
    pub count: u64,
    /// Drafts that the model accepted for it, where the step had some to verify: those behind the request's last token, too.
    pub accepted: Option<u64>,
    /// The request has all of its tokens.
    pub is_last: bool,
    /// When its request first had a place in a step.
    pub scheduled: u64,
    /// How often its request was paused so far.
    pub pauses: u32,
}

/// What a step computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreStep {
    /// When it ends; its tokens appear then.
    pub end: u64,
    pub context_tokens: u64,
    pub generating: usize,
    /// Paused by this step's capacity scheduler.
    pub paused: usize,
}

/// The core's current contents, for observers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreLoad {
    /// Requests inside.
    pub active: usize,
    /// Those that have no KV blocks.
    pub waiting: usize,
    /// Of those: without a slot for their adapter, where vLLM's scheduler came by them.
    pub deferred: usize,
    /// In the step in flight: requests that compute their context, and their tokens.
    pub contexts: usize,
    pub context_tokens: u64,
    /// In the step in flight: requests that generate.
    pub generating: usize,
    pub used_blocks: u64,
    pub steps: u64,
    /// How often a request was paused, in all.
    pub pauses: u64,
}

/// The state between two steps.
#[derive(Clone, Debug)]
pub struct Core {
    limits: EngineLimits,
    active: Vec<Active>,
    /// Behind the active ones. No scheduler looks at more requests than a batch may have.
    backlog: VecDeque<Active>,
    /// Of the backlog: those that were there when the last step began.
    seen: usize,
    in_flight: Option<InFlight>,
    /// Places of the requests that generated in the step that ended, where the next step is the same as long as none of them
    /// ends, none enters and blocks are left.
    repeating: Option<Vec<usize>>,
    adapters: LoadedAdapters,
    /// Requests that entered so far.
    entered: u64,
    steps: u64,
    peak_blocks: u64,
    pauses: u64,
    deferred: usize,
}

impl Core {
    pub fn new(limits: EngineLimits) -> Self {
        Self {
            limits,
            active: Vec::new(),
            backlog: VecDeque::new(),
            seen: 0,
            in_flight: None,
            repeating: None,
            adapters: LoadedAdapters::default(),
            entered: 0,
            steps: 0,
            peak_blocks: 0,
            pauses: 0,
            deferred: 0,
        }
    }

    pub fn is_idle(&self) -> bool {
        self.active.is_empty() && self.backlog.is_empty()
    }

    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// The most KV blocks that were in use at the end of a step.
    pub const fn peak_blocks(&self) -> u64 {
        self.peak_blocks
    }

    /// A request enters, behind all others.
    pub fn arrive(&mut self, request: CoreRequest) -> Result<(), NeverFits> {
        let CoreRequest { id, isl, osl, cached, adapter } = request;
        // Drafts have blocks until they are rejected.
        let needed = self.blocks_of(isl + osl + self.limits.drafts());
        if needed > self.limits.blocks {
            return Err(NeverFits::Blocks { needed, pool: self.limits.blocks });
        }
        let tokens = 1 + self.limits.drafts();
        if tokens > self.limits.max_num_tokens {
            return Err(NeverFits::Drafts { tokens, limit: self.limits.max_num_tokens });
        }
        // A paused request's context is its prompt and what it made.
        let cached = cached.min(isl.saturating_sub(1));
        let context =
            if matches!(self.limits.policy, SchedulerPolicy::MaxUtilization) { isl + osl - 1 } else { isl - cached };
        let limit = self.limits.max_num_tokens;
        let is_vllm = self.limits.policy == SchedulerPolicy::Vllm;
        let is_cut = is_vllm || self.limits.chunking != Chunking::Off && limit >= self.limits.tokens_per_block;
        if context > limit && !is_cut {
            return Err(NeverFits::Context { context, limit });
        }
        self.entered += 1;
        self.backlog.push_back(Active {
            id,
            number: self.entered,
            adapter,
            isl,
            osl,
            most_blocks: needed,
            ctx: isl,
            pos: cached,
            made: 0,
            scheduled: None,
            started: false,
            pauses: 0,
            cancelled: false,
        });
        Ok(())
    }

    /// Its blocks are free at the next step. Its tokens of the step in flight do not appear.
    pub fn cancel(&mut self, id: u64) {
        if let Some(request) = self.active.iter_mut().find(|request| request.id == id) {
            request.cancelled = true;
        }
        self.backlog.retain(|request| request.id != id);
        if self.in_flight.is_none() {
            self.active.retain(|request| !request.cancelled);
            self.repeating = None;
        }
    }

    /// Plans the step that starts now. `None` when there are no requests.
    pub fn begin(&mut self, now: u64) -> Option<CoreStep> {
        debug_assert!(self.in_flight.is_none(), "the last step was not finished");
        self.repeating = None;
        let mut room = self.limits.max_batch_size.saturating_sub(self.active.len()).min(self.backlog.len());
        if self.limits.lora.is_some() {
            // One that has no slot for its adapter does not keep those behind it from entering.
            room = self.backlog.len();
        }
        if self.limits.policy == SchedulerPolicy::Vllm && !self.active.is_empty() {
            // It plans a step while the one before runs: what arrives during that waits for the one after.
            room = room.min(self.seen);
        }
        self.active.extend(self.backlog.drain(..room));
        self.seen = self.backlog.len();
        if self.active.is_empty() {
            return None;
        }
        let (flight, paused) = if self.limits.policy == SchedulerPolicy::Vllm {
            vllm::schedule(&self.limits, &mut self.active)
        } else {
            let (scheduled, paused) = capacity::schedule(&self.limits, &mut self.active);
            (batch::compose(&self.limits, &self.active, &scheduled), paused)
        };
        self.pauses += paused as u64;
        self.deferred = flight.deferred;
        debug_assert!(
            !flight.contexts.is_empty() || !flight.generating.is_empty(),
            "no progress: a request that does not fit was let in"
        );
        for &(at, _) in &flight.contexts {
            self.active[at].scheduled.get_or_insert(now);
        }
        let context_tokens = flight.contexts.iter().map(|(_, tokens)| tokens).sum();
        let pairs =
            flight.contexts.iter().map(|&(at, tokens)| tokens * self.active[at].pos + tokens * tokens / 2).sum();
        let kv_tokens = flight.generating.iter().map(|&at| self.active[at].kv()).sum();
        let generating = flight.generating.len();
        let contexts = flight.contexts.len() as u64;
        let took = self.limits.step_ns(&StepWork {
            contexts,
            context_tokens,
            pairs,
            generating: generating as u64,
            kv_tokens,
        }) + self.adapters.use_in(&self.limits, &self.active, &flight);
        self.in_flight = Some(InFlight { paused, ..flight });
        Some(CoreStep { end: now + took, context_tokens, generating, paused })
    }

    /// Ends the step in flight and hands out its tokens: those of finished contexts first, then the generated ones.
    pub fn finish(&mut self, mut emit: impl FnMut(CoreTokens)) {
        let Some(flight) = self.in_flight.take() else { return };
        self.steps += 1;
        let is_decode = flight.contexts.is_empty() && flight.paused == 0 && self.limits.speculation.is_none();
        for (at, tokens) in flight.contexts {
            let request = &mut self.active[at];
            request.started = true;
            request.pos += tokens;
            debug_assert!(request.pos <= request.ctx, "more context computed than there is");
            if request.is_generating() {
                make(request, 1, None, &mut emit);
            }
        }
        if let Some(speculation) = &self.limits.speculation {
            for &at in &flight.generating {
                let request = &mut self.active[at];
                let tokens = speculation.tokens(request.number, request.made);
                make(request, tokens.min(request.osl - request.made), Some(tokens - 1), &mut emit);
            }
        } else {
            for &at in &flight.generating {
                make(&mut self.active[at], 1, None, &mut emit);
            }
        }
        let used = self.used_blocks();
        debug_assert!(used <= self.limits.blocks, "{used} blocks in use of {}", self.limits.blocks);
        self.peak_blocks = self.peak_blocks.max(used);
        let before = self.active.len();
        self.active.retain(|request| request.made < request.osl && !request.cancelled);
        self.repeating = (is_decode && self.active.len() == before).then_some(flight.generating);
    }

    /// The state now.
    pub fn holding(&self) -> CoreLoad {
        let (contexts, context_tokens, generating) = self.in_flight.as_ref().map_or((0, 0, 0), |flight| {
            let tokens = flight.contexts.iter().map(|(_, tokens)| tokens).sum();
            (flight.contexts.len(), tokens, flight.generating.len())
        });
        CoreLoad {
            active: self.active.len() + self.backlog.len(),
            waiting: self.waiting(),
            deferred: self.deferred.min(self.waiting()),
            contexts,
            context_tokens,
            generating,
            used_blocks: self.used_blocks(),
            steps: self.steps,
            pauses: self.pauses,
        }
    }

    /// Requests without KV blocks: not begun, and not about to be.
    fn waiting(&self) -> usize {
        let begins = |at: usize| {
            self.in_flight.as_ref().is_some_and(|flight| flight.contexts.iter().any(|(context, _)| *context == at))
        };
        let inside = self.active.iter().enumerate().filter(|(at, request)| !request.started && !begins(*at)).count();
        inside + self.backlog.len()
    }

    fn used_blocks(&self) -> u64 {
        // vLLM's policy takes blocks as it goes, the others those of the whole prompt at once.
        let tokens = |request: &Active| match self.limits.policy {
            SchedulerPolicy::Vllm => request.held(),
            _ => request.isl + request.made,
        };
        self.active.iter().filter(|r| r.started).map(|r| self.blocks_of(tokens(r))).sum()
    }

    const fn blocks_of(&self, tokens: u64) -> u64 {
        self.limits.blocks_of(tokens)
    }
}

fn make(request: &mut Active, count: u64, accepted: Option<u64>, emit: &mut impl FnMut(CoreTokens)) {
    debug_assert!(request.made + count <= request.osl, "more tokens generated than requested");
    let index = request.made;
    request.made += count;
    if !request.cancelled {
        emit(CoreTokens {
            id: request.id,
            index,
            count,
            accepted,
            is_last: request.made == request.osl,
            scheduled: request.scheduled.unwrap_or_default(),
            pauses: request.pauses,
        });
    }
}

#[cfg(test)]
mod reference_tests;
#[cfg(test)]
pub(super) mod tests;
