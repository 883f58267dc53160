//! Witnesses: numbers that LoadGen writes twice, and numbers that follow from others in the same log. They are rows of
//! tables; one engine compares them.
//!
//! | table | a row | tolerance |
//! |---|---|---|
//! | [`printed`] | a line of the summary, and the key of the detail log | none; for rates, the printed digits |
//! | settings | a `requested_…` and the `effective_…` of its name | none |
//! | [`ordered`] | two keys, the first not larger or later than the second | none; for dates, time zones |
//! | [`derived`] | a number, and the same number computed from others | in the row |
//!
//! The outcome of a row is *checked*, *unreadable* or *absent* ([`Witnesses`]). A number that cannot be read, and one
//! that only one of the two places has, are for review: changing a number must not pay by making it unreadable.
//!
//! A finding is *refused* only if none of 998 published results of language models has it. What follows from LoadGen's
//! source alone is for review, since other releases of it may round and name differently.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use indexmap::IndexSet;
use jiff::Timestamp;
use jiff::civil::DateTime;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::checks::{FindingWeight, REPACK, Refused, Review, SubmissionCheck, SubmissionFindings, finding, findings};
use base::diag::ErrorText;
use base::files::read_text;
use base::units::counted;
use rules::last_arrival;
use rules::log::{DETAIL_FILE, Detail, LoadgenSummary, SUMMARY_FILE};

const RULE: &str = "LoadGen writes both from one measurement; a log is submitted as LoadGen wrote it";

/// How many numbers of a run have a witness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witnesses {
    /// Compared with their witness.
    pub checked: u64,
    /// There, and not readable as what LoadGen writes.
    pub unreadable: u64,
    /// Not logged by this LoadGen, or in this scenario.
    pub absent: u64,
}

/// Compares the numbers of a performance run's logs with their witnesses.
pub(super) fn check(to: &mut SubmissionFindings, folder: &Path, detail: &Detail, is_closed: bool) -> Witnesses {
    let summary = LoadgenSummary::parse(&read_text(folder.join(SUMMARY_FILE)).unwrap_or_default());
    let closed = if is_closed { Refused } else { Review };
    let mut engine = Engine::new(detail, &summary, closed);
    for row in &printed(detail) {
        engine.printed(row);
    }
    for (requested, _) in detail.settings() {
        let name = requested.strip_prefix("requested_").filter(|name| !COMPUTED.contains(name));
        if let Some(name) = name {
            engine.repeated(requested, &format!("effective_{name}"));
        }
    }
    engine.repeated("requested_server_target_qps", "effective_target_qps");
    if detail.text("effective_scenario") == Some("Server") {
        engine.repeated("requested_min_query_count", "effective_min_query_count");
        engine.repeated("effective_min_duration_ms", "effective_target_duration_ms");
    }
    ordered(&mut engine);
    derived(&mut engine);
    engine.report(to, folder)
}

/// Checks that the dates in the log of an accuracy run or an audit test are in order.
pub(super) fn check_dates(to: &mut SubmissionFindings, folder: &Path, detail: &Detail) {
    let summary = LoadgenSummary::default();
    let mut engine = Engine::new(detail, &summary, Review);
    engine.dates();
    engine.report(to, folder);
}

const TOKENS: &str = "result_completed_tokens_per_second";
const SAMPLES: &str = "result_completed_samples_per_sec";
const SCHEDULED: &str = "result_scheduled_samples_per_sec";
const OVERHEAD: &str = "result_token_throughput_with_loadgen_overhead";
/// Mean tokens of an answer divided by the mean latency; LoadGen computes it per nanosecond.
const THROUGHPUT: &str = "result_token_throughput";
const MEAN: &str = "result_mean_latency_ns";
const LONGEST: &str = "result_max_latency_ns";
const QUERIES: &str = "generated_query_count";
const ISSUED: &str = "generated_query_duration";
/// Seconds between `power_begin` and `power_end`, and until the log's last line: no keys of LoadGen's.
const WINDOW: &str = "(window)";
const LAST_LINE: &str = "(last line)";
/// Seconds until the last query, by the seed of the schedule, the rate and the number of queries.
const SCHEDULE: &str = "(schedule)";
/// A schedule of more queries is not computed; the longest published one has 7.2 million.
const MOST_QUERIES: u64 = 50_000_000;
/// LoadGen logs six digits: the relative error of rounding to them, and a little more.
const DIGITS: f64 = 2e-5;

/// A line of the summary, and the key of the detail log with its value. Results are ranked by the first four: every
/// LoadGen that is accepted writes both, published ones agree within 1 %, and a larger difference is refused in Closed.
fn printed(detail: &Detail) -> Vec<(String, String)> {
    let row = |(name, key): &(&str, &str)| ((*name).to_owned(), (*key).to_owned());
    // Settings have their own names there: `effective_min_duration_ms` is `min_duration (ms)`.
    let setting = |(key, _): (&str, &Value)| {
        let name = key.strip_prefix("effective_")?;
        let unit = ["_ms", "_ns"].into_iter().find_map(|unit| Some((name.strip_suffix(unit)?, &unit[1..])));
        Some((unit.map_or_else(|| name.to_owned(), |(name, unit)| format!("{name} ({unit})")), key.to_owned()))
    };
    PRINTED.iter().map(row).chain(detail.settings().filter_map(setting)).collect()
}

const RANKED: usize = 4;
/// Lines of the summary, each with the key of the detail log.
static PRINTED: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
    let lines = include_str!("printed.txt").lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_once(" = ").expect("a table of this program")).collect()
});

/// Settings that LoadGen computes in Offline, so that the effective value differs from the requested one.
const COMPUTED: [&str; 2] = ["min_query_count", "max_query_count"];

const PERCENTILES: [&str; 6] = ["50.00", "90.00", "95.00", "97.00", "99.00", "99.90"];
/// The keys of a latency's extremes, and of its percentiles.
const LATENCIES: [[[&str; 2]; 2]; 3] = [
    [["result_", "_latency_ns"], ["result_", "_percentile_latency_ns"]],
    [["result_first_token_", "_latency_ns"], ["result_first_token_", "_percentile_latency_ns"]],
    [["result_time_to_output_token_", ""], ["result_time_per_output_token_", "_percentile_ns"]],
];

fn key([before, after]: [&str; 2], part: &str) -> String {
    format!("{before}{part}{after}")
}

/// Of each two keys, the first must not be larger, or later, than the second.
fn ordered(engine: &mut Engine) {
    for [extreme, rank] in LATENCIES {
        let keys = PERCENTILES.map(|part| key(rank, part));
        // True of all published results in Closed.
        let weight = engine.closed;
        keys.windows(2).for_each(|pair| engine.ordered(&pair[0], &pair[1], 0.0, weight, SubmissionCheck::Counts));
        let [min, max, mean] = ["min", "max", "mean"].map(|part| key(extreme, part));
        for (first, second) in [(&min, &keys[0]), (&keys[5], &max), (&min, &mean), (&mean, &max)] {
            engine.ordered(first, second, 0.0, Review, SubmissionCheck::Witness);
        }
        means(engine, extreme, rank);
    }
    for part in ["min", "99.00_percentile", "mean", "max"] {
        let [first, whole] = ["first_token_", ""].map(|kind| format!("result_{kind}{part}_latency_ns"));
        engine.ordered(&first, &whole, 0.0, Review, SubmissionCheck::Witness);
    }
    let counts = SubmissionCheck::Counts;
    engine.ordered("result_overlatency_query_count", "result_query_count", 0.0, Review, counts);
    engine.ordered("effective_performance_sample_count", "qsl_reported_performance_count", 0.0, Review, counts);
    engine.ordered("effective_min_query_count", "result_query_count", 0.0, Review, counts);
    engine.dates();
}

/// A mean is between what it would be with every latency at the lower, and at the upper, of the two percentiles that it
/// lies between. So it is in all 547 published logs at a rate; the sum of Offline's latencies may overflow. Latencies
/// are of nanoseconds: of thousands no two percentiles are the same.
fn means(engine: &mut Engine, extreme: [&str; 2], rank: [&str; 2]) {
    const SHARES: [f64; 7] = [0.5, 0.4, 0.05, 0.02, 0.02, 0.009, 0.001];
    let [min, name, max] = ["min", "mean", "max"].map(|part| key(extreme, part));
    let ranks = PERCENTILES.map(|part| key(rank, part));
    let keys = [&[min, name.clone(), SAMPLES.to_owned(), QUERIES.to_owned()], &ranks[..], &[max]].concat();
    let Some(values) = engine.values(&keys.iter().map(String::as_str).collect::<Vec<_>>()) else { return };
    let [min, mean, _, queries, higher @ ..] = &values[..] else { return };
    if let Some(at) = (1..6).find(|at| *queries >= 2000.0 && (higher[*at] - higher[*at - 1]).abs() < 0.5) {
        let text = format!("`{}` and `{}` are {:.0}", ranks[at - 1], ranks[at], higher[at]);
        engine.object(Review, SubmissionCheck::Witness, DETAIL_FILE, text);
    }
    let sum = |values: &[f64]| values.iter().zip(SHARES).map(|(value, share)| value * share).sum::<f64>();
    let (least, most) = (sum(&[&[*min], higher].concat()), sum(higher));
    if *mean < 0.999 * least || *mean > 1.001 * most {
        let text = format!("`{name}` is {mean:.0}, by the percentiles it is between {least:.0} and {most:.0}");
        engine.object(Review, SubmissionCheck::Witness, DETAIL_FILE, text);
    }
}

/// Makes the function that compares numbers with what other numbers imply. A row has the names of both, the keys that
/// it reads and, computed from their values, the number, the expected number and the tolerance.
macro_rules! derived {
    ($engine:ident; $($weight:expr, $check:ident, $is:literal $relation:tt $by:literal
        ($($name:ident : $key:expr),*) $number:expr, $expected:expr, $tolerance:expr;)*) => {
        fn derived($engine: &mut Engine) {
            $(if let Some(values) = $engine.values(&[$($key),*]) && let [$($name),*] = values[..] {
                let (number, expected): (f64, f64) = ($number, $expected);
                let (over, tolerance) = (number - expected, $tolerance);
                if over > tolerance || stringify!($relation) == "==" && over < -tolerance {
                    let text = format!("{} {number:.3}, {} {expected:.3}", $is, $by);
                    $engine.object($weight, SubmissionCheck::$check, DETAIL_FILE, text);
                }
            })*
        }
    };
}

// Refused: true of all 525 published logs that have both; Closed: of all published results. The other tolerances are
// ours: wider than LoadGen's formulas need (recorded logs are within 0.01 %), narrower than a gain of 3 %. Arrivals are
// Poisson's: the rate of n of them has a relative deviation of 1/√n, and is within four of these. The last answers come
// after the last query, by the longest latency at most.
derived! { engine;
    engine.closed, Counts, "queries" == "counted after the run"
        (queries: QUERIES, counted: "result_query_count", samples: SAMPLES)
        queries, counted + 0.0 * samples, 0.5;
    engine.closed, Counts, "queries a second" == "target_qps"
        (queries: QUERIES, lasted: ISSUED, target: "effective_target_qps", samples: SAMPLES)
        queries / lasted * 1e9 + 0.0 * samples, target, target * 0.02_f64.max(4.0 / queries.sqrt());
    // Where tokens are judged, a query has no latency of its own to keep.
    Review, Counts, "queries that took too long" == "of all, where the limit is 0"
        (late: "result_overlatency_query_count", counted: "result_query_count", limit: "effective_target_latency_ns",
         samples: SAMPLES)
        late, if limit > 0.0 { late } else { counted + 0.0 * samples }, 0.5;
    // LoadGen draws the schedule from its seed: of all 611 published logs it is this one to the nanosecond. Another C++
    // library would draw another one.
    Review, Counts, "seconds until the last query" == "by target_qps and the seed of the schedule"
        (samples: SAMPLES, lasted: ISSUED, planned: SCHEDULE)
        lasted / 1e9 + 0.0 * samples, planned, 1e-6 * planned;
    engine.closed, Counts, "seconds until the last query" <= "until the last answer"
        (queries: QUERIES, lasted: ISSUED, samples: SAMPLES)
        lasted / 1e9, queries / samples, 0.02 * lasted / 1e9;
    engine.closed, Counts, "seconds until the last answer" <= "until the last query, and the longest latency"
        (queries: QUERIES, lasted: ISSUED, samples: SAMPLES, longest: LONGEST)
        queries / samples, (lasted + longest) / 1e9, 0.02 * (lasted + longest) / 1e9;
    // LoadGen of v4.1 counts samples before it pads them to whole data sets; later ones, and those without equal issue,
    // count those that they issue.
    engine.closed, Counts, "seconds of Offline's samples at their rate" == "the longest latency"
        (samples: "generated_samples_per_query", rate: "result_samples_per_second", longest: LONGEST,
         set: "qsl_reported_performance_count")
        if samples / rate < 0.98 * longest / 1e9 { (samples / set).ceil() * set / rate } else { samples / rate },
        longest / 1e9, 0.02 * longest / 1e9;
    Refused, Witness, "tokens/s" <= "until the last query was issued" (tokens: TOKENS, issued: OVERHEAD)
        tokens, issued, DIGITS * issued;
    Review, Witness, "tokens/s" == "by the rates of issue and completion"
        (tokens: TOKENS, issued: OVERHEAD, scheduled: SCHEDULED, samples: SAMPLES)
        tokens, issued / scheduled * samples, 0.01 * tokens;
    Review, Witness, "tokens of an answer by the rates" == "by result_token_throughput"
        (tokens: TOKENS, samples: SAMPLES, throughput: THROUGHPUT, mean: MEAN, queries: "result_query_count")
        tokens / samples * (queries - 1.0) / queries,
        // A release that computes it per second, instead.
        throughput * mean / if throughput > 1e-3 { 1e9 } else { 1.0 },
        0.002 * tokens / samples;
    Review, Witness, "scheduled samples/s" == "by the queries and the time they were issued in"
        (scheduled: SCHEDULED, queries: QUERIES, lasted: ISSUED)
        scheduled, (queries - 1.0) / lasted * 1e9, 0.01 * scheduled;
    // The mean of all answers' times per token; in published logs it is 0.995 to 1.21 times what the other means imply.
    Review, Witness, "time per token by mean latency, TTFT and tokens" <= "its mean"
        (mean: MEAN, first: "result_first_token_mean_latency_ns", tokens: TOKENS, samples: SAMPLES,
         each: "result_time_to_output_token_mean")
        (mean - first) / (tokens / samples - 1.0) / 1e6, each / 1e6, 0.03 * each / 1e6;
    // The rate of completion is taken until the query issued last is answered; others may be answered after it.
    Review, Clock, "seconds at the rate of completion" <= "from power_begin to power_end"
        (window: WINDOW, queries: QUERIES, samples: SAMPLES)
        (queries - 1.0) / samples, window, 5.0 + 0.02 * window;
    Review, Clock, "seconds from power_begin to power_end" <= "at the rate of completion, and the longest latency"
        (window: WINDOW, queries: QUERIES, samples: SAMPLES, longest: LONGEST)
        window, (queries - 1.0) / samples + longest / 1e9, 5.0 + 0.02 * window;
    Review, Clock, "the longest latency" <= "seconds from power_begin to power_end" (longest: LONGEST, window: WINDOW)
        longest / 1e9, window, 5.0 + 0.02 * window;
    Review, Clock, "seconds from power_begin to power_end" == "by the longest latency of Offline's one query"
        (window: WINDOW, longest: LONGEST, samples: "result_samples_per_second")
        window, longest / 1e9 + 0.0 * samples, 5.0 + 0.02 * window;
    Review, Clock, "seconds from power_begin to power_end" <= "by the clock of the log's lines"
        (window: WINDOW, last: LAST_LINE)
        window, last, 1.0 + 0.01 * window;
}

/// Reads the rows, counts their outcomes and collects what is wrong.
struct Engine<'a> {
    detail: &'a Detail,
    summary: &'a LoadgenSummary,
    /// What Closed refuses is for review in Open.
    closed: FindingWeight,
    outcomes: Witnesses,
    /// One finding for all rows of a weight, a check and a file.
    objections: BTreeMap<(FindingWeight, SubmissionCheck, &'static str), IndexSet<String>>,
}

impl<'a> Engine<'a> {
    fn new(detail: &'a Detail, summary: &'a LoadgenSummary, closed: FindingWeight) -> Self {
        Self { detail, summary, closed, outcomes: Witnesses::default(), objections: BTreeMap::new() }
    }

    /// Most dates have no time zone, so they may differ by some hours.
    fn dates(&mut self) {
        const A_DAY: f64 = 26.0 * 3600.0;
        for (first, second, slack) in [
            ("loadgen_git_commit_date", "loadgen_build_date_utc", A_DAY),
            ("loadgen_build_date_utc", "loadgen_build_date_local", A_DAY),
            ("loadgen_build_date_local", "loadgen_build_date_utc", A_DAY),
            ("loadgen_build_date_utc", "test_datetime", A_DAY),
            ("test_datetime", "power_begin", A_DAY),
            ("power_begin", "test_datetime", A_DAY),
            ("power_begin", "power_end", 0.0),
        ] {
            self.ordered(first, second, slack, Review, SubmissionCheck::Clock);
        }
    }

    fn report(self, to: &mut SubmissionFindings, folder: &Path) -> Witnesses {
        for ((weight, check, file), texts) in self.objections {
            let more = if texts.len() > 3 { format!(", and {} more", texts.len() - 3) } else { String::new() };
            let first: Vec<String> = texts.into_iter().take(3).collect();
            let finding = format!("{}{more}", first.join("; "));
            to.add(weight, check, &folder.join(file), finding, RULE, REPACK);
        }
        self.outcomes
    }

    fn object(&mut self, weight: FindingWeight, check: SubmissionCheck, file: &'static str, text: String) {
        self.objections.entry((weight, check, file)).or_default().insert(text);
    }

    fn unreadable(&mut self, file: &'static str, text: String) {
        self.outcomes.unreadable += 1;
        self.object(Review, SubmissionCheck::Unreadable, file, text);
    }

    fn printed(&mut self, (name, key): &(String, String)) {
        let lines = self.summary.lines.iter().filter(|(line, _)| line == name).map(|(_, value)| value.as_str());
        let lines: Vec<&str> = lines.collect();
        let logged = self.detail.get(key).filter(|value| !value.is_null()).map(plain);
        let is_ranked = PRINTED[..RANKED].iter().any(|(_, ranked)| ranked == key);
        // In SingleStream the summary prints latencies only.
        let is_needed = (is_ranked && self.detail.text("effective_scenario") != Some("SingleStream")
            || key.ends_with("_rng_seed"))
            && !self.summary.lines.is_empty();
        match logged {
            None if !lines.is_empty() && is_needed => {
                self.unreadable(DETAIL_FILE, format!("it has no `{key}`, which the summary prints"));
            }
            Some(_) if lines.is_empty() && is_needed => {
                self.unreadable(SUMMARY_FILE, format!("it has no line `{name}`, but the detail log has `{key}`"));
            }
            Some(logged) if !lines.is_empty() => {
                self.outcomes.checked += 1;
                let Some(printed) = lines.iter().find(|line| !is_printed_as(line, &logged)) else { return };
                let is_far = is_ranked && !is_within(printed, &logged, 0.01, 0.01);
                let weight = if is_far { self.closed } else { Review };
                let weight = if key == "result_validity" { Refused } else { weight };
                let text = format!("`{name}` is {printed}, in the detail log {logged}");
                self.object(weight, SubmissionCheck::LogsDisagree, SUMMARY_FILE, text);
            }
            _ => self.outcomes.absent += 1,
        }
    }

    fn repeated(&mut self, first: &str, second: &str) {
        let [Some(one), Some(other)] = [first, second].map(|key| self.detail.get(key).map(plain)) else {
            return self.outcomes.absent += 1;
        };
        self.outcomes.checked += 1;
        if !is_printed_as(&one, &other) {
            let text = format!("`{first}` is {one}, `{second}` {other}");
            self.object(Review, SubmissionCheck::Witness, DETAIL_FILE, text);
        }
    }

    fn ordered(&mut self, first: &str, second: &str, slack: f64, weight: FindingWeight, check: SubmissionCheck) {
        if self.values(&[first, second]).is_some_and(|values| values[0] > values[1] + slack) {
            let [one, other] = [first, second].map(|key| self.detail.get(key).map(plain).unwrap_or_default());
            self.object(weight, check, DETAIL_FILE, format!("`{first}` is {one}, and `{second}` {other}"));
        }
    }

    /// Reads the values of the keys and counts the outcome. None: a key is missing, or its value cannot be read.
    fn values(&mut self, keys: &[&str]) -> Option<Vec<f64>> {
        match keys.iter().map(|key| self.value(key).transpose()).collect::<Option<Result<Vec<f64>, ErrorText>>>() {
            None => self.absent(keys),
            Some(Err(error)) => self.unreadable(DETAIL_FILE, error.message),
            Some(Ok(values)) => {
                self.outcomes.checked += 1;
                return Some(values);
            }
        }
        None
    }

    /// Counts a row that has not all of its keys. In Server, LoadGen since 5.0 writes each of them, in all published
    /// logs: a line was taken out.
    fn absent(&mut self, keys: &[&str]) {
        let is_server = self.detail.text("effective_scenario") == Some("Server") && !self.detail.is_of_version_4();
        let missing = keys.iter().find(|key| !key.starts_with('(') && self.detail.get(key).is_none());
        match missing.filter(|_| is_server && !keys.contains(&"result_samples_per_second")) {
            Some(key) => self.unreadable(DETAIL_FILE, format!("it has no `{key}`")),
            None => self.outcomes.absent += 1,
        }
    }

    /// The value of a key; a time is in seconds. Err: the value cannot be read.
    fn value(&self, key: &str) -> Result<Option<f64>, ErrorText> {
        match key {
            SCHEDULE => {
                let seed = self.detail.count("effective_schedule_rng_seed");
                let queries = self.detail.count(QUERIES).filter(|queries| *queries <= MOST_QUERIES);
                let rate = self.value("effective_target_qps")?;
                return Ok(seed
                    .zip(queries)
                    .zip(rate)
                    .map(|((seed, queries), rate)| last_arrival(seed, rate, queries)));
            }
            LAST_LINE => return Ok(self.detail.last_ms.map(|ms| ms / 1e3)),
            WINDOW => {
                let (begin, end) = (self.value("power_begin")?, self.value("power_end")?);
                return Ok(begin.zip(end).map(|(begin, end)| end - begin));
            }
            _ => {}
        }
        let Some(value) = self.detail.get(key) else { return Ok(None) };
        match value.as_str() {
            // Built outside of a git work tree, it writes NA.
            Some("NA") => Ok(None),
            Some(text) => seconds(text)
                .map(Some)
                .ok_or_else(|| ErrorText::new(format_args!("`{key}` is not a number or time: {text:?}"))),
            None => {
                value.as_f64().map(Some).ok_or_else(|| ErrorText::new(format_args!("`{key}` is not a number: {value}")))
            }
        }
    }
}

/// Seconds since 1970 of a time that LoadGen logged. A time without a zone, as LoadGen writes most, counts as UTC.
pub(super) fn seconds(text: &str) -> Option<f64> {
    let text = text.trim();
    let local = || {
        let formats = ["%Y-%m-%dT%H:%M:%S%.f", "%m-%d-%Y %H:%M:%S%.f"];
        let time = formats.iter().find_map(|format| DateTime::strptime(format, text).ok())?;
        Some(time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
    };
    let time = text.parse::<Timestamp>().ok().or_else(local)?;
    Some(time.as_duration().as_secs_f64())
}

/// A value as the summary would print it.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), |text| text.trim().to_owned())
}

/// Whether two texts are one value: `Yes` and `true`, `40.61` and `40.6113`; counts, seeds and names to the last
/// digit.
fn is_printed_as(printed: &str, logged: &str) -> bool {
    let flag = |text: &str| match text.to_ascii_lowercase().as_str() {
        "yes" | "true" | "1" => Some(true),
        "no" | "false" | "0" => Some(false),
        _ => None,
    };
    let is_count = |text: &str| text.parse::<i128>().is_ok();
    printed == logged
        || flag(printed).is_some_and(|one| flag(logged) == Some(one))
        // Two decimals, and of larger numbers six digits.
        || !(is_count(printed) && is_count(logged)) && is_within(printed, logged, DIGITS, 0.0051)
}

fn is_within(one: &str, other: &str, share: f64, slack: f64) -> bool {
    let numbers = one.parse::<f64>().ok().zip(other.parse::<f64>().ok());
    numbers.is_some_and(|(one, other)| (one - other).abs() <= share * other.abs() + slack)
}

const UNALTERED: &str = "LoadGen must be an unmodified tagged revision; it logs the SHA-1 of each of its files";
const REBUILD: &str = "build it unaltered, and run again";
/// The source file of LoadGen that computes the results.
const RESULTS: &str = "/results.cc";

/// Checks that the file that computes the results is that of LoadGen's release.
pub(super) fn files(to: &mut SubmissionFindings, at: &Path, detail: &Detail, released: &BTreeMap<String, String>) {
    let Some(files) = detail.get("loadgen_file_sha1") else { return };
    let sha1 = files.get(RESULTS).and_then(Value::as_str);
    let released = detail.loadgen_version().and_then(|release| released.get(release));
    findings! { to;
        Review, Unreadable, at, sha1.is_none().then(|| format!("`loadgen_file_sha1` has no SHA-1 of {RESULTS}")),
            UNALTERED, REBUILD;
        Review, LoadGenFiles, at,
            sha1.zip(released).filter(|(sha1, released)| sha1 != released)
                .map(|(sha1, released)| format!("{RESULTS} of its release has the SHA-1 {released}, this one {sha1}")),
            UNALTERED, REBUILD;
    }
}

/// Checks that two runs of one result were made with the same source files of LoadGen.
pub(super) fn same_files(to: &mut SubmissionFindings, at: &Path, detail: &Detail, other: &Detail) {
    let files = |detail: &Detail| detail.get("loadgen_file_sha1").and_then(Value::as_object).cloned();
    let (Some(files), Some(others)) = (files(detail), files(other)) else { return };
    let names: Vec<&String> =
        others.iter().filter(|(name, sha1)| files.get(*name) != Some(*sha1)).map(|(name, _)| name).collect();
    if let [first, ..] = names[..] {
        finding!(to; Review, LoadGenFiles, at,
            format!("{} of LoadGen, {first}, differs from the performance run's", counted(names.len(), "file")),
            UNALTERED, REBUILD);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_that_is_ordered_is_also_a_line_of_the_summary() {
        let printed: Vec<&str> = PRINTED.iter().map(|(_, key)| *key).collect();
        for [_, rank] in LATENCIES {
            for rank in PERCENTILES.map(|part| key(rank, part)) {
                assert!(printed.contains(&&*rank), "{rank}");
            }
        }
    }
}
