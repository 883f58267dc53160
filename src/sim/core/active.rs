//! Requests inside the core, and the step that computes some of them.

/// A request inside the core. `ctx` grows when it is paused: the tokens it made are context the second time.
#[derive(Clone, Debug)]
pub(super) struct Active {
    pub(super) id: u64,
    /// The how-manieth request of the core it is.
    pub(super) number: u64,
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
    pub(super) started: bool,
    pub(super) pauses: u32,
    pub(super) cancelled: bool,
}

impl Active {
    pub(super) const fn is_generating(&self) -> bool {
        self.pos >= self.ctx
    }

    /// Tokens of its KV cache that the next token is computed from.
    pub(super) const fn kv(&self) -> u64 {
        self.isl + self.made
    }

    /// Tokens whose keys and values are in its blocks. The last token that was generated is computed in the next step.
    pub(super) const fn held(&self) -> u64 {
        if self.is_generating() { self.isl + self.made - 1 } else { self.pos }
    }

    /// Tokens that its next step would compute without a limit, where so many are drafted.
    pub(super) const fn next_tokens(&self, drafts: u64) -> u64 {
        if self.is_generating() { 1 + drafts } else { self.ctx - self.pos }
    }

    /// Its tokens so far are context the next time.
    pub(super) const fn lose_blocks(&mut self) {
        self.started = false;
        self.pauses += 1;
        self.ctx = self.isl + self.made;
        self.pos = 0;
    }
}

/// The step in flight: indices into `active`, which only grows until the step is finished.
#[derive(Clone, Debug, Default)]
pub(super) struct InFlight {
    /// Context requests and how many tokens of each.
    pub(super) contexts: Vec<(usize, u64)>,
    pub(super) generating: Vec<usize>,
    /// Requests that lost their blocks for it.
    pub(super) paused: usize,
    /// Waiting requests that vLLM's scheduler came by and that have no slot for their adapter.
    pub(super) deferred: usize,
}

impl InFlight {
    /// This request computes so many tokens.
    pub(super) fn take(&mut self, at: usize, request: &Active, tokens: u64) {
        if request.is_generating() {
            self.generating.push(at);
        } else {
            self.contexts.push((at, tokens));
        }
    }
}
