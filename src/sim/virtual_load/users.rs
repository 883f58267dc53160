//! A number of users in virtual time, each with one request at a time.

use super::latencies::VirtualResult;
use super::workload::VirtualWorkload;
use crate::sim::core::{EngineLimits, NeverFits, simulate_users};

/// Users without pauses, shared out over the servers. The servers are alike, so one of them is simulated, with its share.
pub fn with_users(
    server: &EngineLimits,
    servers: usize,
    workload: &VirtualWorkload,
    count: usize,
    users: usize,
) -> Result<VirtualResult, NeverFits> {
    let busy = servers.min(users).max(1);
    let requests = workload.requests(count.div_ceil(busy), None);
    let (load, run) = simulate_users(server, &requests, users.div_ceil(busy))?;
    let mut result = VirtualResult::default();
    result.add(&load, &run.requests, run.steps);
    result.times(busy);
    result.sort();
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::engine::tests::spec;
    use crate::sim::twin::{TwinServing, twin};
    use crate::sim::virtual_load::offline;
    use crate::spec::Length;

    #[test]
    fn more_users_bring_more_until_all_requests_are_there_at_once() {
        let server = twin(&spec(), &TwinServing::default()).unwrap();
        let workload = VirtualWorkload {
            input_tokens: Length::Fixed(200),
            output_tokens: Length::Fixed(50),
            adapters: Vec::new(),
            seed: 3,
        };
        let rate = |users| with_users(&server, 2, &workload, 400, users).unwrap().tokens_per_second();
        assert!(rate(1) < rate(8) && rate(8) < rate(64));
        let all = with_users(&server, 2, &workload, 400, 400).unwrap();
        assert_eq!(all, offline(&server, 2, &workload, 400).unwrap());
        // One server of two answers a single user.
        let alone = with_users(&server, 2, &workload, 10, 1).unwrap();
        assert_eq!(alone.requests, 10);
    }
}
