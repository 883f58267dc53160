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
    pub(super) of: ColumnSource,
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
