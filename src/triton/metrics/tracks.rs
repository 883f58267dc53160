//! What was polled, series by series: the values of each server in time.

use std::ops::Range;
use std::time::Instant;

use super::scrape::{ServerPoll, since};
use super::summary::MOST_POINT_BYTES;

/// Points of all series that are summarized at once: lists have room for up to twice as many as they hold.
const MOST_POINTS: usize = MOST_POINT_BYTES / (2 * size_of::<Point>());

/// One value of one server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub round: u32,
    /// s from the run's start.
    pub at: f64,
    pub value: f64,
}

/// Of each series, one after the other: the points of each server. Those of some series at a time are in memory.
pub(super) fn tracks(
    ticks: &[&ServerPoll],
    series: usize,
    servers: usize,
    zero: Instant,
) -> impl Iterator<Item = Vec<Vec<Point>>> {
    let batches = batches(&points_of(series, ticks), servers, MOST_POINTS);
    batches.into_iter().flat_map(move |places| tracks_of(ticks, places, servers, zero))
}

/// Values of each series.
fn points_of(series: usize, ticks: &[&ServerPoll]) -> Vec<usize> {
    let mut counts = vec![0; series];
    for (place, _) in ticks.iter().filter_map(|tick| tick.values.as_ref().ok()).flatten() {
        counts[*place as usize] += 1;
    }
    counts
}

/// Places of the series whose points are in memory at once: at most `most` points together, with the list of each
/// server counted as one. A series that has more is alone.
fn batches(points: &[usize], servers: usize, most: usize) -> Vec<Range<usize>> {
    let (mut batches, mut begun, mut held) = (Vec::new(), 0, 0);
    for (place, points) in points.iter().enumerate() {
        let points = points + servers + 1;
        if held + points > most && place > begun {
            batches.push(begun..place);
            (begun, held) = (place, 0);
        }
        held += points;
    }
    batches.push(begun..points.len());
    batches
}

/// The points in time of each of these series on each server. Values that are not finite are left out, and so is a
/// second value in one answer.
fn tracks_of(ticks: &[&ServerPoll], places: Range<usize>, servers: usize, zero: Instant) -> Vec<Vec<Vec<Point>>> {
    let mut tracks = vec![vec![Vec::<Point>::new(); servers]; places.len()];
    for tick in ticks {
        for (place, value) in tick.values.iter().flatten().filter(|(_, value)| value.is_finite()) {
            let place = *place as usize;
            if !places.contains(&place) {
                continue;
            }
            let track = &mut tracks[place - places.start][tick.server];
            if track.last().is_none_or(|last| last.round != tick.round) {
                track.push(Point { round: tick.round, at: since(tick.at, zero), value: *value });
            }
        }
    }
    tracks
}

/// The points from the last one before the run's start on; all of them if the first comes later.
pub(super) fn baseline(track: &[Point]) -> &[Point] {
    let before = track.iter().take_while(|point| point.at <= 0.0).count();
    &track[before.saturating_sub(1)..]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn series_are_summarized_in_batches_that_fit_into_memory() {
        // Each has one point more for the list of its one server, and one for the list of lists.
        assert_eq!(batches(&[1, 1, 1, 9, 1], 1, 7), [0..2, 2..3, 3..4, 4..5]);
        let batch_ends = |batches: Vec<Range<usize>>| batches.iter().map(|batch| batch.end).collect::<Vec<_>>();
        assert_eq!((batch_ends(batches(&[1, 1], 1, 7)), batch_ends(batches(&[], 1, 7))), (vec![2], vec![0]));
        let begun = Instant::now();
        let poll = |round, server, value| ServerPoll {
            round,
            server,
            at: begun,
            took: Duration::ZERO,
            // A server that sends a value twice has sent the first one.
            values: Ok(vec![(0, value), (1, value + 0.5), (2, f64::NAN), (3, -value), (3, 7.0)]),
        };
        let polls = [poll(0, 0, 1.0), poll(0, 1, 2.0), poll(1, 0, 3.0)];
        let ticks: Vec<&ServerPoll> = polls.iter().collect();
        assert_eq!(points_of(4, &ticks), [3, 3, 3, 6]);
        let values = |places| {
            let tracks = tracks_of(&ticks, places, 2, begun);
            tracks
                .iter()
                .map(|servers| servers.iter().map(|track| track.iter().map(|point| point.value).collect()).collect())
                .collect::<Vec<Vec<Vec<f64>>>>()
        };
        assert_eq!(values(0..1), [[vec![1.0, 3.0], vec![2.0]]]);
        assert_eq!(values(2..4), [[vec![], vec![]], [vec![-1.0, -3.0], vec![-2.0]]]);
        assert_eq!(tracks(&ticks, 4, 2, begun).count(), 4);
    }
}
