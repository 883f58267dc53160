//! A mixing function with the same results on every machine and in every version.

/// A bijection of 64 bits without visible pattern: the finalizer of SplitMix64 (Steele, Lea, Flood 2014).
pub const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
