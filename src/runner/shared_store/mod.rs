//! What machines share: outputs that one has made and another need not make again, in a store that both can reach.
//!
//! ```text
//!  runner ─fetch(key)→ record? ─→ its files: here already │ from the store ─→ every digest checked
//!                                                                           ─→ accepted as if made here
//!  runner ─offer(record)→ queue ─→ files that are not there yet ─→ the record, last, unless the store has one
//! ```
//!
//! # What is in a store
//!
//! ```text
//! regatta-1/records/ab/<name>   one for each output: the key with its fields, digests, the list of files; sealed,
//!                               and signed where a key is named
//! regatta-1/records/ab/<name>.v2  a record in the form of a newer program, which this one leaves alone
//! regatta-1/blobs/ab/<digest>   the bytes of a file, by their BLAKE3 digest: equal files are there once
//! regatta-1/tmp/…               in a folder only: what is being written
//! ```
//!
//! A record's *name* is the digest of the key and of what else ties an output to a kind of machine ([`Machine`]): so an
//! engine that was built for one GPU is not found by a machine with another.
//!
//! # What never happens
//!
//! A store that is away, full, or not readable for us is one warning; the run goes on with what is here. A byte that
//! differs from the record is not accepted. A measurement of another machine does not stand for one of this machine
//! ([`why_not`]). Where keys are named, a record without a signature by one of them is not used ([`SignaturePolicy`]).
//! Credentials come from where their owners keep them (environment, instance metadata), and are not printed, logged or
//! kept.
//!
//! # Why no `LocalFileSystem`
//!
//! `object_store`'s own folder store takes a `link` that was answered twice for a file of another writer, leaves the
//! halves of killed writers where no listing shows them and nothing removes them, and knows nothing of stale handles or
//! of names that the server has and this client does not see yet. A folder of machines is an NFS more often than not;
//! `folder` is written for that.

mod bucket;
mod folder;
mod gc;
#[cfg(feature = "buckets")]
mod objects;
mod pull;
mod push;
mod record;
#[cfg(all(test, feature = "buckets"))]
mod simulated_world;
mod store;

pub use bucket::{SharedStoreError, StoreAddress};
pub use gc::{RetentionPolicy, StoreGcReport, collect};
pub use record::{Machine, MachineGpus, SignaturePolicy, UnknownGpus};
pub use store::{Inventory, Presence, SharedStore, UnsentOutputs, UploadOutcome, inventory, why_not};
