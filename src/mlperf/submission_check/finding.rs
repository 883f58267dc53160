//! The findings of the submission check: what, where, why, and what to do.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::checks::SubmissionCheck;
use crate::SubmissionLayout;
use base::files::is_absence;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingWeight {
    /// MLCommons would not accept it: the round's own checker refuses it, or the rules do and no published result has it.
    Refused,
    /// MLCommons would accept it; a reviewer may object.
    Review,
}

impl FindingWeight {
    /// Of what the official checkers until v5.1 refuse, and those since v6.0 no longer look at.
    pub(super) const fn of_older_checker(layout: SubmissionLayout) -> Self {
        match layout {
            SubmissionLayout::Split => Self::Refused,
            SubmissionLayout::Single => Self::Review,
        }
    }

    /// Of what the official checkers refuse since v6.0, and those until v5.1 let pass.
    pub(super) const fn of_newer_checker(layout: SubmissionLayout) -> Self {
        match layout {
            SubmissionLayout::Split => Self::Review,
            SubmissionLayout::Single => Self::Refused,
        }
    }
}

/// One thing that is wrong with a submission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmissionFinding {
    pub weight: FindingWeight,
    pub check: SubmissionCheck,
    /// The file or folder, below the submission.
    pub place: String,
    pub what: String,
    /// The rule.
    pub why: String,
    /// What to do.
    pub fix: String,
}

/// Collects findings about places below one folder.
#[derive(Debug)]
pub(super) struct SubmissionFindings<'a> {
    root: &'a Path,
    pub all: Vec<SubmissionFinding>,
}

impl<'a> SubmissionFindings<'a> {
    pub(super) const fn new(root: &'a Path) -> Self {
        Self { root, all: Vec::new() }
    }

    pub(super) fn refuse(
        &mut self,
        check: SubmissionCheck,
        place: &Path,
        what: impl Into<String>,
        why: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.find(FindingWeight::Refused, check, place, what, why, fix);
    }

    pub(super) fn review(
        &mut self,
        check: SubmissionCheck,
        place: &Path,
        what: impl Into<String>,
        why: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.find(FindingWeight::Review, check, place, what, why, fix);
    }

    /// A file that is missing, or that cannot be read.
    pub(super) fn refuse_unread(&mut self, place: &Path, error: &io::Error, why: &str, fix: &str) {
        if is_absence(error) {
            self.refuse(SubmissionCheck::MissingFile, place, "it is missing", why, fix);
        } else {
            self.refuse(SubmissionCheck::UnreadableFile, place, format!("it cannot be read: {error}"), why, fix);
        }
    }

    /// One or the other, where the weight depends on the round or on the place.
    pub(super) fn find(
        &mut self,
        weight: FindingWeight,
        check: SubmissionCheck,
        place: &Path,
        what: impl Into<String>,
        why: impl Into<String>,
        fix: impl Into<String>,
    ) {
        let place = place.strip_prefix(self.root).unwrap_or(place).display().to_string();
        let place = if place.is_empty() { ".".to_owned() } else { place };
        let (what, why, fix) = (what.into(), why.into(), fix.into());
        self.all.push(SubmissionFinding { weight, check, place, what, why, fix });
    }
}
