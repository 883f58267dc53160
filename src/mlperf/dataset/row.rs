//! A row of a data set, the columns that a benchmark needs, and `dataset.json`, which describes a prepared data set;
//! and data sets in JSON: an array of records, or one record a line, of which one at a time is in memory.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::DatasetRecord;
use crate::accuracy::ScoringMethod;
use base::diag::{ErrorText, in_file};
use base::files::open_text;
use base::units::size;

/// One row of a data set, as it was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DatasetRow {
    pub ids: Option<Vec<i64>>,
    pub reference: Option<String>,
    pub task: Option<String>,
    pub id: Option<String>,
    /// Of a made-up sample: the length of its answer.
    pub output_tokens: Option<u32>,
    /// How good the names were that the values came by.
    ranks: [Option<usize>; 4],
}

/// A column that holds another kind of value than its name announces.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ColumnError {
    #[error("`{0}` is not a list of whole numbers")]
    NotIds(String),
    #[error("`{0}` is a list, but a text is expected")]
    NotText(String),
}

/// What takes the rows of a data set.
pub(super) type RowSink<'s> = dyn FnMut(DatasetRow) + 's;

/// A value of a row.
pub enum RowValue {
    Ids(Vec<i64>),
    Text(String),
    Nothing,
}

impl DatasetRow {
    pub fn new(ids: Vec<i64>) -> Self {
        Self { ids: Some(ids), ..Self::default() }
    }

    /// Takes a column's value, unless a better name has been there. Err: it is of another kind.
    pub fn take(&mut self, columns: &Columns, name: &str, value: RowValue) -> Result<(), ColumnError> {
        let Some((slot, rank)) = columns.slot(name) else { return Ok(()) };
        let best = &mut self.ranks[slot as usize];
        if matches!(value, RowValue::Nothing) || best.is_some_and(|best| best < rank) {
            return Ok(());
        }
        *best = Some(rank);
        match (slot, value) {
            (ColumnRole::Tokens, RowValue::Ids(ids)) => self.ids = Some(ids),
            (ColumnRole::Reference, RowValue::Text(text)) => self.reference = Some(text),
            (ColumnRole::Task, RowValue::Text(text)) => self.task = Some(text),
            (ColumnRole::Id, RowValue::Text(text)) => self.id = Some(text),
            (ColumnRole::Tokens, _) => return Err(ColumnError::NotIds(name.to_owned())),
            _ => return Err(ColumnError::NotText(name.to_owned())),
        }
        Ok(())
    }
}

// Which columns of a published data set hold what. The first name that exists counts.
//
// Read in the reference implementations at mlcommons/inference b66003e1: `language/<model>/dataset.py` and the scorers.

/// Names of columns, best first.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    pub tokens: &'static [&'static str],
    pub reference: &'static [&'static str],
    pub task: &'static [&'static str],
    pub id: &'static [&'static str],
}

/// One of a row's four values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnRole {
    Tokens,
    Reference,
    Task,
    Id,
}

impl Columns {
    pub const fn for_method(recipe: ScoringMethod) -> Self {
        const TOKENS: &[&str] = &["tok_input", "input_tokens", "input_ids"];
        const ID: &[&str] = &["id"];
        let (reference, task): (&[&str], &[&str]) = match recipe {
            ScoringMethod::OpenOrca | ScoringMethod::CnnDailyMail => (&["output", "reference"], &[]),
            ScoringMethod::Mixed => (&["gt_output", "reference"], &["dataset", "task"]),
            ScoringMethod::LongContext => (&["gt_output", "reference"], &["metric", "task"]),
            ScoringMethod::DeepSeek => (&["gt_output", "ground_truth", "reference"], &["dataset", "metric", "task"]),
            ScoringMethod::GptOss => (&["ground_truth", "reference"], &["dataset", "task"]),
        };
        Self { tokens: TOKENS, reference, task, id: ID }
    }

    /// What a column holds, and how good its name is: less is better.
    pub fn slot(&self, name: &str) -> Option<(ColumnRole, usize)> {
        let roles = [
            (ColumnRole::Tokens, self.tokens),
            (ColumnRole::Reference, self.reference),
            (ColumnRole::Task, self.task),
            (ColumnRole::Id, self.id),
        ];
        roles.into_iter().find_map(|(slot, names)| Some((slot, names.iter().position(|known| *known == name)?)))
    }

    /// All names, for messages and for the conversion command.
    pub fn texts(&self) -> Vec<&'static str> {
        [self.reference, self.task, self.id].concat()
    }
}

/// The file that holds a [`DatasetFile`], of which a [`DatasetRecord`] is a part.
pub const DATASET_FILE: &str = "dataset.json";
/// The samples, one a line: `{"input_ids": […], "reference": "…", "task": "…", "id": "…"}`, in the order of the QSL.
pub const SAMPLES_FILE: &str = "dataset.jsonl";

#[base::omit_empty]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DatasetFile {
    #[serde(flatten)]
    pub record: DatasetRecord,
    pub round: String,
    pub form: DatasetFormat,
    /// Name of the file or folder that it was read from.
    pub from: Option<String>,
    /// Tokens of a sample's input.
    pub input_tokens: LengthSpread,
    /// Samples that answers can be compared with.
    pub references: u64,
    /// How it was made up.
    pub made: Option<SyntheticSpec>,
}

/// The form that a data set came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DatasetFormat {
    Parquet,
    Json,
    /// A folder of NumPy arrays.
    Npy,
    MadeUp,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LengthSpread {
    pub min: u64,
    pub mean: f64,
    pub max: u64,
}

/// A made-up data set: the same values make the same bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SyntheticSpec {
    pub seed: u64,
    pub input_tokens: super::LengthDistribution,
    pub reference_words: super::LengthDistribution,
}

/// Gives each record to `sink`. Err: what is wrong, with line and column.
pub fn read(file: &Path, columns: &Columns, sink: &mut RowSink<'_>) -> Result<(), ErrorText> {
    let text = open_text(file).map_err(in_file(file))?;
    read_records(text, LONGEST, columns, sink).map_err(in_file(file))
}

/// None of them may be longer than `longest` bytes.
fn read_records(
    mut text: impl BufRead,
    longest: u64,
    columns: &Columns,
    sink: &mut RowSink<'_>,
) -> Result<(), ErrorText> {
    // Lines of blanks may come first; a record is in the first piece.
    let begin = text.fill_buf().map_err(ErrorText::new)?.trim_ascii_start().first().copied();
    let Some(begin) = begin else { return Err(ErrorText::new("it is empty")) };
    let (fault, left) = (Cell::new(None), Cell::new(longest));
    let bounded = RecordBound { text, longest, left: &left };
    let mut json = serde_json::Deserializer::from_reader(BufReader::new(bounded));
    let record = Record { columns, fault: &fault, longest, left: &left };
    let read = if begin == b'[' {
        json.deserialize_seq(Records { record, sink }).and_then(|()| json.end())
    } else {
        // A record a line: an end where the next would begin is the end.
        loop {
            match record.deserialize(&mut json) {
                Ok(row) => sink(row),
                Err(error) if error.is_eof() && error.to_string().starts_with("EOF while parsing a value") => {
                    break Ok(());
                }
                Err(error) => break Err(error),
            }
        }
    };
    read.map_err(|error| {
        // A file that is laid out by columns has all values of a column in one list.
        let is_by_columns = matches!(fault.take(), Some(ColumnError::NotIds(_)));
        let hint = if is_by_columns { "; is it laid out by columns? Write it with orient=\"records\"" } else { "" };
        ErrorText::new(format!("{error}{hint}"))
    })
}

/// A record of a million tokens has 7 MB of text, and many times that in memory.
const LONGEST: u64 = 64 << 20;

/// A text whose reading fails where a record is too long.
struct RecordBound<'a, R> {
    text: R,
    longest: u64,
    /// Bytes that the record may still have.
    left: &'a Cell<u64>,
}

impl<R: Read> Read for RecordBound<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.text.read(into)?;
        let too_long = || {
            let reason = format!("a record is longer than {}", size(self.longest));
            io::Error::new(io::ErrorKind::FileTooLarge, reason)
        };
        self.left.set(self.left.get().checked_sub(read as u64).ok_or_else(too_long)?);
        Ok(read)
    }
}

struct Records<'a, 's> {
    record: Record<'a>,
    sink: &'a mut RowSink<'s>,
}

impl<'de> Visitor<'de> for Records<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an array of records")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut records: A) -> Result<(), A::Error> {
        while let Some(row) = records.next_element_seed(self.record)? {
            (self.sink)(row);
        }
        Ok(())
    }
}

/// Reads one record. serde passes errors on as texts only: `fault` keeps that of a column as it is.
#[derive(Clone, Copy)]
struct Record<'a> {
    columns: &'a Columns,
    fault: &'a Cell<Option<ColumnError>>,
    longest: u64,
    left: &'a Cell<u64>,
}

impl Record<'_> {
    fn wrong<E: serde::de::Error>(&self, error: ColumnError) -> E {
        let serde_error = E::custom(&error);
        self.fault.set(Some(error));
        serde_error
    }
}

impl<'de> DeserializeSeed<'de> for Record<'_> {
    type Value = DatasetRow;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<DatasetRow, D::Error> {
        self.left.set(self.longest);
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Record<'_> {
    type Value = DatasetRow;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a record")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut record: A) -> Result<DatasetRow, A::Error> {
        let mut row = DatasetRow::default();
        while let Some(name) = record.next_key::<String>()? {
            if self.columns.slot(&name).is_none() {
                record.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = match record.next_value::<serde_json::Value>()? {
                serde_json::Value::Null => RowValue::Nothing,
                serde_json::Value::String(text) => RowValue::Text(text),
                serde_json::Value::Array(items) => {
                    let ids: Option<Vec<i64>> = items.iter().map(serde_json::Value::as_i64).collect();
                    RowValue::Ids(ids.ok_or_else(|| self.wrong(ColumnError::NotIds(name.clone())))?)
                }
                other => RowValue::Text(other.to_string()),
            };
            row.take(self.columns, &name, value).map_err(|error| self.wrong(error))?;
        }
        Ok(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_is_too_long_ends_the_reading() {
        let columns = Columns::for_method(ScoringMethod::OpenOrca);
        let read = |text: &str, longest: u64| {
            let mut rows = 0;
            read_records(text.as_bytes(), longest, &columns, &mut |_| rows += 1).map(|()| rows)
        };
        // As much as is read ahead, and each of many records is shorter than that.
        let lines = "{\"input_ids\": [1, 2, 3]}\n".repeat(2_000);
        assert_eq!(read(&lines, 20_000).ok(), Some(2_000));
        let long = format!("{lines}{{\"input_ids\": [{}0]}}\n", "0, ".repeat(20_000));
        let error = read(&long, 20_000).unwrap_err().to_string();
        assert!(error.starts_with("a record is longer than 20.0 kB at line 2001"), "{error}");
        let array = format!("[{}{{\"input_ids\": [{}0]}}]", "{}, ".repeat(10_000), "0, ".repeat(20_000));
        assert!(read(&array, 20_000).is_err() && read(&array, 100_000).is_ok());
    }
}
