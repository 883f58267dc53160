//! What a verdict counts beside the numbers of the result.

use crate::ServerIdentity;
use base::event::ReducedSetting;

#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// The run was stopped before its end.
    pub was_stopped: bool,
    /// Why a server was lost.
    pub server_lost: Option<String>,
    /// What the servers had less of than the manifest sets.
    pub lowered: Vec<ReducedSetting>,
    /// The servers before the first request; after the last answer they are in the result's identity.
    pub servers_before: Vec<ServerIdentity>,
}
