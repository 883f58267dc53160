//! Parquet, as pandas writes it: only the columns that are needed are read.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, ListAccessor};
use parquet::schema::types::Type;

use super::row::{Columns, DatasetRow, RowSink, RowValue};
use base::diag::{ErrorText, catch_panic, in_file};
use base::files::open_regular;

/// Gives each row to `sink`. Err: what is wrong.
pub fn read(file: &Path, columns: &Columns, sink: &mut RowSink<'_>) -> Result<(), ErrorText> {
    rows(file, columns, sink).map_err(in_file(file))
}

/// The library panics at some files that are damaged.
fn caught<T>(work: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ErrorText> {
    catch_panic(work).map_err(of_value)?.map_err(of_library)
}

fn of_value(problem: impl Display) -> ErrorText {
    ErrorText::new(format_args!("Parquet error: {problem}"))
}

/// The reader has one compression built in. Its message for another one is all that it has.
fn of_library(error: impl Display) -> ErrorText {
    let text = error.to_string();
    let is_compression = text.contains("isabled feature at compile time") || text.contains("codec");
    ErrorText::new(if is_compression { text + "; write it with compression=\"snappy\"" } else { text })
}

fn rows(file: &Path, columns: &Columns, sink: &mut RowSink<'_>) -> Result<(), ErrorText> {
    let (file, _) = open_regular(file).map_err(|error| of_library(ParquetError::from(error)))?;
    let reader = caught(|| SerializedFileReader::new(file))?;
    let schema = reader.metadata().file_metadata().schema();
    let wanted_fields: Vec<Arc<Type>> =
        schema.get_fields().iter().filter(|field| columns.slot(field.name()).is_some()).cloned().collect();
    let wanted = Type::group_type_builder(schema.name()).with_fields(wanted_fields).build().map_err(of_library)?;
    let mut records = caught(|| reader.get_row_iter(Some(wanted)))?;
    while let Some(read) = caught(|| records.next().transpose())? {
        let mut row = DatasetRow::default();
        for (name, field) in read.get_column_iter() {
            let value = value(field).ok_or_else(|| of_value(format_args!("`{name}` holds {field}")))?;
            row.take(columns, name, value).map_err(of_value)?;
        }
        sink(row);
    }
    Ok(())
}

/// None: nothing that a data set holds.
fn value(field: &Field) -> Option<RowValue> {
    Some(match field {
        Field::Null => RowValue::Nothing,
        Field::Str(text) => RowValue::Text(text.clone()),
        Field::Bytes(bytes) => RowValue::Text(bytes.as_utf8().ok()?.to_owned()),
        Field::ListInternal(list) => {
            let whole = |at| list.get_long(at).or_else(|_| list.get_int(at).map(i64::from)).ok();
            RowValue::Ids((0..list.len()).map(whole).collect::<Option<_>>()?)
        }
        Field::Group(_) | Field::MapInternal(_) => return None,
        number => RowValue::Text(number.to_string()),
    })
}
