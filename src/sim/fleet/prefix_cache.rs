//! Which shared prefixes a replica has in its KV cache.

use std::collections::VecDeque;

use crate::core::EngineLimits;
use base::spec::Prefixes;

/// The prefixes that were used last. Their blocks are taken out of the pool of the requests.
#[derive(Clone, Debug, Default)]
pub(super) struct PrefixCache {
    /// The one that was used last is the first.
    kept: VecDeque<u32>,
    room: usize,
    tokens: u64,
}

impl PrefixCache {
    /// As many prefixes as there are, in at most half of the pool; and the limits of what is left.
    pub(super) fn new(limits: &EngineLimits, prefixes: Option<Prefixes>) -> (Self, EngineLimits) {
        let Some(prefixes) = prefixes else { return (Self::default(), limits.clone()) };
        let tokens = u64::from(prefixes.tokens);
        let each = tokens.div_ceil(limits.tokens_per_block).max(1);
        let room = (limits.blocks / 2 / each).min(u64::from(prefixes.count));
        let left = EngineLimits { blocks: limits.blocks - room * each, ..limits.clone() };
        (Self { kept: VecDeque::new(), room: room as usize, tokens }, left)
    }

    pub(super) fn has(&self, prefix: u32) -> bool {
        self.kept.contains(&prefix)
    }

    /// A request with this prefix comes: the tokens that it need not compute. The prefix is there for the next one.
    pub(super) fn use_prefix(&mut self, prefix: u32) -> u64 {
        let place = self.kept.iter().position(|kept| *kept == prefix);
        if let Some(place) = place {
            self.kept.remove(place);
        }
        self.kept.push_front(prefix);
        self.kept.truncate(self.room);
        if place.is_some() { self.tokens } else { 0 }
    }

    pub(super) fn clear(&mut self) {
        self.kept.clear();
    }
}
