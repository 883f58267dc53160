//! What is to be assembled, and why it was not.

use std::io;
use std::path::{Path, PathBuf};

use rules::Round;

/// One result of another harness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignResult {
    /// The system's description, `systems/<system>.json` of a submission; it names submitter and division, too.
    pub system: PathBuf,
    pub benchmark: String,
    /// `Offline`.
    pub scenario: String,
    /// With `performance/`, `accuracy/` and a folder for each audit test, `user.conf` and `measurements.json`.
    pub folder: PathBuf,
}

/// What becomes one submission.
#[derive(Clone, Debug, Default)]
pub struct AssembleRequest {
    /// The round; None: that of the parts.
    pub round: Option<Round>,
    /// Folders with `closed/`, `open/` or `network/` in them, or projects whose last run made one.
    pub packages: Vec<PathBuf>,
    /// Results of other harnesses.
    pub logs: Vec<ForeignResult>,
    /// In place of the parts' own texts: calibration, bandwidth, licenses.
    pub documentation: Option<PathBuf>,
    /// Each result for 99.9 % of the accuracy is one for 99 %, too, where the round has both.
    pub copy_to_99: bool,
    /// Rehearsals may be in it. The submission check refuses the whole then.
    pub rehearse: bool,
}

/// Why there is no submission.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    #[error("{}: there is no closed/, open/ or network/ in it, and no latest/package", .0.display())]
    NoPackage(PathBuf),
    #[error("{}: its round is unknown", .0.display())]
    NoRound(PathBuf),
    #[error("{} is of {one}, and {} of {other}", first.display(), second.display())]
    Rounds { first: PathBuf, one: String, second: PathBuf, other: String },
    #[error("{}: it is not empty", .0.display())]
    NotEmpty(PathBuf),
    /// Everything that the parts disagree about, or lack.
    #[error("{}", .0.join("\n"))]
    Parts(Vec<String>),
    #[error("{}: {source}", path.display())]
    Json { path: PathBuf, source: serde_json::Error },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl AssembleError {
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}
