//! How many seeds the tests of simulated worlds try. Each crate that has such a world includes this file.

/// `REGATTA_SEEDS=N` tries N seeds in place of the usual number.
pub fn seed_count(usual: u64) -> u64 {
    let count = std::env::var("REGATTA_SEEDS").ok().map(|count| count.parse());
    count.map_or(usual, |count| count.expect("REGATTA_SEEDS is a number"))
}
