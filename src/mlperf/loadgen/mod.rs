//! MLPerf's own LoadGen drives the harness: it issues samples, and receives first tokens and answers.
//!
//! ```text
//!  stage ─orders→ child process:    LoadGen's thread ─issue→ harness::CallInlet ─→ workers ─→ servers
//!                                   reporter's thread ←─ ExternalObserver ←───────────┘
//!                                       └─ first tokens, completions → LoadGen
//! ```
//!
//! One test is one process: LoadGen would keep its settings for a second one. It issues all samples on one thread, and
//! receives all reports from one other, which is joined before the process ends. `ffi` is the only file of the
//! program with `unsafe`.

mod child;
mod ffi;
mod reporter;
mod test_run;

pub use child::{ChildError, ChildMessage, ChildOrders, LibraryFacts, LibraryProbe, LoadgenTest, perform};
pub use test_run::MonotonicTime;

/// The sources that are compiled together with LoadGen's, by name.
pub const SHIM: [(&str, &str); 3] = [
    ("shim.h", include_str!("shim/shim.h")),
    ("shim.cc", include_str!("shim/shim.cc")),
    ("shim.map", include_str!("shim/shim.map")),
];
