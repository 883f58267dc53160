//! To which replica a request goes.

use super::replica::Replica;

/// The policy of a balancer. It knows which replicas are up and how many requests it has given to each that have not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Balancer {
    /// Each in turn.
    RoundRobin,
    /// The one with the fewest requests.
    LeastLoad,
    /// One that has the KV cache of the prompt's prefix, unless it has many more requests than the least loaded one.
    PrefixAware,
}

/// A replica with the prefix is taken up to this multiple of the least load, and this many requests more.
const MORE_LOAD: f64 = 1.25;
const MORE_REQUESTS: f64 = 4.0;

impl Balancer {
    /// `turn` counts up; it decides between replicas that are alike. `None`: no replica is up.
    pub(super) fn choose(self, replicas: &[Replica], prefix: Option<u32>, turn: &mut usize) -> Option<usize> {
        let count = replicas.len();
        let from = *turn;
        let in_turn = || (0..count).map(|step| (from + step) % count).filter(|&at| replicas[at].is_up());
        let least = || in_turn().min_by_key(|&at| replicas[at].requests());
        let found = match self {
            Self::RoundRobin => in_turn().next(),
            Self::LeastLoad => least(),
            Self::PrefixAware => {
                let most = least().map_or(0.0, |at| replicas[at].requests() as f64 * MORE_LOAD + MORE_REQUESTS);
                let has = |at: &usize| prefix.is_some_and(|prefix| replicas[*at].has_prefix(prefix));
                let warm = in_turn().filter(has).min_by_key(|&at| replicas[at].requests());
                warm.filter(|&at| replicas[at].requests() as f64 <= most).or_else(least)
            }
        };
        if let Some(found) = found {
            *turn = found + 1;
        }
        found
    }
}
