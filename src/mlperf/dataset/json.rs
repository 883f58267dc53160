//! JSON: an array of records, or a record a line. One record in memory at a time.

use std::cell::Cell;
use std::io::BufRead;
use std::path::Path;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::error::{ColumnError, SampleFileError};
use super::row::{Columns, DatasetRow, RowSink, RowValue};
use base::files::open_text;

/// Gives each record to `sink`. Err: what is wrong, with line and column.
pub fn read(file: &Path, columns: &Columns, sink: &mut RowSink<'_>) -> Result<(), SampleFileError> {
    let unreadable = |source| SampleFileError::Io { path: file.to_owned(), source };
    let mut text = open_text(file).map_err(unreadable)?;
    // Lines of blanks may come first; a record is in the first piece.
    let begin = text.fill_buf().map_err(unreadable)?.trim_ascii_start().first().copied();
    let Some(begin) = begin else { return Err(SampleFileError::Empty { path: file.to_owned() }) };
    let mut json = serde_json::Deserializer::from_reader(text);
    let fault = Cell::new(None);
    let record = Record { columns, fault: &fault };
    let read = if begin == b'[' {
        Records { record, sink }.deserialize(&mut json).and_then(|()| json.end())
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
    read.map_err(|source| SampleFileError::Json { path: file.to_owned(), source, column: fault.take() })
}

struct Records<'a, 's> {
    record: Record<'a>,
    sink: &'a mut RowSink<'s>,
}

impl<'de> DeserializeSeed<'de> for Records<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
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
