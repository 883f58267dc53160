//! Failures that several steps have in common.

use std::path::Path;

use base::event::{Failure, FailureKind};

pub(super) fn refused(what: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Refused, what)
}

pub(super) fn stopped() -> Failure {
    Failure::new(FailureKind::Interrupted, "stopped; downloaded parts are kept, and the next run continues from there")
}

pub(super) fn system(path: &Path, error: &std::io::Error) -> Failure {
    let failure = Failure::new(FailureKind::System, format!("{}: {error}", path.display()));
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => failure.cause("the disk is full"),
        _ => failure,
    }
}
