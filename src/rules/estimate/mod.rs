//! How many queries LoadGen will issue, and how long that will take: before it does.
//!
//! By LoadGen's own rules (`GenerateQueries` and `TestSettingsInternal` of 6.0.17): Server's arrivals come from the
//! round's seed, so their number and their length are exact; where the system decides, it is what follows if it keeps
//! the requested rate.

#[cfg(test)]
mod tests;

use std::fmt;

use super::MlperfScenario;
use super::conf::TestSettings;
use base::spec::TestMode;
use base::units::grouped;

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
    /// A rate a little lower, at which one data set less is enough, and its seconds: where that saves a quarter of the
    /// time.
    pub shorter: Option<(f64, f64)>,
}

impl Estimate {
    /// Of a test with these settings in force; `schedule_seed` is the round's.
    pub fn new(settings: &TestSettings, schedule_seed: u64) -> Self {
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

// An estimate as text.

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
                let reason = match self.least(qps * seconds) {
                    Some(least) if self.min_queries == self.queries => format!("{least} queries at {qps} qps"),
                    Some(least) => format!("at least {least} queries at {qps} qps → {queries}{set}"),
                    None => format!("{qps} qps × {seconds} s → {queries} queries{set}"),
                };
                write!(f, "{reason}, about {takes} until the last one arrives")?;
            }
            MlperfScenario::Offline => {
                let reason = match self.least(1.1 * qps * seconds) {
                    Some(least) if self.min_queries == self.queries => format!("{least} samples at once"),
                    Some(least) => format!("at least {least} samples → {queries} at once{set}"),
                    None => format!("1.1 × {qps} samples/s × {seconds} s → {queries} samples at once{set}"),
                };
                write!(f, "{reason}, about {takes} at {qps} samples/s, and then the longest answers")?;
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

// LoadGen's arrivals: the same random numbers as C++'s `std::mt19937` and libstdc++'s `std::exponential_distribution`
// give, so that a schedule can be predicted before LoadGen makes it.

const WORDS: usize = 624;
const APART: usize = 397;

/// Times of arrival at a rate, from a seed.
#[derive(Clone, Debug)]
struct ArrivalEstimate {
    twister: Twister,
    per_second: f64,
}

impl ArrivalEstimate {
    /// `seed` is the round's schedule seed: C++ takes its lower 32 bits.
    fn new(seed: u64, per_second: f64) -> Self {
        Self { twister: Twister::new(seed as u32), per_second }
    }

    /// Seconds; LoadGen keeps whole nanoseconds.
    fn next_after(&mut self, seconds: f64) -> f64 {
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
mod arrival_tests {
    use super::Twister;

    /// The C++ standard's own test: the 10000th output of a twister seeded with 5489.
    #[test]
    fn the_twister_is_that_of_the_standard() {
        let mut twister = Twister::new(5489);
        let last = (0..10_000).map(|_| twister.word()).last();
        assert_eq!(last, Some(4_123_659_995));
    }
}
