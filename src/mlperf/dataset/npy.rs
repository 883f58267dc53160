//! NVIDIA's processed form: a folder with `input_ids_padded.npy` and `input_lens.npy`. It has no references.

use std::path::Path;

use super::error::{NpyRowsError, SampleFileError};
use super::row::{DatasetRow, RowSink};
use harness::{NpyError, NpyIntegers};

/// Rows of padded ids, and the length of each.
pub const FILES: [&str; 2] = ["input_ids_padded.npy", "input_lens.npy"];

/// Gives each row to `sink`, cut to its length.
pub fn read(folder: &Path, sink: &mut RowSink<'_>) -> Result<(), SampleFileError> {
    let [ids_file, lengths_file] = FILES.map(|name| folder.join(name));
    let no_ids = |error: NpyError| SampleFileError::Npy { path: ids_file.clone(), error };
    let no_lengths = |error: NpyError| SampleFileError::Npy { path: lengths_file.clone(), error };
    let mut ids = NpyIntegers::open(&ids_file).map_err(no_ids)?;
    let mut lengths = NpyIntegers::open(&lengths_file).map_err(no_lengths)?;
    let [rows, columns] = ids.shape()[..] else {
        let error = NpyRowsError::Dimensions(ids.shape().to_owned());
        return Err(SampleFileError::NpyRows { path: ids_file, error });
    };
    if lengths.shape().iter().product::<usize>() != rows {
        let shape = lengths.shape().to_owned();
        return Err(SampleFileError::NpyLengths { ids: ids_file, rows, lengths: lengths_file, shape });
    }
    for row in 0..rows {
        let mut tokens = ids.take(columns).map_err(no_ids)?;
        let length = lengths.take(1).map_err(no_lengths)?[0];
        if length < 1 || length > columns as i64 {
            let error = NpyRowsError::RowLength { row, length, columns };
            return Err(SampleFileError::NpyRows { path: lengths_file, error });
        }
        tokens.truncate(length as usize);
        sink(DatasetRow::new(tokens));
    }
    Ok(())
}
