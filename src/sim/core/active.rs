//! Requests inside the core, and the step that computes some of them.

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
