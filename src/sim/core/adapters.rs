//! LoRA adapters: how many different ones a step may have, and which are in GPU memory.

use super::active::{Active, InFlight};
use super::limits::EngineLimits;
use super::requests::Requests;

/// Adapters of the requests that run. One without a slot waits, and those behind it do not.
pub(super) struct AdapterSlots {
    most: usize,
    taken: Vec<u64>,
}

impl AdapterSlots {
    /// With the slots of the requests that run.
    pub(super) fn of(limits: &EngineLimits, requests: &Requests) -> Self {
        let Some(lora) = &limits.lora else { return Self { most: usize::MAX, taken: Vec::new() } };
        let generating = requests.generating.iter().map(|(request, _)| request);
        let mut taken: Vec<u64> = generating.chain(&requests.computing).filter_map(|request| request.adapter).collect();
        taken.sort_unstable();
        taken.dedup();
        Self { most: lora.slots.max(1) as usize, taken }
    }

    /// Whether a request has a slot now: it takes one if its adapter has none.
    pub(super) fn admit(&mut self, request: &Active) -> bool {
        let Some(adapter) = request.adapter.filter(|_| self.most < usize::MAX) else { return true };
        if self.taken.contains(&adapter) {
            return true;
        }
        let has_room = self.taken.len() < self.most;
        if has_room {
            self.taken.push(adapter);
        }
        has_room
    }
}

/// The adapters in GPU memory; the one that was used last is the first.
#[derive(Clone, Debug, Default)]
pub(super) struct LoadedAdapters {
    loaded: Vec<u64>,
    /// What adapters add to the step in flight, without loading, nanoseconds: to steps that are like it, too.
    pub(super) step_ns: u64,
}

impl LoadedAdapters {
    /// What the adapters of a step add to its time, nanoseconds.
    pub(super) fn use_in(&mut self, limits: &EngineLimits, requests: &Requests, flight: &InFlight) -> u64 {
        let Some(lora) = limits.lora else { return 0 };
        let width = 1 + limits.drafts();
        let contexts = flight.contexts.iter().map(|&(at, tokens)| (&requests.computing[at], tokens));
        let work = contexts.chain(requests.generating.iter().map(|(request, _)| (request, width)));
        let (mut used, mut tokens_with_one): (Vec<u64>, u64) = (Vec::new(), 0);
        for (request, tokens) in work {
            let Some(adapter) = request.adapter else { continue };
            tokens_with_one += tokens;
            if !used.contains(&adapter) {
                used.push(adapter);
            }
        }
        debug_assert!(used.len() <= lora.slots.max(1) as usize, "more adapters in a step than slots");
        let loaded = &mut self.loaded;
        let missing = used.iter().filter(|adapter| !loaded.contains(adapter)).count();
        loaded.retain(|adapter| !used.contains(adapter));
        let step_ns = lora.step_ns(used.len(), tokens_with_one);
        loaded.splice(0..0, used);
        loaded.truncate(lora.slots.max(1) as usize);
        self.step_ns = step_ns;
        step_ns + lora.load_ns(missing)
    }
}
