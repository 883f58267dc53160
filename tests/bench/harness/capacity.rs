//! Share of a paced server's capacity that is used: 100 % when no place at the server ever waits for the client.

use regatta::harness::LoadPattern;
use regatta::spec::Arrivals;

use crate::Outcome;
use crate::race::Race;
use crate::server::{Server, Truth};

const TOKENS: u32 = 100;
const GAP_MS: f64 = 5.0;
/// Of each user.
const ROUNDS: u64 = 20;

pub fn print(share: f64) -> Outcome {
    println!(
        "Share of a paced server's capacity ({TOKENS} tokens, {GAP_MS} ms each; closed loop), as the server saw it"
    );
    for users in [16u32, 64, 256] {
        let mut server = Server::paced(GAP_MS, GAP_MS)?;
        let race = Race {
            scenario: LoadPattern::Concurrency { users: f64::from(users).into() },
            arrivals: Arrivals::Constant,
            requests: ((ROUNDS as f64 * share).ceil() as u64).max(2) * u64::from(users),
            tokens: TOKENS,
            clients: 2,
            seed: 1,
        };
        let result = race.run(&server)?.result;
        let share = used(&server.truths()?, users as usize);
        let cpu = result.client.cpu_share_max;
        println!("  {users:>4} users: {:.2} %, goal ≥ 99 %; busiest worker {:.0} % of a core", share * 1e2, cpu * 1e2);
    }
    Ok(())
}

/// Time that places at the server were taken, over all of their time: from when all are taken for the first time to the
/// last arrival, since from then on some have nothing left to do.
pub fn used(truths: &[Truth], places: usize) -> f64 {
    let (Some(full), Some(end)) = (truths.get(places - 1), truths.last()) else { return f64::NAN };
    let (from, to) = (full.came, end.came);
    let taken: i128 = truths.iter().map(|truth| (truth.last.min(to) - truth.came.max(from)).max(0)).sum();
    taken as f64 / ((to - from) as f64 * places as f64)
}
