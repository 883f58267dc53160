//! A job's sign of life: its program on the node counts up in a file. Silence decides nothing, the queue does; but the user
//! should know of it before the queue does.

use std::time::Duration;

use tokio::time::Instant;

use plan::manifest::model::Slurm;

/// How often the job counts up at the most, and at the least.
const EVERY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

/// Interval of a job's heartbeats: several fit into the time after which it counts as silent.
pub fn every(slurm: &Slurm) -> Duration {
    (slurm.silence.time() / 4).clamp(EVERY.0, EVERY.1)
}

/// The heartbeats of one job.
#[derive(Debug)]
pub struct JobHeartbeat {
    silence: Duration,
    /// What it counted up to last, and when that was seen first.
    last: Option<(String, Instant)>,
    is_silent: bool,
}

impl JobHeartbeat {
    pub fn of(slurm: &Slurm) -> Self {
        Self { silence: slurm.silence.time(), last: None, is_silent: false }
    }

    /// It has counted up within the time after which it is silent.
    pub fn is_alive(&self, now: Instant) -> bool {
        self.last.as_ref().is_some_and(|(_, since)| now.saturating_duration_since(*since) < self.silence)
    }

    /// `life` is the current content of the file; `None` before the job has begun, or with an older program on the node.
    /// Returns a message for the user.
    pub fn update(&mut self, life: Option<String>, now: Instant) -> Option<String> {
        let life = life?;
        match &self.last {
            Some((last, since)) if *last == life => {
                let quiet = now.saturating_duration_since(*since);
                let is_news = quiet >= self.silence && !std::mem::replace(&mut self.is_silent, quiet >= self.silence);
                is_news.then(|| {
                    format!(
                        "no heartbeat from its job for {} s: its node, or the shared filesystem, may be down or hang; Slurm reports whether the node is lost",
                        quiet.as_secs()
                    )
                })
            }
            last => {
                let quiet = last.as_ref().map(|(_, since)| now.saturating_duration_since(*since));
                self.last = Some((life, now));
                let again = std::mem::take(&mut self.is_silent);
                again.then(|| {
                    format!("heartbeats from its job resumed, after {} s", quiet.unwrap_or_default().as_secs())
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_heartbeat_is_reported_once_and_so_is_its_return() {
        let slurm = Slurm { silence: Duration::from_secs(30).into(), ..Slurm::default() };
        assert_eq!(every(&slurm), Duration::from_millis(7500));
        let begun = Instant::now();
        let mut pulse = JobHeartbeat::of(&slurm);
        let mut look =
            |at: u64, life: Option<&str>| pulse.update(life.map(str::to_owned), begun + Duration::from_secs(at));
        assert_eq!(look(100, None), None, "a job that waits is not silent");
        assert_eq!(look(101, Some("1")), None);
        assert_eq!(look(130, Some("1")), None);
        assert!(look(131, Some("1")).is_some_and(|text| text.contains("no heartbeat from its job for 30 s")));
        assert_eq!(look(150, Some("1")), None, "once");
        assert_eq!(look(151, Some("2")).as_deref(), Some("heartbeats from its job resumed, after 50 s"));
        assert_eq!(look(180, Some("2")), None);
        assert!(look(181, Some("2")).is_some());
    }
}
