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

mod child;
mod clock;
mod ffi;
mod job;
mod own_percentiles;
mod reporter;
mod samples;
mod test_run;

pub use child::{ChildError, perform};
pub use clock::Moment;
pub use job::{ChildJob, ChildMessage, LibraryFacts, LibraryProbe, LoadgenTest};

/// The sources that are compiled together with LoadGen's, by name.
pub const SHIM: [(&str, &str); 3] = [
    ("shim.h", include_str!("shim/shim.h")),
    ("shim.cc", include_str!("shim/shim.cc")),
    ("shim.map", include_str!("shim/shim.map")),
];
