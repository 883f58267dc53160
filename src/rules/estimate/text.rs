//! An estimate as text.

use base::units::grouped;
use std::fmt;

use super::super::MlperfScenario;
use super::Estimate;
use base::spec::TestMode;

impl Estimate {
    /// The least number of queries, where that decides and not the duration.
    fn least(&self, of_duration: f64) -> Option<String> {
        (self.min_queries as f64 > of_duration).then(|| grouped(self.min_queries as f64, 0))
    }
}

impl fmt::Display for Estimate {
    /// `100 qps × 600 s → 73,728 queries (3 × 24,576), about 12 min 13 s until the last one arrives`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.min_duration_ms as f64 / 1e3;
        let queries = grouped(self.queries as f64, 0);
        let set = if self.is_padded && self.queries >= self.set && self.queries.is_multiple_of(self.set) {
            format!(" ({} × {})", grouped((self.queries / self.set) as f64, 0), grouped(self.set as f64, 0))
        } else {
            String::new()
        };
        let takes = time(self.seconds);
        let qps = self.target_qps;
        if self.mode == TestMode::Accuracy {
            return match self.scenario {
                MlperfScenario::Server | MlperfScenario::Interactive => {
                    write!(
                        f,
                        "{queries} queries, each sample once, about {takes} at {qps} qps until the last one arrives"
                    )
                }
                MlperfScenario::Offline => write!(f, "{queries} samples at once, each sample once"),
                MlperfScenario::SingleStream => write!(f, "{queries} queries, each sample once, one after the other"),
            };
        }
        match self.scenario {
            MlperfScenario::Server | MlperfScenario::Interactive => {
                let why = match self.least(qps * seconds) {
                    Some(least) if self.min_queries == self.queries => format!("{least} queries at {qps} qps"),
                    Some(least) => format!("at least {least} queries at {qps} qps → {queries}{set}"),
                    None => format!("{qps} qps × {seconds} s → {queries} queries{set}"),
                };
                write!(f, "{why}, about {takes} until the last one arrives")?;
            }
            MlperfScenario::Offline => {
                let why = match self.least(1.1 * qps * seconds) {
                    Some(least) if self.min_queries == self.queries => format!("{least} samples at once"),
                    Some(least) => format!("at least {least} samples → {queries} at once{set}"),
                    None => format!("1.1 × {qps} samples/s × {seconds} s → {queries} samples at once{set}"),
                };
                write!(f, "{why}, about {takes} at {qps} samples/s, and then the longest answers")?;
            }
            MlperfScenario::SingleStream => {
                let each = 1e3 / qps;
                write!(f, "{each} ms a query, {seconds} s → {queries} queries{set}, about {takes} at that latency")?;
            }
        }
        if let Some((lower, shorter)) = self.shorter {
            let lower = (lower * 100.0).floor() / 100.0;
            write!(f, "; up to {lower} qps one data set less is enough: {}", time(shorter))?;
        }
        Ok(())
    }
}

/// `12 min 13 s`, `6 h 46 min`
pub fn time(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, _) if seconds < 10.0 => format!("{seconds:.1} s"),
        (0, 0, s) => format!("{s} s"),
        (0, min, s) => format!("{min} min {s} s"),
        (h, min, _) => format!("{h} h {min} min"),
    }
}
