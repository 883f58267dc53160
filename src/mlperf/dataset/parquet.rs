//! Parquet, as pandas writes it: only the columns that are needed are read.

use std::path::Path;
use std::sync::Arc;

use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, ListAccessor};
use parquet::schema::types::Type;

use super::error::{ParquetFileError, SampleFileError};
use super::row::{Columns, DatasetRow, RowSink, RowValue};
use base::diag::catch_panic;
use base::files::open_regular;

/// Gives each row to `sink`. Err: what is wrong.
pub fn read(file: &Path, columns: &Columns, sink: &mut RowSink<'_>) -> Result<(), SampleFileError> {
    rows(file, columns, sink).map_err(|error| SampleFileError::Parquet { path: file.to_owned(), error })
}

/// The library panics at some files that are damaged.
fn rows(file: &Path, columns: &Columns, sink: &mut RowSink<'_>) -> Result<(), ParquetFileError> {
    let (file, _) = open_regular(file).map_err(ParquetError::from)?;
    let reader = catch_panic(|| SerializedFileReader::new(file))??;
    let schema = reader.metadata().file_metadata().schema();
    let wanted_fields: Vec<Arc<Type>> =
        schema.get_fields().iter().filter(|field| columns.slot(field.name()).is_some()).cloned().collect();
    let wanted = Type::group_type_builder(schema.name()).with_fields(wanted_fields).build()?;
    let mut records = catch_panic(|| reader.get_row_iter(Some(wanted)))??;
    while let Some(read) = catch_panic(|| records.next().transpose())?? {
        let mut row = DatasetRow::default();
        for (name, field) in read.get_column_iter() {
            let unfit = || ParquetFileError::Value { column: name.clone(), value: field.to_string() };
            let value = value(field).ok_or_else(unfit)?;
            row.take(columns, name, value)?;
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
