//! How two identities of a server, or of a measurement, differ.

use super::describe::short;
use super::{RunIdentity, ServerIdentity};

impl RunIdentity {
    /// Where the servers of a later run of the same measurement differ: `10.0.0.5:8000: version 0.8.5 / 0.8.6`.
    pub fn changes(&self, later: &Self) -> Vec<String> {
        changes_of_servers(&self.servers, &later.servers)
    }
}

/// See [`RunIdentity::changes`]. A server that did not answer is left out.
pub fn changes_of_servers(before: &[ServerIdentity], after: &[ServerIdentity]) -> Vec<String> {
    let known = before.iter().zip(after).filter(|(one, now)| one.is_known() && now.is_known());
    known
        .flat_map(|(one, now)| changes(one, now).into_iter().map(|change| format!("{}: {change}", now.address)))
        .collect()
}

/// Values that a server reported differently after the measurement. A value reported only once is no change: answers may be late.
pub(crate) fn changes(before: &ServerIdentity, after: &ServerIdentity) -> Vec<String> {
    let text = |field: fn(&ServerIdentity) -> Option<String>| (field(before), field(after));
    let fields = [
        ("kind", text(|server| server.kind.clone())),
        ("version", text(|server| server.version.clone())),
        ("model source", text(|server| server.model_source.clone())),
        ("backend", text(|server| server.backend.clone())),
        ("maximal batch size", text(|server| server.max_batch_size.map(|size| size.to_string()))),
        ("model metadata", text(|server| server.metadata_digest.as_deref().map(|digest| short(digest).to_owned()))),
        ("engine", text(|server| server.engine_path.clone())),
    ];
    let changed = fields.into_iter().filter_map(|(name, values)| match values {
        (Some(before), Some(after)) if before != after => Some(format!("{name} {before} / {after}")),
        _ => None,
    });
    changed.collect()
}
