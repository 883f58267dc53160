//! Where a value of a manifest came from.

use std::fmt;

use base::diag::Span;

/// Where a value came from.
#[derive(Clone, Debug)]
pub enum ValueOrigin {
    CommandLine,
    Environment(String),
    Default(Span),
    File(Span),
}

impl fmt::Display for ValueOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommandLine => f.write_str("command line"),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Default(span) => write!(f, "default, {span}"),
            Self::File(span) => span.fmt(f),
        }
    }
}
