//! The records of a run: in memory, and of a run with many requests in a temporary file.

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};

use crate::spool::{Spool, SpoolContext, SpoolReader, SpoolValue, SpoolWriter};
use crate::{FailedAttempt, FinishReason, RequestEnd, RequestRecord, ServerStamps, TokenSource, Usage, Violation};

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
    pub fn iter(&self) -> RecordReader<'_> {
        RecordReader(self.0.iter())
    }

    /// All in memory: for few requests.
    pub fn to_vec(&self) -> Vec<RequestRecord> {
        self.iter().collect()
    }

    /// An error if a temporary file could not be written or read, so that records are missing.
    pub(crate) fn check(&self) -> io::Result<()> {
        self.0.context().check()
    }

    /// The successful ones.
    pub(crate) fn ok(&self) -> impl Iterator<Item = RequestRecord> {
        self.iter().filter(|record| record.ended == RequestEnd::Ok)
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
        Self(Spool::collect(self.iter().filter(is_kept).map(StoredRecord), self.0.context()))
    }

    pub(crate) fn sorted_by_key<K: Ord>(&self, key: impl Fn(&RequestRecord) -> K) -> Self {
        Self(self.0.sorted_by_key(|StoredRecord(record)| key(record)))
    }

    /// What is taken of some records, in their order.
    pub(crate) fn column<T: SpoolValue>(&self, of: impl Fn(&RequestRecord) -> Option<T>) -> Spool<T> {
        Spool::collect(self.iter().filter_map(|record| of(&record)), self.0.context())
    }

    /// A number of each record that has one, in place of what `into` held: those of ten million records take 80 MB, so
    /// that one vector serves one number after the other.
    pub(crate) fn values_into(&self, into: &mut Vec<f64>, of: impl Fn(&RequestRecord) -> Option<f64> + Sync) {
        self.0.filter_map_into(into, |StoredRecord(record)| of(&record));
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

/// Reads records from the first one on.
pub struct RecordReader<'r>(SpoolReader<'r, StoredRecord>);

impl Iterator for RecordReader<'_> {
    type Item = RequestRecord;

    fn next(&mut self) -> Option<RequestRecord> {
        self.0.next().map(|StoredRecord(record)| record)
    }
}

impl<'r> IntoIterator for &'r RequestRecords {
    type Item = RequestRecord;
    type IntoIter = RecordReader<'r>;

    fn into_iter(self) -> RecordReader<'r> {
        self.iter()
    }
}

impl FromIterator<RequestRecord> for RequestRecords {
    fn from_iter<I: IntoIterator<Item = RequestRecord>>(records: I) -> Self {
        Self::new(records)
    }
}

/// A record as a temporary file holds it. The fields are those of [`RequestRecord`], none left out, because the format
/// of such files has no names.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct StoredRecord(#[serde(with = "Fields")] pub RequestRecord);

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
