//! How many queries LoadGen will issue, and how long that will take: before it does.
//!
//! By LoadGen's own rules (`GenerateQueries` and `TestSettingsInternal` of 6.0.17): Server's arrivals come from the
//! round's seed, so their number and their length are exact; where the system decides, it is what follows if it keeps
//! the requested rate.

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
        let is_of_sets = self.is_padded && self.queries >= self.set && self.queries.is_multiple_of(self.set);
        let sets = || format!(" ({} × {})", grouped((self.queries / self.set) as f64, 0), grouped(self.set as f64, 0));
        let set = is_of_sets.then(sets).unwrap_or_default();
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
                write!(f, "{reason}, about {takes} at {qps} samples/s, plus the longest answers")?;
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

/// Seconds until the last of so many queries arrives, as LoadGen schedules them.
pub fn last_arrival(seed: u64, per_second: f64, queries: u64) -> f64 {
    let mut arrivals = ArrivalEstimate::new(seed, per_second);
    (0..queries).fold(0.0, |seconds, _| arrivals.next_after(seconds))
}

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

#[cfg(test)]
mod tests {
    // Against what LoadGen 6.0.17 generated (`tests/golden/mlperf/estimates.json`).

    use indexmap::IndexMap;
    use serde_json::Value;

    use super::Estimate;
    use crate::conf::{TestSettings, conf};
    use crate::{MlperfScenario, Round, TestRequest};
    use base::spec::{Division, TestMode};

    /// The settings of a recorded run. LoadGen itself needs no round for them; Regatta takes them from one.
    fn settings(row: &Value) -> TestSettings {
        let model = row["model"].as_str().unwrap();
        let round = if model.starts_with("llama3_1-405b") { "v6.0" } else { "v6.1" };
        let (plain, is_interactive) = model.strip_suffix("-interactive").map_or((model, false), |plain| (plain, true));
        let table = Round::named(round).unwrap();
        let (benchmark, _) = table.benchmarks.iter().find(|(_, one)| one.loadgen_model == plain).unwrap();
        let scenario = match row["scenario"].as_str().unwrap() {
            "Offline" => MlperfScenario::Offline,
            "SingleStream" => MlperfScenario::SingleStream,
            _ if is_interactive => MlperfScenario::Interactive,
            _ => MlperfScenario::Server,
        };
        let mode = match (row["mode"].as_str().unwrap(), row["audit"].as_str()) {
            ("AccuracyOnly", _) => TestMode::Accuracy,
            (_, Some("test06")) => TestMode::Test06,
            (_, Some("test07")) => TestMode::Test07,
            _ => TestMode::Performance,
        };
        let mut user_conf: IndexMap<String, Value> =
            row["settings"].as_object().unwrap().iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        let target_qps = user_conf.shift_remove("target_qps").and_then(|value| value.as_f64());
        let request = TestRequest {
            round,
            benchmark,
            scenario,
            mode,
            // Open, because recordings set what closed submissions may not; with few samples only rehearsals are
            // allowed.
            division: Division::Open,
            rehearsal: row["dataset_samples"].as_u64() == Some(64),
            target_qps,
            user_conf: &user_conf,
            dataset_samples: row["dataset_samples"].as_u64(),
        };
        let mut settings = conf(&request).unwrap().settings;
        // A rehearsal's own duration and number of queries are not LoadGen's.
        settings.min_duration_ms = row["effective_min_duration_ms"].as_u64().unwrap();
        if request.rehearsal {
            settings.min_query_count = row["effective_min_query_count"].as_u64().unwrap();
        }
        settings
    }

    #[test]
    fn the_estimate_matches_what_loadgen_generates() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/mlperf/estimates.json");
        let golden: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let seed = Round::named("v6.1").unwrap().loadgen.seeds.schedule;
        let rows = golden["rows"].as_array().unwrap();
        assert!(rows.len() >= 20);
        for row in rows {
            let ours = Estimate::new(&settings(row), seed);
            let count = |key: &str| row[key].as_u64().unwrap();
            let queries = count("generated_query_count") * count("generated_samples_per_query");
            assert_eq!(ours.queries, queries, "{row}\n{ours}");
            if matches!(ours.scenario, MlperfScenario::Server | MlperfScenario::Interactive) {
                let seconds = row["generated_query_duration"].as_f64().unwrap() / 1e9;
                assert!((ours.seconds - seconds).abs() < 1e-3, "{row}\n{ours}: {}", ours.seconds);
            }
        }
    }

    fn estimate_text(scenario: MlperfScenario, mode: TestMode, target_qps: f64) -> String {
        let none = IndexMap::new();
        let request = TestRequest {
            round: "v6.1",
            benchmark: "llama2-70b-99.9",
            scenario,
            mode,
            division: Division::Closed,
            rehearsal: false,
            target_qps: Some(target_qps),
            user_conf: &none,
            dataset_samples: None,
        };
        let seed = request.find().unwrap().round.loadgen.seeds.schedule;
        Estimate::new(&conf(&request).unwrap().settings, seed).to_string()
    }

    #[test]
    fn an_estimate_in_words() {
        assert_eq!(
            estimate_text(MlperfScenario::Server, TestMode::Performance, 100.0),
            "100 qps × 600 s → 73,728 queries (3 × 24,576), about 12 min 13 s until the last one arrives"
        );
        assert_eq!(
            estimate_text(MlperfScenario::Interactive, TestMode::Performance, 41.0),
            "41 qps × 600 s → 49,152 queries (2 × 24,576), about 19 min 53 s until the last one arrives; up to 40.64 \
             qps one data set less is enough: 10 min 0 s"
        );
        assert_eq!(
            estimate_text(MlperfScenario::Offline, TestMode::Performance, 100.0),
            "1.1 × 100 samples/s × 600 s → 73,728 samples at once (3 × 24,576), about 12 min 17 s at 100 samples/s, \
             plus the longest answers"
        );
        assert_eq!(
            estimate_text(MlperfScenario::Server, TestMode::Accuracy, 10.0),
            "24,576 queries, each sample once, about 40 min 39 s at 10 qps until the last one arrives"
        );
        assert_eq!(
            estimate_text(MlperfScenario::Server, TestMode::Test06, 100.0),
            "100 queries at 100 qps, about 1.1 s until the last one arrives"
        );
    }

    /// Where the least number decides and not the duration, a product of rate and duration would explain nothing.
    #[test]
    fn an_estimate_names_the_least_number_where_that_decides() {
        assert_eq!(
            estimate_text(MlperfScenario::Offline, TestMode::Performance, 1.0),
            "24,576 samples at once, about 6 h 49 min at 1 samples/s, plus the longest answers"
        );
        assert_eq!(
            estimate_text(MlperfScenario::Offline, TestMode::Test06, 100.0),
            "100 samples at once, about 1.0 s at 100 samples/s, plus the longest answers"
        );
    }

    #[test]
    fn an_impractical_rate_is_reported_at_once() {
        let text = estimate_text(MlperfScenario::Server, TestMode::Performance, 1e9);
        assert!(text.starts_with("1000000000 qps × 600 s → 600,000,0"), "{text}");
    }
}
