//! `requests.parquet`, one row for each issued request, and `chunks.parquet`, one for each chunk when they were kept.
//!
//! [`COLUMNS`] is the schema of the first: names, types, units and meanings, which also go into the file itself.

use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use serde::Serialize;
use serde_json::{Value, json};

use super::exported::Exported;
use super::identity;
use crate::harness::{RequestEnd, RequestRecord};
use crate::interop::metrics::MeasuredRun;

/// Rows in one group.
const GROUP: usize = 65_536;

/// One column of `requests.parquet`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Column {
    pub name: &'static str,
    /// `int64` or `string`.
    pub kind: &'static str,
    pub unit: &'static str,
    pub can_be_null: bool,
    pub about: &'static str,
    #[serde(skip)]
    of: ColumnSource,
}

#[derive(Clone, Copy, Debug)]
enum ColumnSource {
    Number(fn(&RequestRecord) -> Option<i64>),
    Text(fn(&RequestRecord) -> Option<String>),
}

const fn number(
    name: &'static str,
    unit: &'static str,
    about: &'static str,
    of: fn(&RequestRecord) -> Option<i64>,
) -> Column {
    Column { name, kind: "int64", unit, can_be_null: false, about, of: ColumnSource::Number(of) }
}

const fn text(name: &'static str, about: &'static str, of: fn(&RequestRecord) -> Option<String>) -> Column {
    Column { name, kind: "string", unit: "", can_be_null: true, about, of: ColumnSource::Text(of) }
}

const fn or_null(column: Column) -> Column {
    Column { can_be_null: true, ..column }
}

pub const COLUMNS: [Column; 17] = [
    number("index", "", "place on the schedule", |one| Some(one.index as i64)),
    number("endpoint", "", "which of requested.endpoints, from 0", |one| Some(i64::from(one.endpoint))),
    number("input_tokens", "tokens", "prompt", |one| Some(i64::from(one.input_tokens))),
    number("requested_tokens", "tokens", "requested output", |one| Some(i64::from(one.requested_tokens))),
    number("tokens", "tokens", "output received", |one| Some(i64::from(one.tokens))),
    or_null(number("first_tokens", "tokens", "in the first chunk that had any; null where that is not known", |one| {
        one.known_first_tokens().map(i64::from)
    })),
    number("chunks", "", "chunks with at least one token", |one| Some(i64::from(one.chunks))),
    number("final_marker", "", "1 when the end of the answer was marked", |one| Some(i64::from(one.final_marker))),
    number("t_sched", "ns", "intended arrival, from the schedule's start", |one| Some(one.t_sched as i64)),
    number("t_issue", "ns", "handed to its connection", |one| Some(one.t_issue as i64)),
    or_null(number("t_first", "ns", "socket read of the first chunk with a token", |one| {
        one.t_first.map(|at| at as i64)
    })),
    or_null(number("t_last", "ns", "socket read of the last chunk with a token", |one| one.t_last.map(|at| at as i64))),
    number("t_end", "ns", "end of the stream, or of our patience", |one| Some(one.t_end as i64)),
    number("max_gap", "ns", "largest gap between chunks", |one| Some(one.max_gap as i64)),
    Column { can_be_null: false, ..text("ended", "ok, failed, or how the client ended it", |one| Some(ended(one))) },
    text("failure_class", "why it failed, as result.json counts it", |one| match &one.ended {
        RequestEnd::Failed { class, .. } => Some(class.as_str().to_owned()),
        _ => None,
    }),
    text("failure", "error message of the server or of the connection", |one| match &one.ended {
        RequestEnd::Failed { why, .. } => Some(why.clone()),
        _ => None,
    }),
];

fn ended(record: &RequestRecord) -> String {
    match serde_json::to_value(&record.ended) {
        Ok(Value::String(word)) => word,
        _ => "failed".to_owned(),
    }
}

/// The columns as a document.
pub fn schema() -> Value {
    json!({
        "file": "requests.parquet",
        "about": "One row for each issued request; arrivals that were never sent have none.",
        "columns": COLUMNS,
    })
}

pub(super) fn write(
    measured_run: &MeasuredRun,
    records: &[RequestRecord],
    out: &mut Exported,
) -> Result<(), ParquetError> {
    out.file("requests.parquet", requests(measured_run, records)?);
    if records.iter().any(|record| !record.timeline.is_empty()) {
        out.file("chunks.parquet", chunks(measured_run, records)?);
    } else {
        out.without("chunks.parquet: needs the time of every chunk: `timelines: true` in the bench stage keeps it");
    }
    Ok(())
}

fn requests(measured_run: &MeasuredRun, records: &[RequestRecord]) -> Result<Vec<u8>, ParquetError> {
    let field = |column: &Column| {
        let repetition = if column.can_be_null { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let builder = match column.of {
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
            match column.of {
                ColumnSource::Number(of) => {
                    let (values, levels) = split(group.iter().map(of));
                    out.typed::<Int64Type>().write_batch(&values, column.levels(&levels), None)?;
                }
                ColumnSource::Text(of) => {
                    let texts = group.iter().map(|one| of(one).map(|text| ByteArray::from(text.into_bytes())));
                    let (values, levels) = split(texts);
                    out.typed::<ByteArrayType>().write_batch(&values, column.levels(&levels), None)?;
                }
            }
            out.close()?;
        }
        rows.close()?;
    }
    writer.into_inner()
}

impl Column {
    fn levels<'a>(&self, levels: &'a [i16]) -> Option<&'a [i16]> {
        self.can_be_null.then_some(levels)
    }
}

/// Values that are there, and for each place whether it has one.
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
    let all: Vec<(i64, i64, Option<i64>)> = records
        .iter()
        .flat_map(|one| {
            let tokens = |n: u32| (!one.chunk_tokens_unknown).then_some(i64::from(n));
            one.timeline.iter().map(move |(at, n)| (one.index as i64, *at as i64, tokens(*n)))
        })
        .collect();
    for group in all.chunks(GROUP) {
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
    identity::entries(measured_run).into_iter().map(|(name, value)| (format!("regatta:{name}"), value))
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
