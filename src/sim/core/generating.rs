//! Requests that generate. All of them are in every step, so that what a step changes is known from sums: without
//! speculative decoding its cost does not grow with their number.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::requests::{Active, ContextAt, InFlight, Requests};
use super::scheduler::EngineLimits;
use super::{Core, SchedulerPolicy};

/// A request in the group. Without speculative decoding it makes a token in each of the group's steps.
#[derive(Clone, Debug)]
struct Member {
    request: Active,
    /// The group's step at which it had no token, if it had made one in each.
    born: i64,
}

impl Member {
    const fn made(&self, steps: i64) -> u64 {
        (steps - self.born) as u64
    }

    const fn kv(&self, steps: i64) -> u64 {
        self.request.isl + self.made(steps)
    }

    /// The step with its last token.
    const fn end(&self) -> i64 {
        self.born + self.request.osl as i64
    }
}

/// The requests that generate, by their place.
#[derive(Clone, Debug, Default)]
pub(super) struct Generating {
    members: BTreeMap<u64, Member>,
    /// The step of the last token, and the place. The first one is of a member; others may be of some that left.
    ends: BinaryHeap<Reverse<(i64, u64)>>,
    steps: i64,
    /// Tokens in the KV caches of all.
    pub(super) kv: u64,
    /// KV blocks of all, for this many tokens.
    blocks: u64,
    /// KV blocks of all at their ends.
    pub(super) most_blocks: u64,
    /// How many have this many tokens in their last block, 0 for a full one: counted from `turn`, which a step moves
    /// on.
    last_blocks: Vec<u32>,
    turn: usize,
}

impl Generating {
    pub(super) fn new(tokens_per_block: u64) -> Self {
        Self { last_blocks: vec![0; tokens_per_block.max(1) as usize], ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// KV blocks if each had this many tokens more.
    pub(super) fn blocks_with(&self, more: i64) -> u64 {
        let per_block = self.last_blocks.len() as i64;
        match more {
            0 => self.blocks,
            1 => self.blocks + u64::from(self.with_last_block(0)),
            -1 => self.blocks - u64::from(self.with_last_block(1 % self.last_blocks.len())),
            _ => (0..self.last_blocks.len()).fold(self.blocks, |blocks, tokens| {
                let ceil = |tokens: i64| (tokens + per_block - 1).div_euclid(per_block);
                let each = ceil(tokens as i64 + more) - ceil(tokens as i64);
                blocks.wrapping_add_signed(each * i64::from(self.with_last_block(tokens)))
            }),
        }
    }

    /// The last one in the order of places.
    pub(super) fn last_place(&self) -> Option<u64> {
        self.members.last_key_value().map(|(place, _)| *place)
    }

    /// In the order of places, with the tokens that each has made.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Active, u64)> {
        self.members.values().map(|member| (&member.request, member.made(self.steps)))
    }

    /// One whose context is computed.
    pub(super) fn add(&mut self, request: Active) {
        let member = Member { born: self.steps - request.made as i64, request };
        self.count(&member, true);
        self.ends.push(Reverse((member.end(), member.request.place)));
        self.members.insert(member.request.place, member);
    }

    /// Each makes a token in each of this many steps.
    pub(super) fn advance(&mut self, steps: u64) {
        let (len, per_block) = (self.members.len() as u64, self.last_blocks.len() as u64);
        self.blocks += steps / per_block * len;
        for _ in 0..steps % per_block {
            self.blocks += u64::from(self.with_last_block(0));
            self.turn = (self.turn + 1) % self.last_blocks.len();
        }
        self.kv += steps * len;
        self.steps += steps as i64;
    }

    /// A step in which each makes as many tokens as `tokens` says of the request and what it made. All steps of a group
    /// are of this kind, or none.
    pub(super) fn advance_each(&mut self, mut tokens: impl FnMut(&Active, u64) -> u64) {
        self.advance(1);
        let mut members = std::mem::take(&mut self.members);
        for member in members.values_mut() {
            let made = tokens(&member.request, member.made(self.steps) - 1);
            if made != 1 {
                self.count(member, false);
                member.born -= made as i64 - 1;
                self.count(member, true);
            }
            if member.end() <= self.steps {
                self.ends.push(Reverse((member.end(), member.request.place)));
            }
        }
        self.members = members;
    }

    /// Steps before one ends, that one not counted.
    pub(super) fn steps_before_an_end(&self) -> u64 {
        self.ends.peek().map_or(0, |Reverse((end, _))| (end - self.steps - 1).max(0) as u64)
    }

    /// The next one, in the order of places, that has all of its tokens.
    pub(super) fn pop_ended(&mut self) -> Option<Active> {
        let &Reverse((end, place)) = self.ends.peek()?;
        if end > self.steps { None } else { self.remove(place) }
    }

    /// The last one in the order of places.
    pub(super) fn pop_last(&mut self) -> Option<Active> {
        self.remove(self.last_place()?)
    }

    /// Takes one out, with what it made.
    pub(super) fn remove(&mut self, place: u64) -> Option<Active> {
        let member = self.members.remove(&place)?;
        self.count(&member, false);
        self.forget_those_that_left();
        let made = member.made(self.steps);
        Some(Active { made, ..member.request })
    }

    /// It gets no tokens any more. Returns its place.
    pub(super) fn cancel(&mut self, id: u64) -> Option<u64> {
        let member = self.members.values_mut().find(|member| member.request.id == id)?;
        member.request.cancelled = true;
        Some(member.request.place)
    }

    fn forget_those_that_left(&mut self) {
        while let Some(&Reverse((end, place))) = self.ends.peek()
            && self.members.get(&place).is_none_or(|member| member.end() != end)
        {
            self.ends.pop();
        }
    }

    /// Adds one to the sums, or takes it out.
    fn count(&mut self, member: &Member, is_added: bool) {
        let (kv, per_block) = (member.kv(self.steps), self.last_blocks.len() as u64);
        let at = self.turned((kv % per_block) as usize);
        let (blocks, most) = (kv.div_ceil(per_block), member.request.most_blocks);
        if is_added {
            self.kv += kv;
            self.blocks += blocks;
            self.most_blocks += most;
            self.last_blocks[at] += 1;
        } else {
            self.kv -= kv;
            self.blocks -= blocks;
            self.most_blocks -= most;
            self.last_blocks[at] -= 1;
        }
    }

    fn with_last_block(&self, tokens: usize) -> u32 {
        self.last_blocks[self.turned(tokens)]
    }

    const fn turned(&self, tokens: usize) -> usize {
        (tokens + self.last_blocks.len() - self.turn) % self.last_blocks.len()
    }
}

// LoRA adapters: how many different ones a step may have, and which are in GPU memory.

/// Adapters of the requests that run. One without a slot waits, and those behind it do not.
pub(super) struct AdapterSlots {
    most: usize,
    taken: Vec<u64>,
}

impl AdapterSlots {
    /// With the slots of the requests that run.
    pub(super) fn new(limits: &EngineLimits, requests: &Requests) -> Self {
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

// vLLM's scheduler: running requests first, each with as much of its context as the step's tokens allow; then waiting
// ones.
//
// A request holds blocks for what is computed of it, no more. When a running one needs a block and none is free, the
// last of the running ones loses all of its blocks and computes its tokens again later; in a step with such a loss none
// enters.

/// What the next step computes besides a token for each of those that generate.
#[derive(Debug, Default)]
pub(super) struct Scheduled {
    /// With the tokens of their context.
    pub(super) contexts: Vec<(ContextAt, u64)>,
    /// Requests that lost their blocks for it.
    pub(super) paused: usize,
    /// Waiting requests that it came by and that have no slot for their adapter.
    pub(super) deferred: usize,
}

/// Looks at the first `seen` of those that wait.
pub(super) fn schedule(limits: &EngineLimits, requests: &mut Requests, seen: usize) -> Scheduled {
    let mut scheduled = Scheduled::default();
    let mut pieces = running(limits, requests);
    while after(limits, requests, &pieces) > limits.blocks {
        requests.pause_last();
        scheduled.paused += 1;
        pieces = running(limits, requests);
    }
    let mut free = limits.blocks - after(limits, requests, &pieces);
    let mut budget = limits.max_num_tokens - requests.generating.len() as u64 * (1 + limits.drafts());
    budget -= pieces.iter().sum::<u64>();
    let computing = pieces.into_iter().enumerate().filter(|(_, tokens)| *tokens > 0);
    scheduled.contexts = computing.map(|(at, tokens)| (ContextAt::Computing(at), tokens)).collect();
    if scheduled.paused > 0 {
        return scheduled;
    }
    let mut adapters = AdapterSlots::new(limits, requests);
    let mut places = limits.max_batch_size.saturating_sub(requests.running());
    for (at, request) in requests.waiting.iter().take(seen).enumerate() {
        if places == 0 || budget == 0 {
            break;
        }
        if !adapters.admit(request) {
            scheduled.deferred += 1;
            continue;
        }
        let tokens = request.left().min(budget);
        // `scheduler_reserve_full_isl`: a request enters when all of its context fits, though only a part of it is
        // computed now.
        if limits.blocks_of(request.ctx) > free {
            break;
        }
        let Some(left) = free.checked_sub(limits.blocks_of(request.pos + tokens)) else { break };
        free = left;
        budget -= tokens;
        places -= 1;
        scheduled.contexts.push((ContextAt::Waiting(at), tokens));
    }
    scheduled
}

/// The tokens of each that computes its context: as many as those that generate leave, in order.
fn running(limits: &EngineLimits, requests: &Requests) -> Vec<u64> {
    let mut budget = limits.max_num_tokens - requests.generating.len() as u64 * (1 + limits.drafts());
    let piece = |request: &Active| {
        let tokens = request.left().min(budget);
        budget -= tokens;
        tokens
    };
    requests.computing.iter().map(piece).collect()
}

/// Blocks of those that run after the step.
fn after(limits: &EngineLimits, requests: &Requests, pieces: &[u64]) -> u64 {
    let contexts =
        requests.computing.iter().zip(pieces).map(|(request, tokens)| limits.blocks_of(request.pos + tokens));
    requests.generating.blocks_with(limits.drafts() as i64) + contexts.sum::<u64>()
}

// Steps that differ only in their time: while the same requests generate, none of them ends and none enters, the
// scheduler decides the same. They are run at once, with the same bytes as a result as one by one.

/// The steps after the last one that are equal to it.
#[derive(Clone, Copy, Debug)]
struct EqualSteps {
    /// Before a request ends or blocks could be missing.
    count: u64,
    generating: u64,
    /// KV tokens of the first of them; each has `generating` more than the one before.
    pub(super) kv: u64,
}

impl Core {
    /// Runs the steps from `now` that are like the one that ended and that begin before `until`. Returns when the last
    /// of them ends, or `now` if none ran. No request begins or ends in them.
    pub fn run_equal_steps(&mut self, now: u64, until: u64) -> u64 {
        let Some(steps) = self.equal_steps() else { return now };
        let (count, end) = self.time_of(&steps, now, until);
        if count == 0 {
            return now;
        }
        self.requests.generating.advance(count);
        self.requests.unseen = 0;
        self.steps += count;
        self.peak_blocks = self.peak_blocks.max(self.used_blocks());
        // Each step is a little longer than the one before: the chunks wait for each other in all of them or in none.
        let chunks_ns = self.limits.timing.chunks_ns(steps.generating);
        self.sent = (self.sent + count * chunks_ns).max(end + chunks_ns);
        end
    }

    fn time_of(&self, steps: &EqualSteps, mut now: u64, until: u64) -> (u64, u64) {
        let mut done = 0;
        while done < steps.count && now < until {
            now += self.limits.timing.step_ns(0, 0, 0, steps.generating, steps.kv + done * steps.generating);
            now += self.adapters.step_ns;
            done += 1;
        }
        (done, now)
    }

    fn equal_steps(&self) -> Option<EqualSteps> {
        let requests = &self.requests;
        let generating = requests.generating.len() as u64;
        if !self.is_repeating || generating == 0 || !requests.computing.is_empty() {
            return None;
        }
        // One that the last step did not see enters when there is a place.
        let has_place = requests.running() < self.limits.max_batch_size || self.limits.lora.is_some();
        if requests.unseen > 0 && has_place {
            return None;
        }
        let mut count = requests.generating.steps_before_an_end();
        if count > 0 && matches!(self.limits.policy, SchedulerPolicy::MaxUtilization | SchedulerPolicy::Vllm) {
            count = count.min(self.steps_with_blocks()?);
        }
        (count > 0).then_some(EqualSteps { count, generating, kv: requests.generating.kv })
    }

    /// For how many steps blocks are left for certain. `None`: one by one, because a request waits before one that
    /// generates.
    fn steps_with_blocks(&self) -> Option<u64> {
        let (limits, generating) = (&self.limits, &self.requests.generating);
        let is_vllm = limits.policy == SchedulerPolicy::Vllm;
        // What waits behind those that generate cannot have more room than it had.
        let first = self.requests.waiting.front().map(|request| request.place);
        if !is_vllm && first.is_some_and(|first| Some(first) < generating.last_place()) {
            return None;
        }
        let held = generating.blocks_with(if is_vllm { -1 } else { 1 });
        // Each takes a block at most once in the tokens of a block.
        Some(limits.blocks.checked_sub(held)? / generating.len() as u64 * limits.tokens_per_block)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn request(place: u64, (isl, osl, made): (u64, u64, u64)) -> Active {
        let tokens = Active { isl, ctx: isl, pos: isl, osl: osl.max(made + 1), made, ..Active::default() };
        Active { id: place, number: place, place, most_blocks: isl + osl, ..tokens }
    }

    #[derive(Clone, Debug)]
    enum Change {
        Add((u64, u64, u64)),
        Advance,
        PopLast,
    }

    fn changes() -> impl Strategy<Value = Vec<Change>> {
        let change = prop_oneof![
            (1_u64..90, 1_u64..40, 0_u64..5).prop_map(Change::Add),
            Just(Change::Advance),
            Just(Change::PopLast),
        ];
        prop::collection::vec(change, 1..60)
    }

    proptest! {
        /// The sums are those of the members, one by one, after every change.
        #[test]
        fn sums_are_those_of_the_members(
            changes in changes(),
            most in 1_u64..4,
            per_block in prop_oneof![Just(1_u64), Just(7), Just(32)],
        ) {
            let mut group = Generating::new(per_block);
            let mut members: BTreeMap<u64, Active> = BTreeMap::new();
            for (place, change) in (0..).zip(changes) {
                match change {
                    Change::Add(lengths) => {
                        group.add(request(place, lengths));
                        members.insert(place, request(place, lengths));
                    }
                    Change::Advance => {
                        let tokens =
                            |request: &Active, made: u64| (1 + (request.place + made) % most).min(request.osl - made);
                        if most == 1 {
                            group.advance(1);
                        } else {
                            group.advance_each(tokens);
                        }
                        for member in members.values_mut() {
                            member.made += tokens(member, member.made);
                        }
                    }
                    Change::PopLast => {
                        let last = members.pop_last().map(|(_, member)| (member.place, member.made));
                        prop_assert_eq!(group.pop_last().map(|member| (member.place, member.made)), last);
                    }
                }
                for (place, member) in members.extract_if(.., |_, member| member.made == member.osl) {
                    let ended = group.pop_ended().map(|ended| (ended.place, ended.made));
                    prop_assert_eq!(ended, Some((place, member.made)));
                }
                prop_assert!(group.pop_ended().is_none());
                let made: Vec<_> = members.values().map(|member| (member.place, member.made)).collect();
                prop_assert_eq!(group.iter().map(|(request, made)| (request.place, made)).collect::<Vec<_>>(), made);
                let kv = |member: &Active| member.isl + member.made;
                prop_assert_eq!(group.kv, members.values().map(kv).sum::<u64>());
                prop_assert_eq!(group.most_blocks, members.values().map(|member| member.most_blocks).sum::<u64>());
                for more in -1..9 {
                    let blocks =
                        members.values().map(|member| kv(member).saturating_add_signed(more).div_ceil(per_block));
                    prop_assert_eq!(group.blocks_with(more), blocks.sum::<u64>(), "{} more", more);
                }
            }
        }
    }

    #[test]
    fn many_steps_at_once_are_the_same_as_one_by_one() {
        let (mut at_once, mut one_by_one) = (Generating::new(32), Generating::new(32));
        for place in 0..20 {
            at_once.add(request(place, (1 + place * 7, 1000, place)));
            one_by_one.add(request(place, (1 + place * 7, 1000, place)));
        }
        at_once.advance(100);
        for _ in 0..100 {
            one_by_one.advance(1);
        }
        let sums = |group: &Generating| (group.kv, group.blocks_with(0), group.blocks_with(5));
        assert_eq!(sums(&at_once), sums(&one_by_one));
        assert_eq!(at_once.steps_before_an_end(), 1000 - 19 - 100 - 1);
    }
}
