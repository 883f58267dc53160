//! The n-th smallest of many values, without a sorted copy of them: by counting values with the same leading bits.

/// Values with the same leading bits that are copied and selected from.
const FEW: usize = 1 << 18;
const BITS: u32 = 16;

/// The value at this place of the sorted ones. The place is below their number.
pub(super) fn nth_smallest(values: &[f64], place: usize) -> f64 {
    let (mut prefix, mut known_bits, mut place, mut left) = (0_u64, 0_u32, place, values.len());
    let is_candidate = |key: u64, prefix: u64, bits: u32| bits == 0 || key >> (u64::BITS - bits) == prefix;
    while left > FEW && known_bits < u64::BITS {
        let mut counts = vec![0_usize; 1 << BITS];
        let shift = u64::BITS - known_bits - BITS;
        for key in values.iter().map(|value| key(*value)).filter(|key| is_candidate(*key, prefix, known_bits)) {
            counts[(key >> shift) as usize & ((1 << BITS) - 1)] += 1;
        }
        let mut digit = 0;
        while place >= counts[digit] {
            place -= counts[digit];
            digit += 1;
        }
        (prefix, left) = (prefix << BITS | digit as u64, counts[digit]);
        known_bits += BITS;
    }
    let mut candidates = values.iter().copied().filter(|value| is_candidate(key(*value), prefix, known_bits));
    if known_bits == u64::BITS {
        // All of them are equal.
        return candidates.next().unwrap_or(f64::NAN);
    }
    let mut candidates: Vec<f64> = candidates.collect();
    *candidates.select_nth_unstable_by(place, f64::total_cmp).1
}

/// Integers in the total order of their numbers.
const fn key(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_value_of_the_sorted_ones() {
        let mixed = |at: u64| at.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let many: Vec<f64> = (0..600_000).map(|at| (mixed(at) >> 40) as f64 - 3e6).collect();
        let equal: Vec<f64> = (0..600_000).map(|at| f64::from(at % 3 == 0)).collect();
        let near: Vec<f64> = (0..600_000).map(|at| 1.0 + (mixed(at) >> 45) as f64 * f64::EPSILON).collect();
        for values in [many, equal, near, vec![2.0], vec![0.0, -0.0, 5.0, -7.5]] {
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            for place in [0, sorted.len() / 3, sorted.len() / 2, sorted.len() - 1] {
                assert_eq!(nth_smallest(&values, place).to_bits(), sorted[place].to_bits(), "{place}");
            }
        }
    }
}
