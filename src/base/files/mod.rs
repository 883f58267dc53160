//! Reads files: whole, bounded and only where they have an end; their digests; and when one counts as absent.
//!
//! Every room may use it. Outside of it no code reads a whole file by itself: what is at a path
//! may be a pipe, a device, or larger than memory.

mod absence;
mod digest;
mod file_digest;
mod regular_file;
mod sha256;
mod system_folders;
mod thread_pool;
mod whole_json;

pub use absence::{is_absence, metadata_if_there};
pub use digest::{Digest, Hasher};
pub use regular_file::{open_regular, open_text, read_bytes, read_bytes_up_to, read_text, read_text_up_to, text_of};
pub use sha256::{Sha256Of, sha256_of_file};
pub use system_folders::SYSTEM_FOLDERS;
pub use thread_pool::{cores, shared_pool};
pub use whole_json::is_whole_json;
