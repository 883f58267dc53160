//! Audit tests: performance runs under a configuration of their own.

use super::Mode;

/// The `audit.config` of a test; None of modes that are no audit.
pub fn config(mode: Mode) -> Option<String> {
    let (mode, seed, samples, unique) = match mode {
        Mode::Test06 => (2, 720_381_539_243_781_796_u64, 100, "\n*.*.sample_concatenate_permutation = 0"),
        Mode::Test07 => (2, 720_381_539_243_781_796, 990, ""),
        Mode::Test09 => (2, 720_381_539_243_781_796, 6396, ""),
        Mode::Performance | Mode::Accuracy => return None,
    };
    Some(format!(
        "# mode: 2 is performance; some of its answers are logged.\n*.*.mode = {mode}\n*.*.accuracy_log_rng_seed = {seed}\n\
         *.*.accuracy_log_sampling_target = {samples}{unique}\n"
    ))
}
