//! All errors of a file at once, each with its line.

use std::fmt;
use std::path::Path;

use crate::HarnessError;

/// Where a record is in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordPlace {
    /// From 1.
    Line(usize),
    /// An element of a list, from 1.
    Element(usize),
    /// Of the file of perf_analyzer's `--input-data`, from 1.
    Entry(usize),
}

impl fmt::Display for RecordPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(number) => write!(f, "line {number}"),
            Self::Element(number) => write!(f, "record {number}"),
            Self::Entry(number) => write!(f, "entry {number}"),
        }
    }
}

/// How many errors are shown; the rest is counted.
const SHOWN: usize = 20;

/// The errors of a file so far.
pub(crate) struct DataErrors<'a> {
    file: &'a Path,
    found: Vec<String>,
    unlisted: usize,
}

impl<'a> DataErrors<'a> {
    pub const fn of(file: &'a Path) -> Self {
        Self { file, found: Vec::new(), unlisted: 0 }
    }

    pub fn at(&mut self, place: RecordPlace, what: impl fmt::Display) {
        self.push_error(format!("{place}: {what}"));
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

    pub fn end(self) -> Result<(), HarnessError> {
        self.end_after(Vec::new())
    }

    /// With these in front, which are few.
    pub fn end_after(mut self, mut faults: Vec<String>) -> Result<(), HarnessError> {
        faults.append(&mut self.found);
        if faults.is_empty() {
            return Ok(());
        }
        if self.unlisted > 0 {
            faults.push(format!("… and {} more", self.unlisted));
        }
        Err(HarnessError::Data { file: self.file.to_owned(), faults })
    }
}

/// One error that makes the whole file unusable.
pub(crate) fn fault(file: &Path, why: impl Into<String>) -> HarnessError {
    HarnessError::Data { file: file.to_owned(), faults: vec![why.into()] }
}
