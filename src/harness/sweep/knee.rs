//! The knee of a load curve.
//!
//! *Power* is throughput over response time; the knee is where it is highest (Kleinrock, "Power and deterministic rules of thumb
//! for probabilistic problems in computer communications", ICC 1979). In a closed loop of N users it is X²/N: it grows with N as
//! long as more users bring more throughput, and falls once they only wait. Unlike Kneedle, which scales both axes to the range
//! that was measured, it does not move when a sweep goes on to higher levels.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::level::SweepLevel;
use super::point::SweepPoint;

const DEFINITION: &str =
    "the point with the highest power, successful requests per second over mean E2E (Kleinrock 1979)";

/// Where more load begins to cost more latency than it brings throughput.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Knee {
    pub definition: String,
    pub state: KneeState,
    pub level: SweepLevel,
    /// Its place in `points`, from 0.
    pub point: u64,
    /// Requests per second per second.
    pub power: f64,
}

/// Whether the sweep goes far enough on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KneeState {
    /// Points on both sides have less power.
    Bracketed,
    /// It is the lowest usable point without overload: the knee may be lower.
    AtLowest,
    /// It is the highest usable point without overload: the knee may be higher.
    AtHighest,
}

/// `points` are in the order of their load. None where fewer than three can be used. E2E of an overloaded point, and so its power, is
/// one of the length of its run: it is no candidate.
pub(super) fn find(points: &[SweepPoint]) -> Option<Knee> {
    let power = |point: &SweepPoint| {
        let e2e = point.e2e.mean.filter(|mean| mean.value > 0.0 && point.is_usable())?;
        Some(point.requests_per_s? / (e2e.value / 1e3))
    };
    let usable: Vec<(usize, f64)> =
        points.iter().enumerate().filter_map(|(at, point)| Some((at, power(point)?))).collect();
    if usable.len() < 3 {
        return None;
    }
    let powers: Vec<(usize, f64)> = usable.into_iter().filter(|(at, _)| !points[*at].is_overloaded()).collect();
    let (place, &(at, power)) = powers.iter().enumerate().max_by(|(_, a), (_, b)| a.1.total_cmp(&b.1))?;
    let state = match place {
        // Alone it has nothing to be compared with on either side; more load is what was looked at.
        0 if powers.len() > 1 => KneeState::AtLowest,
        place if place + 1 == powers.len() => KneeState::AtHighest,
        _ => KneeState::Bracketed,
    };
    let level = points.get(at)?.level.clone();
    Some(Knee { definition: DEFINITION.to_owned(), state, level, point: at as u64, power })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::point::{LatencySummary, MeasuredNumber};
    use crate::{Reason, ReasonSeverity, VerdictCheck};
    use base::event::Verdict;

    /// The bound of a closed loop (Denning & Buzen 1978): a server that answers in one second alone, and at most 16 a second.
    fn point(users: u32) -> SweepPoint {
        let rate = f64::from(users).min(16.0);
        let mean = MeasuredNumber { value: f64::from(users) / rate * 1e3, low: None, high: None };
        SweepPoint {
            requests_per_s: Some(rate),
            e2e: LatencySummary { mean: Some(mean), ..LatencySummary::default() },
            ..SweepPoint::empty(SweepLevel::Users(users), None)
        }
    }

    fn knee(users: &[u32]) -> Option<(SweepLevel, KneeState)> {
        let points: Vec<SweepPoint> = users.iter().map(|users| point(*users)).collect();
        find(&points).map(|knee| (knee.level, knee.state))
    }

    #[test]
    fn it_is_where_users_begin_to_wait_however_far_the_sweep_goes() {
        let expected = Some((SweepLevel::Users(16), KneeState::Bracketed));
        assert_eq!(knee(&[1, 2, 4, 8, 16, 32]), expected);
        assert_eq!(knee(&[1, 2, 4, 8, 16, 32, 64, 128, 512]), expected);
    }

    #[test]
    fn a_load_that_was_not_reached_is_no_knee() {
        let mut points: Vec<SweepPoint> = [1, 2, 4, 8, 16, 32].map(point).to_vec();
        points[4].verdict = Some(Verdict::InvalidLoad);
        let reason = |check| Reason { check, severity: ReasonSeverity::InvalidLoad, text: String::new() };
        points[4].reasons = vec![reason(VerdictCheck::Limits)];
        assert!(points[4].is_usable() && find(&points).is_some_and(|knee| knee.level == SweepLevel::Users(16)));
        points[4].reasons = vec![reason(VerdictCheck::Concurrency)];
        assert!(!points[4].is_usable());
        assert!(find(&points).is_some_and(|knee| knee.level != SweepLevel::Users(16)));
    }

    /// With a short run an overloaded point has much throughput and little latency.
    #[test]
    fn an_overloaded_point_is_no_knee() {
        let mut points: Vec<SweepPoint> = [1, 2, 4, 8].map(point).to_vec();
        assert_eq!(find(&points).map(|knee| knee.level), Some(SweepLevel::Users(8)));
        let (check, severity) = (VerdictCheck::Overload, ReasonSeverity::Warning);
        points[3].reasons = vec![Reason { check, severity, text: String::new() }];
        let knee = find(&points).unwrap();
        assert_eq!((knee.level, knee.state), (SweepLevel::Users(4), KneeState::AtHighest));
        points[2].reasons = points[3].reasons.clone();
        points[1].reasons = points[3].reasons.clone();
        let knee = find(&points).unwrap();
        assert_eq!((knee.level, knee.state), (SweepLevel::Users(1), KneeState::AtHighest));
    }

    #[test]
    fn a_sweep_that_does_not_reach_it_says_so() {
        assert_eq!(knee(&[1, 2, 4]), Some((SweepLevel::Users(4), KneeState::AtHighest)));
        assert_eq!(knee(&[32, 64, 128]), Some((SweepLevel::Users(32), KneeState::AtLowest)));
        assert_eq!(knee(&[1, 2]), None);
    }
}
