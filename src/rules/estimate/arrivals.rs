//! LoadGen's arrivals: the same random numbers as C++'s `std::mt19937` and libstdc++'s `std::exponential_distribution` give,
//! so that a schedule can be predicted before LoadGen makes it.

const WORDS: usize = 624;
const APART: usize = 397;

/// Times of arrival at a rate, from a seed.
#[derive(Clone, Debug)]
pub(super) struct ArrivalEstimate {
    twister: Twister,
    per_second: f64,
}

impl ArrivalEstimate {
    /// `seed` is the round's schedule seed: C++ takes its lower 32 bits.
    pub(super) fn new(seed: u64, per_second: f64) -> Self {
        Self { twister: Twister::new(seed as u32), per_second }
    }

    /// Seconds; LoadGen keeps whole nanoseconds.
    pub(super) fn next_after(&mut self, seconds: f64) -> f64 {
        let gap = -(1.0 - self.twister.share()).ln() / self.per_second;
        seconds + (gap * 1e9).trunc() / 1e9
    }
}

/// The Mersenne twister MT19937 (Matsumoto and Nishimura, 1998).
#[derive(Clone, Debug)]
struct Twister {
    state: Vec<u32>,
    at: usize,
}

impl Twister {
    fn new(seed: u32) -> Self {
        let mut state = vec![seed; WORDS];
        for at in 1..WORDS {
            let before = state[at - 1];
            state[at] = (before ^ before >> 30).wrapping_mul(1_812_433_253).wrapping_add(at as u32);
        }
        Self { state, at: WORDS }
    }

    fn word(&mut self) -> u32 {
        if self.at == WORDS {
            for at in 0..WORDS {
                let mixed = self.state[at] & 0x8000_0000 | self.state[(at + 1) % WORDS] & 0x7fff_ffff;
                let twist = if mixed & 1 == 1 { 0x9908_b0df } else { 0 };
                self.state[at] = self.state[(at + APART) % WORDS] ^ mixed >> 1 ^ twist;
            }
            self.at = 0;
        }
        let mut word = self.state[self.at];
        self.at += 1;
        word ^= word >> 11;
        word ^= word << 7 & 0x9d2c_5680;
        word ^= word << 15 & 0xefc6_0000;
        word ^ word >> 18
    }

    /// At least 0, below 1: `std::generate_canonical` takes two words, the lower one first.
    fn share(&mut self) -> f64 {
        let low = f64::from(self.word());
        let high = f64::from(self.word());
        let share = (low + high * 2f64.powi(32)) / 2f64.powi(64);
        if share < 1.0 { share } else { 1.0 - f64::EPSILON / 2.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::Twister;

    /// The C++ standard's own test: the 10000th output of a twister seeded with 5489.
    #[test]
    fn the_twister_is_that_of_the_standard() {
        let mut twister = Twister::new(5489);
        let last = (0..10_000).map(|_| twister.word()).last();
        assert_eq!(last, Some(4_123_659_995));
    }
}
