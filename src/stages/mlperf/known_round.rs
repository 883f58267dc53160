//! A round by its name.

use base::event::{Failure, FailureKind};
use rules::Round;

/// A round by its name.
pub(super) fn round(name: &str) -> Result<Round, Failure> {
    Round::named(name).ok_or_else(|| {
        Failure::new(FailureKind::Refused, format!("there is no round `{name}` here"))
            .hint(format!("known are: {}", Round::NAMES.join(", ")))
    })
}
