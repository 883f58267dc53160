//! Points at a place in a text and reports what is wrong and what to try.
//!
//! A leaf: it has no dependency on YAML, manifests or Triton. It never prints; [`Diagnostics::render`] returns text.

mod check_formats;
mod diagnostic;
mod error_text;
mod render;
mod source;

pub use check_formats::{CheckProblem, CheckedManifest, ProblemPlace, check_github, check_json};
pub use diagnostic::{Diagnostic, Diagnostics, Label, MOST_ERRORS, MissingValue, Severity};
pub use error_text::{
    ErrorText, FeatureLeftOut, LibraryPanic, catch_panic, did_you_mean, error_chain, in_file, is_panic_caught, list_of,
    may_suggest, nearest, panic_text, with_causes,
};
pub use source::{SourceText, Span};
