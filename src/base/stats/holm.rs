//! Holm's correction for several tests at once: S. Holm, "A simple sequentially rejective multiple test procedure",
//! Scandinavian Journal of Statistics 6 (1979). No assumption on how the tests depend on each other.

/// Adjusted p-values in the order given. Rejecting what is at most α makes a false rejection anywhere at most α likely.
pub(super) fn adjusted(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|one, other| p[*one].total_cmp(&p[*other]));
    let mut adjusted = vec![1.0; p.len()];
    let mut largest: f64 = 0.0;
    for (rank, index) in order.into_iter().enumerate() {
        largest = largest.max((p.len() - rank) as f64 * p[index]).min(1.0);
        adjusted[index] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")` of R: 0.03 0.06 0.06 0.02.
    #[test]
    fn values_are_those_of_r() {
        let found = adjusted(&[0.01, 0.04, 0.03, 0.005]);
        for (found, expected) in found.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
        assert_eq!(adjusted(&[0.6, 0.9]), [1.0, 1.0]);
        assert!(adjusted(&[]).is_empty());
    }
}
