//! A number of users in virtual time, each with one request at a time.

use super::latencies::VirtualResult;
use super::workload::VirtualWorkload;
use crate::core::{EngineLimits, NeverFits, simulate_users};

/// Users without pauses, shared out over the servers, and requests by the users. The servers are alike but for their users: some
/// have one more than the others. One server of each kind is simulated.
pub fn with_users(
    server: &EngineLimits,
    servers: usize,
    workload: &VirtualWorkload,
    count: usize,
    users: usize,
) -> Result<VirtualResult, NeverFits> {
    let users = users.max(1);
    let busy = servers.clamp(1, users);
    let more = users % busy;
    let mut result = VirtualResult::default();
    for (servers, own) in [(more, users / busy + 1), (busy - more, users / busy)] {
        if servers > 0 {
            let requests = workload.requests((count * own).div_ceil(users), None);
            let (load, run) = simulate_users(server, &requests, own)?;
            for _ in 0..servers {
                result.add(&load, &run.requests, run.steps);
            }
        }
    }
    result.sort();
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::spec;
    use crate::served_limits::{EngineServing, served_limits};
    use crate::virtual_load::offline;
    use base::spec::Length;

    #[test]
    fn more_users_bring_more_until_all_requests_are_there_at_once() {
        let server = served_limits(&spec(), &EngineServing::default()).unwrap();
        let workload = VirtualWorkload {
            input_tokens: Length::Fixed(200),
            output_tokens: Length::Fixed(50),
            adapters: Vec::new(),
            seed: 3,
        };
        let rate = |users| with_users(&server, 2, &workload, 400, users).unwrap().tokens_per_second();
        assert!(rate(1) < rate(8) && rate(8) < rate(64));
        let all = with_users(&server, 2, &workload, 400, 400).unwrap();
        let at_once = offline(&server, 2, &workload, 400).unwrap();
        assert_eq!((all.requests, all.steps, all.seconds), (400, at_once.steps, at_once.seconds));
        // One server of two answers a single user.
        let alone = with_users(&server, 2, &workload, 10, 1).unwrap();
        assert_eq!(alone.requests, 10);
    }

    /// Nine users on eight servers are nine: one server has two, the others one each.
    #[test]
    fn users_that_do_not_divide_evenly_are_not_rounded_up() {
        let server = served_limits(&spec(), &EngineServing::default()).unwrap();
        let workload = VirtualWorkload {
            input_tokens: Length::Fixed(200),
            output_tokens: Length::Fixed(50),
            adapters: Vec::new(),
            seed: 3,
        };
        let rate = |users| with_users(&server, 8, &workload, 1440, users).unwrap().tokens_per_second();
        let (eight, nine, sixteen) = (rate(8), rate(9), rate(16));
        let share = (nine - eight) / (sixteen - eight);
        assert!((0.05..0.2).contains(&share), "{eight} {nine} {sixteen}");
        let nine = with_users(&server, 8, &workload, 1440, 9).unwrap();
        assert_eq!((nine.requests, nine.ttft.len()), (1440, 1440));
    }
}
