//! Random numbers that are the same on every machine and in every version: SplitMix64, one stream for each purpose.

/// One stream.
#[derive(Clone, Debug)]
pub struct Stream(u64);

/// SplitMix64's increment and mixing function are public domain (Steele, Lea, Flood 2014).
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

impl Stream {
    /// The stream of `seed` for one purpose; other purposes' streams are independent of it.
    pub const fn new(seed: u64, purpose: u64) -> Self {
        Self(seed ^ purpose)
    }

    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// Evenly in the open interval (0, 1).
    pub fn unit(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }
}

/// A bijection of 64 bits without visible pattern.
pub const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
