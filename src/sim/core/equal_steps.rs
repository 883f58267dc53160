//! Steps that differ only in their time: while the same requests generate, none of them ends and none enters, the scheduler decides
//! the same. They are run at once, with the same bytes as a result as one by one.

use super::{Active, Core, SchedulerPolicy, capacity};

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
        let generating = self.repeating.take().unwrap_or_default();
        for &at in &generating {
            self.active[at].made += count;
        }
        self.steps += count;
        self.seen = self.backlog.len();
        self.peak_blocks = self.peak_blocks.max(self.used_blocks());
        self.repeating = Some(generating);
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
        let generating = self.repeating.as_ref().filter(|generating| !generating.is_empty())?;
        // One that waits outside enters when there is a place.
        let has_place = self.active.len() < self.limits.max_batch_size || self.limits.lora.is_some();
        if !self.backlog.is_empty() && has_place {
            return None;
        }
        let (mut kv, mut count) = (0, u64::MAX);
        for &at in generating {
            let request = &self.active[at];
            kv += request.kv();
            count = count.min(request.osl - request.made - 1);
        }
        if count > 0 && self.takes_blocks_as_it_goes() {
            count = count.min(self.steps_with_blocks(generating)?);
        }
        (count > 0).then_some(EqualSteps { count, generating: generating.len() as u64, kv })
    }

    const fn takes_blocks_as_it_goes(&self) -> bool {
        matches!(self.limits.policy, SchedulerPolicy::MaxUtilization | SchedulerPolicy::Vllm)
    }

    /// For how many steps blocks are left for certain. `None`: one by one, because requests wait between those that generate.
    fn steps_with_blocks(&self, generating: &[usize]) -> Option<u64> {
        let limits = &self.limits;
        let is_vllm = limits.policy == SchedulerPolicy::Vllm;
        let held = |request: &Active| {
            if is_vllm { limits.blocks_of(request.held()) } else { capacity::next_blocks(limits, request) }
        };
        let holds = |request: &&Active| request.started;
        let (first, rest) = self.active.split_at(generating.len());
        // What waits behind those that generate cannot have more room than it had.
        if first.iter().any(|request| !request.is_generating()) || rest.iter().any(|request| request.started) {
            return None;
        }
        let free = limits.blocks.checked_sub(first.iter().filter(holds).map(held).sum::<u64>())?;
        // Each takes a block at most once in the tokens of a block.
        Some(free / generating.len() as u64 * limits.tokens_per_block)
    }
}
