//! How the number of requests in flight changes over time.

use std::iter::Peekable;

use crate::spool::{Spool, SpoolReader};

/// Time and change, from stamps in the order of time. An end and an issue at the same instant are one after the other.
pub(crate) fn in_flight_changes(issues: &Spool<u64>, ends: &Spool<u64>) -> impl Iterator<Item = (u64, i64)> {
    let (mut issues, mut ends) = (issues.iter().peekable(), ends.iter().peekable());
    std::iter::from_fn(move || {
        let is_end = match (issues.peek(), ends.peek()) {
            (Some(issue), Some(end)) => end <= issue,
            (issue, _) => issue.is_none(),
        };
        if is_end { Some((ends.next()?, -1)) } else { Some((issues.next()?, 1)) }
    })
}

/// Counts sorted stamps before times that do not go back.
pub(crate) struct Before<'s> {
    rest: Peekable<SpoolReader<'s, u64>>,
    count: usize,
}

impl<'s> Before<'s> {
    pub fn new(sorted: &'s Spool<u64>) -> Self {
        Self { rest: sorted.iter().peekable(), count: 0 }
    }

    pub fn count(&mut self, time: u64) -> usize {
        while self.rest.next_if(|at| *at < time).is_some() {
            self.count += 1;
        }
        self.count
    }

    /// The first one that was not counted.
    pub fn next(&mut self) -> Option<u64> {
        self.rest.peek().copied()
    }
}
