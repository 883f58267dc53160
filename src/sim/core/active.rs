//! Requests inside the core, and the step that computes some of them.

/// A request inside the core. `ctx` grows when it is paused: the tokens it made are context the second time.
#[derive(Clone, Debug)]
pub(super) struct Active {
    pub(super) id: u64,
    pub(super) isl: u64,
    pub(super) osl: u64,
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
}

/// The step in flight: indices into `active`, which only grows until the step is finished.
#[derive(Clone, Debug, Default)]
pub(super) struct InFlight {
    /// Context requests and how many tokens of each.
    pub(super) contexts: Vec<(usize, u64)>,
    pub(super) generating: Vec<usize>,
}
