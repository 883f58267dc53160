//! Checks of the measurement against arithmetic that does not depend on it.

/// Largest distance between the gaps of `at_ns` (sorted) and an exponential law of `rate` per second.
/// None for fewer than two arrivals.
pub(super) fn ks_distance_to_exponential(at_ns: &[u64], rate: f64) -> Option<f64> {
    let mut gaps: Vec<f64> = at_ns.windows(2).map(|pair| pair[1].saturating_sub(pair[0]) as f64 / 1e9).collect();
    if gaps.is_empty() {
        return None;
    }
    gaps.sort_by(f64::total_cmp);
    let n = gaps.len() as f64;
    let distances = gaps.iter().enumerate().map(|(rank, gap)| {
        let law = -(-rate * gap).exp_m1();
        (law - rank as f64 / n).abs().max((law - (rank as f64 + 1.0) / n).abs())
    });
    distances.max_by(f64::total_cmp)
}

/// Critical distance at 0.1 %: a correct process fails one run in a thousand.
pub(super) fn ks_critical(gaps: usize) -> f64 {
    1.949 / (gaps as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_gaps_are_not_exponential() {
        let at: Vec<u64> = (0..1_000).map(|i| i * 10_000_000).collect();
        let distance = ks_distance_to_exponential(&at, 100.0).unwrap();
        assert!((distance - 0.632).abs() < 0.001 && distance > ks_critical(999));
        assert_eq!(ks_distance_to_exponential(&[5], 1.0), None);
    }
}
