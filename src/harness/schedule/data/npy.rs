//! NumPy's `.npy` with whole numbers, laid out by rows. Nothing in it is executed; format: numpy.lib.format, versions 1
//! to 3.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use super::corpus::{CorpusRecord, CorpusTurn, MemoryBudget};
use super::jsonl::{DataErrors, fault};
use super::row::PromptPart;
use crate::{HarnessError, PromptFile};
use base::diag::ErrorText;
use base::files::open_regular;

/// An open `.npy` file whose header fits its size.
#[derive(Debug)]
pub struct NpyIntegers {
    reader: BufReader<File>,
    shape: Vec<usize>,
    is_signed: bool,
    /// Bytes of a number.
    width: usize,
}

impl NpyIntegers {
    /// Reads the header, and compares the size that it announces with the file's.
    pub fn open(path: &Path) -> Result<Self, ErrorText> {
        let (opened, metadata) = open_regular(path).map_err(ErrorText::new)?;
        let mut reader = BufReader::with_capacity(1 << 20, opened);
        let mut start = [0; 10];
        let too_short = |_| ErrorText::new("it is not a .npy file: it is shorter than a header");
        reader.read_exact(&mut start).map_err(too_short)?;
        if !start.starts_with(b"\x93NUMPY") {
            return Err(ErrorText::new("it is not a .npy file: it does not start with \\x93NUMPY"));
        }
        // Version 1 has a length of two bytes, later ones of four.
        let (length, before) = if start[6] == 1 {
            (u64::from(u16::from_le_bytes([start[8], start[9]])), 10)
        } else {
            let mut high = [0; 2];
            reader.read_exact(&mut high).map_err(too_short)?;
            (u64::from(u32::from_le_bytes([start[8], start[9], high[0], high[1]])), 12)
        };
        let mut header = String::new();
        let text = (&mut reader).take(length.min(1 << 16)).read_to_string(&mut header);
        text.map_err(|_| ErrorText::new("its header is not text"))?;
        let lacks = |key: &str| ErrorText::new(format_args!("its header lacks a plain `{key}`"));
        let value = |key: &str| {
            let actual = header.split_once(&format!("'{key}':")).map(|(_, rest)| rest.trim_start());
            actual.ok_or_else(|| lacks(key))
        };
        if !value("fortran_order")?.starts_with("False") {
            let message = "it is laid out by columns (fortran_order); save it with numpy.ascontiguousarray";
            return Err(ErrorText::new(message));
        }
        let descr = value("descr")?.strip_prefix('\'').and_then(|rest| rest.split('\'').next());
        let descr = descr.ok_or_else(|| lacks("descr"))?;
        let [b'<' | b'|', kind @ (b'i' | b'u'), width @ (b'1' | b'2' | b'4' | b'8')] = descr.as_bytes() else {
            let message = format_args!("its numbers are `{descr}`, not integers such as `<i4`");
            return Err(ErrorText::new(message));
        };
        let (is_signed, width) = (*kind == b'i', usize::from(width - b'0'));
        let text = value("shape")?.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        let text = text.ok_or_else(|| lacks("shape"))?.0;
        let lengths = text.split(',').map(str::trim).filter(|length| !length.is_empty());
        let shape: Vec<usize> = lengths
            .map(str::parse)
            .collect::<Result<_, _>>()
            .map_err(|_| ErrorText::new(format_args!("its shape is `({text})`, which is not a list of lengths")))?;
        // Checked here, so that what follows may count on it: no size in the header is larger than the file.
        let needed =
            shape.iter().try_fold(width, |bytes: usize, side| bytes.checked_mul(*side).filter(|bytes| *bytes > 0));
        let held = metadata.len().saturating_sub(before + length);
        if needed.is_none_or(|bytes| bytes as u64 > held) {
            let message = format_args!("its shape is {shape:?}, and the file does not hold that many numbers");
            return Err(ErrorText::new(message));
        }
        Ok(Self { reader, shape, is_signed, width })
    }

    /// The length of each dimension, the outer one first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The next `count` numbers, row after row.
    pub fn take(&mut self, count: usize) -> Result<Vec<i64>, ErrorText> {
        let truncated = || ErrorText::new("it is truncated: its shape needs more data");
        let bytes = count.checked_mul(self.width).ok_or_else(truncated)?;
        // Not allocated from the size in the header, only as much as the file holds.
        let mut raw = Vec::new();
        Read::take(&mut self.reader, bytes as u64).read_to_end(&mut raw).map_err(ErrorText::new)?;
        if raw.len() < bytes {
            return Err(truncated());
        }
        let number = |raw: &[u8]| {
            let mut wide = [0; 8];
            wide[..raw.len()].copy_from_slice(raw);
            let is_negative = self.is_signed && raw.last().is_some_and(|byte| byte & 0x80 != 0);
            if is_negative {
                wide[raw.len()..].fill(0xff);
            }
            i64::from_le_bytes(wide)
        };
        Ok(raw.chunks_exact(self.width).map(number).collect())
    }
}

// Padded token ids in rows of a `.npy` file, and the length of each row in another.

/// Reads rows of ids, each cut to its length.
pub(super) fn read(data: &PromptFile, mut room: MemoryBudget<'_>) -> Result<Vec<CorpusRecord>, HarnessError> {
    let file = data.file.as_path();
    let wrong = |error: ErrorText| fault(file, error.message);
    let mut ids = NpyIntegers::open(file).map_err(wrong)?;
    let [rows, columns] = ids.shape()[..] else {
        return Err(fault(
            file,
            format!("token ids need two dimensions (records × tokens), and it has {:?}", ids.shape()),
        ));
    };
    let rows = data.first.map_or(rows, |first| rows.min(first as usize));
    let lengths = data.lengths.as_deref().map(|lengths| column(lengths, rows)).transpose()?;
    let outputs = data.output_lengths.as_deref().map(|lengths| column(lengths, rows)).transpose()?;
    let mut errors = DataErrors::new(file);
    let mut entries = Vec::with_capacity(rows);
    for row in 0..rows {
        let mut tokens = ids.take(columns).map_err(wrong)?;
        let length = lengths.as_ref().map_or(columns as i64, |lengths| lengths[row]);
        if length < 1 || length > columns as i64 {
            errors.push_error(format!("row {row}: its length is {length}, and rows have {columns} tokens"));
            continue;
        }
        tokens.truncate(length as usize);
        let converted: Result<Vec<i32>, _> =
            tokens.iter().map(|id| i32::try_from(*id).ok().filter(|id| *id >= 0).ok_or(*id)).collect();
        let tokens = match converted {
            Ok(tokens) => tokens,
            Err(id) => {
                errors
                    .push_error(format!("row {row}: {id} is not a token id (is it padding? then `lengths` is needed)"));
                continue;
            }
        };
        let output_tokens = match outputs.as_ref().map(|outputs| outputs[row]) {
            Some(output) if !(1..=i64::from(u32::MAX)).contains(&output) => {
                errors.push_error(format!("row {row}: {output} is not an output length"));
                continue;
            }
            output => output.map(|output| output as u32),
        };
        room.take(tokens.len() * 4 + size_of::<CorpusTurn>())?;
        let turn = CorpusTurn {
            tokens: Some(tokens.len() as u32),
            parts: Arc::from([PromptPart::Ids(tokens.into())]),
            output_tokens,
            is_whole: true,
            ..CorpusTurn::default()
        };
        entries.push(CorpusRecord { turns: vec![turn], ..CorpusRecord::default() });
    }
    errors.end()?;
    Ok(entries)
}

/// One number for each of the first `rows` records.
fn column(file: &Path, rows: usize) -> Result<Vec<i64>, HarnessError> {
    let wrong = |error: ErrorText| fault(file, error.message);
    let mut array = NpyIntegers::open(file).map_err(wrong)?;
    let count: usize = array.shape().iter().product();
    if count < rows {
        return Err(fault(file, format!("it has {count} numbers, and there are {rows} records")));
    }
    array.take(rows).map_err(wrong)
}
