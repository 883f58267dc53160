//! The records of a file of JSON: one a line, or the elements of a list. Every reader of prompts gets them from here.

use std::fmt;
use std::io::{BufRead, BufReader, Read as _};
use std::ops::ControlFlow;
use std::path::Path;

use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::errors::{RecordPlace, fault};
use super::perf_analyzer;
use crate::HarnessError;
use base::files::open_text;

/// A longer line is an error.
const LONGEST_LINE: u64 = 256 << 20;

/// Hands the text of each record to `take`, until that has enough. Blank lines are no records.
///
/// # Errors
/// The file cannot be read, or is not JSON; and those of `take`.
pub(crate) fn for_each_record(
    file: &Path,
    mut take: impl FnMut(RecordPlace, &[u8]) -> Result<ControlFlow<()>, HarnessError>,
) -> Result<(), HarnessError> {
    let mut reader = open_text(file).map_err(|error| fault(file, error.to_string()))?;
    let begin = reader.fill_buf().map_err(|error| fault(file, error.to_string()))?.trim_ascii_start();
    if perf_analyzer::is_begun(begin) {
        let whole = serde_json::from_reader(reader).map_err(|error| fault(file, error.to_string()))?;
        let records = perf_analyzer::records(whole).map_err(|error| fault(file, error.to_string()))?;
        for (number, record) in (1..).zip(records) {
            let text = serde_json::Value::Object(record).to_string();
            if take(RecordPlace::Entry(number), text.as_bytes())?.is_break() {
                break;
            }
        }
        return Ok(());
    }
    // A line of ids begins with a bracket, too; in a list of records an object follows.
    let rest = begin.strip_prefix(b"[").map(<[u8]>::trim_ascii_start);
    if rest.is_some_and(|rest| matches!(rest.first(), Some(b'{' | b']'))) {
        let mut list = List { take: &mut take, failed: None };
        let mut json = serde_json::Deserializer::from_reader(reader);
        let read = json.deserialize_seq(&mut list).and_then(|()| json.end());
        return match list.failed {
            Some(error) => Err(error),
            None => read.map_err(|error| fault(file, error.to_string())),
        };
    }
    lines(file, reader, take)
}

fn lines(
    file: &Path,
    mut reader: BufReader<std::fs::File>,
    mut take: impl FnMut(RecordPlace, &[u8]) -> Result<ControlFlow<()>, HarnessError>,
) -> Result<(), HarnessError> {
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let mut limited = (&mut reader).take(LONGEST_LINE);
        let length = limited.read_until(b'\n', &mut line).map_err(|error| fault(file, error.to_string()))?;
        if length == 0 {
            break;
        }
        if length as u64 == LONGEST_LINE {
            return Err(fault(file, format!("line {number} is longer than 256 MiB; one record a line is expected")));
        }
        let record = line.trim_ascii();
        if !record.is_empty() && take(RecordPlace::Line(number), record)?.is_break() {
            break;
        }
    }
    Ok(())
}

struct List<'a, T> {
    take: &'a mut T,
    failed: Option<HarnessError>,
}

impl<'de, T> Visitor<'de> for &mut List<'_, T>
where
    T: FnMut(RecordPlace, &[u8]) -> Result<ControlFlow<()>, HarnessError>,
{
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of records")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut records: A) -> Result<(), A::Error> {
        for number in 1.. {
            let Some(record) = records.next_element::<Box<RawValue>>()? else { return Ok(()) };
            match (self.take)(RecordPlace::Element(number), record.get().as_bytes()) {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => break,
                Err(error) => {
                    self.failed = Some(error);
                    break;
                }
            }
        }
        // The rest is not needed, but a list must be read to its end.
        while records.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
}
