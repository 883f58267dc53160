//! Times in which no answer moved although several requests waited: pauses of the server, or of the network. Of several
//! servers one may pause while the others go on.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::latency::ttft;
use crate::measure::load_conditions::Before;
use crate::measure::metric::{ValueHistogram, percentile};
use crate::{BenchSpec, RequestRecord, RequestRecords};
use base::units::counted;

/// Shorter silences are a server's usual work.
pub(crate) const LEAST_S: f64 = 0.2;
/// A single one counts from this length on, several shorter ones if they are at least `SEVERAL`.
pub(crate) const SINGLE_S: f64 = 0.5;
pub(crate) const SEVERAL: u64 = 3;
/// This many times the mean gap between events of answers while requests were in flight, as of so many as are in
/// flight, and as long for an answer of usual length. Exponential gaps exceed it once in three million.
pub(crate) const TIMES_GAP: f64 = 15.0;
/// The bound is raised by the ratio of this percentile of the other gaps to that of exponential gaps with the same
/// mean: a server whose answers differ tenfold in length has long gaps without pausing.
const GAP_PERCENTILE: f64 = 0.98;
/// This many times the median TTFT of requests that were not in flight during it is a request held up.
const TIMES_TTFT: f64 = 3.0;
/// Requests that it must have held up for this long; both of two users.
pub(crate) const LEAST_HELD_UP: usize = 3;
/// Of the silence, that a stream in it must show as its own largest gap.
const SHARE_OF_GAP: f64 = 0.9;
/// A stream of fewer chunks has no pace of its own.
const LEAST_CHUNKS: u32 = 4;
/// So many silences are looked at, the longest first.
const MOST: usize = 50;

/// Times without a first token, a last token or an end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServerFreeze {
    /// The longest, from the schedule's start, s.
    pub from_s: f64,
    pub to_s: f64,
    /// Requests that were in flight at some time of the longest.
    pub held_up: u64,
    /// How many there were, and how long together.
    pub pauses: u64,
    pub total_s: f64,
    /// `host:port` of the one of several servers that paused; absent where all did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
}

/// A gap between events, ns, with the requests in flight in it.
#[derive(Clone, Copy)]
struct Silence {
    from: u64,
    to: u64,
    in_flight: usize,
    /// How many times as long as usual the answer that ended it takes without a sign, by its length and its prompt's.
    work: f64,
}

impl Silence {
    const fn length(self) -> u64 {
        self.to - self.from
    }
}

/// Whether a request was in flight at some time between two points in time, ns.
const fn is_in_flight(record: &RequestRecord, from: u64, to: u64) -> bool {
    record.t_issue < to && record.t_end > from
}

/// Sums of gaps, ns.
#[derive(Clone, Copy, Default)]
struct Gaps {
    count: f64,
    total: f64,
    /// Gap times the requests in flight in it.
    of_requests: f64,
}

impl Gaps {
    fn add(&mut self, silence: Silence, sign: f64) {
        let length = silence.length() as f64;
        self.count += sign;
        self.total += sign * length;
        self.of_requests += sign * length * silence.in_flight as f64;
    }

    /// What is usual with so many in flight: each of the last few requests of a run may be as quick as one of many, and
    /// yet something happens seldom.
    fn usual(&self, in_flight: usize) -> f64 {
        f64::max(self.total, self.of_requests / in_flight.max(1) as f64) / self.count.max(1.0)
    }
}

impl ServerFreeze {
    pub(super) fn from_records(spec: &BenchSpec, records: &RequestRecords) -> Option<Self> {
        let least = match spec.scenario.users() {
            0 => LEAST_HELD_UP,
            users => LEAST_HELD_UP.min(users.max(2)),
        };
        let of_server = |(at, server)| {
            let freeze = Self::in_records(&records.filtered(|record| record.endpoint == at), least)?;
            Some(Self { server: Some(ToString::to_string(server)), ..freeze })
        };
        let servers = || (0..).zip(&spec.endpoints).filter(|_| spec.endpoints.len() > 1).filter_map(of_server);
        Self::in_records(records, least).or_else(|| servers().max_by(|a, b| a.total_s.total_cmp(&b.total_s)))
    }

    /// `least`: how many requests it must have held up.
    fn in_records(records: &RequestRecords, least: usize) -> Option<Self> {
        let (mut gaps, lengths, mut long) = silences(records, least);
        let count = gaps.count;
        long.sort_by_key(|silence| std::cmp::Reverse(silence.length()));
        long.truncate(MOST);
        // A freeze would distort the usual gap that it is compared with, so silences that stand out are excluded, the
        // longest first. A shorter one may stand out where more requests were in flight.
        long.retain(|silence| {
            let mut others = gaps;
            others.add(*silence, -1.0);
            let stands_out = silence.length() as f64 >= TIMES_GAP * silence.work * others.usual(silence.in_flight);
            gaps = if stands_out { others } else { gaps };
            stands_out
        });
        let unevenness = {
            let observed = lengths.percentile(GAP_PERCENTILE * gaps.count / count.max(1.0)).unwrap_or(0) as f64;
            let expected = -(1.0 - GAP_PERCENTILE).ln() * gaps.total / gaps.count.max(1.0);
            (observed / expected.max(1.0)).max(1.0)
        };
        let bound = |silence: Silence| TIMES_GAP * silence.work * unevenness * gaps.usual(silence.in_flight);
        long.retain(|silence| silence.length() as f64 >= bound(*silence));
        let is_free = |record: &RequestRecord| {
            record.is_ok() && !long.iter().any(|silence| is_in_flight(record, silence.from, silence.to))
        };
        let mut free: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for record in records.borrowed().filter(|record| !long.is_empty() && is_free(record)) {
            free.entry(record.endpoint).or_default().extend(ttft(&record));
        }
        for ttfts in free.values_mut() {
            ttfts.sort_unstable_by(f64::total_cmp);
        }
        // Of its own server, which may be slower than the others.
        let usual_ttft = |record: &RequestRecord| {
            free.get(&record.endpoint).and_then(|ttfts| percentile(ttfts, 0.5)).unwrap_or(f64::INFINITY)
        };
        long.retain(|silence| holds_up(*silence, records, least, &usual_ttft));
        let (pauses, longest) = (long.len() as u64, long.first()?);
        let frozen = Self {
            from_s: longest.from as f64 / 1e9,
            to_s: longest.to as f64 / 1e9,
            held_up: records.borrowed().filter(|record| is_in_flight(record, longest.from, longest.to)).count() as u64,
            pauses,
            total_s: long.iter().map(|silence| silence.length() as f64 / 1e9).sum(),
            server: None,
        };
        (frozen.to_s - frozen.from_s >= SINGLE_S || frozen.pauses >= SEVERAL).then_some(frozen)
    }

    /// It was in flight at some time of the longest silence.
    pub fn overlaps(&self, record: &RequestRecord) -> bool {
        let ns = |seconds: f64| (seconds * 1e9).round() as u64;
        is_in_flight(record, ns(self.from_s), ns(self.to_s))
    }

    pub(super) fn text(&self) -> String {
        let others = match self.pauses {
            0 | 1 => String::new(),
            pauses => format!("; it was the longest of {} of {:.1} s together", counted(pauses, "pause"), self.total_s),
        };
        let whose = self.server.as_ref().map_or_else(String::new, |server| format!(" of {server}"));
        format!(
            "no answer{whose} began, went on or ended for {:.1} s, from {:.1} s on, which held up {} requests: the \
             server or the network paused; all latencies count it{others}",
            self.to_s - self.from_s,
            self.from_s,
            self.held_up
        )
    }
}

/// All gaps between events while requests were in flight, and the long ones in which several waited at the end: a
/// server with little to do has few in flight when it begins to pause.
fn silences(records: &RequestRecords, least: usize) -> (Gaps, ValueHistogram, Vec<Silence>) {
    let mean = |tokens: fn(&RequestRecord) -> u32| {
        let sum: f64 = records.borrowed().map(|record| f64::from(tokens(&record))).sum();
        (sum / records.len().max(1) as f64).max(1.0)
    };
    let (mean_input, mean_output) = (mean(|record| record.input_tokens), mean(|record| record.tokens));
    // The first sign of an answer comes after the work on its prompt, and of one in one piece after all of its tokens:
    // in thousandths.
    let events = records.borrowed().flat_map(|record| {
        let of_input = f64::from(record.input_tokens) / mean_input;
        let is_whole = record.t_first == record.t_last;
        let of_output = if is_whole { f64::from(record.tokens) / mean_output } else { 0.0 };
        let work = (1e3 * of_input.max(of_output).max(1.0)) as u64;
        let later = record.t_last.map_or(Some(record.t_end), |last| (!is_whole).then_some(last));
        [record.t_first.map(|first| (first, work)), later.map(|at| (at, 1_000))]
    });
    let events = records.collected(events.flatten()).sorted();
    let (mut gaps, mut lengths, mut long) = (Gaps::default(), ValueHistogram::new(), Vec::new());
    let starts = records.sorted_stamps(|record| record.t_issue);
    let ends = records.sorted_stamps(|record| record.t_end);
    let (mut started, mut ended) = (Before::new(&starts), Before::new(&ends));
    let (mut started_later, mut ended_later) = (Before::new(&starts), Before::new(&ends));
    for ((from, _), (to, work)) in events.iter().zip(events.iter().skip(1)) {
        let in_flight = started.count(from + 1) - ended.count(from + 1);
        // A silence with nothing in flight begins when a request waits in it.
        let (from, in_flight) = match started.next() {
            _ if in_flight > 0 => (from, in_flight),
            Some(issue) if issue < to => (issue, 1),
            _ => continue,
        };
        let silence = Silence { from, to, in_flight, work: work as f64 / 1e3 };
        gaps.add(silence, 1.0);
        lengths.add(silence.length() as f64, 1);
        let held_up = started_later.count(to) - ended_later.count(to);
        if held_up >= least && silence.length() as f64 >= LEAST_S * 1e9 {
            long.push(silence);
        }
    }
    (gaps, lengths, long)
}

/// Several requests waited for much longer than is usual, or than their streams' other chunks did, and no stream went
/// on.
fn holds_up(
    silence: Silence,
    records: &RequestRecords,
    least: usize,
    usual_ttft: &dyn Fn(&RequestRecord) -> f64,
) -> bool {
    let Silence { from, to, .. } = silence;
    let length = silence.length() as f64;
    let held = || records.borrowed().filter(|record| record.t_issue < to && record.t_end >= to);
    let is_streaming = |record: &RequestRecord| record.t_first.is_some_and(|first| first <= from);
    let has_moved = held().any(|record| is_streaming(&record) && (record.max_gap as f64) < SHARE_OF_GAP * length);
    let is_late = |record: &RequestRecord| (to - record.t_issue.max(from)) as f64 >= TIMES_TTFT * usual_ttft(record);
    let is_far_behind = |record: &RequestRecord| {
        let span = record.t_last.unwrap_or(to).saturating_sub(record.t_first.unwrap_or(to)) as f64;
        let usual_gap = (span - length).max(0.0) / f64::from(record.chunks.saturating_sub(2).max(1));
        record.chunks >= LEAST_CHUNKS && is_streaming(record) && length >= TIMES_GAP * usual_gap
    };
    !has_moved && held().filter(|record| is_late(record) || is_far_behind(record)).count() >= least
}
