//! Checks rows and writes them, one at a time.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::columns::Columns;
use super::description::{LengthSpread, SAMPLES_FILE};
use super::error::DatasetError;
use super::row::DatasetRow;
use base::files::Sha256Of;

/// How many errors are reported one by one.
const MOST: usize = 8;

#[derive(Serialize)]
struct Sample<'a> {
    input_ids: &'a [u32],
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_tokens: Option<u32>,
}

/// Writes [`SAMPLES_FILE`], a row at a time.
pub(super) struct SampleWriter {
    path: PathBuf,
    file: BufWriter<File>,
    digest: Sha256Of,
    /// Parts are compared in different ways.
    needs_task: bool,
    samples: u64,
    references: u64,
    /// Least, sum and most.
    tokens: (u64, u64, u64),
    errors: Vec<String>,
    more_errors: u64,
    line: Vec<u8>,
    failed: Option<std::io::Error>,
}

impl SampleWriter {
    pub fn new(out: &Path, columns: &Columns) -> Result<Self, DatasetError> {
        let path = out.join(SAMPLES_FILE);
        let file = File::create(&path).map_err(|source| DatasetError::Write { path: path.clone(), source })?;
        Ok(Self {
            path,
            file: BufWriter::with_capacity(1 << 20, file),
            digest: Sha256Of::default(),
            needs_task: !columns.task.is_empty(),
            samples: 0,
            references: 0,
            tokens: (u64::MAX, 0, 0),
            errors: Vec::new(),
            more_errors: 0,
            line: Vec::new(),
            failed: None,
        })
    }

    pub fn row(&mut self, row: &DatasetRow) {
        let index = self.samples;
        self.samples += 1;
        let ids = match row.ids.as_deref() {
            None => return self.push_error(format!("row {index} has no token ids")),
            Some([]) => return self.push_error(format!("row {index} has an empty list of token ids")),
            Some(ids) => ids,
        };
        if self.needs_task && row.reference.is_some() && row.task.is_none() {
            return self.push_error(format!("row {index} does not say which part of the data set it belongs to"));
        }
        let checked: Result<Vec<u32>, i64> =
            ids.iter().map(|id| i32::try_from(*id).ok().and_then(|id| u32::try_from(id).ok()).ok_or(*id)).collect();
        let ids = match checked {
            Ok(ids) => ids,
            Err(id) => return self.push_error(format!("row {index}: {id} is no token id")),
        };
        let length = ids.len() as u64;
        self.tokens = (self.tokens.0.min(length), self.tokens.1 + length, self.tokens.2.max(length));
        self.references += u64::from(row.reference.is_some());
        let sample = Sample {
            input_ids: &ids,
            reference: row.reference.as_deref(),
            task: row.task.as_deref(),
            id: row.id.as_deref(),
            output_tokens: row.output_tokens,
        };
        self.line.clear();
        serde_json::to_writer(&mut self.line, &sample).expect("it has only text keys");
        self.line.push(b'\n');
        self.digest.update(&self.line);
        if self.failed.is_none() {
            self.failed = self.file.write_all(&self.line).err();
        }
    }

    fn push_error(&mut self, what: String) {
        if self.errors.len() < MOST {
            self.errors.push(what);
        } else {
            self.more_errors += 1;
        }
    }

    /// Samples, those with a reference, tokens of the inputs, and the digest of what was written.
    pub fn end(mut self, columns: &Columns) -> Result<(u64, u64, LengthSpread, String), DatasetError> {
        let written = self.failed.take().map_or_else(|| self.file.flush(), Err);
        written.map_err(|source| DatasetError::Write { path: self.path.clone(), source })?;
        if self.more_errors > 0 {
            self.errors.push(format!("… and {} more", self.more_errors));
        }
        if self.errors.iter().any(|error| error.ends_with("has no token ids")) {
            self.errors.push(format!("token ids are looked for in the columns {}", columns.tokens.join(", ")));
        }
        if self.errors.iter().any(|error| error.ends_with("it belongs to")) {
            self.errors.push(format!("parts are looked for in the columns {}", columns.task.join(", ")));
        }
        if !self.errors.is_empty() {
            return Err(DatasetError::Rows { messages: self.errors });
        }
        let (min, sum, max) = self.tokens;
        let mean = sum as f64 / self.samples.max(1) as f64;
        let spread = LengthSpread { min: min.min(max), mean, max };
        Ok((self.samples, self.references, spread, self.digest.finish()))
    }
}
