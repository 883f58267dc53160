//! NumPy's `.npy`: padded token ids in rows, and lengths. Only whole numbers, only as C lays them out; nothing is executed.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use super::corpus_record::{CorpusRecord, CorpusTurn, MemoryBudget};
use super::errors::{DataErrors, fault};
use super::prompt::PromptPart;
use crate::event::open_regular;
use crate::harness::{HarnessError, PromptFile};

/// Reads rows of ids, each cut to its length.
pub(super) fn read(data: &PromptFile, mut room: MemoryBudget<'_>) -> Result<Vec<CorpusRecord>, HarnessError> {
    let file = data.file.as_path();
    let mut ids = NpyReader::open(file)?;
    let [rows, columns] = ids.shape[..] else {
        return Err(fault(
            file,
            format!("token ids need two dimensions (records × tokens), and it has {:?}", ids.shape),
        ));
    };
    let rows = data.first.map_or(rows, |first| rows.min(first as usize));
    let lengths = data.lengths.as_deref().map(|lengths| column(lengths, rows)).transpose()?;
    let outputs = data.output_lengths.as_deref().map(|lengths| column(lengths, rows)).transpose()?;
    let mut mistakes = DataErrors::of(file);
    let mut entries = Vec::with_capacity(rows);
    for row in 0..rows {
        let mut tokens = ids.numbers(columns)?;
        let length = lengths.as_ref().map_or(columns as i64, |lengths| lengths[row]);
        if length < 1 || length > columns as i64 {
            mistakes.push_error(format!("row {row}: its length is {length}, and rows have {columns} tokens"));
            continue;
        }
        tokens.truncate(length as usize);
        let converted: Result<Vec<i32>, _> =
            tokens.iter().map(|id| i32::try_from(*id).ok().filter(|id| *id >= 0).ok_or(*id)).collect();
        let tokens = match converted {
            Ok(tokens) => tokens,
            Err(id) => {
                mistakes
                    .push_error(format!("row {row}: {id} is no token id (is it padding? then `lengths` is needed)"));
                continue;
            }
        };
        let output_tokens = match outputs.as_ref().map(|outputs| outputs[row]) {
            Some(output) if !(1..=i64::from(u32::MAX)).contains(&output) => {
                mistakes.push_error(format!("row {row}: {output} is no output length"));
                continue;
            }
            output => output.map(|output| output as u32),
        };
        room.take(tokens.len() * 4 + size_of::<CorpusTurn>())?;
        let turn = CorpusTurn {
            tokens: Some(tokens.len() as u32),
            parts: Arc::from([PromptPart::Ids(tokens.into())]),
            output_tokens,
            answer: None,
            pause_ns: None,
            is_whole: true,
        };
        entries.push(CorpusRecord { at_ns: None, turns: vec![turn] });
    }
    mistakes.end()?;
    Ok(entries)
}

/// One number for each of the first `rows` records.
fn column(file: &Path, rows: usize) -> Result<Vec<i64>, HarnessError> {
    let mut array = NpyReader::open(file)?;
    let count: usize = array.shape.iter().product();
    if count < rows {
        return Err(fault(file, format!("it has {count} numbers, and there are {rows} records")));
    }
    array.numbers(rows)
}

struct NpyReader<'a> {
    file: &'a Path,
    reader: BufReader<File>,
    shape: Vec<usize>,
    kind: u8,
    width: usize,
}

impl<'a> NpyReader<'a> {
    fn open(file: &'a Path) -> Result<Self, HarnessError> {
        let (opened, metadata) = open_regular(file).map_err(|error| fault(file, error.to_string()))?;
        let mut reader = BufReader::with_capacity(1 << 20, opened);
        let no = |why: &str| fault(file, format!("it is not a .npy file that can be used: {why}"));
        let mut head = [0u8; 10];
        reader.read_exact(&mut head).map_err(|_| no("it is shorter than its head"))?;
        if !head.starts_with(b"\x93NUMPY") {
            return Err(no("it does not begin as one"));
        }
        // Version 1 has a length of two bytes, later ones of four.
        let length = if head[6] == 1 {
            u32::from(u16::from_le_bytes([head[8], head[9]]))
        } else {
            let mut more = [0u8; 2];
            reader.read_exact(&mut more).map_err(|_| no("it is shorter than its head"))?;
            u32::from_le_bytes([head[8], head[9], more[0], more[1]])
        };
        let mut text = String::new();
        (&mut reader)
            .take(length.min(1 << 16).into())
            .read_to_string(&mut text)
            .map_err(|_| no("its head is no text"))?;
        let word = |key: &str| {
            let (_, rest) = text.split_once(&format!("'{key}':"))?;
            Some(rest.trim_start())
        };
        let order = word("fortran_order").ok_or_else(|| no("its head lacks `fortran_order`"))?;
        if !order.starts_with("False") {
            return Err(no("it is laid out by columns (fortran_order); save it with numpy.ascontiguousarray"));
        }
        let descr = word("descr").and_then(|rest| rest.strip_prefix('\'')?.split('\'').next());
        let descr = descr.ok_or_else(|| no("its head lacks a plain `descr`"))?;
        let (kind, width) = match descr.as_bytes() {
            [b'<' | b'|', kind @ (b'i' | b'u'), width @ (b'1' | b'2' | b'4' | b'8')] => {
                (*kind, usize::from(width - b'0'))
            }
            _ => return Err(no(&format!("its numbers are `{descr}`; whole ones like `<i4` are needed"))),
        };
        let shape = word("shape").and_then(|rest| rest.strip_prefix('(')?.split_once(')'));
        let shape = shape.ok_or_else(|| no("its head lacks `shape`"))?.0.split(',').map(str::trim);
        let shape: Result<Vec<usize>, _> = shape.filter(|part| !part.is_empty()).map(str::parse).collect();
        let shape = shape.map_err(|_| no("its shape is not understood"))?;
        // Checked here, so that what follows may count on it: no size in the header is larger than the file.
        let needed =
            shape.iter().try_fold(width, |bytes: usize, side| bytes.checked_mul(*side).filter(|bytes| *bytes > 0));
        if needed.is_none_or(|bytes| bytes as u64 > metadata.len().saturating_sub(10 + u64::from(length))) {
            return Err(no("its shape needs more data than the file has, or none"));
        }
        Ok(Self { file, reader, shape, kind, width })
    }

    fn numbers(&mut self, count: usize) -> Result<Vec<i64>, HarnessError> {
        let bytes = count.checked_mul(self.width).ok_or_else(|| fault(self.file, "its shape is too large"))?;
        // Not allocated from the size in the header, only as much as the file holds.
        let mut raw = Vec::new();
        let read = (&mut self.reader).take(bytes as u64).read_to_end(&mut raw);
        read.map_err(|error| fault(self.file, error.to_string()))?;
        if raw.len() < bytes {
            return Err(fault(self.file, "it is truncated: its shape needs more data"));
        }
        let number = |raw: &[u8]| {
            let mut wide = [0u8; 8];
            wide[..raw.len()].copy_from_slice(raw);
            let negative = self.kind == b'i' && raw.last().is_some_and(|byte| byte & 0x80 != 0);
            if negative {
                wide[raw.len()..].fill(0xff);
            }
            i64::from_le_bytes(wide)
        };
        Ok(raw.chunks_exact(self.width).map(number).collect())
    }
}
