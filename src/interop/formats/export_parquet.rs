//! `requests.parquet`, one row for each issued request, and `chunks.parquet`, one for each chunk when they were kept.
//!
//! [`COLUMNS`] is the schema of the first; its units and meanings go into the file itself.

use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use super::export::{Exported, identity_entries};
use super::request_columns::{COLUMNS, Column, ColumnSource};
use crate::metrics::MeasuredRun;
use base::diag::ErrorText;
use harness::RequestRecord;

/// Rows in one group.
const GROUP: usize = 65_536;

pub(super) fn write(
    measured_run: &MeasuredRun,
    records: &[RequestRecord],
    out: &mut Exported,
) -> Result<(), ErrorText> {
    out.file("requests.parquet", requests(measured_run, records).map_err(ErrorText::new)?);
    if records.iter().any(|record| !record.timeline.is_empty()) {
        out.file("chunks.parquet", chunks(measured_run, records).map_err(ErrorText::new)?);
    } else {
        out.without("chunks.parquet: needs the time of every chunk: `timelines: true` in the bench stage keeps it");
    }
    Ok(())
}

fn requests(measured_run: &MeasuredRun, records: &[RequestRecord]) -> Result<Vec<u8>, ParquetError> {
    let field = |column: &Column| {
        let repetition = if column.can_be_null { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let builder = match column.source {
            ColumnSource::Number(_) => Type::primitive_type_builder(column.name, Physical::INT64),
            ColumnSource::Text(_) => Type::primitive_type_builder(column.name, Physical::BYTE_ARRAY)
                .with_logical_type(Some(LogicalType::String)),
        };
        Ok(Arc::new(builder.with_repetition(repetition).build()?))
    };
    let fields = COLUMNS.iter().map(field).collect::<Result<Vec<_>, ParquetError>>()?;
    let about = COLUMNS.iter().map(|column| {
        let unit = if column.unit.is_empty() { String::new() } else { format!(" [{}]", column.unit) };
        (format!("regatta.{}", column.name), format!("{}{unit}", column.about))
    });
    let mut writer = writer("request", fields, about.chain(run(measured_run)))?;
    for group in records.chunks(GROUP) {
        let mut rows = writer.next_row_group()?;
        for column in &COLUMNS {
            let Some(mut out) = rows.next_column()? else { break };
            match column.source {
                ColumnSource::Number(read) => {
                    let (values, levels) = split(group.iter().map(read));
                    out.typed::<Int64Type>().write_batch(&values, levels_of(column, &levels), None)?;
                }
                ColumnSource::Text(read) => {
                    let texts = group.iter().map(|record| read(record).map(|text| ByteArray::from(text.into_bytes())));
                    let (values, levels) = split(texts);
                    out.typed::<ByteArrayType>().write_batch(&values, levels_of(column, &levels), None)?;
                }
            }
            out.close()?;
        }
        rows.close()?;
    }
    writer.into_inner()
}

fn levels_of<'a>(column: &Column, levels: &'a [i16]) -> Option<&'a [i16]> {
    column.can_be_null.then_some(levels)
}

/// The values that are not null, and the definition level of each row.
fn split<T>(values: impl Iterator<Item = Option<T>>) -> (Vec<T>, Vec<i16>) {
    let (mut there, mut levels) = (Vec::new(), Vec::new());
    for value in values {
        levels.push(i16::from(value.is_some()));
        there.extend(value);
    }
    (there, levels)
}

fn chunks(measured_run: &MeasuredRun, records: &[RequestRecord]) -> Result<Vec<u8>, ParquetError> {
    let field = |name: &str, repetition| {
        let builder = Type::primitive_type_builder(name, Physical::INT64).with_repetition(repetition);
        Ok::<_, ParquetError>(Arc::new(builder.build()?))
    };
    let fields = vec![
        field("index", Repetition::REQUIRED)?,
        field("t_read", Repetition::REQUIRED)?,
        field("tokens", Repetition::OPTIONAL)?,
    ];
    let about = [
        ("regatta.index", "the request, as in requests.parquet"),
        ("regatta.t_read", "socket read of the chunk, from the schedule's start [ns]"),
        ("regatta.tokens", "tokens in the chunk; null where that is not known"),
    ];
    let mut writer = writer(
        "chunk",
        fields,
        about.map(|(key, text)| (key.to_owned(), text.to_owned())).into_iter().chain(run(measured_run)),
    )?;
    let chunks: Vec<(i64, i64, Option<i64>)> = records
        .iter()
        .flat_map(|record| {
            let tokens = |n: u32| (!record.chunk_tokens_unknown).then_some(i64::from(n));
            record.timeline.iter().map(move |(at, n)| (record.index as i64, *at as i64, tokens(*n)))
        })
        .collect();
    for group in chunks.chunks(GROUP) {
        let mut rows = writer.next_row_group()?;
        let (tokens, levels) = split(group.iter().map(|row| row.2));
        let columns: [(Vec<i64>, Option<&[i16]>); 3] = [
            (group.iter().map(|row| row.0).collect(), None),
            (group.iter().map(|row| row.1).collect(), None),
            (tokens, Some(&levels)),
        ];
        for (values, levels) in columns {
            let Some(mut out) = rows.next_column()? else { break };
            out.typed::<Int64Type>().write_batch(&values, levels, None)?;
            out.close()?;
        }
        rows.close()?;
    }
    writer.into_inner()
}

/// The verdict and the identity, as key-value metadata of the file.
fn run(measured_run: &MeasuredRun) -> impl Iterator<Item = (String, String)> {
    identity_entries(measured_run).into_iter().map(|(name, value)| (format!("regatta:{name}"), value))
}

fn writer(
    name: &str,
    fields: Vec<Arc<Type>>,
    about: impl IntoIterator<Item = (String, String)>,
) -> Result<SerializedFileWriter<Vec<u8>>, ParquetError> {
    let schema = Type::group_type_builder(name).with_fields(fields).build()?;
    let about = about.into_iter().map(|(key, text)| KeyValue::new(key, text)).collect();
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("regatta ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(about))
        .build();
    SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))
}
