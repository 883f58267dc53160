//! What a result was measured on: the servers as they describe themselves, their GPUs and engines, the client, the
//! manifest. Pure data, and the queries that fill in the part about servers.
//!
//! Everything is queried, nothing is assumed: what a server does not report is absent. Answers are bounded in size and
//! time, and keys and credentials are never part of them.

mod bounded_text;
mod changes;
mod describe;
mod difference;
mod http;
mod kserve;
mod model_facts;
mod openai;
mod query;
mod readiness;
mod run_identity;
mod server_identity;

pub(super) use changes::changes as server_changes;
pub use changes::changes_of_servers;
pub use difference::{IdentityDifference, identity_differences};
pub use query::{query_identities, query_identity};
pub use readiness::{ServerNotReady, readiness};
pub use run_identity::{EngineIdentity, GpuIdentity, HostIdentity, ManifestIdentity, RunIdentity};
pub use server_identity::{ServerIdentity, Simulation};
