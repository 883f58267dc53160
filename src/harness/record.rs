//! The record of one request, with stamps in ns from the schedule's start; and the records of a run, in memory or, when
//! there are many, in a temporary file.
//!
//! All stamps are of one monotonic clock, ns since the run was set up, and shifted so that 0 is the start.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::spool::{Spool, SpoolContext, SpoolValue, SpoolWriter};
use crate::{FinishReason, TokenSource, Usage, Violation};

/// One request that was issued. There may be millions, so what most of them lack is boxed.
#[base::omit_empty(except(t_first, t_last))]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestRecord {
    pub index: u64,
    /// Of requests of an external driver: which sample of the data set.
    pub sample: Option<u64>,
    /// Position in `BenchSpec::endpoints`.
    pub endpoint: u32,
    /// Prompt tokens.
    pub input_tokens: u32,
    /// Output tokens requested.
    #[serde(alias = "asked_tokens")]
    pub requested_tokens: u32,
    /// Output tokens received, as `tokens.source` of the result counts them.
    pub tokens: u32,
    /// They are those of its text, tokenized again by us.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retokenized: bool,
    /// What they were counted by.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub token_source: TokenSource,
    /// How many tokens each chunk has is not known: `timeline` counts a chunk as one, and so does `first_tokens` unless
    /// `retokenized`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub chunk_tokens_unknown: bool,
    /// Tokens in the first chunk that had any.
    pub first_tokens: u32,
    /// Tokens of all chunks that came in one read with the first, where there are several, each chunk of unknown tokens
    /// as one; else 0.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub first_read_tokens: u32,
    /// Chunks with at least one token.
    pub chunks: u32,
    /// They are those of several answers to one prompt, which come between each other: gaps are no times between tokens
    /// of one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interleaved: bool,
    /// A final marker came.
    pub final_marker: bool,
    /// Of several turns; each request is its own where prompts are single.
    #[serde(default)]
    pub session: u64,
    /// Within its session, from 0.
    #[serde(default)]
    pub turn: u32,
    /// Intended arrival; for an idle user, or a later turn, the time at which the request was due.
    pub t_sched: u64,
    /// Handed to its connection.
    pub t_issue: u64,
    /// Socket read of the first chunk with a token.
    pub t_first: Option<u64>,
    /// Socket read of the last chunk with a token.
    pub t_last: Option<u64>,
    /// End of the stream, or of our patience.
    pub t_end: u64,
    /// Largest gap between chunks, ns.
    pub max_gap: u64,
    /// When the request was cancelled, as `cancel` sets.
    pub t_cancel: Option<u64>,
    /// What the server stamped, with `return_perf_metrics`.
    pub server: Option<Box<ServerStamps>>,
    /// Tokens as the server counts them, where it reports them.
    pub usage: Option<Box<Usage>>,
    pub ended: RequestEnd,
    /// Why the server ended the answer, where it reports that.
    pub finish_reason: Option<FinishReason>,
    /// What in the answer contradicts its protocol, by class.
    pub violations: BTreeMap<Violation, u64>,
    /// Earlier attempts, with `retries`. `t_issue` is that of the first.
    pub attempts: Vec<FailedAttempt>,
    /// Each chunk with a token: its socket read and its tokens. Empty unless `BenchSpec::timelines`.
    pub timeline: Vec<(u64, u32)>,
}

impl RequestRecord {
    /// The tokens of the first chunk that had any; `None` where they are not known.
    pub fn known_first_tokens(&self) -> Option<u32> {
        (!self.chunk_tokens_unknown || self.retokenized).then_some(self.first_tokens)
    }

    /// All of several chunks came in one read: the time between them was not measured.
    pub const fn is_one_read(&self) -> bool {
        self.chunks > 1 && self.max_gap == 0
    }

    /// The gaps between chunks are times between tokens of one answer.
    pub const fn has_token_times(&self) -> bool {
        !self.interleaved && !self.is_one_read()
    }

    pub fn is_ok(&self) -> bool {
        self.ended == RequestEnd::Ok
    }
}

/// Whether the value is its default, which files omit.
pub(crate) fn is_usual<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A request's life as the server stamps it: ns of the server's own clock, so only differences mean something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStamps {
    pub arrival_time_ns: i64,
    pub first_scheduled_time_ns: i64,
    pub first_token_time_ns: i64,
    pub last_token_time_ns: i64,
    pub kv_cache_alloc_new_blocks: i32,
    pub kv_cache_reused_blocks: i32,
    pub kv_cache_alloc_total_blocks: i32,
}

/// An attempt that failed and was followed by another. Stamps are ns from the schedule's start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedAttempt {
    pub t_issue: u64,
    pub t_end: u64,
    pub class: FailureClass,
    pub why: String,
}

/// How a request left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestEnd {
    #[default]
    Ok,
    Failed {
        class: FailureClass,
        why: String,
    },
    /// The run was stopped.
    Cancelled,
    /// We ended it early, as `cancel` sets.
    #[serde(alias = "withdrawn")]
    CancelledEarly,
}

base::named! {
    /// Why a request failed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
    pub enum FailureClass {
        /// This machine had no local port or file descriptor left for a connection.
        Client = "client",
        /// No connection, or it broke before any answer.
        Connect = "connect",
        /// The server would not take the request (UNAVAILABLE, RESOURCE_EXHAUSTED, REFUSED_STREAM, HTTP status 429 or
        /// 503).
        Refused = "refused",
        /// The stream broke after it had begun, or was not understood.
        Stream = "stream",
        /// The server answered with an error.
        Server = "server",
        /// No token for the stall time-out.
        Stall = "stall",
        /// Fewer tokens than requested, and neither a final marker nor an end token to justify it; or none at all.
        Short = "short",
        /// Not done within its deadline, or not within the longest time of any answer.
        Deadline = "deadline",
        /// The answer exceeds one of `request.response_limits`.
        TooLarge = "too_large",
    }
}

/// Records in an order, which is that of their indices unless it is said to be another.
#[derive(Clone, Debug)]
pub struct RequestRecords(Spool<StoredRecord>);

/// Takes the records of one worker, as its requests end.
#[derive(Debug)]
pub(crate) struct RecordWriter(SpoolWriter<StoredRecord>);

impl RecordWriter {
    /// One of this many writers, which hold a limited number of records in memory together.
    pub fn one_of(writers: usize, context: SpoolContext) -> Self {
        Self(SpoolWriter::one_of(writers, context))
    }

    #[cfg(test)]
    pub const fn context(&self) -> &SpoolContext {
        self.0.context()
    }

    pub fn push(&mut self, record: RequestRecord) {
        self.0.push(StoredRecord(record));
    }

    pub fn end(self) -> RequestRecords {
        RequestRecords(self.0.end())
    }
}

impl RequestRecords {
    /// In this order.
    pub fn new(records: impl IntoIterator<Item = RequestRecord>) -> Self {
        Self(Spool::collect(records.into_iter().map(StoredRecord), &SpoolContext::default()))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Each is read, or copied: a copy of an ordinary record has no allocation.
    pub fn iter(&self) -> impl Iterator<Item = RequestRecord> {
        self.borrowed().map(Cow::into_owned)
    }

    /// All in memory: for few requests.
    pub fn to_vec(&self) -> Vec<RequestRecord> {
        self.iter().collect()
    }

    /// An error if a temporary file could not be written or read, so that records are missing.
    pub(crate) fn check(&self) -> io::Result<()> {
        self.0.context().check()
    }

    /// Like [`Self::iter`], for a pass that keeps none of them: those in memory are not copied.
    pub(crate) fn borrowed(&self) -> impl Iterator<Item = Cow<'_, RequestRecord>> {
        self.0.borrowed().map(|stored| match stored {
            Cow::Borrowed(StoredRecord(record)) => Cow::Borrowed(record),
            Cow::Owned(StoredRecord(record)) => Cow::Owned(record),
        })
    }

    /// The successful ones.
    pub(crate) fn ok(&self) -> impl Iterator<Item = Cow<'_, RequestRecord>> {
        self.borrowed().filter(|record| record.is_ok())
    }

    /// Those of several workers, by index.
    pub(crate) fn merged(parts: Vec<Self>) -> Self {
        let parts = parts.into_iter().map(|part| part.0).collect();
        Self(Spool::merged(parts, |StoredRecord(record)| record.index))
    }

    /// These records, each changed.
    pub(crate) fn map(&self, change: impl Fn(RequestRecord) -> RequestRecord) -> Self {
        Self(Spool::collect(self.iter().map(|record| StoredRecord(change(record))), self.0.context()))
    }

    pub(crate) fn filtered(&self, is_kept: impl Fn(&RequestRecord) -> bool) -> Self {
        let kept = self.borrowed().filter(|record| is_kept(record)).map(Cow::into_owned);
        Self(Spool::collect(kept.map(StoredRecord), self.0.context()))
    }

    pub(crate) fn sorted_by_key<K: Ord>(&self, key: impl Fn(&RequestRecord) -> K) -> Self {
        Self(self.0.sorted_by_key(|StoredRecord(record)| key(record)))
    }

    /// What is taken of some records, in their order.
    pub(crate) fn column<T: SpoolValue>(&self, of: impl Fn(&RequestRecord) -> Option<T>) -> Spool<T> {
        Spool::collect(self.borrowed().filter_map(|record| of(&record)), self.0.context())
    }

    /// A number of each record that has one, in place of what `into` held: those of ten million records take 80 MB, so
    /// that one vector serves one number after the other.
    pub(crate) fn values_into(&self, into: &mut Vec<f64>, of: impl Fn(&RequestRecord) -> Option<f64> + Sync) {
        self.0.filter_map_into(into, |StoredRecord(record)| of(record));
    }

    /// What was made of these records.
    pub(crate) fn collected<T: SpoolValue>(&self, values: impl IntoIterator<Item = T>) -> Spool<T> {
        Spool::collect(values, self.0.context())
    }

    /// Stamps of all records, in the order of time.
    pub(crate) fn sorted_stamps(&self, of: impl Fn(&RequestRecord) -> u64) -> Spool<u64> {
        self.column(|record| Some(of(record))).sorted()
    }
}

impl<'r> IntoIterator for &'r RequestRecords {
    type Item = RequestRecord;
    type IntoIter = Box<dyn Iterator<Item = RequestRecord> + 'r>;

    fn into_iter(self) -> Self::IntoIter {
        Box::new(self.iter())
    }
}

/// A record as a temporary file holds it. The fields are those of [`RequestRecord`], none left out, because the format
/// of such files has no names.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct StoredRecord(#[serde(with = "Fields")] RequestRecord);

#[derive(Serialize, Deserialize)]
#[serde(remote = "RequestRecord")]
struct Fields {
    index: u64,
    sample: Option<u64>,
    endpoint: u32,
    input_tokens: u32,
    requested_tokens: u32,
    tokens: u32,
    retokenized: bool,
    token_source: TokenSource,
    chunk_tokens_unknown: bool,
    first_tokens: u32,
    first_read_tokens: u32,
    chunks: u32,
    interleaved: bool,
    final_marker: bool,
    session: u64,
    turn: u32,
    t_sched: u64,
    t_issue: u64,
    t_first: Option<u64>,
    t_last: Option<u64>,
    t_end: u64,
    max_gap: u64,
    t_cancel: Option<u64>,
    server: Option<Box<ServerStamps>>,
    #[serde(with = "stored_usage")]
    usage: Option<Box<Usage>>,
    ended: RequestEnd,
    finish_reason: Option<FinishReason>,
    violations: BTreeMap<Violation, u64>,
    attempts: Vec<FailedAttempt>,
    timeline: Vec<(u64, u32)>,
}

/// `usage` as JSON has it leaves a field out.
mod stored_usage {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::tokens::Usage;

    type Fields = (Option<u64>, Option<u64>, Option<u64>, Option<u64>);

    #[expect(clippy::ref_option, reason = "serde passes the field")]
    pub(super) fn serialize<S: Serializer>(usage: &Option<Box<Usage>>, to: S) -> Result<S::Ok, S::Error> {
        usage.as_ref().map(|usage| (usage.prompt, usage.completion, usage.cached, usage.reasoning)).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<Usage>>, D::Error> {
        let fields: Option<Fields> = Option::deserialize(from)?;
        Ok(fields
            .map(|(prompt, completion, cached, reasoning)| Box::new(Usage { prompt, completion, cached, reasoning })))
    }
}

/// `Instant` is `CLOCK_MONOTONIC`, so steps of the wall clock cannot enter.
#[derive(Clone, Copy, Debug)]
pub(super) struct BenchClock {
    origin: Instant,
}

impl BenchClock {
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }

    pub fn now(self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    pub fn at(self, instant: Instant) -> u64 {
        u64::try_from(instant.saturating_duration_since(self.origin).as_nanos()).unwrap_or(u64::MAX)
    }

    pub fn instant(self, ns: u64) -> Instant {
        self.origin + Duration::from_nanos(ns)
    }
}
