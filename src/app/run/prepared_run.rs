//! A run that may begin: everything that its command line and its manifest decide.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use super::kept_servers::KeptServers;
use super::signals::StopSignals;
use crate::cli::{KeyValueArg, LockMode};
use crate::earlier_runs::EarlierRun;
use crate::lockfile;
use crate::project::Project;
use base::files::Digest;
use plan::Plan;
use report::LiveOptions;
use runner::RunOptions;
use runner::shared_store::{SignaturePolicy, StoreAddress};
use runner::store::CompilerId;

pub(super) struct PreparedRun {
    pub project: Project,
    pub plan: Arc<Plan>,
    pub options: RunOptions,
    pub compiler: CompilerId,
    /// The digest of the stored plan.
    pub compiled: Option<Digest>,
    /// What an earlier run of the same plan looked at.
    pub earlier: Option<EarlierRun>,
    pub manifest: String,
    pub settings: Vec<KeyValueArg>,
    pub display_options: LiveOptions,
    pub begun: Instant,
    /// On the nodes of an allocation already.
    pub in_place: bool,
    /// The shared store, and whose signatures count there.
    pub store: Option<(StoreAddress, SignaturePolicy)>,
    pub locking: LockMode,
    pub lock_report: lockfile::command::LockReport,
    /// The servers that stay up.
    pub kept_servers: Option<KeptServers>,
    /// It does not wait for a run that keeps its servers up.
    pub gives_way: bool,
    pub signals: StopSignals,
    /// Where to write JUnit XML.
    pub junit: Option<PathBuf>,
    pub metrics_listen: Option<String>,
}
