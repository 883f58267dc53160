//! The schema of `requests.parquet`: names, types, units and meanings.

use serde::Serialize;
use serde_json::{Value, json};

use harness::{RequestEnd, RequestRecord};

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
    #[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "what writes them is left out"))]
    pub(super) source: ColumnSource,
}

/// How a column is read from a request.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "what writes them is left out"))]
pub(super) enum ColumnSource {
    Number(fn(&RequestRecord) -> Option<i64>),
    Text(fn(&RequestRecord) -> Option<String>),
}

const fn number(
    name: &'static str,
    unit: &'static str,
    about: &'static str,
    read: fn(&RequestRecord) -> Option<i64>,
) -> Column {
    Column { name, kind: "int64", unit, can_be_null: false, about, source: ColumnSource::Number(read) }
}

const fn text(name: &'static str, about: &'static str, read: fn(&RequestRecord) -> Option<String>) -> Column {
    Column { name, kind: "string", unit: "", can_be_null: true, about, source: ColumnSource::Text(read) }
}

const fn or_null(column: Column) -> Column {
    Column { can_be_null: true, ..column }
}

pub const COLUMNS: [Column; 17] = [
    number("index", "", "place on the schedule", |record| Some(record.index as i64)),
    number("endpoint", "", "which of requested.endpoints, from 0", |record| Some(i64::from(record.endpoint))),
    number("input_tokens", "tokens", "prompt", |record| Some(i64::from(record.input_tokens))),
    number("requested_tokens", "tokens", "requested output", |record| Some(i64::from(record.requested_tokens))),
    number("tokens", "tokens", "output received", |record| Some(i64::from(record.tokens))),
    or_null(number(
        "first_tokens",
        "tokens",
        "in the first chunk that had any; null where that is not known",
        |record| record.known_first_tokens().map(i64::from),
    )),
    number("chunks", "", "chunks with at least one token", |record| Some(i64::from(record.chunks))),
    number("final_marker", "", "1 when the end of the answer was marked", |record| {
        Some(i64::from(record.final_marker))
    }),
    number("t_sched", "ns", "intended arrival, from the schedule's start", |record| Some(record.t_sched as i64)),
    number("t_issue", "ns", "handed to its connection", |record| Some(record.t_issue as i64)),
    or_null(number("t_first", "ns", "socket read of the first chunk with a token", |record| {
        record.t_first.map(|at| at as i64)
    })),
    or_null(number("t_last", "ns", "socket read of the last chunk with a token", |record| {
        record.t_last.map(|at| at as i64)
    })),
    number("t_end", "ns", "end of the stream, or of the wait for it", |record| Some(record.t_end as i64)),
    number("max_gap", "ns", "largest gap between chunks", |record| Some(record.max_gap as i64)),
    Column {
        can_be_null: false,
        ..text("ended", "ok, failed, or how the client ended it", |record| Some(ended(record)))
    },
    text("failure_class", "why it failed, as result.json counts it", |record| match &record.ended {
        RequestEnd::Failed { class, .. } => Some(class.as_str().to_owned()),
        _ => None,
    }),
    text("failure", "error message of the server or of the connection", |record| match &record.ended {
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
