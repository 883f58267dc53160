//! How many queries LoadGen will issue, and how long that will take: before it does.
//!
//! By LoadGen's own rules (`GenerateQueries` and `TestSettingsInternal` of 6.0.17): Server's arrivals come from the round's
//! seed, so their number and their length are exact; where the system decides, it is what follows if it keeps the requested rate.

mod arrivals;
mod text;

#[cfg(test)]
mod tests;

use self::arrivals::ArrivalEstimate;
pub use self::text::time;
use super::MlperfScenario;
use super::conf::TestSettings;
use base::spec::TestMode;

/// Offline issues this many times what the rate and the duration require.
const OFFLINE_SLACK: f64 = 1.1;
/// SingleStream plans with this many times the duration.
const SINGLE_STREAM_SLACK: f64 = 2.0;
/// More than that many arrivals are not drawn one by one; beyond, their mean is as good.
const DRAWN: u64 = 4_000_000;

/// What a test will be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub scenario: MlperfScenario,
    pub mode: TestMode,
    /// Per second.
    pub target_qps: f64,
    pub min_duration_ms: u64,
    /// The least number of queries that the settings allow, before it is brought to a multiple of `set`.
    pub min_queries: u64,
    /// Of Offline samples, which are one query.
    pub queries: u64,
    /// Samples of the data set that is issued again and again.
    pub set: u64,
    /// `queries` was brought to a multiple of `set`.
    pub is_padded: bool,
    /// Seconds: of Server and Interactive until the last arrival, of others if the system keeps the requested rate.
    pub seconds: f64,
    /// A rate a little lower, at which one data set less is enough, and its seconds: where that saves a quarter of the time.
    pub shorter: Option<(f64, f64)>,
}

impl Estimate {
    /// Of a test with these settings in force; `schedule_seed` is the round's.
    pub fn of(settings: &TestSettings, schedule_seed: u64) -> Self {
        let plain = Self {
            scenario: settings.scenario,
            mode: settings.mode,
            target_qps: settings.target_qps,
            min_duration_ms: settings.min_duration_ms,
            min_queries: if settings.issue_unique {
                settings.performance_samples.max(1)
            } else {
                settings.min_query_count
            },
            queries: 0,
            set: settings.performance_samples.max(1),
            is_padded: settings.equal_issue && settings.mode != TestMode::Accuracy && !settings.issue_unique,
            seconds: 0.0,
            shorter: None,
        };
        let arrivals = || ArrivalEstimate::new(schedule_seed, settings.target_qps);
        match (settings.scenario, settings.mode) {
            (MlperfScenario::Server | MlperfScenario::Interactive, TestMode::Accuracy) => {
                plain.arriving(arrivals(), settings.accuracy_samples, 0.0, None)
            }
            (_, TestMode::Accuracy) => plain.taking(settings.accuracy_samples, settings.target_qps),
            (MlperfScenario::Offline, _) => plain.offline(settings),
            (MlperfScenario::SingleStream, _) => plain.single_stream(settings),
            (MlperfScenario::Server | MlperfScenario::Interactive, _) if settings.issue_unique => {
                plain.arriving(arrivals(), plain.set, 0.0, None)
            }
            (MlperfScenario::Server | MlperfScenario::Interactive, _) => {
                let least = plain.padded(settings.min_query_count);
                let duration = settings.min_duration_ms as f64 / 1e3;
                let steps = plain.is_padded.then_some(plain.set);
                plain.arriving(arrivals(), least, duration, steps).limited(settings)
            }
        }
    }

    /// Up to the next multiple of the data set, where every sample is to be issued equally often.
    fn padded(&self, queries: u64) -> u64 {
        if self.is_padded { queries.div_ceil(self.set) * self.set } else { queries }
    }

    fn taking(self, queries: u64, qps: f64) -> Self {
        Self { queries, seconds: queries as f64 / qps, ..self }
    }

    fn offline(self, settings: &TestSettings) -> Self {
        let expected = (OFFLINE_SLACK * (settings.min_duration_ms as f64 / 1e3) * settings.target_qps) as u64;
        let samples = if settings.issue_unique { self.set } else { settings.min_query_count.max(expected) };
        let queries = self.padded(samples);
        self.taking(queries, settings.target_qps)
    }

    fn single_stream(self, settings: &TestSettings) -> Self {
        let seconds = settings.min_duration_ms as f64 / 1e3;
        let expected = (SINGLE_STREAM_SLACK * seconds * settings.target_qps) as u64;
        let mut queries = settings.min_query_count;
        if self.is_padded {
            // LoadGen adds a whole data set where the number is a multiple already.
            queries = queries.max(expected);
            queries += self.set - queries % self.set;
        }
        // It continues until both are reached.
        let planned = self.taking(queries, settings.target_qps);
        if planned.seconds >= seconds {
            planned
        } else {
            Self { queries: (seconds * settings.target_qps).ceil() as u64, seconds, ..self }
        }
    }

    /// Arrivals until there are `least` and the last one but one came after `duration`. Of `step` queries at a time.
    fn arriving(self, mut arrivals: ArrivalEstimate, least: u64, duration: f64, step: Option<u64>) -> Self {
        let mut goal = least.max(1);
        let mut last_set = 0.0;
        let mut before = 0.0;
        let mut now = 0.0;
        let mut queries = 0;
        // As `GenerateQueries` counts: a query is stamped, and then the next one's stamp is drawn.
        while before < duration || queries < goal {
            if queries >= DRAWN {
                let rest = (duration * self.target_qps) as u64;
                let queries = self.padded(rest.max(goal));
                return self.taking(queries, self.target_qps);
            }
            queries += 1;
            before = now;
            now = arrivals.next_after(now);
            if let Some(step) = step
                && queries >= goal
                && before < duration
            {
                last_set = before;
                goal += step;
            }
        }
        let shorter = (step.is_some() && last_set > 0.0 && now > 0.0)
            .then(|| (self.target_qps * last_set / duration, duration))
            .filter(|(_, seconds)| *seconds < 0.75 * now);
        Self { queries, seconds: now, shorter, ..self }
    }

    /// Applies the limits that the settings have.
    fn limited(self, settings: &TestSettings) -> Self {
        let mut limited = self;
        if settings.max_query_count > 0 && settings.max_query_count < self.queries {
            limited.seconds *= settings.max_query_count as f64 / self.queries as f64;
            limited.queries = settings.max_query_count;
        }
        let most = settings.max_duration_ms as f64 / 1e3;
        if most > 0.0 && most < limited.seconds {
            limited.queries = (limited.queries as f64 * most / limited.seconds) as u64;
            limited.seconds = most;
        }
        limited
    }
}
