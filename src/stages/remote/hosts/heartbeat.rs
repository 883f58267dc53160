//! Intervals of the heartbeats between a run and its hosts.

use std::time::Duration;

/// Interval of each side's heartbeats.
pub(super) const BEAT: Duration = Duration::from_secs(1);

/// A host that has sent nothing for this long is lost.
pub(super) const SILENT: Duration = Duration::from_secs(5);

/// An agent that has received nothing for this long has lost its run.
pub(super) const DESERTED: Duration = Duration::from_secs(8);
