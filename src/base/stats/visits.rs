//! When requests came into a system and left it, as the tests of its load read them.

/// A window shorter than this many times the usual time in the system shows only how a server fills.
pub(super) const TIMES_IN_SYSTEM: f64 = 4.0;

/// The visits of a run that may be too many to be in memory: each of its sequences can be read several times.
pub struct VisitsInOrder<'v> {
    pub count: usize,
    /// (arrival, end) in seconds, in the order of arrivals.
    pub visits: &'v dyn Fn() -> Box<dyn Iterator<Item = (f64, f64)> + 'v>,
    /// Their ends, in the order of time.
    pub ends: &'v dyn Fn() -> Box<dyn Iterator<Item = f64> + 'v>,
}
