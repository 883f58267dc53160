//! MLPerf's own LoadGen drives the harness: it says when samples are asked for, and hears of first tokens and answers.
//!
//! ```text
//!  stage ─job file→ child process:  LoadGen's thread ─issue→ harness::Inlet ─→ workers ─→ servers
//!                                   reporter's thread ←─ Ear ←───────────────────┘
//!                                       └─ first tokens, completions → LoadGen
//! ```
//!
//! One test is one process: LoadGen keeps its rules from a second one. All of its calls for samples come on one thread, and
//! all that it hears of them comes from one other, which is joined before the process ends. `ffi` is the only file of the
//! program with `unsafe`.

mod beside;
mod child;
mod ffi;
mod job;
mod moment;
mod race;
mod reporter;
mod samples;

pub use child::{ChildError, perform};
pub use job::{ChildJob, ChildMessage, LibraryProbe, LibraryFacts, LoadgenTest};
pub use moment::Moment;

/// The sources that are compiled together with LoadGen's, by name.
pub const SHIM: [(&str, &str); 3] = [
    ("shim.h", include_str!("shim/shim.h")),
    ("shim.cc", include_str!("shim/shim.cc")),
    ("shim.map", include_str!("shim/shim.map")),
];
