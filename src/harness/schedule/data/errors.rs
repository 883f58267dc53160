//! All errors of a file at once, each with its line.

use std::path::Path;

use crate::harness::HarnessError;

/// How many errors are shown; the rest is counted.
const SHOWN: usize = 20;

/// The errors of a file so far.
pub(in crate::harness) struct DataErrors<'a> {
    file: &'a Path,
    found: Vec<String>,
    unlisted: usize,
}

impl<'a> DataErrors<'a> {
    pub const fn of(file: &'a Path) -> Self {
        Self { file, found: Vec::new(), unlisted: 0 }
    }

    pub fn at(&mut self, line: usize, what: impl std::fmt::Display) {
        self.push_error(format!("line {line}: {what}"));
    }

    pub fn push_error(&mut self, what: String) {
        if self.found.len() < SHOWN {
            self.found.push(what);
        } else {
            self.unlisted += 1;
        }
    }

    /// After a thousand errors the file is of another kind, and reading on is useless.
    pub const fn has_too_many_errors(&self) -> bool {
        self.unlisted > 1_000
    }

    pub fn end(mut self) -> Result<(), HarnessError> {
        if self.found.is_empty() {
            return Ok(());
        }
        if self.unlisted > 0 {
            self.found.push(format!("… and {} more", self.unlisted));
        }
        Err(HarnessError::Data { file: self.file.to_owned(), faults: self.found })
    }
}

/// One error that makes the whole file unusable.
pub(in crate::harness) fn fault(file: &Path, why: impl Into<String>) -> HarnessError {
    HarnessError::Data { file: file.to_owned(), faults: vec![why.into()] }
}
