//! Limits that all transports keep to.

use std::time::Duration;

pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The limit of a name or id that a server sent, in an example.
pub(crate) const LONGEST_NAME: usize = 80;
