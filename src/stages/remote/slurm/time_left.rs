//! How much of a job's time is left when Slurm signals that its limit is near.

use std::time::{SystemTime, UNIX_EPOCH};

/// Slurm may send the signal earlier than it was told to, by so many seconds.
const SIGNAL_RESOLUTION_S: u64 = 60;

/// `85 s`, where the job's environment has the time of its end, which older versions of Slurm do not set; else the range that the
/// signal stands for. `warn_s`: seconds before the limit at which the signal was requested.
pub fn time_left(warn_s: u64) -> String {
    let end = std::env::var("SLURM_JOB_END_TIME").ok();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    left_until(end.as_deref(), now, warn_s)
}

fn left_until(end: Option<&str>, now: u64, warn_s: u64) -> String {
    match end.and_then(|end| end.parse::<u64>().ok()).and_then(|end| end.checked_sub(now)) {
        Some(left) => format!("{left} s"),
        None => format!("{warn_s} to {} s", warn_s + SIGNAL_RESOLUTION_S),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_that_is_left_is_no_more_exact_than_it_is_known() {
        assert_eq!(left_until(Some("1085"), 1000, 30), "85 s");
        assert_eq!(left_until(None, 1000, 30), "30 to 90 s");
        assert_eq!(left_until(Some("900"), 1000, 30), "30 to 90 s", "the limit was changed meanwhile");
    }
}
