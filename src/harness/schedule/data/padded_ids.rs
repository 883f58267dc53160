//! Padded token ids in rows of a `.npy` file, and the length of each row in another.

use std::path::Path;
use std::sync::Arc;

use super::corpus_record::{CorpusRecord, CorpusTurn, MemoryBudget};
use super::errors::{DataErrors, fault};
use super::npy_integers::{NpyError, NpyIntegers};
use super::prompt::PromptPart;
use crate::{HarnessError, PromptFile};

/// Reads rows of ids, each cut to its length.
pub(super) fn read(data: &PromptFile, mut room: MemoryBudget<'_>) -> Result<Vec<CorpusRecord>, HarnessError> {
    let file = data.file.as_path();
    let wrong = |error: NpyError| fault(file, error.to_string());
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
    let mut errors = DataErrors::of(file);
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
                errors.push_error(format!("row {row}: {id} is no token id (is it padding? then `lengths` is needed)"));
                continue;
            }
        };
        let output_tokens = match outputs.as_ref().map(|outputs| outputs[row]) {
            Some(output) if !(1..=i64::from(u32::MAX)).contains(&output) => {
                errors.push_error(format!("row {row}: {output} is no output length"));
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
            at_ns: None,
            is_whole: true,
        };
        entries.push(CorpusRecord { turns: vec![turn], ..CorpusRecord::default() });
    }
    errors.end()?;
    Ok(entries)
}

/// One number for each of the first `rows` records.
fn column(file: &Path, rows: usize) -> Result<Vec<i64>, HarnessError> {
    let wrong = |error: NpyError| fault(file, error.to_string());
    let mut array = NpyIntegers::open(file).map_err(wrong)?;
    let count: usize = array.shape().iter().product();
    if count < rows {
        return Err(fault(file, format!("it has {count} numbers, and there are {rows} records")));
    }
    array.take(rows).map_err(wrong)
}
