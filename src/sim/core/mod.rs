//! The scheduler of an in-flight-batching server, as a pure discrete-event core in whole nanoseconds.
//!
//! One iteration: capacity scheduler → micro-batch scheduler → one forward step priced by `Coefficients` → tokens
//! appear at its end → finished requests leave. The rules are those of TensorRT-LLM's batch manager as its public
//! sources describe them, and vLLM's. With speculative decoding a request makes several tokens in a step. Not modeled:
//! reuse of blocks, beams, overlapped scheduling. Reads no clock, has no random state, iterates no hash map.

mod generating;
mod requests;
mod scheduler;
mod virtual_time;

use super::timing::StepWork;
use generating::LoadedAdapters;
use requests::{Active, ContextAt, InFlight, Requests};
pub use scheduler::{Chunking, EngineLimits, SchedulerPolicy};
pub use virtual_time::{Served, SimulatedRequest, VirtualRun, simulate, simulate_users};

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
    /// Drafts that the model accepted for it, where the step had some to verify, including those after the request's
    /// last token.
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
    /// When the HTTP server has sent its tokens.
    pub sent: u64,
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
    requests: Requests,
    in_flight: Option<InFlight>,
    /// The step that ended was one of those that generate, and the next one is the same as long as none of them ends,
    /// none enters and blocks are left.
    is_repeating: bool,
    adapters: LoadedAdapters,
    /// Requests that entered so far.
    entered: u64,
    /// When the HTTP server has sent the chunks of all steps.
    sent: u64,
    pub(crate) steps: u64,
    pub(crate) peak_blocks: u64,
    pauses: u64,
    deferred: usize,
}

impl Core {
    pub fn new(limits: EngineLimits) -> Self {
        let limits = limits.with_whole_batches();
        Self {
            requests: Requests::new(&limits),
            limits,
            in_flight: None,
            is_repeating: false,
            adapters: LoadedAdapters::default(),
            entered: 0,
            sent: 0,
            steps: 0,
            peak_blocks: 0,
            pauses: 0,
            deferred: 0,
        }
    }

    pub fn is_idle(&self) -> bool {
        self.requests.len() == 0
    }

    /// A request enters, behind all others.
    pub fn arrive(&mut self, request: CoreRequest) -> Result<(), NeverFits> {
        let CoreRequest { id, isl, osl, adapter } = request;
        // An empty prompt has the token that starts a text.
        let isl = isl.max(1);
        // Drafts have blocks until they are rejected.
        let needed = self.limits.blocks_of(isl + osl + self.limits.drafts());
        if needed > self.limits.blocks {
            return Err(NeverFits::Blocks { needed, pool: self.limits.blocks });
        }
        let tokens = 1 + self.limits.drafts();
        if tokens > self.limits.max_num_tokens {
            return Err(NeverFits::Drafts { tokens, limit: self.limits.max_num_tokens });
        }
        // A paused request's context is its prompt and what it made.
        let context = if self.limits.policy == SchedulerPolicy::MaxUtilization { isl + osl - 1 } else { isl };
        let limit = self.limits.max_num_tokens;
        let is_vllm = self.limits.policy == SchedulerPolicy::Vllm;
        let is_cut = is_vllm || self.limits.chunking != Chunking::Off && limit >= self.limits.tokens_per_block;
        if context > limit && !is_cut {
            return Err(NeverFits::Context { context, limit });
        }
        self.entered += 1;
        self.requests.unseen += 1;
        self.requests.waiting.push_back(Active {
            id,
            number: self.entered,
            place: self.entered,
            adapter,
            isl,
            osl,
            most_blocks: needed,
            ctx: isl,
            ..Active::default()
        });
        Ok(())
    }

    /// Its blocks are free at the next step. Its tokens of the step in flight do not appear.
    pub fn cancel(&mut self, id: u64) {
        self.requests.cancel(id);
        if self.in_flight.is_none() {
            self.requests.forget_cancelled();
            self.is_repeating = false;
        }
    }

    /// Plans the step that starts now. `None` when there are no requests.
    pub fn begin(&mut self, now: u64) -> Option<CoreStep> {
        debug_assert!(self.in_flight.is_none(), "the last step was not finished");
        if self.is_idle() {
            return None;
        }
        self.is_repeating = false;
        let seen = self.seen();
        let has_seen_all = seen == self.requests.waiting.len();
        let (contexts, paused) = self.schedule(seen);
        self.requests.unseen = 0;
        self.pauses += paused as u64;
        let contexts = self.requests.let_in(&contexts);
        let flight = InFlight { contexts, paused, has_seen_all };
        debug_assert!(
            !flight.contexts.is_empty() || !self.requests.generating.is_empty(),
            "no progress: a request that does not fit was let in"
        );
        let mut work = StepWork {
            contexts: flight.contexts.len() as u64,
            generating: self.requests.generating.len() as u64,
            kv_tokens: self.requests.generating.kv,
            ..StepWork::default()
        };
        let mut chunks = work.generating;
        for &(at, tokens) in &flight.contexts {
            let request = &mut self.requests.computing[at];
            request.scheduled.get_or_insert(now);
            chunks += u64::from(request.left() == tokens);
            work.context_tokens += tokens;
            work.pairs += tokens * request.pos + tokens * tokens / 2;
        }
        let took = self.limits.step_ns(&work) + self.adapters.use_in(&self.limits, &self.requests, &flight);
        self.in_flight = Some(flight);
        let end = now + took;
        self.sent = self.sent.max(end) + self.limits.timing.chunks_ns(chunks);
        let (context_tokens, generating) = (work.context_tokens, work.generating as usize);
        Some(CoreStep { end, sent: self.sent, context_tokens, generating, paused })
    }

    /// How many of those that wait the next step's scheduler looks at.
    fn seen(&self) -> usize {
        let Requests { waiting, unseen, .. } = &self.requests;
        if self.limits.policy != SchedulerPolicy::Vllm || self.requests.len() == *unseen {
            return waiting.len();
        }
        // vLLM's plans a step while the one before runs: what arrives during that waits for the one after.
        waiting.len() - unseen
    }

    /// The contexts of the next step, each with its tokens, and how many requests were paused for it.
    fn schedule(&mut self, seen: usize) -> (Vec<(ContextAt, u64)>, usize) {
        let requests = &mut self.requests;
        if self.limits.policy == SchedulerPolicy::Vllm {
            let scheduled = generating::schedule(&self.limits, requests, seen);
            self.deferred = scheduled.deferred;
            return (scheduled.contexts, scheduled.paused);
        }
        let (scheduled, paused) = scheduler::schedule(&self.limits, requests);
        let scheduled: Vec<_> = scheduled.into_iter().map(|at| (at, requests.at(at).left())).collect();
        (scheduler::compose(&self.limits, requests.generating.len(), &scheduled), paused)
    }

    /// Ends the step in flight and hands out its tokens: those of finished contexts first, then the generated ones.
    /// Without `each`, first and last tokens of requests are handed out, and others or not.
    pub fn finish(&mut self, each: bool, mut emit: impl FnMut(CoreTokens)) {
        let Some(flight) = self.in_flight.take() else { return };
        self.steps += 1;
        let Requests { generating, computing, .. } = &mut self.requests;
        for &(at, tokens) in &flight.contexts {
            let request = &mut computing[at];
            request.pos += tokens;
            debug_assert!(request.pos <= request.ctx, "more context computed than there is");
            if request.is_generating() {
                emit_tokens(request, request.made, 1, None, &mut emit);
                request.made += 1;
            }
        }
        if let Some(speculation) = &self.limits.speculation {
            generating.advance_each(|request, made| {
                let tokens = speculation.tokens(request.number, made);
                let count = tokens.min(request.osl - made);
                emit_tokens(request, made, count, Some(tokens - 1), &mut emit);
                count
            });
        } else {
            generating.advance(1);
            if each {
                for (request, made) in generating.iter() {
                    emit_tokens(request, made - 1, 1, None, &mut emit);
                }
            }
        }
        let is_emitted = each || self.limits.speculation.is_some();
        let used = self.used_blocks();
        debug_assert!(used <= self.limits.blocks, "{used} blocks in use of {}", self.limits.blocks);
        self.peak_blocks = self.peak_blocks.max(used);
        let before = self.requests.running();
        let Requests { generating, computing, .. } = &mut self.requests;
        while let Some(request) = generating.pop_ended() {
            if !is_emitted {
                emit_tokens(&request, request.made - 1, 1, None, &mut emit);
            }
        }
        for request in computing.extract_if(.., |request| request.is_generating()) {
            if request.made < request.osl && !request.cancelled {
                generating.add(request);
            }
        }
        self.requests.forget_cancelled();
        let is_decode = flight.contexts.is_empty() && self.limits.speculation.is_none();
        self.is_repeating = is_decode && flight.paused == 0 && flight.has_seen_all && self.requests.running() == before;
    }

    /// The state now.
    pub fn holding(&self) -> CoreLoad {
        let Requests { generating, waiting, .. } = &self.requests;
        let (contexts, context_tokens, generating) = self.in_flight.as_ref().map_or((0, 0, 0), |flight| {
            let tokens = flight.contexts.iter().map(|(_, tokens)| tokens).sum();
            (flight.contexts.len(), tokens, generating.len())
        });
        CoreLoad {
            active: self.requests.len(),
            waiting: waiting.len(),
            deferred: self.deferred.min(waiting.len()),
            contexts,
            context_tokens,
            generating,
            used_blocks: self.used_blocks(),
            steps: self.steps,
            pauses: self.pauses,
        }
    }

    fn used_blocks(&self) -> u64 {
        // vLLM's policy takes blocks as it goes, the others those of the whole prompt at once. The keys and values of
        // the last token that was generated are computed in the next step.
        let is_vllm = self.limits.policy == SchedulerPolicy::Vllm;
        let tokens = |request: &Active| match request.is_generating() {
            true if is_vllm => request.isl + request.made - 1,
            true => request.isl + request.made,
            false if is_vllm => request.pos,
            false => request.ctx,
        };
        let computing = self.requests.computing.iter().map(|request| self.limits.blocks_of(tokens(request)));
        self.requests.generating.blocks_with(if is_vllm { -1 } else { 0 }) + computing.sum::<u64>()
    }
}

/// The tokens of a request from `made` on.
fn emit_tokens(request: &Active, made: u64, count: u64, accepted: Option<u64>, emit: &mut impl FnMut(CoreTokens)) {
    debug_assert!(made + count <= request.osl, "more tokens generated than requested");
    if !request.cancelled {
        emit(CoreTokens {
            id: request.id,
            index: made,
            count,
            accepted,
            is_last: made + count == request.osl,
            scheduled: request.scheduled.unwrap_or_default(),
            pauses: request.pauses,
        });
    }
}

#[cfg(test)]
pub(super) mod tests;
