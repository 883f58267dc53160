//! Reads files: whole, bounded, and only where they have an end; their digests; when one counts as absent; and work on
//! several threads.
//!
//! Every room may use it. Outside of it no code reads a whole file by itself: what is at a path
//! may be a pipe, a device, or larger than memory.

mod digest;
mod regular_file;

pub use digest::{Digest, Hasher, Sha256Of, cores, in_parts, sha256_of_file, shared_pool};

pub use regular_file::{
    MOST_DESCRIBED, RecordLines, SYSTEM_FOLDERS, foreign_text, is_absence, is_too_long_a_report, is_whole_json,
    json_report, metadata_if_there, open_regular, open_text, parse_yaml, read_bytes, read_bytes_up_to,
    read_description, read_document, read_text, read_text_up_to, text_of,
};
