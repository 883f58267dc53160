//! NVIDIA's processed form: a folder with `input_ids_padded.npy` and `input_lens.npy`, whole numbers of four or eight bytes.
//! It has no references.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use super::error::{NpyError, SampleFileError};
use super::row::DatasetRow;
use super::row::RowSink;
use crate::event::open_regular;

/// Rows of padded ids, and the length of each.
pub const FILES: [&str; 2] = ["input_ids_padded.npy", "input_lens.npy"];

/// Gives each row to `sink`, cut to its length. Err: what is wrong.
pub fn read(folder: &Path, sink: &mut RowSink<'_>) -> Result<(), SampleFileError> {
    let (mut ids, mut lengths) = (NpyColumn::open(&folder.join(FILES[0]))?, NpyColumn::open(&folder.join(FILES[1]))?);
    let [rows, columns] = ids.shape[..] else {
        return Err(ids.wrong(NpyError::Dimensions(ids.shape.clone())));
    };
    if lengths.shape.iter().product::<usize>() != rows {
        let NpyColumn { path, shape, .. } = lengths;
        return Err(SampleFileError::NpyLengths { ids: ids.path, rows, lengths: path, shape });
    }
    for row in 0..rows {
        let mut tokens = ids.numbers(columns)?;
        let length = lengths.numbers(1)?[0];
        if length < 1 || length > columns as i64 {
            return Err(lengths.wrong(NpyError::RowLength { row, length, columns }));
        }
        tokens.truncate(length as usize);
        sink(DatasetRow::new(tokens));
    }
    Ok(())
}

struct NpyColumn {
    path: PathBuf,
    reader: BufReader<File>,
    shape: Vec<usize>,
    width: usize,
}

impl NpyColumn {
    fn wrong(&self, error: NpyError) -> SampleFileError {
        SampleFileError::Npy { path: self.path.clone(), error }
    }

    fn open(file: &Path) -> Result<Self, SampleFileError> {
        let path = file.to_owned();
        let (opened, metadata) =
            open_regular(file).map_err(|source| SampleFileError::Io { path: file.to_owned(), source })?;
        let mut reader = BufReader::with_capacity(1 << 20, opened);
        let no = |error| SampleFileError::Npy { path: file.to_owned(), error };
        let mut head = [0; 10];
        reader.read_exact(&mut head).map_err(|_| no(NpyError::NoHead))?;
        if !head.starts_with(b"\x93NUMPY\x01") {
            return Err(no(NpyError::Version));
        }
        let mut text = String::new();
        let length = u64::from(u16::from_le_bytes([head[8], head[9]]));
        (&mut reader).take(length).read_to_string(&mut text).map_err(|_| no(NpyError::HeadText))?;
        let after = |key: &str| text.split_once(key).map(|(_, rest)| rest.trim_start());
        if !after("'fortran_order':").is_some_and(|rest| rest.starts_with("False")) {
            return Err(no(NpyError::ByColumns));
        }
        let width = match after("'descr':").and_then(|rest| rest.get(..5)) {
            Some("'<i4'") => 4,
            Some("'<i8'") => 8,
            _ => return Err(no(NpyError::NumberType)),
        };
        let shape = after("'shape':").and_then(|rest| rest.strip_prefix('(')?.split_once(')'));
        let parts = shape.map_or("", |(shape, _)| shape).split(',').map(str::trim).filter(|part| !part.is_empty());
        let shape: Vec<usize> = parts.map(str::parse).collect::<Result<_, _>>().map_err(|_| no(NpyError::ShapeText))?;
        // Checked here, so that what follows may count on it: no size in the header is larger than the file.
        let needed =
            shape.iter().try_fold(width, |bytes: usize, side| bytes.checked_mul(*side).filter(|bytes| *bytes > 0));
        if needed.is_none_or(|bytes| bytes as u64 > metadata.len().saturating_sub(10 + length)) {
            return Err(no(NpyError::Size));
        }
        Ok(Self { path, reader, shape, width })
    }

    fn numbers(&mut self, count: usize) -> Result<Vec<i64>, SampleFileError> {
        let bytes = count.saturating_mul(self.width);
        // Do not trust the length in a header for the allocation: read as much as there is.
        let mut raw = Vec::new();
        let read = (&mut self.reader).take(bytes as u64).read_to_end(&mut raw);
        read.map_err(|source| SampleFileError::Io { path: self.path.clone(), source })?;
        if raw.len() < bytes {
            return Err(SampleFileError::NpyTruncated { path: self.path.clone() });
        }
        let number = |raw: &[u8]| {
            let narrow = raw.first_chunk::<4>().map_or(0, |raw| i32::from_le_bytes(*raw).into());
            raw.first_chunk::<8>().map_or(narrow, |raw| i64::from_le_bytes(*raw))
        };
        Ok(raw.chunks_exact(self.width).map(number).collect())
    }
}
