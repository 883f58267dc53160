//! The Pareto front: what one user sees against what the servers do.

use super::point::SweepPoint;

/// Marks the accepted points that no other accepted point beats in both numbers. Points that are not valid are on no front, nor are
/// overloaded ones: time per token leaves the wait in the queue out, so that they look like a bargain.
pub(super) fn mark(points: &mut [SweepPoint]) {
    let pair = |point: &SweepPoint| {
        let is_accepted = point.is_accepted() && !point.is_overloaded();
        Some((point.tokens_per_s_per_user?, point.output_tokens_per_s?)).filter(|_| is_accepted)
    };
    let pairs: Vec<Option<(f64, f64)>> = points.iter().map(pair).collect();
    for (point, own) in points.iter_mut().zip(&pairs) {
        point.on_front = own.is_some_and(|(user, server)| {
            let beats =
                |other: &(f64, f64)| other.0 >= user && other.1 >= server && (other.0 > user || other.1 > server);
            !pairs.iter().flatten().any(beats)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::level::SweepLevel;
    use crate::{Reason, ReasonSeverity, VerdictCheck};
    use base::event::Verdict;

    #[test]
    fn the_front_has_what_nothing_valid_beats() {
        let point = |verdict, user, server| SweepPoint {
            verdict: Some(verdict),
            tokens_per_s_per_user: Some(user),
            output_tokens_per_s: Some(server),
            ..SweepPoint::empty(SweepLevel::Users(1), None)
        };
        let mut points = vec![
            point(Verdict::Valid, 100.0, 100.0),
            point(Verdict::ValidWithWarnings, 80.0, 300.0),
            // Beaten in both.
            point(Verdict::Valid, 79.0, 290.0),
            // Better than all, and no measurement.
            point(Verdict::InvalidClient, 200.0, 900.0),
            point(Verdict::InvalidLoad, 200.0, 900.0),
            // Valid with the warning that its queue grows.
            point(Verdict::ValidWithWarnings, 79.0, 600.0),
        ];
        let (check, severity) = (VerdictCheck::Overload, ReasonSeverity::Warning);
        points[5].reasons = vec![Reason { check, severity, text: String::new() }];
        mark(&mut points);
        let on_front: Vec<bool> = points.iter().map(|point| point.on_front).collect();
        assert_eq!(on_front, [true, true, false, false, false, false]);
    }
}
