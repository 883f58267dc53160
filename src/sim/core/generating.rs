//! Requests that generate. All of them are in every step, so that what a step changes is known from sums: without speculative
//! decoding its cost does not grow with their number.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::active::Active;

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
#[derive(Clone, Debug)]
pub(super) struct Generating {
    members: BTreeMap<u64, Member>,
    /// The step of the last token, and the place. The first one is of a member; others may be of some that left.
    ends: BinaryHeap<Reverse<(i64, u64)>>,
    steps: i64,
    /// Tokens in the KV caches of all.
    kv: u64,
    /// KV blocks of all, for this many tokens.
    blocks: u64,
    /// KV blocks of all at their ends.
    most_blocks: u64,
    /// How many have this many tokens in their last block, 0 for a full one: counted from `turn`, which a step moves on.
    last_blocks: Vec<u32>,
    turn: usize,
}

impl Generating {
    pub(super) fn new(tokens_per_block: u64) -> Self {
        Self {
            members: BTreeMap::new(),
            ends: BinaryHeap::new(),
            steps: 0,
            kv: 0,
            blocks: 0,
            most_blocks: 0,
            last_blocks: vec![0; tokens_per_block.max(1) as usize],
            turn: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Tokens that the next ones are computed from.
    pub(super) const fn kv_tokens(&self) -> u64 {
        self.kv
    }

    /// KV blocks of all at their ends.
    pub(super) const fn most_blocks(&self) -> u64 {
        self.most_blocks
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

    /// A step in which each makes as many tokens as `tokens` says of the request and what it made. All steps of a group are of this kind,
    /// or none.
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
        fn sums_are_those_of_the_members(changes in changes(), most in 1_u64..4, per_block in prop_oneof![Just(1_u64), Just(7), Just(32)]) {
            let mut group = Generating::new(per_block);
            let mut members: BTreeMap<u64, Active> = BTreeMap::new();
            for (place, change) in (0..).zip(changes) {
                match change {
                    Change::Add(lengths) => {
                        group.add(request(place, lengths));
                        members.insert(place, request(place, lengths));
                    }
                    Change::Advance => {
                        let tokens = |request: &Active, made: u64| (1 + (request.place + made) % most).min(request.osl - made);
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
                    prop_assert_eq!(group.pop_ended().map(|ended| (ended.place, ended.made)), Some((place, member.made)));
                }
                prop_assert!(group.pop_ended().is_none());
                let made: Vec<_> = members.values().map(|member| (member.place, member.made)).collect();
                prop_assert_eq!(group.iter().map(|(request, made)| (request.place, made)).collect::<Vec<_>>(), made);
                let kv = |member: &Active| member.isl + member.made;
                prop_assert_eq!(group.kv_tokens(), members.values().map(kv).sum::<u64>());
                prop_assert_eq!(group.most_blocks(), members.values().map(|member| member.most_blocks).sum::<u64>());
                for more in -1..9 {
                    let blocks = members.values().map(|member| kv(member).saturating_add_signed(more).div_ceil(per_block));
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
        let sums = |group: &Generating| (group.kv_tokens(), group.blocks_with(0), group.blocks_with(5));
        assert_eq!(sums(&at_once), sums(&one_by_one));
        assert_eq!(at_once.steps_before_an_end(), 1000 - 19 - 100 - 1);
    }
}
