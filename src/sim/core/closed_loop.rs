//! A closed loop on the virtual clock: users who wait for an answer before they send the next request.

use std::collections::VecDeque;

use super::{Core, EngineLimits, NeverFits, Served, SimulatedRequest, VirtualRun};

/// These requests in turn, whatever their arrivals. Each of the users sends its next one when its answer has ended.
/// Returns the requests with the times at which they were sent, and the outcome of each.
pub fn simulate_users(
    limits: &EngineLimits,
    requests: &[SimulatedRequest],
    users: usize,
) -> Result<(Vec<SimulatedRequest>, VirtualRun), NeverFits> {
    let mut core = Core::new(limits.clone());
    let frontend = limits.timing.frontend_ns();
    let mut sent: Vec<SimulatedRequest> = Vec::with_capacity(requests.len());
    let mut served = vec![Served::default(); requests.len()];
    // Answers end in the order of time, so requests enter in the order in which they were sent.
    let mut entering: VecDeque<usize> = VecDeque::new();
    let mut now = 0;
    let mut free_users = users.max(1);
    loop {
        while free_users > 0 && sent.len() < requests.len() {
            let request = requests[sent.len()];
            entering.push_back(sent.len());
            sent.push(SimulatedRequest { at: now, ..request });
            free_users -= 1;
        }
        while let Some(&id) = entering.front().filter(|&&id| sent[id].at + frontend <= now) {
            core.arrive(sent[id].with_id(id as u64))?;
            entering.pop_front();
        }
        let Some(step) = core.begin(now) else {
            let Some(&id) = entering.front() else { break };
            now = sent[id].at + frontend;
            continue;
        };
        now = step.end;
        core.finish_with_ends(|token| {
            served[token.id as usize].take(&token, now);
            free_users += usize::from(token.is_last);
        });
        // A user that is free sends at once.
        if free_users == 0 || sent.len() == requests.len() {
            now = core.run_equal_steps(now, entering.front().map_or(u64::MAX, |&id| sent[id].at + frontend));
        }
    }
    Ok((sent, VirtualRun { requests: served, end: now, steps: core.steps(), peak_blocks: core.peak_blocks() }))
}
