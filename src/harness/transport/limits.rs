//! Limits that all transports keep to.

use std::time::Duration;

pub(in crate::harness) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// No new connection to a dead server is tried within this time: its requests fail at once.
pub(in crate::harness) const RETRY_AFTER: Duration = Duration::from_millis(500);
/// The limit of a name or id that a server sent, in an example.
pub(in crate::harness) const LONGEST_NAME: usize = 80;
