//! Steps that differ only in their time: while the same requests generate, none of them ends and none enters, the scheduler decides
//! the same. They are run at once, with the same bytes as a result as one by one.

use super::{Core, SchedulerPolicy};

/// The steps behind the last one that are like it.
#[derive(Clone, Copy, Debug)]
struct EqualSteps {
    /// Before a request ends or blocks could be missing.
    count: u64,
    generating: u64,
    /// KV tokens of the first of them; each has `generating` more than the one before.
    kv: u64,
}

impl Core {
    /// Runs the steps from `now` that are like the one that ended and that begin before `until`. Returns when the last of them ends:
    /// `now` when there is none. No request begins or ends in them.
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
        end
    }

    /// When these steps would end if no request entered. `None`: there are none.
    pub fn end_of_equal_steps(&self, now: u64) -> Option<u64> {
        self.equal_steps().map(|steps| self.time_of(&steps, now, u64::MAX).1)
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
        if count > 0 && self.takes_blocks_as_it_goes() {
            count = count.min(self.steps_with_blocks()?);
        }
        (count > 0).then(|| EqualSteps { count, generating, kv: requests.generating.kv_tokens() })
    }

    const fn takes_blocks_as_it_goes(&self) -> bool {
        matches!(self.limits.policy, SchedulerPolicy::MaxUtilization | SchedulerPolicy::Vllm)
    }

    /// For how many steps blocks are left for certain. `None`: one by one, because a request waits before one that generates.
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
